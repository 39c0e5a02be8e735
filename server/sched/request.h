/* The record of one request after HTTP has read its header, with its state and its owner.
 * server/http/exchange.h has the other half: the connection, the header, the answer.
 *
 * | state     | what happens                                  | next                               |
 * |-----------|-----------------------------------------------|------------------------------------|
 * | HEADER    | the header arrives                            | BODY, REFUSED or ANSWERING         |
 * | BODY      | the body lands (body.h)                       | PARSE; READY for a page; REFUSED   |
 * | REFUSED   | the rest of the body is dropped               | ANSWERING; LINGERING if the rest   |
 * |           |                                               | is long or slow                    |
 * | LINGERING | the refusal is sent, later bytes are dropped  | the connection is closed           |
 * | PARSE     | a step of server/job/job.c                  | PREPARE                            |
 * | PREPARE   | a step of server/job/job.c                  | SCAN                               |
 * | SCAN      | a step of server/job/job.c                  | PRINT                              |
 * | PRINT     | a step of server/job/job.c                  | READY                              |
 * | READY     | the answer or the error is there              | ANSWERING; LINGERING if there is   |
 * |           |                                               | no memory for the answer           |
 * | ANSWERING | MHD sends the answer                          | the request ends                   |
 *
 * | owner     | what the request waits for, or who works on it                                      |
 * |-----------|-------------------------------------------------------------------------------------|
 * | LOOP      | the HTTP thread of the connection                                                   |
 * | ADMISSION | a place among the large requests, or memory                                         |
 * | WORK      | a thread of the work pool, or pages of memory for the body (body.h)                 |
 * | QUEUE     | a device                                                                            |
 * | DEVICE    | a device worker                                                                     |
 * | CURSOR    | the slices of its tensor (cursor.h)                                                 |
 *
 * The function that hands a request over sets the owner: admission_enter(), work_submit(),
 * queue_push(), cursor_scan(). From then on nobody else touches the request, except that any thread
 * may set `cancelled` and read state and owner. The request returns to its loop by its completion
 * list. In the next turn of its connection the loop becomes its owner again and continues it
 * (http_daemon_returned()). If the connection ends meanwhile, the exchange is an orphan, which ends
 * when the request returns.
 *
 * The cursor of a large scan is an entry of the queue, too, and so has the form of a request
 * (`slice.advance`). The queue and workers own the entry while the request of the tensor is in any state
 * from BODY to SCAN. The slice that the entry describes owns its bytes of the block: the loop writes
 * behind them only. The entry never returns to a loop. */
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

/* The slice that a cursor describes (server/job/cursor.h); constant while the entry is in the queue
 * or on a device, except `overdue`. */
struct request_slice {
    /* NULL: no slice, but a request of a client. completion_post_home() calls this in place of a post
     * to the loop, when the slice is computed or request.error is set. */
    void (*advance)(struct request *slice);
    struct scan_job job;         /* carry and holes of the slice */
    const struct scan_job *jobs; /* borrowed: the scans of a slice of segments; NULL: `job` */
    size_t job_count;            /* in jobs */
    bool last;                   /* the slice ends the scan: it counts as the request */
    atomic_bool overdue;         /* set by any thread: the device gives no answer */
};

/* The speed of one thread, for estimates of time. */
enum {
    SCAN_BYTES_PER_NS = 4,  /* bytes of a contiguous tensor that are scanned */
    MOVED_BYTES_PER_NS = 8, /* bytes that are copied, swapped, or zeroed */
    NS_PER_TEXT_BYTE = 2,   /* parsed or printed */
    NS_PER_PACKED_BYTE = 8  /* compressed */
};

/* Content-Encoding. */
enum coding {
    CODING_IDENTITY,
    CODING_GZIP,
    CODING_DEFLATE
};

/* A body as it arrives (server/job/body.h), and what of the memory budget is taken for it
 * (server/job/infer_memory.h). */
struct request_body {
    int64_t declared; /* Content-Length, -1: none given */
    bool chunked;
    bool unwanted; /* nobody reads it: it is counted, and not kept */
    enum coding coding;
    uint64_t limit;    /* most bytes, as sent and unpacked */
    uint64_t received; /* bytes as sent */
    uint64_t unpacked; /* the same after Content-Encoding */

    uint64_t head_need; /* what the codec wants in the head; UINT64_MAX: everything */
    bool spill;     /* the head is too long to be decoded on the loop: payload is kept ... */
    size_t spilled; /* ... behind it (after its NUL) until the codec pool decodes */

