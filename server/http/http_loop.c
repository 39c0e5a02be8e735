/* One HTTP thread: connections in a libuv loop, each with a daemon of libmicrohttpd.
 *
 * One turn of a loop:
 *   uv polls --> on_events: sockets are readable or writable; their daemons become ready
 *            --> accepting.c: new connections; each gets a daemon
 *            --> on_done: requests return from other threads, and their daemons become ready;
 *                connections that another loop accepted for this one
 *            --> on_heartbeat: time limits, clients that have left (deadlines.c)
 *   uv_check --> run_daemons: ready daemons in the order of http_daemons.c, until TURN_US are
 *                over; a run continues a request that has returned, and calls MHD_run()
 *
 * All work of the loop for a request is done in runs of its daemon, including the parsing and
 * printing of texts up to --inline-json-bytes. The loop reads its events again after TURN_US
 * and the rest of one run. Daemons that become ready in the meantime are ordered in the next
 * turn.
 *
 * An event during a turn is processed in the next turn. While a daemon is ready, an idle handle
 * prevents the loop from sleeping (a 0 ms timer would starve the polling of libuv 1.44). The
 * end of a turn wakes the devices for the requests that were queued. After a run that ended a
 * connection, accepting_resume() gives the free place to a newcomer.
 *
 * A daemon does not run while another thread owns its request (http_daemon_is_blocked()); bytes
 * that the client sends during this time stay in the socket. The event set of the loop and the
 * set of each daemon are edge-triggered, so an event that is not processed does not keep the
 * loop awake. If libmicrohttpd has work that no event will announce, MHD_get_timeout() returns
 * 0; daemon_has_pending() calls it after every run.
 *
 * libuv watches only descriptors that are opened at the start, because its table has an entry
 * for each number up to the highest watched one, and libuv aborts the process if the table
 * cannot grow.
 *
 * Possible failures: a handle, a thread or a descriptor cannot be made at the start. Thread:
 * the loop, and main for start and end. */
#include "server/http/loop.h"

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/thread.h"
#include "server/job/job.h"
#include "server/sched/device_pool.h"
#include "server/sched/queue.h"

#include <assert.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    TURN_US = 150,       /* time after which a turn begins no further run of a daemon */
    MOST_EVENTS = 256,   /* events read from the sockets' set at once */
    HTTP_STOP_RUNS = 16, /* maximum number of runs of each daemon before the loop is closed */
    /* a longer time between two heartbeats means that the process was stopped (SIGSTOP, a
     * paused container) */
    STOPPED_MS = 1000,
    DRAIN_BEAT_MS = 10 /* time between heartbeats in a drain, so that the exit is not delayed */
};

/* ---- the loop's handles ---- */

static void on_noop(uv_idle_t *idle)
{
    (void)idle;
}

/* Continue the body of a request that was PAUSED and has returned, or refuse the request if
 * request.error is set. */
static void resume_body(struct exchange *exchange)
{
    struct conn *conn = exchange->conn;
    conn_restart_clock(conn);
    conn->since_ns -= conn->body_ns; /* the time of the body does not include the pause */
    const enum status status = exchange->request.error.status;
    bool open = exchange->closed_inside; /* then exchange_closed_inside_body() refuses it */
    if (!open && status != STATUS_CLIENT_GONE) {
        if (status != STATUS_OK) {
            exchange_refuse(exchange);
        }
        open = exchange_feed_kept(exchange);
    }
    if (request_is_away(&exchange->request)) {
        return; /* another thread owns the request again */
    }
    if (!open) {
        conn_cut(conn);
    } else if (request_state(&exchange->request) == REQUEST_BODY) {
        (void)exchange_closed_inside_body(exchange);
    }
    http_daemon_resume(conn->daemon);
}

/* Continue the request that was returned, in the run of its daemon. The loop owns the request
 * again. */
