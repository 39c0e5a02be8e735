/* The record of one request after HTTP has read its header, with its state and its owner.
 * server/http/exchange.h has the other half: the connection, the header, the answer.
 *
 * | state     | what happens                                  | next                               |
 * |-----------|-----------------------------------------------|------------------------------------|
 * | HEADER    | the header arrives                            | BODY, REFUSED or READY             |
 * | BODY      | the body is received (body.h)                 | PARSE; READY for a page; REFUSED   |
 * | REFUSED   | the rest of the body is discarded             | READY; LINGERING if the rest       |
 * |           |                                               | is long or slow                    |
 * | LINGERING | the refusal is sent, the rest is discarded    | the connection is closed           |
 * | PARSE     | a step of server/job/job.c                    | PREPARE                            |
 * | PREPARE   | a step of server/job/job.c                    | SCAN                               |
 * | SCAN      | a step of server/job/job.c                    | PRINT                              |
 * | PRINT     | a step of server/job/job.c                    | READY                              |
 * | READY     | the answer is made, or the error is set       | ANSWERING; LINGERING if there is   |
 * |           |                                               | no memory for the answer           |
 * | ANSWERING | MHD sends the answer                          | the request ends                   |
 *
 * | owner     | the thread that processes the request, or the resource that the request waits for   |
 * |-----------|-------------------------------------------------------------------------------------|
 * | LOOP      | the HTTP thread of the connection                                                   |
 * | ADMISSION | a place among the large requests, or memory                                         |
 * | WORK      | a thread of the work pool, or pages of memory for the body (body.h)                 |
 * | QUEUE     | a device                                                                            |
 * | DEVICE    | a device worker                                                                     |
 * | CURSOR    | the slices of its tensor (cursor.h)                                                 |
 *
 * The function that hands a request over sets the owner: admission_enter(), work_submit(),
 * queue_push(), cursor_scan(). After that only the new owner accesses the request, except that any
 * thread may set `cancelled` and read state and owner. The request returns to its loop by its
 * completion list. In the next turn of its connection the loop becomes its owner again and
 * continues it (http_daemon_returned()). If the connection closes before that, the exchange is an
 * orphan: the loop frees it when the request returns.
 *
 * The cursor of a large scan is an entry of the queue; therefore it has the form of a request
 * (`slice.advance`). The queue and workers own the entry while the request of the tensor is in any
 * state from BODY to SCAN. The slice that the entry describes owns its bytes of the block: the loop
 * writes behind them only. The entry never returns to a loop. */
#ifndef TALLY_SERVER_REQUEST_H
#define TALLY_SERVER_REQUEST_H

#include "kernels/device.h"
#include "kernels/plan.h"
#include "proto/codec.h"
#include "server/base/clock.h"
#include "server/base/metrics.h"
#include "server/memory/memory.h"
#include "server/memory/shm.h"
#include "server/memory/text.h"
#include "server/sched/admission.h"
#include "server/sched/line.h"
#include "server/sched/work.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

struct client;
struct completion;
struct cursor;
struct inflate;
struct part;
struct queue_batching;
struct segments;
struct server;

enum request_state {
    REQUEST_HEADER,
    REQUEST_BODY,
    REQUEST_REFUSED,
    REQUEST_LINGERING,
    REQUEST_PARSE,
    REQUEST_PREPARE,
    REQUEST_SCAN,
    REQUEST_PRINT,
    REQUEST_READY,
    REQUEST_ANSWERING
};

enum request_owner {
    OWNER_LOOP,
    OWNER_ADMISSION,
    OWNER_WORK,
    OWNER_QUEUE,
    OWNER_DEVICE,
    OWNER_CURSOR
};

/* The slice that a cursor describes (server/job/cursor.h). All fields except `overdue` are
 * constant while the entry is in the queue or on a device. */
struct request_slice {
    /* NULL: the record is a request of a client, not a slice. Otherwise this function is
     * called, instead of a post to the loop, when the slice is computed or request.error is
     * set. `batching`: options of the worker that computed the slice, or NULL. Returns true if
     * that worker now owns the next slice (queue_keep()). */
    bool (*advance)(struct request *slice, const struct queue_batching *batching);
    struct scan_job job;         /* carry and holes of the slice */
    const struct scan_job *jobs; /* borrowed: the scans of a slice of segments; NULL: `job` */
    size_t job_count;            /* number of scans in `jobs` */
    bool last;           /* last slice of the scan; the statistics count the request with it */
    atomic_bool overdue; /* the device has exceeded its deadline; set by any thread */
};

