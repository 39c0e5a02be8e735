/* Sizes of memory, charges, claims and costs; see infer_memory.h. */
#include "server/job/infer_memory.h"

#include "proto/byte_size.h"
#include "proto/elements.h"
#include "proto/offsets.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/job/infer_shm.h"
#include "server/job/part.h"
#include "server/job/segments.h"
#include "server/sched/admission.h"
#include "server/sched/client.h"
#include "server/sched/queue.h"
#include "server/sched/server.h"
#include "server/sched/work.h"

enum {
    FIRST_TEXT_BYTES = 4096,     /* minimum charge of a text */
    FIRST_ROOM_BYTES = 64 << 10, /* minimum reservation for payload */
    /* maximum number of bytes of memory for one byte of a body. The two characters "1," need
     * their own memory, an element of 8 bytes, and 21 bytes for the text of its sum */
    GUESS_FACTOR = 16,
    FORGET_STEP = 16 << 20,     /* bytes of a forgotten text between two steps */
    INFLATE_FACTOR = 1032,      /* maximum number of decompressed bytes of a compressed byte */
    OPEN_ENDED_BYTES = 8 << 20, /* claim of a body of unknown length that is not short */
    SLACK_PART = 16,      /* 1/16 of the need is added to the claim, for slices and answers */
    SLACK_MOST = 2 << 20, /* maximum number of bytes that are added to the claim */
    UNPACKED = 4          /* typical number of decompressed bytes of a compressed byte */
};

/* The estimated time of a byte in picoseconds. The ratios between these times were measured
 * (docs/design/decisions/016). The absolute times assume a machine that receives and answers 1
 * GB of packed tensors per second; admission.c multiplies them by a measured factor. */
enum {
    WIRE_PS = 500,         /* received, or sent */
    TEXT_PS = 3 * WIRE_PS, /* received and parsed, or printed and sent */
    SCAN_PS = WIRE_PS / 4  /* scanned, or copied */
};

/* The deadline of a small request is checked on arrival only if it is nearer than this, because
 * no small request waits that long. */
#define SOON_NS (60 * NS_PER_S)

uint64_t infer_input_count(const struct request *request)
{
    const struct scan_call *call = &request->scan.call;
    return call->input_bytes / dtype_info(scan_input_dtype(&call->desc))->bytes;
}

/* Add the bytes of gathered segments to *total, the bytes of the block. Set part_bytes to the
 * remaining memory of the segments. */
static void measure_segments(struct request *request, uint64_t *total)
{
    const struct scan_plan *plan = &request->scan.plan;
    const struct scan_desc *desc = &request->scan.call.desc;
    request->memory.gathered_bytes = 0;
    request->memory.part_bytes = offsets_owned_bytes(&request->scan.call);
    if (plan->elements == 0) {
        return;
    }
    const uint64_t elements = segments_gathered_most(desc, plan);
    request->memory.part_bytes += segments_memory_bytes(desc, plan);
    if (elements == UINT64_MAX || *total > SIZE_MAX / 4) {
        *total = UINT64_MAX;
        return;
    }
    const uint64_t at = scan_ceil_div(*total, MEMORY_ALIGN) * MEMORY_ALIGN;
    request->memory.gathered_bytes = elements * dtype_info(plan->dtype)->bytes;
    request->body.gathered_at = (size_t)at;
    *total = at + request->memory.gathered_bytes;
}

/* Returns the bytes that a decoded request needs. The sum may overflow, because a short text
 * may describe blocks and texts of any length; the result is then UINT64_MAX. */
static uint64_t known_needs(const struct request *request)
{
    const struct request_body *body = &request->body;
    const bool announced = body->inflate != NULL && body->declared > 0;
    const uint64_t packed = announced ? (uint64_t)body->declared : body->packed.text.charged;
    const uint64_t needs[] = {request->body.head.charged, packed,
                              body->block_bytes,          infer_text_bytes(request),
                              request->memory.part_bytes, request->memory.shm_bytes};
    uint64_t sum = 0;
    for (size_t i = 0; i < ARRAY_COUNT(needs); i++) {
        if (__builtin_add_overflow(sum, needs[i], &sum)) {
            return UINT64_MAX;
        }
    }
    return sum;
}

