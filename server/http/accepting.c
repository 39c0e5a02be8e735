/* How a loop takes connections from its listening sockets, and how it stops in a drain.
 *
 * All loops listen. Whichever wakes first accepts, and the connection goes to the loop that is
 * least crowded, by a list that this one takes at its next wake-up: left to who is first, a burst
 * of connections would all be with one loop, and one core. There it goes to the daemon that
 * http_daemons.c chooses for its client. In a drain a loop keeps what it accepts.
 *
 * At the limit of connections, or of the process's descriptors, the backlog waits: libuv does not
 * watch the sockets until a connection has ended or a heartbeat has passed. It waits, too, while
 * some that were accepted have not been looked at: connections that come faster than they are
 * served stay in the kernel, where they cost next to nothing. So that one client cannot keep all
 * others out with connections on which it asks for nothing, or sends next to nothing of a body or
 * reads as little of an answer, one of these makes way at the limit for each that waits, one after
 * the other (deadlines.c). Whose the one that waits is shows when it is accepted: it may be the same
 * client's, and is before those behind it all the same.
 *
 * Closing a listening socket resets the connections in its backlog, which their clients have
 * and may have sent requests on. listen_end() lets nobody else in, but for handshakes that have
 * begun; when these are over and the backlog is empty, the socket is closed. At the limit of
 * connections that takes until enough of them have ended. A socket that systemd has, too, is
 * left at once: its backlog waits for the next service.
 *
 * Thread: the loop. */
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/http/http.h"
#include "server/http/loop.h"
#include "server/sched/client.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MOST_FRESH = 8,      /* accepted, and not looked at yet */
    FEW_CONNECTIONS = 4, /* of a loop */
    NO_WAY_MS = 100,     /* before those who might make way are looked through again */
    HANDSHAKE_MS = 250   /* from a SYN to the ACK that ends it: a round trip, or how long a
                        * machine that is overloaded takes to look at what it sends to itself */
};

/* A connection on its way from the loop that accepted it. */
struct handed_over {
    struct handed_over *next;
    int fd; /* owned */
    bool tls;
    struct sockaddr_storage peer;
    socklen_t peer_bytes;
};

static void on_waiting(uv_poll_t *poll, int status, int events);

/* A place for the connection that is accepted next; false: all are taken. */
static bool take_place(struct http *http)
{
    size_t taken = atomic_load(&http->places_taken);
    while (taken < http->server->config->max_connections) {
        if (atomic_compare_exchange_weak(&http->places_taken, &taken, taken + 1)) {
            return true;
        }
    }
    return false;
}

static void give_place_back(struct http *http)
{
    (void)atomic_fetch_sub(&http->places_taken, 1);
}

