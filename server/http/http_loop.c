/* One HTTP thread: MHD daemons in a libuv loop.
 *
 * One turn of a loop:
 *   uv polls --> on_daemon_readable: that daemon has something to do
 *            --> accepting.c: connections wait, each is given to a daemon
 *            --> on_done: requests came back, their connections are resumed
 *            --> on_heartbeat: deadlines, dead clients, MHD's own timeouts
 *   uv_check --> run_daemons: MHD_run() for daemons with something to do, the clients in turn
 *                (http_daemons.c), for at most TURN_US
 *            --> compute_here: short scans that wait, if the device has nothing to do
 *
 * What comes during a turn has its place in the next one. As long as a daemon needs a run, an
 * idle handle keeps the loop from sleeping. At the end of a turn what is short and waits for the
 * processor is computed (compute_here()), and its answers go out; the devices are woken, if not
 * before, for what else was queued.
 *
 * MHD reads client sockets edge-triggered: MHD_get_timeout() saying 0 means that it holds
 * data which no descriptor will announce again, so it is asked after every run. (A 0 ms timer
 * would starve libuv 1.44's polling, therefore the idle handle.) Small requests are not
 * suspended but polled, and for MHD that is something to do, too, and so is a TLS handshake that
 * waits for its client: has_pending() tells them from the rest. */
#include "server/http/loop.h"

#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/thread.h"
#include "server/http/tls.h"
#include "server/infer/infer.h"
#include "server/infer/slices.h"
#include "server/sched/device_pool.h"
#include "server/sched/queue.h"

#include <assert.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    TURN_US = 500,
    HTTP_STOP_RUNS = 16,
    ROOMY_DAEMONS = 4, /* of a loop, the first: most large bodies come by their connections */
    ROOMY_BUFFER = 64 << 10,
    DRAIN_BEAT_MS = 10 /* between heartbeats of a drain: nobody waits long for an exit */
};

/* ---- MHD's callbacks ---- */

static void on_mhd_log(void *cls, const char *format, va_list args) PRINTF_LIKE(2, 0);

static void on_mhd_log(void *cls, const char *format, va_list args)
{
    static const char refusal[] = "Error processing request (HTTP response code is %u ('%s'))";
    struct http_daemon *daemon = cls;
    char text[256];
    va_list again;
    va_copy(again, args);
    (void)vsnprintf(text, sizeof text, format, again);
    va_end(again);
    text[strcspn(text, "\r\n")] = '\0';
    log_message(daemon->loop->server->log, LOG_DEBUG, "microhttpd: %s", text);
    if (strncmp(format, refusal, sizeof refusal - 1) == 0) {
        unsigned http_status = va_arg(args, unsigned);
        unreadable_answer(daemon, http_status, va_arg(args, const char *));
    }
}

static struct conn *conn_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info == NULL ? NULL : info->socket_context;
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_daemon *daemon = cls;
    daemon->progress = true;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        struct conn *conn = info == NULL ? NULL : conn_create(daemon, info->connect_fd);
        if (conn != NULL && daemon->tls) {
            tls_begin(conn, connection);
        }
        *socket_context = conn;
    } else {
        conn_destroy(*socket_context);
        *socket_context = NULL;
    }
}

static void *on_request_line(void *cls, const char *uri, struct MHD_Connection *connection)
{
    struct http_daemon *daemon = cls;
    struct conn *conn = conn_of(connection);
    daemon->progress = true;
    return conn == NULL ? NULL : exchange_begin(conn, connection, uri);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                         enum MHD_RequestTerminationCode how)
{
    struct http_daemon *daemon = cls;
    daemon->progress = true;
    (void)connection;
    (void)how;
    if (*con_cls != NULL) {
        exchange_end(*con_cls);
        *con_cls = NULL;
    }
}

static enum MHD_Result on_field(void *cls, enum MHD_ValueKind kind, const char *name,
                                size_t name_bytes, const char *value, size_t value_bytes)
{
    (void)kind;
    header_check_field(cls, name, name_bytes, value == NULL ? "" : value, value_bytes);
    return MHD_YES;
}

