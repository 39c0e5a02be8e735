/* libtally: cumulative sums computed by a Tally server, from C or C++.
 *
 *     struct tally *client = tally_open("http://127.0.0.1:8000", NULL, &err);
 *     tally_cumsum(client, &scan, input, output, &err);
 *     tally_close(client);
 *
 * Tensors travel as raw bytes straight between the caller's buffers and the socket. A call
 * either returns TALLY_OK and the output buffer holds the whole verified result, or says why
 * not: every answer is checked for status, type, shape and exact length, so a wrong or
 * truncated answer is never mistaken for a result.
 *
 * Thread: one `struct tally` may be used by any number of threads at once; a `struct
 * tally_error` belongs to one thread. tally_close() must be the last call on a client. After
 * fork() the child opens its own client. Manual: tally(3), docs/client.md. */
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
    TALLY_OUT_OF_MEMORY = 2,    /* in this process */
    TALLY_UNSUPPORTED = 3,      /* this libcurl lacks what was asked (TLS, Unix sockets) */
    TALLY_CONNECT = 4, /* no connection: name, refusal, TLS handshake, connect timeout */
    TALLY_CONNECTION_LOST = 5, /* the connection broke before the answer was whole */
    TALLY_TIMEOUT = 6,         /* timeout_ms passed */
    TALLY_REJECTED = 7,        /* the server refused the request (4xx): mend it */
    TALLY_BUSY = 8,            /* 429 or 503, also after the retries; or a queue is full */
    TALLY_DEADLINE = 9,        /* 504, or before it was sent: the deadline passed */
    TALLY_SERVER_ERROR = 10,   /* other 5xx, and 503 where that is for good */
    TALLY_BAD_ANSWER = 11,     /* not the answer to this request; not used */
    TALLY_CANCELLED = 12,      /* by a progress or answer callback, or tally_close() */
    TALLY_LOCAL_IO = 13        /* a read or write callback of the caller failed */
};

/* What went wrong. Filled by every call that takes one, also on success (status TALLY_OK).
 * Texts that came from the server have their control characters replaced. */
struct tally_error {
    enum tally_status status;
    int http_status;    /* of the last answer, 0 if there was none */
    int attempts;       /* how often the request was sent */
    int output_touched; /* 1: the call failed after part of the output buffer was written */
    int32_t reserved[4];
    char code[64];        /* the server's error code ("invalid_axis"), else "" */
    char field[160];      /* the field to blame, else "" */
    char request_id[160]; /* of the answer: quote it to whoever runs the server */
    char message[768];    /* one sentence */
};

/* How to connect. Start from TALLY_OPTIONS_INIT; 0 and NULL mean the default. */
struct tally_options {
    size_t struct_size;
    int64_t connect_timeout_ms; /* 10 000; per attempt */
    int64_t timeout_ms;         /* 600 000; a whole call, its retries included. -1: none */
    int32_t retries;            /* 4 further attempts after the first; -1: none. All calls
                                   share a budget of them (docs/client.md) */
    int32_t retry_connect;      /* 1: a refused connection is worth a retry, too */
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
    TALLY_BOOL = 12 /* of elements alone: a byte that is 0 or 1, summed as the number */
};

/* What becomes of elements that are NaN. Integers have none, and ignore it. */
enum tally_nan {
    TALLY_NAN_PROPAGATE = 0, /* every sum of the line is NaN from there on */
    TALLY_NAN_ZERO = 1,      /* a NaN counts as 0 */
    TALLY_NAN_SKIP = 2       /* a NaN counts as 0, and the sum at its place is NaN */
};

enum {
    TALLY_MAX_RANK = 64
};

/* Bytes moved so far; totals are -1 while unknown. Return non-zero to cancel the call. */
typedef int (*tally_progress_fn)(void *user, int64_t sent, int64_t send_total, int64_t received,
                                 int64_t receive_total);

/* A cumulative sum. Zero what you do not use:
 *     struct tally_scan scan = {.struct_size = sizeof scan}; */
