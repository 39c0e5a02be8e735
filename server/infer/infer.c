/* A tensor request's steps; see infer.h. Each runs where its cost allows: on the loop, or, if its
 * text is long, in the codec pool. */
#include "server/infer/infer.h"

#include "proto/elements.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/infer/body.h"
#include "server/infer/infer_memory.h"
#include "server/infer/infer_shm.h"
#include "server/infer/part.h"
#include "server/infer/segments.h"
#include "server/infer/slices.h"
#include "server/sched/admission.h"
#include "server/sched/codec_pool.h"
#include "server/sched/completion.h"
#include "server/sched/queue.h"
#include "server/sched/server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    INLINE_MOVE_BYTES = 1 << 20, /* payload that is swapped or moved on the loop */
    INLINE_UNPACK_BYTES = 512,   /* packed bytes that are unpacked on the loop, to 0.5 MiB */
    INLINE_PACK_BYTES = 4096,    /* answers that are compressed on the loop */
    SOON_BYTES = 128 << 10,      /* tensors whose scan takes less than a launch does */
    LONG_GAPS_COST = 32 << 20,   /* outputs with gaps whose scan takes milliseconds */
    DROP_STEP = 4 << 20          /* bytes whose pages go back in a millisecond */
};

/* ---- decoding ---- */

/* What the request's dialect calls a field of the description. */
static const char *dialect_field(const struct request *request, const char *field)
{
    const struct codec *codec = request->codec;
    const char *name =
        codec->plan_field == NULL ? NULL : codec->plan_field(&request->call, field);
    return name != NULL ? name : field;
}

/* Without strides of an output that is laid out by its text alone; they have been checked. */
static enum status plan_packed(struct request *request, struct error *err)
{
    struct scan_desc packed = request->call.desc;
    packed.has_output_strides = false;
    return scan_plan_make(&packed, &request->plan, err);
}

/* The scan of a tensor whose output has one element more along the axis, which no scan writes: its
 * sums lie beside that, in an output apart. What is wrong with the output shows in a plan of all
 * of it. */
static enum status plan_beside_initial(struct request *request, struct error *err)
{
    struct scan_call *call = &request->call;
    struct scan_desc room;
    struct scan_desc output = *scan_output_desc(&call->desc, &room);
    struct scan_desc scan = call->desc;
    struct elements_layout layout;
    const size_t bytes = dtype_info(scan.dtype)->bytes;
    TRY(scan_plan_make(&output, &request->plan, err));
    if (call->packs_output) {
        output.has_output_strides = false;
        TRY(scan_plan_make(&output, &request->plan, err));
    }
    call->output_bytes = larger_of(call->output_bytes, request->plan.out_elements * bytes);
    request->out_first = 0;
    if (request->plan.out_elements == 0) { /* strides of no elements may be beyond 64 bits */
        request->plan.in_place = false;
        return STATUS_OK;
    }
    elements_layout_make(&scan, call->packs_output, &layout);
    scan.has_output_strides = true;
    memcpy(scan.output_strides, layout.out_strides, sizeof scan.output_strides);
    TRY(scan_plan_make(&scan, &request->plan, err));
    if (!scan.has_offsets) { /* else segments.c finds each segment's sums */
        const uint64_t step = layout.out_strides[layout.axis];
        request->out_first = (size_t)(elements_first_sum(&scan, 0) * step * bytes);
    }
    request->plan.in_place = false;
    return STATUS_OK;
}

static enum status plan_whole(struct request *request, struct error *err)
{
    if (request->call.desc.include_initial) {
        return plan_beside_initial(request, err);
    }
    TRY(scan_plan_make(&request->call.desc, &request->plan, err));
    return request->call.packs_output ? plan_packed(request, err) : STATUS_OK;
}

static enum status plan_scan(struct request *request, struct error *err)
{
    enum status status = plan_whole(request, err);
    if (status != STATUS_OK && err->field[0] != '\0') {
        const char *field = dialect_field(request, err->field);
        if (field != err->field) {
            (void)snprintf(err->field, sizeof err->field, "%s", field);
        }
    }
    request->planned = status == STATUS_OK;
    return status;
}