    uint64_t block_reserved; /* of request.reserved_bytes, for the block: grows as it fills */
    bool rest_reserved;      /* all of the block, and the answer's text */
    size_t payload_room;     /* bytes for payload in what is reserved of the block */
    size_t block_bytes;      /* what the block must have in the end */
    size_t output_at;        /* of them, before the output buffer */
    size_t marks_at;         /* of them, before the marks */
    size_t gathered_at;      /* of them, before the gathered segments */

    struct inflate *inflate; /* owned; NULL: the body is not packed any more */
    struct packed_body {
        struct text text; /* owned: a packed body as it came */
        size_t count;     /* bytes in it */
        size_t at;        /* those before this are unpacked */
    } packed;
};

struct request {
    _Atomic enum request_state state; /* written by the owner */
    _Atomic enum request_owner owner; /* written by the owner, as it hands the request over */
    atomic_bool cancelled; /* any thread: the client is gone, do no more work for it */
    int retries;           /* times it was moved to another device */
    bool alone; /* in its launch: it is a slice, or was too much for a device with others */

    struct completion *completion; /* borrowed: the way back to the loop of the connection */
    struct server *server;         /* borrowed */
    struct client *client;         /* borrowed from the connection */
    char id[LIMIT_REQUEST_ID + 1]; /* X-Request-Id, the client's or our own */
    bool local;                    /* the client is on this machine */
    bool limited;                  /* the limits of one client hold for it */
    bool high;                     /* priority (line.h); constant while it waits in a line */
    enum coding accept_coding;     /* what its answer may be packed with */
    uint64_t deadline_ns;          /* absolute, 0 for none */
    struct metrics_times times;

    const struct codec *codec;       /* static; NULL for requests without a tensor */
    struct work_parallel work;       /* storage of `parallel` */
    const struct parallel *parallel; /* runs long work of a tensor; NULL: no tensor */
    bool decoded;                    /* call is valid */
    bool planned;                    /* plan is valid */

    size_t head_bytes; /* in `head`, its NUL not counted */
    struct request_body body;
    struct admission_hold admission;
    struct request_slice slice;
    struct cursor *cursor;     /* owned; NULL: the tensor is not scanned in slices */
    struct part *part;         /* owned; NULL: it is not prepared, or a whole tensor */
    struct segments *segments; /* owned; NULL: it is not prepared, or has no offsets */
    struct memory_block block; /* slab range with input and output buffer, if not shm.in_use */
    struct shm_tensor shm[SHM_USES];
    uint64_t part_bytes;       /* for sums and the carry of a part, or for offsets and scans of
                                * segments */
    uint64_t gathered_bytes;   /* in the block, for gathered segments */
    uint64_t shm_bytes;        /* of shared memory in use, which count like those of a block */
    size_t in_offset;          /* of the input buffer in block.slab, bytes */
    size_t out_offset;         /* of the output buffer in block.slab, bytes */
    size_t out_first;          /* bytes of it before the first sum that a device writes */
    size_t marks_offset;       /* in block.slab, of the bits of elements that were NaN */
    size_t gathered_offset;    /* in block.slab, of gathered segments */
    bool marked;               /* some were */
    uint64_t out_bytes;        /* of the output buffer */
    uint64_t payload_received; /* bytes after the head, dropped ones too */
    uint64_t reserved_bytes;   /* of the memory budget, given back with the request */
    uint64_t client_bytes;     /* of memory that it counts for with its client */

    struct text answer_text;         /* owned: answer.head, if that is long */
    enum coding answer_coding;       /* of answer.head */
    unsigned retry_after_s;          /* of a refusal that is worth another try */
    enum metrics_client_limit limit; /* that its client met, if THROTTLED */
    int device;                      /* number of the device that ran it, -1 */
    int model;                       /* row of the v2 model table, -1 outside v2 */
    uint32_t batch;                  /* requests that shared its launch, 0: none ran */
    struct metrics_launch launch;    /* the one that it was in */

    uint64_t ticket;  /* its place among those of its client (line.h): when it arrived */
    uint64_t cost_ns; /* estimated time of the work that it waits for (line.h) */
    void (*job)(struct request *); /* that work, in the line of the work pool (work.c) */
    struct request *next; /* link of whichever list owns it: queue, batch, completion */

    struct codec_request codec_request;
    struct carry_crc carry_crc; /* of codec_request */
    struct error error;         /* first error; the outcome of the request */