struct tally_scan {
    size_t struct_size;
    enum tally_dtype dtype;
    int32_t rank;                  /* 1..TALLY_MAX_RANK */
    const int64_t *sizes;          /* [rank], outermost first; 0 makes the tensor empty */
    const int64_t *strides;        /* [rank] in elements, >= 0; NULL: packed, row-major */
    const int64_t *output_strides; /* likewise for the output; gaps are filled with zeros */
    int64_t axis;                  /* -rank..rank-1 */
    int32_t exclusive;             /* 1: output k leaves element k out */
    int32_t reverse;               /* 1: sum from the last element towards the first */
    uint64_t input_bytes;          /* room behind `input`, checked unless 0 */
    uint64_t output_bytes;         /* room behind `output`, checked unless 0 */
    int64_t deadline_ms;        /* of the call: the server drops it if still queued; 0: none */
    tally_progress_fn progress; /* NULL: none. Called from inside the call */
    void *progress_user;
    int32_t
        has_output_dtype; /* 1: the sums have the type output_dtype, which holds every element
                                 exactly; 0: that of the elements, TALLY_INT64 for TALLY_BOOL */
    enum tally_dtype output_dtype; /* read only if has_output_dtype is 1 */
    enum tally_nan nan;
    int32_t
        include_initial; /* 1: the output has one element more along the axis: the sum before
                                the first element of the line, which is *initial or 0. Not with
                                exclusive */
    const void *initial; /* one number of the type of the sums, counted before the first
                                element of every line; NULL: none */
    const int64_t
        *offsets; /* [offset_count]: segments of the axis, each a line of its own. Index
                                of the first element of each segment, then the size of the axis;
                                offsets[0] is 0, and no offset is less than the one before it.
                                With include_initial the output has one element more for each
                                segment, an empty one too. Not for totals and sums in parts. NULL:
                                the axis is one segment */
    uint64_t offset_count; /* number of segments + 1; 0 if offsets is NULL */
};

struct tally; /* a client: where the server is, and the open connections */

/* Version of this library, "0.1.0". Thread: any. */
TALLY_API const char *tally_library_version(void);

/* A client of the server at `url`; nothing is sent yet. NULL on failure.
 *   "http://host:8000", "https://host/prefix", "host:8000"       TCP
 *   "unix:/run/tally.sock", "http+unix://%2Frun%2Ftally.sock"    Unix socket
 * url NULL: the environment's TALLY_URL, else http://127.0.0.1:8000. options NULL: defaults. */
TALLY_API struct tally *tally_open(const char *url, const struct tally_options *options,
                                   struct tally_error *err);

/* Cancel what was submitted and is not done (its callbacks run), close the connections.
 * NULL is fine. */
TALLY_API void tally_close(struct tally *client);

/* Bytes that a scan's input and output buffers hold. Either pointer may be NULL. */
TALLY_API enum tally_status tally_scan_bytes(const struct tally_scan *scan,
                                             uint64_t *input_bytes, uint64_t *output_bytes,
                                             struct tally_error *err);

/* Sum `input` along scan->axis into `output`.
 * in    input   tally_scan_bytes() bytes, little-endian
 * out   output  the result; may be `input` itself (in place) if there is room for the larger of
 *               both, must not overlap it otherwise, nor scan->offsets
 * Retries 429, 503 (honouring Retry-After) and lost connections, with exponential back-off. A
 * lost connection is not retried once an in-place answer has begun to overwrite the input: then
 * err->output_touched is 1 and the buffer must be filled again. Thread: any. */
TALLY_API enum tally_status tally_cumsum(struct tally *client, const struct tally_scan *scan,
                                         const void *input, void *output,
                                         struct tally_error *err);

/* A tensor summed in parts along its axis: an axis without end, or a tensor larger than memory.
 * The exact sum of each line so far, the carry, travels with each request and stays in this
 * object; the server keeps nothing. However the tensor is cut, the outputs are those of one
 * tally_cumsum() with the whole of it, bit for bit.
 *
 * Each has its own carry and belongs to one thread at a time; any number of them may be under
 * way side by side on one client, which must stay open until they are closed. */