/* What the body says of time and priority; the latter goes before the header. */
static void apply_parameters(struct request *request)
{
    const struct scan_call *call = &request->call;
    uint64_t at = 0;
    if (call->timeout_us > 0 && !__builtin_mul_overflow(call->timeout_us, NS_PER_US, &at) &&
        !__builtin_add_overflow(at, request->times.arrived, &at)) {
        request->deadline_ns = deadline_earlier(request->deadline_ns, at);
    }
    request->high = call->priority == 0 ? request->high : call->priority == 1;
}

static enum status check_rank(const struct request *request, struct error *err)
{
    uint64_t most = request->server->config->max_rank;
    int rank = request->call.desc.rank;
    if (rank < 0 || (uint64_t)rank <= most) {
        return STATUS_OK;
    }
    return error_set_field(err, STATUS_TOO_LARGE, dialect_field(request, "shape"),
                           "the tensor has %d dimensions, it may have at most %llu, the "
                           "server's --max-rank: merge neighbours that are not summed, or ask "
                           "the operator",
                           rank, (unsigned long long)most);
}

enum status infer_decode(struct request *request, struct error *err)
{
    const struct byte_view head = {request->head.bytes, request->head_bytes};
    TRY(codec_decode(request->codec, &request->codec_request, head, &request->call, err));
    request->decoded = true;
    request->call.parallel = request->parallel;
    apply_parameters(request);
    if (request->call.axis_pending) {
        /* Sizes do not depend on the axis; the plan is made again when that is known. */
        request->call.desc.axis = 0;
    }
    TRY(check_rank(request, err));
    TRY(infer_shm_hold(request, err));
    TRY(plan_scan(request, err));
    TRY(infer_measure(request, err));
    uint64_t need = infer_needed_bytes(request, 0);
    if (need > ADMISSION_LARGE_BYTES && need > memory_budget_large(request->server->memory)) {
        return memory_never_fits(request->server->memory, need, err);
    }
    infer_settle(request);
    return STATUS_OK;
}

/* ---- completing ---- */

/* Is there nothing to compute? Then a decoded request is answered as soon as it is complete
 * (prepare_to_queue()); of a part that may be a long carry. */
static bool is_answered_at_once(const struct request *request)
{
    return request->plan.elements == 0;
}

/* A long output with gaps: they are zeroed before the scan, in steps. A device that did it with
 * the scan, which could not be cut then, would be held, and the deadline not be seen, for as long
 * as whoever sends a few elements likes. So are the gaps of a scan in slices alone, those between
 * segments, and those beside sums that no device writes. */
static bool gaps_come_first(const struct request *request)
{
    const struct scan_plan *plan = &request->plan;
    const struct scan_desc *desc = &request->call.desc;
    if (desc->include_initial) {
        return true;
    }
    return plan->gaps && !infer_shm_used(request) &&
           (part_is_one(request) || desc->has_offsets ||
            scan_plan_effort(plan) >= LONG_GAPS_COST);
}

/* Bytes of the output buffer that a device writes, or that are the input; the rest is zeroes. */
static uint64_t computed_bytes(const struct request *request)
{
    uint64_t bytes = request->plan.out_elements * dtype_info(request->plan.dtype)->bytes;
    return gaps_come_first(request) && !request->plan.in_place ? 0 : bytes;
}

/* Zero the gaps: of an output apart with all of it, else between the elements. */
static enum status zero_gaps(struct request *request, struct error *err)
{
    if (request->plan.in_place && !scan_gaps_zero(&request->plan, false, request->parallel,
                                                  request_output_bytes(request))) {
        return parallel_given_up(err);
    }
    request->plan.gaps = false;
    request->slice.job.holes = true; /* they are to be left alone */
    return STATUS_OK;
}

/* Make of the elements that came those that are summed. */
static enum status prepare_elements(struct request *request, struct error *err)
{
    const struct scan_desc *desc = &request->call.desc;
    char *input = request_block_at(request, request->in_offset);
    struct elements_marks marks = {.bits = NULL};
    if (infer_marks_bytes(request) > 0) {
        marks.bits = (uint64_t *)(void *)request_block_at(request, request->marks_offset);
    }
    TRY(elements_prepare(desc, input, infer_input_count(request), request->parallel, &marks,
                         err));
    request->marked = marks.any;
    return STATUS_OK;
}

/* Make the reason the status of work that was given up. */
static enum status explain_given_up(struct request *request, enum status status)
{
    return status == STATUS_CLIENT_GONE && codec_pool_explain(request) ? request->error.status
                                                                       : status;
}

/* Find the scans of the segments, and gather the short ones. What was reserved for more of these than
 * there are is given back. */
