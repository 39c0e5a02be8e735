/* A call: libcurl's callbacks, the options of a connection, the outcome of an attempt, retries.
 *
 * A cumulative sum has no side effects, so a request may be sent again. The exception is an
 * input that the answer has partly overwritten: spec.once. */
#include "client/call.h"

#include "client/server_url.h"
#include "proto/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum {
    RETRY_AFTER_LONGEST = 1000000000, /* seconds; longer values of Retry-After are cut */
    REASON_TEXT = 128,
    SERVER_TEXT = 256,  /* a longer URL is cut in messages */
    TIMER_SLACK_MS = 5, /* largest difference between libcurl's clock and monotonic_ms() */
    RETRY_WHOLE =
        1000, /* cost of a retry, in units of the budget, which earns 1000 units per second */
    RETRY_PER_CALL = RETRY_WHOLE / 10 /* earned by each call */
};

int64_t monotonic_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Return the number of bytes of the request's head and body together. */
static uint64_t send_bytes(const struct call *call)
{
    return call->spec.head_bytes + call->spec.body_bytes;
}

/* ---- the budget of retries ---- */

/* Add `earned` and the time since the last call to the budget of retries. Then subtract `spent`
 * if the budget is large enough, and return whether it was. A client may retry once per ten
 * calls and once per second, and save up ten retries: so retries do not multiply the load of an
 * overloaded server. */
static bool retry_budget_spend(struct tally *client, int64_t earned, int64_t spent)
{
    int64_t now_ms = monotonic_ms();
    MUST(pthread_mutex_lock(&client->lock));
    earned += client->budget + (now_ms - client->budget_counted_ms);
    client->budget = earned < BUDGET_MOST ? earned : BUDGET_MOST;
    client->budget_counted_ms = now_ms;
    bool enough = client->budget >= spent;
    client->budget -= enough ? spent : 0;
    MUST(pthread_mutex_unlock(&client->lock));
    return enough;
}

/* ---- creation ---- */

/* Append a request header. Returns false without memory. */
PRINTF_LIKE(2, 3)
static bool add_header(struct call *call, const char *format, ...)
{
    char line[512]; /* tally_exchange() limits texts to 400 bytes */
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    struct curl_slist *longer = curl_slist_append(call->headers, line);
    call->headers = longer != NULL ? longer : call->headers;
    return longer != NULL;
}

/* Build the request headers of an attempt, with the time until the deadline. Returns false
 * without memory. */
static bool add_headers(struct call *call, int64_t now_ms)
{
    const struct call_spec *spec = &call->spec;
    curl_slist_free_all(call->headers);
    call->headers = NULL;
    return (spec->content_type == NULL ||
            add_header(call, "Content-Type: %s", spec->content_type)) &&
           (spec->accept == NULL || add_header(call, "Accept: %s", spec->accept)) &&
           (spec->head_header == NULL ||
            add_header(call, "%s: %zu", spec->head_header, spec->head_bytes)) &&
           (call->deadline_at_ms == NEVER_MS ||
            add_header(call, "X-Request-Timeout-Ms: %" PRId64, call->deadline_at_ms - now_ms));
}

/* Return now_ms + time_ms; NEVER_MS if time_ms is 0 or the sum overflows. */
static int64_t moment_after(int64_t now_ms, int64_t time_ms)
{
    int64_t moment_ms = 0;
    return time_ms <= 0 || __builtin_add_overflow(now_ms, time_ms, &moment_ms) ? NEVER_MS
                                                                               : moment_ms;
}

struct call *call_create(struct tally *client, const struct call_spec *spec,
                         struct tally_error *err)
{
    size_t url_bytes = strlen(client->base_url) + strlen(spec->path) + 1;
    int64_t now_ms = monotonic_ms();
    struct call *call = calloc(1, sizeof *call + url_bytes);
    if (call == NULL) {
        (void)client_error_no_memory(err);
        return NULL;
    }
    call->client = client;
    call->spec = *spec;
    (void)snprintf(call->url, url_bytes, "%s%s", client->base_url, spec->path);
    call->give_up_ms = moment_after(now_ms, client->options.timeout_ms);
    call->deadline_at_ms = moment_after(now_ms, spec->deadline_ms);
    (void)retry_budget_spend(client, RETRY_PER_CALL, 0);
    return call;
}

