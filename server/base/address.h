/* The address of a client without its port, for logs, limits and tokens. Pure. Thread: any. */
#ifndef TALLY_SERVER_ADDRESS_H
#define TALLY_SERVER_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct address {
    int family; /* AF_INET, AF_INET6, AF_UNIX, or another family with all bytes 0 */
    /* in network byte order; IPv4 uses the first four bytes, the others are 0 */
    uint8_t bytes[16];
};

/* Returns the address of a peer. An IPv4 address that a socket for both families reports as
 * IPv6 (::ffff:192.0.2.1) becomes an IPv4 address. */
struct address address_of(const struct sockaddr_storage *peer);

/* Parse "192.0.2.1" or "2001:db8::1". Returns false if the text is not an address. */
bool address_parse(const char *text, struct address *out);

/* Print the address, "unix" for a Unix socket. */
void address_text(const struct address *address, char *text, size_t room);

/* Returns true for loopback addresses and Unix sockets. */
bool address_is_local(const struct address *address);

/* Returns a number that identifies the owner of the address within its family: for IPv4 the
 * address, for IPv6 its /64 network. */
uint64_t address_owner(const struct address *address);

#endif
