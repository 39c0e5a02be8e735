/* Lines are appended to one buffer while the writer thread writes the other one.
 *
 * Text:  2026-11-21T03:04:05.678Z info request id=7 path=/v1/cumsum detail="two words"
 * JSON:  {"time":"2026-11-21T03:04:05.678Z","level":"info","message":"request","id":"7",…}
 *
 * put_escaped() escapes all text from clients, so that a line feed does not begin another line
 * and an escape sequence does not reach a terminal.
 *
 * Possible failures: none after log_open(). A line that cannot be stored or written is left
 * out. */
#include "server/base/log.h"

#include "proto/json/writer.h"
#include "proto/text.h"
#include "server/base/clock.h"
#include "server/base/log_shares.h"
#include "server/base/thread.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    BUFFER_BYTES = 512 << 10, /* lines of one second at the default of --log-bytes-per-s */
    LOG_LINE_BYTES = 4096,
    /* longest value of a field, so that a long path leaves room for the next fields */
    VALUE_BYTES = 1024,
    RESERVE = 8,   /* bytes at the end of a line: closing quote, brace and newline */
    MOST_TOLD = 32 /* maximum number of clients whose lost lines are reported in each second */
};

#define IDLE_WAIT_NS (3600 * NS_PER_S) /* time for which the writer waits for lines */

struct log {
    struct log_options options;
    atomic_uint_fast64_t dropped;
    pthread_t writer;
    bool joined;            /* the writer has ended; used by the thread that closes the log */
    pthread_mutex_t lock;   /* guards all fields below */
    pthread_cond_t changed; /* uses the monotonic clock */
    char *filling;          /* one of the two buffers */
    char *writing;          /* the other buffer; only the writer uses it */
    size_t filled;
    bool closing;
    uint64_t reported; /* number of dropped lines that were reported */
    struct log_shares shares;
    char buffers[2][BUFFER_BYTES];
};

/* ---- a line ---- */

/* A line under construction. Fields that do not fit are cut; the end of the line always fits. */
struct log_line {
    bool json;
    size_t used;
    char text[LOG_LINE_BYTES];
};

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static bool room_for(const struct log_line *line, size_t bytes)
{
    return line->used + bytes + RESERVE <= LOG_LINE_BYTES;
}

static void line_put(struct log_line *line, const char *bytes, size_t count)
{
    if (room_for(line, count)) {
        memcpy(line->text + line->used, bytes, count);
        line->used += count;
    }
}

static void put_string(struct log_line *line, const char *text)
{
    line_put(line, text, strlen(text));
}

/* Append the escape of a byte. Text form: \xNN. JSON: \u00NN for a control character; for
 * another byte the text \xNN, because JSON has no escape for bytes that are not UTF-8. */
static void put_byte_escape(struct log_line *line, unsigned char byte)
{
    static const char hex[] = "0123456789abcdef";
    put_string(line, !line->json                                       ? "\\x"
                     : text_control((const char[]){(char)byte, 0}) > 0 ? "\\u00"
                                                                       : "\\\\x");
    line_put(line, (const char[]){hex[byte >> 4], hex[byte & 15]}, 2);
}

/* Append a text with escapes, cut to about `most` bytes. In JSON a backslash becomes \x5c;
 * otherwise readers could not tell it from the escape of a byte. */
static void put_escaped(struct log_line *line, const char *text, size_t most)
{
    const unsigned char *s = (const unsigned char *)text;
    const size_t begin = line->used;
    while (*s != '\0' && line->used - begin < most && room_for(line, 16)) {
        const size_t length = utf8_sequence(s, 4); /* 0: not a valid sequence */
        if (length == 0 || text_control((const char *)s) > 0 || (*s == '\\' && line->json)) {
            put_byte_escape(line, *s++);
        } else if (*s == '"' || *s == '\\') {
            line_put(line, (const char[]){'\\', (char)*s++}, 2);
        } else {
            line_put(line, (const char *)s, length);
            s += length;
        }
    }
    if (*s != '\0') {
        put_string(line, "...");
    }
}

