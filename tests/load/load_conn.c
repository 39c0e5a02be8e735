/* One request on one connection of load_client: connects, sends, waits for "100 Continue" if
 * required, and reads the answer; only figures in the head are kept. load_client.c decides when
 * a request begins. A failed connection or an unreadable answer ends the request with status 0;
 * then the connection is closed. */
#include "tests/load/load_client.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PIECE_BYTES = 1 << 20,
    SLOW_PIECE_BYTES = 4 << 10,
    SLOW_BUFFER_BYTES = 32 << 10
};
static const uint64_t RECONNECT_NS = 10 * NS_PER_MS;
static const uint64_t CONTINUE_NS = NS_PER_S;
static const uint64_t SLOW_NS = 50 * NS_PER_MS;

int conn_poll_fd = -1;

static void conn_ask_for_out(struct conn *c, bool wanted)
{
    if (c->wants_out != wanted) {
        struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.ptr = c};
        (void)epoll_ctl(conn_poll_fd, EPOLL_CTL_MOD, c->fd, &event);
        c->wants_out = wanted;
    }
}

static void conn_ask_for_nothing(struct conn *c)
{
    struct epoll_event event = {.data.ptr = c};
    (void)epoll_ctl(conn_poll_fd, EPOLL_CTL_MOD, c->fd, &event);
}

static void conn_hang_up(struct conn *c)
{
    if (c->fd >= 0) {
        (void)close(c->fd);
    }
    c->fd = -1;
    c->state = CONN_CLOSED;
}

static void conn_finish(struct conn *c, uint16_t status)
{
    uint64_t now = now_ns();
    const struct kind *kind = &kinds[c->r.kind];
    bool refused = status == 429 || status == 503 || status == 504;
    c->r.end_ns = now;
    c->r.status = status;
    c->in_flight = false;
    if (status == 0 || c->close_after || c->r.body_sent < kind->body_bytes) {
        conn_hang_up(c);
    } else {
        c->state = CONN_IDLE;
        conn_ask_for_out(c, false);
    }
    load_over(c, status == 0                     ? now + RECONNECT_NS
                 : refused && !options.impatient ? now + c->retry_ns
                                                 : now);
}

static void conn_open(struct conn *c)
{
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) {
        die("socket");
    }
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    /* The port is chosen at connect(), so that fewer ports are used. */
    (void)setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    if (kinds[c->r.kind].reads_slowly) {
        int bytes = SLOW_BUFFER_BYTES;
        (void)setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    }
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
    c->wants_out = true;
    c->state = CONN_CONNECTING;
    if (bind(c->fd, (const struct sockaddr *)&options.from, sizeof options.from) != 0) {
        die("bind");
    }
    if (connect(c->fd, (const struct sockaddr *)&options.to, sizeof options.to) != 0 &&
        errno != EINPROGRESS) {
        conn_finish(c, 0);
        return;
    }
    if (epoll_ctl(conn_poll_fd, EPOLL_CTL_ADD, c->fd, &event) != 0) {
        die("epoll_ctl");
    }
}

/* ---- sending ---- */

static bool would_block(void)
{
    return errno == EAGAIN || errno == EINTR;
}

static void all_sent(struct conn *c)
{
    c->state = CONN_WAITING;
    c->wake_ns = NEVER;
    conn_ask_for_out(c, false);
}

/* Sending fails if the server answers early and closes, but its answer can still be read. */
static void send_failed(struct conn *c)
{
    if (!would_block()) {
        all_sent(c);
        return;
    }
    conn_ask_for_out(c, true);
}

static void send_head(struct conn *c)
{
    const struct kind *kind = &kinds[c->r.kind];
    while (c->head_sent < kind->head_bytes) {
        ssize_t sent = send(c->fd, kind->head + c->head_sent, kind->head_bytes - c->head_sent,
                            MSG_NOSIGNAL);
        if (sent < 0) {
            send_failed(c);
            return;
        }
        c->head_sent += (uint64_t)sent;
    }
    if (kind->body_bytes > 0 && kind->expects) {
        c->state = CONN_EXPECTING;
        c->wake_ns = now_ns() + CONTINUE_NS;
        conn_ask_for_out(c, false);
    } else if (kind->body_fd < 0 || kind->never_sends) {
        c->r.body_sent = kind->never_sends ? 0 : kind->body_bytes;
        all_sent(c);
    }
}

