/* The steps of a request whose body is complete; see job.h.
 *
 * | state   | step                                       | the loop hands it over if              |
 * |---------|--------------------------------------------|----------------------------------------|
 * | PARSE   | decompress the body, decode its text       | the text is long, or compressed        |
 * | PREPARE | reserve all memory, complete the input     | many bytes must be moved               |
 * | SCAN    | compute the sums                           | the scan is long, or needs a device    |
 * | PRINT   | make the bytes of the answer               | the answer is long, or is compressed   |
 *
 * Threads: a step runs in the loop (owner OWNER_LOOP) or in a thread of the codec pool
 * (OWNER_CODECS). A scan that neither of them runs is computed by a device worker. */
#include "server/job/job.h"

#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/job/body.h"
#include "server/job/infer.h"
#include "server/job/infer_memory.h"
#include "server/job/infer_shm.h"
#include "server/job/part.h"
#include "server/job/slices.h"
#include "server/sched/codec_pool.h"
#include "server/sched/completion.h"
#include "server/sched/device_pool.h"
#include "server/sched/queue.h"
#include "server/sched/server.h"

enum {
    INLINE_MOVE_BYTES = 1 << 20, /* payload that the loop swaps or moves, at most */
    INLINE_UNPACK_BYTES = 512,   /* compressed bytes that the loop decompresses, to 0.5 MiB */
    INLINE_PACK_BYTES = 4096,    /* of an answer that the loop compresses */
    MOVED_PER_TEXT = 16, /* bytes moved in the time in which one byte of text is parsed */
    TEXT_PER_PACKED = 4  /* bytes of text printed in the time in which one byte is compressed */
};

enum job_next {
    JOB_NEXT,  /* the step is done: run the next one */
    JOB_LATER, /* the step is too long for this thread: the codec pool runs it, by its cost */
    JOB_HOME,  /* only the loop may run the step */
    JOB_WAIT,  /* the step has handed the request over */
    JOB_DONE   /* the answer is made, or request->error is set */
};

static bool on_loop(const struct request *request)
{
    return request_owner(request) == OWNER_LOOP;
}

/* ---- what a step costs the codec pool, in bytes of text ---- */

/* Bytes of an answer that is no text: the output, and the carry in front of it. */
static uint64_t binary_answer_bytes(const struct request *request)
{
    const struct scan_call *call = &request->scan.call;
    return request->memory.out_bytes + carry_answer_most(&call->desc, call->totals);
}

static uint64_t parse_cost(const struct request *request)
{
    const struct request_body *body = &request->body;
    const struct packed_body *packed = &body->packed;
    if (body->inflate != NULL &&
        packed->at > 0) { /* unpack() has begun: the rest is as dense */
        const uint64_t ratio = body->unpacked / packed->at + 1;
        return CODEC_SMALL_BYTES + (packed->count - packed->at) * ratio; /* far below 2^63 */
    }
    if (body->inflate != NULL) {
        return packed->count; /* nobody knows the size of the content yet */
    }
    return request->body.head_bytes + body->spilled / MOVED_PER_TEXT;
}

static uint64_t prepare_cost(const struct request *request)
{
    const bool text = request->scan.call.source == CALL_SOURCE_TEXT;
    return infer_bytes_to_move(request) / MOVED_PER_TEXT +
           (text ? request->body.head_bytes : 0);
}

static uint64_t print_cost(const struct request *request)
{
    uint64_t text = infer_text_bytes(request);
    uint64_t packed = request->arrival.accept_coding == CODING_IDENTITY ? 0
                      : text > 0                                        ? text
                                 : binary_answer_bytes(request);
    uint64_t copied = infer_shm_copies(request, SHM_OUTPUT) ? request->memory.out_bytes : 0;
    return text + packed * TEXT_PER_PACKED +
           (copied + infer_part_bytes(request) + infer_marks_bytes(request)) / MOVED_PER_TEXT;
}

/* ---- PARSE ---- */

/* Decompress the body in a thread of the codec pool, but no more than fits the class of its cost: a
 * body that turns out to be longer must wait with the longer ones. */
static enum job_next unpack(struct request *request)
{
    const bool small = request->line.cost <= CODEC_SMALL_BYTES;
    if (infer_explain(request, body_unpack(request, small ? CODEC_SMALL_BYTES : UINT64_MAX,
                                           &request->error)) != STATUS_OK) {
        return JOB_DONE;
    }
    return request->body.inflate != NULL ? JOB_LATER : JOB_NEXT;
}

/* Where the loop parses or prints a text: at once, in a later turn, or not at all. */
static enum text_place text_place(const struct request *request, uint64_t bytes)
{
    return text_turn_place(&request->completion->texts, bytes,
                           request->server->config->inline_json_bytes);
}

/* The request waits for a turn of the loop in which there is room for the text. */
static enum job_next wait_for_turn(struct request *request, uint64_t text_bytes)
{
    text_turn_wait(&request->completion->texts, request, text_bytes);
    return JOB_WAIT;
}