/* True if the memory budget can never hold a request that needs `need` bytes. */
static bool exceeds_large_budget(const struct request *request, uint64_t need)
{
    return need > ADMISSION_LARGE_BYTES && need > memory_budget_large(request->server->memory);
}

enum status infer_measure(struct request *request, struct error *err)
{
    struct request_body *body = &request->body;
    const struct scan_call *call = &request->scan.call;
    uint64_t planned = request->scan.plan.out_elements * dtype_info(call->desc.dtype)->bytes;
    uint64_t total = 0;
    request->memory.out_bytes = larger_of(planned, call->output_bytes);
    if (infer_shm_used(request)) {
        infer_shm_place(request);
    }
    bool shared_in = request->memory.shm[SHM_INPUT].in_use.slab != NULL;
    bool shared_out = request->memory.shm[SHM_OUTPUT].in_use.slab != NULL;
    bool one_place = request->scan.plan.in_place && !shared_in && !shared_out;
    const uint64_t wide = elements_wide_bytes(&call->desc, call->input_bytes);
    uint64_t input = larger_of(shared_in ? 0 : wide, call->payload_max);
    uint64_t output = shared_out ? 0 : request->memory.out_bytes;
    if (one_place) {
        total = larger_of(input, output);
    } else if (__builtin_add_overflow(input, MEMORY_ALIGN - 1, &input) ||
               __builtin_add_overflow(input & ~(uint64_t)(MEMORY_ALIGN - 1), output, &total)) {
        total = UINT64_MAX;
    }
    const uint64_t marks = elements_marks_bytes(&call->desc, infer_input_count(request));
    const uint64_t marks_at = scan_ceil_div(total, MEMORY_ALIGN) * MEMORY_ALIGN;
    if (marks > 0 && !call->totals && total <= SIZE_MAX / 4) {
        body->marks_at = (size_t)marks_at;
        total = marks_at + marks;
    }
    request->memory.part_bytes = 0;
    if (part_is_one(request)) {
        TRY(part_measure(request, &request->memory.part_bytes, err));
    }
    if (call->desc.has_offsets) {
        measure_segments(request, &total);
    }
    if (total > SIZE_MAX / 4) {
        return memory_never_fits(request->server->memory, total, err);
    }
    body->output_at = one_place ? 0 : (size_t)(input & ~(uint64_t)(MEMORY_ALIGN - 1));
    body->block_bytes = (size_t)total;
    const uint64_t need = known_needs(request);
    if (exceeds_large_budget(request, need)) {
        return memory_never_fits(request->server->memory, need, err);
    }
    infer_update_claim(request);
    return STATUS_OK;
}

/* ---- charges ---- */

/* Count `bytes`, the total memory of the request, for its client (--per-client-memory) before
 * the memory is charged. Bytes that were counted earlier are not counted again. */
static enum status count_for_client(struct request *request, uint64_t bytes, struct error *err)
{
    uint64_t most = request->server->config->per_client_memory;
    char limit[32];
    char need[32];
    if (most == 0 || !request->arrival.limited || bytes <= request->memory.client_bytes) {
        return STATUS_OK;
    }
    byte_size_text(most, limit, sizeof limit);
    byte_size_compared_text(bytes, most, need, sizeof need);
    if (bytes > most) {
        return error_set(err, STATUS_TOO_LARGE,
                         "the request needs %s of memory, over %s, the server's "
                         "--per-client-memory: " CONFIG_LESS_ADVICE,
                         need, limit);
    }
    uint64_t wait_ns = 0;
    if (!client_take_memory(request->arrival.client, bytes - request->memory.client_bytes, most,
                            &wait_ns)) {
        request->reply.limit = METRICS_CLIENT_LIMIT_MEMORY;
        request_retry_after(request, wait_ns);
        return error_set(
            err, STATUS_THROTTLED,
            "the request needs %s of memory, which with this client's other requests is over "
            "%s, the server's --per-client-memory: wait for an answer before the next request, "
            "and try again after Retry-After seconds",
            need, limit);
    }
    request->memory.client_bytes = bytes;
    return STATUS_OK;
}

