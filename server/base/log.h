/* Log lines to standard error, as JSON or text. A line is formatted by its caller and handed
 * to a writer thread: a stalled terminal or pipe stops nobody, lines that find no room are
 * counted and reported. The bytes of lines that clients cause are bounded (--log-bytes-per-s), of
 * all clients and of each (log_shares.h), so that a flood of requests is neither a flood of disk
 * writes nor hides the lines of others; lines beyond that are counted, and reported by client once
 * a second. Control characters and bytes that are not UTF-8 are escaped. Thread: any. */
#ifndef TALLY_SERVER_LOG_H
#define TALLY_SERVER_LOG_H

#include "proto/status.h"
#include "server/base/address.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level {
    LOG_ERROR,
    LOG_WARN,
    LOG_INFO,
    LOG_DEBUG
};

struct log_options {
    int fd;               /* where lines go; 2 */
    bool json;            /* else key=value text */
    enum log_level level; /* lines above it are not written */
    bool requests;        /* --log-requests */
    uint64_t bytes_per_s; /* of lines that clients cause, 0: no bound */
};

struct log; /* opaque */

MUST_CHECK enum status log_open(const struct log_options *options, struct log **out,
                                struct error *err);
/* Have what waits written, for up to a second; what is said from now on is not. For a process that
 * ends while other threads go on, which keep the log. False: the reader stalls. NULL is fine. */
bool log_finish(struct log *log);

/* The same, and destroy it: no other thread has it any more. NULL is fine. */
void log_close(struct log *log);

/* A free text line. A NULL log swallows it, so that parts can be tested without one. */
void log_message(struct log *log, enum log_level level, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* One line per finished request. Strings are borrowed for the call; NULL or "": left out. */
struct log_request {
    const char *id;
    const char *method;
    const char *path;              /* as it came */
    const char *client;            /* address of the client, as text */
    const struct address *address; /* the same: the line counts for its share of the log */
    const char *token;             /* name of its token */
    const char *format;            /* codec's name */
    const char *dtype;
    const char *shape;   /* "1,1,3,4" */
    const char *outcome; /* status slug */
    const char *detail;  /* error sentence */
    unsigned http_status;
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t queue_us;
    uint64_t compute_us;
    uint64_t total_us;
    uint32_t batch;       /* requests that shared its launch, 0: none ran */
    int device;           /* number, -1: none */
    const char *trace_id; /* in hex, as is span_id */
    const char *span_id;
};

/* Ask once for each request, before gathering its fields. True: log_request() is to follow;
 * false: no such lines are written, or not so many, and this one is counted as left out. */
bool log_request_due(struct log *log, const struct address *client);
void log_request(struct log *log, const struct log_request *request);

uint64_t log_dropped(struct log *log); /* lines left out so far: no room, or beyond a share */

#endif
