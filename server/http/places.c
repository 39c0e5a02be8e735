/* See places.h. */
#include "server/http/places.h"

#include "server/base/clock.h"
#include "server/base/thread.h"
#include "server/http/loop.h"

#include <assert.h>
#include <stdlib.h>

enum {
    LOOKS = 256,   /* maximum number of connections examined for one eviction */
    IDLE_MS = 250, /* minimum idle time; within a shorter time a request may be on its way */
    RETRY_MS = 50  /* time between an unsuccessful search for a victim and the next search */
};

enum status places_init(struct places *places, size_t most, size_t reserve, struct error *err)
{
    struct client_list *by_count = calloc(most + 1, sizeof *by_count);
    if (by_count == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY,
                         "no memory for the places of %zu connections: set a lower "
                         "--max-connections",
                         most);
    }
    *places = (struct places){.most = most, .reserve = reserve, .by_count = by_count};
    MUST(pthread_mutex_init(&places->lock, NULL));
    TAILQ_INIT(&places->ring);
    TAILQ_INIT(&places->line);
    return STATUS_OK;
}

void places_deinit(struct places *places)
{
    if (places->by_count != NULL) {
        assert(places->line_count == 0 && places->used == 0 && places->evicted == 0);
        MUST(pthread_mutex_destroy(&places->lock));
        free(places->by_count);
    }
}

/* ---- counting; thread: a holder of the lock ---- */

static uint64_t held_by(const struct client *client)
{
    return atomic_load_explicit(&client->connections, memory_order_relaxed);
}

static void set_count(struct places *places, struct client *client, uint64_t count)
{
    if (held_by(client) > 0) {
        LIST_REMOVE(client, count_link);
    } else {
        TAILQ_INIT(&client->conns);
    }
    atomic_store_explicit(&client->connections, count, memory_order_relaxed);
    if (count > 0) {
        LIST_INSERT_HEAD(&places->by_count[count], client, count_link);
    }
}

static void claim_place(struct places *places, struct client *client)
{
    const uint64_t count = held_by(client) + 1;
    assert(places->used < places->most);
    places->used++;
    set_count(places, client, count);
    places->richest = larger_of(places->richest, count);
}

static void free_place(struct places *places, struct client *client)
{
    const uint64_t count = held_by(client);
    assert(places->used > 0 && count > 0);
    places->used--;
    set_count(places, client, count - 1);
    /* If no other client holds `count` places, no client now holds more than count - 1. */
    if (count == places->richest && LIST_EMPTY(&places->by_count[count])) {
        places->richest = count - 1;
    }
}

/* ---- the line; thread: a holder of the lock ---- */

static void leave_line(struct places *places, struct newcomer *newcomer)
{
    TAILQ_REMOVE(&places->line, newcomer, link);
    places->line_count--;
    newcomer->client->waiting--;
}

/* Returns the first newcomer of the clients that hold the fewest places; NULL: none waits. */
static struct newcomer *poorest_waiting(const struct places *places)
{
    struct newcomer *poorest = TAILQ_FIRST(&places->line);
    for (struct newcomer *other = poorest; other != NULL; other = TAILQ_NEXT(other, link)) {
        if (held_by(other->client) < held_by(poorest->client)) {
            poorest = other;
        }
    }
    return poorest;
}

/* Returns the newest newcomer of the client that has the most places and newcomers together. */
static struct newcomer *richest_waiting(const struct places *places)
{
    struct newcomer *richest = NULL;
    uint64_t most = 0;
    for (struct newcomer *other = TAILQ_FIRST(&places->line); other != NULL;
         other = TAILQ_NEXT(other, link)) {
        const uint64_t count = held_by(other->client) + other->client->waiting;
        if (richest == NULL || count >= most) {
            most = count;
            richest = other;
        }
    }
    return richest;
}

/* ---- choosing a connection; thread: a holder of the lock ---- */

/* Returns conn->activity. Of two idle connections, or two busy ones, the older one has the
 * lower value. */
static uint64_t activity_of(const struct conn *conn)
{
    return atomic_load_explicit(&conn->activity, memory_order_relaxed);
}

/* True if the connection has unread bytes (a request), or bytes that its loop has read and not
 * processed yet. The order of the two checks matters: if a run reads the bytes after the first
 * check, the second check finds the run. */
static bool has_bytes(const struct conn *conn)
{
    return client_socket_unread(conn->fd) ||
           atomic_load_explicit(&conn->in_run, memory_order_acquire);
}

