/* Whose connections a loop serves next.
 *
 * libmicrohttpd serves all connections of a daemon that have something in one go, and nobody
 * can come between. So a loop has several daemons with a few connections each, and between
 * their runs it looks at what came for the others.
 *
 * The first connections of all clients share daemons: they are a crowd. A client that opens
 * more is a crowd of its own, with daemons of its own. Crowds take turns by the time they were
 * served for: the one that has had the least is next. One that was idle meanwhile is owed
 * nothing. The crowd of first connections has a turn for each of its daemons: it stands for
 * many clients, and none has more than one connection in it.
 *
 * A crowd's daemons take turns in a ring. Every second turn of a crowd goes to a daemon with a
 * connection that was accepted since that daemon ran, if there is one: the first request of a
 * newcomer does not wait until the ring has been round, which takes seconds where thousands of
 * connections ask for pages.
 *
 * A crowd pays for the processor time of its runs, however long they are.
 *
 * What can go wrong: daemons are limited. A crowd that has as many as are left gets no other;
 * then its daemons have more connections each, and it alone waits longer. If a daemon does not
 * start, the connection goes to one that exists.
 *
 * Thread: the loop. */
#include "server/base/clock.h"
#include "server/http/loop.h"
#include "server/sched/client.h"

#include <assert.h>

enum {
    DAEMON_CONNECTIONS = 8, /* then another daemon is better */
    SHORT_RUN_US = 1000,    /* up to here the clock tells what a run cost */
    CPU_CHECK_US = 2000     /* paid for between two looks at the thread's processor time */
};

/* The client's crowd, perhaps a new one; NULL: there are too many. */
static struct crowd *crowd_of(struct http_loop *loop, struct client *client)
{
    struct crowd *unused = NULL;
    for (size_t i = 1; i < DAEMONS_MAX; i++) {
        struct crowd *crowd = &loop->crowds[i];
        if (crowd->client == client) {
            return crowd;
        }
        unused = unused == NULL && crowd->client == NULL ? crowd : unused;
    }
    if (unused != NULL) {
        client_hold(client);
        *unused = (struct crowd){.client = client};
    }
    return unused;
}

/* The crowd's daemon with the fewest connections, for TLS or not as the one that was accepted needs
 * it; NULL: it has none. */
static struct http_daemon *emptiest_of(struct http_loop *loop, const struct crowd *crowd)
{
    struct http_daemon *emptiest = NULL;
    for (size_t i = 0; i < loop->daemon_count; i++) {
        struct http_daemon *daemon = &loop->daemons[i];
        if (daemon->crowd == crowd && daemon->tls == loop->accepted.tls &&
            (emptiest == NULL || daemon->conn_count < emptiest->conn_count)) {
            emptiest = daemon;
        }
    }
    return emptiest;
}

enum status http_daemons_add(struct http_loop *loop, bool tls, struct error *err)
{
    struct http_daemon *daemon = &loop->daemons[loop->daemon_count];
    *daemon = (struct http_daemon){.loop = loop, .tls = tls};
    TAILQ_INIT(&daemon->conns);
    TRY(http_daemon_start(daemon, err));
    loop->daemon_count++;
    return STATUS_OK;
}

/* A daemon that nobody has, perhaps a new one; NULL: there are no more than `least`, or it does
 * not start. */
static struct http_daemon *unused_daemon(struct http_loop *loop, size_t least)
{
    size_t unused = DAEMONS_MAX - loop->daemon_count;
    struct http_daemon *found = NULL;
    for (size_t i = 0; i < loop->daemon_count; i++) {
        if (loop->daemons[i].crowd == NULL && loop->daemons[i].tls == loop->accepted.tls) {
            unused++;
            found = found == NULL ? &loop->daemons[i] : found; /* the first have more room */
        }
    }
    if (unused <= least || found != NULL) {
        return unused <= least ? NULL : found;
    }
    struct error ignored = ERROR_INIT;
    return http_daemons_add(loop, loop->accepted.tls, &ignored) == STATUS_OK
               ? &loop->daemons[loop->daemon_count - 1]
               : NULL;
}

/* A daemon of the crowd for one more connection, perhaps one that it did not have; NULL: there is
 * none. */
static struct http_daemon *daemon_of(struct http_loop *loop, struct crowd *crowd)
{
    struct http_daemon *emptiest = emptiest_of(loop, crowd);
    if (emptiest != NULL && emptiest->conn_count < DAEMON_CONNECTIONS) {
        return emptiest;
    }
    /* The last one is for the shared crowd, and its first with TLS or without, too. */
    const bool shared = crowd->client == NULL;
    const size_t least = shared && emptiest == NULL ? 0 : crowd->daemons + !shared;
    struct http_daemon *unused = unused_daemon(loop, least);
    if (unused == NULL) {
        return emptiest;
    }
    unused->crowd = crowd;
    crowd->daemons++;
    return unused;
}

