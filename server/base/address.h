/* Where a connection comes from, without its port: what logs, limits and tokens know of it.
 * Pure. Thread: any. */
#ifndef TALLY_SERVER_ADDRESS_H
#define TALLY_SERVER_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct address {
    int family; /* AF_INET, AF_INET6, AF_UNIX: a Unix socket, or another that says nothing */
    uint8_t bytes[16]; /* as they are sent; of IPv4 the first four; 0 behind them */
};

/* An address of IPv4 that is written as one of IPv6, as sockets for both have it
 * (::ffff:192.0.2.1), becomes what it is. */
struct address address_of(const struct sockaddr_storage *peer);

/* Read "192.0.2.1" or "2001:db8::1". */
bool address_parse(const char *text, struct address *out);

/* The address as text, "unix" for a Unix socket. */
void address_text(const struct address *address, char *text, size_t room);

/* Whether it is on this machine. */
bool address_is_local(const struct address *address);

/* A number for who has it, among those of its family: of IPv6 its /64 network. */
uint64_t address_owner(const struct address *address);

#endif
