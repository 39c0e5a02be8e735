/* Decodes and plans a tensor request, and completes its input; see infer.h. */
#include "server/job/infer.h"

#include "proto/elements.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/job/infer_memory.h"
#include "server/job/infer_shm.h"
#include "server/job/part.h"
#include "server/job/segments.h"
#include "server/sched/admission.h"
#include "server/sched/server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    /* minimum scan_plan_effort() of a scan whose gaps take milliseconds to zero */
    LONG_GAPS_COST = 32 << 20,
    DROP_STEP = 4 << 20 /* bytes whose pages the system frees in about a millisecond */
};

/* ---- decoding ---- */

/* Returns the name of a description field in the request's dialect. */
static const char *dialect_field(const struct request *request, const char *field)
{
    const struct codec *codec = request->arrival.codec;
    const char *name =
        codec->plan_field == NULL ? NULL : codec->plan_field(&request->scan.call, field);
    return name != NULL ? name : field;
}

/* Plan the scan of a tensor whose output has one more element along the axis than the input:
 * the initial value. No scan writes that element, so the plan covers the other elements of the
 * output, which has a separate buffer. Before that, the whole output is planned, because this
 * finds errors in the description of the output. */
static enum status plan_beside_initial(struct request *request, struct error *err)
{
    struct scan_call *call = &request->scan.call;
    struct scan_desc room;
    struct scan_desc output = *scan_output_desc(&call->desc, &room);
    struct scan_desc scan = call->desc;
    struct elements_layout layout;
    const size_t bytes = dtype_info(scan.dtype)->bytes;
    TRY(scan_plan_make(&output, &request->scan.plan, err));
    if (call->packs_output) {
        output.has_output_strides = false;
        TRY(scan_plan_make(&output, &request->scan.plan, err));
    }
    call->output_bytes = larger_of(call->output_bytes, request->scan.plan.out_elements * bytes);
    request->memory.out_first = 0;
    if (request->scan.plan.out_elements ==
        0) { /* without elements, the strides may exceed 64 bits */
        request->scan.plan.in_place = false;
        return STATUS_OK;
    }
    elements_layout_make(&scan, call->packs_output, &layout);
    scan.has_output_strides = true;
    memcpy(scan.output_strides, layout.out_strides, sizeof scan.output_strides);
    TRY(scan_plan_make(&scan, &request->scan.plan, err));
    if (!scan.has_offsets) { /* with offsets, segments.c finds the first sum of each segment */
        const uint64_t step = layout.out_strides[layout.axis];
        request->memory.out_first = (size_t)(elements_first_sum(&scan, 0) * step * bytes);
    }
    request->scan.plan.in_place = false;
    return STATUS_OK;
}

static enum status plan_whole(struct request *request, struct error *err)
{
    if (request->scan.call.desc.include_initial) {
        return plan_beside_initial(request, err);
    }
    TRY(scan_plan_make(&request->scan.call.desc, &request->scan.plan, err));
    if (!request->scan.call.packs_output) {
        return STATUS_OK;
    }
    /* Plan the scan with a packed output: codec->encode() applies the output strides, which
     * have been checked. */
    struct scan_desc packed = request->scan.call.desc;
    packed.has_output_strides = false;
    return scan_plan_make(&packed, &request->scan.plan, err);
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
    request->scan.planned = status == STATUS_OK;
    return status;
}

/* Apply the timeout and the priority in the body. The earlier of the two deadlines is used; the
 * priority in the body replaces the priority in the header. */
static void apply_parameters(struct request *request)
{
    const struct scan_call *call = &request->scan.call;
    uint64_t at = 0;
    if (call->timeout_us > 0 && !__builtin_mul_overflow(call->timeout_us, NS_PER_US, &at) &&
        !__builtin_add_overflow(at, request->times.arrived, &at)) {
        request->arrival.deadline_ns = deadline_earlier(request->arrival.deadline_ns, at);
    }
    request->arrival.high = call->priority == 0 ? request->arrival.high : call->priority == 1;
}

