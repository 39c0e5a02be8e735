/* One HTTP thread: MHD daemons in a libuv loop.
 *
 * One turn of a loop:
 *   uv polls --> on_daemon_readable: that daemon has something to do
 *            --> accepting.c: connections wait, each is given to a daemon
 *            --> on_done: requests came back, their connections are resumed; connections that
 *                another loop accepted for this one
 *            --> on_heartbeat: deadlines, dead clients, MHD's own timeouts
 *   uv_check --> convert_waiting_texts: those that the turn before had no time for
 *            --> run_daemons: MHD_run() for daemons with something to do, the clients in turn
 *                (http_daemons.c), for at most TURN_US
 *
 * What comes during a turn has its place in the next one. As long as a daemon needs a run, an
 * idle handle keeps the loop from sleeping. At the end of a turn the devices are woken, if not
 * before, for the requests that were queued.
 *
 * MHD reads client sockets edge-triggered: MHD_get_timeout() saying 0 means that it holds
 * data which no descriptor will announce again, so it is asked after every run. (A 0 ms timer
 * would starve libuv 1.44's polling, therefore the idle handle.) MHD says so, too, of a TLS
 * handshake that waits for its client: daemon_has_pending() tells that from the rest. */
#include "server/http/loop.h"

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/thread.h"
#include "server/infer/job.h"
#include "server/infer/slices.h"
#include "server/sched/queue.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    TURN_US = 150,
    HTTP_STOP_RUNS = 16,
    STOPPED_MS = 1000, /* no turn for longer: SIGSTOP, a container that was paused */
    PAID_BYTES = 1024, /* of a body and its sums: less is converted in a microsecond */
    MOST_UNSWEPT = 4,  /* heartbeats in a row, where every turn takes as long as that */
    DRAIN_BEAT_MS = 10 /* between heartbeats of a drain: nobody waits long for an exit */
};

/* ---- the loop's handles ---- */

static void on_noop(uv_idle_t *idle)
{
    (void)idle;
}

/* Run them all before the loop sleeps, whatever they brought before. */
static void wake_daemons(struct http_loop *loop)
{
    for (size_t i = 0; i < loop->daemon_count; i++) {
        loop->daemons[i].need_run = true;
        loop->daemons[i].brings_texts = false;
    }
}

void loop_after_run(struct exchange *exchange, enum after_run what)
{
    if (exchange->after_run == AFTER_RUN_NOTHING) {
        LIST_INSERT_HEAD(&exchange->conn->daemon->after_run, exchange, after_run_link);
    }
    exchange->after_run = what;
}

void loop_forget_after_run(struct exchange *exchange)
{
    if (exchange->after_run != AFTER_RUN_NOTHING) {
        exchange->after_run = AFTER_RUN_NOTHING;
        LIST_REMOVE(exchange, after_run_link);
    }
}

/* Suspend a connection whose request went away in this run. Callbacks must not do it, because MHD
 * still has bytes then that it has read: when the connection is resumed, MHD reads first. If the
 * client has closed its side, which it is free to do while it waits, MHD closes the connection,
 * whatever it had. After the run it has nothing left of a body but the beginning of a chunk, and
 * once the body is complete it waits for us, not for bytes. (MHD's manual allows suspending in
 * callbacks alone, for the sake of daemons with threads.) */
static void suspend_connection(struct exchange *exchange)
{
    exchange->held = true;
    exchange->conn->daemon->polled--;
    MHD_suspend_connection(exchange->conn->connection);
}

/* The run is over. What of a body has not come by now may wait for us to acknowledge its head. */
static void do_after_run(struct http_daemon *daemon)
{
    while (!LIST_EMPTY(&daemon->after_run)) {
        struct exchange *exchange = LIST_FIRST(&daemon->after_run);
        const enum after_run what = exchange->after_run;
        const enum request_state state = request_state(&exchange->request);
        loop_forget_after_run(exchange);
        if (what == AFTER_RUN_SUSPEND) {
            suspend_connection(exchange);
        } else if (state == REQUEST_BODY || state == REQUEST_REFUSED) {
            client_socket_acknowledge(exchange->conn->fd);
        }
    }
}

void loop_resume(struct exchange *exchange)
{
    request_set_owner(&exchange->request, OWNER_LOOP);
    struct http_daemon *daemon = exchange->conn->daemon;
    exchange->loop->completion.expected--;
    daemon->need_run = true;
    if (exchange->held) {
        exchange->held = false;
        MHD_resume_connection(exchange->conn->connection);
    } else {
        daemon->polled--;
    }
    request_enter(&exchange->request, REQUEST_READY);
}

