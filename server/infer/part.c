/* Parts between their carries; see part.h. */
#include "server/infer/part.h"

#include "server/infer/part_work.h"
#include "server/sched/server.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE_BYTES = 512 << 10, /* of a carry that is finished */
    PIECES = 16              /* in a round */
};

/* ---- before the scan ---- */

/* Have memory for the carry to answer and for the sums; of floats these are in it. A carry that
 * came as it is, before the part, has its memory for that of the answer: its sums are where the
 * kernels want them. */
static enum status take_memory(struct request *request, struct error *err)
{
    const struct part_sizes *sizes = &request->part->sizes;
    struct part *part = request->part;
    struct memory *memory = request->server->memory;
    const size_t came = (size_t)request->codec_request.carry_bytes;
    if (came > 0) {
        part->carry = request->head;
        request->head = (struct text){.charged = part->carry.charged};
    }
    const bool carry = came > 0 || sizes->hands_on || !sizes->sums_apart;
    const bool taken =
        (!carry ||
         (part->carry.bytes != NULL && sizes->carry_room_bytes <= part->carry.capacity) ||
         text_grow(memory, &part->carry, came, (size_t)sizes->carry_room_bytes)) &&
        (!sizes->sums_apart ||
         text_grow(memory, &part->own_sums, 0, (size_t)sizes->both_sums_bytes + 1));
    if (!taken) {
        return error_set(err, STATUS_OUT_OF_MEMORY,
                         "no memory for the sums of %" PRIu64 " lines", sizes->lines);
    }
    char *bytes = part->carry.bytes;
    if (came > 0) {
        request->call.carry.start = (unsigned char *)bytes;
    }
    part->sums = (unsigned char *)(sizes->sums_apart ? part->own_sums.bytes
                                                     : bytes + CARRY_HEADER_BYTES);
    return STATUS_OK;
}

/* The sums that came, as the kernels have them. */
static enum status take_sums(const struct request *request, unsigned char *sums,
                             const struct parallel *parallel, struct error *err)
{
    const struct part_sizes *sizes = &request->part->sizes;
    const unsigned char *came = request->call.carry.start;
    unsigned char *behind = sums + sizes->lines * sizes->sum_bytes; /* B */
    if (came != NULL && came + CARRY_HEADER_BYTES == sums) {
        return STATUS_OK;
    }
    if (came != NULL && sizes->is_float) {
        return parallel_copy(parallel, sums, came + CARRY_HEADER_BYTES, sizes->both_sums_bytes,
                             err);
    }
    for (uint64_t at = 0; at < sizes->lines; at += PART_SUMS_AT_ONCE) {
        const uint64_t count = smaller_of(sizes->lines - at, PART_SUMS_AT_ONCE);
        part_sums_begin(sizes, sums + at * sizes->sum_bytes, request->plan.exclusive, count);
        part_sums_begin(sizes, behind + at * sizes->sum_bytes, false, count);
        for (uint64_t i = at; came != NULL && i < at + count; i++) { /* narrower ones wrap */
            memcpy(sums + i * sizes->sum_bytes,
                   came + CARRY_HEADER_BYTES + i * sizes->element_bytes, sizes->element_bytes);
        }
        if (!parallel_step(parallel)) {
            return parallel_given_up(err);
        }
    }
    return STATUS_OK;
}

/* What came with the carry, and the rest of its block. *position: of the first of them; then of
 * what comes behind. */
static enum status prepare_aside(struct request *request, uint64_t *position,
                                 const struct parallel *parallel, struct error *err)
{
    const struct part_sizes *sizes = &request->part->sizes;
    char *aside = part_aside(request);
    const uint64_t bytes = sizes->held * sizes->lines * sizes->element_bytes;
    const unsigned char *held =
        request->call.carry.start + CARRY_HEADER_BYTES + sizes->both_sums_bytes;
    struct part_phase *phase = NULL;
    TRY(parallel_copy(parallel, aside, held, bytes, err));
    TRY(part_read_planes(request, 0, sizes->head, aside + bytes, parallel, err));
    TRY(part_phase_add_aside(request, sizes->held + sizes->head, &phase, err));
    phase->position = part_kernel_position(*position);
    phase->more = sizes->held + sizes->head == SCAN_BLOCK;
    *position += SCAN_BLOCK;
    return STATUS_OK;
}

/* Elements for the carry to answer, behind its sums: those since the last whole block. Of
 * integers the last ones, in the place of the sums, until these are known. */
