/* Answers to requests that libmicrohttpd refuses by itself: a request line, a header or a chunk
 * is malformed or too long. libmicrohttpd's answer would be HTML without an id, so the client
 * gets an error in JSON instead. When libmicrohttpd logs that it is about to answer, the error
 * is written to the socket, and the socket is closed for writing. The log's daemon has one
 * connection, so the log line belongs to that connection. Possible failures: those of
 * respond_early(). Thread: the loop. */
#include "server/http/loop.h"

#include <string.h>

enum {
    TEXT_BYTES = 256 /* room for the page's text in the answer */
};

/* Status, field and advice of a refusal, which the first matching row defines. */
static const struct refusal {
    unsigned http_status;
    const char *word; /* a text in libmicrohttpd's page */
    enum status status;
    const char *field;
    const char *advice;
} refusals[] = {
    /* One sentence for all malformed chunks: libmicrohttpd has one page for them, and by then has read
     * the bytes from the socket, so the fault (such as a blank behind the size) cannot be seen here. */
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

void unreadable_answer(struct http_daemon *daemon, unsigned http_status, const char *page)
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
