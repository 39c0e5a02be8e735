/* The steps of a request whose body is complete; see job.h.
 *
 * | state   | step                                       | the loop hands it over if              |
 * |---------|--------------------------------------------|----------------------------------------|
 * | PARSE   | decompress the body, decode its text       | the text is long, or compressed        |
 * | PREPARE | reserve all memory, complete the input     | many bytes must be moved               |
 * | SCAN    | compute the sums                           | the scan is long, or needs a device    |
 * | PRINT   | make the bytes of the answer               | the answer is long, or is compressed   |
 *
 * Threads: a step runs in the loop (owner OWNER_LOOP) or in a thread of the work pool
 * (OWNER_WORK). A scan that neither of them runs is computed by a device worker. */
#include "server/job/job.h"

#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/job/body.h"
#include "server/job/cursor.h"
#include "server/job/infer.h"
#include "server/job/infer_memory.h"
#include "server/job/infer_shm.h"
#include "server/sched/completion.h"
#include "server/sched/device_pool.h"
#include "server/sched/queue.h"
#include "server/sched/server.h"
#include "server/sched/work.h"

enum {
    INLINE_MOVE_BYTES = 1 << 20, /* maximum bytes that the loop swaps, copies or zeroes */
    /* maximum number of compressed bytes that the loop decompresses, to at most 0.5 MiB */
    INLINE_UNPACK_BYTES = 512,
    INLINE_PACK_BYTES = 4096, /* maximum bytes of an answer that the loop compresses */
    LOOP_SCAN_NS = 1 << 15,   /* longest estimated time of a scan in an HTTP thread */
    WORK_SCAN_NS = 1 << 21,   /* longest estimated time of a scan in a work thread */
    /* longest time of a scan in a work thread for the data that take longest
     * (scan_plan_slowest_ns()), because a scan cannot be interrupted */
    WORK_SLOWEST_NS = 10000000,
    UNPACK_STEP_BYTES = 1 << 20 /* bytes of content from which a body counts as long */
};

/* Estimated time of UNPACK_STEP_BYTES. Longer bodies are not decompressed in the class of short
 * work. */
#define UNPACK_STEP_NS ((uint64_t)UNPACK_STEP_BYTES * NS_PER_TEXT_BYTE)

enum job_next {
    JOB_NEXT, /* the step is done: run the next one */
    /* the step is too long for this thread: the work pool runs it, in the class of its cost */
    JOB_LATER,
    JOB_HOME, /* only the loop may run the step */
    JOB_WAIT, /* the step has handed the request over */
    JOB_DONE  /* the answer is made, or request->error is set */
};

static bool on_loop(const struct request *request)
{
    return request_owner(request) == OWNER_LOOP;
}

/* ---- the estimated time of a step on one thread, in nanoseconds ---- */

/* Returns the bytes of a binary answer: the output, and the carry in front of it. */
static uint64_t binary_answer_bytes(const struct request *request)
{
    const struct scan_call *call = &request->scan.call;
    return request->memory.out_bytes + carry_answer_most(&call->desc, call->totals);
}

static uint64_t parse_ns(const struct request *request)
{
    const struct request_body *body = &request->body;
    const struct packed_body *packed = &body->packed;
    if (body->inflate != NULL &&
        packed->at > 0) { /* unpack() has begun: assume the same ratio for the rest */
        const uint64_t ratio = body->unpacked / packed->at + 1;
        return UNPACK_STEP_NS + (packed->count - packed->at) * ratio * NS_PER_TEXT_BYTE;
    }
    if (body->inflate != NULL) {
        return packed->count * NS_PER_TEXT_BYTE; /* the size of the content is not known yet */
    }
    return request->body.head_bytes * NS_PER_TEXT_BYTE + body->spilled / MOVED_BYTES_PER_NS;
}

static uint64_t prepare_ns(const struct request *request)
{
    const bool text = request->scan.call.source == CALL_SOURCE_TEXT;
    return infer_bytes_to_move(request) / MOVED_BYTES_PER_NS +
           (text ? request->body.head_bytes * NS_PER_TEXT_BYTE : 0);
}