/* A body that waited may go on, or is refused: then request.error says why. */
static void resume_body(struct exchange *exchange)
{
    struct conn *conn = exchange->conn;
    conn_begin(conn);
    conn->since_ns -= conn->body_ns; /* the time in which we did not read does not count */
    const enum status status = exchange->request.error.status;
    enum exchange_step step = EXCHANGE_CLOSE;
    if (exchange->left_inside) {
        step = EXCHANGE_GO_ON; /* to its refusal */
    } else if (status != STATUS_CLIENT_GONE) {
        if (status != STATUS_OK || slices_lost(&exchange->request)) {
            exchange_refuse(exchange);
        }
        step = exchange_land_kept(exchange);
    }
    if (step == EXCHANGE_PAUSE) {
        return; /* it waits for something else now */
    }
    if (step == EXCHANGE_CLOSE) {
        deadline_cut(conn);
    } else if (request_state(&exchange->request) == REQUEST_BODY) {
        (void)deadline_left_inside_body(exchange);
    }
    exchange->loop->completion.expected--;
    exchange->held = false;
    conn->daemon->need_run = true;
    MHD_resume_connection(exchange->conn->connection);
}

/* Carry on with a request that another thread returned. The connection's turns pay for the text that
 * this step converts. Reading the clock costs more than a step without a text, so such a step is
 * free. */
static void advance(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    struct http_daemon *daemon = exchange->conn->daemon;
    const bool converts = request->head_bytes + request->out_bytes >= PAID_BYTES;
    const uint64_t begin_ns = converts ? clock_now_ns() : 0;
    if (request->error.status != STATUS_OK || request_state(request) == REQUEST_READY ||
        job_run(request)) {
        loop_resume(exchange);
    }
    if (converts) {
        http_daemon_served(daemon, clock_now_ns() - begin_ns);
    }
}

static void take_back(struct request *request)
{
    if (request->slice.of != NULL) {
        request = slices_take_back(request);
    }
    if (request == NULL) {
        return;
    }
    struct exchange *exchange = exchange_of(request);
    assert(exchange->magic == EXCHANGE_MAGIC);
    if (exchange->orphan) {
        exchange->loop->completion.expected--;
        exchange_end_orphan(exchange);
        return;
    }
    const bool was_away = request_is_away(request);
    const enum request_state state = request_state(request);
    request_set_owner(request, OWNER_LOOP);
    if (state != REQUEST_READY) {
        (void)exchange_comes_too_late(exchange);
    }
    if (state == REQUEST_BODY && !was_away) {
        exchange_refuse(exchange); /* the request has lost a slice */
    } else if (state == REQUEST_BODY) {
        resume_body(exchange);
    } else {
        advance(exchange);
    }
}

static void follow_orders(struct http_loop *loop);

static void take_chain_back(struct request *request)
{
    while (request != NULL) {
        struct request *next = request->next;
        request->next = NULL;
        take_back(request);
        request = next;
    }
}

static void on_done(uv_poll_t *poll, int status, int events)
{
    struct http_loop *loop = poll->data;
    (void)status;
    (void)events;
    struct request *request = completion_take(&loop->completion);
    take_chain_back(request);
    deadline_cut_evicted(loop);
    accepting_take_handed(loop);
    if (atomic_load(&loop->http->draining) && loop->draining_ns == 0) {
        follow_orders(loop); /* this was the wake-up of http_drain() */
        wake_daemons(loop);
    }
}

/* After a run that began then: true if the daemon still holds something that no descriptor
 * announces. With polled requests and handshakes it always says so: then it is through when a run
 * had nothing new for us, which takes two while answers are being sent, as header and body may go
 * apart. */
static bool daemon_has_pending(struct http_daemon *daemon, uint64_t began_ns)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms = 0;
    if (daemon->need_run) {
        return true;
    }
    if (MHD_get_timeout(daemon->mhd, &timeout_ms) != MHD_YES || timeout_ms != 0) {
        daemon->settled_ns = began_ns;
        return false;
    }
    return daemon->polled + daemon->handshaking == 0 ||
           daemon->quiet_runs < (daemon->answering > 0 ? 2U : 1U);
}

static void daemon_run_once(struct http_daemon *daemon)
{
    daemon->need_run = false;
    daemon->progress = false;
    daemon->reading = false;
    daemon->handshake = NULL;
    daemon->fresh = 0;
    (void)MHD_run(daemon->mhd);
    do_after_run(daemon);
    daemon->runs++;
    daemon->quiet_runs = daemon->progress ? 0 : daemon->quiet_runs + 1;
}

