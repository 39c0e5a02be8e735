/* The record of a connection. The record lives from libmicrohttpd's notification of the start
 * to the notification of the end; an orphaned exchange keeps it longer. The record stores the
 * start of the current phase, which deadlines.c compares with its limits. The record also
 * counts the bytes of requests, to detect whether the client has sent another request.
 *
 * Possible failure: there is no memory or no entry in the epoll set; then libmicrohttpd closes
 * the connection. Thread: the loop. */
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/http/exchange.h"
#include "server/http/loop.h"
#include "server/sched/client.h"

#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
    /* byte count at which the counter of a Unix socket is restarted; the counter ends at 2
     * GiB */
    RECOUNT_BYTES = 1 << 30,
    LAST_CHUNK_BYTES = 5, /* "0" and two line ends */
    CHUNK_ENDS_BYTES = 4  /* the two line ends of a chunk */
};

struct conn *conn_create(struct http_daemon *daemon, struct MHD_Connection *connection)
{
    struct http_loop *loop = daemon->loop;
    struct newcomer *accepted = loop->accepted;
    struct conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL) {
        return NULL;
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = daemon};
    if (epoll_ctl(loop->events_fd, EPOLL_CTL_ADD, accepted->fd, &event) != 0) {
        free(conn);
        return NULL;
    }
    conn->connection = connection;
    conn->fd = accepted->fd;
    conn->loop = loop;
    conn->daemon = daemon;
    conn->peer = address_of(&accepted->peer);
    conn->local = address_is_local(&conn->peer);
    conn->client = accepted->client;
    accepted->client = NULL;
    if (conn->peer.family == AF_UNIX) {
        client_socket_begin_count(conn->fd);
    }
    daemon->conn = conn;
    conn_restart_clock(conn);
    conn->probe = accepted->probe;
    if (conn->probe) {
        TAILQ_INSERT_TAIL(&loop->probes, conn, ring_link);
        loop->probe_count++;
    } else {
        places_add(&loop->http->places, conn);
    }
    metrics_add(loop->server->metrics, METRICS_COUNTER_CONNECTIONS, 1);
    metrics_gauge_add(loop->server->metrics, METRICS_GAUGE_CONNECTIONS, 1);
    return conn;
}

void conn_destroy(struct conn *conn)
{
    struct http_loop *loop = conn->loop;
    conn->daemon->conn = NULL;
    if (conn->probe) {
        TAILQ_REMOVE(&loop->probes, conn, ring_link);
        loop->probe_count--;
        (void)atomic_fetch_sub(&loop->http->probes, 1);
    } else {
        places_remove(&loop->http->places, conn);
    }
    (void)atomic_fetch_sub_explicit(&loop->conn_count, 1, memory_order_relaxed);
    loop->conn_ended = true;
    metrics_gauge_add(loop->server->metrics, METRICS_GAUGE_CONNECTIONS, -1);
    conn->closed = true;
    if (conn->exchange == NULL) {
        conn_free(conn);
    }
}

void conn_free(struct conn *conn)
{
    client_release(conn->identity);
    client_release(conn->client);
    free(conn);
}

void conn_restart_clock(struct conn *conn)
{
    const struct http_loop *loop = conn->loop;
    const struct exchange *exchange = conn->exchange;
    const bool busy = exchange != NULL && request_state(&exchange->request) != REQUEST_HEADER;
    conn->since_ns = loop->running != NULL ? loop->run_ns : clock_now_ns();
    /* atomic, because threads of other loops read the value in places.c */
    atomic_store_explicit(&conn->activity,
                          busy ? 2 * exchange->request.times.arrived + 1 : 2 * conn->since_ns,
                          memory_order_relaxed);
    conn->answer_given = 0;
    memset(conn->progress, 0, sizeof conn->progress);
    conn->seen_bytes = 0;
    conn->moved_ns = conn->since_ns;
    conn->body_at_hangup = UINT64_MAX;
    conn->stuck_sweeps = 0;
}

