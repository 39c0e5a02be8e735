/* Who sends requests: a record for each client that has a connection open. A client is known by
 * the name of its token, else by the subject of its certificate, else by its address (IPv6: the
 * /64 network); all that come through Unix sockets are one.
 *
 * Everything that is shared out between clients hangs on this record: how many requests it has
 * under way (--per-client-requests), the memory they count for (--per-client-memory), the time
 * that its bytes are good for (--per-client-bytes-per-s), and its place in each line of waiting
 * requests (line.h).
 *
 * Life: clients_get() once a connection, for its address, clients_named() when a request says more;
 * client_release() when that is over. Whoever can outlive the connection holds a reference of its
 * own (client_hold()). A record that nobody holds stays while its client has sent more than its
 * rate allows, so that to connect again is no way out. Thread: any. */
#ifndef TALLY_SERVER_CLIENT_H
#define TALLY_SERVER_CLIENT_H

#include "proto/status.h"
#include "server/sched/line.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct address;
struct conn;
struct clients; /* opaque: the table of all */

TAILQ_HEAD(client_conns, conn);

struct client {
    atomic_uint_fast64_t connections;  /* places that it holds (server/http/places.h) */
    atomic_uint_fast64_t requests;     /* under way */
    atomic_uint_fast64_t memory_bytes; /* that its requests count for */
    atomic_uint_fast64_t
        page_bytes; /* of pages that it has not read (server/http/exchange.c) */
    atomic_uint_fast64_t request_ns;    /* how long its requests took lately, ... */
    atomic_uint_fast64_t memory_ns;     /* ... and how long they held their memory */
    atomic_uint_fast64_t sent_until_ns; /* at its rate, what it has sent takes until then */
    atomic_uint_fast64_t ahead;         /* ticket of the body that took it past its second */
    /* Guarded by the lock of admission.c: */
    uint64_t claimed_bytes;  /* claims of its large requests */
    size_t places;           /* its large requests that have a place, ... */
    uint64_t placed_cost_ns; /* ... and the cost of these */
    struct line_flow flows[LINE_COUNT][LINE_CLASSES]; /* guarded by the lock of each line */
    /* Guarded by the lock of server/http/places.c: connections that wait for a place, the link among
     * clients with as many places, and the connections, in the order of evictions. */
    size_t waiting;
    LIST_ENTRY(client) count_link;
    struct client_conns conns;
    uint64_t key[2];         /* constant */
    const char *name;        /* constant, behind the record; "": known by its address */
    struct clients *clients; /* borrowed */
    size_t references;       /* guarded by the table's lock */
    struct client *next;     /* likewise */
};

MUST_CHECK enum status clients_create(struct clients **out, struct error *err);
void clients_destroy(struct clients *clients); /* every reference is back; NULL is fine */

/* What a name is the name of; two of different kinds are two clients. */
enum client_kind {
    CLIENT_TOKEN = 1 << 16, /* above every address family */
    CLIENT_CERTIFICATE
};

/* The client of this name. NULL: no memory. */
struct client *clients_named(struct clients *clients, enum client_kind kind, const char *name);
/* The client at this address. NULL: no memory. */
struct client *clients_get(struct clients *clients, const struct address *address);
void client_hold(struct client *client);
void client_release(struct client *client); /* NULL is fine */

/* Where these three refuse, nothing is counted, and *wait_ns is how long the client should wait:
 * for requests and memory by how long those that it has took lately, 0 if none has ended. */

/* Count one more request, unless it has `most` under way. True: client_end_request() is due. */
MUST_CHECK bool client_begin_request(struct client *client, uint64_t most, uint64_t *wait_ns);
void client_end_request(struct client *client, uint64_t took_ns);

/* Count bytes of memory, unless it then had more than `most`, which bytes is not. */
MUST_CHECK bool client_take_memory(struct client *client, uint64_t bytes, uint64_t most,
                                   uint64_t *wait_ns);
void client_give_memory(struct client *client, uint64_t bytes, uint64_t held_ns);

/* Count bytes of a body that it sends: all of them before they come, or each piece as it does.
 * Whoever is no second ahead of `rate` may send a body of any length; then that body may go on,
 * piece by piece, and all others wait for it.
 * body   ticket of its request
 * rate   bytes a second */
MUST_CHECK bool client_may_send(struct client *client, uint64_t body, uint64_t bytes,
                                uint64_t rate, uint64_t now_ns, uint64_t *wait_ns);
/* Of those that were counted at once no more than these came. */
void client_sends_less(struct client *client, uint64_t counted, uint64_t came, uint64_t rate);

#endif
