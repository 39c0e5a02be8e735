/* The daemons of a loop, and the choice of the daemon that runs next.
 *
 * Each connection has its own daemon of libmicrohttpd. So the loop decides which connection
 * runs, and does its other work between two runs. A run includes everything that the thread
 * does for the connection's request: it reads, parses, scans, prints and sends, and continues a
 * request that another thread has returned. A daemon without a connection is kept for the next
 * connection, because starting a daemon costs more than running it.
 *
 * The first connections of all clients form one crowd. The further connections of each client
 * form a crowd of their own. Ready crowds take turns (server/sched/ring.h) and pay the thread
 * time of their runs. The crowd of first connections pays only its time divided by the number
 * of its ready connections, because each of these connections belongs to another client.
 *
 * The ready daemons of a crowd wait in three lines, each first in, first out: connections that
 * have not run yet; connections whose last request had a long text or a long answer in text;
 * other connections. The lines of a crowd take turns like the crowds. So the first request of a
 * new connection does not wait for thousands of connections that request pages, and a small
 * request waits for one long text of its crowd, not for all of them.
 *
 * Runs are charged by processor time, so no crowd pays for time in which the thread had no
 * processor.
 *
 * The number of crowds is limited: a client that gets no crowd belongs to the crowd of first
 * connections. Possible failures: none; http_daemon_ensure() starts daemons. Thread: the
 * loop. */
#include "server/base/clock.h"
#include "server/http/loop.h"
#include "server/sched/client.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdlib.h>

enum {
    KEPT_DAEMONS = 128,  /* unused daemons that a loop keeps */
    TRIM_DAEMONS = 64,   /* maximum number of daemons that are stopped in one heartbeat */
    SHORT_RUN_US = 1000, /* longest run that is charged by wall-clock time */
    /* charged time after which the thread's processor time is read again */
    CPU_CHECK_US = 2000,
    QUANTUM_US = 16, /* time of a crowd or line in each round: about one small request */
    /* connections with texts of at least this length wait in READY_TEXT */
    LONG_TEXT_BYTES = 16 << 10
};

void http_daemons_init(struct http_loop *loop)
{
    TAILQ_INIT(&loop->daemons);
    TAILQ_INIT(&loop->unused[false]);
    TAILQ_INIT(&loop->unused[true]);
    ring_init(&loop->ring, QUANTUM_US * NS_PER_US);
    for (size_t i = 0; i < CROWDS_MAX; i++) {
        ring_init(&loop->crowds[i].ring, QUANTUM_US * NS_PER_US);
        for (size_t line = 0; line < READY_COUNT; line++) {
            TAILQ_INIT(&loop->crowds[i].lines[line].daemons);
        }
    }
}

/* Keep the daemon for the next connection; daemons with large buffers are used first. */
static void keep_unused(struct http_daemon *daemon)
{
    struct daemon_queue *unused = &daemon->loop->unused[daemon->tls];
    daemon->loop->unused_count++;
    if (daemon->buffer_bytes >= ROOMY_BUFFER) {
        TAILQ_INSERT_HEAD(unused, daemon, unused_link);
    } else {
        TAILQ_INSERT_TAIL(unused, daemon, unused_link);
    }
}

void http_daemons_add(struct http_daemon *daemon)
{
    TAILQ_INSERT_TAIL(&daemon->loop->daemons, daemon, link);
    daemon->loop->daemon_count++;
    daemon->crowd = &daemon->loop->crowds[0];
    keep_unused(daemon);
}

/* Returns the crowd of the client, which may be new; if there are too many crowds, the crowd of
 * first connections. */
static struct crowd *crowd_of(struct http_loop *loop, struct client *client)
{
    struct crowd *unused = NULL;
    for (size_t i = 1; i < CROWDS_MAX; i++) {
        struct crowd *crowd = &loop->crowds[i];
        if (crowd->client == client) {
            return crowd;
        }
        unused = unused == NULL && crowd->client == NULL ? crowd : unused;
    }
    if (unused == NULL) {
        return &loop->crowds[0];
    }
    client_hold(client);
    unused->client = client;
    unused->turns.credit_ns = 0;
    return unused;
}

static void daemon_unready(struct http_daemon *daemon)
{
    struct crowd *crowd = daemon->crowd;
    if (daemon->ready) {
        daemon->ready = false;
        TAILQ_REMOVE(&daemon->line->daemons, daemon, ready_link);
        if (TAILQ_EMPTY(&daemon->line->daemons)) {
            ring_leave(&crowd->ring, &daemon->line->turns);
        }
        if (--crowd->ready_count == 0) {
            ring_leave(&daemon->loop->ring, &crowd->turns);
        }
    }
}

struct http_daemon *http_daemons_acquire(struct http_loop *loop, struct client *client)
{
    struct daemon_queue *unused = &loop->unused[loop->accepted->tls];
    struct http_daemon *daemon = TAILQ_FIRST(unused);
    assert(daemon != NULL);
    const bool first =
        client == NULL || atomic_load_explicit(&client->connections, memory_order_relaxed) <= 1;
    TAILQ_REMOVE(unused, daemon, unused_link);
    loop->unused_count--;
    daemon_unready(daemon); /* the caller wakes the daemon in its new crowd */
    daemon->crowd = first ? &loop->crowds[0] : crowd_of(loop, client);
    daemon->crowd->connections++;
    daemon->fresh = true;
    daemon->text_bytes = 0;
    return daemon;
}

