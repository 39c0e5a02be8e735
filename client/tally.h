/* libtally: cumulative sums computed by a Tally server, from C or C++.
 *
 *     struct tally *client = tally_open("http://127.0.0.1:8000", NULL, &err);
 *     tally_cumsum(client, &scan, input, output, &err);
 *     tally_close(client);
 *
 * Tensors are sent as raw bytes directly between the caller's buffers and the socket. If a call
 * returns TALLY_OK, the output buffer holds the complete, verified result; otherwise the error
 * says why not. The status, type, shape and exact length of every answer are checked, so a
 * wrong or truncated answer is never mistaken for a result.
 *
 * Thread: any number of threads may use one `struct tally` at once; a `struct tally_error`
 * belongs to one thread. tally_close() must be the last call on a client. After fork() the
 * child opens a new client. Manual: tally(3), docs/client.md. */
#ifndef TALLY_H
#define TALLY_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) && !defined(TALLY_API)
#define TALLY_API __attribute__((visibility("default")))
#elif !defined(TALLY_API)
#define TALLY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum tally_status {
    TALLY_OK = 0,
    TALLY_INVALID_ARGUMENT = 1, /* the caller's mistake, found before anything was sent */
    TALLY_OUT_OF_MEMORY = 2,    /* not enough memory in this process */
    TALLY_UNSUPPORTED = 3,      /* this libcurl lacks a feature (TLS, Unix sockets) */
    TALLY_CONNECT = 4,          /* no connection: unknown name, refused, TLS failed, timeout */
    TALLY_CONNECTION_LOST = 5,  /* the connection broke before the answer was complete */
    TALLY_TIMEOUT = 6,          /* timeout_ms passed */
    TALLY_REJECTED = 7,         /* the server refused the request (4xx): correct it */
    TALLY_BUSY = 8,             /* 429 or 503, also after the retries; or a queue is full */
    TALLY_DEADLINE = 9,         /* deadline_ms passed, here or at the server (504) */
    TALLY_SERVER_ERROR = 10,    /* other 5xx, and a 503 that is permanent */
    TALLY_BAD_ANSWER = 11,      /* the answer does not fit the request; not used */
    TALLY_CANCELLED = 12,       /* a callback of the caller or tally_close() ended the call */
    TALLY_LOCAL_IO = 13         /* a read or write callback of the caller failed */
};

/* The outcome of a call, which the call fills also on success (status TALLY_OK). Control
 * characters in texts of the server are replaced. */
struct tally_error {
    enum tally_status status;
    int http_status;    /* HTTP status of the last answer; 0: no answer */
    int attempts;       /* how often the request was sent */
    int output_touched; /* 1: the call failed after part of the output buffer was written */
    int32_t reserved[4];
    char code[64];        /* the server's error code ("invalid_axis"), else "" */
    char field[160];      /* the field to blame, else "" */
    char request_id[160]; /* id of the last answer, which is also in the server's log */
    char message[768];    /* one sentence */
};

