/* Parts between their carries; see part.h. */
#include "server/infer/part.h"

#include "server/infer/part_phases.h"
#include "server/infer/part_planes.h"
#include "server/infer/part_sizes.h"
#include "server/infer/part_sums.h"
#include "server/infer/part_totals.h"
#include "server/sched/server.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE_BYTES = 512 << 10, /* of a carry that is finished */
    PIECES = 16              /* in a round */
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- before the scan ---- */

/* Have memory for the carry to answer and for the sums; of floats these are in it. A carry that
 * came as it is, before the part, has its memory for that of the answer: its sums are where the
 * kernels want them. */
static enum status take_memory(struct request *request, const struct part_sizes *s,
                               struct error *err)
{
    struct part *part = request->part;
    struct memory *memory = request->server->memory;
    const size_t came = (size_t)request->codec_request.carry_bytes;
    if (came > 0) {
        part->carry = request->head;
        request->head = (struct text){.bytes = NULL};
    }
    const bool carry = came > 0 || s->hands_on || !s->sums_apart;
    const bool taken =
        (!carry || (part->carry.bytes != NULL && s->room_bytes <= part->carry.capacity) ||
         text_grow(memory, &part->carry, came, (size_t)s->room_bytes)) &&
        (!s->sums_apart || text_grow(memory, &part->own_sums, 0, (size_t)s->sums_bytes + 1));
    if (!taken) {
        return error_set(err, STATUS_OUT_OF_MEMORY,
                         "no memory for the sums of %" PRIu64 " lines", s->lines);
    }
    char *bytes = part->carry.bytes;
    if (came > 0) {
        request->call.carry.start = (unsigned char *)bytes;
    }
    part->sums =
        (unsigned char *)(s->sums_apart ? part->own_sums.bytes : bytes + CARRY_HEADER_BYTES);
    return STATUS_OK;
}

/* The sums that came, as the kernels have them. */
static enum status take_sums(const struct request *request, const struct part_sizes *s,
                             unsigned char *sums, const struct parallel *parallel,
                             struct error *err)
{
    const unsigned char *came = request->call.carry.start;
    unsigned char *behind = sums + s->lines * s->sum; /* B */
    if (came != NULL && came + CARRY_HEADER_BYTES == sums) {
        return STATUS_OK;
    }
    if (came != NULL && s->is_float) {
        return parallel_copy(parallel, sums, came + CARRY_HEADER_BYTES, s->sums_bytes, err);
    }
    for (uint64_t at = 0; at < s->lines; at += PART_SUMS_AT_ONCE) {
        const uint64_t count = smaller(s->lines - at, PART_SUMS_AT_ONCE);
        part_sums_begin(s, sums + at * s->sum, request->plan.exclusive, count);
        part_sums_begin(s, behind + at * s->sum, false, count);
        for (uint64_t i = at; came != NULL && i < at + count; i++) { /* narrower ones wrap */
            memcpy(sums + i * s->sum, came + CARRY_HEADER_BYTES + i * s->element, s->element);
        }
        if (!parallel_step(parallel)) {
            return parallel_given_up(err);
        }
    }
    return STATUS_OK;
}

/* What came with the carry, and the rest of its block. *position: of the first of them; then of
 * what comes behind. */
static enum status prepare_aside(struct request *request, const struct part_sizes *s,
                                 uint64_t *position, const struct parallel *parallel,
                                 struct error *err)
{
    char *aside = part_aside(request);
    const uint64_t bytes = s->held * s->lines * s->element;
    const unsigned char *held = request->call.carry.start + CARRY_HEADER_BYTES + s->sums_bytes;
    struct part_phase *phase = NULL;
    enum status status = parallel_copy(parallel, aside, held, bytes, err);
    if (status == STATUS_OK) {
        status = part_read_planes(request, 0, s->head, aside + bytes, parallel, err);
    }
    if (status == STATUS_OK) {
        status = part_phase_add_aside(request, s, s->held + s->head, &phase, err);
    }
    if (status == STATUS_OK) {
        phase->position = part_kernel_position(*position);
        phase->more = s->held + s->head == SCAN_BLOCK;
        *position += SCAN_BLOCK;
    }
    return status;
}

