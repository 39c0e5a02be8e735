/* Status codes of every layer, and the error that a failing call fills for the client to read.
 *
 * A function that can fail returns `enum status` and takes `struct error *err` last; on failure
 * it leaves its outputs untouched. The status says what went wrong and becomes the "code" slug
 * of the JSON error; its category alone decides the HTTP status (server/http/respond.c).
 * Thread: any; an error object belongs to one thread at a time. */
#ifndef TALLY_PROTO_STATUS_H
#define TALLY_PROTO_STATUS_H

#include "proto/macros.h"

/* clang-format off */
/*        symbol               category     slug (the "code" of an error answer) */
#define STATUS_TABLE(X)                                                             \
        X(OK,                  OK,          "ok")                                   \
        X(INVALID_REQUEST,     INVALID,     "invalid_request")                      \
        X(INVALID_JSON,        INVALID,     "invalid_json")                         \
        X(INVALID_FIELD,       INVALID,     "invalid_field")                        \
        X(UNKNOWN_FIELD,       INVALID,     "unknown_field")                        \
        X(MISSING_FIELD,       INVALID,     "missing_field")                        \
        X(INVALID_DTYPE,       INVALID,     "invalid_dtype")                        \
        X(INVALID_SHAPE,       INVALID,     "invalid_shape")                        \
        X(INVALID_STRIDES,     INVALID,     "invalid_strides")                      \
        X(INVALID_AXIS,        INVALID,     "invalid_axis")                         \
        X(INVALID_DATA,        INVALID,     "invalid_data")                         \
        X(INVALID_NPY,         INVALID,     "invalid_npy")                          \
        X(INVALID_ENCODING,    INVALID,     "invalid_content_encoding")             \
        X(LENGTH_MISMATCH,     INVALID,     "length_mismatch")                      \
        X(SHM_ERROR,           INVALID,     "shared_memory_error")                  \
        X(UNAUTHORIZED,        UNAUTHORIZED, "unauthorized")                        \
        X(FORBIDDEN,           FORBIDDEN,   "forbidden")                            \
        X(NOT_FOUND,           NOT_FOUND,   "not_found")                            \
        X(METHOD_NOT_ALLOWED,  METHOD,      "method_not_allowed")                   \
        X(NOT_ACCEPTABLE,      ACCEPT,      "not_acceptable")                       \
        X(REQUEST_TIMEOUT,     TIMEOUT,     "request_timeout")                      \
        X(TOO_LARGE,           TOO_LARGE,   "too_large")                            \
        X(UNSUPPORTED_MEDIA,   MEDIA_TYPE,  "unsupported_media_type")               \
        X(HEADERS_TOO_LARGE,   HEADERS,     "headers_too_large")                    \
        X(HTTP_VERSION,        VERSION,     "http_version")                         \
        X(THROTTLED,           THROTTLED,   "too_many_requests")                    \
        X(INTERNAL,            INTERNAL,    "internal_error")                       \
        X(UNSUPPORTED,         UNSUPPORTED, "unsupported")                          \
        X(QUEUE_FULL,          BUSY,        "queue_full")                           \
        X(OUT_OF_MEMORY,       BUSY,        "out_of_memory")                        \
        X(DRAINING,            BUSY,        "draining")                             \
        X(NO_DEVICE,           BUSY,        "no_device")                            \
        X(DEVICE_ERROR,        BUSY,        "device_error")                         \
        X(DEADLINE_PASSED,     DEADLINE,    "deadline_passed")                      \
        X(CLIENT_GONE,         CLIENT_GONE, "client_gone")
/* clang-format on */

enum status {
#define X(symbol, category, slug) STATUS_##symbol,
    STATUS_TABLE(X)
#undef X
    STATUS_COUNT
};

/* What kind of trouble it is; one HTTP status each. */
enum status_category {
    CATEGORY_OK,
    CATEGORY_INVALID,
    CATEGORY_UNAUTHORIZED,
    CATEGORY_FORBIDDEN,
    CATEGORY_NOT_FOUND,
    CATEGORY_METHOD,
    CATEGORY_ACCEPT,
    CATEGORY_TIMEOUT,
    CATEGORY_TOO_LARGE,
    CATEGORY_MEDIA_TYPE,
    CATEGORY_HEADERS,
    CATEGORY_VERSION,
    CATEGORY_THROTTLED,
    CATEGORY_INTERNAL,
    CATEGORY_UNSUPPORTED,
    CATEGORY_BUSY,
    CATEGORY_DEADLINE,
    CATEGORY_CLIENT_GONE,
    CATEGORY_COUNT
};

/* Filled by the call that fails; the first error wins, later ones are ignored. */
struct error {
    enum status status; /* STATUS_OK until something failed */
    char field[128];    /* path of the field to blame ("inputs[0].shape"), "" if none */
    char detail[512];   /* one sentence: found what, expected what, how to mend it */
};

#define ERROR_INIT                                     \
    {                                                  \
        .status = STATUS_OK, .field = "", .detail = "" \
    }

/* Record an error that blames `field` (a JSON path, a query parameter or a header; not NULL), and
 * return its status: a failing line reads `return error_set_field(...)`. */
enum status error_set_field(struct error *err, enum status status, const char *field,
                            const char *format, ...) PRINTF_LIKE(4, 5);

/* The call returns the status it was given: said so here that compilers and analysers see that a
 * failing path does not go on as if nothing had failed. */
/* NOLINTNEXTLINE(readability-identifier-naming) */
#define error_set_field(err, status, field, ...) \
    ((void)error_set_field(err, status, field, __VA_ARGS__), (status))

/* The same where there is no field to blame. */
/* NOLINTNEXTLINE(readability-identifier-naming) */
#define error_set(err, status, ...) error_set_field(err, status, "", __VA_ARGS__)

/* Make a call that can fail; if it does, this function ends with its status. Where something must
 * be given back first, the status is kept in a variable instead. */
#define TRY(call)                         \
    do {                                  \
        enum status call_status = (call); \
        if (call_status != STATUS_OK)     \
            return call_status;           \
    } while (0)

/* Put "context: " before the detail of an error already set; no-op without one. */
void error_prefix(struct error *err, const char *context);

const char *status_slug(enum status status);
enum status_category status_category(enum status status);

#endif