/* The assumed speed of one thread, for estimates of time. */
enum {
    SCAN_BYTES_PER_NS = 4,  /* scanning a contiguous tensor */
    MOVED_BYTES_PER_NS = 8, /* copying, swapping or zeroing bytes */
    NS_PER_TEXT_BYTE = 2,   /* parsing or printing text */
    NS_PER_PACKED_BYTE = 8  /* compressing an answer */
};

/* Content-Encoding. */
enum coding {
    CODING_IDENTITY,
    CODING_GZIP,
    CODING_DEFLATE
};

/* The body (server/job/body.h) and the memory that is reserved as it arrives
 * (server/job/infer_memory.h). Written by body_begin() and body_feed(), valid from BODY on. */
struct request_body {
    size_t head_bytes;         /* bytes in `head` without its NUL */
    uint64_t payload_received; /* bytes after the head, discarded ones included */

    int64_t declared; /* Content-Length, -1: none given */
    bool chunked;
    bool unwanted; /* the bytes are counted and discarded */
    enum coding coding;
    uint64_t limit;    /* maximum number of bytes, before and after decompression */
    uint64_t received; /* bytes received so far */
    uint64_t unpacked; /* bytes after decompression */

    uint64_t head_need; /* bytes that the codec needs in the head; UINT64_MAX: all */
    /* payload bytes are stored behind the head, because a work thread will decode the head */
    bool spill;
    size_t spilled; /* bytes of payload buffered behind the head and its NUL */

    /* part of reserved_bytes that belongs to the block; grows as the block fills */
    uint64_t block_reserved;
    bool rest_reserved;  /* the whole block and the answer's text are reserved */
    size_t payload_room; /* bytes of payload that fit the reserved part of the block */
    size_t block_bytes;  /* final size of the block */
    size_t output_at;    /* offset of the output buffer in the block */
    size_t marks_at;     /* offset of the NaN marks in the block */
    size_t gathered_at;  /* offset of the gathered segments in the block */

    struct inflate *inflate; /* owned; NULL: not compressed, or already decompressed */
    struct packed_body {
        struct text text; /* owned: the compressed body */
        size_t count;     /* bytes of `text` */
        size_t at;        /* bytes of `text` that are decompressed */
    } packed;
    /* Not cleared by request_clear(): */
    struct text head; /* owned: bytes of the body before the payload, and a NUL */
};

/* The client and its parameters. server/http writes the record while it checks the header; the
 * record is valid from BODY on. infer_decode() applies parameters of the body: an earlier
 * deadline, another priority. */
struct request_arrival {
    struct client *client;              /* borrowed from the connection */
    char id[LIMIT_REQUEST_ID + 1];      /* X-Request-Id of the client, or a generated one */
    bool local;                         /* the client is on this machine */
    bool limited;                       /* the limits for a single client apply */
    bool high;                          /* high priority (line.h); constant in a line */
    enum coding accept_coding;          /* coding that the answer may be compressed with */
    uint64_t deadline_ns;               /* absolute time, 0: none */
    int model;                          /* row of the table of v2 models, -1 outside v2 */
    const struct codec *codec;          /* static; NULL: a request without a tensor */
    struct codec_request codec_request; /* input of the codec */
    struct carry_crc carry_crc;         /* referenced by codec_request */
};

/* The position in a line. The module that owns the waiting request writes the fields; `ticket`
 * is written on arrival. */
struct request_in_line {
    uint64_t ticket;  /* arrival time: the order among requests of its client (line.h) */
    uint64_t cost_ns; /* estimated time of the work that the request waits for (line.h) */
    void (*job)(struct request *); /* the work itself, in the line of the work pool (work.c) */
    struct request *next;          /* link of the list that owns the request */
};

/* The memory of the tensors, written by server/job/infer_memory.c. The sizes are written when
 * the head is decoded; the block and its offsets, when the first byte of the block is
 * reserved. */