static uint64_t print_ns(const struct request *request)
{
    uint64_t text = infer_text_bytes(request);
    uint64_t packed = request->arrival.accept_coding == CODING_IDENTITY ? 0
                      : text > 0                                        ? text
                                 : binary_answer_bytes(request);
    uint64_t copied = infer_shm_copies(request, SHM_OUTPUT) ? request->memory.out_bytes : 0;
    return text * NS_PER_TEXT_BYTE + packed * NS_PER_PACKED_BYTE +
           (copied + infer_part_bytes(request) + infer_marks_bytes(request)) /
               MOVED_BYTES_PER_NS;
}

/* ---- PARSE ---- */

/* Decompress the body in a thread of the work pool. A request that was submitted as short work
 * stops after UNPACK_STEP_BYTES; if more content follows, the request waits again, in the class
 * of longer work. */
static enum job_next unpack(struct request *request)
{
    const bool small = request->line.cost_ns <= UNPACK_STEP_NS;
    if (body_unpack(request, small ? UNPACK_STEP_BYTES : UINT64_MAX, &request->error) !=
        STATUS_OK) {
        return JOB_DONE;
    }
    return request->body.inflate != NULL ? JOB_LATER : JOB_NEXT;
}

/* Returns true if a text of `bytes` bytes is too long to be parsed or printed on the loop. */
static bool text_is_long(const struct request *request, uint64_t bytes)
{
    return bytes > request->server->config->inline_json_bytes;
}

static enum job_next parse_on_loop(struct request *request)
{
    const struct request_body *body = &request->body;
    if (body->inflate != NULL && body->packed.count <= INLINE_UNPACK_BYTES &&
        body_unpack(request, UINT64_MAX, &request->error) != STATUS_OK) {
        return JOB_DONE;
    }
    const bool has_text =
        !request->scan.decoded || request->scan.call.source == CALL_SOURCE_TEXT;
    if (body->inflate != NULL || body->spill ||
        (has_text && text_is_long(request, request->body.head_bytes))) {
        /* a long body is parsed after its memory is promised */
        return infer_admit(request, 0) ? JOB_LATER : JOB_WAIT;
    }
    return request->scan.decoded || infer_decode_body(request) == STATUS_OK ? JOB_NEXT
                                                                            : JOB_DONE;
}

static enum job_next step_parse(struct request *request)
{
    if (on_loop(request)) {
        return parse_on_loop(request);
    }
    if (request->body.inflate != NULL) {
        const enum job_next next = unpack(request);
        if (next != JOB_NEXT) {
            return next;
        }
    }
    return infer_decode_body(request) == STATUS_OK ? JOB_NEXT : JOB_DONE;
}

/* ---- PREPARE ---- */

static enum job_next step_prepare(struct request *request)
{
    if (!on_loop(request) && !infer_is_covered(request)) {
        /* the request needs a larger claim, and only the loop may ask for admission */
        return JOB_HOME;
    }
    if (on_loop(request)) {
        const bool long_text = request->scan.call.source == CALL_SOURCE_TEXT &&
                               text_is_long(request, request->body.head_bytes);
        if (!infer_admit(request, 0)) {
            return JOB_WAIT;
        }
        if (long_text || request->body.spill ||
            infer_bytes_to_move(request) > INLINE_MOVE_BYTES) {
            return JOB_LATER;
        }
    }
    return infer_complete(request) == STATUS_OK ? JOB_NEXT : JOB_DONE;
}

/* ---- SCAN ---- */

/* Scan a small tensor in this thread. Returns false if the tensor is too large or no device can
 * scan it here. */
static bool scan_here(struct request *request, bool here)
{
    const bool brief = here || scan_plan_slowest_ns(&request->scan.plan) <= WORK_SLOWEST_NS;
    return brief && device_pool_scan_here(request->server->devices,
                                          here ? LOOP_SCAN_NS : WORK_SCAN_NS, request);
}

