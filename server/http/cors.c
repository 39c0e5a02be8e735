/* See cors.h. */
#include "server/http/cors.h"

#include "proto/digits.h"
#include "server/base/config.h"

#include <stdbool.h>
#include <string.h>

/* Header fields of requests that a page may set: all fields that the service reads, except
 * fields that browsers set themselves. Authorization must be named, because "*" does not
 * include it. */
static const char request_fields[] =
    "Authorization, Content-Type, Content-Encoding, Accept, If-None-Match, "
    "Inference-Header-Content-Length, Tally-Carry-Length, Tally-Offsets-Length, X-Request-Id, "
    "X-Request-Priority, X-Request-Timeout-Ms, traceparent, tracestate";

/* Header fields of answers that a page may read, in addition to the fields that every page may
 * read. */
static const char answer_fields[] =
    "Allow, ETag, Inference-Header-Content-Length, Retry-After, Server-Timing, "
    "Tally-Carry-Length, Tally-Dtype, Tally-Shape, WWW-Authenticate, X-Request-Id, traceparent";

/* The limit of Chromium, which repeats a preflight after two hours even if the value is
 * larger. */
static const char remember_seconds[] = "7200";

enum {
    ORIGIN_BYTES = 300 /* longest origin; a host name has at most 253 bytes */
};

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

static bool allows_all(const struct config_list *origins)
{
    return origins->count == 1 && strcmp(origins->items[0], "*") == 0;
}

/* Returns the reason why no browser can send this text as Origin; NULL: a browser may send
 * it. */
static const char *origin_fault(const char *text)
{
    if (strcmp(text, "null") == 0) {
        return "every sandboxed page and every file has this origin";
    }
    if (strlen(text) > ORIGIN_BYTES) {
        return "no host has so long a name";
    }
    if (strchr(text, '*') != NULL) {
        return "* stands for all origins, alone, and not for a part of one";
    }
    if (strpbrk(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != NULL) {
        return "browsers send an origin in lower case";
    }
    size_t scheme = strspn(text, LOWER DIGITS "+.-");
    if (scheme == 0 || strncmp(text + scheme, "://", 3) != 0) {
        return "the scheme is missing or malformed";
    }
    const char *host = text + scheme + 3;
    size_t host_bytes = strcspn(host, ":/");
    if (host[0] == '[') {
        host_bytes = 1 + strspn(host + 1, DIGITS "abcdef:.");
        host_bytes += host[host_bytes] == ']';
    } else if (strspn(host, LOWER DIGITS "._-") < host_bytes) {
        return "no host has such a name; names beyond ASCII are written as xn--";
    }
    const char *end = host + host_bytes;
    if (strchr(host, '/') != NULL) {
        return "an origin ends with its host and port, without a slash and a path";
    }
    if (host_bytes == 0 || (host[0] == '[' && end[-1] != ']')) {
        return "the host is missing";
    }
    if (end[0] == '\0') {
        return NULL;
    }
    const char *port = end + 1;
    uint64_t number = 0;
    if (end[0] != ':' || !digits_are_all(port, strlen(port), &number) || number > 65535 ||
        number == 0 || port[0] == '0') {
        return "after the host only a colon and a port from 1 to 65535 may follow";
    }
    const bool is_default = number == (strncmp(text, "http:", 5) == 0    ? 80
                                       : strncmp(text, "https:", 6) == 0 ? 443
                                                                         : 0);
    return is_default ? "browsers leave out port 80 of http and 443 of https" : NULL;
}

enum status cors_check(const struct config_list *origins, struct error *err)
{
    for (size_t i = 0; !allows_all(origins) && i < origins->count; i++) {
        const char *fault = origin_fault(origins->items[i]);
        if (fault != NULL) {
            return error_set(err, STATUS_INVALID_FIELD,
                             "--cors-origins: \"%.80s\" cannot be on the list: %s; expected "
                             "scheme://host[:port], such as https://app.example or "
                             "http://localhost:5173, or * alone for every page there is",
                             origins->items[i], fault);
        }
    }
    return STATUS_OK;
}

const char *cors_allowed(const struct config_list *origins, const char *origin)
{
    if (origin == NULL || allows_all(origins)) {
        return origin == NULL ? NULL : "*";
    }
    for (size_t i = 0; i < origins->count; i++) {
        if (strcmp(origins->items[i], origin) == 0) {
            return origins->items[i];
        }
    }
    return NULL;
}

size_t cors_fields(const struct config_list *origins, const char *allowed, const char *methods,
                   struct page_field fields[CORS_FIELDS_MAX])
{
    size_t count = 0;
    if (origins->count > 0 && !allows_all(origins)) {
        /* "If Access-Control-Allow-Origin is set ... dynamically, include Origin in Vary"
         * (Fetch, CORS protocol and HTTP caches), even in an answer without
         * Access-Control-Allow-Origin. */
        fields[count++] = (struct page_field){"Vary", "Origin"};
    }
    if (allowed == NULL) {
        return count;
    }
    fields[count++] = (struct page_field){"Access-Control-Allow-Origin", allowed};
    if (methods == NULL) {
        fields[count++] = (struct page_field){"Access-Control-Expose-Headers", answer_fields};
        return count;
    }
    fields[count++] = (struct page_field){"Access-Control-Allow-Methods", methods};
    fields[count++] = (struct page_field){"Access-Control-Allow-Headers", request_fields};
    fields[count++] = (struct page_field){"Access-Control-Max-Age", remember_seconds};
    return count;
}
