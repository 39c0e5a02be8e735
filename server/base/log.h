/* Log lines on standard error, as JSON or text. The caller formats a line and hands it to a
 * writer thread, so a stalled terminal or pipe blocks no other thread. If the buffer has no
 * room for a line, the line is counted and reported. --log-bytes-per-s limits the bytes of the
 * lines that clients cause, both for all clients and for each client (log_shares.h). So a flood
 * of requests causes no flood of disk writes and does not hide the lines of other clients.
 * Lines beyond the bound are counted and reported by client once per second. Control characters
 * and bytes that are not UTF-8 are escaped. Thread: any. */
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
    int fd;               /* descriptor that lines are written to; borrowed */
    bool json;            /* lines are JSON objects; false: key=value text */
    enum log_level level; /* most detailed level that is written */
    bool requests;        /* --log-requests */
    uint64_t bytes_per_s; /* bound of the lines that clients cause; 0: none */
};

struct log; /* opaque */

MUST_CHECK enum status log_open(const struct log_options *options, struct log **out,
                                struct error *err);
/* Write the buffered lines, for up to a second. Later lines are discarded. This function is for
 * a process that ends while other threads still use the log. Returns false if the reader
 * stalls. NULL is fine. */
bool log_finish(struct log *log);

/* Call log_finish() and destroy the log. No other thread may use the log any more. NULL is
 * fine. */
void log_close(struct log *log);

/* Write a line of free text. A NULL log discards the line, so that modules can be tested
 * without a log. */
void log_message(struct log *log, enum log_level level, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* The fields of a request's line. Strings are borrowed for the call; NULL or "": no such field. */
struct log_request {
    bool probe; /* the request is a health check of the service: its level is debug, not info */
    const char *id;
    const char *method;
    const char *path;              /* path as it arrived */
    const char *client;            /* address of the client, as text */
    const struct address *address; /* the same address; its share of the log is charged */
    const char *token;             /* name of the token */
    const char *format;            /* name of the codec */
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
    uint32_t batch;       /* requests in the same launch; 0: no launch */
    int device;           /* number; -1: none */
    const char *trace_id; /* in hex, like span_id */
    const char *span_id;
};

/* Call this once for each request, before its fields are gathered. Returns true if
 * log_request() must follow. Returns false if lines of this level are not written, or if the
 * share of the client is used up; in the second case the line is counted as left out. */
bool log_request_due(struct log *log, const struct address *client, bool probe);
void log_request(struct log *log, const struct log_request *request);

/* Returns the number of lines left out so far, because of the buffer or because of a share. */
uint64_t log_dropped(struct log *log);

#endif