void http_daemon_wake(struct http_daemon *daemon)
{
    if (daemon->ready || daemon == daemon->loop->running || http_daemon_is_blocked(daemon)) {
        return;
    }
    struct crowd *crowd = daemon->crowd;
    const enum ready_line_id line = daemon->fresh                          ? READY_NEW
                                    : daemon->text_bytes > LONG_TEXT_BYTES ? READY_TEXT
                                                                           : READY_SMALL;
    daemon->ready = true;
    daemon->line = &crowd->lines[line];
    if (TAILQ_EMPTY(&daemon->line->daemons)) {
        ring_enter(&crowd->ring, &daemon->line->turns);
    }
    TAILQ_INSERT_TAIL(&daemon->line->daemons, daemon, ready_link);
    if (crowd->ready_count++ == 0) {
        ring_enter(&daemon->loop->ring, &crowd->turns);
    }
}

void http_daemon_returned(struct http_daemon *daemon)
{
    daemon->returned = true;
    http_daemon_wake(daemon);
}

void http_daemon_resume(struct http_daemon *daemon)
{
    daemon->loop->completion.expected--;
    http_daemon_wake(daemon);
}

void http_daemon_begin_run(struct http_daemon *daemon)
{
    daemon_unready(daemon);
    daemon->fresh = false;
    daemon->reading = false;
    daemon->handshake_moved = false;
    daemon->acknowledge = false;
    daemon->runs++;
}

void http_daemon_release(struct http_daemon *daemon)
{
    struct crowd *crowd = daemon->crowd;
    const bool ready = daemon->ready;
    daemon_unready(daemon);
    daemon->crowd = &daemon->loop->crowds[0];
    /* http_daemon_served() charges the crowd and this line */
    daemon->line = &daemon->crowd->lines[READY_SMALL];
    daemon->fresh = false;
    keep_unused(daemon);
    if (ready) {
        http_daemon_wake(daemon);
    }
    if (--crowd->connections == 0 && crowd->client != NULL) {
        client_release(crowd->client);
        crowd->client = NULL;
    }
}

static void daemon_destroy(struct http_daemon *daemon)
{
    struct http_loop *loop = daemon->loop;
    MHD_stop_daemon(daemon->mhd);
    assert(daemon->conn == NULL);
    daemon_unready(daemon);
    TAILQ_REMOVE(&loop->unused[daemon->tls], daemon, unused_link);
    TAILQ_REMOVE(&loop->daemons, daemon, link);
    loop->unused_count--;
    loop->daemon_count--;
    free(daemon);
}

void http_daemons_trim(struct http_loop *loop)
{
    int stopped = 0;
    for (size_t kind = 0; kind < ARRAY_COUNT(loop->unused); kind++) {
        struct http_daemon *daemon = TAILQ_LAST(&loop->unused[kind], daemon_queue);
        /* Keep ready daemons: libmicrohttpd may not have freed their last connection yet. */
        while (daemon != NULL && !daemon->ready && stopped < TRIM_DAEMONS &&
               loop->unused_count > KEPT_DAEMONS) {
            struct http_daemon *previous = TAILQ_PREV(daemon, daemon_queue, unused_link);
            daemon_destroy(daemon);
            daemon = previous;
            stopped++;
        }
    }
}

void http_daemons_deinit(struct http_loop *loop)
{
    struct http_daemon *daemon = TAILQ_FIRST(&loop->daemons);
    while (daemon != NULL) {
        struct http_daemon *next = TAILQ_NEXT(daemon, link);
        daemon_destroy(daemon);
        daemon = next;
    }
}

struct http_daemon *http_daemons_next(struct http_loop *loop)
{
    struct crowd *crowd = (struct crowd *)ring_turn(&loop->ring);
    if (crowd == NULL) {
        return NULL;
    }
    const struct ready_line *line = (const struct ready_line *)ring_turn(&crowd->ring);
    return TAILQ_FIRST(&line->daemons);
}

/* Returns the processor time in a span of `ns` wall-clock time that ends now, so that a client
 * is not charged for time in which the thread had no processor. Reading the thread's processor
 * time costs as much as a small request, so only long spans are measured in this way. Spans
 * that were charged since the last reading are subtracted. A long span counts as at least
 * SHORT_RUN_US. */
static uint64_t processor_time(struct http_loop *loop, uint64_t ns)
{
    loop->charged_ns += ns;
    if (ns <= SHORT_RUN_US * NS_PER_US && loop->charged_ns <= CPU_CHECK_US * NS_PER_US) {
        return ns;
    }
    const uint64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const uint64_t before_ns = loop->cpu_ns + loop->charged_ns - ns;
    const uint64_t used_ns = cpu_ns > before_ns ? cpu_ns - before_ns : 0;
    loop->cpu_ns = cpu_ns;
    loop->charged_ns = 0;
    return smaller_of(ns, larger_of(used_ns, SHORT_RUN_US * NS_PER_US));
}

void http_daemon_served(struct http_daemon *daemon, uint64_t ns)
{
    struct http_loop *loop = daemon->loop;
    struct crowd *crowd = daemon->crowd;
    const uint64_t cpu_ns = processor_time(loop, ns);
    const size_t clients = crowd->client == NULL ? crowd->ready_count + !daemon->ready : 1;
    ring_pay(&loop->ring, &crowd->turns, cpu_ns / clients, INT64_MAX);
    ring_pay(&crowd->ring, &daemon->line->turns, cpu_ns, INT64_MAX);
}