static void pause_all(struct http_loop *loop)
{
    for (size_t i = 0; i < loop->listener_count; i++) {
        struct listener *listener = &loop->listeners[i];
        if (!listener->closed && !listener->paused) {
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

static bool somebody_waits(const struct http_loop *loop)
{
    for (size_t i = 0; i < loop->listener_count; i++) {
        if (!loop->listeners[i].closed && !backlog_is_empty(&loop->listeners[i])) {
            return true;
        }
    }
    return false;
}

/* All places are taken. While the service drains idle connections end anyway; after it stood still
 * nobody knows what they have asked for meanwhile. */
static void make_way(struct http_loop *loop)
{
    const uint64_t now_ns = clock_now_ns();
    bool expected = false;
    if (loop->draining_ns != 0 || loop->stood_still || now_ns < loop->no_way_until_ns ||
        !somebody_waits(loop) ||
        !atomic_compare_exchange_strong(&loop->http->making_way, &expected, true)) {
        return;
    }
    if (!deadline_make_way(loop, now_ns)) {
        atomic_store(&loop->http->making_way, false);
        loop->no_way_until_ns = now_ns + NO_WAY_MS * NS_PER_MS;
    }
}

void accepting_resume(struct http_loop *loop)
{
    const bool is_full = http_connections(loop->http) >= loop->server->config->max_connections;
    if (is_full) {
        make_way(loop);
    }
    for (size_t i = 0; i < loop->listener_count && !is_full; i++) {
        struct listener *listener = &loop->listeners[i];
        if (!listener->closed && listener->paused) {
            listener->paused = uv_poll_start(&listener->poll, UV_READABLE, on_waiting) != 0;
        }
    }
}

void accepting_ended(struct http_loop *loop)
{
    (void)atomic_fetch_sub_explicit(&loop->conn_count, 1, memory_order_relaxed);
    give_place_back(loop->http);
    accepting_resume(loop);
}

/* Hand a connection to a daemon, which closes it whatever becomes of it. libmicrohttpd calls
 * conn_create() meanwhile. */
static void add_connection(struct http_loop *loop, const struct handed_over *new)
{
    struct accepted *accepted = &loop->accepted;
    accepted->peer = address_of(&new->peer);
    accepted->client = clients_get(loop->server->clients, &accepted->peer);
    accepted->tls = new->tls;
    struct http_daemon *daemon =
        accepted->client == NULL ? NULL : http_daemons_join(loop, accepted->client);
    if (daemon == NULL) {
        (void)close(new->fd);
    } else {
        daemon->need_run = true; /* what the client has sent may be there already */
        daemon->fresh++;
        loop->fresh++;
        (void)MHD_add_connection(daemon->mhd, new->fd, (const struct sockaddr *)&new->peer,
                                 new->peer_bytes);
    }
    if (daemon == NULL || accepted->client != NULL) { /* nothing became of it */
        accepting_ended(loop);
        client_release(accepted->client);
        accepted->client = NULL;
        if (daemon != NULL) {
            http_daemon_leave(daemon);
        }
    }
}

/* How crowded the loop is. A few connections count as none: one thread serves them at less cost
 * than two that wait for each other's turns. */
static size_t crowding(struct http_loop *loop)
{
    size_t count = atomic_load_explicit(&loop->conn_count, memory_order_relaxed);
    return count < FEW_CONNECTIONS ? 0 : count;
}

/* The loop that a connection which this one has accepted is best with. */
static struct http_loop *least_crowded(struct http_loop *loop)
{
    struct http *http = loop->http;
    struct http_loop *least = loop;
    for (size_t i = http->loop_count; i-- > 0 && !atomic_load(&http->draining);) {
        struct http_loop *other = &http->loops[i];
        bool takes =
            atomic_load(&other->accepting) &&
            atomic_load_explicit(&other->handed_count, memory_order_relaxed) < MOST_FRESH;
        if ((takes || other == loop) && crowding(other) <= crowding(least)) {
            least = other; /* the first of equals */
        }
    }
    return least;
}

/* False without memory. */
static bool hand_over(struct http_loop *to, const struct handed_over *new)
{
    struct handed_over *handed = malloc(sizeof *handed);
    if (handed == NULL) {
        return false;
    }
    *handed = *new;
    (void)atomic_fetch_add(&to->conn_count, 1);
    (void)atomic_fetch_add(&to->handed_count, 1);
    handed->next = atomic_load(&to->handed);
    while (!atomic_compare_exchange_weak(&to->handed, &handed->next, handed)) {
    }
    completion_wake(&to->completion);
    return true;
}

void accepting_take_handed(struct http_loop *loop)
{
    struct handed_over *handed = atomic_exchange(&loop->handed, NULL);
    while (handed != NULL) {
        struct handed_over *next = handed->next;
        add_connection(loop, handed);
        (void)atomic_fetch_sub(&loop->handed_count, 1);
        free(handed);
        handed = next;
    }
}

static void on_waiting(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = poll->data;
    struct http_loop *loop = listener->loop;
    (void)status;
    (void)events;
    while (loop->fresh < MOST_FRESH) {
        if (!take_place(loop->http)) {
            pause_all(loop);
            make_way(loop);
            return;
        }
        struct handed_over new = {.tls = listener->tls, .peer = {.ss_family = AF_UNSPEC}};
        new.peer_bytes = sizeof new.peer;
        new.fd = accept4(listener->fd, (struct sockaddr *)&new.peer, &new.peer_bytes,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (new.fd >= 0) {
            loop->refused_files = false;
            struct http_loop *least = least_crowded(loop);
            if (least == loop || !hand_over(least, &new)) {
                (void)atomic_fetch_add(&loop->conn_count, 1);
                add_connection(loop, &new);
            }
            continue;
        }
        give_place_back(loop->http);
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            if (!loop->refused_files) { /* it tries again at every heartbeat */
                log_message(
                    loop->server->log, LOG_WARN,
                    "no file descriptor or memory is left for another connection (ulimit -n)");
            }
            loop->refused_files = true;
            pause_all(loop);
            return;
        }
        if (errno != ECONNABORTED && errno != EINTR) {
            return; /* nobody else waits, or another loop was first */
        }
    }
}

enum status accepting_start(struct http_loop *loop, const struct listen_socket *socket,
                            struct error *err)
{
    struct listener *listener = &loop->listeners[loop->listener_count];
    int fd = fcntl(socket->fd, F_DUPFD_CLOEXEC, 3);
    *listener = (struct listener){.loop = loop,
                                  .fd = fd,
                                  .inherited = socket->inherited,
                                  .tls = loop->http->tls != NULL && !socket->local};
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
    MUST(uv_poll_start(&listener->poll, UV_READABLE, on_waiting)); /* it only takes a note */
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
    struct handed_over *handed = atomic_exchange(&loop->handed, NULL);
    while (handed != NULL) {
        struct handed_over *next = handed->next;
        (void)close(handed->fd);
        free(handed);
        handed = next;
    }
}
