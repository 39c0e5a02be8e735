/* Parts between their carries, and totals; see part.h. From top to bottom: how a part is cut, the
 * sums of its lines, planes of its elements, its phases; then what is done before the scan and
 * after it, for a part and for totals, which take another way through all of these. */
#include "server/infer/part.h"

#include "kernels/device.h"
#include "server/sched/server.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUMS_AT_ONCE = 16 << 10,   /* between two steps */
    TOTALS_AT_ONCE = 1024,     /* lines, whose totals are written between two steps */
    LINES_AT_ONCE = 1024,      /* whose elements are copied together: they stay in a cache */
    NEIGHBOURS_AT_ONCE = 4096, /* the same, where they lie one behind the other */
    PIECE_BYTES = 512 << 10,   /* of a carry that is finished */
    PIECES = 16                /* in a round */
};

/* ---- how it is cut, and the bytes that come of it ---- */

static bool multiply_by(uint64_t *value, uint64_t factor)
{
    return !__builtin_mul_overflow(*value, factor, value);
}

static void cut_totals(struct part_sizes *sizes)
{
    uint64_t rest = sizes->elements % SCAN_SUPERBLOCK;
    sizes->superblocks = sizes->elements / SCAN_SUPERBLOCK;
    sizes->tail = rest % SCAN_BLOCK;
    sizes->block_elements = rest - sizes->tail;
    sizes->totals_per_line = sizes->superblocks + (rest > 0 ? 1 : 0);
}

static void cut_part(struct part_sizes *sizes)
{
    uint64_t rest = sizes->elements;
    if (sizes->held > 0) {
        sizes->head = smaller_of(rest, SCAN_BLOCK - sizes->held);
        rest -= sizes->head;
    }
    sizes->tail = sizes->is_float && sizes->hands_on ? rest % SCAN_BLOCK : 0;
    sizes->block_elements = rest - sizes->tail;
}

/* The one place where they are counted. False: more than can be addressed. */
MUST_CHECK static bool part_sizes_of(const struct request *request, struct part_sizes *out)
{
    const struct scan_call *call = &request->call;
    const struct scan_plan *plan = &request->plan;
    const struct dtype_info *info = dtype_info(plan->dtype);
    struct part_sizes sizes = {.dtype = plan->dtype,
                               .is_float = info->kind == DTYPE_KIND_FLOAT,
                               .totals = call->totals,
                               .hands_on = !call->totals && call->desc.part != SCAN_PART_LAST,
                               .element_bytes = info->bytes,
                               .sum_bytes = scan_accumulator_bytes(plan->dtype),
                               .held = call->carry.held};
    if (!carry_geometry(&call->desc, &sizes.lines, &sizes.elements)) {
        return false;
    }
    if (sizes.totals) {
        cut_totals(&sizes);
    } else {
        cut_part(&sizes);
    }
    uint64_t planes = sizes.totals     ? (sizes.tail > 0 ? SCAN_BLOCK : 0)
                      : sizes.held > 0 ? sizes.held + sizes.head
                                       : 0;
    sizes.aside_bytes = sizes.lines;
    sizes.sum_count = sizes.lines;
    if (!multiply_by(&sizes.aside_bytes, planes * sizes.element_bytes) ||
        !multiply_by(&sizes.sum_count, sizes.totals ? sizes.totals_per_line : 1)) {
        return false;
    }
    sizes.both_sums_bytes = sizes.sum_count;
    sizes.carry_bytes = carry_answer_size(&call->desc, sizes.held);
    if (!multiply_by(&sizes.both_sums_bytes, 2 * sizes.sum_bytes) ||
        sizes.carry_bytes == UINT64_MAX || sizes.both_sums_bytes > INT64_MAX ||
        sizes.carry_bytes > INT64_MAX) {
        return false;
    }
    sizes.carry_room_bytes = sizes.carry_bytes;
    if (sizes.is_float && !sizes.totals) {
        sizes.carry_room_bytes =
            larger_of(sizes.carry_bytes, CARRY_HEADER_BYTES + sizes.both_sums_bytes);
    }
    sizes.carry_room_bytes += CARRY_ROOM;
    sizes.sums_apart = !sizes.is_float || sizes.totals;
    *out = sizes;
    return true;
}

