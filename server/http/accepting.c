/* The listening sockets of a loop: accepting connections, and closing the sockets in a drain.
 *
 * All loops listen. The loop that wakes first accepts the connection and hands it to the least
 * crowded loop, through a list that the other loop reads when it is woken. Otherwise one loop,
 * on one core, would serve a whole burst of connections. In a drain a loop serves all
 * connections that it accepts.
 *
 *     accept() --> places_ask() --> PLACES_TAKEN --> the least crowded loop --> libmicrohttpd
 *                               --> PLACES_WAITS --> places_next(), at once and whenever a
 *                                                    connection ends or a heartbeat passes
 *                               --> refused: 429, closed
 *
 * Every turn of a loop accepts some connections, even if earlier ones are not served yet. The
 * backlog is one queue for all clients, so otherwise a connection could wait behind thousands
 * of connections of another client. Connections of --probe-listen need no place: each loop has
 * at most MOST_PROBES of them, and cuts the oldest one for a new one. While the process has no
 * free descriptor, connections stay in the backlog until a connection ends or a heartbeat
 * passes.
 *
 * Closing a listening socket resets the connections in its backlog, on which clients may have
 * sent requests. So listen_end() first prevents new handshakes. The loop closes the socket when
 * the handshakes in progress are over and the backlog is empty. A drain evicts no connection
 * and refuses no newcomer, so at the limit of connections the backlog empties only as
 * connections end. A socket that systemd holds open is closed at once, because its backlog
 * waits for the next process of the service.
 *
 * Possible failures: no descriptor or memory for a connection, which then waits in the backlog;
 * no daemon for a connection, which is closed. Thread: the loop. */
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/http/http.h"
#include "server/http/loop.h"
#include "server/sched/client.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MOST_PROBES = 16,    /* connections of --probe-listen on a loop */
    MOST_ACCEPTED = 32,  /* connections accepted in one turn, or handed over to one loop */
    FEW_CONNECTIONS = 4, /* connections of a loop that is not crowded */
    HANDSHAKE_MS = 250   /* time from a SYN to the ACK that ends the handshake: a round trip, or
                          * the delay of loopback packets on an overloaded machine */
};

static void on_listener(uv_poll_t *poll, int status, int events);

/* Stop watching the listening sockets: all of them if `all`, else those of clients. */
static void pause_listeners(struct http_loop *loop, bool all)
{
    for (size_t i = 0; i < loop->listener_count; i++) {
        struct listener *listener = &loop->listeners[i];
        if (!listener->closed && !listener->paused && (all || !listener->probe)) {
            (void)uv_poll_stop(&listener->poll);
            listener->paused = true;
        }
    }
}

static bool backlog_is_empty(const struct listener *listener)
{
    struct pollfd waiting = {.fd = listener->fd, .events = POLLIN};
    return poll(&waiting, 1, 0) == 0;
}

/* In a drain no connection is evicted, and every newcomer is served. */
static bool is_draining(const struct http_loop *loop)
{
    return loop->draining_ns != 0 || atomic_load(&loop->http->draining);
}

static void free_newcomer(struct newcomer *newcomer)
{
    client_release(newcomer->client);
    free(newcomer);
}

/* ---- the loop that serves a newcomer ---- */

/* Returns the number of connections on the loop. Fewer than FEW_CONNECTIONS count as none,
 * because one thread serves them more cheaply than two threads that wait for each other. */
static size_t crowding(struct http_loop *loop)
{
    size_t count = atomic_load_explicit(&loop->conn_count, memory_order_relaxed);
    return count < FEW_CONNECTIONS ? 0 : count;
}

/* Returns the loop that should serve a connection which `loop` has accepted. */
static struct http_loop *least_crowded(struct http_loop *loop)
{
    struct http *http = loop->http;
    struct http_loop *least = loop;
    for (size_t i = http->loop_count; i-- > 0 && !atomic_load(&http->draining);) {
        struct http_loop *other = &http->loops[i];
        bool accepts =
            atomic_load(&other->accepting) &&
            atomic_load_explicit(&other->handed_count, memory_order_relaxed) < MOST_ACCEPTED;
        if ((accepts || other == loop) && crowding(other) <= crowding(least)) {
            least = other; /* of equally crowded loops, the one with the lowest index remains */
        }
    }
    return least;
}