static enum status keep_held(struct request *request, const struct parallel *parallel,
                             struct error *err)
{
    const struct part_sizes *sizes = &request->part->sizes;
    const char *came = (const char *)request->call.carry.start;
    char *keep = request->part->carry.bytes + CARRY_HEADER_BYTES;
    uint64_t count = sizes->elements > 0 ? 1 : 0;
    if (sizes->is_float) {
        keep += sizes->both_sums_bytes;
        count = sizes->tail;
    }
    if (sizes->held > 0 &&
        sizes->held + sizes->elements < SCAN_BLOCK) { /* no block is whole yet */
        const char *held = came + CARRY_HEADER_BYTES + sizes->both_sums_bytes;
        const uint64_t bytes = sizes->held * sizes->lines * sizes->element_bytes;
        if (held != keep) {
            TRY(parallel_copy(parallel, keep, held, bytes, err));
        }
        keep += bytes;
        count = sizes->elements;
    }
    return part_read_planes(request, sizes->elements - count, count, keep, parallel, err);
}

static enum status prepare_part(struct request *request, const struct parallel *parallel,
                                struct error *err)
{
    const struct part_sizes *sizes = &request->part->sizes;
    const struct scan_call *call = &request->call;
    uint64_t position = 0;
    TRY(take_sums(request, request->part->sums, parallel, err));
    if (call->carry.start != NULL) { /* of integers: any but 0 */
        position = sizes->is_float ? call->carry.position - sizes->held : SCAN_SUPERBLOCK;
    }
    if (sizes->held > 0 && sizes->head > 0 && sizes->lines > 0) {
        TRY(prepare_aside(request, &position, parallel, err));
    }
    if (sizes->hands_on) {
        TRY(keep_held(request, parallel, err));
    }
    if (request->plan.elements == 0) {
        return STATUS_OK;
    }
    if (sizes->block_elements > 0) {
        struct part_phase *phase =
            part_phase_add(request, &request->plan, sizes->head, sizes->block_elements);
        phase->position = part_kernel_position(position);
        phase->more = sizes->is_float && sizes->hands_on;
        position += sizes->block_elements;
    }
    if (sizes->tail > 0) {
        struct part_phase *phase = part_phase_add(
            request, &request->plan, sizes->head + sizes->block_elements, sizes->tail);
        phase->position = part_kernel_position(position);
    }
    return STATUS_OK;
}

enum status part_prepare(struct request *request, const struct parallel *parallel,
                         struct error *err)
{
    struct part_sizes sizes;
    if (!part_sizes_of(request, &sizes)) {
        return error_set(err, STATUS_INTERNAL, "the part's geometry was not refused in time");
    }
    request->part = calloc(1, sizeof *request->part);
    if (request->part == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a part");
    }
    request->part->sizes = sizes;
    TRY(take_memory(request, err));
    return sizes.totals ? part_totals_prepare(request, parallel, err)
                        : prepare_part(request, parallel, err);
}

void part_destroy(struct part *part, struct memory *memory)
{
    if (part != NULL) {
        text_free(memory, &part->own_sums);
        text_free(memory, &part->carry);
        free(part);
    }
}

/* ---- after it ---- */

/* The sums of lines from..end-1 after the part: what they were where it has no elements
 * (outputs: NULL), else the last output and, where that is not in it, the last element, which is
 * in `kept`. */
static void keep_sums_of(const struct request *request, const char *outputs, char *kept,
                         uint64_t from, uint64_t end)
{
    const struct part_sizes *sizes = &request->part->sizes;
    const size_t bytes = sizes->element_bytes;
    for (uint64_t i = from; i < end; i++) {
        uint64_t value = 0;
        if (outputs == NULL) {
            value = part_load(request->part->sums + i * sizes->sum_bytes, bytes);
        } else {
            value = part_load(outputs + i * bytes, bytes);
            value += request->plan.exclusive ? part_load(kept + i * bytes, bytes) : 0;
        }
        memcpy(kept + i * bytes, &value, bytes);
    }
}

/* An integer's sum after the part: the last output, and the last element where that is not in
 * it. Without elements it is what it was. */
static enum status keep_last_sums(const struct request *request,
                                  const struct parallel *parallel, struct error *err)
{
    const struct part_sizes *sizes = &request->part->sizes;
    char *kept = request->part->carry.bytes + CARRY_HEADER_BYTES;
    char *outputs = NULL;
    if (sizes->elements > 0) {
        outputs = (char *)request->part->sums; /* as wide or wider, and done with */
        struct scan_plan of_output = request->plan;
        of_output.axis.in_stride = of_output.axis.out_stride;
        for (int d = 0; d < of_output.dims; d++) {
            of_output.dim[d].in_stride = of_output.dim[d].out_stride;
        }
        const struct part_planes move = {.plan = &of_output,
                                         .cells = request_output_bytes(request),
                                         .first = sizes->elements - 1,
                                         .count = 1,
                                         .planes = outputs};
        TRY(part_planes_move(&move, parallel, err));
    }
    for (uint64_t at = 0; at < sizes->lines; at += PART_SUMS_AT_ONCE) {
        keep_sums_of(request, outputs, kept, at,
                     smaller_of(sizes->lines, at + PART_SUMS_AT_ONCE));
        if (!parallel_step(parallel)) {
            return parallel_given_up(err);
        }
    }
    return STATUS_OK;
}

