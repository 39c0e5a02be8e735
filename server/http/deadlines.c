/* Time limits of connections. Every heartbeat checks all connections of a loop for clients that
 * send a header or a body slowly, read an answer slowly, have left while their request is
 * computed, or are idle in a drain.
 *
 * | state of the request | limits                                                             |
 * |----------------------|--------------------------------------------------------------------|
 * | before the first     | --header-timeout-ms, which includes the TLS handshake              |
 * | between two requests | --idle-timeout-s without a byte; --header-timeout-ms more until    |
 * |                      | the request line is complete                                       |
 * | HEADER               | --header-timeout-ms                                                |
 * | BODY                 | --body-timeout-ms; --idle-timeout-s without a byte;                |
 * |                      | --min-upload-rate                                                  |
 * | REFUSED, LINGERING   | 1 s until the early answer; 10 s and 16 MiB in all                 |
 * | READY, or owned by   | --request-timeout-ms while it waits for a device, and between      |
 * | another thread       | pieces of text work; --device-timeout-ms on the device             |
 * | ANSWERING            | --answer-timeout-ms; --idle-timeout-s without a byte;              |
 * |                      | --min-upload-rate                                                  |
 *
 * All limits except --idle-timeout-s are absolute: a single byte does not extend them. The
 * limits are long, so that slow links work. Therefore two more rules apply when a resource is
 * lacking. While reservations of memory are refused, requests that hold memory and transfer few
 * bytes are cut, the slowest first. While all places are used and a newcomer waits, two kinds
 * of connections are evicted: connections that places.c chooses, and connections whose body or
 * answer is too slow to end within a minute.
 *
 * A slow sender gets a 408 by respond_early(), because libmicrohttpd can answer only a complete
 * request. After any limit is exceeded, conn_cut() makes libmicrohttpd close the connection.
 *
 * A sweep compares all times with the time of its heartbeat. If the process was stopped
 * (SIGSTOP, a paused container), the next heartbeat excuses all clients: the stop counts as one
 * interval between heartbeats, and bytes that arrived during the stop are read before a limit
 * is checked. A phase may begin after the time of the heartbeat; its age is then 0
 * (clock_span_ns()).
 *
 * Possible failures: none. Thread: the loop. */
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/metrics.h"
#include "server/http/exchange.h"
#include "server/http/loop.h"
#include "server/job/body.h"
#include "server/job/cursor.h"
#include "server/memory/memory.h"
#include "server/sched/client.h"

#include <sys/epoll.h>

enum {
    GRACE_S = 10,     /* age of a body from which its rate is checked */
    EARLY_MS = 1000,  /* age at which a refused request with an incomplete body is answered */
    LINGER_S = 10,    /* time in which the client of a refused request may send more */
    QUIET_MS = 400,   /* time for which a drain waits for a request on an idle connection */
    YOUNG_MS = 250,   /* age up to which a phase is not checked for a client that has left */
    STUCK_SWEEPS = 4, /* heartbeats without progress although bytes are unread */

    /* While memory is refused: */
    PRESSED_MS = 1000,   /* age up to which a refusal counts */
    PROGRESS_MS = 2000,  /* minimum time over which a rate is measured */
    TURNOVER_S = 60,     /* time in which a request should transfer as many bytes as it holds */
    LINK_RATE = 1 << 20, /* bytes per second that are fast enough for any request */
    MOST_CUT = 8         /* maximum number of connections cut in one sweep */
};

static void cut_slow(struct conn *conn, const char *why)
{
    conn_cut_because(conn, why);
    metrics_add(conn->loop->server->metrics, METRICS_COUNTER_SLOW_CLIENTS, 1);
}

/* Returns the state of the connection's request; HEADER between two requests. */
static enum request_state state_of(const struct conn *conn)
{
    return conn->exchange == NULL ? REQUEST_HEADER : request_state(&conn->exchange->request);
}

/* True if the body of the connection's request is arriving or is being discarded. */
static bool is_receiving(const struct conn *conn)
{
    const enum request_state state = state_of(conn);
    return (state == REQUEST_BODY && !request_is_away(&conn->exchange->request)) ||
           state == REQUEST_REFUSED || state == REQUEST_LINGERING;
}