void call_destroy(struct call *call)
{
    if (call != NULL) {
        curl_slist_free_all(call->headers);
    }
    free(call);
}

/* ---- libcurl's callbacks ---- */

static size_t on_read(char *to, size_t size, size_t count, void *user)
{
    struct call *call = user;
    const struct call_spec *spec = &call->spec;
    size_t room = size * count;
    bool in_head = call->sent < spec->head_bytes;
    uint64_t start = in_head ? call->sent : call->sent - spec->head_bytes;
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
        (void)client_error_set(&call->error, TALLY_LOCAL_IO,
                               "reading the request's body failed at byte %" PRIu64, start);
        return CURL_READFUNC_ABORT;
    }
    call->sent += taken;
    return taken;
}

static int on_seek(void *user, curl_off_t offset, int origin)
{
    struct call *call = user;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > send_bytes(call)) {
        return CURL_SEEKFUNC_FAIL;
    }
    call->sent = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

static int on_progress(void *user, curl_off_t receive_total, curl_off_t received,
                       curl_off_t send_total, curl_off_t sent)
{
    struct call *call = user;
    const struct call_spec *spec = &call->spec;
    (void)send_total; /* libcurl passes 0 until the transfer starts; send_bytes() is constant */
    if (spec->progress(spec->user, sent, (int64_t)send_bytes(call), received,
                       receive_total > 0 ? receive_total : -1) == 0) {
        return 0;
    }
    (void)client_error_set(&call->error, TALLY_CANCELLED, "cancelled");
    return 1;
}

static void headers_too_long(struct call *call)
{
    (void)client_error_set(
        &call->error, TALLY_BAD_ANSWER,
        "the answer's headers are longer than %d bytes; is this the URL of a "
        "Tally server?",
        ANSWER_HEADER_BYTES);
}

/* Receive a header line. The empty line ends the headers: those of the final answer are then
 * read; those of an interim answer (100 Continue) are ignored. */
static size_t on_header(char *line, size_t size, size_t count, void *user)
{
    struct call *call = user;
    size_t bytes = size * count;
    if (call->answer.complete && bytes > 5 && memcmp(line, "HTTP/", 5) == 0) {
        /* A second status line: libcurl has repeated the request after 417, without Expect. */
        call_answer_reset(&call->answer);
    }
    call->answer.header_bytes += bytes;
    if (call->answer.header_bytes > ANSWER_HEADER_BYTES) {
        headers_too_long(call);
        return 0;
    }
    long status = 0;
    bool empty = bytes > 0 && (memcmp(line, "\r", 1) == 0 || memcmp(line, "\n", 1) == 0);
    if (!call->answer.complete && empty &&
        curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK &&
        status >= 200) {
        call->answer.complete = true;
        call->answer.http_status = (int)status;
        call_answer_read(&call->answer, call->easy);
    }
    return bytes;
}

/* Check the headers of a 200 answer, and refuse an answer that cannot belong to this
 * request. */