static void continue_request(struct http_daemon *daemon)
{
    struct exchange *exchange = daemon->conn->exchange;
    struct request *request = &exchange->request;
    daemon->returned = false;
    request_set_owner(request, OWNER_LOOP);
    if (request_state(request) != REQUEST_READY) {
        (void)exchange_is_too_late(exchange);
    }
    if (request_state(request) == REQUEST_BODY) {
        resume_body(exchange);
    } else if (request->error.status != STATUS_OK || request_state(request) == REQUEST_READY ||
               job_run(request)) {
        exchange_resume(exchange);
    }
}

/* Queue the daemon of a returned request for a run, or end an orphan. */
static void wake_returned(struct request *request)
{
    struct exchange *exchange = exchange_of(request);
    assert(exchange->magic == EXCHANGE_MAGIC);
    if (exchange->orphan) {
        request_set_owner(request, OWNER_LOOP);
        exchange->loop->completion.expected--;
        exchange_end_orphan(exchange);
    } else {
        http_daemon_returned(exchange->conn->daemon);
    }
}

static void follow_orders(struct http_loop *loop, uint64_t now_ns);

static void on_done(uv_poll_t *poll, int status, int events)
{
    struct http_loop *loop = poll->data;
    (void)status;
    (void)events;
    struct request *request = completion_take(&loop->completion);
    while (request != NULL) {
        struct request *next = request->line.next;
        request->line.next = NULL;
        wake_returned(request);
        request = next;
    }
    if (atomic_load(&loop->http->places.evicted) > 0) {
        deadline_cut_evicted(loop);
    }
    if (atomic_load(&loop->handed) != NULL) {
        accepting_open_handed(loop);
    }
    if (atomic_load(&loop->http->draining) && loop->draining_ns == 0) {
        follow_orders(loop, clock_now_ns()); /* http_drain() wakes the loop in this way */
    }
}

/* Sockets have become readable or writable. The sets of the daemons have the same events, so a
 * daemon that does not run now finds its event later. */
static void on_events(uv_poll_t *poll, int status, int events)
{
    struct http_loop *loop = poll->data;
    struct epoll_event ready[MOST_EVENTS];
    (void)status;
    (void)events;
    const uint64_t now_ns = clock_now_ns();
    const int count = epoll_wait(loop->events_fd, ready, MOST_EVENTS, 0);
    for (int i = 0; i < count; i++) {
        struct http_daemon *daemon = ready[i].data.ptr;
        if (daemon->conn != NULL) {
            daemon->conn->moved_ns = now_ns;
            daemon->conn->hangups |= ready[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
        }
        http_daemon_wake(daemon);
    }
}

/* True if libmicrohttpd still has work after a run, without a new event. During a TLS handshake
 * libmicrohttpd always reports work, even if the handshake waits for the client; so a run that
 * transferred no bytes of the handshake is not followed by another one. */
static bool daemon_has_pending(struct http_daemon *daemon)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms = 0;
    if (http_daemon_is_blocked(daemon) ||
        MHD_get_timeout(daemon->mhd, &timeout_ms) != MHD_YES || timeout_ms != 0) {
        return false;
    }
    return daemon->conn == NULL || !daemon->conn->handshaking || daemon->handshake_moved;
}

static void daemon_run_once(struct http_daemon *daemon)
{
    http_daemon_begin_run(daemon);
    daemon->loop->running = daemon;
    if (daemon->returned) {
        continue_request(daemon);
    }
    if (!http_daemon_is_blocked(daemon)) {
        (void)MHD_run(daemon->mhd);
    }
    daemon->loop->running = NULL;
    if (daemon->loop->conn_ended) {
        accepting_resume(daemon->loop);
    }
    const struct exchange *exchange = daemon->conn == NULL ? NULL : daemon->conn->exchange;
    if (daemon->acknowledge && exchange != NULL) {
        const enum request_state state = request_state(&exchange->request);
        if (state == REQUEST_BODY || state == REQUEST_REFUSED) {
            client_socket_acknowledge(daemon->conn->fd);
        }
    }
}

/* A run reads once from the connection, half a buffer at most. A body that fills a small buffer
 * gets several runs, so that all bodies on the loop are read at the same pace. */
