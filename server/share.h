/* How many requests each client address has in flight, to give none more than its share
 * (--per-client-requests). One small table for all loops. Thread: any. */
#ifndef TALLY_SERVER_SHARE_H
#define TALLY_SERVER_SHARE_H

#include "proto/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct share; /* opaque */

MUST_CHECK enum status share_create(uint64_t max_requests, struct share **out,
                                    struct error *err);
void share_destroy(struct share *share); /* NULL is fine */

/* Count one more request of this client, unless it has its share. IPv6 clients are counted by
 * their /64 network; clients on Unix sockets are not counted. share_give() only after true. */
MUST_CHECK bool share_take(struct share *share, const struct sockaddr_storage *client);
void share_give(struct share *share, const struct sockaddr_storage *client);

#endif