static enum tally_status begin_answer(struct call *call)
{
    const struct call_answer *head = &call->answer;
    struct tally_error *err = &call->error;
    curl_off_t uploaded = 0;
    curl_off_t length = -1;
    call->begun = true;
    (void)curl_easy_getinfo(call->easy, CURLINFO_SIZE_UPLOAD_T, &uploaded);
    (void)curl_easy_getinfo(call->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (head->ambiguous) {
        return client_error_set(
            err, TALLY_BAD_ANSWER,
            "the answer has a malformed header, or one twice with different values");
    }
    if (head->content_encoding[0] != '\0' && strcmp(head->content_encoding, "identity") != 0) {
        return client_error_set(err, TALLY_BAD_ANSWER,
                                "the answer is compressed (%s), which was not asked for",
                                head->content_encoding);
    }
    if (call->spec.in_order && (uint64_t)uploaded < send_bytes(call)) {
        return client_error_set(err, TALLY_BAD_ANSWER,
                                "the answer began before the request was sent (%" PRIu64
                                " of %" PRIu64 " bytes)",
                                (uint64_t)uploaded, send_bytes(call));
    }
    struct tally_answer answer = {.struct_size = sizeof answer,
                                  .content_type = head->content_type,
                                  .dtype = head->dtype,
                                  .shape = head->shape,
                                  .request_id = head->request_id,
                                  .content_length = length,
                                  .head_length = head->head_length,
                                  .carry_length = head->carry_length};
    CLIENT_TRY(call->spec.begin(call->spec.context, &answer, &call->due, err));
    if (call->due != UINT64_MAX && length >= 0 && (uint64_t)length != call->due) {
        return client_error_set(err, TALLY_BAD_ANSWER,
                                "the answer has %" PRId64 " bytes, expected %" PRIu64,
                                (int64_t)length, call->due);
    }
    return TALLY_OK;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *user)
{
    struct call *call = user;
    const struct call_spec *spec = &call->spec;
    size_t total = size * count;
    if (call->answer.http_status != 200) {
        return call_answer_keep_error(&call->answer, bytes, total) ? total : 0;
    }
    if (!call->begun && begin_answer(call) != TALLY_OK) {
        return 0;
    }
    if (total > call->due - call->received) {
        (void)client_error_set(&call->error, TALLY_BAD_ANSWER,
                               "the answer is longer than the expected %" PRIu64 " bytes",
                               call->due);
        return 0;
    }
    uint64_t front_bytes = spec->front == NULL ? 0 : spec->front->count;
    size_t kept = 0;
    if (call->received < front_bytes) {
        kept = smaller_of(front_bytes - call->received, total);
        memcpy(spec->front->bytes + call->received, bytes, kept);
        call->received += kept;
    }
    if (kept < total) {
        enum tally_status status = spec->write(spec->context, call->received - front_bytes,
                                               bytes + kept, total - kept, &call->error);
        call->touched = call->touched || status != TALLY_BAD_ANSWER;
        call->received += total - kept;
    }
    return call->error.status == TALLY_OK ? total : 0;
}

/* Check that a 200 answer is complete. */
static void end_answer(struct call *call)
{
    if (!call->answer.complete) {
        (void)client_error_set(&call->error, TALLY_CONNECTION_LOST,
                               "the connection broke in the answer's headers");
        return;
    }
    if (!call->begun && begin_answer(call) != TALLY_OK) {
        return;
    }
    if (call->due != UINT64_MAX && call->received != call->due) {
        (void)client_error_set(&call->error, TALLY_BAD_ANSWER,
                               "the answer ended after %" PRIu64 " of %" PRIu64 " bytes",
                               call->received, call->due);
    }
}

/* ---- the options of a connection ---- */

static void set_body(struct call *call, CURL *easy)
{
    const struct call_spec *spec = &call->spec;
    bool in_memory = spec->head_bytes == 0 && spec->read_body == NULL;
    const void *memory = spec->body_bytes == 0 ? "" : spec->body;
    (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, NULL);
    bool head = strcmp(spec->method, "HEAD") == 0;
    if (head || strcmp(spec->method, "GET") == 0) {
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, NULL);
        (void)curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_NOBODY,
                               head ? 1L : 0L); /* the answer has no body */
        return;
    }
    (void)curl_easy_setopt(easy, CURLOPT_POST, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)send_bytes(call));
    (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, in_memory ? memory : NULL);
    (void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
    (void)curl_easy_setopt(easy, CURLOPT_READDATA, call);
    (void)curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
    (void)curl_easy_setopt(easy, CURLOPT_SEEKDATA, call);
    if (strcmp(spec->method, "POST") != 0) {
        (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, spec->method);
    }
}

enum tally_status call_prepare(struct call *call, CURL *easy)
{
    int64_t now_ms = monotonic_ms();
    client_error_reset(&call->error);
    call->error.attempts = call->attempts;
    if (now_ms >= call->give_up_ms) {
        return client_error_set(&call->error, TALLY_TIMEOUT,
                                "no time was left to send the request (timeout_ms is %" PRId64
                                ")",
                                call->client->options.timeout_ms);
    }
    if (now_ms >= call->deadline_at_ms) {
        return client_error_set(&call->error, TALLY_DEADLINE,
                                "the deadline passed before the request was sent (deadline_ms "
                                "is %" PRId64 ")",
                                call->spec.deadline_ms);
    }
    if (!add_headers(call, now_ms)) {
        return client_error_no_memory(&call->error);
    }
    call_answer_reset(&call->answer);
    call->sent = 0;
    call->received = 0;
    call->due = UINT64_MAX;
    call->begun = false;
    call->curl_message[0] = '\0';
    call->easy = easy;
    set_body(call, easy);
    (void)curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, call->fresh ? 1L : 0L);
    call->fresh = false;
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    (void)curl_easy_setopt(easy, CURLOPT_NOPROGRESS, call->spec.progress == NULL ? 1L : 0L);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFODATA, call);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->curl_message);
    (void)curl_easy_setopt(
        easy, CURLOPT_TIMEOUT_MS,
        (long)(call->give_up_ms == NEVER_MS ? 0 : call->give_up_ms - now_ms));
    if (curl_easy_setopt(easy, CURLOPT_URL, &call->url[0]) != CURLE_OK) {
        return client_error_no_memory(&call->error);
    }
    return TALLY_OK;
}