static void daemon_run(struct http_daemon *daemon)
{
    size_t runs = 0;
    do {
        daemon_run_once(daemon);
        runs++;
    } while (daemon->reading && !http_daemon_is_blocked(daemon) &&
             runs * daemon->buffer_bytes < ROOMY_BUFFER);
}

/* Set in_run of the daemon's connection, if the daemon has one. places.c reads in_run, also in
 * threads of other loops. */
static void note_run(struct http_daemon *daemon, bool in_run)
{
    if (daemon->conn != NULL) {
        atomic_store_explicit(&daemon->conn->in_run, in_run, memory_order_release);
    }
}

/* Run ready daemons until the turn is over. Returns false if no daemon is ready. */
static bool run_daemons(struct http_loop *loop)
{
    const uint64_t begin_ns = clock_now_ns();
    uint64_t now_ns = begin_ns;
    while (now_ns - begin_ns < TURN_US * NS_PER_US) {
        uint64_t run_ns = now_ns;
        struct http_daemon *daemon = http_daemons_next(loop);
        if (daemon == NULL) {
            return false;
        }
        loop->run_ns = run_ns;
        note_run(daemon, true);
        daemon_run(daemon);
        const bool pending = daemon_has_pending(daemon);
        note_run(daemon, pending);
        now_ns = clock_now_ns();
        http_daemon_served(daemon, now_ns - run_ns);
        if (pending) {
            http_daemon_wake(daemon);
        }
    }
    return true; /* a daemon may be ready; the next turn checks this */
}

static void on_check(uv_check_t *check)
{
    struct http_loop *loop = check->data;
    const bool pending = run_daemons(loop);
    queue_wake(loop->server->queue);
    if (pending) {
        (void)uv_idle_start(&loop->idle, on_noop);
    } else {
        (void)uv_idle_stop(&loop->idle);
    }
}

/* ---- draining and stopping ---- */

static void on_heartbeat(uv_timer_t *timer);

static void follow_orders(struct http_loop *loop, uint64_t now_ns)
{
    if (atomic_load(&loop->http->draining)) {
        if (loop->draining_ns == 0) {
            loop->draining_ns = now_ns;
            (void)uv_timer_start(&loop->heartbeat, on_heartbeat, DRAIN_BEAT_MS, DRAIN_BEAT_MS);
        }
        accepting_end(loop, now_ns);
    }
    if (atomic_load(&loop->http->stopping)) {
        uv_stop(&loop->uv);
    }
}

static void on_heartbeat(uv_timer_t *timer)
{
    struct http_loop *loop = timer->data;
    const uint64_t now_ns = clock_now_ns();
    const uint64_t passed_ns = clock_span_ns(loop->beat_ns, now_ns);
    loop->beat_ns = now_ns;
    if (passed_ns > STOPPED_MS * NS_PER_MS) {
        deadline_excuse(loop, passed_ns - HEARTBEAT_MS * NS_PER_MS, now_ns);
    }
    follow_orders(loop, now_ns);
    /* Heartbeats are more frequent in a drain. Sweeps are not, because each sweep measures the
     * progress since the sweep before. */
    if (loop->draining_ns == 0 || now_ns - loop->sweep_ns >= HEARTBEAT_MS * NS_PER_MS) {
        loop->sweep_ns = now_ns;
        deadline_sweep(loop, now_ns);
        accepting_resume(loop);
    }
    http_daemons_trim(loop);
}

/* End the requests of a loop whose thread has ended. Requires that all requests owned by other
 * threads have returned, except requests on a hung device. */
static void end_requests(struct http_loop *loop)
{
    on_done(&loop->done, 0, 0);
    struct http_daemon *daemon = NULL;
    TAILQ_FOREACH(daemon, &loop->daemons, link)
    {
        for (int run = 0; run < HTTP_STOP_RUNS && !http_daemon_is_blocked(daemon); run++) {
            daemon_run_once(daemon);
        }
    }
    if (loop->completion.expected > 0) {
        /* A hung device owns these requests, and writes to their memory: nothing is freed, and
         * the process is about to end. */
        log_message(loop->server->log, LOG_WARN,
                    "%zu requests are still on a device that hangs", loop->completion.expected);
    }
}

