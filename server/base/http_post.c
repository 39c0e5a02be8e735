/* Sends a request in one piece and reads the head of its answer line by line. Each request has
 * its own connection, so the end of an answer need not be found. There is about one request per
 * second.
 *
 *   http_post_send() -> connection -> head and text -> status line, to the end of the head
 *
 * Possible failures: the name is not known; no process listens; the deadline passes in any
 * step; the server closes the connection or does not send HTTP/1.1; the status is not 2xx. */
#include "server/base/http_post.h"

#include "proto/text.h"
#include "server/base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <regex.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    HEAD_MAX = 8192, /* maximum bytes of all heads, including heads of interim answers (1xx) */
    PORT_MAX = 65535,
    DEADLINE_SEEN_MS = 100 /* interval of checks for a changed deadline */
};

struct http_post {
    char *host;      /* owned */
    char *authority; /* owned: host and port, as in the URL */
    char *port;      /* owned */
    char *path;      /* owned */
    /* State of the current call: */
    const _Atomic uint64_t *deadline_ns; /* borrowed */
    int fd;                              /* -1: not connected */
    size_t received;                     /* bytes of the answer in `head` */
    size_t parsed;                       /* bytes of `head` that are parsed */
    char head[HEAD_MAX];
    char failure[128];
};

PRINTF_LIKE(2, 3)
static bool post_fail(struct http_post *post, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(post->failure, sizeof post->failure, format, arguments);
    va_end(arguments);
    return false;
}

static void post_disconnect(struct http_post *post)
{
    if (post->fd >= 0) {
        (void)close(post->fd);
        post->fd = -1;
    }
}

/* Returns true if the socket becomes ready before the deadline and before `until_ns`. */
static bool wait_ready(const struct http_post *post, short events, uint64_t until_ns)
{
    for (;;) {
        uint64_t now_ns = clock_now_ns();
        uint64_t end_ns = smaller_of(until_ns, atomic_load(post->deadline_ns));
        if (now_ns >= end_ns) {
            return false;
        }
        uint64_t left_ms = (end_ns - now_ns) / NS_PER_MS + 1;
        struct pollfd ready = {.fd = post->fd, .events = events};
        if (poll(&ready, 1, left_ms < DEADLINE_SEEN_MS ? (int)left_ms : DEADLINE_SEEN_MS) > 0) {
            return true; /* the socket is ready or has failed; the next call reports an error */
        }
    }
}

/* ---- connecting ---- */

static bool connect_to(struct http_post *post, const struct addrinfo *to, uint64_t until_ns)
{
    int error = 0;
    socklen_t size = sizeof error;
    post->fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (post->fd < 0) {
        return post_fail(post, "no socket: %s", strerrordesc_np(errno));
    }
    if (connect(post->fd, to->ai_addr, to->ai_addrlen) == 0) {
        return true;
    }
    if (errno != EINPROGRESS) {
        error = errno;
    } else if (!wait_ready(post, POLLOUT, until_ns)) {
        error = ETIMEDOUT;
    } else {
        (void)getsockopt(post->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error != 0) {
        post_disconnect(post);
        return post_fail(post, "cannot connect to %.40s: %s", post->authority,
                         strerrordesc_np(error));
    }
    return true;
}

/* Connect to the first address that accepts. The remaining time is divided equally among the
 * addresses. */
static bool connect_to_any(struct http_post *post)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *all = NULL;
    int code = getaddrinfo(post->host, post->port, &wanted, &all);
    if (code != 0) {
        return post_fail(post, "cannot find %.40s: %s", post->host, gai_strerror(code));
    }
    uint64_t left = 0;
    for (const struct addrinfo *each = all; each != NULL; each = each->ai_next) {
        left++;
    }
    bool connected = false;
    for (const struct addrinfo *each = all; each != NULL && !connected; each = each->ai_next) {
        uint64_t now_ns = clock_now_ns();
        uint64_t end_ns = atomic_load(post->deadline_ns);
        uint64_t part_ns = clock_span_ns(now_ns, end_ns) / left--;
        connected = connect_to(post, each, now_ns + part_ns);
    }
    freeaddrinfo(all);
    return connected;
}

/* ---- the request ---- */

static bool send_bytes(struct http_post *post, const char *from, size_t bytes, int flags)
{
    while (bytes > 0) {
        ssize_t count = send(post->fd, from, bytes, MSG_NOSIGNAL | flags);
        if (count >= 0) {
            from += count;
            bytes -= (size_t)count;
        } else if (errno != EAGAIN) {
            return post_fail(post, "it hung up on a request: %s", strerrordesc_np(errno));
        } else if (!wait_ready(post, POLLOUT, UINT64_MAX)) {
            return post_fail(post, "it did not take a request in time");
        }
    }
    return true;
}

static bool send_request(struct http_post *post, const char *text, size_t bytes)
{
    char *head = NULL;
    int head_bytes = asprintf(&head,
                              "POST %s HTTP/1.1\r\n"
                              "Host: %s\r\n"
                              "User-Agent: tallyd/" TALLY_VERSION "\r\n"
                              "Content-Type: application/json\r\n"
                              "Content-Length: %zu\r\n"
                              "Connection: close\r\n"
                              "\r\n",
                              post->path, post->authority, bytes);
    if (head_bytes < 0) {
        return post_fail(post, "no memory for a request");
    }
    bool sent = send_bytes(post, head, (size_t)head_bytes, MSG_MORE) &&
                send_bytes(post, text, bytes, 0);
    free(head);
    return sent;
}

