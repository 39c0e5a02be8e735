#include "client/client_error.h"
#include "client/exchange_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t monotonic_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct exchange *exchange_of(void *user)
{
    struct exchange *exchange = user;
    assert(exchange->magic == EXCHANGE_MAGIC);
    return exchange;
}

/* ---- libcurl's callbacks ---- */

static size_t on_header(char *line, size_t size, size_t count, void *user)
{
    struct exchange *exchange = exchange_of(user);
    if (answer_head_line(&exchange->answer, line, size * count)) {
        return size * count;
    }
    (void)client_error_set(
        &exchange->error, TALLY_BAD_ANSWER,
        "the answer's headers are longer than %d bytes; is this the URL of a "
        "Tally server?",
        ANSWER_HEADER_BYTES);
    return 0;
}

static bool plain_encoding(const char *encoding)
{
    return encoding[0] == '\0' || strcmp(encoding, "identity") == 0;
}

/* The head of a 200 answer is complete: refuse what cannot be the answer to this request. */
static enum tally_status begin_answer(struct exchange *exchange)
{
    const struct answer_head *head = &exchange->answer;
    struct tally_error *err = &exchange->error;
    curl_off_t uploaded = 0;
    curl_off_t length = -1;
    exchange->begun = true;
    (void)curl_easy_getinfo(exchange->easy, CURLINFO_SIZE_UPLOAD_T, &uploaded);
    (void)curl_easy_getinfo(exchange->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (head->ambiguous) {
        return client_error_set(
            err, TALLY_BAD_ANSWER,
            "the answer has a malformed header, or one twice with different "
            "values");
    }
    if (!plain_encoding(head->content_encoding)) {
        return client_error_set(err, TALLY_BAD_ANSWER,
                                "the answer is compressed (%s), which was not asked for",
                                head->content_encoding);
    }
    if (exchange->spec.in_order && (uint64_t)uploaded < exchange_send_bytes(exchange)) {
        return client_error_set(err, TALLY_BAD_ANSWER,
                                "the answer began before the request was sent (%" PRIu64
                                " of %" PRIu64 " bytes)",
                                (uint64_t)uploaded, exchange_send_bytes(exchange));
    }
    struct tally_answer answer = {.struct_size = sizeof answer,
                                  .content_type = head->content_type,
                                  .dtype = head->dtype,
                                  .shape = head->shape,
                                  .request_id = head->request_id,
                                  .content_length = length,
                                  .head_length = head->head_length};
    return exchange->spec.sink.begin(exchange->spec.sink.context, &answer, err);
}

static size_t on_body(char *bytes, size_t size, size_t count, void *user)
{
    struct exchange *exchange = exchange_of(user);
    size_t total = size * count;
    if (exchange->answer.http_status != 200) {
        return answer_error_text(&exchange->answer, bytes, total) ? total : 0;
    }
    if (!exchange->begun && begin_answer(exchange) != TALLY_OK) {
        return 0;
    }
    exchange->touched = true;
    const struct sink *sink = &exchange->spec.sink;
    if (sink->write(sink->context, exchange->received, bytes, total, &exchange->error) !=
        TALLY_OK) {
        return 0;
    }
    exchange->received += total;
    return total;
}

static size_t on_read(char *to, size_t size, size_t count, void *user)
{
    struct exchange *exchange = exchange_of(user);
    const struct exchange_spec *spec = &exchange->spec;
    size_t room = size * count;
    bool in_head = exchange->sent < spec->head_bytes;
    uint64_t start = in_head ? exchange->sent : exchange->sent - spec->head_bytes;
    uint64_t left = (in_head ? spec->head_bytes : spec->body_bytes) - start;
    size_t taken = left < room ? (size_t)left : room;
    if (taken == 0) {
        return 0;
    }
    if (in_head) {
        memcpy(to, spec->head + start, taken);
    } else if (spec->read_body == NULL) {
        memcpy(to, (const char *)spec->body + start, taken);
    } else if (spec->read_body(spec->user, start, to, taken) != 0) {
        (void)client_error_set(&exchange->error, TALLY_LOCAL_IO,
                               "reading the request's body failed at byte %" PRIu64, start);
        return CURL_READFUNC_ABORT;
    }
    exchange->sent += taken;
    return taken;
}

static int on_seek(void *user, curl_off_t offset, int origin)
{
    struct exchange *exchange = exchange_of(user);
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > exchange_send_bytes(exchange)) {
        return CURL_SEEKFUNC_FAIL;
    }
    exchange->sent = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

static int on_progress(void *user, curl_off_t receive_total, curl_off_t received,
                       curl_off_t send_total, curl_off_t sent)
{
    struct exchange *exchange = exchange_of(user);
    const struct exchange_spec *spec = &exchange->spec;
    (void)send_total; /* 0 until the transfer starts: ours is better */
    if (spec->progress(spec->user, sent, (int64_t)exchange_send_bytes(exchange), received,
                       receive_total > 0 ? receive_total : -1) == 0) {
        return 0;
    }
    (void)client_error_set(&exchange->error, TALLY_CANCELLED, "cancelled");
    return 1;
}

/* ---- life ---- */

static bool add_header(struct exchange *exchange, const char *format, ...) PRINTF_LIKE(2, 3);
static bool add_header(struct exchange *exchange, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof line) {
        return false;
    }
    struct curl_slist *longer = curl_slist_append(exchange->headers, line);
    if (longer == NULL) {
        return false;
    }
    exchange->headers = longer;
    return true;
}