static void *loop_thread(void *arg)
{
    struct http_loop *loop = arg;
    (void)pthread_setname_np(pthread_self(), "tally-http");
    (void)uv_idle_start(&loop->idle, on_noop); /* the first turn begins without an event */
    while (!atomic_load(&loop->http->stopping)) {
        (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    }
    device_pool_close_here();
    return NULL;
}

/* ---- starting and ending ---- */

static enum status start_handles(struct http_loop *loop, struct error *err)
{
    loop->events_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->events_fd < 0 || uv_poll_init(&loop->uv, &loop->events, loop->events_fd) != 0 ||
        uv_poll_init(&loop->uv, &loop->done, loop->completion.fd) != 0 ||
        uv_timer_init(&loop->uv, &loop->heartbeat) != 0 ||
        uv_check_init(&loop->uv, &loop->check) != 0 ||
        uv_idle_init(&loop->uv, &loop->idle) != 0) {
        return error_set(err, STATUS_INTERNAL, "libuv cannot make its handles");
    }
    loop->done.data = loop;
    loop->events.data = loop;
    loop->heartbeat.data = loop;
    loop->check.data = loop;
    loop->beat_ns = clock_now_ns();
    if (uv_poll_start(&loop->done, UV_READABLE, on_done) != 0 ||
        uv_poll_start(&loop->events, UV_READABLE, on_events) != 0 ||
        uv_timer_start(&loop->heartbeat, on_heartbeat, HEARTBEAT_MS, HEARTBEAT_MS) != 0 ||
        uv_check_start(&loop->check, on_check) != 0) {
        return error_set(err, STATUS_INTERNAL, "libuv cannot start its handles");
    }
    return STATUS_OK;
}

enum status loop_start(struct http_loop *loop, struct http *http, struct error *err)
{
    const struct listen_set *sockets = &http->listeners;
    loop->http = http;
    loop->server = http->server;
    http_daemons_init(loop);
    TAILQ_INIT(&loop->evicted);
    TAILQ_INIT(&loop->probes);
    TRY(completion_init(&loop->completion, err));
    if (uv_loop_init(&loop->uv) != 0) {
        completion_deinit(&loop->completion);
        return error_set(err, STATUS_INTERNAL, "libuv cannot make a loop");
    }
    loop->opened = true;
    if (getrandom(&loop->id_seed, sizeof loop->id_seed, GRND_NONBLOCK) < 0) {
        loop->id_seed = clock_now_ns();
    }
    enum status status = start_handles(loop, err);
    for (size_t i = 0; status == STATUS_OK && i < sockets->count; i++) {
        status = accepting_start(loop, &sockets->sockets[i], err);
        if (status == STATUS_OK) {
            status = http_daemon_ensure(loop, loop->listeners[i].tls, err);
        }
    }
    if (status == STATUS_OK) {
        status = thread_start(&loop->thread, loop_thread, loop, "HTTP", err);
    }
    loop->started = status == STATUS_OK;
    return status;
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

void loop_join(struct http_loop *loop)
{
    if (loop->started && !loop->joined) {
        MUST(pthread_join(loop->thread, NULL));
        loop->joined = true;
    }
}

void loop_stop(struct http_loop *loop)
{
    if (loop->joined) {
        end_requests(loop);
    }
    if (!loop->opened || loop->completion.expected > 0) {
        return; /* not opened, or still used by a hung device */
    }
    http_daemons_deinit(loop);
    accepting_stop(loop);
    uv_walk(&loop->uv, close_handle, NULL);
    do { /* repeated if uv_stop() was called before the thread ran the loop */
        (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    } while (uv_loop_close(&loop->uv) == UV_EBUSY);
    (void)close(loop->events_fd);
    completion_deinit(&loop->completion);
    while (loop->free_exchanges != NULL) {
        struct exchange *exchange = loop->free_exchanges;
        loop->free_exchanges = exchange->next_free;
        exchange_free(exchange);
    }
}