static void time_out_request(struct conn *conn, const char *why)
{
    respond_and_cut(conn, STATUS_REQUEST_TIMEOUT, why);
    metrics_add(conn->loop->server->metrics, METRICS_COUNTER_SLOW_CLIENTS, 1);
}

/* Report the rate of the body to admission, if only the client determines the rate: the body
 * was read for a whole interval between heartbeats, and no byte is unread. If admission takes
 * back promised memory, the pages that were touched for the next bytes are released, too. */
static void check_pace(const struct conn *conn, uint64_t now_ns)
{
    struct request *request = &conn->exchange->request;
    const uint64_t since_ns = larger_of(conn->since_ns, request->admission.begun_ns);
    const uint64_t rate = (request->body.received - conn->seen_bytes) * (1000 / HEARTBEAT_MS);
    if (request->admission.state == ADMISSION_ACTIVE && state_of(conn) == REQUEST_BODY &&
        clock_span_ns(since_ns, now_ns) > HEARTBEAT_MS * NS_PER_MS && !conn_unread(conn) &&
        admission_pace(conn->loop->server->admission, request, rate)) {
        body_forget_pages(request);
    }
}

/* True if libmicrohttpd cannot read the next chunk. Before version 1.0 libmicrohttpd neither
 * accepts nor refuses a chunk header larger than its buffer, but tries to read the header again
 * and again: bytes are unread, and the body does not grow. Two kinds of connections have unread
 * bytes but are not stuck:
 * - The daemon had no run since the last heartbeat: it waits for runs of other connections.
 * - The socket's send buffer is full: libmicrohttpd cannot send its 100 Continue. */
static bool chunks_are_stuck(struct conn *conn)
{
    const struct request_body *body = &conn->exchange->request.body;
    if (body->declared >= 0 || body->received != conn->seen_bytes) {
        conn->seen_bytes = body->received;
        conn->stuck_sweeps = 0;
        return false;
    }
    if (!conn_unread(conn) || client_socket_full(conn->fd)) {
        conn->stuck_sweeps = 0;
    } else if (conn->stuck_sweeps == 0 || conn->stuck_runs != conn->daemon->runs) {
        conn->stuck_sweeps++;
        conn->stuck_runs = conn->daemon->runs;
    }
    return conn->stuck_sweeps > STUCK_SWEEPS;
}

/* True if `bytes` in `age_ns` is slower than the minimum rate. */
static bool body_is_too_slow(const struct config *config, uint64_t bytes, uint64_t age_ns)
{
    uint64_t seconds = age_ns / NS_PER_S;
    return config->min_upload_rate > 0 && seconds > GRACE_S &&
           bytes / seconds < config->min_upload_rate;
}

static void check_discarding(struct exchange *exchange, uint64_t now_ns)
{
    uint64_t age_ns = clock_span_ns(exchange->conn->since_ns, now_ns);
    if (request_state(&exchange->request) == REQUEST_REFUSED) {
        if (age_ns > EARLY_MS * NS_PER_MS) {
            respond_early(exchange);
        }
    } else if (age_ns > LINGER_S * NS_PER_S) {
        conn_cut(exchange->conn);
    }
}

/* Returns the bytes of the body received so far, or of the answer delivered so far. */
static uint64_t bytes_moved(const struct conn *conn)
{
    return is_receiving(conn) ? conn->exchange->request.body.received
                              : client_socket_delivered(conn->fd, conn->answer_given);
}

/* Record the bytes moved, every PROGRESS_MS. */
static void note_progress(struct conn *conn, uint64_t now_ns)
{
    if (conn->progress[0].at_ns == 0 ||
        clock_span_ns(conn->progress[0].at_ns, now_ns) >= PROGRESS_MS * NS_PER_MS) {
        conn->progress[1] = conn->progress[0];
        conn->progress[0] = (struct conn_progress){.at_ns = now_ns, .moved = bytes_moved(conn)};
    }
}

/* True if, for --idle-timeout-s, the socket had no event and the connection's clock was not
 * restarted. */