/* Returns true if the value needs no quotes in text form. */
static bool is_bare(const char *value)
{
    for (const unsigned char *s = (const unsigned char *)value; *s != '\0'; s++) {
        if (*s <= 0x20 || *s >= 0x7f || *s == '"' || *s == '\\' || *s == '=') {
            return false;
        }
    }
    return true;
}

/* Append a key. Returns false if the line has no room for a value behind it. */
static bool begin_field(struct log_line *line, const char *key)
{
    if (!room_for(line, strlen(key) + 32)) {
        return false;
    }
    put_string(line, line->json ? ",\"" : " ");
    put_string(line, key);
    put_string(line, line->json ? "\":" : "=");
    return true;
}

/* Begin a line with time, level and message. */
static void log_line_begin(struct log_line *line, bool json, enum log_level level,
                           const char *message)
{
    uint64_t now_ns = clock_ns(CLOCK_REALTIME);
    struct timespec now = clock_timespec(now_ns);
    struct tm parts = {0};
    char stamp[32];
    (void)gmtime_r(&now.tv_sec, &parts);
    (void)strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &parts);
    line->json = json;
    line->used = (size_t)snprintf(
        line->text, sizeof line->text,
        json ? "{\"time\":\"%s.%03uZ\",\"level\":\"%s\",\"message\":\"" : "%s.%03uZ %s ", stamp,
        (unsigned)(now_ns % NS_PER_S / NS_PER_MS), level_names[level]);
    put_escaped(line, message, LOG_LINE_BYTES);
    put_string(line, json ? "\"" : "");
}

/* Append a field of text. NULL, "": no field. */
static void log_line_text(struct log_line *line, const char *key, const char *value)
{
    if (value == NULL || value[0] == '\0' || !begin_field(line, key)) {
        return;
    }
    bool quoted = line->json || !is_bare(value);
    put_string(line, quoted ? "\"" : "");
    put_escaped(line, value, VALUE_BYTES);
    if (quoted) {
        line->text[line->used++] = '"'; /* RESERVE includes this byte */
    }
}

static void log_line_number(struct log_line *line, const char *key, uint64_t value)
{
    if (begin_field(line, key)) {
        char digits[24];
        (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
        put_string(line, digits);
    }
}

/* End the line with a newline. */
static void log_line_end(struct log_line *line)
{
    if (line->json) {
        line->text[line->used++] = '}';
    }
    line->text[line->used++] = '\n';
}

/* ---- the writer ---- */

static void write_all(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t written = write(fd, bytes, count);
        if (written > 0) {
            bytes += written;
            count -= (size_t)written;
        } else if (written < 0 && errno == EAGAIN) {
            /* Another process that shares the terminal or pipe has set O_NONBLOCK. */
            struct pollfd writable = {.fd = fd, .events = POLLOUT};
            (void)poll(&writable, 1, -1);
        } else if (written < 0 && errno != EINTR) {
            return; /* a log that cannot be written must not stop the service */
        }
    }
}

/* Returns false if the buffer has no room for the line. Thread: a holder of the lock. */
static bool append_line(struct log *log, const struct log_line *line)
{
    if (log->filled + line->used > BUFFER_BYTES) {
        return false;
    }
    memcpy(log->filling + log->filled, line->text, line->used);
    log->filled += line->used;
    return true;
}

/* Report the number of lines that were left out: lines of a client, or of several clients if
 * `client` is NULL. Thread: a holder of the lock. */
static void report_lines(struct log *log, uint64_t lines, const struct address *client)
{
    struct log_line line;
    char text[INET6_ADDRSTRLEN];
    log_line_begin(&line, log->options.json, LOG_WARN, "log lines left out");
    log_line_number(&line, "lines", lines);
    if (client != NULL) {
        address_text(client, text, sizeof text);
        log_line_text(&line, "client", text);
    }
    log_line_end(&line);
    log->reported += append_line(log, &line) ? lines : 0;
}