static enum status prepare_segments(struct request *request, struct error *err)
{
    const size_t bytes = dtype_info(request->plan.dtype)->bytes;
    if (is_answered_at_once(request)) {
        return STATUS_OK;
    }
    TRY(segments_create(&request->call, &request->plan, &request->segments, err));
    const uint64_t needed = segments_gathered(request->segments) * bytes;
    infer_discharge(request, request->gathered_bytes - needed);
    request->gathered_bytes = needed;
    return segments_gather(request->segments, request_block_at(request, request->in_offset),
                           request_block_at(request, request->gathered_offset), err);
}

/* Understand a complete body, if that was not done yet. Thread: the owner. */
static enum status decode_body(struct request *request)
{
    if (request->decoded) {
        return STATUS_OK;
    }
    request->codec_request.parallel = request->parallel;
    enum status status = infer_decode(request, &request->error);
    request->codec_request.parallel = NULL;
    return explain_given_up(request, status);
}

/* The steps from a decoded body to a request that a device can take. */
static enum status complete_input(struct request *request, struct error *err)
{
    const struct request_body *body = &request->body;
    struct scan_call *call = &request->call;
    TRY(infer_hold_rest(request, err));
    char *input = request_block_at(request, request->in_offset);
    if (body->spill) { /* the payload lies behind the long head */
        size_t count = smaller_of(body->spilled, body->payload_room);
        request->payload_received = body->spilled;
        TRY(parallel_copy(request->parallel, input,
                          request->head.bytes + request->head_bytes + 1, count, err));
    }
    TRY(infer_shm_read_axis(request, err));
    TRY(request->codec->complete(call, input, request->payload_received, err));
    if (call->source == CALL_SOURCE_TEXT) {
        TRY(body_forget_text(request, call->data, err));
    }
    TRY(infer_shm_read_input(request, err));
    if (elements_change(&call->desc)) {
        TRY(prepare_elements(request, err));
    }
    if (call->axis_pending) {
        TRY(plan_scan(request, err));
        infer_settle(request);
    }
    uint64_t computed = computed_bytes(request); /* what no device writes is zeroes */
    TRY(parallel_zero(request->parallel, request_output_bytes(request) + computed,
                      request->out_bytes - computed, err));
    if (gaps_come_first(request)) {
        TRY(zero_gaps(request, err));
    }
    if (call->desc.include_initial && call->desc.has_initial) { /* else they are zeroes */
        TRY(elements_write_initial(&call->desc, call->packs_output, request->parallel,
                                   request_output_bytes(request), err));
    }
    if (call->desc.has_offsets) {
        return prepare_segments(request, err);
    }
    return part_is_one(request) ? part_prepare(request, err) : STATUS_OK;
}

/* ---- what is long ---- */

/* Where a text is parsed or printed. */
static enum text_place text_place(const struct request *request, uint64_t bytes)
{
    return text_turn_place(&request->completion->texts, bytes,
                           request->server->config->inline_json_bytes);
}

/* Of an answer that is no text: the output, and the carry in front of it. */
static uint64_t binary_answer_bytes(const struct request *request)
{
    const struct scan_call *call = &request->call;
    return request->out_bytes + carry_answer_most(&call->desc, call->totals);
}

/* Whatever its text. */
static bool encode_is_long(const struct request *request)
{
    bool packs = request->accept_coding != CODING_IDENTITY;
    return (packs && binary_answer_bytes(request) > INLINE_PACK_BYTES) ||
           infer_part_bytes(request) > INLINE_MOVE_BYTES ||
           infer_marks_bytes(request) > INLINE_MOVE_BYTES ||
           (infer_shm_copies(request, SHM_OUTPUT) && request->out_bytes > INLINE_MOVE_BYTES);
}

/* Payload bytes that completing a decoded request swaps, moves or writes zeroes behind. */
static uint64_t bytes_to_move(const struct request *request)
{
    const struct scan_call *call = &request->call;
    bool copies = infer_shm_copies(request, SHM_INPUT);
    bool moves = call->byte_swap || call->payload_offset > 0;
    bool zeroes = gaps_come_first(request);
    return (copies ? call->input_bytes : 0) + (moves ? request->payload_received : 0) +
           infer_part_bytes(request) + infer_elements_bytes(request) +
           (request->out_bytes - (zeroes ? 0 : computed_bytes(request)));
}

