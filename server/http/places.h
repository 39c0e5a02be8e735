/* The places of connections (--max-connections), and their distribution among clients.
 *
 * A client holds a place for each of its connections. While places are free, every newcomer (an
 * accepted connection without a place) gets one. When all places are used, newcomers are still
 * accepted, because only accept() tells the client's address. They wait in a short line, and
 * connections are evicted for them:
 *
 *   1. A client that holds more places than the newcomer's client would hold is above its equal
 *      part. The client with most places loses the connection that has been idle for longest;
 *      if none of its connections is idle, it loses the connection whose request arrived last.
 *   2. If no client is above its equal share, the connection that has been idle for longest is
 *      evicted, even if its client has no other.
 *   3. If no other client has an idle connection, an idle connection of the newcomer's client
 *      is evicted.
 *   4. Otherwise the newcomer waits until a connection ends. At every heartbeat, connections
 *      whose bytes move too slowly are evicted (deadlines.c).
 *
 * A free place is given to the newcomer whose client holds the fewest places. If the line is
 * full, a newcomer of the client with most places and newcomers is refused, so that one client
 * cannot fill the line. An evicted connection holds no place, although libmicrohttpd closes it
 * a moment later. The number of evicted connections that are still open is limited, as is the
 * line, because they use descriptors.
 *
 * An eviction examines at most LOOKS connections. If there are more, the connection that has
 * been idle for longest among those is evicted, and the next eviction examines the following
 * connections.
 *
 * Possible failure: no memory at the start. Thread: any. One lock guards everything; it is
 * locked when a connection begins or ends, and not for requests. */
#ifndef TALLY_SERVER_PLACES_H
#define TALLY_SERVER_PLACES_H

#include "proto/status.h"
#include "server/sched/client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

struct conn;
struct http_loop;

enum {
    PLACES_RESERVE = 64 /* limit of the line, and of evicted connections still open */
};

/* An accepted connection that no loop serves yet. */
struct newcomer {
    struct newcomer *next;      /* in http_loop.handed of the loop that will serve it */
    TAILQ_ENTRY(newcomer) link; /* in places.line */
    struct client *client; /* held; NULL: the reference belongs to the connection's record */
    struct sockaddr_storage peer;
    socklen_t peer_bytes;
    int fd; /* owned */
    bool tls;
    bool probe; /* a connection of --probe-listen, which needs no place */
};

TAILQ_HEAD(conn_ring, conn);
TAILQ_HEAD(newcomer_line, newcomer);
LIST_HEAD(client_list, client);

struct places {
    pthread_mutex_t
        lock;       /* guards the following fields, and the places of clients and connections */
    size_t most;    /* constant: --max-connections */
    size_t reserve; /* constant: limit of the line, and of evicted connections still open */
    size_t used;    /* places of connections that are open, or handed to their loop */
    atomic_size_t evicted; /* evicted connections that are still open; read without the lock */
    size_t richest;        /* largest number of places that one client holds */
    struct client_list *by_count; /* owned: [n], n <= most: the clients that hold n places */
    struct conn_ring ring; /* open connections; those that were examined last are at the end */
    struct newcomer_line line;   /* owned: newcomers that wait for a place */
    size_t line_count;           /* number of newcomers in the line */
    uint64_t no_victim_until_ns; /* until this time no search for a victim ... */
    uint64_t no_victim_count;    /* ... for a client that would hold this many places or more */
};

/* Initialize the places; most and reserve: see struct places.
 * err   OUT_OF_MEMORY */
MUST_CHECK enum status places_init(struct places *places, size_t most, size_t reserve,
                                   struct error *err);
/* Free the places, whose line is empty; a structure of zeros is fine. */
void places_deinit(struct places *places);

/* True if one more connection may be accepted. False if the line is full and no newcomer may be
 * refused: in a drain (`keep_all`), or because evicted connections are about to end. */
bool places_can_accept(struct places *places, bool keep_all);

enum places_answer {
    PLACES_TAKEN,     /* the newcomer has a place */
    PLACES_WAITS,     /* the newcomer is in the line, which owns it */
    PLACES_OVER_LIMIT /* the client has `limit` connections: the caller refuses the newcomer */
};

/* Request a place for a newcomer.
 * newcomer   allocated by the caller
 * limit      most connections of the newcomer's client; 0: no limit */
enum places_answer places_ask(struct places *places, struct newcomer *newcomer, uint64_t limit);

/* Returns the newcomer that gets the next place, which the caller owns; NULL: no place, or no
 * newcomer.
 * may_evict   a connection may be evicted for the newcomer
 * wake        set to the loop to wake, whose loop->evicted has a new entry; or to NULL */
struct newcomer *places_next(struct places *places, bool may_evict, uint64_t now_ns,
                             struct http_loop **wake);

/* Returns a newcomer to refuse, which the caller owns, if the line is too long after
 * places_next(); else NULL. */
struct newcomer *places_refuse(struct places *places);

/* Returns the newcomer that has waited for longest, which the caller owns; NULL: the line is
 * empty. */
struct newcomer *places_pop_waiting(struct places *places);

/* A newcomer with a place has become this connection; conn->client is set. */
void places_add(struct places *places, struct conn *conn);
/* Remove a connection that has ended, and free its place. */
void places_remove(struct places *places, struct conn *conn);
/* Free the place of a newcomer that could not become a connection. */
void places_give_back(struct places *places, struct client *client);

/* Returns how many places the client of the next newcomer would hold, if a newcomer waits and
 * no place is free; 0: evict no connection. */
uint64_t places_wanted(struct places *places);
/* Evict this connection, whose bytes move too slowly; the caller cuts it. Returns false if its
 * client holds fewer places than places_wanted(), if that is 0 by now, or if the connection is
 * evicted already. */
MUST_CHECK bool places_evict(struct places *places, struct conn *conn);

/* Remove the first connection from a loop's list of evicted ones, and return it; the caller
 * cuts it. NULL: the list is empty. */
struct conn *places_next_evicted(struct places *places, struct conn_ring *evicted);

/* Returns the number of connections that are open, handed to a loop, or in the line. */
size_t places_connections(struct places *places);

#endif
