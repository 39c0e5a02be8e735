/* Status codes of every layer, and the error that a failing call fills for the client to read.
 *
 * A function that can fail returns `enum status` and takes `struct error *err` as its last
 * parameter; on failure its outputs are untouched. The status names the kind of failure: it is
 * the "code" slug of the JSON error, and alone determines the HTTP status. Thread: any; an
 * error object belongs to one thread at a time. */
#ifndef TALLY_PROTO_STATUS_H
#define TALLY_PROTO_STATUS_H

#include "proto/macros.h"

/* clang-format off */
/*        symbol               HTTP  slug (the "code" of an error answer) */
#define STATUS_TABLE(X)                                           \
        X(OK,                  200,  "ok")                        \
        X(INVALID_REQUEST,     400,  "invalid_request")           \
        X(INVALID_JSON,        400,  "invalid_json")              \
        X(INVALID_FIELD,       400,  "invalid_field")             \
        X(UNKNOWN_FIELD,       400,  "unknown_field")             \
        X(MISSING_FIELD,       400,  "missing_field")             \
        X(INVALID_DTYPE,       400,  "invalid_dtype")             \
        X(INVALID_SHAPE,       400,  "invalid_shape")             \
        X(INVALID_STRIDES,     400,  "invalid_strides")           \
        X(INVALID_AXIS,        400,  "invalid_axis")              \
        X(INVALID_DATA,        400,  "invalid_data")              \
        X(INVALID_NPY,         400,  "invalid_npy")               \
        X(INVALID_ENCODING,    400,  "invalid_content_encoding")  \
        X(LENGTH_MISMATCH,     400,  "length_mismatch")           \
        X(SHM_ERROR,           400,  "shared_memory_error")       \
        X(UNAUTHORIZED,        401,  "unauthorized")              \
        X(FORBIDDEN,           403,  "forbidden")                 \
        X(NOT_FOUND,           404,  "not_found")                 \
        X(METHOD_NOT_ALLOWED,  405,  "method_not_allowed")        \
        X(NOT_ACCEPTABLE,      406,  "not_acceptable")            \
        X(REQUEST_TIMEOUT,     408,  "request_timeout")           \
        X(TOO_LARGE,           413,  "too_large")                 \
        X(UNSUPPORTED_MEDIA,   415,  "unsupported_media_type")    \
        X(HEADERS_TOO_LARGE,   431,  "headers_too_large")         \
        X(HTTP_VERSION,        505,  "http_version")              \
        X(THROTTLED,           429,  "too_many_requests")         \
        X(INTERNAL,            500,  "internal_error")            \
        X(UNSUPPORTED,         501,  "unsupported")               \
        X(QUEUE_FULL,          503,  "queue_full")                \
        X(OUT_OF_MEMORY,       503,  "out_of_memory")             \
        X(DRAINING,            503,  "draining")                  \
        X(NO_DEVICE,           503,  "no_device")                 \
        X(DEVICE_ERROR,        503,  "device_error")              \
        X(DEADLINE_PASSED,     504,  "deadline_passed")           \
        X(CLIENT_GONE,         503,  "client_gone")
/* clang-format on */

enum status {
#define X(symbol, http, slug) STATUS_##symbol,
    STATUS_TABLE(X)
#undef X
    STATUS_COUNT
};

/* Filled by the call that fails; the first error wins, later ones are ignored. */
struct error {
    enum status status; /* STATUS_OK until a call fails */
    char field[128];    /* path of the field at fault ("inputs[0].shape"), "" if none */
    char detail[512];   /* one sentence: the value found, the value expected, the remedy */
};

#define ERROR_INIT                                     \
    {                                                  \
        .status = STATUS_OK, .field = "", .detail = "" \
    }

/* Record an error at `field` (a JSON path, a query parameter or a header; not NULL) and return
 * its status, so that a failing line reads `return error_set_field(...)`. */
enum status error_set_field(struct error *err, enum status status, const char *field,
                            const char *format, ...) PRINTF_LIKE(4, 5);

/* The function returns `status`. The macro repeats the status here, so that compilers and
 * analysers see that a failing path returns a failure. */
/* NOLINTNEXTLINE(readability-identifier-naming) */
#define error_set_field(err, status, field, ...) \
    ((void)error_set_field(err, status, field, __VA_ARGS__), (status))

/* error_set_field() for an error without a field. */
/* NOLINTNEXTLINE(readability-identifier-naming) */
#define error_set(err, status, ...) error_set_field(err, status, "", __VA_ARGS__)

/* Make a call that can fail, and return its status from this function if it does. Where a
 * resource must be released first, use a variable instead. */
#define TRY(call)                         \
    do {                                  \
        enum status call_status = (call); \
        if (call_status != STATUS_OK)     \
            return call_status;           \
    } while (0)

/* Put "context: " before the detail of an error that is set; no effect without an error. */
void error_prefix(struct error *err, const char *context);

const char *status_slug(enum status status);
int status_http(enum status status);

#endif
