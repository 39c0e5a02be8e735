/* The daemons of a loop, and the choice of the one that runs next.
 *
 * Each connection has a daemon of libmicrohttpd of its own, so the loop decides which
 * connection runs, and does its other work between two runs. A run includes everything that the
 * thread does for the connection's request: it reads, parses, scans, prints and sends, and
 * continues a request that another thread has returned. A daemon without a connection is kept
 * for the next connection, because starting a daemon costs more than running it.
 *
 * The first connections of all clients form one crowd. The further connections of each client
 * form a crowd of their own. A crowd is charged with the thread time of its runs, and the ready
 * crowd with the least time runs next. A crowd gets no credit for time in which it was idle.
 * The crowd of first connections is charged with its time divided by the number of its ready
 * connections, because each belongs to another client.
 *
 * The ready daemons of a crowd wait in three lines, each first in, first out: connections that
 * have not run yet; connections whose last request had a long text or a long answer in text;
 * other connections. The lines of a crowd are ordered by time, as the crowds are. So the first
 * request of a new connection does not wait for thousands of connections that request pages,
 * and a small request waits for one text of its crowd, and not for all of them.
 *
 * A crowd and a line are charged with the processor time of their runs, however long they are.
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
    TRIM_DAEMONS = 64,   /* most daemons that are stopped in one heartbeat */
    SHORT_RUN_US = 1000, /* longest run that is charged by wall-clock time */
    CPU_CHECK_US = 2000, /* time charged between two readings of the thread's processor time */
    LONG_TEXT_BYTES = 16 << 10 /* connections with longer texts wait in READY_TEXT */
};

void http_daemons_init(struct http_loop *loop)
{
    TAILQ_INIT(&loop->daemons);
    TAILQ_INIT(&loop->unused[false]);
    TAILQ_INIT(&loop->unused[true]);
    TAILQ_INIT(&loop->ready_crowds);
    for (size_t i = 0; i < CROWDS_MAX; i++) {
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

/* Returns the client's crowd, perhaps a new one; the crowd of first connections if there are
 * too many crowds. */
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
    unused->served_ns = 0; /* http_daemons_next() raises it */
    return unused;
}

static void daemon_unready(struct http_daemon *daemon)
{
    struct crowd *crowd = daemon->crowd;
    if (daemon->ready) {
        daemon->ready = false;
        TAILQ_REMOVE(&daemon->line->daemons, daemon, ready_link);
        if (--crowd->ready_count == 0) {
            TAILQ_REMOVE(&daemon->loop->ready_crowds, crowd, ready_link);
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
    daemon_unready(daemon); /* the caller wakes it, in its new crowd */
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
    TAILQ_INSERT_TAIL(&daemon->line->daemons, daemon, ready_link);
    if (crowd->ready_count++ == 0) {
        TAILQ_INSERT_TAIL(&daemon->loop->ready_crowds, crowd, ready_link);
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
        /* In a ready daemon libmicrohttpd may not have freed the last connection yet. */
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

/* Returns the line with the least time among those in which a daemon waits; the crowd is
 * ready. */
static struct ready_line *next_line(struct crowd *crowd)
{
    struct ready_line *least = NULL;
    for (size_t i = 0; i < READY_COUNT; i++) {
        struct ready_line *line = &crowd->lines[i];
        if (TAILQ_EMPTY(&line->daemons)) {
            continue;
        }
        /* A line gets no credit for time in which it was empty. */
        line->served_ns = larger_of(line->served_ns, crowd->line_served_ns);
        if (least == NULL || line->served_ns < least->served_ns) {
            least = line;
        }
    }
    assert(least != NULL); /* crowd->ready_count > 0 */
    return least;
}

struct http_daemon *http_daemons_next(struct http_loop *loop)
{
    struct crowd *least = TAILQ_FIRST(&loop->ready_crowds);
    struct crowd *crowd = NULL;
    TAILQ_FOREACH(crowd, &loop->ready_crowds, ready_link)
    {
        /* A crowd with less time than the crowd that ran last was idle at that time. */
        crowd->served_ns = larger_of(crowd->served_ns, loop->served_ns);
        if (crowd->served_ns < least->served_ns) {
            least = crowd;
        }
    }
    if (least == NULL) {
        return NULL;
    }
    const struct ready_line *line = next_line(least);
    loop->served_ns = least->served_ns;
    least->line_served_ns = line->served_ns;
    return TAILQ_FIRST(&line->daemons);
}

/* Returns the processor time in a span of `ns` wall-clock time that ends now: a client is not
 * charged with time in which the thread had no processor. Reading the thread's processor time
 * costs as much as a small request, so it is read for long spans only. Spans that were charged
 * since the last reading are subtracted; a long span counts as SHORT_RUN_US at least. */
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
    /* The crowd may have been idle before, and gets no credit for that time. */
    crowd->served_ns = larger_of(crowd->served_ns, loop->served_ns) + cpu_ns / clients;
    daemon->line->served_ns += cpu_ns;
}