static bool idles_too_long(const struct conn *conn, uint64_t now_ns)
{
    const uint64_t idle_ns = conn->loop->server->config->idle_timeout_s * NS_PER_S;
    return clock_span_ns(larger_of(conn->since_ns, conn->moved_ns), now_ns) > idle_ns;
}

/* True if no byte of the body has arrived for --idle-timeout-s. */
static bool body_stands_still(struct conn *conn, uint64_t now_ns)
{
    if (conn->exchange->request.body.received != conn->seen_bytes || conn_unread(conn)) {
        conn->moved_ns = now_ns;
        return false;
    }
    return idles_too_long(conn, now_ns);
}

static void check_body(struct conn *conn, uint64_t age_ns, uint64_t now_ns)
{
    const struct config *config = conn->loop->server->config;
    struct exchange *exchange = conn->exchange;
    const bool stands_still = body_stands_still(conn, now_ns);
    check_pace(conn, now_ns);
    note_progress(conn, now_ns);
    if (chunks_are_stuck(conn)) {
        respond_and_cut(conn, STATUS_INVALID_REQUEST, "the body's chunks cannot be read");
    } else if (state_of(conn) != REQUEST_BODY) {
        check_discarding(exchange, now_ns);
    } else if (request_verdict(&exchange->request, now_ns) == STATUS_DEADLINE_PASSED) {
        (void)error_set(
            &exchange->request.error, STATUS_DEADLINE_PASSED,
            "the deadline passed while the body arrived: %llu bytes of it had arrived",
            (unsigned long long)exchange->request.body.received);
        exchange_refuse(exchange);
    } else if (age_ns > config->body_timeout_ms * NS_PER_MS) {
        time_out_request(conn, "the body did not arrive in the time of the server's "
                               "--body-timeout-ms: " CONFIG_LESS_ADVICE);
    } else if (stands_still) {
        time_out_request(conn,
                         "no byte of the body arrived in the time of the server's "
                         "--idle-timeout-s: send it without a pause, or ask the operator");
    } else if (body_is_too_slow(config, exchange->request.body.received, age_ns)) {
        time_out_request(
            conn, "the body arrives more slowly than the server's --min-upload-rate: try "
                  "again over a faster connection, or ask the operator");
    }
}

/* True if the answer takes longer than --answer-timeout-ms, or longer than --idle-timeout-s
 * plus the time that its bytes take at the minimum rate. */
static bool answer_overdue(const struct conn *conn, uint64_t age_ns)
{
    const struct config *config = conn->loop->server->config;
    uint64_t seconds = age_ns / NS_PER_S;
    uint64_t allowed = config->idle_timeout_s;
    if (age_ns > config->answer_timeout_ms * NS_PER_MS) {
        return true;
    }
    if (config->min_upload_rate == 0 || seconds <= allowed) {
        return false;
    }
    return seconds - allowed > conn->answer_bytes / config->min_upload_rate;
}

/* End a request whose cursor has failed: a slice failed while the body was arriving, or a slice
 * hangs on a device. */
static void check_cursor(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    const bool body = request_state(request) == REQUEST_BODY && !request_is_away(request);
    if (body && cursor_has_failed(request)) {
        exchange_refuse(exchange);
    } else if (request_owner(request) == OWNER_CURSOR && cursor_has_failed(request)) {
        exchange_resume(exchange);
    }
}

/* True if a drain may close the idle connection. Before QUIET_MS it may not, because the client
 * may have sent a request before it could notice the drain. */
static bool may_close_in_drain(const struct conn *conn, uint64_t now_ns)
{
    uint64_t draining_ns = conn->loop->draining_ns;
    uint64_t since_ns = conn->since_ns > draining_ns ? conn->since_ns : draining_ns;
    return draining_ns != 0 && clock_span_ns(since_ns, now_ns) > QUIET_MS * NS_PER_MS &&
           !conn_unread(conn);
}