/* Sends one piece at a time, so that connections alternate. */
static void send_body(struct conn *c)
{
    const struct kind *kind = &kinds[c->r.kind];
    off_t at = (off_t)c->r.body_sent;
    uint64_t left = kind->body_bytes - c->r.body_sent;
    ssize_t sent = sendfile(c->fd, kind->body_fd, &at, left < PIECE_BYTES ? left : PIECE_BYTES);
    if (sent < 0) {
        send_failed(c);
        return;
    }
    c->r.body_sent += (uint64_t)sent;
    if (c->r.body_sent == kind->body_bytes) {
        all_sent(c);
    } else {
        conn_ask_for_out(c, true);
    }
}

static void send_more(struct conn *c)
{
    const struct kind *kind = &kinds[c->r.kind];
    c->state = CONN_SENDING;
    if (c->head_sent < kind->head_bytes) {
        send_head(c);
    }
    if (c->state == CONN_SENDING && c->head_sent == kind->head_bytes) {
        send_body(c);
    }
}

void conn_begin(struct conn *c, uint16_t kind, uint64_t due_ns)
{
    c->r = (struct record){.due_ns = due_ns, .start_ns = now_ns(), .kind = kind};
    c->head_sent = 0;
    c->head_bytes = 0;
    c->left = 0;
    c->retry_ns = 0;
    c->close_after = false;
    c->wake_ns = NEVER;
    c->in_flight = true;
    load_began(c);
    if (c->fd < 0) {
        conn_open(c);
    } else {
        send_more(c);
    }
}

/* ---- receiving ---- */

/* Return the value of a field of the answer's head, or NULL. */
static const char *field(const struct conn *c, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = strstr(c->head, "\r\n"); at != NULL; at = strstr(at, "\r\n")) {
        at += 2;
        if (strncasecmp(at, name, length) == 0 && at[length] == ':') {
            at += length + 1;
            return at + strspn(at, " ");
        }
    }
    return NULL;
}

static uint16_t status_of(const struct conn *c)
{
    return strncmp(c->head, "HTTP/1.1 ", 9) == 0 ? (uint16_t)atoi(c->head + 9) : 0;
}

static bool field_is(const struct conn *c, const char *name, const char *value)
{
    const char *found = field(c, name);
    return found != NULL && strncasecmp(found, value, strlen(value)) == 0;
}

static void read_fields(struct conn *c)
{
    const char *value = field(c, "Server-Timing");
    const char *total = value == NULL ? NULL : strstr(value, "total;dur=");
    if (total != NULL) {
        c->r.server_us = (uint32_t)(strtod(total + 10, NULL) * 1e3);
    }
    value = field(c, "Retry-After");
    if (value != NULL) {
        c->retry_ns = strtoull(value, NULL, 10) * NS_PER_S;
    }
    c->close_after = field_is(c, "Connection", "close");
}

static void read_body(struct conn *c);

/* Handle the answer's complete head, which ends before `end`. */
static void take_head(struct conn *c, char *end)
{
    size_t behind = c->head_bytes - (size_t)(end - c->head);
    char first = *end;
    *end = '\0';
    c->r.status = status_of(c);
    if (c->r.status == 100) {
        *end = first;
        memmove(c->head, end, behind + 1);
        c->head_bytes = behind;
        if (c->state == CONN_EXPECTING) {
            send_more(c);
        }
        return;
    }
    read_fields(c);
    const char *length = field(c, "Content-Length");
    if (field_is(c, "Transfer-Encoding", "chunked")) {
        *end = first;
        memmove(c->head, end, behind + 1);
        c->head_bytes = behind;
        c->left = 0;
        c->state = CONN_CHUNKS;
        return;
    }
    c->left = length == NULL ? 0 : strtoull(length, NULL, 10);
    if (behind > c->left || c->r.status == 0) {
        conn_finish(c, 0); /* more bytes than announced */
        return;
    }
    c->r.answer_bytes = c->left;
    c->left -= behind;
    c->state = CONN_READING;
    if (c->left == 0) {
        conn_finish(c, c->r.status);
    } else if (kinds[c->r.kind].reads_slowly) {
        c->close_after = true;
        conn_ask_for_nothing(c);
        c->wake_ns = now_ns() + SLOW_NS;
    }
}