enum status infer_charge(struct request *request, uint64_t bytes, struct error *err)
{
    uint64_t whole = 0;
    if (__builtin_add_overflow(request->memory.reserved_bytes, bytes, &whole)) {
        whole = UINT64_MAX;
    }
    TRY(count_for_client(request, whole, err));
    uint64_t *promised = &request->admission.promised_bytes;
    uint64_t beyond = bytes > *promised ? bytes - *promised : 0;
    uint64_t drawn = bytes - beyond;
    if (beyond > 0) {
        const uint64_t held = request->memory.reserved_bytes + *promised;
        TRY(memory_reserve(request->server->memory, held, beyond, err));
    }
    if (drawn > 0) {
        memory_draw(request->server->memory, drawn);
        *promised -= drawn;
    }
    request->memory.reserved_bytes += bytes;
    return STATUS_OK;
}

void infer_discharge(struct request *request, uint64_t bytes)
{
    memory_release(request->server->memory, bytes);
    request->memory.reserved_bytes -= bytes;
}

enum status infer_text_reserve(struct request *request, struct text *text, size_t used,
                               size_t want, size_t whole, struct error *err)
{
    if (want <= text->charged && want < text->capacity) {
        return STATUS_OK;
    }
    size_t charged = larger_of(larger_of(2 * text->charged, want), FIRST_TEXT_BYTES);
    charged = whole >= want ? smaller_of(charged, whole) : charged;
    charged = larger_of(charged, text->charged);
    const size_t capacity = larger_of(charged, whole) + 1;
    const size_t more = charged - text->charged;
    TRY(infer_charge(request, more, err));
    if (capacity > text->capacity &&
        !text_grow(request->server->memory, text, used, capacity)) {
        infer_discharge(request, more);
        return error_set(err, STATUS_OUT_OF_MEMORY,
                         "the system has no memory for %zu bytes of text: try again after "
                         "Retry-After seconds, or send less at once",
                         capacity - 1);
    }
    text->charged = charged;
    return STATUS_OK;
}

void infer_text_free(struct request *request, struct text *text)
{
    infer_discharge(request, text->charged);
    text_free(request->server->memory, text);
}

enum status infer_text_forget(struct request *request, struct json_cut cut, struct error *err)
{
    struct text *head = &request->body.head;
    const size_t first = (size_t)(cut.text - head->bytes);
    size_t at = first + cut.bytes;
    if (head->block.slab == NULL) {
        return STATUS_OK;
    }
    while (at > first) { /* backwards, because block.touched counts from the start */
        const size_t step = smaller_of(at - first, FORGET_STEP);
        const size_t back = memory_untouch(&head->block, at - step, at);
        infer_discharge(request, back);
        head->charged -= back;
        at -= step;
        if (at > first && !parallel_step(request->parallel)) {
            return parallel_given_up(err);
        }
    }
    return STATUS_OK;
}

/* Charge the request with `bytes` more, and allocate its block if it has none. The block is
 * allocated at its full length, so received bytes are never moved; untouched pages take no
 * memory of the system. A failure charges nothing. */
static enum status charge_block(struct request *request, uint64_t bytes, struct error *err)
{
    TRY(infer_charge(request, bytes, err));
    if (request->memory.block.slab != NULL) {
        return STATUS_OK;
    }
    const enum status status = memory_take(request->server->memory, request->body.block_bytes,
                                           &request->memory.block, err);
    if (status != STATUS_OK) {
        infer_discharge(request, bytes);
        return status;
    }
    request->memory.in_offset = request->memory.block.offset;
    request->memory.out_offset = request->memory.in_offset + request->body.output_at;
    request->memory.marks_offset = request->memory.in_offset + request->body.marks_at;
    request->memory.gathered_offset = request->memory.in_offset + request->body.gathered_at;
    return STATUS_OK;
}

enum status infer_grow(struct request *request, uint64_t bytes, struct error *err)
{
    struct request_body *body = &request->body;
    uint64_t most = request->scan.call.payload_max;
    uint64_t room =
        larger_of(bytes, larger_of(2 * (uint64_t)body->payload_room, FIRST_ROOM_BYTES));
    room = smaller_of(room, most);
    uint64_t used = body->block_bytes;
    if (room < most) {
        /* Slices write sums while the input arrives: reserve the same share of the output. */
        used = room + (uint64_t)((double)(used - most) * (double)room / (double)most);
    }
    TRY(charge_block(request, used - body->block_reserved, err));
    body->block_reserved = used;
    body->payload_room = (size_t)room;
    return STATUS_OK;
}