static void check_conn(struct conn *conn, uint64_t now_ns)
{
    const struct config *config = conn->loop->server->config;
    uint64_t header_ns = config->header_timeout_ms * NS_PER_MS;
    uint64_t age_ns = clock_span_ns(conn->since_ns, now_ns);
    if (conn->exchange == NULL) {
        if (may_close_in_drain(conn, now_ns)) {
            conn_cut(conn);
        } else if (!conn->used && age_ns > header_ns) {
            cut_slow(conn, "no request line arrived in time (--header-timeout-ms)");
        } else if (conn->used && idles_too_long(conn, now_ns)) {
            conn_cut_because(conn, "no request arrived in time (--idle-timeout-s)");
        } else if (conn->used && age_ns > header_ns + config->idle_timeout_s * NS_PER_S) {
            cut_slow(conn, "a request line arrived too slowly");
        }
        return;
    }
    if (request_state(&conn->exchange->request) == REQUEST_HEADER) {
        if (age_ns > header_ns) {
            time_out_request(conn, "the headers did not arrive in the time of the server's "
                                   "--header-timeout-ms");
        }
    } else if (is_receiving(conn)) {
        check_cursor(conn->exchange);
        check_body(conn, age_ns, now_ns);
    } else if (state_of(conn) == REQUEST_ANSWERING) {
        if (answer_overdue(conn, age_ns) || idles_too_long(conn, now_ns)) {
            cut_slow(conn,
                     "the answer is read too slowly (--answer-timeout-ms, --min-upload-rate)");
        } else {
            note_progress(conn, now_ns);
        }
    } else { /* the request is READY, or owned by another thread */
        check_cursor(conn->exchange);
    }
}

/* Returns the bytes per second that the client has sent or received in the last two to four
 * seconds; negative: not known. */
static double recent_rate(const struct conn *conn, uint64_t now_ns)
{
    const struct conn_progress *before = &conn->progress[conn->progress[1].at_ns != 0];
    const uint64_t age_ns = clock_span_ns(before->at_ns, now_ns);
    if (!(is_receiving(conn) || state_of(conn) == REQUEST_ANSWERING) || before->at_ns == 0 ||
        age_ns < PROGRESS_MS * NS_PER_MS) {
        return -1;
    }
    return (double)(bytes_moved(conn) - before->moved) * NS_PER_S / (double)age_ns;
}

/* ---- while memory is refused, or all places are used ---- */

/* The resource that a slow connection holds and other clients lack. */
enum held {
    HELD_MEMORY,
    HELD_PLACE
};

/* Returns the number of seconds for which the connection will hold its memory or its place at
 * its recent rate; 0: the rate is high enough, or not known. The rate is high enough if it
 * would transfer, within TURNOVER_S, the bytes that the request holds (or the bytes of its body
 * or answer), or if it reaches LINK_RATE. In any case the rate must reach --min-upload-rate and
 * release memory within ADMISSION_TURNOVER_S. */
static double seconds_of_holding(const struct conn *conn, enum held held, uint64_t now_ns)
{
    const double rate = recent_rate(conn, now_ns);
    /* The rate is also unknown while another thread, which may change reserved_bytes, owns the
     * request. */
    if (rate < 0) {
        return 0;
    }
    const struct request *request = &conn->exchange->request;
    uint64_t bytes = conn->answer_bytes;
    uint64_t wanted = conn->loop->server->config->min_upload_rate;
    if (held == HELD_MEMORY) {
        bytes = request->memory.reserved_bytes;
        wanted = larger_of(wanted, bytes / ADMISSION_TURNOVER_S);
    } else if (is_receiving(conn)) {
        bytes = request->body.declared > 0 ? (uint64_t)request->body.declared
                                           : request->body.received;
    }
    wanted = larger_of(wanted, smaller_of(bytes / TURNOVER_S, LINK_RATE));
    return rate < (double)wanted ? (double)(bytes + (held == HELD_PLACE)) / (rate + 1) : 0;
}

/* Returns the connection that will hold its memory, or its place, for the longest time; NULL:
 * all connections are fast enough. A place counts if the client of the connection holds `least`
 * places or more. */