/* Where the head is decoded, and the numbers of a text are parsed. */
static enum text_place head_place(const struct request *request)
{
    const struct request_body *body = &request->body;
    return body->inflate != NULL || body->spill ? TEXT_ELSEWHERE
                                                : text_place(request, request->head_bytes);
}

/* place: of its head. */
static bool complete_is_long(const struct request *request, enum text_place place)
{
    bool long_text = request->call.source == CALL_SOURCE_TEXT && place != TEXT_NOW;
    if (request->body.inflate != NULL || !request->decoded || long_text ||
        bytes_to_move(request) > INLINE_MOVE_BYTES) {
        return true;
    }
    return is_answered_at_once(request) &&
           (encode_is_long(request) ||
            infer_text_bytes(request) > request->server->config->inline_json_bytes);
}

/* ---- what it costs the codec pool, in bytes of text ---- */

enum {
    MOVED_PER_TEXT = 16, /* bytes are moved in the time that one of text takes */
    TEXT_PER_PACKED = 4  /* and so many of text are printed while one is packed */
};

static uint64_t encode_cost(const struct request *request)
{
    uint64_t text = infer_text_bytes(request);
    uint64_t packed = request->accept_coding == CODING_IDENTITY ? 0
                      : text > 0                                ? text
                                                                : binary_answer_bytes(request);
    uint64_t copied = infer_shm_copies(request, SHM_OUTPUT) ? request->out_bytes : 0;
    return text + packed * TEXT_PER_PACKED +
           (copied + infer_part_bytes(request) + infer_marks_bytes(request)) / MOVED_PER_TEXT;
}

static uint64_t prepare_cost(const struct request *request)
{
    if (request->body.inflate != NULL) {
        /* How much comes out shows when some has: see unpack_all(). */
        return request->body.packed.count;
    }
    if (!request->decoded) {
        return request->head_bytes + request->body.spilled / MOVED_PER_TEXT;
    }
    return bytes_to_move(request) / MOVED_PER_TEXT +
           (is_answered_at_once(request) ? encode_cost(request) : 0);
}

/* ---- handing over ---- */

/* What the codec has of a carry is not needed any more. Its pages go back here, in steps: those of
 * half a GiB take 40 ms or more, for which all would wait whose HTTP thread ends the request. */
static void drop_carry(struct request *request)
{
    char *bytes = request->call.carry.owned;
    const size_t page = slab_page_bytes();
    const size_t count = bytes != NULL ? (size_t)request->call.carry.bytes : 0;
    for (size_t at = (page - (uintptr_t)bytes % page) % page; at + DROP_STEP <= count;
         at += DROP_STEP) {
        (void)madvise(bytes + at, DROP_STEP, MADV_DONTNEED);
        (void)parallel_step(request->parallel); /* given up or not */
    }
    codec_release_carry(&request->call);
}

/* Prepare, and answer if there is nothing to compute. Thread: the owner. */
static bool prepare_to_queue(struct request *request)
{
    enum status status = complete_input(request, &request->error);
    drop_carry(request);
    if (explain_given_up(request, status) != STATUS_OK) {
        return false;
    }
    if (is_answered_at_once(request)) {
        infer_encode(request);
        return false;
    }
    return true;
}

/* Queue a prepared request, whose takers are to be woken. Thread: the loop, if
 * slices_wanted(); else the owner. */
static enum infer_place queue_or_slice(struct request *request)
{
    if (slices_start(request)) {
        return slices_end(request) ? INFER_AWAY : INFER_ENDED;
    }
    if (part_is_one(request) || request->segments != NULL) {
        return INFER_ENDED;
    }
    enum infer_place place = request_bytes(request) <= SOON_BYTES ? INFER_SOON : INFER_AWAY;
    bool queued = queue_push(request->server->queue, request, &request->error) == STATUS_OK;
    return queued ? place : INFER_ENDED;
}

static void parse_job(struct request *request);

/* Unpack the body; no more of it than fits its class: what turns out to be longer has to wait
 * with those that are. False: it was handed over to do that, or it has failed. Codec pool. */
