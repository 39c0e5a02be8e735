/* Who stands behind a proxy: X-Forwarded-For, as far as proxies that are trusted
 * (--trusted-proxies) have written it.
 *
 * Each proxy appends whom it was asked by. So the list is read from its end while the one who says
 * so is trusted; the first that is not is the client, whatever stands before. From anybody else
 * the field means nothing. Pure. Thread: any. */
#ifndef TALLY_SERVER_PROXIES_H
#define TALLY_SERVER_PROXIES_H

#include "proto/status.h"
#include "server/base/address.h"
#include "server/base/config.h"

#include <stdbool.h>
#include <stddef.h>

struct proxies {
    size_t count;
    bool local; /* "unix": whoever connects to a Unix socket */
    struct proxy_network {
        struct address address;
        unsigned bits;
    } networks[CONFIG_LIST_MAX];
};

/* Read "10.0.0.0/8", "fd00::/8", "192.0.2.1", "unix".
 * err   INVALID_FIELD, naming the flag */
MUST_CHECK enum status proxies_parse(const struct config_list *list, struct proxies *out,
                                     struct error *err);

/* Whether whoever connects from this address is a trusted proxy. */
bool proxies_trust(const struct proxies *proxies, const struct address *address);

/* Who asks. forwarded are the fields of that name, which are one list: some proxies append to it,
 * others a field of their own. There is at least one.
 * in out   *client   the peer; whom the trusted proxies name instead, if they do: true
 * in out   *local    the peer is on this machine; so is everybody named up to the client. What
 *                    another machine calls its loopback is not here, and behind a proxy that is
 *                    not trusted, or that names nobody, may be anyone */
bool proxies_client(const struct proxies *proxies, const char *const *forwarded, size_t count,
                    struct address *client, bool *local);

#endif