/* Hand the newcomer to the loop `to`, and wake that loop to open the connection. Thread:
 * any. */
static void hand_over(struct http_loop *to, struct newcomer *newcomer)
{
    (void)atomic_fetch_add(&to->conn_count, 1);
    (void)atomic_fetch_add(&to->handed_count, 1);
    newcomer->next = atomic_load(&to->handed);
    while (!atomic_compare_exchange_weak(&to->handed, &newcomer->next, newcomer)) {
    }
    completion_wake(&to->completion);
}

/* Hand over the waiting newcomers for which places are free. */
static void hand_over_waiting(struct http_loop *loop)
{
    const bool may_evict = !is_draining(loop);
    const uint64_t now_ns = clock_now_ns();
    while (!atomic_load(&loop->http->stopping)) {
        struct http_loop *wake = NULL;
        struct newcomer *newcomer = places_next(&loop->http->places, may_evict, now_ns, &wake);
        if (wake != NULL) {
            completion_wake(&wake->completion);
        }
        if (newcomer == NULL) {
            return;
        }
        hand_over(least_crowded(loop), newcomer);
    }
}

void accepting_resume(struct http_loop *loop)
{
    loop->conn_ended = false;
    hand_over_waiting(loop);
    const bool can_accept = places_can_accept(&loop->http->places, is_draining(loop));
    for (size_t i = 0; i < loop->listener_count; i++) {
        struct listener *listener = &loop->listeners[i];
        if (!listener->closed && listener->paused && (can_accept || listener->probe)) {
            listener->paused = uv_poll_start(&listener->poll, UV_READABLE, on_listener) != 0;
        }
    }
}

/* Hand a connection to a daemon of libmicrohttpd, which owns the socket from then on, even on
 * failure. MHD_add_connection() calls on_connection() (http_callbacks.c), which creates the
 * record. */
static void add_connection(struct http_loop *loop, struct newcomer *newcomer)
{
    struct error ignored = ERROR_INIT;
    struct http_daemon *daemon = NULL;
    loop->accepted = newcomer;
    if (http_daemon_ensure(loop, newcomer->tls, &ignored) == STATUS_OK) {
        daemon = http_daemons_acquire(loop, newcomer->probe ? NULL : newcomer->client);
        http_daemon_wake(daemon); /* the client may have sent a request already */
        (void)MHD_add_connection(daemon->mhd, newcomer->fd,
                                 (const struct sockaddr *)&newcomer->peer,
                                 newcomer->peer_bytes);
    } else {
        (void)close(newcomer->fd);
    }
    if (newcomer->client != NULL) { /* no record was created: the connection is closed */
        if (newcomer->probe) {
            (void)atomic_fetch_sub(&loop->http->probes, 1);
        } else {
            places_give_back(&loop->http->places, newcomer->client);
        }
        if (daemon != NULL) {
            http_daemon_release(daemon);
        }
        (void)atomic_fetch_sub_explicit(&loop->conn_count, 1, memory_order_relaxed);
        loop->conn_ended = true;
    }
    free_newcomer(newcomer);
    if (loop->conn_ended) {
        accepting_resume(loop);
    }
}

void accepting_open_handed(struct http_loop *loop)
{
    struct newcomer *newcomer = atomic_exchange(&loop->handed, NULL);
    while (newcomer != NULL) {
        struct newcomer *next = newcomer->next;
        add_connection(loop, newcomer);
        (void)atomic_fetch_sub(&loop->handed_count, 1);
        newcomer = next;
    }
}

/* ---- newcomers ---- */

/* Close a connection that gets no place. On plain HTTP the reason is sent first. The service
 * does not wait for the request, so a client that sends its request before it reads may get a
 * reset instead of the reason. */
