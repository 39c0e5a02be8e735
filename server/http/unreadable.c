/* What libmicrohttpd refuses by itself, because it cannot be read as a request: a request line, a
 * header or a chunk that is malformed or too long. Its own answer would be HTML and have no id, so
 * a client gets ours instead, as every other error: it is written to the socket, and our side
 * closed, when libmicrohttpd writes to its log that it is about to answer.
 *
 * The log does not say which connection it is about. It is one of the daemon's that libmicrohttpd
 * reads a header or chunks from, and of which something has come: mostly there is only one. Where
 * there are several the answer stays libmicrohttpd's: nobody gets what is meant for another.
 *
 * Thread: the loop. */
#include "server/base/clock.h"
#include "server/http/loop.h"

#include <string.h>

enum {
    SHOWN = 256,
    COARSE_MS = 8 /* so far off the system's count of milliseconds may be */
};

/* The first row that matches gives the status, the field and the advice of a refusal. */
static const struct refusal {
    unsigned http_status;
    const char *word; /* of the page that libmicrohttpd would answer */
    enum status status;
    const char *field;
    const char *advice;
} refusals[] = {
    {400, "chunked encoding", STATUS_INVALID_REQUEST, "",
     "expected in front of each chunk its size in hexadecimal digits (no blank, sign or 0x; an "
     "extension follows as ;name=value), CR LF, as many bytes as that, CR LF, and at the end 0 "
     "and two CR LF"},
    {400, "Transfer-Encoding", STATUS_INVALID_REQUEST, "",
     "send Transfer-Encoding: chunked and no Content-Length, or a Content-Length alone"},
    {400, "Content-Length", STATUS_INVALID_REQUEST, "Content-Length",
     "expected one header Content-Length, the number of the body's bytes in decimal digits"},
    {400, "Host:", STATUS_INVALID_REQUEST, "Host",
     "expected one header Host, the name or address that the server is reached by"},
    {400, "", STATUS_INVALID_REQUEST, "",
     "expected METHOD /path HTTP/1.1 (a blank in the path is %20), then lines of the form "
     "Name: value, and a body of Content-Length bytes or in chunks"},
    {413, "Content-Length", STATUS_TOO_LARGE, "Content-Length",
     "the server's --max-body-bytes is less: send less at once"},
    {413, "", STATUS_TOO_LARGE, "", "the server's --max-body-bytes is less: send less at once"},
    {414, "", STATUS_HEADERS_TOO_LARGE, "", "the limit is the server's --max-header-bytes"},
    {431, "", STATUS_HEADERS_TOO_LARGE, "",
     "the limit is the server's --max-header-bytes: send fewer or shorter headers"},
    {501, "", STATUS_UNSUPPORTED, "", "send the body with Content-Length, or chunked"},
    {505, "", STATUS_HTTP_VERSION, "", "expected HTTP/1.1 or HTTP/1.0"},
};

/* May libmicrohttpd be reading a header or a chunk from it? Not while the connection is suspended.
 * begun: of a request whose first line it has read. */
static bool may_be_read(const struct conn *conn, bool begun)
{
    const struct exchange *exchange = conn->exchange;
    if (exchange == NULL || request_state(&exchange->request) == REQUEST_HEADER) {
        return exchange != NULL || !begun;
    }
    enum request_state state = request_state(&exchange->request);
    return exchange->header.chunked && !exchange->held &&
           (state == REQUEST_BODY || state == REQUEST_REFUSED || state == REQUEST_LINGERING);
}

/* Nothing has come since the last request on it ended. What came before that, or so soon behind it
 * that the system's count does not tell, libmicrohttpd has read in the meantime. */
static bool nothing_came(const struct conn *conn)
{
    const uint64_t idle_ms = clock_span_ns(conn->since_ns, clock_now_ns()) / NS_PER_MS;
    return conn->used && conn->exchange == NULL &&
           conn->daemon->settled_ns >= conn->since_ns + COARSE_MS * NS_PER_MS &&
           client_socket_silent_ms(conn->fd) + COARSE_MS >= idle_ms;
}

static bool never_came(const struct conn *conn)
{
    uint64_t bytes = 0;
    return !conn->used && client_socket_received(conn->fd, &bytes) && bytes == 0;
}

/* The connection of the daemon that is meant; NULL: it may be one or another. */
static struct conn *find_culprit(const struct http_daemon *daemon, const char *page)
{
    const bool begun = strstr(page, "Content-Length") != NULL || strstr(page, "chunk") != NULL;
    struct conn *found = NULL;
    struct conn *conn = NULL;
    TAILQ_FOREACH(conn, &daemon->conns, link)
    {
        if (!may_be_read(conn, begun) || nothing_came(conn) || never_came(conn)) {
            continue;
        }
        if (found != NULL) {
            return NULL;
        }
        found = conn;
    }
    return found;
}

/* What the page says, without tags, entities and the last full stop. */
static void page_text(const char *page, char text[SHOWN])
{
    const char *body = strstr(page, "<body>");
    size_t used = 0;
    for (const char *at = body != NULL ? body : page; *at != '\0' && used < SHOWN - 1; at++) {
        if (*at == '<' || *at == '&') {
            at += strcspn(at, *at == '<' ? ">" : ";");
            if (*at == '\0') {
                break;
            }
        } else {
            text[used++] = *at;
        }
    }
    text[used - (used > 0 && text[used - 1] == '.')] = '\0';
}

void unreadable_answer(struct http_daemon *daemon, unsigned http_status, const char *page)
{
    struct conn *conn = find_culprit(daemon, page);
    char text[SHOWN];
    size_t row = 0;
    page_text(page, text);
    while (row < ARRAY_COUNT(refusals) && (refusals[row].http_status != http_status ||
                                           strstr(text, refusals[row].word) == NULL)) {
        row++;
    }
    if (conn == NULL || conn->cut || row == ARRAY_COUNT(refusals)) {
        return;
    }
    struct exchange *exchange = conn->exchange;
    if (exchange == NULL) { /* not even a request line has come */
        exchange = exchange_begin(conn, "");
    }
    if (exchange == NULL || request_state(&exchange->request) == REQUEST_LINGERING ||
        request_is_away(&exchange->request)) {
        return;
    }
    (void)error_set_field(&exchange->request.error, refusals[row].status, refusals[row].field,
                          "%s: %s", text, refusals[row].advice);
    respond_early(exchange);
}