static bool add_headers(struct exchange *exchange)
{
    const struct exchange_spec *spec = &exchange->spec;
    return (spec->content_type == NULL ||
            add_header(exchange, "Content-Type: %s", spec->content_type)) &&
           (spec->accept == NULL || add_header(exchange, "Accept: %s", spec->accept)) &&
           (spec->head_bytes == 0 ||
            add_header(exchange, "Inference-Header-Content-Length: %zu", spec->head_bytes)) &&
           (spec->deadline_ms <= 0 ||
            add_header(exchange, "X-Request-Timeout-Ms: %" PRId64, spec->deadline_ms));
}

struct exchange *exchange_create(struct tally *client, const struct exchange_spec *spec,
                                 struct tally_error *err)
{
    size_t url_bytes = strlen(client->base_url) + strlen(spec->path) + 1;
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange == NULL) {
        goto no_memory;
    }
    exchange->magic = EXCHANGE_MAGIC;
    exchange->client = client;
    exchange->spec = *spec;
    exchange->url = malloc(url_bytes);
    if (exchange->url == NULL || !add_headers(exchange)) {
        goto no_memory;
    }
    (void)snprintf(exchange->url, url_bytes, "%s%s", client->base_url, spec->path);
    if (client->options.timeout_ms > 0) {
        exchange->give_up_ms = monotonic_ms() + client->options.timeout_ms;
    }
    return exchange;
no_memory:
    exchange_destroy(exchange);
    (void)client_error_set(err, TALLY_OUT_OF_MEMORY, "out of memory");
    return NULL;
}

void exchange_destroy(struct exchange *exchange)
{
    if (exchange == NULL) {
        return;
    }
    curl_slist_free_all(exchange->headers);
    free(exchange->url);
    exchange->magic = 0;
    free(exchange);
}

static void set_body(struct exchange *exchange, CURL *easy)
{
    const struct exchange_spec *spec = &exchange->spec;
    bool in_memory = spec->head_bytes == 0 && spec->read_body == NULL;
    const void *memory = spec->body_bytes == 0 ? "" : spec->body;
    (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, NULL);
    if (strcmp(spec->method, "GET") == 0) {
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, NULL);
        (void)curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
        return;
    }
    (void)curl_easy_setopt(easy, CURLOPT_POST, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                           (curl_off_t)exchange_send_bytes(exchange));
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, in_memory ? memory : NULL);
    (void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
    (void)curl_easy_setopt(easy, CURLOPT_READDATA, exchange);
    (void)curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
    (void)curl_easy_setopt(easy, CURLOPT_SEEKDATA, exchange);
    if (strcmp(spec->method, "POST") != 0) {
        (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, spec->method);
    }
}

enum tally_status exchange_prepare(struct exchange *exchange, CURL *easy)
{
    int64_t left = exchange->give_up_ms == 0 ? 0 : exchange->give_up_ms - monotonic_ms();
    client_error_reset(&exchange->error);
    exchange->error.attempts = exchange->attempts;
    if (left < 0 || (left == 0 && exchange->give_up_ms != 0)) {
        return client_error_set(&exchange->error, TALLY_TIMEOUT,
                                "no time was left to send the request (timeout_ms is %" PRId64
                                ")",
                                exchange->client->options.timeout_ms);
    }
    answer_head_reset(&exchange->answer);
    exchange->sent = 0;
    exchange->received = 0;
    exchange->begun = false;
    exchange->curl_message[0] = '\0';
    exchange->easy = easy;
    set_body(exchange, easy);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, exchange->headers);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, exchange);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange);
    (void)curl_easy_setopt(easy, CURLOPT_NOPROGRESS, exchange->spec.progress == NULL ? 1L : 0L);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFODATA, exchange);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, exchange->curl_message);
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, exchange);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)left);
    if (curl_easy_setopt(easy, CURLOPT_URL, exchange->url) != CURLE_OK) {
        return client_error_set(&exchange->error, TALLY_OUT_OF_MEMORY, "out of memory");
    }
    return TALLY_OK;
}