struct request_memory {
    struct memory_block block;       /* input and output, except tensors in shm[].in_use */
    struct shm_tensor shm[SHM_USES]; /* tensors in shared memory */
    /* memory outside the block: sums and carry of a part (part.h), or scans of segments */
    uint64_t part_bytes;
    uint64_t gathered_bytes; /* bytes of the block for gathered segments */
    uint64_t shm_bytes;     /* bytes of shared memory in use; charged like bytes of the block */
    size_t in_offset;       /* offset of the input buffer in block.slab */
    size_t out_offset;      /* offset of the output buffer in block.slab */
    size_t out_first;       /* bytes of the output before the first sum that a device writes */
    size_t marks_offset;    /* offset in block.slab of the bits that mark NaN elements */
    size_t gathered_offset; /* offset in block.slab of gathered segments */
    uint64_t out_bytes;     /* bytes of the output buffer */
    uint64_t reserved_bytes; /* bytes of the memory budget, released with the request */
    uint64_t client_bytes;   /* bytes counted for --per-client-memory */
};

/* The scan. `call` and `plan` are written when the head is decoded; parts, segments and the
 * cursor are written in PREPARE and SCAN. A device worker writes the figures of the launch. */
struct request_scan {
    bool decoded; /* `call` is valid */
    bool planned; /* `plan` is valid */
    bool marked;  /* some elements were NaN */
    bool alone;   /* needs a separate launch: a slice, or a request whose batch was too large */
    int retries;  /* number of times that the request was moved to another device */
    struct cursor *cursor;        /* owned; NULL: not scanned in slices */
    struct part *part;            /* owned; NULL: not prepared, or a whole tensor */
    struct segments *segments;    /* owned; NULL: not prepared, or without offsets */
    int device;                   /* number of the device that computed the scan, -1: none */
    uint32_t batch;               /* number of requests in the launch, 0: no launch ran */
    struct metrics_launch launch; /* figures of that launch */
    /* Not cleared by request_clear(): */
    struct scan_call call; /* call.dialect is released with the request */
    struct scan_plan plan;
};

/* The answer, written by PRINT (server/job/encode.c), and the fields of a refusal, written by
 * the module that refuses the request. Valid from READY on. */
struct request_reply {
    struct text answer_text;         /* owned: answer.head, if that is long */
    enum coding answer_coding;       /* coding of answer.head */
    unsigned retry_after_s;          /* seconds of a refusal's Retry-After */
    enum metrics_client_limit limit; /* limit that the client exceeded, if THROTTLED */
    /* Not cleared by request_clear(): */
    struct answer answer; /* valid if error.status is OK */
};

/* The fields before `arrival` are valid in every state. The comment of each later group says
 * when the group becomes valid. */
struct request {
    _Atomic enum request_state state; /* written by the owner */
    _Atomic enum request_owner owner; /* written by the owner as it hands the request over */
    atomic_bool cancelled; /* the connection is closed: do no more work; set by any thread */
    struct completion *completion; /* borrowed: completion list of the loop */
    struct server *server;         /* borrowed */
    struct metrics_times times;    /* each time is written by the thread that ends the stage */
    struct work_parallel work;     /* storage of `parallel` for tensors */
    const struct parallel *parallel; /* &work.parallel; NULL: no tensor */
    struct admission_hold admission;
    struct request_slice slice;
    struct error error; /* first error of the request, which becomes its result */

    struct request_arrival arrival;
    struct request_in_line line;
    struct request_body body;
    struct request_memory memory;
    struct request_scan scan;
    struct request_reply reply;
};

/* Reset a record for another request. The record keeps the buffer of body.head. No other thread
 * may have a pointer to the record. */
static inline void request_clear(struct request *request)
{
    memset(request, 0, offsetof(struct request, body));
    memset(&request->body, 0, offsetof(struct request_body, head));
    memset(&request->memory, 0, sizeof request->memory);
    memset(&request->scan, 0, offsetof(struct request_scan, call));
    memset(&request->reply, 0, offsetof(struct request_reply, answer));
    request->body.declared = -1;
    request->reply.retry_after_s = 1;
    request->scan.device = -1;
    request->arrival.model = -1;
    request->arrival.codec_request.head_bytes = -1;
    request->arrival.codec_request.carry_crc = &request->arrival.carry_crc;
    request->arrival.codec_request.answer_format = CODEC_FORMAT_JSON;
    request->reply.answer.room = NULL;
    request->reply.answer.carry = NULL;
    request->reply.answer.head = NULL;
    request->reply.answer.head_bytes = 0;
    request->body.head.charged = 0; /* released with reserved_bytes */
}

