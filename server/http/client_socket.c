/* State and options of a client's socket; see exchange.h. This code is a separate file, because
 * it needs linux/tcp.h (its struct tcp_info has byte counts), which cannot be included together
 * with the C library's netinet/tcp.h. */
#include "server/http/exchange.h"

#include <limits.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum {
    TCP_STATE_CLOSE_WAIT = 8 /* TCP_CLOSE_WAIT of netinet/tcp.h: the other side has closed */
};

bool client_socket_unread(int fd)
{
    int unread = 0;
    return ioctl(fd, FIONREAD, &unread) == 0 && unread > 0;
}

bool client_socket_full(int fd)
{
    struct pollfd writable = {.fd = fd, .events = POLLOUT};
    return poll(&writable, 1, 0) == 0;
}

/* recv() alone is not enough: after client_socket_begin_count() on a Unix socket, MSG_PEEK
 * finds no unread bytes. */
bool client_socket_closed(int fd)
{
    char next;
    return recv(fd, &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0 && !client_socket_unread(fd);
}

void client_socket_discard(int fd)
{
    enum {
        PIECE = 1 << 20
    };
    /* "The MSG_TRUNC flag causes the received bytes of data to be discarded, rather than passed
     * back in a caller-supplied buffer" (tcp(7)). */
    while (recv(fd, NULL, PIECE, MSG_TRUNC | MSG_DONTWAIT) > 0) {
    }
}

/* Returns false for a Unix socket. */
static bool read_tcp_info(int fd, struct tcp_info *info)
{
    socklen_t bytes = sizeof *info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &bytes) == 0;
}

/* "If data is removed from the front of the queue via a call to recv(2) (or similar) without
 * the MSG_PEEK flag, the peek offset will be decreased by the number of bytes removed"
 * (socket(7), SO_PEEK_OFF). So a large offset counts the bytes that libmicrohttpd reads. */
void client_socket_begin_count(int fd)
{
    const int offset = INT_MAX;
    (void)setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof offset);
}

bool client_socket_received(int fd, uint64_t *bytes)
{
    struct tcp_info info = {0};
    int offset = 0;
    socklen_t size = sizeof offset;
    const bool fin = client_socket_closed(fd); /* tcpi_bytes_received includes the FIN */
    if (read_tcp_info(fd, &info)) {
        *bytes = info.tcpi_bytes_received - fin;
        return true;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &offset, &size) != 0 || offset <= 0) {
        return false;
    }
    *bytes = (uint64_t)(INT_MAX - offset);
    return true;
}

bool client_socket_sent_all(int fd, uint64_t *bytes)
{
    struct tcp_info info = {0};
    const bool ended = read_tcp_info(fd, &info) && info.tcpi_state == TCP_STATE_CLOSE_WAIT &&
                       info.tcpi_bytes_received > 0;
    *bytes = ended ? info.tcpi_bytes_received - 1 : 0; /* without the FIN */
    return ended;
}

void client_socket_bound_unsent(int fd, int bytes)
{
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

void client_socket_acknowledge(int fd)
{
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on,
                     sizeof on); /* fails on a Unix socket */
}

uint64_t client_socket_delivered(int fd, uint64_t given)
{
    struct tcp_info info = {0};
    int waiting = 0;
    if (read_tcp_info(fd, &info)) {
        return info.tcpi_bytes_acked;
    }
    bool known = ioctl(fd, SIOCOUTQ, &waiting) == 0 && waiting >= 0;
    return known && (uint64_t)waiting < given ? given - (uint64_t)waiting : 0;
}