/* True if the connection has been idle since `until_ns` or earlier, and for longer than
 * `other`, which may be NULL. */
static bool is_idle_for_longer(const struct conn *conn, const struct conn *other,
                               uint64_t until_ns)
{
    const uint64_t activity = activity_of(conn);
    return activity % 2 == 0 && activity <= 2 * until_ns &&
           (other == NULL || activity < activity_of(other)) && !has_bytes(conn) &&
           activity_of(conn) == activity; /* no request has begun in the meantime */
}

/* Returns the client's connection that has been idle for longest, since `until_ns` or earlier.
 * If none is idle, returns NULL, or with `busy_too` the connection whose request arrived last.
 * Subtracts the number of examined connections from *looks. */
static struct conn *choose_of_client(struct client *client, uint64_t until_ns, bool busy_too,
                                     size_t *looks)
{
    struct conn *idle = NULL;
    struct conn *busy = NULL;
    struct conn *conn = NULL;
    for (uint64_t left = held_by(client); left > 0 && *looks > 0; left--, (*looks)--) {
        conn = TAILQ_FIRST(&client->conns);
        if (conn == NULL) {
            break; /* no loop has opened the client's connections yet */
        }
        TAILQ_REMOVE(&client->conns, conn, client_link);
        TAILQ_INSERT_TAIL(&client->conns, conn, client_link);
        if (is_idle_for_longer(conn, idle, until_ns)) {
            idle = conn;
        } else if (busy == NULL || activity_of(conn) > activity_of(busy)) {
            busy = conn;
        }
    }
    return idle != NULL || !busy_too ? idle : busy;
}

/* Among the clients that hold `least` places or more, returns the connection that has been idle
 * for longest, since `until_ns` or earlier; NULL: none is idle. */
static struct conn *choose_idle(struct places *places, uint64_t until_ns, uint64_t least)
{
    struct conn *idle = NULL;
    const size_t looks = smaller_of(places->used, LOOKS);
    for (size_t i = 0; i < looks && !TAILQ_EMPTY(&places->ring); i++) {
        struct conn *conn = TAILQ_FIRST(&places->ring);
        TAILQ_REMOVE(&places->ring, conn, ring_link);
        TAILQ_INSERT_TAIL(&places->ring, conn, ring_link);
        if (held_by(conn->client) >= least && is_idle_for_longer(conn, idle, until_ns)) {
            idle = conn;
        }
    }
    return idle;
}

/* Find a newcomer whose client has an idle connection. Returns the newcomer, and the idle
 * connection in *conn; NULL: there is none. */
static struct newcomer *choose_idle_of_waiting(const struct places *places, uint64_t until_ns,
                                               struct conn **conn)
{
    size_t looks = LOOKS;
    const struct client *before = NULL;
    struct newcomer *newcomer = NULL;
    TAILQ_FOREACH(newcomer, &places->line, link)
    {
        if (newcomer->client != before && held_by(newcomer->client) > 0) {
            *conn = choose_of_client(newcomer->client, until_ns, false, &looks);
            if (*conn != NULL) {
                return newcomer;
            }
        }
        before = newcomer->client;
    }
    return NULL;
}

/* Returns the connection to evict; NULL: none.
 * newcomer   in: a waiting newcomer whose client has the fewest places. out: the newcomer that
 *            gets the place of the evicted connection */
static struct conn *choose_victim(struct places *places, uint64_t now_ns,
                                  struct newcomer **newcomer)
{
    const uint64_t until_ns = now_ns - IDLE_MS * NS_PER_MS;
    const uint64_t count = held_by((*newcomer)->client) + 1;
    struct conn *conn = NULL;
    if (now_ns < places->no_victim_until_ns && count >= places->no_victim_count) {
        return NULL;
    }
    if (places->richest > count) {
        size_t looks = LOOKS;
        struct client *richest = LIST_FIRST(&places->by_count[places->richest]);
        conn = choose_of_client(richest, now_ns, true, &looks);
    }
    if (conn == NULL) {
        conn = choose_idle(places, until_ns, count);
    }
    if (conn == NULL) {
        struct newcomer *own = choose_idle_of_waiting(places, until_ns, &conn);
        *newcomer = own != NULL ? own : *newcomer;
    }
    if (conn == NULL) {
        places->no_victim_until_ns = now_ns + RETRY_MS * NS_PER_MS;
        places->no_victim_count = count;
    }
    return conn;
}

/* Free the place of the connection, which can no longer be evicted. */
static void release_place(struct places *places, struct conn *conn)
{
    TAILQ_REMOVE(&conn->client->conns, conn, client_link);
    TAILQ_REMOVE(&places->ring, conn, ring_link);
    free_place(places, conn->client);
}