/* A round of pieces of a carry, which threads finish side by side. */
struct finishing {
    unsigned char *bytes;
    uint64_t end;      /* of the carry */
    uint64_t sums_end; /* S and B of floats end here: to be settled */
    size_t sum_bytes;
    struct carry_crc crcs[PIECES]; /* done: where each piece begins, then where it ends */
};

/* Settle the piece's sums, and sum it up while it is in a cache. */
static void finish_piece(void *context, int index)
{
    struct finishing *round = context;
    struct carry_crc crc = round->crcs[index];
    const uint64_t end = smaller_of(round->end, crc.done + PIECE_BYTES);
    while (crc.done < end) {
        const uint64_t next = smaller_of(end, crc.done + PARALLEL_STEP_BYTES);
        if (crc.done < round->sums_end) {
            part_sums_settle(round->bytes + crc.done, round->sum_bytes,
                             (smaller_of(next, round->sums_end) - crc.done) / round->sum_bytes);
        }
        carry_crc_add(&crc, round->bytes, next);
    }
    round->crcs[index] = crc;
}

/* The carry has all that it hands on: settle its sums, write its header, and offer it. */
static enum status answer_carry(struct request *request, const struct parallel *parallel,
                                struct error *err)
{
    const struct part_sizes *sizes = &request->part->sizes;
    const struct scan_desc *desc = &request->call.desc;
    const struct carry_head head = {.dtype = sizes->dtype,
                                    .precision = desc->precision,
                                    .exclusive = desc->exclusive,
                                    .reverse = desc->reverse,
                                    .lines = sizes->lines,
                                    .position = request->call.carry.position + sizes->elements};
    struct answer *answer = &request->answer;
    struct text *text = &request->part->carry;
    struct finishing round = {
        .bytes = (unsigned char *)text->bytes,
        .end = sizes->carry_bytes,
        .sums_end = sizes->is_float ? CARRY_HEADER_BYTES + sizes->both_sums_bytes : 0,
        .sum_bytes = sizes->sum_bytes};
    struct carry_crc crc = {.done = 0};
    carry_write_head(&head, round.bytes);
    carry_crc_add(&crc, round.bytes, CARRY_HEADER_BYTES);
    while (crc.done < round.end) {
        int count = 0;
        for (uint64_t at = crc.done; at < round.end && count < PIECES; at += PIECE_BYTES) {
            round.crcs[count++] = (struct carry_crc){.done = at};
        }
        if (count == 1) {
            finish_piece(&round, 0);
        } else if (!parallel->run(parallel, count, finish_piece, &round)) {
            return parallel_given_up(err);
        }
        for (int i = 0; i < count; i++) {
            carry_crc_join(&crc, &round.crcs[i]);
        }
    }
    carry_write_crc(&crc, round.bytes);
    text_wrote(text, (size_t)sizes->carry_bytes);
    answer->carry = text->bytes;
    answer->head = text->bytes;
    answer->head_bytes = (size_t)sizes->carry_bytes;
    return STATUS_OK;
}

static enum status finish_part(struct request *request, const struct parallel *parallel,
                               struct error *err)
{
    const struct part_sizes *sizes = &request->part->sizes;
    if (sizes->held > 0 && sizes->head > 0 && sizes->lines > 0) {
        const struct part_planes move = {
            .plan = &request->plan,
            .cells = request_output_bytes(request),
            .output = true,
            .count = sizes->head,
            .planes = part_aside(request) + sizes->held * sizes->lines * sizes->element_bytes};
        TRY(part_planes_move(&move, parallel, err));
    }
    if (!sizes->hands_on) {
        return STATUS_OK;
    }
    if (!sizes->is_float) {
        TRY(keep_last_sums(request, parallel, err));
    }
    return answer_carry(request, parallel, err);
}

enum status part_finish(struct request *request, const struct parallel *parallel,
                        struct error *err)
{
    return request->part->sizes.totals ? part_totals_finish(request, parallel, err)
                                       : finish_part(request, parallel, err);
}
