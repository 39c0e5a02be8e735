/* The places of connections (--max-connections), and their distribution among clients.
 *
 * A client holds a place for each of its connections. A newcomer is an accepted connection
 * without a place. While places are free, every newcomer gets one. When all places are used,
 * newcomers are still accepted, because only accept() tells the client's address. Newcomers
 * then wait in a short line, and connections are evicted for them:
 *
 *   1. If a client holds more places than the newcomer's client would hold, it is above its
 *      equal part. The client with the most places then loses its connection that has been
 *      idle for longest. If none of its connections is idle, the client loses the connection
 *      whose request arrived last.
 *   2. If no client is above its equal part, the connection that has been idle for longest is
 *      evicted, even if its client has no other connection.
 *   3. If no other client has an idle connection, an idle connection of the newcomer's client
 *      is evicted.
 *   4. Otherwise the newcomer waits until a connection ends. At every heartbeat, connections
 *      whose bytes move too slowly are evicted (deadlines.c).
 *
 * A free place is given to the newcomer whose client holds the fewest places. If the line is
 * full, a newcomer of the client with the most places and newcomers is refused, so that one
 * client cannot fill the line. An evicted connection holds no place, although libmicrohttpd
 * closes it a moment later. Newcomers and evicted connections use descriptors, so both the line
 * and the number of evicted connections that are still open are limited.
 *
 * An eviction examines at most LOOKS connections and evicts the one among them that has been
 * idle for longest. The next eviction examines the following connections.
 *
 * Possible failure: no memory at the start. Thread: any. One lock guards all fields; it is
 * locked when a connection begins or ends, not for requests. */
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
    PLACES_RESERVE = 64 /* limit of the line, and limit of evicted connections still open */
};

/* An accepted connection that no loop serves yet. */
struct newcomer {
    struct newcomer *next;      /* in http_loop.handed of the loop that will serve it */
    TAILQ_ENTRY(newcomer) link; /* in places.line */
    /* owned reference; NULL: the reference belongs to the connection's record */
    struct client *client;
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
    /* guards the following fields, and the places of clients and connections */
    pthread_mutex_t lock;
    size_t most; /* constant: --max-connections */
    /* constant: limit of the line, and limit of evicted connections still open */
    size_t reserve;
    size_t used;           /* places of connections that are open or handed to their loop */
    atomic_size_t evicted; /* evicted connections that are still open; read without the lock */
    size_t richest;        /* largest number of places that one client holds */
    struct client_list *by_count; /* owned array: entry n lists the clients with n places */
    /* open connections; the most recently examined ones are at the end */
    struct conn_ring ring;
    struct newcomer_line line; /* owned: newcomers that wait for a place */
    size_t line_count;         /* number of newcomers in the line */
    /* time before which no search for a victim begins; see no_victim_count */
    uint64_t no_victim_until_ns;
    /* no_victim_until_ns applies to a client that would hold at least this many places */
    uint64_t no_victim_count;
};

/* Initialize the places; most and reserve: see struct places.
 * err   OUT_OF_MEMORY */
MUST_CHECK enum status places_init(struct places *places, size_t most, size_t reserve,
                                   struct error *err);
/* Free the places, whose line is empty; a structure of zeros is fine. */
void places_deinit(struct places *places);

/* True if one more connection may be accepted: the line has room, or the caller may refuse a
 * newcomer afterwards. No newcomer may be refused in a drain (`keep_all`), nor while `reserve`
 * evicted connections are still open, because evictions continue when these have ended. */
bool places_can_accept(struct places *places, bool keep_all);

enum places_answer {
    PLACES_TAKEN,     /* the newcomer has a place */
    PLACES_WAITS,     /* the newcomer is in the line, which owns it */
    PLACES_OVER_LIMIT /* the client has `limit` connections: the caller refuses the newcomer */
};

/* Request a place for a newcomer.
 * newcomer   allocated by the caller
 * limit      maximum number of connections of the newcomer's client; 0: no limit */
enum places_answer places_ask(struct places *places, struct newcomer *newcomer, uint64_t limit);

/* Returns the newcomer that gets the next place; the caller owns it. NULL: no place is free, or
 * no newcomer waits.
 * may_evict   a connection may be evicted for the newcomer
 * wake        set to the loop that must be woken, because loop->evicted has a new entry; or to
 *             NULL */
struct newcomer *places_next(struct places *places, bool may_evict, uint64_t now_ns,
                             struct http_loop **wake);

/* Returns a newcomer that the caller must refuse, if the line is too long after places_next();
 * else NULL. The caller owns the newcomer. */
struct newcomer *places_refuse(struct places *places);

/* Returns the newcomer that has waited for longest; the caller owns it. NULL: the line is
 * empty. */
struct newcomer *places_pop_waiting(struct places *places);

/* Add the connection that a newcomer with a place has become. conn->client is set. */
void places_add(struct places *places, struct conn *conn);
/* Remove a connection that has ended, and free its place. */
void places_remove(struct places *places, struct conn *conn);
/* Free the place of a newcomer that could not become a connection. */
void places_give_back(struct places *places, struct client *client);

/* If a newcomer waits and no place is free, returns how many places the client of the next
 * newcomer would hold; 0: evict no connection. */
uint64_t places_wanted(struct places *places);
/* Evict this connection, because it transfers bytes too slowly; the caller cuts it. Returns
 * false in three cases: the client holds fewer places than places_wanted(); places_wanted() is
 * 0; the connection is already evicted. */
MUST_CHECK bool places_evict(struct places *places, struct conn *conn);

/* Remove the first connection from a loop's list of evicted connections, and return it; the
 * caller cuts it. NULL: the list is empty. */
struct conn *places_next_evicted(struct places *places, struct conn_ring *evicted);

/* Returns the number of connections that are open, handed to a loop, or in the line. */
size_t places_connections(struct places *places);

#endif