/* Append received bytes to the buffer. Returns false if there are none. */
static bool fill(struct conn *c)
{
    ssize_t got = recv(c->fd, c->head + c->head_bytes, HEAD_ROOM - 1 - c->head_bytes, 0);
    if (got <= 0) {
        if (got == 0 || !would_block()) {
            conn_finish(c, 0);
        }
        return false;
    }
    c->head_bytes += (size_t)got;
    c->head[c->head_bytes] = '\0';
    return true;
}

static bool awaits_head(const struct conn *c)
{
    return c->state == CONN_SENDING || c->state == CONN_EXPECTING || c->state == CONN_WAITING;
}

/* Read the answer's head; "100 Continue" may precede it. */
static void read_head(struct conn *c)
{
    char *end = NULL;
    if (!fill(c)) {
        return;
    }
    while (awaits_head(c) && (end = strstr(c->head, "\r\n\r\n")) != NULL) {
        take_head(c, end + 4);
    }
    if (awaits_head(c) && c->head_bytes == HEAD_ROOM - 1) {
        conn_finish(c, 0); /* the head is too long */
    } else if (c->state == CONN_CHUNKS) {
        read_body(c);
    }
}

/* Process the chunk sizes in the buffer, and the buffered bytes of the chunks. */
static void step_chunks(struct conn *c)
{
    char *at = c->head;
    char *end = c->head + c->head_bytes;
    while (c->in_flight && at < end) {
        uint64_t here = (uint64_t)(end - at);
        if (c->left > 0) {
            uint64_t take = c->left < here ? c->left : here;
            c->left -= take;
            at += take;
            continue;
        }
        char *line_end = strstr(at, "\r\n");
        if (line_end == NULL) {
            break;
        }
        if (line_end == at) { /* the empty line behind a chunk */
            at += 2;
            continue;
        }
        c->left = strtoull(at, NULL, 16);
        c->r.answer_bytes += c->left;
        at = line_end + 2;
        if (c->left == 0) {
            c->close_after = true; /* closing makes reading trailers unnecessary */
            conn_finish(c, c->r.status);
        }
    }
    if (c->in_flight) {
        c->head_bytes = (size_t)(end - at);
        memmove(c->head, at, c->head_bytes + 1);
    }
}

static void read_body(struct conn *c)
{
    bool slow = kinds[c->r.kind].reads_slowly;
    if (c->state == CONN_CHUNKS && c->left == 0) {
        step_chunks(c);
        if (c->in_flight && c->left == 0 && fill(c)) {
            step_chunks(c);
        }
        return;
    }
    uint64_t most = slow ? SLOW_PIECE_BYTES : PIECE_BYTES;
    ssize_t got = recv(c->fd, NULL, c->left < most ? c->left : most, MSG_TRUNC);
    if (got <= 0) {
        if (got == 0 || !would_block()) {
            conn_finish(c, 0);
        }
        return;
    }
    c->left -= (uint64_t)got;
    if (c->left == 0 && c->state == CONN_READING) {
        conn_finish(c, c->r.status);
    }
}

void conn_on_event(struct conn *c, uint32_t events)
{
    if (c->state == CONN_CONNECTING) {
        int error = 0;
        socklen_t bytes = sizeof error;
        (void)getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
        if (error != 0) {
            conn_finish(c, 0);
            return;
        }
        send_more(c);
        return;
    }
    if (!c->in_flight) { /* the server closed an idle connection */
        conn_hang_up(c);
        return;
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
        if (c->state == CONN_READING || c->state == CONN_CHUNKS) {
            read_body(c);
        } else {
            read_head(c);
        }
    }
    if (c->in_flight && c->state == CONN_SENDING && (events & EPOLLOUT) != 0) {
        send_more(c);
    }
}

void conn_on_timer(struct conn *c, uint64_t now)
{
    c->wake_ns = NEVER;
    if (c->state == CONN_EXPECTING) {
        send_more(c);
    } else if (c->state == CONN_READING) {
        c->wake_ns = now + SLOW_NS;
        read_body(c);
    }
}