/* Handed over already: whoever has the request gives it back to this very thread, which cannot
 * take it before this call is over.
 *
 * A connection is never suspended in the call that ends its body. MHD would take up reading
 * where it was when that is resumed, and close where the client has closed its side, which is
 * free to do so and still waits for the answer. From the next call on MHD waits for us, not for
 * bytes. */
static void go_away(struct exchange *x, unsigned polls)
{
    x->polls_left = polls;
    x->loop->completion.expected++;
    x->conn->daemon->polled++;
    conn_begin(x->conn);
}

/* Have MHD leave the connection alone until it is resumed. */
static void hold(struct exchange *x)
{
    x->held = true;
    x->conn->daemon->polled--;
    MHD_suspend_connection(x->connection);
}

static enum MHD_Result take_step(struct exchange *x, enum exchange_step step)
{
    switch (step) {
    case EXCHANGE_GO_ON:
        return MHD_YES;
    case EXCHANGE_SUSPEND:
        go_away(x, 0);
        return MHD_YES;
    case EXCHANGE_PAUSE:
        x->conn->body_ns = clock_span_ns(x->conn->since_ns, clock_now_ns());
        go_away(x, 0);
        hold(x); /* at once: MHD still has bytes that are not taken */
        return MHD_YES;
    case EXCHANGE_AWAIT:
        go_away(x, EXCHANGE_MOST_POLLS);
        return MHD_YES;
    case EXCHANGE_ANSWER:
        return respond(x) ? MHD_YES : MHD_NO;
    case EXCHANGE_CLOSE:
        break;
    }
    return MHD_NO;
}

/* NOLINTNEXTLINE(readability-function-size): MHD's signature */
static enum MHD_Result on_access(void *cls, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *data_bytes, void **con_cls)
{
    struct exchange *x = *con_cls;
    struct http_daemon *daemon = cls;
    (void)connection;
    (void)url;
    if (x == NULL) {
        return MHD_NO;
    }
    assert(x->magic == EXCHANGE_MAGIC);
    if (request_is_away(&x->request)) {
        if (x->polls_left == 0) {
            hold(x);
        } else {
            x->polls_left--;
        }
        return MHD_YES;
    }
    daemon->progress = true;
    if (request_state(&x->request) == REQUEST_HEADER) {
        header_check_init(&x->header, strcmp(version, MHD_HTTP_VERSION_1_0) != 0,
                          strlen(x->target), (size_t)x->loop->server->config->max_header_bytes);
        (void)MHD_get_connection_values_n(x->connection, MHD_HEADER_KIND, on_field, &x->header);
        return take_step(x, exchange_header(x, method));
    }
    if (*data_bytes > 0) {
        size_t count = *data_bytes;
        daemon->reading = daemon->reading || count >= daemon->buffer_bytes / 4;
        enum exchange_step step = exchange_data(x, data, count);
        *data_bytes = step == EXCHANGE_PAUSE ? count : 0;
        bool left = request_state(&x->request) == REQUEST_BODY && deadline_left_inside_body(x);
        return take_step(x, left ? EXCHANGE_CLOSE : step);
    }
    if (request_state(&x->request) == REQUEST_READY) {
        return take_step(x, EXCHANGE_ANSWER);
    }
    return take_step(x, exchange_body_end(x));
}

/* ---- the loop's handles ---- */

static void on_noop(uv_idle_t *idle)
{
    (void)idle;
}

void loop_wake(struct http_loop *loop)
{
    for (size_t i = 0; i < loop->daemon_count; i++) {
        loop->daemons[i].need_run = true;
    }
}

static void on_daemon_readable(uv_poll_t *poll, int status, int events)
{
    struct http_daemon *daemon = poll->data;
    (void)status;
    (void)events;
    daemon->need_run = true;
}

void loop_resume(struct exchange *x)
{
    struct http_daemon *daemon = x->conn->daemon;
    x->loop->completion.expected--;
    daemon->need_run = true;
    if (x->held) {
        x->held = false;
        MHD_resume_connection(x->connection);
    } else {
        daemon->polled--;
    }
    request_enter(&x->request, REQUEST_READY);
}