static inline void request_append(struct request_list *list, struct request *request)
{
    request->line.next = NULL;
    *(list->first == NULL ? &list->first : &list->last->line.next) = request;
    list->last = request;
}

static inline enum request_state request_state(const struct request *request)
{
    return atomic_load_explicit(&request->state, memory_order_relaxed);
}

/* Thread: the owner. */
static inline void request_enter(struct request *request, enum request_state state)
{
    atomic_store_explicit(&request->state, state, memory_order_relaxed);
}

static inline enum request_owner request_owner(const struct request *request)
{
    return atomic_load_explicit(&request->owner, memory_order_relaxed);
}

/* Hand the request over. Thread: the owner, which must not access the request after this. */
static inline void request_set_owner(struct request *request, enum request_owner owner)
{
    atomic_store_explicit(&request->owner, owner, memory_order_relaxed);
}

/* True if the loop does not own the request. */
static inline bool request_is_away(const struct request *request)
{
    return request_owner(request) != OWNER_LOOP;
}

/* Returns the slab and the offset of the input or the output (SHM_INPUT, SHM_OUTPUT): in shared
 * memory in use, or in the block. */
static inline struct tensor_place request_place(const struct request *request,
                                                enum shm_use tensor)
{
    const struct tensor_place *shared = &request->memory.shm[tensor].in_use;
    const size_t offset =
        tensor == SHM_INPUT ? request->memory.in_offset : request->memory.out_offset;
    return shared->slab != NULL ? *shared
                                : (struct tensor_place){request->memory.block.slab, offset};
}

static inline char *request_output_bytes(const struct request *request)
{
    const struct tensor_place place = request_place(request, SHM_OUTPUT);
    return (char *)slab_data(place.slab) + place.offset;
}

/* Returns the address of an offset in the block's slab: in_offset, out_offset and the like. */
static inline char *request_block_at(const struct request *request, size_t offset)
{
    return (char *)slab_data(request->memory.block.slab) + offset;
}

/* Returns STATUS_OK, or the reason to do no more work: CLIENT_GONE, DEADLINE_PASSED. */
static inline enum status request_verdict(const struct request *request, uint64_t now_ns)
{
    if (atomic_load_explicit(&request->cancelled, memory_order_relaxed)) {
        return STATUS_CLIENT_GONE;
    }
    bool late = request->arrival.deadline_ns != 0 && now_ns >= request->arrival.deadline_ns;
    return late ? STATUS_DEADLINE_PASSED : STATUS_OK;
}

/* Returns the earlier of two deadlines; 0 means no deadline. */
static inline uint64_t deadline_earlier(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Set Retry-After of a refusal to the next whole number of seconds after wait_ns. */
static inline void request_retry_after(struct request *request, uint64_t wait_ns)
{
    request->reply.retry_after_s = 1 + (unsigned)(wait_ns / NS_PER_S);
}

/* End a chain of requests that expired (request_verdict()) while they waited for `waited_for`.
 * Thread: the owner of the requests, holding no lock. (completion.c) */
void request_end_expired(struct request *first, uint64_t now_ns, const char *waited_for);

/* Returns DEADLINE_PASSED if the deadline has passed, QUEUE_FULL if the deadline will pass
 * within wait_ns. Thread: the owner. (completion.c) */
MUST_CHECK enum status request_check_wait(const struct request *request, uint64_t wait_ns,
                                          struct error *err);

/* Returns the figures of a request that has ended, except its route and the bytes sent. */
static inline struct metrics_request request_figures(const struct request *request)
{
    return (struct metrics_request){.outcome = request->error.status,
                                    .limit = request->reply.limit,
                                    .received_bytes = request->body.received,
                                    .tensor = request->arrival.codec != NULL,
                                    .model = request->arrival.model,
                                    .elements =
                                        request->scan.planned ? request->scan.plan.elements : 0,
                                    .times = request->times,
                                    .launch = request->scan.launch};
}

/* Returns the bytes of tensor memory that the request occupies. */
static inline uint64_t request_bytes(const struct request *request)
{
    return request->memory.block.bytes + request->memory.shm_bytes;
}

/* Returns the estimated nanoseconds of the scan on one thread. An ordinary float32 element
 * takes 1 ns. */
static inline uint64_t request_scan_ns(const struct request *request)
{
    return larger_of(request_bytes(request), scan_plan_effort(&request->scan.plan)) /
           SCAN_BYTES_PER_NS;
}

#endif
