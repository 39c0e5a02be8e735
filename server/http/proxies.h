/* The client behind trusted proxies (--trusted-proxies), from X-Forwarded-For.
 *
 * Each proxy appends the address of its peer to the list. So the list is read from its end, as
 * long as the sender of an entry is a trusted proxy. The first address that is not trusted is
 * the client, and the entries before it are ignored. Without a trusted proxy the field is
 * ignored. Pure. Thread: any. */
#ifndef TALLY_SERVER_PROXIES_H
#define TALLY_SERVER_PROXIES_H

#include "proto/status.h"
#include "server/base/address.h"
#include "server/base/config.h"

#include <stdbool.h>
#include <stddef.h>

struct proxies {
    size_t count;
    bool local; /* "unix": every peer at a Unix socket is trusted */
    struct proxy_network {
        struct address address;
        unsigned bits; /* length of the prefix */
    } networks[CONFIG_LIST_MAX];
};

/* Parse the entries of --trusted-proxies: "10.0.0.0/8", "fd00::/8", "192.0.2.1", "unix".
 * err   INVALID_FIELD, naming the flag */
MUST_CHECK enum status proxies_parse(const struct config_list *list, struct proxies *out,
                                     struct error *err);

/* True if a peer with this address is a trusted proxy. */
bool proxies_trust(const struct proxies *proxies, const struct address *address);

/* Find the client of a request. Returns true if trusted proxies name one.
 * forwarded        the texts of all X-Forwarded-For fields, at least one; they form one list
 * in out   *client   the peer's address; replaced if trusted proxies name the client
 * in out   *local    in: the peer is on this machine. out: the client is on this machine; false
 *                  if trusted proxies do not name the client */
bool proxies_client(const struct proxies *proxies, const char *const *forwarded, size_t count,
                    struct address *client, bool *local);

#endif