/* ---- sums of lines: what docs/design/numerics.md says of those that nothing was added to, and
 * of NaNs ---- */

/* Zeros that change no sum; minus: -0.0, of any type of floats. */
static void put_zeros(void *to, size_t bytes, bool minus, uint64_t count)
{
    unsigned char *at = to;
    memset(at, 0, count * bytes);
    for (uint64_t i = 0; minus && i < count; i++) {
        at[(i + 1) * bytes - 1] = 0x80;
    }
}

uint64_t part_load(const void *at, size_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

void part_sums_settle(void *sums, size_t bytes, uint64_t count)
{
    uint64_t *const doubles = sums;
    uint32_t *const floats = sums;
    for (uint64_t i = 0; bytes == sizeof *doubles && i < count; i++) {
        const bool nan = (doubles[i] & (UINT64_MAX >> 1)) > UINT64_C(0x7FF0000000000000);
        doubles[i] = nan ? UINT64_C(0x7FF8000000000000) : doubles[i];
    }
    for (uint64_t i = 0; bytes == sizeof *floats && i < count; i++) {
        const bool nan = (floats[i] & (UINT32_MAX >> 1)) > UINT32_C(0x7F800000);
        floats[i] = nan ? UINT32_C(0x7FC00000) : floats[i];
    }
}

/* ---- planes: one for each index of the axis, of the elements of all lines, in the order of
 * traversal. So a carry holds elements, too ---- */

/* Elements to be copied between a tensor and planes. */
struct part_planes {
    const struct scan_plan *plan;
    char *cells; /* of the tensor's side, all indices 0 */
    bool output; /* the tensor is the output, and is written to; else the input, and is read */
    uint64_t first; /* of the axis, as it is traversed */
    uint64_t count;
    char *planes;
};

/* Some lines that are neighbours in the innermost dimension. */
static void copy_lines(const struct part_planes *move, uint64_t line, uint64_t at,
                       uint64_t step, uint64_t count)
{
    const struct scan_plan *plan = move->plan;
    const size_t bytes = dtype_info(plan->dtype)->bytes;
    const uint64_t along = move->output ? plan->axis.out_stride : plan->axis.in_stride;
    for (uint64_t i = 0; i < move->count; i++) {
        const uint64_t t = move->first + i;
        const uint64_t index = plan->reverse ? plan->axis.size - 1 - t : t;
        char *cells = move->cells + (at + index * along) * bytes;
        char *plane = move->planes + (i * plan->lines + line) * bytes;
        if (move->output) {
            scan_copy_elements(cells, step, plane, 1, count, bytes);
        } else {
            scan_copy_elements(plane, 1, cells, step, count, bytes);
        }
    }
}

/* err   CLIENT_GONE: given up */
MUST_CHECK static enum status part_planes_move(const struct request *request,
                                               const struct part_planes *move,
                                               struct error *err)
{
    const struct scan_plan *plan = move->plan;
    const struct scan_dim one = {1, 1, 1};
    const struct scan_dim *inner = plan->dims > 0 ? &plan->dim[plan->dims - 1] : &one;
    const uint64_t step = move->output ? inner->out_stride : inner->in_stride;
    uint64_t moved = 0;
    for (uint64_t line = 0; move->count > 0 && line < plan->lines;) {
        uint64_t rest = line;
        uint64_t at = 0;
        uint64_t first = 0;
        for (int d = plan->dims - 1; d >= 0; d--) {
            const struct scan_dim *dim = &plan->dim[d];
            first = d == plan->dims - 1 ? rest % dim->size : first;
            at += rest % dim->size * (move->output ? dim->out_stride : dim->in_stride);
            rest /= dim->size;
        }
        /* Elements that are not neighbours come from cache lines that hold those of other planes,
         * too; neighbours are copied by the page. */
        const uint64_t most = step == 1 ? NEIGHBOURS_AT_ONCE : LINES_AT_ONCE;
        const uint64_t count = smaller_of(inner->size - first, most);
        copy_lines(move, line, at, step, count);
        line += count;
        moved += count * move->count * dtype_info(plan->dtype)->bytes;
        if (moved >= PARALLEL_STEP_BYTES) {
            moved = 0;
            if (!parallel_step(request->parallel)) {
                return parallel_given_up(err);
            }
        }
    }
    return STATUS_OK;
}

/* Copy `count` elements of every line of the input, from `first` on, to planes. */
MUST_CHECK static enum status part_read_planes(const struct request *request, uint64_t first,
                                               uint64_t count, void *planes, struct error *err)
{
    const struct part_planes move = {.plan = &request->plan,
                                     .cells = request_block_at(request, request->in_offset),
                                     .first = first,
                                     .count = count,
                                     .planes = planes};
    return part_planes_move(request, &move, err);
}

/* ---- phases ---- */

/* A position that means the same to the kernels, and is not taken for none. */
static uint64_t part_kernel_position(uint64_t position)
{
    return position < SCAN_SUPERBLOCK ? position : SCAN_SUPERBLOCK + position % SCAN_SUPERBLOCK;
}

/* Elements first..first + length - 1 of the axis of a plan, where the tensor is. */
static struct part_phase *part_phase_add(struct request *request, const struct scan_plan *plan,
                                         uint64_t first, uint64_t length)
{
    struct part *part = request->part;
    struct part_phase *phase = &part->phases[part->phase_count++];
    *phase = (struct part_phase){.in_offset = request->in_offset,
                                 .out_offset = request->out_offset,
                                 .sums = part->sums,
                                 .sum_lines = part->sizes.lines};
    scan_slicing_carried(plan, first, length, &phase->slicing);
    return phase;
}

/* Where planes are that are copied together. */
static char *part_aside(const struct request *request)
{
    return request_block_at(request, request->block.offset + request->body.side_at);
}

/* So many planes there.
 * err   what scan_plan_make() says */
MUST_CHECK static enum status part_phase_add_aside(struct request *request, uint64_t planes,
                                                   struct part_phase **phase, struct error *err)
{
    const struct scan_plan *plan = &request->plan;
    struct scan_plan *aside = &request->part->aside;
    const struct scan_desc desc = {
        .dtype = plan->dtype,
        .rank = 2,
        .sizes = {(int64_t)planes, (int64_t)request->part->sizes.lines},
        .exclusive = plan->exclusive};
    TRY(scan_plan_make(&desc, aside, err));
    *phase = part_phase_add(request, aside, 0, planes);
    (*phase)->in_offset = request->block.offset + request->body.side_at;
    (*phase)->out_offset = (*phase)->in_offset;
    return STATUS_OK;
}

/* ---- a part, before the scan ---- */

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
                             struct error *err)
{
    const struct part_sizes *sizes = &request->part->sizes;
    const unsigned char *came = request->call.carry.start;
    unsigned char *behind = sums + sizes->lines * sizes->sum_bytes; /* B */
    if (came != NULL && came + CARRY_HEADER_BYTES == sums) {
        return STATUS_OK;
    }
    if (came != NULL && sizes->is_float) {
        return parallel_copy(request->parallel, sums, came + CARRY_HEADER_BYTES,
                             sizes->both_sums_bytes, err);
    }
    for (uint64_t at = 0; at < sizes->lines; at += SUMS_AT_ONCE) {
        const uint64_t count = smaller_of(sizes->lines - at, SUMS_AT_ONCE);
        put_zeros(sums + at * sizes->sum_bytes, sizes->sum_bytes,
                  sizes->is_float && !request->plan.exclusive, count);
        put_zeros(behind + at * sizes->sum_bytes, sizes->sum_bytes, sizes->is_float, count);
        for (uint64_t i = at; came != NULL && i < at + count; i++) { /* narrower ones wrap */
            memcpy(sums + i * sizes->sum_bytes,
                   came + CARRY_HEADER_BYTES + i * sizes->element_bytes, sizes->element_bytes);
        }
        if (!parallel_step(request->parallel)) {
            return parallel_given_up(err);
        }
    }
    return STATUS_OK;
}