static void evict(struct places *places, struct conn *conn)
{
    release_place(places, conn);
    conn->evicted = true;
    places->evicted++;
}

/* ---- newcomers ---- */

bool places_can_accept(struct places *places, bool keep_all)
{
    HOLD_LOCK(&places->lock);
    return places->line_count < places->reserve ||
           (!keep_all && places->evicted < places->reserve);
}

enum places_answer places_ask(struct places *places, struct newcomer *newcomer, uint64_t limit)
{
    HOLD_LOCK(&places->lock);
    struct client *client = newcomer->client;
    if (limit > 0 && held_by(client) + client->waiting >= limit) {
        return PLACES_OVER_LIMIT;
    }
    if (places->line_count == 0 && places->used < places->most) {
        claim_place(places, client);
        return PLACES_TAKEN;
    }
    TAILQ_INSERT_TAIL(&places->line, newcomer, link);
    places->line_count++;
    client->waiting++;
    return PLACES_WAITS;
}

struct newcomer *places_next(struct places *places, bool may_evict, uint64_t now_ns,
                             struct http_loop **wake)
{
    HOLD_LOCK(&places->lock);
    struct newcomer *newcomer = poorest_waiting(places);
    *wake = NULL;
    if (newcomer == NULL) {
        return NULL;
    }
    if (places->used == places->most) {
        struct conn *conn = !may_evict || places->evicted >= places->reserve
                                ? NULL
                                : choose_victim(places, now_ns, &newcomer);
        if (conn == NULL) {
            return NULL;
        }
        evict(places, conn);
        TAILQ_INSERT_TAIL(&conn->loop->evicted, conn, ring_link);
        conn->to_be_cut = true;
        *wake = conn->loop;
    }
    leave_line(places, newcomer);
    claim_place(places, newcomer->client);
    return newcomer;
}

struct newcomer *places_refuse(struct places *places)
{
    HOLD_LOCK(&places->lock);
    struct newcomer *refused =
        places->line_count > places->reserve ? richest_waiting(places) : NULL;
    if (refused != NULL) {
        leave_line(places, refused);
    }
    return refused;
}

struct newcomer *places_pop_waiting(struct places *places)
{
    HOLD_LOCK(&places->lock);
    struct newcomer *newcomer = TAILQ_FIRST(&places->line);
    if (newcomer != NULL) {
        leave_line(places, newcomer);
    }
    return newcomer;
}

/* ---- connections ---- */

void places_add(struct places *places, struct conn *conn)
{
    HOLD_LOCK(&places->lock);
    TAILQ_INSERT_TAIL(&conn->client->conns, conn, client_link);
    TAILQ_INSERT_TAIL(&places->ring, conn, ring_link);
}

void places_remove(struct places *places, struct conn *conn)
{
    HOLD_LOCK(&places->lock);
    if (!conn->evicted) {
        release_place(places, conn);
        return;
    }
    places->evicted--;
    if (conn->to_be_cut) {
        TAILQ_REMOVE(&conn->loop->evicted, conn, ring_link);
    }
}

void places_give_back(struct places *places, struct client *client)
{
    HOLD_LOCK(&places->lock);
    free_place(places, client);
}

/* See places_wanted(). Thread: a holder of the lock. */
static uint64_t count_wanted(const struct places *places)
{
    const struct newcomer *newcomer = poorest_waiting(places);
    return newcomer == NULL || places->used < places->most || places->evicted >= places->reserve
               ? 0
               : held_by(newcomer->client) + 1;
}

uint64_t places_wanted(struct places *places)
{
    HOLD_LOCK(&places->lock);
    return count_wanted(places);
}

bool places_evict(struct places *places, struct conn *conn)
{
    HOLD_LOCK(&places->lock);
    const uint64_t count = count_wanted(places);
    if (conn->evicted || count == 0 || held_by(conn->client) < count) {
        return false;
    }
    evict(places, conn);
    return true;
}

struct conn *places_next_evicted(struct places *places, struct conn_ring *evicted)
{
    HOLD_LOCK(&places->lock);
    struct conn *conn = TAILQ_FIRST(evicted);
    if (conn != NULL) {
        TAILQ_REMOVE(evicted, conn, ring_link);
        conn->to_be_cut = false;
    }
    return conn;
}

size_t places_connections(struct places *places)
{
    HOLD_LOCK(&places->lock);
    return places->used + places->evicted + places->line_count;
}