/* Remove all pointers to the call from a connection before it is released. */
static void detach_connection(struct call *call)
{
    (void)curl_easy_setopt(call->easy, CURLOPT_ERRORBUFFER, NULL);
    (void)curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, NULL);
    (void)curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, NULL);
    (void)curl_easy_setopt(call->easy, CURLOPT_NOPROGRESS, 1L);
    call->easy = NULL;
}

/* ---- the outcome of an attempt ---- */

static void timeout_error(struct call *call)
{
    const struct tally_options *options = &call->client->options;
    curl_off_t ready_us = 0;
    char server[SERVER_TEXT];
    server_url_print(call->client, server, sizeof server);
    (void)curl_easy_getinfo(call->easy, CURLINFO_PRETRANSFER_TIME_T, &ready_us);
    bool all_used = call->give_up_ms - monotonic_ms() < TIMER_SLACK_MS;
    if (ready_us == 0 && !all_used) {
        (void)client_error_set(&call->error, TALLY_CONNECT,
                               "no connection to %s within %" PRId64 " ms", server,
                               options->connect_timeout_ms);
    } else {
        (void)client_error_set(&call->error, TALLY_TIMEOUT,
                               "not done after %" PRId64 " ms (%" PRIu64
                               " bytes of the answer were received): raise timeout_ms (tally "
                               "--timeout), or send less",
                               options->timeout_ms, call->received);
    }
}

/* Return whether the environment names a proxy. libcurl does not report whether it used one. */
static bool proxy_is_named(void)
{
    static const char *const names[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
                                        "ALL_PROXY"};
    bool named = false;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        const char *proxy = getenv(names[i]); /* NOLINT(concurrency-mt-unsafe): read only */
        named = named || (proxy != NULL && proxy[0] != '\0');
    }
    return named;
}

/* Return advice for a connection that failed; `words` is libcurl's message. */
static const char *connect_advice(const struct call *call, CURLcode code, const char *words)
{
    bool unknown = strstr(words, "self") != NULL || strstr(words, "issuer") != NULL;
    switch ((int)code) {
    case CURLE_COULDNT_CONNECT:
        return call->client->socket_path == NULL && proxy_is_named()
                   ? ". Is tallyd running there, and the proxy that the environment names "
                     "(http_proxy)? What is to be reached without it is named in no_proxy"
                   : ". Is tallyd running there? Give its address as the URL or in TALLY_URL, "
                     "like http://127.0.0.1:8000";
    case CURLE_SSL_CONNECT_ERROR:
        return ". If the server speaks no TLS, its address begins with http://";
    case CURLE_PEER_FAILED_VERIFICATION:
        return unknown ? ". Say whose certificates to trust: ca_file (tally --cacert)" : "";
    case CURLE_GOT_NOTHING:
        return ". If the server speaks TLS, its address begins with https://";
    default:
        return "";
    }
}

/* Return whether this process cannot open another file or socket. */
static bool descriptors_are_used_up(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    bool used_up = fd < 0 && (errno == EMFILE || errno == ENFILE);
    if (fd >= 0) {
        (void)close(fd);
    }
    return used_up;
}