/* What came with the carry, and the rest of its block. *position: of the first of them; then of
 * what comes behind. */
static enum status prepare_aside(struct request *request, uint64_t *position, struct error *err)
{
    const struct part_sizes *sizes = &request->part->sizes;
    char *aside = part_aside(request);
    const uint64_t bytes = sizes->held * sizes->lines * sizes->element_bytes;
    const unsigned char *held =
        request->call.carry.start + CARRY_HEADER_BYTES + sizes->both_sums_bytes;
    struct part_phase *phase = NULL;
    TRY(parallel_copy(request->parallel, aside, held, bytes, err));
    TRY(part_read_planes(request, 0, sizes->head, aside + bytes, err));
    TRY(part_phase_add_aside(request, sizes->held + sizes->head, &phase, err));
    phase->position = part_kernel_position(*position);
    phase->more = sizes->held + sizes->head == SCAN_BLOCK;
    *position += SCAN_BLOCK;
    return STATUS_OK;
}

/* Elements for the carry to answer, behind its sums: those since the last whole block. Of
 * integers the last ones, in the place of the sums, until these are known. */
static enum status keep_held(struct request *request, struct error *err)
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
            TRY(parallel_copy(request->parallel, keep, held, bytes, err));
        }
        keep += bytes;
        count = sizes->elements;
    }
    return part_read_planes(request, sizes->elements - count, count, keep, err);
}