static enum status check_rank(const struct request *request, struct error *err)
{
    uint64_t most = request->server->config->max_rank;
    int rank = request->scan.call.desc.rank;
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
    const struct byte_view head = {request->body.head.bytes, request->body.head_bytes};
    TRY(codec_decode(request->arrival.codec, &request->arrival.codec_request, head,
                     &request->scan.call, err));
    request->scan.decoded = true;
    request->scan.call.parallel = request->parallel;
    apply_parameters(request);
    if (request->scan.call.axis_pending) {
        /* The sizes do not depend on the axis; complete_input() plans again when the axis is
         * known. */
        request->scan.call.desc.axis = 0;
    }
    TRY(check_rank(request, err));
    if (infer_shm_named(request)) {
        TRY(infer_shm_acquire(request, err));
    }
    TRY(plan_scan(request, err));
    return infer_measure(request, err);
}

/* ---- completing ---- */

/* Returns true if the gaps of the output are zeroed before the scan, in steps. A scan that
 * zeroes its gaps cannot be cut, so a client could send a few elements with long strides and
 * occupy a device for any time. A part, segments and an output with an initial value always
 * need this step, because their scans do not cover all gaps. */
static bool gaps_come_first(const struct request *request)
{
    const struct scan_plan *plan = &request->scan.plan;
    const struct scan_desc *desc = &request->scan.call.desc;
    if (desc->include_initial) {
        return true;
    }
    return plan->gaps && !infer_shm_used(request) &&
           (part_is_one(request) || desc->has_offsets ||
            scan_plan_effort(plan) >= LONG_GAPS_COST);
}

/* Returns the number of leading bytes of the output buffer that a device writes or that contain
 * the input. The bytes after them must be zeroed. */
static uint64_t computed_bytes(const struct request *request)
{
    uint64_t bytes =
        request->scan.plan.out_elements * dtype_info(request->scan.plan.dtype)->bytes;
    return gaps_come_first(request) && !request->scan.plan.in_place ? 0 : bytes;
}

/* Zero the gaps between the elements of a tensor that is scanned in place. If the output has a
 * separate buffer, the caller has already zeroed the whole buffer, because computed_bytes()
 * returned 0. */
static enum status zero_gaps(struct request *request, struct error *err)
{
    if (request->scan.plan.in_place &&
        !scan_gaps_zero(&request->scan.plan, false, request->parallel,
                        request_output_bytes(request))) {
        return parallel_given_up(err);
    }
    request->scan.plan.gaps = false;
    request->slice.job.holes = true; /* the device must not write to the gaps */
    return STATUS_OK;
}

/* Convert the received elements to the elements that are summed (proto/elements.h). */
static enum status prepare_elements(struct request *request, struct error *err)
{
    const struct scan_desc *desc = &request->scan.call.desc;
    char *input = request_block_at(request, request->memory.in_offset);
    struct elements_marks marks = {.bits = NULL};
    if (infer_marks_bytes(request) > 0) {
        marks.bits =
            (uint64_t *)(void *)request_block_at(request, request->memory.marks_offset);
    }
    TRY(elements_prepare(desc, input, infer_input_count(request), request->parallel, &marks,
                         err));
    request->scan.marked = marks.any;
    return STATUS_OK;
}

/* Find the scans of the segments, and gather the short segments. The reservation was an upper
 * bound; its excess is released. */
static enum status prepare_segments(struct request *request, struct error *err)
{
    const size_t bytes = dtype_info(request->scan.plan.dtype)->bytes;
    if (request->scan.plan.elements == 0) {
        return STATUS_OK;
    }
    TRY(segments_create(&request->scan.call, &request->scan.plan, &request->scan.segments,
                        err));
    const uint64_t needed = segments_gathered(request->scan.segments) * bytes;
    infer_discharge(request, request->memory.gathered_bytes - needed);
    request->memory.gathered_bytes = needed;
    return segments_gather(request->scan.segments,
                           request_block_at(request, request->memory.in_offset),
                           request_block_at(request, request->memory.gathered_offset), err);
}