struct http_daemon *http_daemons_join(struct http_loop *loop, struct client *client)
{
    struct crowd *shared = &loop->crowds[0];
    struct crowd *crowd = shared;
    if (client != NULL &&
        atomic_load_explicit(&client->connections, memory_order_relaxed) > 1) {
        crowd = crowd_of(loop, client);
        crowd = crowd == NULL ? shared : crowd;
    }
    struct http_daemon *chosen = daemon_of(loop, crowd);
    if (chosen == NULL && crowd != shared) { /* it gets none, and is beside the others */
        client_release(crowd->client);
        *crowd = (struct crowd){.client = NULL};
        chosen = daemon_of(loop, shared);
    }
    if (chosen != NULL) {
        chosen->conn_count++;
    }
    return chosen;
}

void http_daemon_leave(struct http_daemon *daemon)
{
    struct crowd *crowd = daemon->crowd;
    assert(daemon->conn_count > 0);
    if (--daemon->conn_count > 0) {
        return;
    }
    daemon->crowd = NULL;
    if (--crowd->daemons == 0 && crowd->client != NULL) {
        client_release(crowd->client);
        *crowd = (struct crowd){.client = NULL};
    }
}

/* The crowd that pays for a run of the daemon. A daemon without connections runs for what
 * libmicrohttpd still has to clear away there. */
static struct crowd *crowd_served(struct http_daemon *daemon)
{
    return daemon->crowd != NULL ? daemon->crowd : &daemon->loop->crowds[0];
}

/* Whether the crowd's next turn goes to this daemon before those without new connections. */
static bool brings_newcomers(const struct http_daemon *daemon, const struct crowd *crowd)
{
    return crowd->newcomers_next && daemon->fresh > 0;
}

/* How many places a daemon is behind that of its crowd which ran last; newcomers have a ring of
 * their own, before all others. */
static size_t places_behind(const struct http_loop *loop, const struct crowd *crowd,
                            size_t index)
{
    const bool first = brings_newcomers(&loop->daemons[index], crowd);
    const size_t turn = first ? crowd->newcomer_turn : crowd->turn;
    const size_t behind =
        (index + loop->daemon_count - turn % loop->daemon_count) % loop->daemon_count;
    return first ? behind : behind + loop->daemon_count;
}

/* Texts that are read long before their turn have left the processor's caches by then. What their
 * client sends on connections that bring none is read all the same. */
static bool has_read_enough(struct http_daemon *daemon)
{
    return daemon->brings_texts &&
           text_turn_has_enough(&daemon->loop->completion.texts, crowd_served(daemon)->client);
}

struct http_daemon *http_daemons_next(struct http_loop *loop)
{
    struct http_daemon *next = NULL;
    struct crowd *least = NULL;
    for (size_t i = 0; i < loop->daemon_count; i++) {
        struct http_daemon *daemon = &loop->daemons[i];
        struct crowd *crowd = crowd_served(daemon);
        if (!daemon->need_run || has_read_enough(daemon)) {
            continue;
        }
        /* Whoever has had less than the last one was idle when that had its turn. */
        crowd->served_ns = larger_of(crowd->served_ns, loop->served_ns);
        bool sooner =
            crowd == least && places_behind(loop, crowd, i) <
                                  places_behind(loop, crowd, (size_t)(next - loop->daemons));
        if (least == NULL || sooner || crowd->served_ns < least->served_ns) {
            least = crowd;
            next = daemon;
        }
    }
    if (next != NULL) {
        loop->served_ns = least->served_ns;
        *(brings_newcomers(next, least) ? &least->newcomer_turn : &least->turn) =
            (size_t)(next - loop->daemons) + 1;
        least->newcomers_next = !least->newcomers_next;
    }
    return next;
}

/* The part of `ns`, a span that ends now, in which the thread had a processor. The clock goes on
 * while the thread has none, and the client must not pay for that. The thread's processor time tells
 * the difference, but to ask for it costs as much as a small request: only long spans are worth it.
 * Spans that were paid for since the last look are taken off; a long span counts as SHORT_RUN_US at
 * least. */
static uint64_t own_time(struct http_loop *loop, uint64_t ns)
{
    loop->paid_ns += ns;
    if (ns <= SHORT_RUN_US * NS_PER_US && loop->paid_ns <= CPU_CHECK_US * NS_PER_US) {
        return ns;
    }
    const uint64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const uint64_t before_ns = loop->cpu_ns + loop->paid_ns - ns;
    const uint64_t used_ns = cpu_ns > before_ns ? cpu_ns - before_ns : 0;
    loop->cpu_ns = cpu_ns;
    loop->paid_ns = 0;
    return smaller_of(ns, larger_of(used_ns, SHORT_RUN_US * NS_PER_US));
}

void http_daemon_served(struct http_daemon *daemon, uint64_t ns)
{
    struct http_loop *loop = daemon->loop;
    struct crowd *crowd = crowd_served(daemon);
    const uint64_t own_ns = own_time(loop, ns);
    size_t turns = crowd->client == NULL && crowd->daemons > 0 ? crowd->daemons : 1;
    /* Between its runs it may have been idle, of which nothing is owed to it. */
    crowd->served_ns = larger_of(crowd->served_ns, loop->served_ns) + own_ns / turns;
}