enum status infer_reserve_rest(struct request *request, struct error *err)
{
    struct request_body *body = &request->body;
    if (body->rest_reserved) {
        return STATUS_OK;
    }
    uint64_t rest = body->block_bytes - body->block_reserved + infer_text_bytes(request) +
                    request->memory.part_bytes + request->memory.shm_bytes;
    TRY(charge_block(request, rest, err));
    body->rest_reserved = true;
    body->block_reserved = body->block_bytes;
    body->payload_room = request->scan.call.payload_max;
    return STATUS_OK;
}

/* ---- admission ---- */

uint64_t infer_needed_bytes(const struct request *request, uint64_t more)
{
    const struct request_body *body = &request->body;
    if (request->scan.decoded && request->scan.planned) {
        return known_needs(request);
    }
    uint64_t sent = body->received + more;
    uint64_t declared = body->declared > 0 ? (uint64_t)body->declared : 0;
    uint64_t guess = larger_of(sent, declared);
    if (body->inflate != NULL) {
        bool long_one = guess > body->limit / INFLATE_FACTOR;
        guess = long_one ? body->limit : guess * INFLATE_FACTOR;
    }
    if (declared == 0 && request->times.received != 0 && body->inflate == NULL) {
        return request->body.head.charged;
    }
    if (declared == 0) {
        /* The claim has room for the text and its growth; the claim is corrected when the text
         * is decoded. */
        return guess > OPEN_ENDED_BYTES / 2        ? 2 * guess
               : guess > ADMISSION_LARGE_BYTES / 2 ? OPEN_ENDED_BYTES
                                                   : guess;
    }
    /* The payload behind a carry or offsets is binary, so its memory does not grow like that of
     * a text. */
    const struct codec_request *codec = &request->arrival.codec_request;
    const uint64_t factor =
        codec->carry_bytes > 0 || codec->offsets_bytes > 0 ? 2 : GUESS_FACTOR;
    return guess > UINT64_MAX / factor ? UINT64_MAX : guess * factor;
}

uint64_t infer_claim(const struct request *request, uint64_t more)
{
    const struct request_body *body = &request->body;
    const struct admission_hold *hold = &request->admission;
    if (request->arrival.codec == NULL) {
        return 0;
    }
    uint64_t need = infer_needed_bytes(request, more);
    uint64_t slack = smaller_of(need / SLACK_PART, SLACK_MOST);
    uint64_t whole = need > UINT64_MAX - slack ? need : need + slack;
    if (hold->state == ADMISSION_ACTIVE && more > 0) {
        /* A request that gave back promised memory (admission_pace()) claims memory in steps,
         * so that other requests may use the memory for bytes that the client announced but
         * does not send. */
        bool enough = hold->promised_bytes >= body->received + more;
        uint64_t step =
            enough ? hold->claim : hold->claim + body->received + more + FIRST_ROOM_BYTES;
        return smaller_of(step, larger_of(hold->claim, whole));
    }
    return need <= ADMISSION_LARGE_BYTES ? 0 : whole;
}

/* ---- estimated time ---- */

static uint64_t time_of_bytes(uint64_t bytes, unsigned byte_ps)
{
    return bytes / 1000 * byte_ps + bytes % 1000 * byte_ps / 1000;
}

/* Returns the estimated nanoseconds of a body that is not decoded yet. Only the declared length
 * and the part of it that is text are known; the answer is assumed to have the same length. */
static uint64_t guess_cost(const struct request *request, uint64_t more)
{
    const struct request_body *body = &request->body;
    const struct codec_request *codec = &request->arrival.codec_request;
    const uint64_t declared = body->declared > 0 ? (uint64_t)body->declared : 0;
    const uint64_t each = body->inflate != NULL ? UNPACKED : 1;
    const uint64_t most = INT64_MAX / (2 * TEXT_PS / 1000 * each);
    const uint64_t bytes = smaller_of(larger_of(body->received + more, declared), most) * each;
    const uint64_t front =
        smaller_of(codec->carry_bytes + codec->offsets_bytes, body->head_need);
    const uint64_t text = smaller_of(bytes, body->head_need - front);
    return time_of_bytes(bytes - text, 2 * WIRE_PS) + time_of_bytes(text, 2 * TEXT_PS);
}