static struct conn *find_slowest(const struct http_loop *loop, enum held held, uint64_t least,
                                 uint64_t now_ns)
{
    struct conn *slowest = NULL;
    double most = 0;
    for (struct conn *conn = loop_next_conn(loop, NULL); conn != NULL;
         conn = loop_next_conn(loop, conn)) {
        const bool counts =
            !conn->cut &&
            (held == HELD_MEMORY ||
             (!conn->probe &&
              atomic_load_explicit(&conn->client->connections, memory_order_relaxed) >= least));
        const double seconds = counts ? seconds_of_holding(conn, held, now_ns) : 0;
        if (seconds > most) {
            slowest = conn;
            most = seconds;
        }
    }
    return slowest;
}

/* Cut a connection that holds a resource that other clients need. */
static void cut_holder(struct conn *conn, const char *why_sending, const char *why_reading)
{
    if (is_receiving(conn)) {
        time_out_request(conn, why_sending);
    } else {
        cut_slow(conn, why_reading);
    }
}

/* Cut requests that hold memory and transfer few bytes, the slowest first, until the
 * reservation that was refused last would fit. Their memory is released when a later run closes
 * the connection; until then it counts in relief_bytes. Thread: the loop that set `relieving`. */
static void relieve_refused(struct http_loop *loop, uint64_t now_ns)
{
    struct http *http = loop->http;
    const uint64_t since_ns = larger_of(now_ns - PRESSED_MS * NS_PER_MS, http->relieved_ns);
    for (int cut = 0; cut < MOST_CUT; cut++) {
        /* Read relief_bytes first: a cut request releases its memory and then lowers
         * relief_bytes, so its bytes are counted once or twice, but never missed. */
        const uint64_t coming = atomic_load(&http->relief_bytes);
        struct conn *conn = memory_pressed(loop->server->memory, since_ns) <= coming
                                ? NULL
                                : find_slowest(loop, HELD_MEMORY, 0, now_ns);
        if (conn == NULL) {
            return;
        }
        struct exchange *exchange = conn->exchange;
        exchange->relief_bytes = exchange->request.memory.reserved_bytes;
        (void)atomic_fetch_add(&http->relief_bytes, exchange->relief_bytes);
        http->relieved_ns = clock_now_ns();
        cut_holder(
            conn,
            "other requests need memory, and this request, which holds some, arrives too "
            "slowly",
            "other requests need memory, and the answer is read too slowly");
    }
}

/* Relieve the last refusal of memory, unless another loop does so at this moment. */
static void relieve_memory(struct http_loop *loop, uint64_t now_ns)
{
    if (memory_pressed(loop->server->memory, now_ns - PRESSED_MS * NS_PER_MS) > 0 &&
        !atomic_exchange(&loop->http->relieving, true)) {
        relieve_refused(loop, now_ns);
        atomic_store(&loop->http->relieving, false);
    }
}

/* Evict slow connections if newcomers wait and places.c found no idle connection for them. */
static void relieve_places(struct http_loop *loop, uint64_t now_ns)
{
    struct places *places = &loop->http->places;
    for (int cut = 0; cut < MOST_CUT && loop->draining_ns == 0; cut++) {
        const uint64_t wanted = places_wanted(places);
        struct conn *conn = wanted == 0 ? NULL : find_slowest(loop, HELD_PLACE, wanted, now_ns);
        if (conn == NULL || !places_evict(places, conn)) {
            return;
        }
        metrics_add(loop->server->metrics, METRICS_COUNTER_EVICTED, 1);
        cut_holder(
            conn,
            "all connections of the server were in use (--max-connections), and this "
            "request arrived too slowly: send the request again, faster or in smaller parts",
            "other clients need a connection, and the answer is read too slowly");
        accepting_resume(loop);
    }
}