/* A body that waited may go on, or is refused: then request.error says why. */
static void resume_body(struct exchange *x)
{
    struct conn *conn = x->conn;
    x->loop->completion.expected--;
    x->held = false;
    request_enter(&x->request, REQUEST_BODY);
    conn_begin(conn);
    conn->since_ns -= conn->body_ns; /* the time in which we did not read does not count */
    if (x->request.error.status == STATUS_CLIENT_GONE) {
        deadline_cut(conn);
    } else if (x->request.error.status != STATUS_OK || slices_lost(&x->request)) {
        exchange_refuse(x);
    }
    conn->daemon->need_run = true;
    MHD_resume_connection(x->connection);
}

static void take_back(struct request *request)
{
    if (request->slice.of != NULL) {
        request = slices_take_back(request);
    }
    if (request == NULL) {
        return;
    }
    struct exchange *x = exchange_of(request);
    assert(x->magic == EXCHANGE_MAGIC);
    if (x->orphan) {
        x->loop->completion.expected--;
        exchange_end_orphan(x);
        return;
    }
    enum request_state state = request_state(request);
    if (x->loop->stopping && state != REQUEST_PRINTING) {
        (void)error_set(&request->error, STATUS_DRAINING, "the service is shutting down");
    }
    if (state == REQUEST_BODY) {
        exchange_refuse(x); /* it has lost a slice */
    } else if (state == REQUEST_PAUSED) {
        resume_body(x);
    } else if (!infer_advance(request)) {
        loop_resume(x);
    }
}

static void look_at_orders(struct http_loop *loop);

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
    if (atomic_load(loop->draining_order) && loop->draining_ns == 0) {
        look_at_orders(loop); /* this was the wake-up of http_drain() */
        loop_wake(loop);
    }
}

/* True if the daemon still holds something that no descriptor announces. With polled requests
 * and handshakes it always says so: then it is through when a run had nothing new for us, which while answers
 * are being sent takes two, as header and body may go apart. */
static bool has_pending(struct http_daemon *daemon)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms = 0;
    if (daemon->need_run) {
        return true;
    }
    if (MHD_get_timeout(daemon->mhd, &timeout_ms) != MHD_YES || timeout_ms != 0) {
        return false;
    }
    return daemon->polled + daemon->handshaking == 0 ||
           daemon->quiet_runs < (daemon->answering > 0 ? 2U : 1U);
}

static void run_once(struct http_daemon *daemon)
{
    daemon->need_run = false;
    daemon->progress = false;
    daemon->reading = false;
    daemon->handshake = NULL;
    daemon->loop->fresh -= daemon->fresh;
    daemon->fresh = 0;
    (void)MHD_run(daemon->mhd);
    daemon->runs++;
    daemon->quiet_runs = daemon->progress ? 0 : daemon->quiet_runs + 1;
}

/* A run reads once from each connection, half a buffer at most. Where buffers are small, a body that
 * fills them has several runs, so that all bodies on the loop come at the same pace. */
static void run_in_turn(struct http_daemon *daemon)
{
    size_t runs = 0;
    do {
        run_once(daemon);
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
        run_in_turn(daemon);
        daemon->need_run = has_pending(daemon);
        now_ns = clock_now_ns();
        http_daemon_served(daemon, now_ns - run_ns);
    }
    return true; /* perhaps: the next turn sees */
}

/* Compute what is short and waits for a device here and now. True: requests came back. */
static bool compute_here(struct http_loop *loop)
{
    if (!queue_waits(loop->server->queue)) {
        return false;
    }
    completion_stay_awake(&loop->completion);
    const bool ran = device_pool_run_here(loop->server->devices);
    take_chain_back(completion_take_awake(&loop->completion));
    return ran;
}

static void on_check(uv_check_t *check)
{
    struct http_loop *loop = check->data;
    bool pending = run_daemons(loop);
    if (compute_here(loop)) { /* the answers go out in the same turn */
        pending = run_daemons(loop);
        pending = compute_here(loop) || pending;
    }
    queue_wake(loop->server->queue);
    if (pending) {
        (void)uv_idle_start(&loop->idle, on_noop);
    } else {
        (void)uv_idle_stop(&loop->idle);
    }
}