/* Elements for the carry to answer, behind its sums: those since the last whole block. Of
 * integers the last ones, in the place of the sums, until these are known. */
static enum status keep_held(struct request *request, const struct part_sizes *s,
                             const struct parallel *parallel, struct error *err)
{
    const char *came = (const char *)request->call.carry.start;
    char *keep = request->part->carry.bytes + CARRY_HEADER_BYTES;
    uint64_t count = s->elements > 0 ? 1 : 0;
    if (s->is_float) {
        keep += s->sums_bytes;
        count = s->tail;
    }
    if (s->held > 0 && s->held + s->elements < SCAN_BLOCK) { /* no block is whole yet */
        const char *held = came + CARRY_HEADER_BYTES + s->sums_bytes;
        const uint64_t bytes = s->held * s->lines * s->element;
        enum status status =
            held == keep ? STATUS_OK : parallel_copy(parallel, keep, held, bytes, err);
        if (status != STATUS_OK) {
            return status;
        }
        keep += bytes;
        count = s->elements;
    }
    return part_read_planes(request, s->elements - count, count, keep, parallel, err);
}

static enum status prepare_part(struct request *request, const struct part_sizes *s,
                                const struct parallel *parallel, struct error *err)
{
    const struct scan_call *call = &request->call;
    uint64_t position = 0;
    enum status status = take_sums(request, s, request->part->sums, parallel, err);
    if (call->carry.start != NULL) { /* of integers: any but 0 */
        position = s->is_float ? call->carry.position - s->held : SCAN_SUPERBLOCK;
    }
    if (status == STATUS_OK && s->held > 0 && s->head > 0 && s->lines > 0) {
        status = prepare_aside(request, s, &position, parallel, err);
    }
    if (status == STATUS_OK && s->hands_on) {
        status = keep_held(request, s, parallel, err);
    }
    if (status != STATUS_OK || request->plan.pattern == SCAN_EMPTY) {
        return status;
    }
    if (s->blocks > 0) {
        struct part_phase *phase =
            part_phase_add(request, s, &request->plan, s->head, s->blocks);
        phase->position = part_kernel_position(position);
        phase->more = s->is_float && s->hands_on;
        position += s->blocks;
    }
    if (s->tail > 0) {
        struct part_phase *phase =
            part_phase_add(request, s, &request->plan, s->head + s->blocks, s->tail);
        phase->position = part_kernel_position(position);
    }
    return STATUS_OK;
}

