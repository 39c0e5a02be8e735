/* How a loop takes connections from its listening sockets, and how it stops in a drain.
 *
 * Each goes to the daemon that http_daemons.c chooses for its client. At the limit of
 * connections, or of the process's descriptors, the backlog waits: libuv does not watch the
 * sockets until a connection has ended or a heartbeat has passed. It waits, too, while some
 * that were accepted have not been looked at: connections that come faster than they are served
 * stay in the kernel, where they cost next to nothing.
 *
 * Closing a listening socket resets the connections in its backlog, which their clients have
 * and may have sent requests on. listen_end() lets nobody else in, but for handshakes that have
 * begun; when these are over and the backlog is empty, the socket is closed. At the limit of
 * connections that takes until enough of them have ended. A socket that systemd has, too, is
 * left at once: its backlog waits for the next service.
 *
 * Thread: the loop. */
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/http/loop.h"
#include "server/http/proxies.h"
#include "server/sched/client.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MOST_FRESH = 8,    /* accepted, and not looked at yet */
    HANDSHAKE_MS = 250 /* from a SYN to the ACK that ends it: a round trip, or how long a
                        * machine that is overloaded takes to look at what it sends to itself */
};

static void on_waiting(uv_poll_t *poll, int status, int events);

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

void accepting_resume(struct http_loop *loop)
{
    for (size_t i = 0; i < loop->listener_count && loop->conn_count < loop->conn_limit; i++) {
        struct listener *listener = &loop->listeners[i];
        if (!listener->closed && listener->paused) {
            listener->paused = uv_poll_start(&listener->poll, UV_READABLE, on_waiting) != 0;
        }
    }
}

/* Hand a connection to a daemon, which closes it whatever becomes of it. libmicrohttpd calls
 * conn_create() meanwhile. */
static void add_connection(struct listener *listener, int fd, socklen_t peer_bytes)
{
    struct http_loop *loop = listener->loop;
    struct accepted *accepted = &loop->accepted;
    const struct sockaddr_storage address = accepted->peer;
    proxies_unmap(&accepted->peer); /* sockets of systemd may be for both families */
    accepted->client = clients_get(loop->server->clients, &accepted->peer);
    accepted->tls = listener->tls;
    struct http_daemon *daemon =
        accepted->client == NULL ? NULL : http_daemons_join(loop, accepted->client);
    if (daemon == NULL) {
        (void)close(fd);
    } else {
        daemon->need_run = true; /* what the client has sent may be there already */
        daemon->fresh++;
        loop->fresh++;
        (void)MHD_add_connection(daemon->mhd, fd, (const struct sockaddr *)&address,
                                 peer_bytes);
    }
    if (accepted->client != NULL) { /* nothing became of it */
        client_release(accepted->client);
        accepted->client = NULL;
        if (daemon != NULL) {
            http_daemon_leave(daemon);
        }
    }
}

static void on_waiting(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = poll->data;
    struct http_loop *loop = listener->loop;
    (void)status;
    (void)events;
    while (loop->fresh < MOST_FRESH) {
        if (loop->conn_count >= loop->conn_limit) {
            pause_all(loop);
            return;
        }
        struct sockaddr_storage *peer = &loop->accepted.peer;
        socklen_t bytes = sizeof *peer;
        *peer = (struct sockaddr_storage){.ss_family = AF_UNSPEC};
        int fd = accept4(listener->fd, (struct sockaddr *)peer, &bytes,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            add_connection(listener, fd, bytes);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            log_message(
                loop->server->log, LOG_WARN,
                "no file descriptor or memory is left for another connection (ulimit -n)");
            pause_all(loop);
            return;
        } else if (errno != ECONNABORTED && errno != EINTR) {
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
                                  .tls = loop->tls != NULL && !socket->local};
    if (fd < 0) {
        return error_set(err, STATUS_INTERNAL, "listening on %s: no file descriptor left",
                         socket->name);
    }
    loop->listener_count++;
    listener->poll.data = listener;
    if (uv_poll_init(&loop->uv, &listener->poll, fd) != 0 ||
        uv_poll_start(&listener->poll, UV_READABLE, on_waiting) != 0) {
        return error_set(err, STATUS_INTERNAL, "libuv cannot watch %s", socket->name);
    }
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

static bool backlog_is_empty(const struct listener *listener)
{
    struct pollfd waiting = {.fd = listener->fd, .events = POLLIN};
    return poll(&waiting, 1, 0) == 0;
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
}
