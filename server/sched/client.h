/* Clients: one record for each client that has an open connection. A client is identified by
 * the name of its token, else by the subject of its certificate, else by its address (IPv6: the
 * /64 network). All connections through Unix sockets belong to one client.
 *
 * The record holds the state of all limits and fairness rules of the client: its requests in
 * flight (--per-client-requests), the memory charged for them (--per-client-memory), its
 * sending rate (--per-client-bytes-per-s), and its flows in each line of waiting requests
 * (line.h).
 *
 * Life: a connection gets a reference by clients_get() for its address; a request with a token
 * or a certificate gets one by clients_named(). client_release() gives a reference back. An
 * object that can outlive the connection holds a reference of its own (client_hold()). A record
 * without references is kept while its client is ahead of its rate, so that a new connection
 * does not reset the rate limit. Thread: any. */
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
struct clients; /* opaque: the table of all clients */

TAILQ_HEAD(client_conns, conn);

struct client {
    atomic_uint_fast64_t connections; /* number of the client's places (server/http/places.h) */
    atomic_uint_fast64_t requests;    /* number of the client's requests in flight */
    atomic_uint_fast64_t memory_bytes; /* bytes of memory charged for the client's requests */
    atomic_uint_fast64_t page_bytes;   /* unread bytes of pages (http/exchange.c) */
    atomic_uint_fast64_t request_ns;   /* mean duration of the client's recent requests */
    atomic_uint_fast64_t memory_ns; /* mean time for which recent requests held their memory */
    /* time at which the client would have sent its bytes so far at the allowed rate; in the
     * future: the client is ahead of its rate */
    atomic_uint_fast64_t sent_until_ns;
    /* ticket of the body that may continue although the client is over a second ahead */
    atomic_uint_fast64_t ahead;
    /* Guarded by the lock of admission.c: */
    uint64_t claimed_bytes;  /* claims of the client's large requests */
    size_t places;           /* number of the client's large requests that have a place */
    uint64_t placed_cost_ns; /* cost of the requests that have a place */
    struct line_flow flows[LINE_COUNT][LINE_CLASSES]; /* guarded by the lock of each line */
    /* Guarded by the lock of server/http/places.c: */
    size_t waiting; /* number of the client's connections that wait for a place */
    LIST_ENTRY(client) count_link; /* link in the list of clients with equally many places */
    struct client_conns conns;     /* in the order in which the next eviction examines them */
    uint64_t key[2];               /* constant */
    /* constant, stored behind the record; "": the address identifies the client */
    const char *name;
    struct clients *clients; /* borrowed */
    size_t references;       /* guarded by the table's lock */
    struct client *next;     /* link of the bucket; guarded by the table's lock */
};

MUST_CHECK enum status clients_create(struct clients **out, struct error *err);
void clients_destroy(struct clients *clients); /* no references are left; NULL is fine */

/* Kinds of names; equal names of different kinds are two clients. */
enum client_kind {
    /* greater than every AF_ constant; these are the kinds of clients without a name */
    CLIENT_TOKEN = 1 << 16,
    CLIENT_CERTIFICATE
};

/* Return the client of this name, or at this address, with a reference for the caller; NULL: no
 * memory. */
struct client *clients_named(struct clients *clients, enum client_kind kind, const char *name);
struct client *clients_get(struct clients *clients, const struct address *address);
void client_hold(struct client *client);
void client_release(struct client *client); /* NULL is fine */

/* The next three functions return false if they count nothing. Then *wait_ns is the time after
 * which the client should try again. For requests and memory this is an estimate from recent
 * requests of the client; 0 if no request has ended yet. */

/* Count one more request, unless `most` requests of the client are in flight. Returns true if
 * the request was counted; then the caller must call client_end_request() when the request has
 * ended. */
MUST_CHECK bool client_begin_request(struct client *client, uint64_t most, uint64_t *wait_ns);
void client_end_request(struct client *client, uint64_t took_ns);

/* Count bytes of memory, unless the memory of the client's requests would exceed `most` bytes.
 * Requires bytes <= most. */
MUST_CHECK bool client_take_memory(struct client *client, uint64_t bytes, uint64_t most,
                                   uint64_t *wait_ns);
void client_give_memory(struct client *client, uint64_t bytes, uint64_t held_ns);

/* Count bytes of a body: all bytes before they arrive, or each piece as it arrives. A client
 * that is less than a second ahead of `rate` may begin a body of any length. This body may
 * continue, piece by piece, while the client's other bodies wait.
 * body   ticket of the request
 * rate   bytes per second */
MUST_CHECK bool client_may_send(struct client *client, uint64_t body, uint64_t bytes,
                                uint64_t rate, uint64_t now_ns, uint64_t *wait_ns);
/* Correct the count of a body: `counted` bytes were counted before the body arrived, but only
 * `received` bytes arrived. */
void client_sends_less(struct client *client, uint64_t counted, uint64_t received,
                       uint64_t rate);

#endif