static void transport_error(struct call *call, CURLcode code)
{
    const struct tally *client = call->client;
    struct tally_error *err = &call->error;
    const char *words = call->curl_message;
    if (words[0] == '\0' || strchr(words, '@') != NULL) { /* '@' may follow a password */
        words = curl_easy_strerror(code);
    }
    char reason[REASON_TEXT];
    char server[SERVER_TEXT];
    long number = 0;
    long tunnel = 0;
    curl_off_t answered_us = 0;
    enum {
        TOO_LARGE = 100 /* CURLE_TOO_LARGE of libcurl 8.6 */
    };
    server_url_print(client, server, sizeof server);
    (void)curl_easy_getinfo(call->easy, CURLINFO_HTTP_CONNECTCODE, &tunnel);
    bool used_up = code == CURLE_COULDNT_CONNECT && descriptors_are_used_up();
    if (used_up) { /* libcurl's message does not name this cause */
        words = "this process has no file descriptor left: close some, or raise ulimit -n";
    }
    if (used_up || tunnel >= 300) { /* tunnel: the proxy refused CONNECT */
        (void)client_error_set(err, TALLY_CONNECT, "cannot reach %s: %s", server, words);
        return;
    }
    if (client->socket_path != NULL && code == CURLE_COULDNT_CONNECT) {
        (void)curl_easy_getinfo(call->easy, CURLINFO_OS_ERRNO, &number);
        if (number == 0) { /* connect() returned EAGAIN, which libcurl reads as "in progress" */
            (void)client_error_set(err, TALLY_BUSY, "the queue of connections at %s is full",
                                   server);
            return;
        }
        words = strerror_r((int)number, reason,
                           sizeof reason); /* libcurl's message names port 80 */
    }
    switch ((int)code) {
    case CURLE_OPERATION_TIMEDOUT:
        timeout_error(call);
        return;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
        (void)client_error_set(err, TALLY_CONNECT, "cannot reach %s: %s%s", server, words,
                               connect_advice(call, code, words));
        return;
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
        (void)client_error_set(err, TALLY_INVALID_ARGUMENT, "cannot use a certificate: %s",
                               words);
        return;
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
        (void)client_error_set(
            err, TALLY_CONNECTION_LOST, "the connection broke %s: %s%s",
            call->received > 0 ? "in the middle of the answer" : "before the answer", words,
            strncmp(server, "http:", 5) == 0 ? connect_advice(call, code, words) : "");
        return;
    case TOO_LARGE: /* a header line is longer than libcurl's limit (100 KiB) */
        headers_too_long(call);
        return;
    case CURLE_OUT_OF_MEMORY:
        /* Older versions of libcurl return this code for such a line. */
        (void)curl_easy_getinfo(call->easy, CURLINFO_STARTTRANSFER_TIME_T, &answered_us);
        if (answered_us > 0 && !call->answer.complete) {
            headers_too_long(call);
        } else {
            (void)client_error_no_memory(err);
        }
        return;
    default:
        (void)client_error_set(err, TALLY_BAD_ANSWER,
                               "no usable answer: %s (is this the URL of a Tally server?)",
                               words);
        return;
    }
}

/* ---- retries ---- */

/* Return a random time from 0 to a limit that doubles with each attempt (full jitter). */
static int64_t backoff_ms(const struct call *call)
{
    const struct tally_options *options = &call->client->options;
    int64_t limit = options->backoff_base_ms;
    for (int i = 1; i < call->attempts && limit < options->backoff_max_ms; i++) {
        limit *= 2;
    }
    if (limit > options->backoff_max_ms) {
        limit = options->backoff_max_ms;
    }
    uint64_t random = 0;
    if (limit <= 0 || getrandom(&random, sizeof random, 0) < 0) {
        return 0;
    }
    return (int64_t)(random % ((uint64_t)limit + 1));
}

/* Return whether the error, the options and the state of the call allow another attempt. */
static bool worth_a_retry(const struct call *call)
{
    const struct tally_options *options = &call->client->options;
    enum tally_status status = call->error.status;
    if (call->spec.single || (call->spec.once && call->touched) ||
        call->attempts > options->retries) {
        return false;
    }
    return status == TALLY_BUSY || status == TALLY_CONNECTION_LOST ||
           (status == TALLY_CONNECT && options->retry_connect != 0);
}

/* Decide whether to make another attempt after call->error. Returns true and sets retry_at_ms,
 * or returns false and completes the message. `reused`: the attempt used an idle connection. */
