/* See proxies.h. */
#include "server/http/proxies.h"

#include "proto/digits.h"
#include "proto/text.h"

#include <string.h>

enum {
    ADDRESS_TEXT = 64 /* "[address]:port" */
};

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned whole = bits / 8;
    unsigned rest = bits % 8;
    return memcmp(a, b, whole) == 0 &&
           (rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0);
}

bool proxies_trust(const struct proxies *proxies, const struct address *address)
{
    if (address->family == AF_UNIX) {
        return proxies->local;
    }
    for (size_t i = 0; i < proxies->count; i++) {
        const struct proxy_network *network = &proxies->networks[i];
        if (network->address.family == address->family &&
            same_bits(network->address.bytes, address->bytes, network->bits)) {
            return true;
        }
    }
    return false;
}

static bool parse_network(const char *text, struct proxy_network *out)
{
    char address[ADDRESS_TEXT];
    size_t length = strcspn(text, "/");
    if (length >= sizeof address) {
        return false;
    }
    memcpy(address, text, length);
    address[length] = '\0';
    if (!address_parse(address, &out->address)) {
        return false;
    }
    const unsigned all = out->address.family == AF_INET ? 32 : 128;
    out->bits = all;
    if (text[length] == '/') {
        const char *digits = text + length + 1;
        const bool padded = digits[0] == '0' && digits[1] != '\0'; /* may be meant as octal */
        uint64_t bits = 0;
        if (padded || !digits_are_all(digits, strlen(digits), &bits) || bits > all) {
            return false;
        }
        out->bits = (unsigned)bits;
    }
    return true;
}

enum status proxies_parse(const struct config_list *list, struct proxies *out,
                          struct error *err)
{
    struct proxies found = {.count = 0};
    for (size_t i = 0; i < list->count; i++) {
        const char *text = list->items[i];
        if (strcmp(text, "unix") == 0) {
            found.local = true;
        } else if (!parse_network(text, &found.networks[found.count++])) {
            return error_set(err, STATUS_INVALID_FIELD,
                             "--trusted-proxies: \"%.60s\" is no address or network; expected "
                             "10.0.0.0/8, fd00::/8, 192.0.2.1 or unix",
                             text);
        }
    }
    *out = found;
    return STATUS_OK;
}

/* Read the last entry of the first `bytes` bytes of a list: an address, with or without a port.
 * *left is the length of the list before this entry. Returns false if the entry is not an
 * address. */
static bool read_last_entry(const char *list, size_t bytes, struct address *out, size_t *left)
{
    char text[ADDRESS_TEXT];
    size_t begin = bytes;
    while (begin > 0 && list[begin - 1] != ',') {
        begin--;
    }
    *left = begin == 0 ? 0 : begin - 1;
    while (begin < bytes && text_is_space(list[begin])) {
        begin++;
    }
    const size_t length = text_trimmed(list + begin, bytes - begin);
    if (length == 0 || length >= sizeof text) {
        return false;
    }
    memcpy(text, list + begin, length);
    text[length] = '\0';
    char *address = text;
    if (text[0] == '[') {
        char *end = strchr(text, ']');
        if (end == NULL) {
            return false;
        }
        *end = '\0';
        address++;
    } else if (strchr(text, ':') == strrchr(text, ':')) {
        address[strcspn(address, ":")] = '\0'; /* one colon: an IPv4 address with its port */
    }
    return address_parse(address, out);
}

bool proxies_client(const struct proxies *proxies, const char *const *forwarded, size_t count,
                    struct address *client, bool *local)
{
    bool found = false;
    for (size_t i = count; i-- > 0;) {
        size_t left = strlen(forwarded[i]);
        do {
            struct address before;
            const bool trusted = proxies_trust(proxies, client);
            if (!trusted || !read_last_entry(forwarded[i], left, &before, &left)) {
                *local = *local && found && !trusted;
                return found; /* the last address that a trusted source names */
            }
            *client = before;
            *local = *local && address_is_local(client);
            found = true;
        } while (left > 0);
    }
    return found;
}