/* A run reads once from each connection, half a buffer at most. Where buffers are small, a body
 * that fills them has several runs, so that all bodies on the loop come at the same pace. */
static void daemon_run(struct http_daemon *daemon)
{
    size_t runs = 0;
    do {
        daemon_run_once(daemon);
        runs++;
    } while (daemon->reading && runs * daemon->buffer_bytes < ROOMY_BUFFER);
}

/* Run daemons that need it until the turn is over; true if one still does. */
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
        daemon_run(daemon);
        daemon->need_run = daemon_has_pending(daemon, run_ns);
        now_ns = clock_now_ns();
        http_daemon_served(daemon, now_ns - run_ns);
    }
    return true; /* perhaps: the next turn sees */
}

/* A turn begins with the texts that wait for one. */
static void convert_waiting_texts(struct http_loop *loop)
{
    struct text_turn *texts = &loop->completion.texts;
    text_turn_begin(texts);
    for (struct request *request = text_turn_next(texts); request != NULL;
         request = text_turn_next(texts)) {
        const uint64_t now_ns = clock_now_ns();
        exchange_of(request)->conn->daemon->brings_texts = true;
        if (request_verdict(request, now_ns) == STATUS_OK) {
            take_back(request);
        } else {
            request_end_expired(request, now_ns, "its turn on an HTTP thread");
        }
    }
}

/* What the time is. A process that was stopped finds all bounds of its clients passed, and what
 * they sent meanwhile unread: nobody is cut for it before a run has read. */
static uint64_t notice_stop(struct http_loop *loop)
{
    const uint64_t now_ns = clock_now_ns();
    if (clock_span_ns(loop->awake_ns, now_ns) > STOPPED_MS * NS_PER_MS) {
        for (struct conn *conn = loop_next_conn(loop, NULL); conn != NULL;
             conn = loop_next_conn(loop, conn)) {
            conn_renew(conn);
        }
        loop->stood_still = true;
    }
    loop->awake_ns = now_ns;
    return now_ns;
}

static void on_check(uv_check_t *check)
{
    struct http_loop *loop = check->data;
    (void)notice_stop(loop);
    convert_waiting_texts(loop);
    const bool pending = run_daemons(loop);
    queue_wake(loop->server->queue);
    if (pending || text_turn_waits(&loop->completion.texts)) {
        (void)uv_idle_start(&loop->idle, on_noop);
    } else {
        (void)uv_idle_stop(&loop->idle);
    }
}

/* ---- draining and stopping ---- */

static void on_heartbeat(uv_timer_t *timer);

