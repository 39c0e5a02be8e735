/* The callbacks of libmicrohttpd, from the start of a connection to its end. The file also
 * starts daemons, because their options contain the callbacks.
 *
 *     on_connection      begins              conn_create(), tls_begin()
 *     on_request_line    a request begins    exchange_begin()
 *     on_access          header, body, end   exchange_header(), _data(), _body_end(), respond()
 *     on_completed       the request is over exchange_end()
 *     on_connection      ends                end_connection()
 *
 * When on_access() has handed the request over to another thread, it returns without an answer,
 * and the daemon does not run until http_daemon_returned().
 *
 * Possible failures: there is no memory (libmicrohttpd closes the connection); a daemon does
 * not start. Thread: the loop. */
#include "server/http/loop.h"

#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/http/tls.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    ROOMY_DAEMONS = 32, /* number of daemons with large buffers on a loop; used first */
    TEXT_BYTES = 256    /* room for the text of libmicrohttpd's page, which an answer quotes */
};

/* ---- requests that libmicrohttpd cannot read ---- */

/* Status, field and advice of a refusal. The first row that matches defines them. */
static const struct refusal {
    unsigned http_status;
    const char *word; /* a text in libmicrohttpd's page */
    enum status status;
    const char *field;
    const char *advice;
} refusals[] = {
    /* libmicrohttpd has one page for all malformed chunks, and has already read the bytes from
     * the socket. So the exact error (such as a blank behind the size) is not known here. */
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

/* Extract the text of the page, without tags, entities and the final full stop. */
static void page_text(const char *page, char text[TEXT_BYTES])
{
    const char *body = strstr(page, "<body>");
    size_t used = 0;
    for (const char *at = body != NULL ? body : page; *at != '\0' && used < TEXT_BYTES - 1;
         at++) {
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

/* libmicrohttpd cannot read a request and is about to send `page`, an HTML page without a
 * request id. Write a refusal in JSON to the socket instead, and close the socket for
 * writing. */
static void answer_unreadable(struct http_daemon *daemon, unsigned http_status,
                              const char *page)
{
    struct conn *conn = daemon->conn;
    char text[TEXT_BYTES];
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
    if (exchange == NULL) { /* no request line could be read */
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

/* ---- callbacks ---- */

PRINTF_LIKE(2, 0)
static void on_mhd_log(void *cls, const char *format, va_list args)
{
    static const char refusal[] = "Error processing request (HTTP response code is %u ('%s'))";
    struct http_daemon *daemon = cls;
    char text[256];
    va_list again;
    va_copy(again, args);
    (void)vsnprintf(text, sizeof text, format, again);
    va_end(again);
    text[strcspn(text, "\r\n")] = '\0';
    log_message(daemon->loop->server->log, LOG_DEBUG, "microhttpd: %s", text);
    if (strncmp(format, refusal, sizeof refusal - 1) == 0) {
        unsigned http_status = va_arg(args, unsigned);
        answer_unreadable(daemon, http_status, va_arg(args, const char *));
    }
}

/* libmicrohttpd is about to close the connection. */
static void end_connection(struct conn *conn)
{
    struct http_daemon *daemon = conn->daemon;
    if (conn->exchange != NULL) {
        /* libmicrohttpd closes some connections, for example after chunks that it cannot read,
         * without a call of on_completed(). */
        exchange_end(conn->exchange);
    }
    tls_end(conn);
    conn_destroy(conn);
    http_daemon_release(daemon);
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_daemon *daemon = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        struct conn *conn = conn_create(daemon, connection);
        if (conn == NULL) { /* libmicrohttpd closes the connection in the daemon's next run */
            (void)shutdown(daemon->loop->accepted->fd, SHUT_RDWR);
        } else if (daemon->tls) {
            tls_begin(conn);
        }
        *socket_context = conn;
    } else if (*socket_context != NULL) {
        end_connection(*socket_context);
        *socket_context = NULL;
    }
}

static void *on_request_line(void *cls, const char *uri, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    (void)cls;
    return info == NULL || info->socket_context == NULL
               ? NULL
               : exchange_begin(info->socket_context, uri);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                         enum MHD_RequestTerminationCode how)
{
    (void)cls;
    (void)connection;
    (void)how;
    if (*con_cls != NULL) {
        exchange_end(*con_cls);
        *con_cls = NULL;
    }
}

/* Reader of the header's fields in libmicrohttpd's buffer. The fields are consecutive there,
 * with NULs in place of line ends. */
struct head_reader {
    struct header_check *check;
    const char *end; /* end of the last field */
    bool gap;        /* two fields have more than a line end between them */
};

/* True if only the ends of `lines` lines stand between reader->end and `next`. */
static bool only_line_ends(const struct head_reader *reader, const char *next, size_t lines)
{
    const uintptr_t bytes = (uintptr_t)next - (uintptr_t)reader->end;
    for (size_t i = 0; bytes <= 2 * lines && i < bytes; i++) {
        if (reader->end[i] != '\0') {
            return false;
        }
    }
    return bytes >= lines && bytes <= 2 * lines;
}

static enum MHD_Result on_field(void *cls, enum MHD_ValueKind kind, const char *name,
                                size_t name_bytes, const char *value, size_t value_bytes)
{
    struct head_reader *reader = cls;
    const char *text = value == NULL ? "" : value;
    (void)kind;
    reader->gap = reader->gap || !only_line_ends(reader, name, 1);
    reader->end = text + value_bytes;
    header_check_field(reader->check, name, name_bytes, text, value_bytes);
    return MHD_YES;
}

/* Change the value of the field Expect to an unknown expectation, so that libmicrohttpd sends
 * no 100. The text is in libmicrohttpd's buffer, and no other function reads it. */
static void forget_expectation(struct MHD_Connection *connection)
{
    const char *value =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_EXPECT);
    if (value != NULL && value[0] != '\0') {
        union {
            const char *read;
            char *overwrite;
        } text = {.read = value};
        text.overwrite[0] = '-';
    }
}

/* Pass the header to the exchange's check. libmicrohttpd before 1.0 appends the continuation of
 * a field's value to the field's name, cuts lines at a NUL, and ends the header at a line
 * without a name, as if the line were empty. A proxy in front would read other fields and
 * another beginning of the body. In all these cases the buffer has gaps between the fields. */
static void read_head(struct exchange *exchange, const char *url, const char *method,
                      const char *version)
{
    struct header_check *check = &exchange->header;
    struct head_reader reader = {.check = check, .end = version + strlen(version)};
    header_check_init(check, strcmp(version, MHD_HTTP_VERSION_1_0) != 0,
                      strlen(exchange->target),
                      (size_t)exchange->loop->server->config->max_header_bytes);
    (void)MHD_get_connection_values_n(exchange->conn->connection, MHD_HEADER_KIND, on_field,
                                      &reader);
    const union MHD_ConnectionInfo *head = MHD_get_connection_info(
        exchange->conn->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
#if MHD_VERSION < 0x00097701
    /* If the request line was not cut at a NUL, its parts have only blanks between them. `url`
     * has already been unescaped in place; exchange->target is an earlier copy. */
    const char *behind = method + strlen(method) + 1;
    const bool cut =
        behind + strspn(behind, " ") != url || version != url + strlen(exchange->target) + 1;
    if (reader.gap || cut ||
        (head != NULL && !only_line_ends(&reader, method + head->header_size, 2))) {
        header_check_odd_line(check);
    }
#else
    (void)url; /* libmicrohttpd refuses such lines */
    (void)method;
#endif
    conn_count_request(exchange->conn,
                       (head != NULL ? head->header_size : 0) +
                           (check->content_length > 0 ? (uint64_t)check->content_length : 0));
    /* libmicrohttpd sends a 100 for an empty body, too. If the next request has already
     * arrived, libmicrohttpd mistakes the next request for a piece of the body and closes the
     * connection. "A server MAY omit sending a 100 (Continue) response ... if the framing
     * indicates that there is no content" (RFC 9110, 10.1.1). */
    if (check->expect_continue && !header_check_has_body(check)) {
        forget_expectation(exchange->conn->connection);
    }
}

/* NOLINTNEXTLINE(readability-function-size): MHD's signature */
static enum MHD_Result on_access(void *cls, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *data_bytes, void **con_cls)
{
    struct exchange *exchange = *con_cls;
    struct http_daemon *daemon = cls;
    (void)connection;
    if (exchange == NULL) {
        return MHD_NO;
    }
    assert(exchange->magic == EXCHANGE_MAGIC);
    const struct request *request = &exchange->request;
    if (request_is_away(request)) {
        if (*data_bytes > 0) { /* these bytes follow the kept bytes */
            *data_bytes -= exchange_keep(exchange, data, *data_bytes);
        }
        return MHD_YES;
    }
    bool open = true;
    if (request_state(request) == REQUEST_HEADER) {
        read_head(exchange, url, method, version);
        daemon->acknowledge = header_check_has_body(&exchange->header);
        open = exchange_header(exchange, method);
    } else if (*data_bytes > 0) {
        const size_t count = *data_bytes;
        daemon->reading = daemon->reading || count >= daemon->buffer_bytes / 4;
        open = exchange_data(exchange, data, count);
        *data_bytes -= request_is_away(request) ? exchange_keep(exchange, data, count) : count;
    } else if (request_state(request) != REQUEST_READY) {
        open = exchange_body_end(exchange);
    }
    if (!open) {
        return MHD_NO;
    }
    if (request_is_away(request)) {
        /* The owner returns the request through the loop's completion list, which the loop
         * reads between two runs of daemons. */
        if (request_state(request) == REQUEST_BODY) {
            exchange->conn->body_ns = clock_span_ns(exchange->conn->since_ns, clock_now_ns());
        }
        exchange->loop->completion.expected++;
        conn_restart_clock(exchange->conn);
        return MHD_YES;
    }
    return request_state(request) != REQUEST_READY || respond(exchange) ? MHD_YES : MHD_NO;
}

/* ---- a daemon ---- */

/* Returns the size of the buffer of the daemon's connection. libmicrohttpd reads a body in
 * pieces of half a buffer, so large buffers are faster. But libmicrohttpd clears the whole
 * buffer after each request, and the large buffers of hundreds of connections exceed the
 * processor's cache. */
static size_t buffer_size(const struct http_daemon *daemon)
{
    const struct http_loop *loop = daemon->loop;
    size_t bytes = (size_t)loop->server->config->max_header_bytes;
    bool roomy = loop->daemon_count < ROOMY_DAEMONS;
    return roomy && bytes < ROOMY_BUFFER ? ROOMY_BUFFER : bytes;
}

static enum status start_daemon(struct http_daemon *daemon, struct error *err)
{
    daemon->buffer_bytes = buffer_size(daemon);
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)daemon->buffer_bytes, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (intptr_t)daemon->buffer_bytes, NULL},
        {MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, NULL},
#if MHD_VERSION >= 0x00097701
        {MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1, NULL},
#else
        /* Level 1 would refuse requests without Host or with blanks in the target.
         * header_check.c and target_parse() refuse them in JSON. */
        {MHD_OPTION_STRICT_FOR_CLIENT, 0, NULL},
#endif
        {daemon->tls ? MHD_OPTION_HTTPS_PRIORITIES : MHD_OPTION_END, 0, tls_priorities()},
        {MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, tls_no_certificate()},
        {MHD_OPTION_END, 0, NULL},
    };
    unsigned flags = MHD_USE_EPOLL | MHD_USE_ERROR_LOG | MHD_USE_NO_LISTEN_SOCKET;
    flags |= daemon->tls ? (unsigned)MHD_USE_TLS : 0;
#if MHD_VERSION >= 0x00097707
    /* Without this flag MHD_add_connection() only queues the connection. on_connection() would
     * be called later, when loop->accepted is already overwritten. */
    flags |= MHD_USE_NO_THREAD_SAFETY;
#endif
    daemon->mhd = MHD_start_daemon(
        flags, 0, NULL, NULL, on_access, daemon, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, daemon,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, daemon, MHD_OPTION_URI_LOG_CALLBACK,
        on_request_line, daemon, MHD_OPTION_NOTIFY_COMPLETED, on_completed, daemon,
        MHD_OPTION_ARRAY, options, MHD_OPTION_END);
    if (daemon->mhd == NULL) {
        return error_set(err, STATUS_INTERNAL, "libmicrohttpd cannot start");
    }
    return STATUS_OK;
}

enum status http_daemon_ensure(struct http_loop *loop, bool tls, struct error *err)
{
    if (!TAILQ_EMPTY(&loop->unused[tls])) {
        return STATUS_OK;
    }
    struct http_daemon *daemon = calloc(1, sizeof *daemon);
    if (daemon == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for another connection");
    }
    daemon->loop = loop;
    daemon->tls = tls;
    const enum status status = start_daemon(daemon, err);
    if (status != STATUS_OK) {
        free(daemon);
        return status;
    }
    http_daemons_add(daemon);
    return STATUS_OK;
}
