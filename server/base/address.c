/* See address.h. */
#include "server/base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* Returns the IPv6 address, or the IPv4 address that is mapped to it. */
static struct address unmapped(const struct in6_addr *v6)
{
    struct address address = {.family = AF_INET6};
    if (IN6_IS_ADDR_V4MAPPED(v6)) {
        address.family = AF_INET;
        memcpy(address.bytes, v6->s6_addr + 12, 4);
    } else {
        memcpy(address.bytes, v6->s6_addr, sizeof address.bytes);
    }
    return address;
}

struct address address_of(const struct sockaddr_storage *peer)
{
    struct address address = {.family = peer->ss_family};
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (peer->ss_family == AF_INET) {
        memcpy(&v4, peer, sizeof v4);
        memcpy(address.bytes, &v4.sin_addr, sizeof v4.sin_addr);
    } else if (peer->ss_family == AF_INET6) {
        memcpy(&v6, peer, sizeof v6);
        address = unmapped(&v6.sin6_addr);
    }
    return address;
}

bool address_parse(const char *text, struct address *out)
{
    struct in6_addr v6;
    struct address v4 = {.family = AF_INET};
    if (inet_pton(AF_INET, text, v4.bytes) == 1) {
        *out = v4;
        return true;
    }
    if (inet_pton(AF_INET6, text, &v6) == 1) {
        *out = unmapped(&v6);
        return true;
    }
    return false;
}

void address_text(const struct address *address, char *text, size_t room)
{
    text[0] = '\0';
    if (address->family == AF_UNIX) {
        (void)snprintf(text, room, "unix");
    } else {
        (void)inet_ntop(address->family, address->bytes, text, (socklen_t)room);
    }
}

bool address_is_local(const struct address *address)
{
    static const uint8_t loopback[16] = {[15] = 1};
    return address->family == AF_UNIX ||
           (address->family == AF_INET && address->bytes[0] == 127) ||
           (address->family == AF_INET6 &&
            memcmp(address->bytes, loopback, sizeof loopback) == 0);
}

uint64_t address_owner(const struct address *address)
{
    uint64_t number = 0;
    memcpy(&number, address->bytes, sizeof number);
    return number;
}