/* At the end of a second, report the clients whose lines were left out. Thread: a holder of the
 * lock. */
static void report_clients(struct log *log)
{
    const struct address *client = NULL;
    uint64_t lines = 0;
    size_t told = 0;
    while (told < MOST_TOLD && log_shares_next_left_out(&log->shares, &client, &lines)) {
        report_lines(log, lines, client);
        told++;
    }
}

/* Thread: a holder of the lock. */
static void begin_second(struct log *log, uint64_t now_ns)
{
    if (now_ns / NS_PER_S != log->shares.second) {
        report_clients(log);
        log_shares_begin(&log->shares, now_ns / NS_PER_S);
    }
}

/* Report the lines for which the buffer had no room, and the lines of clients beyond MOST_TOLD.
 * Thread: a holder of the lock. */
static void report_others(struct log *log)
{
    const uint64_t told = log->reported + log->shares.left_out;
    const uint64_t dropped = atomic_load(&log->dropped);
    if (dropped > told) {
        report_lines(log, dropped - told, NULL);
    }
}

/* Thread: a holder of the lock, which is released while writing. */
static void write_filled(struct log *log)
{
    char *bytes = log->filling;
    size_t count = log->filled;
    log->filling = log->writing;
    log->writing = bytes;
    log->filled = 0;
    MUST(pthread_mutex_unlock(&log->lock));
    write_all(log->options.fd, bytes, count);
    MUST(pthread_mutex_lock(&log->lock));
}

static void *writer_main(void *argument)
{
    struct log *log = argument;
    (void)pthread_setname_np(pthread_self(), "tally-log");
    uint64_t report_ns = 0;
    MUST(pthread_mutex_lock(&log->lock));
    while (log->filled > 0 || !log->closing) {
        uint64_t now_ns = clock_now_ns();
        if (now_ns >= report_ns || log->closing) {
            begin_second(log, now_ns);
            report_others(log);
            report_ns = now_ns + NS_PER_S;
        }
        if (log->filled > 0) {
            write_filled(log);
        } else {
            bool to_report = atomic_load(&log->dropped) != log->reported;
            struct timespec until =
                clock_timespec(to_report ? report_ns : now_ns + IDLE_WAIT_NS);
            (void)pthread_cond_timedwait(&log->changed, &log->lock, &until);
        }
    }
    report_clients(log); /* lines left out since the last report */
    report_others(log);
    if (log->filled > 0) {
        write_filled(log);
    }
    MUST(pthread_mutex_unlock(&log->lock));
    return NULL;
}

static void log_free(struct log *log)
{
    MUST(pthread_cond_destroy(&log->changed));
    MUST(pthread_mutex_destroy(&log->lock));
    free(log);
}

enum status log_open(const struct log_options *options, struct log **out, struct error *err)
{
    struct log *log = calloc(1, sizeof *log);
    if (log == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the log");
    }
    log->options = *options;
    log_shares_init(&log->shares, options->bytes_per_s);
    atomic_init(&log->dropped, 0);
    thread_cond_init(&log->changed);
    MUST(pthread_mutex_init(&log->lock, NULL));
    log->filling = log->buffers[0];
    log->writing = log->buffers[1];
    enum status status = thread_start(&log->writer, writer_main, log, "the log", err);
    if (status != STATUS_OK) {
        log_free(log);
        return status;
    }
    *out = log;
    return STATUS_OK;
}

bool log_finish(struct log *log)
{
    if (log == NULL) {
        return true;
    }
    MUST(pthread_mutex_lock(&log->lock));
    log->closing = true;
    MUST(pthread_cond_signal(&log->changed));
    MUST(pthread_mutex_unlock(&log->lock));
    log->joined = log->joined || thread_join_until(log->writer, clock_now_ns() + NS_PER_S);
    return log->joined;
}

