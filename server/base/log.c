/* Lines gather in one buffer while the writer thread writes the other. */
#include "server/base/log.h"

#include "server/base/clock.h"
#include "server/base/log_line.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BUFFER_BYTES = 256 * 1024
};

struct log {
    struct log_options options;
    atomic_uint_fast64_t dropped;
    pthread_t writer;
    pthread_mutex_t lock;   /* guards everything below */
    pthread_cond_t changed; /* monotonic clock */
    char *filling;          /* owned */
    char *writing;          /* owned; the writer's alone */
    size_t filled;
    bool closing;
    bool finished; /* the writer has left */
    uint64_t rate_second;
    uint64_t rate_lines; /* request lines in that second */
    uint64_t reported;   /* dropped lines already told */
};

static void write_all(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t written = write(fd, bytes, count);
        if (written < 0 && errno != EINTR) {
            return; /* nobody listens: a log that cannot be written must not stop the service */
        }
        if (written > 0) {
            bytes += written;
            count -= (size_t)written;
        }
    }
}

/* Once a second at most, say how many lines were lost. Thread: a holder of the lock. */
static void report_dropped(struct log *log)
{
    uint64_t dropped = atomic_load(&log->dropped);
    if (dropped == log->reported) {
        return;
    }
    struct log_line line;
    log_line_begin(&line, log->options.json, LOG_WARN, "log lines left out");
    log_line_number(&line, "lines", dropped - log->reported);
    log_line_end(&line);
    if (log->filled + line.used <= BUFFER_BYTES) {
        memcpy(log->filling + log->filled, line.text, line.used);
        log->filled += line.used;
        log->reported = dropped;
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
    (void)pthread_mutex_unlock(&log->lock);
    write_all(log->options.fd, bytes, count);
    (void)pthread_mutex_lock(&log->lock);
}

static void *writer_main(void *argument)
{
    struct log *log = argument;
    (void)pthread_setname_np(pthread_self(), "tally-log");
    uint64_t report_ns = 0;
    (void)pthread_mutex_lock(&log->lock);
    while (log->filled > 0 || !log->closing) {
        uint64_t now_ns = clock_now_ns();
        if (now_ns >= report_ns || log->closing) {
            report_dropped(log);
            report_ns = now_ns + NS_PER_S;
        }
        if (log->filled > 0) {
            write_filled(log);
        } else if (atomic_load(&log->dropped) != log->reported) {
            struct timespec until = clock_timespec(report_ns);
            (void)pthread_cond_timedwait(&log->changed, &log->lock, &until);
        } else {
            (void)pthread_cond_wait(&log->changed, &log->lock);
        }
    }
    report_dropped(log); /* what was lost since the last report */
    if (log->filled > 0) {
        write_filled(log);
    }
    log->finished = true;
    (void)pthread_cond_broadcast(&log->changed);
    (void)pthread_mutex_unlock(&log->lock);
    return NULL;
}

static void destroy(struct log *log)
{
    (void)pthread_cond_destroy(&log->changed);
    (void)pthread_mutex_destroy(&log->lock);
    free(log->filling);
    free(log->writing);
    free(log);
}

enum status log_open(const struct log_options *options, struct log **out, struct error *err)
{
    struct log *log = calloc(1, sizeof *log);
    if (log == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the log");
    }
    log->options = *options;
    atomic_init(&log->dropped, 0);
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&log->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    (void)pthread_mutex_init(&log->lock, NULL);
    log->filling = malloc(BUFFER_BYTES);
    log->writing = malloc(BUFFER_BYTES);
    int failure = log->filling == NULL || log->writing == NULL
                      ? ENOMEM
                      : pthread_create(&log->writer, NULL, writer_main, log);
    if (failure != 0) {
        destroy(log);
        return error_set(err, STATUS_INTERNAL, "cannot start the log: %s",
                         strerrordesc_np(failure));
    }
    *out = log;
    return STATUS_OK;
}

void log_close(struct log *log)
{
    if (log == NULL) {
        return;
    }
    struct timespec until = clock_timespec(clock_now_ns() + NS_PER_S);
    int waited = 0;
    (void)pthread_mutex_lock(&log->lock);
    log->closing = true;
    (void)pthread_cond_broadcast(&log->changed);
    while (!log->finished && waited == 0) {
        waited = pthread_cond_timedwait(&log->changed, &log->lock, &until);
    }
    bool finished = log->finished;
    (void)pthread_mutex_unlock(&log->lock);
    if (finished) {
        (void)pthread_join(log->writer, NULL);
        destroy(log);
    } else {
        (void)pthread_detach(log->writer); /* stuck in write(); it keeps the log */
    }
}

/* Thread: a holder of the lock. */
static bool over_rate(struct log *log)
{
    uint64_t second = clock_now_ns() / NS_PER_S;
    if (second != log->rate_second) {
        log->rate_second = second;
        log->rate_lines = 0;
    }
    return log->options.request_rate != 0 && ++log->rate_lines > log->options.request_rate;
}

static void submit(struct log *log, const struct log_line *line)
{
    (void)pthread_mutex_lock(&log->lock);
    if (log->filled + line->used > BUFFER_BYTES) {
        atomic_fetch_add(&log->dropped, 1);
    } else {
        memcpy(log->filling + log->filled, line->text, line->used);
        log->filled += line->used;
        if (log->filled == line->used) { /* it was empty: the writer may be asleep */
            (void)pthread_cond_signal(&log->changed);
        }
    }
    (void)pthread_mutex_unlock(&log->lock);
}

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
    submit(log, &line);
}

bool log_request_due(struct log *log)
{
    if (log == NULL || !log->options.requests || log->options.level < LOG_INFO) {
        return false;
    }
    (void)pthread_mutex_lock(&log->lock);
    bool drop = over_rate(log);
    if (drop && atomic_fetch_add(&log->dropped, 1) == log->reported) {
        (void)pthread_cond_signal(&log->changed); /* the first of them: to be reported */
    }
    (void)pthread_mutex_unlock(&log->lock);
    return !drop;
}

static void add_fields(struct log_line *line, const struct log_request *request)
{
    log_line_text(line, "id", request->id);
    log_line_text(line, "client", request->client);
    log_line_text(line, "method", request->method);
    log_line_text(line, "path", request->path);
    log_line_number(line, "status", request->http_status);
    log_line_text(line, "outcome", request->outcome);
    log_line_text(line, "format", request->format);
    log_line_text(line, "dtype", request->dtype);
    log_line_text(line, "shape", request->shape);
    log_line_number(line, "bytes_in", request->bytes_in);
    log_line_number(line, "bytes_out", request->bytes_out);
    log_line_number(line, "total_us", request->total_us);
    if (request->batch > 0) {
        log_line_number(line, "queue_us", request->queue_us);
        log_line_number(line, "compute_us", request->compute_us);
        log_line_number(line, "batch", request->batch);
    }
    if (request->device >= 0) {
        log_line_number(line, "device", (uint64_t)request->device);
    }
    log_line_text(line, "detail", request->detail);
}

void log_request(struct log *log, const struct log_request *request)
{
    struct log_line line;
    log_line_begin(&line, log->options.json, LOG_INFO, "request");
    add_fields(&line, request);
    log_line_end(&line);
    submit(log, &line);
}

uint64_t log_dropped(struct log *log)
{
    return log == NULL ? 0 : atomic_load(&log->dropped);
}
