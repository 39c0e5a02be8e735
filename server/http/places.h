/* The places of connections (--max-connections), and how they are shared between clients.
 *
 * A client holds a place for each of its connections. As long as places are free, every newcomer
 * gets one. Once all are taken, newcomers are accepted all the same, because only accept() tells
 * whose they are; they wait in a short line, and connections are evicted for them:
 *
 *   1. A client that holds more places than the newcomer's client would hold then is above its
 *      equal part. Of the clients, the one with most places loses an idle connection, the one that
 *      has been idle for longest; without an idle one, the connection whose request arrived last.
 *   2. If no client is above its equal part, the connection that has been idle for longest is
 *      evicted, even the only one of its client.
 *   3. If no other client has an idle connection, an idle one of the newcomer's own client is.
 *   4. Otherwise the newcomer waits in the line until a connection ends. Every heartbeat evicts
 *      connections whose bytes move too slowly (deadlines.c).
 *
 * A free place goes to the newcomer whose client holds the fewest places. If the line is full,
 * the newcomer of the client with most places and newcomers is refused: one client cannot fill the
 * line. An evicted connection counts for nobody from then on, although libmicrohttpd needs a moment
 * to close it; the number of these is limited, as is the line, because they need descriptors.
 *
 * An eviction looks at LOOKS connections at most: beyond that number, the connection that has been
 * idle for longest is the one among those that were looked at, and the next eviction goes on behind
 * them.
 *
 * Possible failures: none but the lack of memory at the start. Thread: any; everything is guarded
 * by one lock, which is taken when a connection begins or ends, and not for requests. */
#ifndef TALLY_SERVER_PLACES_H
#define TALLY_SERVER_PLACES_H

#include "proto/status.h"
#include "server/sched/client.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

struct conn;
struct http_loop;

enum {
    PLACES_RESERVE = 64 /* newcomers in the line, and evicted connections that are still open */
};

/* A connection that was accepted and that no loop serves yet. */
struct newcomer {
    struct newcomer *next;      /* in the list of the loop that is to serve it */
    TAILQ_ENTRY(newcomer) link; /* in the line */
    struct client *client;      /* held */
    struct sockaddr_storage peer;
    socklen_t peer_bytes;
    int fd; /* owned */
    bool tls;
    bool probe; /* of --probe-listen: has no place, and needs none */
};

TAILQ_HEAD(conn_ring, conn);
TAILQ_HEAD(newcomer_line, newcomer);
LIST_HEAD(client_list, client);

struct places {
    pthread_mutex_t
        lock;       /* guards all that follows, and the places of clients and connections */
    size_t most;    /* constant: --max-connections */
    size_t reserve; /* constant: at most PLACES_RESERVE */
    size_t taken;   /* by connections that are open, or handed to the loop that opens them */
    size_t leaving; /* evicted connections that are still open */
    size_t richest; /* the most places that one client holds */
    struct client_list *by_count; /* owned: the clients that hold so many places; most + 1 */
    struct conn_ring ring;     /* open connections; those that were looked at last are last */
    struct newcomer_line line; /* owned */
    size_t line_count;
    uint64_t vain_until_ns; /* until then no connection is looked for ... */
    uint64_t vain_count;    /* ... for clients that would hold this many places or more */
};

/* err   OUT_OF_MEMORY */
MUST_CHECK enum status places_init(struct places *places, size_t most, size_t reserve,
                                   struct error *err);
/* The line is empty; a structure of zeros is fine. */
void places_deinit(struct places *places);

/* True if one more connection may be accepted. False: the line is full, and nobody may be refused:
 * `keeps_all` says so (a drain), or places are about to become free. */
bool places_can_accept(struct places *places, bool keeps_all);

enum places_answer {
    PLACES_TAKEN,     /* the newcomer has a place */
    PLACES_WAITS,     /* it is in the line, which owns it */
    PLACES_OVER_LIMIT /* its client has `limit` connections: the caller refuses it */
};

/* Give a newcomer a place, if there is one.
 * newcomer   allocated by the caller
 * limit      most connections of its client, 0: no limit */
enum places_answer places_ask(struct places *places, struct newcomer *newcomer, uint64_t limit);

/* The next newcomer of the line that has a place now, which the caller owns; NULL: none has.
 * may_evict   connections may be evicted for it
 * wake        the loop that has to be woken, because it has one more in loop->evicted; or NULL */
struct newcomer *places_next(struct places *places, bool may_evict, uint64_t now_ns,
                             struct http_loop **wake);

/* After places_next(): the newcomer to refuse, which the caller owns, because the line is longer
 * than it may be; NULL: nobody. */
struct newcomer *places_refuse(struct places *places);

/* The newcomer that waits longest, to close it; NULL: the line is empty. */
struct newcomer *places_drop_waiting(struct places *places);

/* A newcomer with a place becomes this connection; `conn->client` is set. */
void places_join(struct places *places, struct conn *conn);
/* The connection has ended. */
void places_leave(struct places *places, struct conn *conn);
/* A newcomer with a place could not become a connection. */
void places_give_back(struct places *places, struct client *client);

/* How many places the client of the next newcomer would hold, if one waits and no place is free;
 * 0: evict nobody. */
uint64_t places_wanted(struct places *places);
/* Evict this connection, whose bytes move too slowly: the caller cuts it. False: its client holds
 * fewer places than places_wanted(), or that is 0 by now, or the connection was evicted before. */
MUST_CHECK bool places_evict(struct places *places, struct conn *conn);

/* The next connection of a loop that was evicted, and is to be cut; NULL: there is none. */
struct conn *places_next_evicted(struct places *places, struct conn_ring *evicted);

/* Connections that are open, about to be, or in the line. */
size_t places_connections(struct places *places);

#endif