void log_close(struct log *log)
{
    if (log == NULL) {
        return;
    }
    if (log_finish(log)) {
        log_free(log);
    } else {
        /* the writer hangs in write() and still uses the log */
        MUST(pthread_detach(log->writer));
    }
}

/* Thread: a holder of the lock. */
static void submit_line(struct log *log, const struct log_line *line)
{
    if (!append_line(log, line)) {
        atomic_fetch_add(&log->dropped, 1);
    } else if (log->filled == line->used) {
        /* The buffer was empty, so the writer may be waiting. */
        MUST(pthread_cond_signal(&log->changed));
    }
}

/* Returns true if a line of this client may be written. NULL: a debug line, whose client is not
 * known. Thread: a holder of the lock. */
static bool admit_line(struct log *log, const struct address *client)
{
    begin_second(log, clock_now_ns());
    if (log_shares_admit(&log->shares, client)) {
        return true;
    }
    if (atomic_fetch_add(&log->dropped, 1) == log->reported) {
        /* The first line is left out since the last report, so the writer may be waiting. */
        MUST(pthread_cond_signal(&log->changed));
    }
    return false;
}

/* The service writes few lines about its own state, so these lines have no limit. Lines of
 * level debug are caused by clients and have one share together. */
void log_message(struct log *log, enum log_level level, const char *format, ...)
{
    if (log == NULL || level > log->options.level) {
        return;
    }
    char message[2048];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    struct log_line line;
    log_line_begin(&line, log->options.json, level, message);
    log_line_end(&line);
    HOLD_LOCK(&log->lock);
    if (level < LOG_DEBUG) {
        submit_line(log, &line);
    } else if (admit_line(log, NULL)) {
        log_shares_charge(&log->shares, NULL, line.used);
        submit_line(log, &line);
    }
}

static enum log_level request_level(bool probe)
{
    return probe ? LOG_DEBUG : LOG_INFO;
}

bool log_request_due(struct log *log, const struct address *client, bool probe)
{
    if (log == NULL || !log->options.requests || log->options.level < request_level(probe)) {
        return false;
    }
    HOLD_LOCK(&log->lock);
    return admit_line(log, client);
}

void log_request(struct log *log, const struct log_request *request)
{
    struct log_line line;
    log_line_begin(&line, log->options.json, request_level(request->probe), "request");
    log_line_text(&line, "id", request->id);
    log_line_text(&line, "trace_id", request->trace_id);
    log_line_text(&line, "span_id", request->span_id);
    log_line_text(&line, "client", request->client);
    log_line_text(&line, "token", request->token);
    log_line_text(&line, "method", request->method);
    log_line_text(&line, "path", request->path);
    log_line_number(&line, "status", request->http_status);
    log_line_text(&line, "outcome", request->outcome);
    log_line_text(&line, "format", request->format);
    log_line_text(&line, "dtype", request->dtype);
    log_line_text(&line, "shape", request->shape);
    log_line_number(&line, "bytes_in", request->bytes_in);
    log_line_number(&line, "bytes_out", request->bytes_out);
    log_line_number(&line, "total_us", request->total_us);
    if (request->batch > 0) {
        log_line_number(&line, "queue_us", request->queue_us);
        log_line_number(&line, "compute_us", request->compute_us);
        log_line_number(&line, "batch", request->batch);
    }
    if (request->device >= 0) {
        log_line_number(&line, "device", (uint64_t)request->device);
    }
    log_line_text(&line, "detail", request->detail);
    log_line_end(&line);
    HOLD_LOCK(&log->lock);
    log_shares_charge(&log->shares, request->address, line.used);
    submit_line(log, &line);
}

uint64_t log_dropped(struct log *log)
{
    return log == NULL ? 0 : atomic_load(&log->dropped);
}