/* ---- draining and stopping ---- */

static void on_heartbeat(uv_timer_t *timer);

static void look_at_orders(struct http_loop *loop)
{
    if (atomic_load(loop->draining_order)) {
        uint64_t now_ns = clock_now_ns();
        if (loop->draining_ns == 0) {
            loop->draining_ns = now_ns;
            (void)uv_timer_start(&loop->heartbeat, on_heartbeat, DRAIN_BEAT_MS, DRAIN_BEAT_MS);
        }
        accepting_end(loop, now_ns);
    }
    if (atomic_load(loop->stopping_order)) {
        loop->stopping = true;
        uv_stop(&loop->uv);
    }
}

static void on_heartbeat(uv_timer_t *timer)
{
    struct http_loop *loop = timer->data;
    uint64_t now_ns = clock_now_ns();
    look_at_orders(loop);
    /* In a drain it beats more often, but progress is measured between sweeps. */
    bool due = loop->draining_ns == 0 || now_ns - loop->swept_ns >= HEARTBEAT_MS * NS_PER_MS;
    if (due) {
        loop->swept_ns = now_ns;
        deadline_sweep(loop);
        accepting_resume(loop);
    }
    loop_wake(loop);
}

/* After the loop's thread has ended, which this one is now instead: everything suspended has
 * come back or never will. */
static void stop_daemons(struct http_loop *loop)
{
    on_done(&loop->done, 0, 0);
    for (size_t i = 0; i < loop->daemon_count; i++) {
        for (int run = 0; run < HTTP_STOP_RUNS; run++) {
            run_once(&loop->daemons[i]);
        }
    }
    if (loop->completion.expected > 0) {
        /* A hung device still has requests: MHD would abort. The process is about to end. */
        log_message(loop->server->log, LOG_WARN, "%zu requests never came back",
                    loop->completion.expected);
        return;
    }
    for (size_t i = 0; i < loop->daemon_count; i++) {
        struct http_daemon *daemon = &loop->daemons[i];
        MHD_stop_daemon(daemon->mhd);
        assert(daemon->polled == 0 && daemon->answering == 0 && daemon->conn_count == 0);
    }
}

static void *loop_thread(void *arg)
{
    struct http_loop *loop = arg;
    assert(loop->magic == LOOP_MAGIC);
    (void)pthread_setname_np(pthread_self(), "tally-http");
    loop_wake(loop);
    (void)uv_idle_start(&loop->idle, on_noop); /* a first turn without an event */
    while (!loop->stopping) {
        (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    }
    return NULL;
}

/* ---- starting and ending ---- */

/* Of each of the daemon's connections. libmicrohttpd reads a body by half a buffer, so large ones
 * are faster, and clears all of it after each request: with hundreds of connections they do not
 * stay in the processor's cache. */
static size_t buffer_size(const struct http_daemon *daemon)
{
    const struct http_loop *loop = daemon->loop;
    size_t bytes = (size_t)loop->server->config->max_header_bytes;
    bool roomy = daemon < &loop->daemons[ROOMY_DAEMONS];
    return roomy && bytes < ROOMY_BUFFER ? ROOMY_BUFFER : bytes;
}

enum status http_daemon_start(struct http_daemon *daemon, struct error *err)
{
    struct http_loop *loop = daemon->loop;
    const struct config *config = loop->server->config;
    daemon->buffer_bytes = buffer_size(daemon);
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)daemon->buffer_bytes, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (intptr_t)daemon->buffer_bytes, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)loop->conn_limit, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, (intptr_t)config->idle_timeout_s, NULL},
        {MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, NULL},
#if MHD_VERSION >= 0x00097701
        {MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1, NULL},
#else
        /* What 1 would refuse, without Host or with blanks in the target, the header check and
         * target_parse() refuse as well, in JSON. */
        {MHD_OPTION_STRICT_FOR_CLIENT, 0, NULL},