    /* All above is cleared for the next request that has this record (request_clear()). Below are
     * tables that are written before they are read, and a buffer that is kept. */
    struct scan_call call; /* call.dialect is released with the request */
    struct scan_plan plan;
    struct answer answer; /* valid in READY if error.status is OK */
    struct text head;     /* owned: body bytes before the payload, NUL after the last */
};

/* A record as new, but for the buffer that it keeps. Thread: the only one that knows it. */
static inline void request_clear(struct request *request)
{
    memset(request, 0, offsetof(struct request, call));
    request->body.declared = -1;
    request->retry_after_s = 1;
    request->device = -1;
    request->model = -1;
    request->codec_request.head_bytes = -1;
    request->codec_request.carry_crc = &request->carry_crc;
    request->codec_request.answer_format = CODEC_FORMAT_JSON;
    request->answer.room = NULL;
    request->answer.carry = NULL;
    request->answer.head = NULL;
    request->answer.head_bytes = 0;
    request->head.charged = 0; /* with what was reserved */
}

static inline void request_append(struct request_list *list, struct request *request)
{
    request->next = NULL;
    *(list->first == NULL ? &list->first : &list->last->next) = request;
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

/* Thread: the owner, for the last time. */
static inline void request_set_owner(struct request *request, enum request_owner owner)
{
    atomic_store_explicit(&request->owner, owner, memory_order_relaxed);
}

/* True if the loop does not own the request. */
static inline bool request_is_away(const struct request *request)
{
    return request_owner(request) != OWNER_LOOP;
}

/* Where the device finds the input, or leaves the output: SHM_INPUT, SHM_OUTPUT. */
static inline struct tensor_place request_place(const struct request *request,
                                                enum shm_use tensor)
{
    const struct tensor_place *shared = &request->shm[tensor].in_use;
    const size_t offset = tensor == SHM_INPUT ? request->in_offset : request->out_offset;
    return shared->slab != NULL ? *shared : (struct tensor_place){request->block.slab, offset};
}

static inline char *request_output_bytes(const struct request *request)
{
    const struct tensor_place place = request_place(request, SHM_OUTPUT);
    return (char *)slab_data(place.slab) + place.offset;
}

/* Where the block's slab has this offset: in_offset, out_offset. */
static inline char *request_block_at(const struct request *request, size_t offset)
{
    return (char *)slab_data(request->block.slab) + offset;
}

/* STATUS_OK, or why nothing more is to be done for it: CLIENT_GONE, DEADLINE_PASSED. */
static inline enum status request_verdict(const struct request *request, uint64_t now_ns)
{
    if (atomic_load_explicit(&request->cancelled, memory_order_relaxed)) {
        return STATUS_CLIENT_GONE;
    }
    bool late = request->deadline_ns != 0 && now_ns >= request->deadline_ns;
    return late ? STATUS_DEADLINE_PASSED : STATUS_OK;
}

/* The earlier of two deadlines, of which 0 is none. */
static inline uint64_t deadline_earlier(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Whoever is refused may try again after so long: whole seconds, which are the least there is. */
static inline void request_retry_after(struct request *request, uint64_t wait_ns)
{
    request->retry_after_s = 1 + (unsigned)(wait_ns / NS_PER_S);
}

/* End a chain of requests that request_verdict() expired while they waited for something.
 * Thread: their owner, holding no lock. (completion.c) */
void request_end_expired(struct request *first, uint64_t now_ns, const char *waited_for);

/* QUEUE_FULL if its deadline comes before it would have waited for so long. Thread: its owner.
 * (completion.c) */
MUST_CHECK enum status request_check_wait(const struct request *request, uint64_t wait_ns,
                                          struct error *err);

/* The figures of a request that has ended, but for its route and the bytes that were sent. */
static inline struct metrics_request request_figures(const struct request *request)
{
    return (struct metrics_request){.outcome = request->error.status,
                                    .limit = request->limit,
                                    .received_bytes = request->body.received,
                                    .tensor = request->codec != NULL,
                                    .model = request->model,
                                    .elements = request->planned ? request->plan.elements : 0,
                                    .times = request->times,
                                    .launch = request->launch};
}

/* Bytes of tensor memory that the request keeps busy. */
static inline uint64_t request_bytes(const struct request *request)
{
    return request->block.bytes + request->shm_bytes;
}

/* Estimated nanoseconds of the scan on one thread: ordinary float32 takes 1 ns an element. */
static inline uint64_t request_scan_ns(const struct request *request)
{
    return larger_of(request_bytes(request), scan_plan_effort(&request->plan)) /
           SCAN_BYTES_PER_NS;
}

#endif