static enum job_next parse_on_loop(struct request *request)
{
    const struct request_body *body = &request->body;
    if (body->inflate != NULL && body->packed.count <= INLINE_UNPACK_BYTES &&
        infer_explain(request, body_unpack(request, UINT64_MAX, &request->error)) !=
            STATUS_OK) {
        return JOB_DONE;
    }
    const bool has_text =
        !request->scan.decoded || request->scan.call.source == CALL_SOURCE_TEXT;
    enum text_place place = TEXT_NOW;
    if (body->inflate != NULL || body->spill) {
        place = TEXT_ELSEWHERE;
    } else if (has_text) {
        place = text_place(request, request->body.head_bytes);
    }
    if (place == TEXT_LATER) {
        return wait_for_turn(request, request->body.head_bytes);
    }
    if (place == TEXT_ELSEWHERE) { /* memory for a long body is promised before it is parsed */
        return infer_may_go_on(request, 0) ? JOB_LATER : JOB_WAIT;
    }
    return infer_decode_body(request) == STATUS_OK ? JOB_NEXT : JOB_DONE;
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
        return JOB_HOME; /* the request needs more memory than it seemed */
    }
    if (on_loop(request)) {
        const bool long_text =
            request->scan.call.source == CALL_SOURCE_TEXT &&
            request->body.head_bytes > request->server->config->inline_json_bytes;
        if (!infer_may_go_on(request, 0)) {
            return JOB_WAIT;
        }
        infer_settle(request);
        if (long_text || request->body.spill ||
            infer_bytes_to_move(request) > INLINE_MOVE_BYTES) {
            return JOB_LATER;
        }
    }
    return infer_complete(request) == STATUS_OK ? JOB_NEXT : JOB_DONE;
}

/* ---- SCAN ---- */

static enum job_next step_scan(struct request *request)
{
    struct queue *queue = request->server->queue;
    const bool here = on_loop(request);
    if (request->scan.plan.elements == 0 || request->times.computed != 0) {
        return JOB_NEXT; /* there is nothing to compute, or a device has computed it */
    }
    if (!here && (request->scan.slices != NULL || slices_wanted(request))) {
        return JOB_HOME;
    }
    if (here && slices_start(request)) {
        return slices_end(request) ? JOB_WAIT : JOB_DONE;
    }
    if (part_is_one(request) || request->scan.segments != NULL) {
        return JOB_DONE; /* these are scanned in slices only, and request->error is set */
    }
    if (here && request->scan.slices == NULL &&
        device_pool_scan_here(request->server->devices, &request->completion->device,
                              request)) {
        return request->error.status == STATUS_OK ? JOB_NEXT : JOB_DONE;
    }
    if (queue_push(queue, request, &request->error) != STATUS_OK) {
        return JOB_DONE;
    }
    if (!here) { /* a loop wakes the devices once, at the end of its turn */
        queue_wake(queue);
    }
    return JOB_WAIT;
}

/* ---- PRINT ---- */

static bool print_is_long(const struct request *request)
{
    bool packs = request->arrival.accept_coding != CODING_IDENTITY;
    return (packs && binary_answer_bytes(request) > INLINE_PACK_BYTES) ||
           infer_part_bytes(request) > INLINE_MOVE_BYTES ||
           infer_marks_bytes(request) > INLINE_MOVE_BYTES ||
           (infer_shm_copies(request, SHM_OUTPUT) &&
            request->memory.out_bytes > INLINE_MOVE_BYTES);
}

static enum job_next step_print(struct request *request)
{
    const uint64_t text_bytes = infer_text_bytes(request);
    if (request->times.computed != 0 && request->arrival.deadline_ns != 0 &&
        clock_now_ns() >= request->arrival.deadline_ns) {
        (void)error_set(&request->error, STATUS_DEADLINE_PASSED,
                        "the deadline passed before the answer could be made");
        return JOB_DONE;
    }
    if (on_loop(request)) {
        const enum text_place place =
            print_is_long(request) ? TEXT_ELSEWHERE : text_place(request, text_bytes);
        if (place == TEXT_LATER) {
            return wait_for_turn(request, text_bytes);
        }
        if (place == TEXT_ELSEWHERE) {
            return JOB_LATER;
        }
    } else if (print_cost(request) > request->line.cost) {
        return JOB_LATER; /* a short text that asks for a long answer waits with the long ones */
    }
    infer_encode(request);
    return JOB_DONE;
}

/* ---- the steps ---- */

static const struct job_step {
    enum job_next (*run)(struct request *request);
    uint64_t (*cost)(const struct request *request); /* of the step, for the codec pool */
    enum request_state next;
} steps[] = {
    [REQUEST_PARSE] = {step_parse, parse_cost, REQUEST_PREPARE},
    [REQUEST_PREPARE] = {step_prepare, prepare_cost, REQUEST_SCAN},
    [REQUEST_SCAN] = {step_scan, NULL, REQUEST_PRINT},
    [REQUEST_PRINT] = {step_print, print_cost, REQUEST_READY},
};

/* Thread: of the codec pool. */
static void run_on_codec_thread(struct request *request)
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
            codec_pool_submit(request->server->codecs, request, step->cost(request),
                              run_on_codec_thread);
            return false;
        case JOB_HOME:
            completion_post(request->completion, request);
            return false;
        case JOB_WAIT:
            return false;
        case JOB_DONE:
            request_enter(request, REQUEST_READY);
            return true;
        }
    }
}