/* Leave nothing of the exchange behind in a connection that goes back to the pool. */
static void detach(struct exchange *exchange)
{
    (void)curl_easy_setopt(exchange->easy, CURLOPT_ERRORBUFFER, NULL);
    (void)curl_easy_setopt(exchange->easy, CURLOPT_HTTPHEADER, NULL);
    (void)curl_easy_setopt(exchange->easy, CURLOPT_POSTFIELDS, NULL);
    (void)curl_easy_setopt(exchange->easy, CURLOPT_NOPROGRESS, 1L);
    exchange->easy = NULL;
}

/* A 200 answer came to its end. */
static void end_answer(struct exchange *exchange)
{
    const struct sink *sink = &exchange->spec.sink;
    if (!exchange->answer.complete) {
        (void)client_error_set(&exchange->error, TALLY_CONNECTION_LOST,
                               "the connection broke in the answer's headers");
    } else if (exchange->begun || begin_answer(exchange) == TALLY_OK) {
        (void)sink->finish(sink->context, exchange->received, &exchange->error);
    }
}

enum exchange_verdict exchange_settle(struct exchange *exchange, CURL *easy, CURLcode code)
{
    struct tally_error *err = &exchange->error;
    const struct answer_head *head = &exchange->answer;
    curl_off_t retry_after_s = 0;
    long connects = 0;
    (void)curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    exchange->reused =
        curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &connects) == CURLE_OK && connects == 0;
    err->attempts = ++exchange->attempts;
    if (err->status != TALLY_OK) {
        (void)0; /* a callback has found the fault */
    } else if (head->complete && head->http_status != 200) {
        (void)answer_to_error(head, err);
    } else if (code == CURLE_OK) {
        end_answer(exchange);
    } else {
        transport_error(exchange, code);
    }
    if (head->complete) {
        err->http_status = head->http_status;
    }
    memcpy(err->request_id, head->request_id, sizeof err->request_id);
    detach(exchange);
    if (err->status == TALLY_OK) {
        return EXCHANGE_DONE;
    }
    enum {
        LONGEST_S = 1000000000
    };
    return retry_decide(
        exchange, (retry_after_s < LONGEST_S ? (int64_t)retry_after_s : LONGEST_S) * 1000);
}

int64_t exchange_retry_at_ms(const struct exchange *exchange)
{
    return exchange->retry_at_ms;
}

struct tally_error *exchange_error(struct exchange *exchange)
{
    return &exchange->error;
}

/* ---- on the calling thread ---- */

/* Sleep until the next attempt is due; false if the caller cancelled meanwhile. */
static bool wait_for_retry(struct exchange *exchange)
{
    const struct exchange_spec *spec = &exchange->spec;
    for (;;) {
        int64_t left = exchange->retry_at_ms - monotonic_ms();
        if (left <= 0) {
            return true;
        }
        int64_t nap = left < 100 ? left : 100;
        struct timespec pause = {.tv_sec = 0, .tv_nsec = (long)nap * 1000000};
        (void)nanosleep(&pause, NULL);
        if (spec->progress != NULL &&
            spec->progress(spec->user, 0, (int64_t)exchange_send_bytes(exchange), 0, -1) != 0) {
            (void)client_error_set(&exchange->error, TALLY_CANCELLED, "cancelled");
            return false;
        }
    }
}

enum tally_status exchange_run(struct tally *client, const struct exchange_spec *spec,
                               struct tally_error *err)
{
    enum exchange_verdict verdict = EXCHANGE_RETRY;
    struct exchange *exchange = exchange_create(client, spec, err);
    if (exchange == NULL) {
        return TALLY_OUT_OF_MEMORY;
    }
    CURL *easy = connection_acquire(client);
    if (easy == NULL) {
        (void)client_error_set(&exchange->error, TALLY_OUT_OF_MEMORY, "out of memory");
    }
    while (easy != NULL && verdict == EXCHANGE_RETRY) {
        if (exchange_prepare(exchange, easy) != TALLY_OK) {
            break;
        }
        verdict = exchange_settle(exchange, easy, curl_easy_perform(easy));
        if (verdict == EXCHANGE_RETRY && !wait_for_retry(exchange)) {
            break;
        }
    }
    if (easy != NULL) {
        connection_release(client, easy);
    }
    enum tally_status status = exchange->error.status;
    if (err != NULL) {
        *err = exchange->error;
    }
    exchange_destroy(exchange);
    return status;
}