static enum status prepare_part(struct request *request, struct error *err)
{
    const struct part_sizes *sizes = &request->part->sizes;
    const struct scan_call *call = &request->call;
    uint64_t position = 0;
    TRY(take_sums(request, request->part->sums, err));
    if (call->carry.start != NULL) { /* of integers: any but 0 */
        position = sizes->is_float ? call->carry.position - sizes->held : SCAN_SUPERBLOCK;
    }
    if (sizes->held > 0 && sizes->head > 0 && sizes->lines > 0) {
        TRY(prepare_aside(request, &position, err));
    }
    if (sizes->hands_on) {
        TRY(keep_held(request, err));
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

/* ---- and after it ---- */

/* An integer's sum after the part: the last output, and the last element where that is not in
 * it, which is in its place so far. Without elements it is what it was. */
static enum status keep_last_sums(const struct request *request, struct error *err)
{
    const struct part_sizes *sizes = &request->part->sizes;
    const size_t bytes = sizes->element_bytes;
    const bool any = sizes->elements > 0;
    const size_t sum_bytes = any ? bytes : sizes->sum_bytes;
    char *kept = request->part->carry.bytes + CARRY_HEADER_BYTES;
    char *sums = (char *)request->part->sums; /* outputs are as wide or narrower */
    assert(sums != NULL);                     /* take_memory() */
    if (any) {
        struct scan_plan of_output = request->plan;
        of_output.axis.in_stride = of_output.axis.out_stride;
        for (int d = 0; d < of_output.dims; d++) {
            of_output.dim[d].in_stride = of_output.dim[d].out_stride;
        }
        const struct part_planes move = {.plan = &of_output,
                                         .cells = request_output_bytes(request),
                                         .first = sizes->elements - 1,
                                         .count = 1,
                                         .planes = sums};
        TRY(part_planes_move(request, &move, err));
    }
    for (uint64_t at = 0; at < sizes->lines; at += SUMS_AT_ONCE) {
        const uint64_t end = smaller_of(sizes->lines, at + SUMS_AT_ONCE);
        for (uint64_t i = at; i < end; i++) {
            uint64_t value = part_load(sums + i * sum_bytes, bytes);
            value += any && request->plan.exclusive ? part_load(kept + i * bytes, bytes) : 0;
            memcpy(kept + i * bytes, &value, bytes);
        }
        if (!parallel_step(request->parallel)) {
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
static enum status answer_carry(struct request *request, struct error *err)
{
    const struct part_sizes *sizes = &request->part->sizes;
    const struct scan_desc *desc = &request->call.desc;
    const struct carry_head head = {.dtype = sizes->dtype,
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
        if (!request->parallel->run(request->parallel, count, finish_piece, &round)) {
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

static enum status finish_part(struct request *request, struct error *err)
{
    const struct part_sizes *sizes = &request->part->sizes;
    if (sizes->held > 0 && sizes->head > 0 && sizes->lines > 0) {
        const struct part_planes move = {
            .plan = &request->plan,
            .cells = request_output_bytes(request),
            .output = true,
            .count = sizes->head,
            .planes = part_aside(request) + sizes->held * sizes->lines * sizes->element_bytes};
        TRY(part_planes_move(request, &move, err));
    }
    if (!sizes->hands_on) {
        return STATUS_OK;
    }
    if (!sizes->is_float) {
        TRY(keep_last_sums(request, err));
    }
    return answer_carry(request, err);
}

/* ---- totals ---- */

/* Whole superblocks are lines of their own; what is left is one more line of each line, filled up
 * with elements that change nothing. */

/* Fill lines up, in steps: for short lines these are up to 255 times as many bytes as came. */
static enum status fill_with_zeros(const struct request *request, char *elements,
                                   uint64_t count, struct error *err)
{
    const struct part_sizes *sizes = &request->part->sizes;
    const size_t bytes = sizes->element_bytes;
    const uint64_t step = PARALLEL_STEP_BYTES / bytes;
    const uint64_t first = smaller_of(count, step); /* what the others are copies of */
    put_zeros(elements, bytes, sizes->is_float, first);
    for (uint64_t at = first; at < count; at += step) {
        memcpy(elements + at * bytes, elements, smaller_of(count - at, step) * bytes);
        if (!parallel_step(request->parallel)) {
            return parallel_given_up(err);
        }
    }
    return STATUS_OK;
}

static enum status part_totals_prepare(struct request *request, struct error *err)
{
    struct part *part = request->part;
    const struct part_sizes *sizes = &part->sizes;
    const struct scan_plan *plan = &request->plan;
    const uint64_t whole = sizes->superblocks * SCAN_SUPERBLOCK;
    unsigned char *rest = part->sums + 2 * sizes->superblocks * sizes->lines * sizes->sum_bytes;
    struct part_phase *phase = NULL;
    if (plan->elements == 0) {
        return STATUS_OK;
    }
    if (sizes->superblocks > 0) {
        const uint64_t before = plan->reverse ? sizes->elements - whole : 0;
        scan_plan_superblocks(plan, &part->superblocks);
        part->superblocks.gaps = false; /* what is left over lies there */
        phase = part_phase_add(request, &part->superblocks, 0, SCAN_SUPERBLOCK);
        phase->in_offset += before * plan->axis.in_stride * sizes->element_bytes;
        phase->out_offset += before * plan->axis.out_stride * sizes->element_bytes;
        phase->sum_lines = sizes->superblocks * sizes->lines;
        phase->more = true;
    }
    if (sizes->block_elements > 0) {
        phase = part_phase_add(request, plan, whole, sizes->block_elements);
        phase->sums = rest;
        phase->more = true;
    }
    if (sizes->tail > 0) {
        char *aside = part_aside(request);
        TRY(fill_with_zeros(request, aside + sizes->tail * sizes->lines * sizes->element_bytes,
                            (SCAN_BLOCK - sizes->tail) * sizes->lines, err));
        TRY(part_read_planes(request, whole + sizes->block_elements, sizes->tail, aside, err));
        TRY(part_phase_add_aside(request, SCAN_BLOCK, &phase, err));
        phase->sums = rest;
        phase->position = sizes->block_elements;
        phase->more = true;
    }
    return STATUS_OK;
}

/* S and B of one superblock: one of them is all that there is. */
static uint64_t total_of(const struct part_sizes *sizes, const unsigned char *sums,
                         uint64_t count, uint64_t row)
{
    const unsigned char *at = sums + row * sizes->sum_bytes;
    const unsigned char *behind = at + count * sizes->sum_bytes;
    uint64_t total = 0;
    if (!sizes->is_float) {
        return part_load(at, sizes->element_bytes) + part_load(behind, sizes->element_bytes);
    }
    if (sizes->sum_bytes == sizeof(double)) {
        double parts[2];
        memcpy(&parts[0], at, sizeof parts[0]);
        memcpy(&parts[1], behind, sizeof parts[1]);
        const double sum = parts[0] + parts[1];
        memcpy(&total, &sum, sizeof sum);
    } else {
        float parts[2];
        memcpy(&parts[0], at, sizeof parts[0]);
        memcpy(&parts[1], behind, sizeof parts[1]);
        const float sum = parts[0] + parts[1];
        memcpy(&total, &sum, sizeof sum);
    }
    part_sums_settle(&total, sizes->sum_bytes, 1);
    return total;
}

static enum status part_totals_finish(struct request *request, struct error *err)
{
    const struct scan_desc *desc = &request->call.desc;
    const struct part *part = request->part;
    const struct part_sizes *sizes = &part->sizes;
    const size_t bytes = dtype_info(carry_sum_dtype(sizes->dtype))->bytes;
    const unsigned char *rest =
        part->sums + 2 * sizes->superblocks * sizes->lines * sizes->sum_bytes;
    char *out = request_output_bytes(request);
    uint64_t inner = 1;
    for (int64_t d = desc->rank - 1;
         d > (desc->axis < 0 ? desc->axis + desc->rank : desc->axis); d--) {
        inner *= (uint64_t)desc->sizes[d];
    }
    for (uint64_t line = 0; line < sizes->lines && request->plan.elements > 0; line++) {
        for (uint64_t k = 0; k < sizes->totals_per_line; k++) {
            uint64_t total = 0;
            if (k == sizes->superblocks) {
                total = total_of(sizes, rest, sizes->lines, line);
            } else {
                const uint64_t at = request->plan.reverse ? sizes->superblocks - 1 - k : k;
                const uint64_t row =
                    (line / inner * sizes->superblocks + at) * inner + line % inner;
                total = total_of(sizes, part->sums, sizes->superblocks * sizes->lines, row);
            }
            memcpy(out + (line * sizes->totals_per_line + k) * bytes, &total, bytes);
        }
        if (line % TOTALS_AT_ONCE == TOTALS_AT_ONCE - 1 && !parallel_step(request->parallel)) {
            return parallel_given_up(err);
        }
    }
    return STATUS_OK;
}

/* ---- from outside ---- */

enum status part_measure(const struct request *request, uint64_t *aside, uint64_t *memory,
                         struct error *err)
{
    struct part_sizes sizes;
    uint64_t total = 0;
    if (!part_sizes_of(request, &sizes) ||
        __builtin_add_overflow(sizes.carry_room_bytes, sizes.both_sums_bytes, &total) ||
        sizes.aside_bytes > INT64_MAX || total > INT64_MAX) {
        return memory_never_fits(request->server->memory, UINT64_MAX, err);
    }
    *aside = sizes.aside_bytes;
    const uint64_t in_head = request->codec_request.carry_bytes; /* and counted there */
    *memory = (sizes.carry_room_bytes > in_head ? sizes.carry_room_bytes - in_head : 0) +
              (sizes.sums_apart ? sizes.both_sums_bytes : 0) +
              (in_head > 0 ? 0 : request->call.carry.bytes);
    return STATUS_OK;
}

enum status part_prepare(struct request *request, struct error *err)
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
    return sizes.totals ? part_totals_prepare(request, err) : prepare_part(request, err);
}

void part_destroy(struct part *part, struct memory *memory)
{
    if (part != NULL) {
        text_free(memory, &part->own_sums);
        text_free(memory, &part->carry);
        free(part);
    }
}

enum status part_finish(struct request *request, struct error *err)
{
    return request->part->sizes.totals ? part_totals_finish(request, err)
                                       : finish_part(request, err);
}