static void cut_evicted(struct conn *conn)
{
    struct exchange *exchange = conn->exchange;
    const enum request_state state = state_of(conn);
    if (state == REQUEST_HEADER) {
        respond_and_cut(conn, STATUS_REQUEST_TIMEOUT,
                        "all connections of the server were in use (--max-connections), and "
                        "this one had no complete request header: send the request again");
    } else if (is_receiving(conn)) {
        exchange->request.reply.limit = METRICS_CLIENT_LIMIT_PART;
        respond_and_cut(conn, STATUS_THROTTLED,
                        "all connections of the server were in use (--max-connections), and "
                        "this client had more than its equal share of them when another client "
                        "needed one: use fewer, and send the request again");
    } else {
        if (request_is_away(&exchange->request)) {
            exchange_cancel(exchange);
        }
        conn_cut_because(conn, "another client needed a connection, and this client had most");
    }
}

void deadline_cut_evicted(struct http_loop *loop)
{
    struct conn *conn = places_next_evicted(&loop->http->places, &loop->evicted);
    while (conn != NULL) {
        metrics_add(loop->server->metrics, METRICS_COUNTER_EVICTED, 1);
        if (!conn->cut) {
            cut_evicted(conn);
        }
        conn = places_next_evicted(&loop->http->places, &loop->evicted);
    }
}

/* ---- clients that have left ---- */

/* The client has closed its side, or the connection was reset. libmicrohttpd 0.9.75 can miss
 * this event, and cannot notice it while the daemon does not run. */
static void client_hung_up(struct conn *conn)
{
    struct exchange *exchange = conn->exchange;
    const bool reset = (conn->hangups & (EPOLLHUP | EPOLLERR)) != 0;
    if (state_of(conn) == REQUEST_ANSWERING) {
        return; /* the client may still read */
    }
    if (is_receiving(conn)) {
        const bool is_read = reset || !conn_unread(conn);
        if (is_read && exchange->request.body.received == conn->body_at_hangup) {
            respond_and_cut(conn, STATUS_LENGTH_MISMATCH,
                            "the connection was closed inside the body");
        }
        conn->body_at_hangup = exchange->request.body.received;
    } else if (state_of(conn) == REQUEST_HEADER) {
        if (reset || !conn_unread(conn)) {
            conn_cut(conn);
        }
    } else if (state_of(conn) == REQUEST_BODY && !reset && conn_ended_early(conn)) {
        /* When the owner returns the request, resume_body() ends it. */
        exchange->closed_inside = true;
        atomic_store_explicit(&exchange->request.cancelled, true, memory_order_relaxed);
        cursor_cancel(&exchange->request);
    } else if (reset) {
        /* A client that has closed only its sending side may still read the answer
         * (docs/design/decisions/015). After a reset no answer is needed: the queue drops the
         * request at its next tick, unless a device runs it already. */
        exchange_cancel(exchange);
    }
}

/* Add by_ns, the time in which the process was stopped, to a time of a connection. The result
 * is at most now_ns: a time that was recorded after the process resumed would otherwise lie in
 * the future. 0 stays 0. */
static void move_time(uint64_t *at_ns, uint64_t by_ns, uint64_t now_ns)
{
    *at_ns = *at_ns == 0 ? 0 : larger_of(*at_ns, smaller_of(*at_ns + by_ns, now_ns));
}

void deadline_excuse(struct http_loop *loop, uint64_t stopped_ns, uint64_t now_ns)
{
    for (struct conn *conn = loop_next_conn(loop, NULL); conn != NULL;
         conn = loop_next_conn(loop, conn)) {
        move_time(&conn->since_ns, stopped_ns, now_ns);
        move_time(&conn->moved_ns, stopped_ns, now_ns);
        move_time(&conn->progress[0].at_ns, stopped_ns, now_ns);
        move_time(&conn->progress[1].at_ns, stopped_ns, now_ns);
    }
}

void deadline_sweep(struct http_loop *loop, uint64_t now_ns)
{
    relieve_memory(loop, now_ns);
    relieve_places(loop, now_ns);
    for (struct conn *conn = loop_next_conn(loop, NULL); conn != NULL;
         conn = loop_next_conn(loop, conn)) {
        if (!conn->cut) {
            check_conn(conn, now_ns);
        }
        if (!conn->cut && conn->hangups != 0 &&
            clock_span_ns(conn->since_ns, now_ns) >= YOUNG_MS * NS_PER_MS) {
            client_hung_up(conn);
        }
    }
}