/* Options of a client. Start from TALLY_OPTIONS_INIT; 0 and NULL mean the default. */
struct tally_options {
    size_t struct_size;
    int64_t connect_timeout_ms; /* 10 000; per attempt */
    int64_t timeout_ms;         /* 600 000; a whole call, its retries included. -1: none */
    int32_t retries;            /* 4 further attempts after the first; -1: none. All calls
                                   share a budget of them (docs/client.md) */
    int32_t retry_connect;      /* 1: refused connections are retried, too */
    int64_t backoff_base_ms;    /* 50; full jitter: random(0, min(max, base * 2^n)) */
    int64_t backoff_max_ms;     /* 5 000 */
    int64_t retry_after_max_ms; /* 30 000; give up at once if the server asks for longer */
    int32_t async_connections;  /* 4; connections of tally_submit() */
    int32_t async_queue;        /* 1024; calls submitted and not done, then TALLY_BUSY */
    int32_t idle_connections;   /* 16; kept open between calls of tally_cumsum() */
    int32_t insecure;           /* 1: do not verify the server's certificate */
    const char *token;          /* bearer token, sent with every request */
    const char *ca_file;        /* PEM bundle instead of the system's */
    const char *client_cert;    /* PEM, with client_key: mutual TLS */
    const char *client_key;
    const char *user_agent;
};
#define TALLY_OPTIONS_INIT                                                           \
    {                                                                                \
        sizeof(struct tally_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

enum tally_dtype {
    TALLY_FLOAT16 = 0,
    TALLY_BFLOAT16 = 1,
    TALLY_FLOAT32 = 2,
    TALLY_FLOAT64 = 3,
    TALLY_INT8 = 4,
    TALLY_INT16 = 5,
    TALLY_INT32 = 6,
    TALLY_INT64 = 7,
    TALLY_UINT8 = 8,
    TALLY_UINT16 = 9,
    TALLY_UINT32 = 10,
    TALLY_UINT64 = 11,
    TALLY_BOOL = 12 /* type of elements, not of sums: a byte that is 0 or 1 */
};

/* The treatment of NaN elements; ignored for integers. */
enum tally_nan {
    TALLY_NAN_PROPAGATE = 0, /* each sum of the line is NaN from the first NaN on */
    TALLY_NAN_ZERO = 1,      /* a NaN counts as 0 */
    TALLY_NAN_SKIP = 2       /* a NaN counts as 0, and the sum at the NaN is NaN */
};

enum {
    TALLY_MAX_RANK = 64
};

/* Report the bytes moved so far; totals are -1 while unknown. Non-zero cancels the call. */
typedef int (*tally_progress_fn)(void *user, int64_t sent, int64_t send_total, int64_t received,
                                 int64_t receive_total);

/* A cumulative sum. Unused fields must be zero:
 *     struct tally_scan scan = {.struct_size = sizeof scan}; */
struct tally_scan {
    size_t struct_size;
    enum tally_dtype dtype;
    int32_t rank;                  /* 1..TALLY_MAX_RANK */
    const int64_t *sizes;          /* [rank], outermost first; 0 makes the tensor empty */
    const int64_t *strides;        /* [rank] in elements, >= 0; NULL: contiguous, row-major */
    const int64_t *output_strides; /* strides of the output; gaps are filled with zeros */
    int64_t axis;                  /* -rank..rank-1 */
    int32_t exclusive;             /* 1: output k does not include element k */
    int32_t reverse;               /* 1: sum from the last element towards the first */
    uint64_t input_bytes;          /* size of the input buffer; 0: not checked */
    uint64_t output_bytes;         /* size of the output buffer; 0: not checked */
    int64_t deadline_ms; /* the server drops the request if it is queued for longer; 0: none */
    tally_progress_fn progress; /* NULL: none. Called from inside the call */
    void *progress_user;
    /* 1: the sums have the type output_dtype, which must represent every element exactly. 0:
     * the sums have the type of the elements; TALLY_INT64 for TALLY_BOOL. */
    int32_t has_output_dtype;
    enum tally_dtype output_dtype; /* read only if has_output_dtype is 1 */
    enum tally_nan nan;
    /* 1: the output has one element more along the axis: the sum before the first element of
     * the line, which is *initial or 0. Not with exclusive. */
    int32_t include_initial;
    const void *initial; /* one number of the type of the sums, counted before the first
                                element of every line; NULL: none */
    /* [offset_count]: segments of the axis; each segment is summed as a separate line. Index of
     * the first element of each segment, then the size of the axis. offsets[0] is 0, and the
     * offsets do not decrease. With include_initial the output has one element more for each
     * segment, also for an empty one. Not for totals and sums in parts. NULL: one segment. */
    const int64_t *offsets;
    uint64_t offset_count; /* number of segments + 1; 0 if offsets is NULL */
};

struct tally; /* a client: the address of the server, and open connections */

/* Return the version of this library, "0.1.0". Thread: any. */
TALLY_API const char *tally_library_version(void);

/* Create a client of the server at `url`; nothing is sent. Returns NULL on failure.
 *   "http://host:8000", "https://host/prefix", "host:8000"       TCP
 *   "unix:/run/tally.sock", "http+unix://%2Frun%2Ftally.sock"    Unix socket
 * url NULL: the environment's TALLY_URL, else http://127.0.0.1:8000. options NULL: defaults. */
TALLY_API struct tally *tally_open(const char *url, const struct tally_options *options,
                                   struct tally_error *err);

/* Cancel submitted calls that are not done (their callbacks run), and close the connections.
 * NULL is fine. */
TALLY_API void tally_close(struct tally *client);

/* Store the bytes of a scan's input and output buffers. Either pointer may be NULL. */
TALLY_API enum tally_status tally_scan_bytes(const struct tally_scan *scan,
                                             uint64_t *input_bytes, uint64_t *output_bytes,
                                             struct tally_error *err);

/* Sum `input` along scan->axis into `output`.
 * in    input   tally_scan_bytes() bytes, little-endian
 * out   output  the result: `input` itself (in place), with room for the larger of the two
 *               tensors, or a buffer that does not overlap `input`. Must not overlap
 *               scan->offsets
 * The call retries 429, 503 (respecting Retry-After) and lost connections, with exponential
 * back-off. After an in-place answer has begun to overwrite the input, a lost connection is not
 * retried: err->output_touched is 1, and the caller must fill the buffer again. Thread: any. */
TALLY_API enum tally_status tally_cumsum(struct tally *client, const struct tally_scan *scan,
                                         const void *input, void *output,
                                         struct tally_error *err);

/* A tensor summed in parts along its axis: an axis without end, or a tensor larger than memory.
 * The exact sum of each line so far, the carry, is stored in this object and sent with each
 * request; the server keeps no state. The outputs do not depend on the cuts: they are those of
 * one tally_cumsum() with the whole tensor, bit for bit.
 *
 * Each object has a carry and belongs to one thread at a time. Any number of objects may use
 * one client, which must stay open until all of them are closed. */
struct tally_parts;

/* Create a sum in parts; nothing is sent. `scan`, its lists and *scan->initial are copied. The
 * size of the axis is ignored; output_strides and offsets must be NULL. Returns NULL on
 * failure. */
TALLY_API struct tally_parts *
tally_parts_open(struct tally *client, const struct tally_scan *scan, struct tally_error *err);

/* Sum the next `count` elements (0 or more) of each line.
 * in    input   the part: a tensor whose axis has `count` elements, as in tally_cumsum()
 * out   output  the sums of the part; may be `input` itself
 * scan->initial and scan->include_initial apply to the first part only: with include_initial
 * the output of the first part has count + 1 elements of each line, that of a later part
 * `count`. Parts are given in the order of summing: with scan->reverse the last part of the
 * tensor is the first. Retries are those of tally_cumsum(). A failed part has changed only the
 * output buffer, and can be given again. */
TALLY_API enum tally_status tally_parts_next(struct tally_parts *parts, int64_t count,
                                             const void *input, void *output,
                                             struct tally_error *err);

/* Return the elements of each line summed so far, without scan->initial; 0 for NULL. */
TALLY_API int64_t tally_parts_position(const struct tally_parts *parts);

/* Return the carry: *bytes bytes, borrowed until the next call on `parts`; NULL and 0 before
 * the first part, and for NULL. tally_parts_restore() continues from a copy of these bytes, or
 * from totals, in any process, with an equal scan. The server refuses a carry of another scan.
 * With scan->initial, the carry must include the initial value once: if totals are added, only
 * those of the first part are computed with scan->initial. */
TALLY_API const void *tally_parts_carry(const struct tally_parts *parts, uint64_t *bytes);
TALLY_API enum tally_status tally_parts_restore(struct tally_parts *parts, const void *carry,
                                                uint64_t bytes, struct tally_error *err);

/* Free a sum in parts. NULL is fine. */
TALLY_API void tally_parts_close(struct tally_parts *parts);

/* A carry: the exact sum of each line of a tensor, in the form of docs/carry.md. The initial
 * state is {NULL, 0}: no carry. Thread: one at a time for each carry. */
struct tally_carry {
    void *bytes;    /* owned; NULL: none */
    uint64_t count; /* number of bytes */
};

/* Compute the exact sum of each line of a tensor. The result is a carry with the same bytes
 * that tally_parts_carry() returns after the whole tensor was summed as one part. The totals
 * include scan->initial; scan->include_initial must be 0.
 * in    input   as in tally_cumsum()
 * out   total   the carry; its former bytes are freed. Unchanged if the call fails
 * With totals the parts of a tensor can be summed at the same time: for each part, add the
 * totals of the preceding parts with tally_carry_add(), and give the sum to
 * tally_parts_restore(). Retries are those of tally_cumsum(). Thread: any. */
TALLY_API enum tally_status tally_totals(struct tally *client, const struct tally_scan *scan,
                                         const void *input, struct tally_carry *total,
                                         struct tally_error *err);

/* Add a carry to *sum, exactly; nothing is sent. The order of additions does not matter, and
 * equal sums have equal bytes. If sum->bytes is NULL, *sum becomes a copy of *more.
 * TALLY_INVALID_ARGUMENT: one is not a carry, or the carries differ in type, exclusive,
 * reverse, nan or number of lines; *sum is then unchanged. Thread: any. */
TALLY_API enum tally_status tally_carry_add(struct tally_carry *sum,
                                            const struct tally_carry *more,
                                            struct tally_error *err);

/* Free the bytes, and set *carry to {NULL, 0}. NULL is fine. */
TALLY_API void tally_carry_free(struct tally_carry *carry);

/* The callback of a submitted call, which runs once, on the client's thread, and should return
 * soon. The callback may call tally_submit(), but not tally_wait() or tally_close(). `result`
 * is valid during the callback. */
struct tally_done {
    void (*call)(void *user, const struct tally_error *result); /* NULL: nothing runs */
    void *user;
};

/* Submit a tally_cumsum() without waiting. A thread that the client starts on first use sends
 * the queued calls over options.async_connections connections. `scan`, its lists and its
 * initial value are copied; the buffers must live until `done` runs. TALLY_BUSY:
 * options.async_queue calls are not done, and `done` will not run. Thread: any. */
TALLY_API enum tally_status tally_submit(struct tally *client, const struct tally_scan *scan,
                                         const void *input, void *output,
                                         struct tally_done done, struct tally_error *err);

/* Wait until all submitted calls are done and their callbacks have returned; TALLY_TIMEOUT
 * after timeout_ms (-1: no limit). Thread: any but that of the callbacks. */
TALLY_API enum tally_status tally_wait(struct tally *client, int64_t timeout_ms);

enum {
    TALLY_ALIVE = 1,
    TALLY_READY = 2
};

/* Set *health to 0, TALLY_ALIVE, or TALLY_ALIVE | TALLY_READY. Fails only without an answer. */
TALLY_API enum tally_status tally_health(struct tally *client, int *health,
                                         struct tally_error *err);

/* Store the server's version, cut to `size` bytes including the terminating NUL. */
TALLY_API enum tally_status tally_server_version(struct tally *client, char *version,
                                                 size_t size, struct tally_error *err);

/* One OpenCL device of the server; "" and -1 if the server did not send a member. */
struct tally_device {
    char name[128];
    char platform[128];
    char type[32];
    char state[32];
    int64_t running;  /* requests in progress */
    int64_t requests; /* computed since the server's start */
    int64_t errors;
    int64_t busy_us;
    int64_t memory_bytes;
    int64_t reserved[3];
};

/* Fill devices[0..capacity). *count is the number of devices, which may be larger. */
TALLY_API enum tally_status tally_devices(struct tally *client, struct tally_device *devices,
                                          int capacity, int *count, struct tally_error *err);

/* The headers of a 200 answer. The texts are valid until check_answer() returns. */
struct tally_answer {
    size_t struct_size;
    const char *content_type; /* "" if absent, like the texts below */
    const char *dtype;        /* Tally-Dtype */
    const char *shape;        /* Tally-Shape */
    const char *request_id;
    int64_t content_length; /* -1: unknown */
    int64_t head_length;    /* Inference-Header-Content-Length, -1 if absent */
    int64_t carry_length;   /* Tally-Carry-Length, -1 if absent */
};

/* Any request of the service, for routes without a function in this header. Body and answer are
 * streamed; retries, timeouts and errors are those of tally_cumsum(). */
struct tally_request {
    size_t struct_size;
    const char *method;       /* NULL: POST */
    const char *path;         /* "/v1/cumsum?axis=1", percent-encoded */
    const char *content_type; /* type of the body; NULL: application/octet-stream */
    const char *accept;       /* NULL: not sent */
    const void *body;         /* body_bytes bytes, unless read_body is given */
    uint64_t body_bytes;
    /* Copy body bytes [offset, offset+count) to `to`. Non-zero fails the call. */
    int (*read_body)(void *user, uint64_t offset, void *to, size_t count);
    /* Check the head of a 200 answer. Non-zero refuses the answer (TALLY_BAD_ANSWER). NULL:
     * accept. */
    int (*check_answer)(void *user, const struct tally_answer *answer);
    /* Receive answer bytes from `offset` on; a retry begins at 0 again. Non-zero fails the
     * call. A server can send any number of bytes, so the callback should fail beyond the
     * largest answer. */
    int (*write_answer)(void *user, uint64_t offset, const void *bytes, size_t count);
    tally_progress_fn progress;
    void *user;
    int32_t answer_once; /* 1: no retry once write_answer was called (a pipe) */
    int32_t reserved;
    int64_t deadline_ms; /* as in struct tally_scan */
};

TALLY_API enum tally_status tally_exchange(struct tally *client,
                                           const struct tally_request *request,
                                           struct tally_error *err);

/* Return the name of a type ("float32", "bool"); NULL if out of range. Thread: any. */
TALLY_API const char *tally_dtype_name(enum tally_dtype dtype);
TALLY_API size_t tally_dtype_bytes(enum tally_dtype dtype);
/* Set *dtype and return 0; return -1 if no type has this name. */
TALLY_API int tally_dtype_find(const char *name, enum tally_dtype *dtype);
TALLY_API const char *tally_status_name(enum tally_status status);

#ifdef __cplusplus
}
#endif
#endif