enum status part_prepare(struct request *request, const struct parallel *parallel,
                         struct error *err)
{
    struct part_sizes s;
    if (!part_sizes_of(request, &s)) {
        return error_set(err, STATUS_INTERNAL, "the part's geometry was not refused in time");
    }
    request->part = calloc(1, sizeof *request->part);
    if (request->part == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a part");
    }
    enum status status = take_memory(request, &s, err);
    if (status != STATUS_OK) {
        return status;
    }
    return s.totals ? part_totals_prepare(request, &s, parallel, err)
                    : prepare_part(request, &s, parallel, err);
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

/* An integer's sum after the part: the last output, and the last element where that is not in
 * it. Without elements it is what it was. */
static enum status last_sums(const struct request *request, const struct part_sizes *s,
                             const struct parallel *parallel, struct error *err)
{
    char *kept = request->part->carry.bytes + CARRY_HEADER_BYTES;
    if (s->elements == 0) {
        for (uint64_t i = 0; i < s->lines; i++) {
            memcpy(kept + i * s->element, request->part->sums + i * s->sum, s->element);
        }
        return STATUS_OK;
    }
    char *outputs = (char *)request->part->sums; /* as wide or wider, and done with */
    struct scan_plan of_output = request->plan;
    of_output.axis.in_stride = of_output.axis.out_stride;
    for (int d = 0; d < of_output.dims; d++) {
        of_output.dim[d].in_stride = of_output.dim[d].out_stride;
    }
    const struct part_planes p = {.plan = &of_output,
                                  .cells = request_output_bytes(request),
                                  .first = s->elements - 1,
                                  .count = 1,
                                  .planes = outputs};
    enum status status = part_planes_move(&p, parallel, err);
    for (uint64_t i = 0; status == STATUS_OK && i < s->lines; i++) {
        uint64_t value = part_load(outputs + i * s->element, s->element);
        value += request->plan.exclusive ? part_load(kept + i * s->element, s->element) : 0;
        memcpy(kept + i * s->element, &value, s->element);
    }
    return status;
}

/* A round of pieces of a carry, which threads finish side by side. */
struct finishing {
    unsigned char *bytes;
    uint64_t end;      /* of the carry */
    uint64_t sums_end; /* S and B of floats end here: to be settled */
    size_t sum;
    struct carry_crc crcs[PIECES]; /* done: where each piece begins, then where it ends */
};

/* Settle the piece's sums, and sum it up while it is in a cache. */
static void finish_piece(void *context, int index)
{
    struct finishing *f = context;
    struct carry_crc crc = f->crcs[index];
    const uint64_t end = smaller(f->end, crc.done + PIECE_BYTES);
    while (crc.done < end) {
        const uint64_t next = smaller(end, crc.done + PARALLEL_STEP_BYTES);
        if (crc.done < f->sums_end) {
            part_sums_settle(f->bytes + crc.done, f->sum,
                             (smaller(next, f->sums_end) - crc.done) / f->sum);
        }
        carry_crc_add(&crc, f->bytes, next);
    }
    f->crcs[index] = crc;
}

/* The carry has all that it hands on: settle its sums, write its header, and offer it. */
static enum status answer_carry(struct request *request, const struct part_sizes *s,
                                const struct parallel *parallel, struct error *err)
{
    const struct scan_desc *desc = &request->call.desc;
    const struct carry_head head = {.dtype = s->dtype,
                                    .precision = desc->precision,
                                    .exclusive = desc->exclusive,
                                    .reverse = desc->reverse,
                                    .lines = s->lines,
                                    .position = request->call.carry.position + s->elements};
    struct answer *answer = &request->answer;
    struct text *text = &request->part->carry;
    struct finishing f = {.bytes = (unsigned char *)text->bytes,
                          .end = s->carry_bytes,
                          .sums_end = s->is_float ? CARRY_HEADER_BYTES + s->sums_bytes : 0,
                          .sum = s->sum};
    struct carry_crc crc = {.done = 0};
    carry_write_head(&head, f.bytes);
    carry_crc_add(&crc, f.bytes, CARRY_HEADER_BYTES);
    while (crc.done < f.end) {
        int count = 0;
        for (uint64_t at = crc.done; at < f.end && count < PIECES; at += PIECE_BYTES) {
            f.crcs[count++] = (struct carry_crc){.done = at};
        }
        if (count == 1) {
            finish_piece(&f, 0);
        } else if (!parallel->run(parallel, count, finish_piece, &f)) {
            return parallel_given_up(err);
        }
        for (int i = 0; i < count; i++) {
            carry_crc_join(&crc, &f.crcs[i]);
        }
    }
    carry_write_crc(&crc, f.bytes);
    text_wrote(text, (size_t)s->carry_bytes);
    answer->carry = text->bytes;
    answer->head = text->bytes;
    answer->head_bytes = (size_t)s->carry_bytes;
    return STATUS_OK;
}

static enum status finish_part(struct request *request, const struct part_sizes *s,
                               const struct parallel *parallel, struct error *err)
{
    enum status status = STATUS_OK;
    if (s->held > 0 && s->head > 0 && s->lines > 0) {
        const struct part_planes p = {.plan = &request->plan,
                                      .cells = request_output_bytes(request),
                                      .output = true,
                                      .count = s->head,
                                      .planes = part_aside(request) +
                                                s->held * s->lines * s->element};
        status = part_planes_move(&p, parallel, err);
    }
    if (status == STATUS_OK && s->hands_on && !s->is_float) {
        status = last_sums(request, s, parallel, err);
    }
    return status == STATUS_OK && s->hands_on ? answer_carry(request, s, parallel, err)
                                              : status;
}

enum status part_finish(struct request *request, const struct parallel *parallel,
                        struct error *err)
{
    struct part_sizes s;
    if (!part_sizes_of(request, &s)) {
        return error_set(err, STATUS_INTERNAL, "the part's geometry was not refused in time");
    }
    return s.totals ? part_totals_finish(request, &s, parallel, err)
                    : finish_part(request, &s, parallel, err);
}