static bool unpack_all(struct request *request)
{
    struct codec_pool *pool = request->server->codecs;
    bool small = request->cost <= CODEC_SMALL_BYTES;
    enum status status =
        body_unpack(request, small ? CODEC_SMALL_BYTES : UINT64_MAX, &request->error);
    if (status == STATUS_OK && request->body.inflate != NULL) {
        const struct packed_body *packed = &request->body.packed;
        uint64_t ratio = request->body.unpacked / packed->at + 1;
        uint64_t rest = (packed->count - packed->at) * ratio; /* far below 2^63 */
        codec_pool_submit(pool, request, CODEC_SMALL_BYTES + rest, parse_job);
        return false;
    }
    if (explain_given_up(request, status) != STATUS_OK) {
        completion_post(request->completion, request);
    }
    return status == STATUS_OK;
}

/* Codec pool. */
static void parse_job(struct request *request)
{
    struct completion *completion = request->completion;
    struct queue *queue = request->server->queue;
    if (request->body.inflate != NULL && !unpack_all(request)) {
        return;
    }
    bool decoded = decode_body(request) == STATUS_OK;
    if (decoded && !infer_is_covered(request)) {
        completion_post(completion, request);
        return;
    }
    if (decoded && is_answered_at_once(request) && prepare_cost(request) > request->cost) {
        /* A short text that asks for a long answer waits for that as a long one. */
        codec_pool_submit(request->server->codecs, request, prepare_cost(request), parse_job);
        return;
    }
    bool ready = decoded && prepare_to_queue(request);
    if (ready && (request->slices != NULL || slices_wanted(request))) {
        request_enter(request, REQUEST_PARSED);
    } else if (ready && queue_or_slice(request) != INFER_ENDED) {
        queue_wake(queue);
        return;
    } else {
        request_enter(request, REQUEST_PRINTING); /* it was, or it has failed */
    }
    completion_post(completion, request);
}

/* Codec pool. */
static void print_job(struct request *request)
{
    infer_encode(request);
    completion_post(request->completion, request);
}

enum infer_place infer_submit(struct request *request)
{
    if (request->body.packed.count <= INLINE_UNPACK_BYTES &&
        explain_given_up(request, body_unpack(request, UINT64_MAX, &request->error)) !=
            STATUS_OK) {
        return INFER_ENDED;
    }
    const enum text_place place = head_place(request);
    if (place == TEXT_LATER) {
        request_enter(request, REQUEST_PARSING);
        text_turn_wait(&request->completion->texts, request, request->head_bytes);
        return INFER_SOON;
    }
    /* What a short head asks for then shows, which may be far more than what it is. */
    if (place == TEXT_NOW && decode_body(request) != STATUS_OK) {
        return INFER_ENDED;
    }
    if (!infer_may_go_on(request, 0, REQUEST_WAITING)) {
        return INFER_AWAY;
    }
    infer_settle(request);
    if (complete_is_long(request, place)) {
        request_enter(request, REQUEST_PARSING);
        codec_pool_submit(request->server->codecs, request, prepare_cost(request), parse_job);
        return INFER_AWAY;
    }
    return prepare_to_queue(request) ? queue_or_slice(request) : INFER_ENDED;
}

/* The request is computed: have its answer made. False: that is here, or the request has
 * failed. */
static bool answer_computed(struct request *request)
{
    if (request->deadline_ns != 0 && clock_now_ns() >= request->deadline_ns) {
        (void)error_set(&request->error, STATUS_DEADLINE_PASSED,
                        "the deadline passed before the answer could be made");
        return false;
    }
    const uint64_t text_bytes = infer_text_bytes(request);
    const enum text_place place =
        encode_is_long(request) ? TEXT_ELSEWHERE : text_place(request, text_bytes);
    switch (place) {
    case TEXT_NOW:
        infer_encode(request);
        return false;
    case TEXT_LATER:
        request_enter(request, REQUEST_RUNNING);
        text_turn_wait(&request->completion->texts, request, text_bytes);
        break;
    case TEXT_ELSEWHERE:
        request_enter(request, REQUEST_PRINTING);
        codec_pool_submit(request->server->codecs, request, encode_cost(request), print_job);
        break;
    }
    return true;
}

bool infer_advance(struct request *request)
{
    const enum request_state state = request_state(request);
    if (request->error.status != STATUS_OK) {
        return false;
    }
    if (state == REQUEST_WAITING || state == REQUEST_PARSING) {
        return infer_submit(request) != INFER_ENDED;
    }
    if (state == REQUEST_PARSED) {
        return queue_or_slice(request) != INFER_ENDED;
    }
    const bool computed =
        state == REQUEST_QUEUED || state == REQUEST_RUNNING || state == REQUEST_SLICED;
    return computed && answer_computed(request);
}
