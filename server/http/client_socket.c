/* What a client's socket is asked and told, beside its bytes. Apart from others because linux/tcp.h,
 * whose struct tcp_info counts bytes, cannot be included together with the C library's. */
#include "server/http/exchange.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

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

bool client_socket_ended(int fd)
{
    struct pollfd ended = {.fd = fd, .events = 0};
    return poll(&ended, 1, 0) > 0 && (ended.revents & (POLLHUP | POLLERR)) != 0;
}

bool client_socket_closed(int fd)
{
    char next;
    return recv(fd, &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* False for a Unix socket, too. */
static bool read_tcp_info(int fd, struct tcp_info *info)
{
    socklen_t bytes = sizeof *info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &bytes) == 0;
}

bool client_socket_received(int fd, uint64_t *bytes)
{
    struct tcp_info info = {0};
    bool known = read_tcp_info(fd, &info);
    *bytes = info.tcpi_bytes_received;
    return known;
}

void client_socket_acknowledge(int fd)
{
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on); /* not of a Unix socket */
}

uint64_t client_socket_silent_ms(int fd)
{
    struct tcp_info info = {0};
    return read_tcp_info(fd, &info) ? info.tcpi_last_data_recv : 0;
}

uint64_t client_socket_taken(int fd, uint64_t given)
{
    struct tcp_info info = {0};
    int waiting = 0;
    if (read_tcp_info(fd, &info)) {
        return info.tcpi_bytes_acked;
    }
    bool known = ioctl(fd, SIOCOUTQ, &waiting) == 0 && waiting >= 0;
    return known && (uint64_t)waiting < given ? given - (uint64_t)waiting : 0;
}