static enum job_next step_scan(struct request *request)
{
    struct queue *queue = request->server->queue;
    const bool here = on_loop(request);
    if (request->scan.plan.elements == 0 || request->times.computed != 0) {
        return JOB_NEXT; /* there is nothing to compute, or the scan is done */
    }
    const bool one = request->scan.part != NULL && cursor_is_one_slice(request);
    if (one && scan_here(request, here)) {
        return request->error.status == STATUS_OK ? JOB_NEXT : JOB_DONE;
    }
    if (!here && cursor_wanted(request)) {
        return JOB_HOME;
    }
    if (here && cursor_scan(request)) {
        return JOB_WAIT;
    }
    if (request->error.status != STATUS_OK) {
        return JOB_DONE;
    }
    if (request->scan.cursor == NULL && scan_here(request, here)) {
        return request->error.status == STATUS_OK ? JOB_NEXT : JOB_DONE;
    }
    if (queue_push(queue, request, &request->error) != STATUS_OK) {
        return JOB_DONE;
    }
    if (!here) { /* otherwise the loop wakes the devices once, at the end of its turn */
        queue_wake(queue);
    }
    return JOB_WAIT;
}

/* ---- PRINT ---- */

static bool print_is_long(const struct request *request)
{
    bool packs = request->arrival.accept_coding != CODING_IDENTITY;
    return text_is_long(request, infer_text_bytes(request)) ||
           (packs && binary_answer_bytes(request) > INLINE_PACK_BYTES) ||
           infer_part_bytes(request) > INLINE_MOVE_BYTES ||
           infer_marks_bytes(request) > INLINE_MOVE_BYTES ||
           (infer_shm_copies(request, SHM_OUTPUT) &&
            request->memory.out_bytes > INLINE_MOVE_BYTES);
}

static enum job_next step_print(struct request *request)
{
    if (request->times.computed != 0 && request->arrival.deadline_ns != 0 &&
        clock_now_ns() >= request->arrival.deadline_ns) {
        (void)error_set(&request->error, STATUS_DEADLINE_PASSED,
                        "the deadline passed before the answer could be made");
        return JOB_DONE;
    }
    /* A work thread submits the request again if printing costs more than the estimate in the
     * line. So the request waits with longer work. */
    if (on_loop(request) ? print_is_long(request) : print_ns(request) > request->line.cost_ns) {
        return JOB_LATER;
    }
    infer_encode(request);
    return JOB_DONE;
}

/* ---- the steps ---- */

static const struct job_step {
    enum job_next (*run)(struct request *request);
    uint64_t (*cost_ns)(const struct request *request); /* estimated time, for the work pool */
    enum request_state next;
} steps[] = {
    [REQUEST_PARSE] = {step_parse, parse_ns, REQUEST_PREPARE},
    [REQUEST_PREPARE] = {step_prepare, prepare_ns, REQUEST_SCAN},
    [REQUEST_SCAN] = {step_scan, NULL, REQUEST_PRINT},
    [REQUEST_PRINT] = {step_print, print_ns, REQUEST_READY},
};

/* Thread: of the work pool. */
static void run_on_work_thread(struct request *request)
{
    if (job_run(request)) {
        completion_post(request->completion, request);
    }
}

bool job_run(struct request *request)
{
    for (;;) {
        const struct job_step *step = &steps[request_state(request)];
        switch (step->run(request)) {
        case JOB_NEXT:
            request_enter(request, step->next);
            break;
        case JOB_LATER:
            work_submit(request->server->work, request, step->cost_ns(request),
                        run_on_work_thread);
            return false;
        case JOB_HOME:
            completion_post(request->completion, request);
            return false;
        case JOB_WAIT:
            return false;
        case JOB_DONE:
            /* work_given_up() sets DEADLINE_PASSED instead if that was the reason */
            if (request->error.status == STATUS_CLIENT_GONE) {
                (void)work_given_up(request);
            }
            request_enter(request, REQUEST_READY);
            return true;
        }
    }
}