static bool decide_retry(struct call *call, bool reused, int64_t retry_after_ms)
{
    const struct tally_options *options = &call->client->options;
    struct tally_error *err = &call->error;
    /* The server may close an idle connection at any time. This is not counted as an
     * attempt. */
    if (err->status == TALLY_CONNECTION_LOST && reused && call->answer.header_bytes == 0) {
        call->fresh = true;
        call->attempts--;
        call->retry_at_ms = 0;
        return true;
    }
    if (worth_a_retry(call)) {
        call->retry_at_ms = monotonic_ms() + retry_after_ms + backoff_ms(call);
        bool in_time =
            call->retry_at_ms < call->give_up_ms && call->retry_at_ms < call->deadline_at_ms;
        bool soon =
            options->retry_after_max_ms == 0 || retry_after_ms <= options->retry_after_max_ms;
        if (in_time && soon && retry_budget_spend(call->client, 0, RETRY_WHOLE)) {
            return true;
        }
    }
    if (retry_after_ms > 0 && err->status == TALLY_BUSY) {
        text_append(err->message, sizeof err->message,
                    "; the server asks to wait %" PRId64 " s", retry_after_ms / 1000);
    }
    if (call->attempts > 1) {
        text_append(err->message, sizeof err->message, " (after %d attempts)", call->attempts);
    }
    err->output_touched = call->touched;
    if (call->touched && call->spec.once) {
        text_append(err->message, sizeof err->message,
                    "; the answer had begun to overwrite its destination: to repeat the call, "
                    "provide the input again");
    }
    return false;
}

bool call_finish_attempt(struct call *call, CURLcode code)
{
    struct tally_error *err = &call->error;
    const struct call_answer *head = &call->answer;
    curl_off_t retry_after_s = 0;
    long connects = 0;
    (void)curl_easy_getinfo(call->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    bool reused = curl_easy_getinfo(call->easy, CURLINFO_NUM_CONNECTS, &connects) == CURLE_OK &&
                  connects == 0;
    err->attempts = ++call->attempts;
    if (err->status != TALLY_OK) {
        (void)0; /* a callback has set the error */
    } else if (head->complete && head->http_status != 200) {
        call_answer_to_error(head, err);
    } else if (code == CURLE_OK) {
        end_answer(call);
    } else {
        transport_error(call, code);
    }
    if (code == CURLE_COULDNT_CONNECT || (head->http_status == 404 && err->code[0] == '\0')) {
        char hint[SERVER_TEXT];
        server_url_port_hint(call->client, hint, sizeof hint);
        text_append(err->message, sizeof err->message, "%s", hint);
    }
    err->http_status = head->http_status;
    memcpy(err->request_id, head->request_id, sizeof err->request_id);
    detach_connection(call);
    if (err->status == TALLY_OK) {
        return false;
    }
    if (retry_after_s < 0) { /* Retry-After is a date in the past */
        retry_after_s = 0;
    } else if (retry_after_s > RETRY_AFTER_LONGEST) {
        retry_after_s = RETRY_AFTER_LONGEST;
    }
    return decide_retry(call, reused, (int64_t)retry_after_s * 1000);
}

bool call_ask_progress(struct call *call)
{
    const struct call_spec *spec = &call->spec;
    if (spec->progress == NULL ||
        spec->progress(spec->user, 0, (int64_t)send_bytes(call), 0, -1) == 0) {
        return true;
    }
    (void)client_error_set(&call->error, TALLY_CANCELLED, "cancelled");
    return false;
}

/* Sleep until the next attempt is due. Returns false if the caller cancelled the call. */
static bool wait_for_retry(struct call *call)
{
    int64_t left = 0;
    while ((left = call->retry_at_ms - monotonic_ms()) > 0) {
        const int64_t nap = left < NAP_MS ? left : NAP_MS;
        const struct timespec pause = {.tv_sec = 0, .tv_nsec = (long)nap * 1000000};
        (void)nanosleep(&pause, NULL);
        if (!call_ask_progress(call)) {
            return false;
        }
    }
    return true;
}

enum tally_status call_run(struct tally *client, const struct call_spec *spec,
                           struct tally_error *err)
{
    struct call *call = call_create(client, spec, err);
    if (call == NULL) {
        return TALLY_OUT_OF_MEMORY;
    }
    CURL *easy = connection_acquire(client);
    if (easy == NULL) {
        (void)client_error_no_memory(&call->error);
    } else {
        while (call_prepare(call, easy) == TALLY_OK &&
               call_finish_attempt(call, curl_easy_perform(easy)) && wait_for_retry(call)) {
        }
        connection_release(client, easy);
    }
    enum tally_status status = call->error.status;
    if (err != NULL) {
        *err = call->error;
    }
    call_destroy(call);
    return status;
}