static void refuse_newcomer(struct http_loop *loop, struct newcomer *newcomer,
                            enum metrics_client_limit limit)
{
    static const char *const why[METRICS_CLIENT_LIMIT_COUNT] = {
        [METRICS_CLIENT_LIMIT_CONNECTIONS] =
            "this client has reached the server's limit of connections for one client "
            "(--per-client-connections): use one that is open, or close one, and try again",
        [METRICS_CLIENT_LIMIT_PART] =
            "all connections of the server are in use (--max-connections), and this client has "
            "its equal share of them: use one that is open, or close one, and try again"};
    char body[256];
    char answer[512];
    const int bytes = snprintf(body, sizeof body, "{\"error\":\"%s\",\"code\":\"%s\"}",
                               why[limit], status_slug(STATUS_THROTTLED));
    const int whole = snprintf(answer, sizeof answer,
                               "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\n"
                               "Content-Type: application/json\r\nRetry-After: 1\r\n"
                               "Content-Length: %d\r\n\r\n%s",
                               bytes, body);
    if (!newcomer->tls) {
        (void)send(newcomer->fd, answer, (size_t)whole, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    (void)close(newcomer->fd);
    metrics_client_refusal(loop->server->metrics, limit);
    log_message(loop->server->log, LOG_DEBUG, "connection refused: %s", why[limit]);
    free_newcomer(newcomer);
}

/* Returns the maximum number of connections of the newcomer's client; 0: no limit. Connections
 * from a Unix socket or a trusted proxy may belong to any number of clients. */
static uint64_t limit_of(const struct http_loop *loop, const struct newcomer *newcomer)
{
    const struct address peer = address_of(&newcomer->peer);
    return newcomer->peer.ss_family == AF_UNIX || proxies_trust(&loop->http->proxies, &peer)
               ? 0
               : loop->server->config->per_client_connections;
}

/* Open a connection of --probe-listen on this loop. If the loop has MOST_PROBES of these, the
 * oldest one is cut. The function owns the newcomer. */
static void open_probe(struct http_loop *loop, struct newcomer *newcomer)
{
    struct conn *oldest = TAILQ_FIRST(&loop->probes);
    while (oldest != NULL && oldest->cut) {
        oldest = TAILQ_NEXT(oldest, ring_link);
    }
    if (loop->probe_count >= MOST_PROBES && oldest != NULL) {
        conn_cut(oldest);
    }
    (void)atomic_fetch_add(&loop->http->probes, 1);
    (void)atomic_fetch_add(&loop->conn_count, 1);
    add_connection(loop, newcomer);
}

/* Get a place for the newcomer, or queue or refuse it. The function owns the newcomer. */
static void place_newcomer(struct http_loop *loop, struct newcomer *newcomer)
{
    struct places *places = &loop->http->places;
    struct newcomer *refused = NULL;
    switch (places_ask(places, newcomer, limit_of(loop, newcomer))) {
    case PLACES_TAKEN: {
        struct http_loop *least = least_crowded(loop);
        if (least != loop) {
            hand_over(least, newcomer);
        } else {
            (void)atomic_fetch_add(&loop->conn_count, 1);
            add_connection(loop, newcomer);
        }
        return;
    }
    case PLACES_OVER_LIMIT:
        refuse_newcomer(loop, newcomer, METRICS_CLIENT_LIMIT_CONNECTIONS);
        return;
    case PLACES_WAITS:
        hand_over_waiting(loop);
        refused = places_refuse(places);
        if (refused != NULL) {
            refuse_newcomer(loop, refused, METRICS_CLIENT_LIMIT_PART);
        }
        return;
    }
}

/* Accept a connection into *newcomer. Returns false and sets errno if there is none. */
static bool accept_newcomer(const struct listener *listener, struct newcomer *newcomer)
{
    *newcomer = (struct newcomer){
        .tls = listener->tls, .probe = listener->probe, .peer = {.ss_family = AF_UNSPEC}};
    newcomer->peer_bytes = sizeof newcomer->peer;
    newcomer->fd = accept4(listener->fd, (struct sockaddr *)&newcomer->peer,
                           &newcomer->peer_bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (newcomer->fd < 0) {
        return false;
    }
    const struct address peer = address_of(&newcomer->peer);
    newcomer->client = clients_get(listener->loop->server->clients, &peer);
    if (newcomer->client == NULL) {
        (void)close(newcomer->fd);
        errno = ENOMEM;
        return false;
    }
    return true;
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = poll->data;
    struct http_loop *loop = listener->loop;
    (void)status;
    (void)events;
    for (size_t i = 0; i < MOST_ACCEPTED; i++) {
        if (!listener->probe && !places_can_accept(&loop->http->places, is_draining(loop))) {
            pause_listeners(loop, false);
            return;
        }
        struct newcomer *newcomer = malloc(sizeof *newcomer);
        if (newcomer == NULL) {
            errno = ENOMEM;
        } else if (accept_newcomer(listener, newcomer)) {
            loop->refused_files = false;
            (newcomer->probe ? open_probe : place_newcomer)(loop, newcomer);
            continue;
        }
        const int failure = errno;
        free(newcomer);
        if (failure == EMFILE || failure == ENFILE || failure == ENOBUFS || failure == ENOMEM) {
            if (!loop->refused_files) { /* accepting is resumed at every heartbeat */
                log_message(
                    loop->server->log, LOG_WARN,
                    "no file descriptor or memory is left for another connection (ulimit -n)");
            }
            loop->refused_files = true;
            pause_listeners(loop, true);
            return;
        }
        if (failure != ECONNABORTED && failure != EINTR) {
            return; /* the backlog is empty */
        }
    }
}

enum status accepting_start(struct http_loop *loop, const struct listen_socket *socket,
                            struct error *err)
{
    struct listener *listener = &loop->listeners[loop->listener_count];
    int fd = fcntl(socket->fd, F_DUPFD_CLOEXEC, 3);
    *listener =
        (struct listener){.loop = loop,
                          .fd = fd,
                          .inherited = socket->inherited,
                          .probe = socket->probe,
                          .tls = loop->http->tls != NULL && !socket->local && !socket->probe};
    if (fd < 0) {
        return error_set(err, STATUS_INTERNAL, "listening on %s: no file descriptor left",
                         socket->name);
    }
    if (uv_poll_init(&loop->uv, &listener->poll, fd) != 0) {
        (void)close(fd);
        return error_set(err, STATUS_INTERNAL, "libuv cannot watch %s", socket->name);
    }
    loop->listener_count++;
    listener->poll.data = listener;
    /* uv_poll_start() fails for invalid arguments only. */
    MUST(uv_poll_start(&listener->poll, UV_READABLE, on_listener));
    atomic_store(&loop->accepting, true);
    return STATUS_OK;
}

static void close_listener(struct listener *listener)
{
    if (!listener->closed) {
        listener->closed = true;
        (void)uv_poll_stop(&listener->poll);
        (void)close(listener->fd);
    }
}

void accepting_end(struct http_loop *loop, uint64_t now_ns)
{
    bool accepting = false;
    for (size_t i = 0; i < loop->listener_count; i++) {
        struct listener *listener = &loop->listeners[i];
        bool handshakes_over =
            clock_span_ns(loop->draining_ns, now_ns) > HANDSHAKE_MS * NS_PER_MS;
        if (!listener->closed &&
            (listener->inherited || (handshakes_over && backlog_is_empty(listener)))) {
            close_listener(listener);
        }
        accepting = accepting || !listener->closed;
    }
    atomic_store(&loop->accepting, accepting);
}

void accepting_stop(struct http_loop *loop)
{
    for (size_t i = 0; i < loop->listener_count; i++) {
        close_listener(&loop->listeners[i]);
    }
    struct newcomer *newcomer = atomic_exchange(&loop->handed, NULL);
    while (newcomer != NULL) {
        struct newcomer *next = newcomer->next;
        places_give_back(&loop->http->places, newcomer->client);
        (void)close(newcomer->fd);
        free_newcomer(newcomer);
        newcomer = next;
    }
    while ((newcomer = places_pop_waiting(&loop->http->places)) != NULL) {
        (void)close(newcomer->fd);
        free_newcomer(newcomer);
    }
}