void exchange_enter(struct exchange *exchange, enum request_state state)
{
    request_enter(&exchange->request, state);
    conn_restart_clock(exchange->conn);
}

bool conn_unread(const struct conn *conn)
{
    /* decrypted bytes that libmicrohttpd has not read count as unread */
    return client_socket_unread(conn->fd) ||
           (conn->tls != NULL && gnutls_record_check_pending(conn->tls) > 0);
}

/* If the socket has unread bytes, ensure that close() resets the connection. close() alone
 * resets only if bytes are still unread at that time, and libmicrohttpd may read all of them
 * first. After shutdown() the system does not tell a client with a closed window that the
 * window is open again, so without a reset the client would hang in send() for a minute. */
static void reset_if_unread(struct conn *conn)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    if (conn_unread(conn)) {
        (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
}

void conn_cut(struct conn *conn)
{
    conn->cut = true;
    reset_if_unread(conn);
    (void)shutdown(conn->fd, SHUT_RDWR);
}

void conn_cut_because(struct conn *conn, const char *why)
{
    conn_cut(conn);
    log_message(conn->loop->server->log, LOG_DEBUG, "connection cut: %s", why);
}

void conn_count_request(struct conn *conn, uint64_t bytes)
{
    uint64_t read_bytes = 0;
    if (conn->peer.family == AF_UNIX &&
        conn->asked_bytes > conn->counted_bytes + RECOUNT_BYTES &&
        client_socket_received(conn->fd, &read_bytes)) {
        conn->counted_bytes += read_bytes;
        client_socket_begin_count(conn->fd);
    }
    conn->asked_bytes += bytes;
}

/* "chunk = chunk-size [ chunk-ext ] CRLF chunk-data CRLF", and after the last chunk "0" CRLF
 * CRLF (RFC 9112, 7.1). The count assumes a single chunk, which has the fewest bytes of
 * framing. */
void conn_count_chunks(struct conn *conn, uint64_t bytes)
{
    uint64_t frames = LAST_CHUNK_BYTES + (bytes > 0 ? CHUNK_ENDS_BYTES : 0);
    for (uint64_t rest = bytes; rest > 0; rest >>= 4) {
        frames++; /* one hexadecimal digit of the chunk's size */
    }
    conn->asked_bytes += bytes + frames;
}

/* Get the number of bytes that the client has sent so far. Over TLS this is the number of
 * decrypted bytes; an incomplete record counts with its encrypted bytes. Each received record
 * has the same overhead. GnuTLS counts the records that it has decrypted; in TLS 1.2 the
 * client's Finished is the first of these records. The result is too large in two cases: after
 * a change of the key, which restarts GnuTLS's count, and with padded records, which have more
 * overhead.
 * Returns false if the number is not known. */
static bool received_bytes(const struct conn *conn, uint64_t *bytes)
{
    unsigned char number[8];
    uint64_t records = 0;
    if (conn->tls == NULL) {
        const bool known = client_socket_received(conn->fd, bytes);
        *bytes += conn->counted_bytes;
        return known;
    }
    if (gnutls_record_get_state(conn->tls, 1, NULL, NULL, NULL, number) != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof number; i++) {
        records = records << 8 | number[i];
    }
    records -= gnutls_protocol_get_version(conn->tls) < GNUTLS_TLS1_3;
    *bytes = conn->pulled_bytes - records * gnutls_record_overhead_size(conn->tls);
    return true;
}

bool conn_ended_early(const struct conn *conn)
{
    uint64_t sent = 0;
    return conn->tls == NULL && client_socket_sent_all(conn->fd, &sent) &&
           sent < conn->asked_bytes;
}

/* libmicrohttpd does not report how much of the next request it has read, so the number of
 * received bytes is compared with the bytes of the requests. */
bool conn_has_next(const struct conn *conn)
{
    uint64_t received = 0;
    return conn_unread(conn) || !received_bytes(conn, &received) ||
           received != conn->asked_bytes;
}