static void follow_orders(struct http_loop *loop)
{
    if (atomic_load(&loop->http->draining)) {
        uint64_t now_ns = clock_now_ns();
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
    const uint64_t now_ns = notice_stop(loop);
    follow_orders(loop);
    /* In a drain it beats more often, but progress is measured between sweeps. */
    bool due = loop->draining_ns == 0 || now_ns - loop->swept_ns >= HEARTBEAT_MS * NS_PER_MS;
    if (due) {
        loop->swept_ns = now_ns;
        /* What came meanwhile is read first. But a thread that hardly ever has a processor stands
         * still before every heartbeat, and its clients have their bounds, too. */
        if (loop->stood_still && loop->unswept < MOST_UNSWEPT) {
            loop->unswept++;
        } else {
            loop->unswept = 0;
            deadline_sweep(loop);
        }
        loop->stood_still = false;
        accepting_resume(loop);
    }
    wake_daemons(loop);
}

/* Called after the loop's thread has ended, in its stead: everything suspended has come back or
 * never will. */
static void end_requests(struct http_loop *loop)
{
    while (text_turn_waits(&loop->completion.texts)) {
        convert_waiting_texts(loop);
    }
    on_done(&loop->done, 0, 0);
    for (size_t i = 0; i < loop->daemon_count; i++) {
        for (int run = 0; run < HTTP_STOP_RUNS; run++) {
            daemon_run_once(&loop->daemons[i]);
        }
    }
    if (loop->completion.expected > 0) {
        /* A hung device still has requests: MHD would abort. The process is about to end. */
        log_message(loop->server->log, LOG_WARN, "%zu requests never came back",
                    loop->completion.expected);
    }
}

static void *loop_thread(void *arg)
{
    struct http_loop *loop = arg;
    (void)pthread_setname_np(pthread_self(), "tally-http");
    wake_daemons(loop);
    (void)uv_idle_start(&loop->idle, on_noop); /* a first turn without an event */
    while (!atomic_load(&loop->http->stopping)) {
        (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    }
    return NULL;
}

/* ---- starting and ending ---- */

/* SplitMix64. */
uint64_t loop_draw_id(struct http_loop *loop)
{
    loop->id_seed += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t id = loop->id_seed;
    id = (id ^ (id >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    id = (id ^ (id >> 27)) * UINT64_C(0x94d049bb133111eb);
    return id ^ (id >> 31);
}

/* Give the descriptor of the completion list a number above those of connections and daemons. libuv
 * has a table with an entry for each number up to the highest that it watches, and aborts where the
 * table cannot grow; so the table has its final length when the loop starts. */
static enum status raise_descriptor(struct http_loop *loop, struct error *err)
{
    const int low = loop->completion.fd;
    const int high = fcntl(low, F_DUPFD_CLOEXEC, loop->http->watched_fd);
    if (high < 0) {
        return error_set(err, STATUS_INTERNAL,
                         "no file descriptor is free from number %d on for an HTTP thread: %s; "
                         "raise the limit (ulimit -n)",
                         loop->http->watched_fd, strerrordesc_np(errno));
    }
    (void)close(low);
    loop->completion.fd = high;
    return STATUS_OK;
}

static enum status start_handles(struct http_loop *loop, struct error *err)
{
    TRY(raise_descriptor(loop, err));
    if (uv_poll_init(&loop->uv, &loop->done, loop->completion.fd) != 0 ||
        uv_timer_init(&loop->uv, &loop->heartbeat) != 0 ||
        uv_check_init(&loop->uv, &loop->check) != 0 ||
        uv_idle_init(&loop->uv, &loop->idle) != 0) {
        return error_set(err, STATUS_INTERNAL, "libuv cannot make its handles");
    }
    loop->done.data = loop;
    loop->heartbeat.data = loop;
    loop->check.data = loop;
    if (uv_poll_start(&loop->done, UV_READABLE, on_done) != 0 ||
        uv_timer_start(&loop->heartbeat, on_heartbeat, HEARTBEAT_MS, HEARTBEAT_MS) != 0 ||
        uv_check_start(&loop->check, on_check) != 0) {
        return error_set(err, STATUS_INTERNAL, "libuv cannot start its handles");
    }
    return STATUS_OK;
}

/* So that there is always one that speaks TLS, or does not. */
static enum status ensure_daemon(struct http_loop *loop, bool tls, struct error *err)
{
    for (size_t i = 0; i < loop->daemon_count; i++) {
        if (loop->daemons[i].tls == tls) {
            return STATUS_OK;
        }
    }
    return http_daemons_add(loop, tls, err);
}

enum status loop_start(struct http_loop *loop, struct http *http, struct error *err)
{
    const struct listen_set *sockets = &http->listeners;
    loop->http = http;
    loop->server = http->server;
    TAILQ_INIT(&loop->evicted);
    TAILQ_INIT(&loop->probes);
    TRY(completion_init(&loop->completion, err));
    if (uv_loop_init(&loop->uv) != 0) {
        completion_deinit(&loop->completion);
        return error_set(err, STATUS_INTERNAL, "libuv cannot make a loop");
    }
    loop->opened = true;
    if (getrandom(&loop->id_seed, sizeof loop->id_seed, GRND_NONBLOCK) < 0) {
        loop->id_seed = uv_hrtime(); /* ids need not be secret */
    }
    enum status status = start_handles(loop, err);
    for (size_t i = 0; status == STATUS_OK && i < sockets->count; i++) {
        status = accepting_start(loop, &sockets->sockets[i], err);
        if (status == STATUS_OK) {
            status = ensure_daemon(loop, loop->listeners[i].tls, err);
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
        return; /* never begun, or still in use by a hung device */
    }
    for (size_t i = 0; i < loop->daemon_count; i++) {
        struct http_daemon *daemon = &loop->daemons[i];
        MHD_stop_daemon(daemon->mhd);
        assert(daemon->polled == 0 && daemon->answering == 0 && daemon->conn_count == 0);
    }
    accepting_stop(loop);
    uv_walk(&loop->uv, close_handle, NULL);
    do { /* twice where the order to stop came before its thread ran it */
        (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    } while (uv_loop_close(&loop->uv) == UV_EBUSY);
    thread_device_close(&loop->completion.device);
    completion_deinit(&loop->completion);
    while (loop->free_exchanges != NULL) {
        struct exchange *exchange = loop->free_exchanges;
        loop->free_exchanges = exchange->next_free;
        exchange_free(exchange);
    }
}