enum status infer_decode_body(struct request *request)
{
    if (request->scan.decoded) {
        return STATUS_OK;
    }
    request->arrival.codec_request.parallel = request->parallel;
    const enum status status = infer_decode(request, &request->error);
    request->arrival.codec_request.parallel = NULL;
    return status;
}

/* Turn a decoded body into a tensor that a device can scan. */
static enum status complete_input(struct request *request, struct error *err)
{
    const struct request_body *body = &request->body;
    const struct shm_tensor *shm = request->memory.shm;
    struct scan_call *call = &request->scan.call;
    TRY(infer_reserve_rest(request, err));
    char *input = request_block_at(request, request->memory.in_offset);
    if (body->spill) { /* the payload is buffered behind the long head */
        size_t count = smaller_of(body->spilled, body->payload_room);
        request->body.payload_received = body->spilled;
        TRY(parallel_copy(request->parallel, input,
                          request->body.head.bytes + request->body.head_bytes + 1, count, err));
    }
    if (call->axis_pending && shm[SHM_AXIS].region != NULL) {
        TRY(shm_read(shm[SHM_AXIS].region, &call->axis_shm, call->axis_bytes,
                     smaller_of(call->axis_shm.bytes, sizeof call->axis_bytes), NULL, err));
    }
    TRY(request->arrival.codec->complete(call, input, request->body.payload_received, err));
    if (call->source == CALL_SOURCE_TEXT && call->data.bytes >= INFER_FORGET_BYTES) {
        TRY(infer_text_forget(request, call->data, err));
    }
    if (infer_shm_copies(request, SHM_INPUT)) {
        TRY(shm_read(shm[SHM_INPUT].region, &call->input_shm, input, call->input_bytes,
                     request->parallel, err));
    }
    if (elements_change(&call->desc)) {
        TRY(prepare_elements(request, err));
    }
    if (call->axis_pending) {
        TRY(plan_scan(request, err));
        infer_update_claim(request);
    }
    uint64_t computed = computed_bytes(request);
    TRY(parallel_zero(request->parallel, request_output_bytes(request) + computed,
                      request->memory.out_bytes - computed, err));
    if (gaps_come_first(request)) {
        TRY(zero_gaps(request, err));
    }
    /* Without `initial` the sum before the first element is 0, and the output already contains
     * this 0. */
    if (call->desc.include_initial && call->desc.has_initial) {
        TRY(elements_write_initial(&call->desc, call->packs_output, request->parallel,
                                   request_output_bytes(request), err));
    }
    if (call->desc.has_offsets) {
        return prepare_segments(request, err);
    }
    return part_is_one(request) ? part_prepare(request, err) : STATUS_OK;
}

/* Free the codec's copy of the received carry. The pages of half a GiB take 40 ms or more, so
 * the function returns them to the system in steps. Otherwise the HTTP thread that ends the
 * request would be blocked. */
static void free_carry(struct request *request)
{
    char *bytes = request->scan.call.carry.owned;
    const size_t page = slab_page_bytes();
    const size_t count = bytes != NULL ? (size_t)request->scan.call.carry.bytes : 0;
    for (size_t at = (page - (uintptr_t)bytes % page) % page; at + DROP_STEP <= count;
         at += DROP_STEP) {
        (void)madvise(bytes + at, DROP_STEP, MADV_DONTNEED);
        (void)parallel_step(request->parallel); /* continue even if the work was stopped */
    }
    codec_release_carry(&request->scan.call);
}

enum status infer_complete(struct request *request)
{
    const enum status status = complete_input(request, &request->error);
    free_carry(request);
    return status;
}

uint64_t infer_bytes_to_move(const struct request *request)
{
    const struct scan_call *call = &request->scan.call;
    bool copies = infer_shm_copies(request, SHM_INPUT);
    bool moves = call->byte_swap || call->payload_offset > 0;
    bool zeroes = gaps_come_first(request);
    return (copies ? call->input_bytes : 0) + (moves ? request->body.payload_received : 0) +
           infer_part_bytes(request) + infer_elements_bytes(request) +
           (request->memory.out_bytes - (zeroes ? 0 : computed_bytes(request)));
}