/* ---- the answer ---- */

/* Returns the next line of the head without the line end; NULL: post->failure is set. */
static const char *next_line(struct http_post *post)
{
    for (;;) {
        char *line = post->head + post->parsed;
        char *end = memchr(line, '\n', post->received - post->parsed);
        if (end != NULL) {
            post->parsed = (size_t)(end + 1 - post->head);
            if (end == line || end[-1] != '\r' ||
                !text_is_line(line, (size_t)(end - 1 - line))) {
                (void)post_fail(post, "its answer is not HTTP/1.1");
                return NULL;
            }
            end[-1] = '\0';
            return line;
        }
        if (post->received == HEAD_MAX) {
            (void)post_fail(post, "the head of its answer is over %d bytes", HEAD_MAX);
            return NULL;
        }
        ssize_t count =
            recv(post->fd, post->head + post->received, HEAD_MAX - post->received, 0);
        if (count > 0) {
            post->received += (size_t)count;
        } else if (count == 0 || errno != EAGAIN) {
            (void)post_fail(post, "it hung up before its answer was there");
            return NULL;
        } else if (!wait_ready(post, POLLIN, UINT64_MAX)) {
            (void)post_fail(post, "it did not answer in time");
            return NULL;
        }
    }
}

/* Parse "HTTP-version SP status-code SP [ reason-phrase ]" (RFC 9112, 4). Some servers omit the
 * second space. Returns the status code, or 0 if the line is not a status line. */
static unsigned parse_status(const char *line)
{
    if (strncmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') ||
        line[8] != ' ' || strspn(line + 9, "0123456789") != 3 ||
        (line[12] != ' ' && line[12] != '\0')) {
        return 0;
    }
    unsigned status = (unsigned)strtoul(line + 9, NULL, 10);
    return status >= 100 && status < 600 && status != 101 ? status : 0;
}

/* Read the whole head. Otherwise the connection could be closed while the server writes it.
 * Returns true if the status is 2xx. */
static bool read_answer(struct http_post *post)
{
    unsigned status = 0;
    post->received = 0;
    post->parsed = 0;
    do { /* "A client MUST be able to parse one or more 1xx responses" (RFC 9110, 15.2) */
        const char *line = next_line(post);
        status = line == NULL ? 0 : parse_status(line);
        if (line != NULL && status == 0) {
            return post_fail(post, "its answer is not HTTP/1.1");
        }
        while (line != NULL && line[0] != '\0') {
            line = next_line(post);
        }
        if (line == NULL) {
            return false;
        }
    } while (status < 200);
    return status < 300 || post_fail(post, "it answers %u", status);
}

const char *http_post_send(struct http_post *post, const char *text, size_t bytes,
                           const _Atomic uint64_t *deadline_ns)
{
    post->deadline_ns = deadline_ns;
    post->fd = -1;
    bool taken = connect_to_any(post) && send_request(post, text, bytes) && read_answer(post);
    post_disconnect(post);
    return taken ? NULL : post->failure;
}

/* ---- the URL ---- */

static char *copy_match(const char *text, const regmatch_t *match, const char *otherwise)
{
    return match->rm_so == match->rm_eo
               ? strdup(otherwise)
               : strndup(text + match->rm_so, (size_t)(match->rm_eo - match->rm_so));
}

enum status http_post_create(const char *url, const char *path, struct http_post **out)
{
    enum {
        AUTHORITY = 1,
        HOST_6 = 3,
        HOST = 4,
        PORT = 6,
        PATH = 7,
        GROUPS
    };
    static const char form[] = "^http://((\\[([0-9a-f:.]+)\\]|([a-z0-9._-]+))(:([0-9]{1,5}))?)"
                               "(/[!\"$-~]*)?$"; /* visible characters except # */
    regex_t regex;
    regmatch_t match[GROUPS];
    if (regcomp(&regex, form, REG_EXTENDED | REG_ICASE) != 0) {
        return STATUS_OUT_OF_MEMORY;
    }
    int failure = regexec(&regex, url, GROUPS, match, 0);
    regfree(&regex);
    if (failure != 0) {
        return failure == REG_NOMATCH ? STATUS_INVALID_FIELD : STATUS_OUT_OF_MEMORY;
    }
    struct http_post *post = calloc(1, sizeof *post);
    if (post == NULL) {
        return STATUS_OUT_OF_MEMORY;
    }
    bool no_path = match[PATH].rm_eo - match[PATH].rm_so <= 1;
    post->authority = copy_match(url, &match[AUTHORITY], "");
    post->host = copy_match(url, &match[match[HOST].rm_so >= 0 ? HOST : HOST_6], "");
    post->port = copy_match(url, &match[PORT], "80");
    post->path = no_path ? strdup(path) : copy_match(url, &match[PATH], "");
    enum status status = STATUS_OK;
    if (post->authority == NULL || post->host == NULL || post->port == NULL ||
        post->path == NULL) {
        status = STATUS_OUT_OF_MEMORY;
    } else if (strtoul(post->port, NULL, 10) - 1 >= PORT_MAX) {
        status = STATUS_INVALID_FIELD;
    }
    if (status != STATUS_OK) {
        http_post_destroy(post);
        return status;
    }
    *out = post;
    return STATUS_OK;
}

void http_post_destroy(struct http_post *post)
{
    if (post == NULL) {
        return;
    }
    free(post->host);
    free(post->authority);
    free(post->port);
    free(post->path);
    free(post);
}
