/* How a loop stops accepting connections in a drain.
 *
 * Closing a listening socket resets the connections in its backlog, which their clients have
 * and may have sent requests on. listen_end() lets nobody else in, but for handshakes that have
 * begun; when these are over and the backlog is empty, the socket is closed. At the limit of
 * connections that takes until enough of them have ended. A socket that systemd has, too, is
 * left at once: its backlog waits for the next service.
 *
 * Thread: the loop. */
#include "server/clock.h"
#include "server/loop.h"

#include <microhttpd.h>
#include <poll.h>
#include <unistd.h>

enum {
    HANDSHAKE_MS = 250 /* from a SYN to the ACK that ends it: a round trip, or how long a
                        * machine that is overloaded takes to look at what it sends to itself */
};

static void quiesce(struct listener *listener)
{
    listener->quiesced = true; /* a second call would hand the descriptor out again */
    MHD_socket fd = MHD_quiesce_daemon(listener->daemon);
    if (fd != MHD_INVALID_SOCKET) {
        (void)close(fd);
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
        if (!listener->quiesced &&
            (listener->inherited || (handshakes_over && backlog_is_empty(listener)))) {
            quiesce(listener);
        }
        accepting = accepting || !listener->quiesced;
    }
    atomic_store(&loop->accepting, accepting);
}