#endif
        {daemon->tls ? MHD_OPTION_HTTPS_PRIORITIES : MHD_OPTION_END, 0, tls_priorities()},
        {MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, tls_no_certificate()},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned flags =
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | MHD_USE_NO_LISTEN_SOCKET;
    flags |= daemon->tls ? (unsigned)MHD_USE_TLS : 0;
#if MHD_VERSION >= 0x00097707
    /* Without it MHD_add_connection() only queues the connection, and on_connection() comes when
     * nothing is known any more of who was accepted. */
    flags |= MHD_USE_NO_THREAD_SAFETY;
#endif
    daemon->mhd = MHD_start_daemon(
        flags, 0, NULL, NULL, on_access, daemon, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, daemon,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, daemon, MHD_OPTION_URI_LOG_CALLBACK,
        on_request_line, daemon, MHD_OPTION_NOTIFY_COMPLETED, on_completed, daemon,
        MHD_OPTION_ARRAY, options, MHD_OPTION_END);
    if (daemon->mhd == NULL) {
        return error_set(err, STATUS_INTERNAL, "libmicrohttpd cannot start");
    }
    daemon->poll.data = daemon;
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(daemon->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    if (info == NULL || uv_poll_init(&loop->uv, &daemon->poll, info->epoll_fd) != 0 ||
        uv_poll_start(&daemon->poll, UV_READABLE, on_daemon_readable) != 0) {
        MHD_stop_daemon(daemon->mhd);
        daemon->mhd = NULL;
        return error_set(err, STATUS_INTERNAL, "libuv cannot watch connections");
    }
    return STATUS_OK;
}

static enum status handles_start(struct http_loop *loop, struct error *err)
{
    if (uv_loop_init(&loop->uv) != 0) {
        return error_set(err, STATUS_INTERNAL, "libuv cannot make a loop");
    }
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
static enum status have_daemon(struct http_loop *loop, bool tls, struct error *err)
{
    for (size_t i = 0; i < loop->daemon_count; i++) {
        if (loop->daemons[i].tls == tls) {
            return STATUS_OK;
        }
    }
    struct http_daemon *daemon = &loop->daemons[loop->daemon_count];
    *daemon = (struct http_daemon){.loop = loop, .tls = tls};
    enum status status = http_daemon_start(daemon, err);
    loop->daemon_count += status == STATUS_OK;
    return status;
}

enum status loop_start(struct http_loop *loop, const struct listen_set *sockets,
                       struct error *err)
{
    loop->magic = LOOP_MAGIC;
    if (getrandom(&loop->id_prefix, sizeof loop->id_prefix, GRND_NONBLOCK) < 0) {
        loop->id_prefix = (uint32_t)uv_hrtime(); /* ids need not be secret */
    }
    enum status status = completion_init(&loop->completion, err);
    if (status == STATUS_OK) {
        status = handles_start(loop, err);
    }
    for (size_t i = 0; status == STATUS_OK && i < sockets->count; i++) {
        status = accepting_start(loop, &sockets->sockets[i], err);
        if (status == STATUS_OK) {
            status = have_daemon(loop, loop->listeners[i].tls, err);
        }
    }
    if (status == STATUS_OK && pthread_create(&loop->thread, NULL, loop_thread, loop) != 0) {
        status = error_set(err, STATUS_INTERNAL, "no thread for HTTP");
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
        stop_daemons(loop);
    }
    if (loop->magic != LOOP_MAGIC || loop->completion.expected > 0) {
        return; /* never begun, or still in use by a hung device */
    }
    if (!loop->started) {
        for (size_t i = 0; i < loop->daemon_count; i++) {
            MHD_stop_daemon(loop->daemons[i].mhd);
        }
    }
    accepting_stop(loop);
    uv_walk(&loop->uv, close_handle, NULL);
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop->uv);
    completion_deinit(&loop->completion);
    while (loop->free_exchanges != NULL) {
        struct exchange *x = loop->free_exchanges;
        loop->free_exchanges = x->next_free;
        exchange_free(x);
    }
}