/* Returns the estimated nanoseconds of a planned request. */
static uint64_t planned_cost(const struct request *request)
{
    const uint64_t front = request->arrival.codec_request.carry_bytes +
                           request->arrival.codec_request.offsets_bytes;
    const uint64_t head =
        request->body.head_bytes - smaller_of(front, request->body.head_bytes);
    const uint64_t answer = infer_text_bytes(request);
    const bool binary_answer = answer == 0 && request->memory.shm[SHM_OUTPUT].region == NULL;
    const uint64_t carry =
        carry_answer_most(&request->scan.call.desc, request->scan.call.totals);
    const uint64_t sent = binary_answer ? request->memory.out_bytes + carry : 0;
    /* The sums of a part may be hundreds of times as long as its tensor, so their bytes are
     * added. */
    uint64_t scanned = scan_plan_effort(&request->scan.plan) + 2 * infer_part_bytes(request);
    scanned += infer_elements_bytes(request) + infer_marks_bytes(request);
    scanned += infer_shm_copies(request, SHM_INPUT) ? request->scan.call.input_bytes : 0;
    scanned += infer_shm_copies(request, SHM_OUTPUT) ? request->memory.out_bytes : 0;
    return time_of_bytes(request->scan.call.payload_max + front + sent, WIRE_PS) +
           time_of_bytes(head, TEXT_PS) + time_of_bytes(answer, TEXT_PS) +
           time_of_bytes(scanned, SCAN_PS);
}

uint64_t infer_cost_ns(const struct request *request, uint64_t more)
{
    const bool planned = request->scan.decoded && request->scan.planned;
    return larger_of(planned ? planned_cost(request) : guess_cost(request, more), 1);
}

void infer_update_claim(struct request *request)
{
    if (request->admission.claim > 0) {
        admission_update(request->server->admission, request, infer_claim(request, 0),
                         infer_cost_ns(request, 0));
    }
}

enum status infer_check(struct request *request, struct error *err)
{
    const struct server *server = request->server;
    uint64_t wait_ns = 0;
    bool known = request->scan.decoded && request->scan.planned;
    uint64_t need = known                        ? infer_needed_bytes(request, 0)
                    : request->body.declared > 0 ? (uint64_t)request->body.declared
                                                 : 0; /* a lower bound */
    enum status status = STATUS_OK;
    TRY(count_for_client(request, need, err));
    /* If the need is known, infer_measure() has made this check. */
    if (!known && exceeds_large_budget(request, need)) {
        return memory_never_fits(server->memory, need, err);
    }
    if (infer_claim(request, 0) > 0) {
        status = admission_check(server->admission, request, infer_cost_ns(request, 0),
                                 &wait_ns, err);
    } else if (request->arrival.deadline_ns != 0 &&
               request->arrival.deadline_ns - request->times.arrived < SOON_NS) {
        /* The request waits for a device, and a long text waits for a thread of the work pool. */
        const int64_t text_bytes = request->scan.decoded ? 0 : request->body.declared;
        const uint64_t scan_ns = known ? request_scan_ns(request) : 0;
        wait_ns = line_wait_ns(queue_line(server->queue), request, scan_ns);
        if (text_bytes > (int64_t)server->config->inline_json_bytes) {
            wait_ns += line_wait_ns(work_line(server->work), request,
                                    (uint64_t)text_bytes * NS_PER_TEXT_BYTE);
        }
        status = request_check_wait(request, wait_ns, err);
    }
    request_retry_after(request, wait_ns);
    return status;
}

bool infer_is_covered(const struct request *request)
{
    const struct admission_hold *hold = &request->admission;
    return infer_claim(request, 0) <= hold->claim ||
           hold->claim >= memory_budget_large(request->server->memory);
}

bool infer_admit(struct request *request, uint64_t more)
{
    const uint64_t claim = infer_claim(request, more);
    if (claim > request->admission.claim) {
        return admission_enter(request->server->admission, request, claim,
                               infer_cost_ns(request, more));
    }
    if (more == 0 && request->scan.planned) {
        /* the need is known: give back the promised memory beyond it */
        infer_update_claim(request);
    }
    return true;
}