struct tally_parts;

/* Nothing is sent yet. `scan` and its lists are copied; the size of its axis says nothing here,
 * output_strides and offsets must be NULL: the parts of a segment are a sum of their own. The number that scan->initial points to is copied, too. NULL on
 * failure. */
TALLY_API struct tally_parts *
tally_parts_open(struct tally *client, const struct tally_scan *scan, struct tally_error *err);

/* Sum the next `count` elements (0 or more) of each line.
 * in    input   the part: a tensor whose axis has `count` elements, as in tally_cumsum()
 * out   output  likewise; may be `input` itself
 * The first part alone counts scan->initial, and has the one sum more of scan->include_initial:
 * its output has count + 1 elements of each line, that of the others `count`.
 * Parts come in the order in which the axis is summed: with scan->reverse the last part of the
 * tensor comes first. Retries are those of tally_cumsum(). A part that failed has changed nothing
 * but the output buffer: give it again. */
TALLY_API enum tally_status tally_parts_next(struct tally_parts *parts, int64_t count,
                                             const void *input, void *output,
                                             struct tally_error *err);

/* Elements of each line that were summed, without scan->initial; 0 of NULL. */
TALLY_API int64_t tally_parts_position(const struct tally_parts *parts);

/* The carry: *bytes bytes, borrowed until the next call on `parts`; NULL and 0 before the first
 * part, and of NULL. A copy of these bytes, or totals, can be given to tally_parts_restore() in
 * another process or on another day, with an equal scan: the next part then goes behind that carry.
 * The server refuses a carry of another scan. With scan->initial, the carry must have counted it:
 * of several totals to be added up, those of the first part alone. */
TALLY_API const void *tally_parts_carry(const struct tally_parts *parts, uint64_t *bytes);
TALLY_API enum tally_status tally_parts_restore(struct tally_parts *parts, const void *carry,
                                                uint64_t bytes, struct tally_error *err);

/* NULL is fine. */
TALLY_API void tally_parts_close(struct tally_parts *parts);

/* A carry: the exact sum of each line of a tensor, as bytes that the server reads (docs/carry.md).
 * Begin with {NULL, 0}, the carry of no tensor. Thread: one at a time for each. */
struct tally_carry {
    void *bytes;    /* owned; NULL: none */
    uint64_t count; /* of bytes */
};

/* The exact sum of each line of a tensor, as the carry behind the tensor: the same bytes that
 * tally_parts_carry() lends after the whole tensor was summed as one part. scan->initial counts;
 * scan->include_initial must be 0, and scan->offsets NULL.
 * in    input   as in tally_cumsum()
 * out   total   the carry, whose former bytes are freed. Untouched if the call fails
 * With totals the parts of a tensor can be summed at the same time: for each part, add up the totals
 * of the parts before it with tally_carry_add(), and give the sum to tally_parts_restore(). The
 * retries are those of tally_cumsum(). Thread: any. */
TALLY_API enum tally_status tally_totals(struct tally *client, const struct tally_scan *scan,
                                         const void *input, struct tally_carry *total,
                                         struct tally_error *err);

/* Add a carry to *sum, exactly; nothing is sent. The order of additions does not matter, and equal
 * sums have equal bytes. If sum->bytes is NULL, *sum becomes a copy of *more.
 * TALLY_INVALID_ARGUMENT: one is no carry, or they differ in type, exclusive, reverse, nan or
 * number of lines; *sum is then as before. Thread: any. */
TALLY_API enum tally_status tally_carry_add(struct tally_carry *sum,
                                            const struct tally_carry *more,
                                            struct tally_error *err);

/* Free the bytes; *carry is {NULL, 0} then. NULL is fine. */
TALLY_API void tally_carry_free(struct tally_carry *carry);

/* What runs once when a submitted call is done, on the client's own thread: return soon. It may
 * call tally_submit(), not tally_wait() or tally_close(). `result` is valid during
 * the call. */
