/* clang-format off */
/* The record of one request, from its first header byte to its last answer byte.
 *
 * | state     | owner, thread | holds              | leaves when                                |
 * |-----------|---------------|--------------------|--------------------------------------------|
 * | RECEIVING | loop          | head, what arrived | the body is complete, or it is refused     |
 * | WAITING   | admission     | the same           | it is admitted, cancelled or late; inside  |
 * |           |               |                    | its body, or before it is prepared         |
 * | ADMITTED  | loop          | + a promise of     | it goes on where it waited                 |
 * |           |               | memory             |                                            |
 * | PARSING   | codec pool    | + slab memory      | complete() is done (long texts only)       |
 * | DECODED   | loop          | the same           | it has what it needs besides: WAITING,     |
 * |           |               |                    | or PARSING again                           |
 * | PARSED    | loop          | + plan             | its first slice is out                     |
 * | QUEUED    | queue         | + plan             | a worker takes it, or it is cancelled      |
 * | RUNNING   | device worker | + plan; the input  | the batch is finished on the device: it is |
 * |           |               | becomes the output | posted to the loop, error says how         |
 * | SLICED    | loop          | + plan, a slice    | its last slice came back (slices.h)        |
 * |           |               | that is out        |                                            |
 * | PRINTING  | codec pool    | + answer text      | encode() is done (long texts only)         |
 * | FINISHED  | loop          | answer or error    | the answer is queued with MHD              |
 * | ANSWERING | loop (MHD)    | answer, slab       | NOTIFY_COMPLETED: everything is freed      |
 *
 * A request is in exactly one state; the hand-over call (admission_enter, queue_push,
 * batcher_take, codec_pool_submit, completion_post) is the transfer of ownership, and nobody
 * touches a request it does not own but for `cancelled`. While it is not owned by the loop, and
 * in SLICED, its connection is suspended, so MHD cannot end it, or polled: then it may become an
 * orphan (server/http/exchange.h).
 *
 * A slice of a large tensor is a request too (`slice.of`), QUEUED and RUNNING like any other
 * while the one that it is a slice of is RECEIVING, WAITING inside its body, or SLICED. It owns
 * its bytes of the block: that one writes behind them only. */
/* clang-format on */
#ifndef TALLY_SERVER_REQUEST_H
#define TALLY_SERVER_REQUEST_H

#include "kernels/scan_plan.h"
#include "proto/codec.h"
#include "server/base/metrics.h"
#include "server/memory/memory.h"
#include "server/memory/shm.h"
#include "server/sched/admission.h"

#include <stdatomic.h>

struct MHD_Connection;
struct client;
struct completion;
struct route;
struct server;
struct slices;

enum request_state {
    REQUEST_RECEIVING,
    REQUEST_WAITING,  /* with admission.c */
    REQUEST_ADMITTED, /* by it: back on its way */
    REQUEST_PARSING,
    REQUEST_DECODED, /* by the codec pool: needs more than it was admitted with */
    REQUEST_PARSED,  /* by the codec pool: to be sliced by the loop */
    REQUEST_QUEUED,
    REQUEST_RUNNING,
    REQUEST_SLICED,
    REQUEST_PRINTING,
    REQUEST_FINISHED,
    REQUEST_ANSWERING
};

enum {
    REQUEST_MAGIC = 0x7a11e57
};

/* A part of a tensor that is scanned by itself (server/infer/slices.h); constant while it is
 * out, but for `overdue`. */
struct request_slice {
    struct slices *of; /* it belongs to this; NULL: not a slice but a request of a client */
    uint64_t *carry;   /* borrowed; as in struct scan_job, and so are the next three */
    uint64_t position;
    bool more;
    bool holes;
    bool last;           /* of its request: counts as that */
    atomic_bool overdue; /* any thread: its device gives no answer */
};

struct request {
    unsigned magic;
    enum request_state state;
    atomic_bool cancelled; /* any thread: the client is gone, do no more work for it */
    int retries;           /* times it was moved to another device */

    struct MHD_Connection *connection; /* loop only */
    struct completion *completion; /* borrowed: the way back to the loop of the connection */
    struct server *server;         /* borrowed */
    struct client *client;         /* borrowed from the connection */
    const struct route *route;     /* static */
    char id[LIMIT_REQUEST_ID + 1]; /* X-Request-Id, the client's or our own */
    uint64_t deadline_ns;          /* absolute, 0 for none */
    struct metrics_times times;

    const struct codec *codec; /* static; NULL for requests without a tensor */
    struct codec_request codec_request;
    struct scan_call call; /* valid once `decoded`; call.dialect is released with the request */
    bool decoded;
    struct scan_plan plan; /* valid once `planned` */
    bool planned;

    char *head;        /* owned: body bytes before the payload, NUL after the last */
    size_t head_bytes; /* bytes in it */
    size_t head_capacity;
    struct admission_hold admission;
    struct request_slice slice;
    struct memory_block block; /* slab range with input and output buffer, if not shm.in_use */
    struct shm_tensor shm[SHM_USES];
    uint64_t shm_bytes;        /* of shared memory in use, which count like those of a block */
    size_t in_offset;          /* of the input buffer in block.slab, bytes */
    size_t out_offset;         /* of the output buffer in block.slab, bytes */
    uint64_t out_bytes;        /* of the output buffer */
    uint64_t payload_received; /* bytes after the head, dropped ones too */
    uint64_t reserved_bytes;   /* of the memory budget, given back with the request */

    struct answer answer;         /* valid in FINISHED if error.status is OK */
    struct error error;           /* first error; the outcome of the request */
    int device;                   /* number of the device that ran it, -1 */
    int model;                    /* row of the v2 model table, -1 outside v2 */
    uint32_t batch;               /* requests that shared its launch, 0: none ran */
    struct metrics_launch launch; /* the one that it was in */

    uint64_t ticket; /* its place among those of its client (fair.h): when it arrived */
    uint64_t cost;   /* in the line where it waits (fair.h) */
    void (*codec_job)(struct request *); /* private to codec_pool.c */
    struct request *next; /* link of whichever list owns it: queue, batch, completion */
};

/* Where the device finds the input and leaves the output. */
static inline struct tensor_place request_input(const struct request *request)
{
    const struct tensor_place *shared = &request->shm[SHM_INPUT].in_use;
    return shared->slab != NULL
               ? *shared
               : (struct tensor_place){request->block.slab, request->in_offset};
}

static inline struct tensor_place request_output(const struct request *request)
{
    const struct tensor_place *shared = &request->shm[SHM_OUTPUT].in_use;
    return shared->slab != NULL
               ? *shared
               : (struct tensor_place){request->block.slab, request->out_offset};
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

/* End a chain of requests that request_verdict() condemned while they waited for something.
 * Thread: their owner, holding no lock. (completion.c) */
void request_end_condemned(struct request *first, uint64_t now_ns, const char *waited_for);

/* What is counted of a tensor request that has ended. */
static inline struct metrics_request request_figures(const struct request *request)
{
    return (struct metrics_request){.outcome = request->error.status,
                                    .model = request->model,
                                    .elements = request->planned ? request->plan.elements : 0,
                                    .times = request->times,
                                    .launch = request->launch};
}

/* Tensor memory that it keeps busy. */
static inline uint64_t request_bytes(const struct request *request)
{
    return request->block.bytes + request->shm_bytes;
}

#endif