struct tally_done {
    void (*call)(void *user, const struct tally_error *result); /* NULL: nothing runs */
    void *user;
};

/* tally_cumsum() without waiting: queued, sent over options.async_connections connections by a
 * thread that the client starts on first use. `scan` and what it points to are copied; the
 * buffers must stay until `done` runs. TALLY_BUSY: options.async_queue calls are not done yet,
 * `done` will not run. Thread: any. */
TALLY_API enum tally_status tally_submit(struct tally *client, const struct tally_scan *scan,
                                         const void *input, void *output,
                                         struct tally_done done, struct tally_error *err);

/* Wait until everything submitted is done and its callbacks have returned; TALLY_TIMEOUT after
 * timeout_ms (-1: no limit). Thread: any but the callbacks'. */
TALLY_API enum tally_status tally_wait(struct tally *client, int64_t timeout_ms);

enum {
    TALLY_ALIVE = 1,
    TALLY_READY = 2
};

/* *health: 0, TALLY_ALIVE, or TALLY_ALIVE | TALLY_READY. An error only if no answer came. */
TALLY_API enum tally_status tally_health(struct tally *client, int *health,
                                         struct tally_error *err);

/* The server's version, cut to `size` bytes with its terminator. */
TALLY_API enum tally_status tally_server_version(struct tally *client, char *version,
                                                 size_t size, struct tally_error *err);

/* One OpenCL device of the server; "" and -1 for what it did not say. */
struct tally_device {
    char name[128];
    char platform[128];
    char type[32];
    char state[32];
    int64_t running;  /* requests it is working on */
    int64_t requests; /* computed since the server's start */
    int64_t errors;
    int64_t busy_us;
    int64_t memory_bytes;
    int64_t reserved[3];
};

/* Fill devices[0..capacity); *count is how many there are, which may be more. */
TALLY_API enum tally_status tally_devices(struct tally *client, struct tally_device *devices,
                                          int capacity, int *count, struct tally_error *err);

/* Head of a successful answer, before its first byte; borrowed. */
struct tally_answer {
    size_t struct_size;
    const char *content_type; /* "" if there was none; likewise below */
    const char *dtype;        /* Tally-Dtype */
    const char *shape;        /* Tally-Shape */
    const char *request_id;
    int64_t content_length; /* -1: unknown */
    int64_t head_length;    /* Inference-Header-Content-Length, -1 if absent */
    int64_t carry_length;   /* Tally-Carry-Length, -1 if absent */
};

/* Any request of the service, for the parts of its API that have no call of their own. Body and
 * answer are streamed; the same retries, timeouts and errors as tally_cumsum(). */
struct tally_request {
    size_t struct_size;
    const char *method;       /* NULL: POST */
    const char *path;         /* "/v1/cumsum?axis=1", percent-encoded */
    const char *content_type; /* of the body; NULL: application/octet-stream */
    const char *accept;       /* NULL: not sent */
    const void *body;         /* body_bytes bytes, unless read_body is given */
    uint64_t body_bytes;
    /* Copy body bytes [offset, offset+count) to `to`; 0, or non-zero to fail the call. */
    int (*read_body)(void *user, uint64_t offset, void *to, size_t count);
    /* The head of a 200 answer; non-zero refuses it (TALLY_BAD_ANSWER). NULL: accept. */
    int (*check_answer)(void *user, const struct tally_answer *answer);
    /* Answer bytes from `offset` on; starts again at 0 on a retry. Non-zero fails the call.
     * A server can send any number of bytes: fail the call behind the most that there can be. */
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

/* Names: "float32", "bool"; NULL if out of range. Thread: any. */
TALLY_API const char *tally_dtype_name(enum tally_dtype dtype);
TALLY_API size_t tally_dtype_bytes(enum tally_dtype dtype);
/* 0 and *dtype set, or -1 if no type has this name. */
TALLY_API int tally_dtype_find(const char *name, enum tally_dtype *dtype);
TALLY_API const char *tally_status_name(enum tally_status status);

#ifdef __cplusplus
}
#endif
#endif
