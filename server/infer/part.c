/* Sizes, phases, and the elements that are copied; see part.h. */
#include "server/infer/part.h"

#include "kernels/device.h"

#include <stdlib.h>
#include <string.h>

enum {
    LINES_AT_ONCE = 1024,    /* whose elements are copied together: they stay in a cache */
    SUMS_AT_ONCE = 16 << 10, /* between two steps */
};

/* What a part comes to; of totals the same with nothing that comes and no output of its own. */
struct sizes {
    enum dtype dtype;
    bool is_float;
    bool totals;
    bool hands_on; /* a carry is answered */
    size_t element;
    size_t sum; /* bytes, as kernels have it */
    uint64_t lines;
    uint64_t elements;    /* along the axis */
    uint64_t held;        /* of a line, that came */
    uint64_t head;        /* of a line, that go aside behind these */
    uint64_t blocks;      /* elements in the whole blocks behind that, or in all that follows */
    uint64_t tail;        /* elements less than a block, from which nothing is handed on */
    uint64_t superblocks; /* totals: whole ones */
    uint64_t aside_bytes; /* in the block */
    uint64_t sums;        /* of S, and of B */
    uint64_t sums_bytes;  /* of both */
    uint64_t carry_bytes; /* to answer */
};

static bool times(uint64_t *value, uint64_t factor)
{
    return !__builtin_mul_overflow(*value, factor, value);
}

static void cut_totals(struct sizes *s)
{
    uint64_t rest = s->elements % SCAN_SUPERBLOCK;
    s->superblocks = s->elements / SCAN_SUPERBLOCK;
    s->tail = rest % SCAN_BLOCK;
    s->blocks = rest - s->tail;
}

static void cut_part(struct sizes *s)
{
    uint64_t rest = s->elements;
    if (s->held > 0) {
        uint64_t missing = SCAN_BLOCK - s->held;
        s->head = rest < missing ? rest : missing;
        rest -= s->head;
    }
    s->tail = s->is_float && s->hands_on ? rest % SCAN_BLOCK : 0;
    s->blocks = rest - s->tail;
}

/* False: more than can be addressed. */
static bool measure(const struct request *request, struct sizes *out)
{
    const struct scan_call *call = &request->call;
    const struct scan_plan *plan = &request->plan;
    const struct dtype_info *info = dtype_info(plan->dtype);
    struct sizes s = {.dtype = plan->dtype,
                      .is_float = info->kind == DTYPE_KIND_FLOAT,
                      .totals = call->totals,
                      .hands_on = !call->totals && call->desc.part != SCAN_PART_LAST,
                      .element = info->bytes,
                      .sum = scan_accumulator_bytes(plan->dtype, plan->precision),
                      .held = call->carry.held};
    if (!carry_geometry(&call->desc, &s.lines, &s.elements)) {
        return false;
    }
    if (s.totals) {
        cut_totals(&s);
    } else {
        cut_part(&s);
    }
    uint64_t planes = s.totals     ? (s.tail > 0 ? SCAN_BLOCK : 0)
                      : s.held > 0 ? s.held + s.head
                                   : 0;
    s.aside_bytes = s.lines;
    s.sums = s.lines;
    if (!times(&s.aside_bytes, planes * s.element) ||
        !times(&s.sums, s.totals ? s.superblocks + (s.blocks + s.tail > 0 ? 1 : 0) : 1)) {
        return false;
    }
    s.sums_bytes = s.sums;
    s.carry_bytes = carry_answer_size(&call->desc, s.held);
    if (!times(&s.sums_bytes, 2 * s.sum) || s.carry_bytes == UINT64_MAX) {
        return false;
    }
    *out = s;
    return true;
}

enum status part_measure(const struct request *request, uint64_t *aside, uint64_t *memory,
                         struct error *err)
{
    struct sizes s;
    uint64_t total = 0;
    if (!measure(request, &s) || __builtin_add_overflow(s.carry_bytes, s.sums_bytes, &total) ||
        s.aside_bytes > INT64_MAX || total > INT64_MAX) {
        return error_set_field(err, STATUS_TOO_LARGE, "shape",
                               "the sums of so many lines are too large for any memory");
    }
    *aside = s.aside_bytes;
    const bool in_head = request->codec_request.carry_bytes > 0; /* and counted there */
    *memory = total + CARRY_ROOM + (in_head ? 0 : request->call.carry.bytes);
    return STATUS_OK;
}

/* ---- elements, copied ---- */

/* A run of elements along the axis between a tensor and planes, one for each element of the
 * axis in the order of traversal, of the elements of all lines. */
struct planes {
    const struct scan_plan *plan;
    char *cells; /* of the tensor's side, all indices 0 */
    bool output; /* the tensor is the output, and is written to; else the input, and is read */
    uint64_t first; /* of the axis, as it is traversed */
    uint64_t count;
    char *planes;
};

/* Some lines that are neighbours in the innermost dimension. */
static void copy_lines(const struct planes *p, uint64_t line, uint64_t at, uint64_t step,
                       uint64_t count)
{
    const struct scan_plan *plan = p->plan;
    const size_t bytes = dtype_info(plan->dtype)->bytes;
    const uint64_t along = p->output ? plan->axis.out_stride : plan->axis.in_stride;
    for (uint64_t i = 0; i < p->count; i++) {
        const uint64_t t = p->first + i;
        const uint64_t index = plan->reverse ? plan->axis.size - 1 - t : t;
        char *cells = p->cells + (at + index * along) * bytes;
        char *plane = p->planes + (i * plan->lines + line) * bytes;
        if (p->output) {
            scan_copy_elements(cells, step, plane, 1, count, bytes);
        } else {
            scan_copy_elements(plane, 1, cells, step, count, bytes);
        }
    }
}

static enum status move_planes(const struct planes *p, const struct parallel *parallel,
                               struct error *err)
{
    const struct scan_plan *plan = p->plan;
    const struct scan_dim one = {1, 1, 1};
    const struct scan_dim *inner = plan->dims > 0 ? &plan->dim[plan->dims - 1] : &one;
    const uint64_t step = p->output ? inner->out_stride : inner->in_stride;
    uint64_t moved = 0;
    for (uint64_t line = 0; p->count > 0 && line < plan->lines;) {
        uint64_t rest = line;
        uint64_t at = 0;
        uint64_t first = 0;
        for (int d = plan->dims - 1; d >= 0; d--) {
            const struct scan_dim *dim = &plan->dim[d];
            first = d == plan->dims - 1 ? rest % dim->size : first;
            at += rest % dim->size * (p->output ? dim->out_stride : dim->in_stride);
            rest /= dim->size;
        }
        uint64_t count = inner->size - first;
        count = count < LINES_AT_ONCE ? count : LINES_AT_ONCE;
        copy_lines(p, line, at, step, count);
        line += count;
        moved += count * p->count * dtype_info(plan->dtype)->bytes;
        if (moved >= PARALLEL_STEP_BYTES) {
            moved = 0;
            if (!parallel_step(parallel)) {
                return parallel_given_up(err);
            }
        }
    }
    return STATUS_OK;
}

static enum status read_planes(const struct request *request, uint64_t first, uint64_t count,
                               void *planes, const struct parallel *parallel, struct error *err)
{
    const struct planes p = {.plan = &request->plan,
                             .cells = request_block_at(request, request->in_offset),
                             .first = first,
                             .count = count,
                             .planes = planes};
    return move_planes(&p, parallel, err);
}

/* ---- sums ---- */

/* Sums that nothing was added to yet. */
static void begin_sums(const struct sizes *s, unsigned char *sums, bool plus, uint64_t count)
{
    memset(sums, 0, count * s->sum);
    for (uint64_t i = 0; s->is_float && !plus && i < count; i++) {
        sums[(i + 1) * s->sum - 1] = 0x80; /* -0.0 */
    }
}

/* Elements that change nothing. */
static void begin_elements(const struct sizes *s, char *elements, uint64_t count)
{
    memset(elements, 0, count * s->element);
    for (uint64_t i = 0; s->is_float && i < count; i++) {
        elements[(i + 1) * s->element - 1] = (char)0x80; /* -0.0 in every type */
    }
}

static uint64_t load(const void *at, size_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

/* The sums that came, as the kernels have them. */
static enum status take_sums(const struct request *request, const struct sizes *s,
                             unsigned char *sums, const struct parallel *parallel,
                             struct error *err)
{
    const unsigned char *came = request->call.carry.start;
    unsigned char *behind = sums + s->lines * s->sum; /* B */
    if (came != NULL && s->is_float) {
        return parallel_copy(parallel, sums, came + CARRY_HEADER_BYTES, s->sums_bytes, err);
    }
    for (uint64_t at = 0; at < s->lines; at += SUMS_AT_ONCE) {
        const uint64_t left = s->lines - at;
        const uint64_t count = left < SUMS_AT_ONCE ? left : SUMS_AT_ONCE;
        begin_sums(s, sums + at * s->sum, request->plan.exclusive, count);
        begin_sums(s, behind + at * s->sum, false, count);
        for (uint64_t i = at; came != NULL && i < at + count; i++) { /* narrower ones wrap */
            memcpy(sums + i * s->sum, came + CARRY_HEADER_BYTES + i * s->element, s->element);
        }
        if (!parallel_step(parallel)) {
            return parallel_given_up(err);
        }
    }
    return STATUS_OK;
}

/* ---- phases ---- */

/* Elements first..first + length - 1 of the axis of a plan, where the tensor is. */
static struct part_phase *add_phase(struct request *request, const struct sizes *s,
                                    const struct scan_plan *plan, uint64_t first,
                                    uint64_t length)
{
    struct part *part = request->part;
    struct part_phase *phase = &part->phases[part->phase_count++];
    *phase = (struct part_phase){.in_offset = request->in_offset,
                                 .out_offset = request->out_offset,
                                 .sums = part->sums,
                                 .sum_lines = s->lines,
                                 .sum_bytes = s->sum};
    scan_slicing_carried(plan, first, length, &phase->slicing);
    return phase;
}

static char *aside_of(const struct request *request)
{
    return request_block_at(request, request->block.offset + request->body.side_at);
}

/* So many planes aside. */
static enum status add_aside(struct request *request, const struct sizes *s, uint64_t planes,
                             struct part_phase **phase, struct error *err)
{
    const struct scan_plan *plan = &request->plan;
    struct scan_plan *aside = &request->part->aside;
    const struct scan_desc desc = {.dtype = plan->dtype,
                                   .precision = plan->precision,
                                   .rank = 2,
                                   .sizes = {(int64_t)planes, (int64_t)s->lines},
                                   .exclusive = plan->exclusive};
    enum status status = scan_plan_make(&desc, aside, err);
    if (status == STATUS_OK) {
        *phase = add_phase(request, s, aside, 0, planes);
        (*phase)->in_offset = request->block.offset + request->body.side_at;
        (*phase)->out_offset = (*phase)->in_offset;
    }
    return status;
}

/* A position that means the same to the kernels, and is not taken for none. */
static uint64_t kernel_position(uint64_t position)
{
    return position < SCAN_SUPERBLOCK ? position : SCAN_SUPERBLOCK + position % SCAN_SUPERBLOCK;
}

/* What came with the carry, and the rest of its block. *position: of the first of them; then of
 * what comes behind. */
static enum status prepare_aside(struct request *request, const struct sizes *s,
                                 uint64_t *position, const struct parallel *parallel,
                                 struct error *err)
{
    char *aside = aside_of(request);
    const uint64_t bytes = s->held * s->lines * s->element;
    const unsigned char *held = request->call.carry.start + CARRY_HEADER_BYTES + s->sums_bytes;
    struct part_phase *phase = NULL;
    enum status status = parallel_copy(parallel, aside, held, bytes, err);
    if (status == STATUS_OK) {
        status = read_planes(request, 0, s->head, aside + bytes, parallel, err);
    }
    if (status == STATUS_OK) {
        status = add_aside(request, s, s->held + s->head, &phase, err);
    }
    if (status == STATUS_OK) {
        phase->position = kernel_position(*position);
        phase->more = s->held + s->head == SCAN_BLOCK;
        *position += SCAN_BLOCK;
    }
    return status;
}

/* Elements for the carry to answer, behind its sums: those since the last whole block. Of
 * integers the last ones, in the place of the sums, until these are known. */
static enum status keep_held(struct request *request, const struct sizes *s,
                             const struct parallel *parallel, struct error *err)
{
    char *keep = request->part->carry + CARRY_HEADER_BYTES;
    uint64_t count = s->elements > 0 ? 1 : 0;
    if (s->is_float) {
        const uint64_t before = s->held * s->lines * s->element;
        keep += s->sums_bytes;
        count = s->tail;
        if (s->held > 0 && s->held + s->elements < SCAN_BLOCK) { /* no block is whole yet */
            const unsigned char *held =
                request->call.carry.start + CARRY_HEADER_BYTES + s->sums_bytes;
            enum status status = parallel_copy(parallel, keep, held, before, err);
            if (status != STATUS_OK) {
                return status;
            }
            keep += before;
            count = s->elements;
        }
    }
    return read_planes(request, s->elements - count, count, keep, parallel, err);
}

static enum status prepare_part(struct request *request, const struct sizes *s,
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
        struct part_phase *phase = add_phase(request, s, &request->plan, s->head, s->blocks);
        phase->position = kernel_position(position);
        phase->more = s->is_float && s->hands_on;
        position += s->blocks;
    }
    if (s->tail > 0) {
        struct part_phase *phase =
            add_phase(request, s, &request->plan, s->head + s->blocks, s->tail);
        phase->position = kernel_position(position);
    }
    return STATUS_OK;
}

/* Whole superblocks are lines of their own; what is left is one more line of each line, filled
 * up with elements that change nothing. */
static enum status prepare_totals(struct request *request, const struct sizes *s,
                                  const struct parallel *parallel, struct error *err)
{
    struct part *part = request->part;
    const struct scan_plan *plan = &request->plan;
    const uint64_t whole = s->superblocks * SCAN_SUPERBLOCK;
    unsigned char *rest = part->sums + 2 * s->superblocks * s->lines * s->sum;
    struct part_phase *phase = NULL;
    if (plan->pattern == SCAN_EMPTY) {
        return STATUS_OK;
    }
    if (s->superblocks > 0) {
        const uint64_t before = plan->reverse ? s->elements - whole : 0;
        scan_plan_superblocks(plan, &part->superblocks);
        part->superblocks.gaps = false; /* what is left over lies there */
        phase = add_phase(request, s, &part->superblocks, 0, SCAN_SUPERBLOCK);
        phase->in_offset += before * plan->axis.in_stride * s->element;
        phase->out_offset += before * plan->axis.out_stride * s->element;
        phase->sum_lines = s->superblocks * s->lines;
        phase->more = true;
    }
    if (s->blocks > 0) {
        phase = add_phase(request, s, plan, whole, s->blocks);
        phase->sums = rest;
        phase->more = true;
    }
    if (s->tail > 0) {
        char *aside = aside_of(request);
        begin_elements(s, aside + s->tail * s->lines * s->element,
                       (SCAN_BLOCK - s->tail) * s->lines);
        enum status status =
            read_planes(request, whole + s->blocks, s->tail, aside, parallel, err);
        if (status == STATUS_OK) {
            status = add_aside(request, s, SCAN_BLOCK, &phase, err);
        }
        if (status != STATUS_OK) {
            return status;
        }
        phase->sums = rest;
        phase->position = s->blocks;
        phase->more = true;
    }
    return STATUS_OK;
}

enum status part_prepare(struct request *request, const struct parallel *parallel,
                         struct error *err)
{
    struct sizes s;
    if (!measure(request, &s)) {
        return error_set(err, STATUS_INTERNAL, "the part's geometry was not refused in time");
    }
    struct part *part = calloc(1, sizeof *part);
    request->part = part;
    if (part != NULL && s.hands_on) {
        part->carry = malloc((size_t)s.carry_bytes + CARRY_ROOM);
    }
    const bool inside = s.hands_on && s.is_float; /* the sums of the carry are the kernels' */
    if (part != NULL && !inside) {
        part->sums = malloc((size_t)s.sums_bytes + 1);
    } else if (part != NULL && part->carry != NULL) {
        part->sums = (unsigned char *)part->carry + CARRY_HEADER_BYTES;
    }
    if (part == NULL || part->sums == NULL || (s.hands_on && part->carry == NULL)) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the sums of %llu lines",
                         (unsigned long long)s.lines);
    }
    return s.totals ? prepare_totals(request, &s, parallel, err)
                    : prepare_part(request, &s, parallel, err);
}

void part_destroy(struct part *part)
{
    if (part == NULL) {
        return;
    }
    if (part->carry == NULL ||
        part->sums != (unsigned char *)part->carry + CARRY_HEADER_BYTES) {
        free(part->sums);
    }
    free(part->carry);
    free(part);
}

/* ---- the end ---- */

/* An integer's sum after the part: the last output, and the last element where that is not in
 * it. Without elements it is what it was. */
static enum status last_sums(const struct request *request, const struct sizes *s,
                             const struct parallel *parallel, struct error *err)
{
    char *kept = request->part->carry + CARRY_HEADER_BYTES;
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
    const struct planes p = {.plan = &of_output,
                             .cells = request_output_bytes(request),
                             .first = s->elements - 1,
                             .count = 1,
                             .planes = outputs};
    enum status status = move_planes(&p, parallel, err);
    for (uint64_t i = 0; status == STATUS_OK && i < s->lines; i++) {
        uint64_t value = load(outputs + i * s->element, s->element);
        value += request->plan.exclusive ? load(kept + i * s->element, s->element) : 0;
        memcpy(kept + i * s->element, &value, s->element);
    }
    return status;
}

/* Hardware disagrees about the sign and payload of a NaN: they are not kept (docs/design/
 * numerics.md). */
static enum status settle_nans(void *sums, size_t bytes, uint64_t count,
                               const struct parallel *parallel, struct error *err)
{
    const bool wide = bytes == 8;
    const uint64_t nan = wide ? UINT64_C(0x7FF8000000000000) : UINT64_C(0x7FC00000);
    const uint64_t infinity = wide ? UINT64_C(0x7FF0000000000000) : UINT64_C(0x7F800000);
    for (uint64_t i = 0; i < count; i++) {
        char *at = (char *)sums + i * bytes;
        const uint64_t bits = load(at, bytes);
        const uint64_t magnitude = bits & (wide ? UINT64_MAX >> 1 : UINT32_MAX >> 1);
        if (magnitude > infinity) {
            memcpy(at, &nan, bytes);
        }
        if (i % SUMS_AT_ONCE == SUMS_AT_ONCE - 1 && !parallel_step(parallel)) {
            return parallel_given_up(err);
        }
    }
    return STATUS_OK;
}

static enum status finish_part(struct request *request, const struct sizes *s,
                               const struct parallel *parallel, struct error *err)
{
    struct part *part = request->part;
    enum status status = STATUS_OK;
    if (s->held > 0 && s->head > 0 && s->lines > 0) {
        const struct planes p = {.plan = &request->plan,
                                 .cells = request_output_bytes(request),
                                 .output = true,
                                 .count = s->head,
                                 .planes = aside_of(request) + s->held * s->lines * s->element};
        status = move_planes(&p, parallel, err);
    }
    if (status == STATUS_OK && s->hands_on && !s->is_float) {
        status = last_sums(request, s, parallel, err);
    }
    if (status == STATUS_OK && s->hands_on && s->is_float) {
        status = settle_nans(part->sums, s->sum, s->sums * 2, parallel, err);
    }
    if (status != STATUS_OK || !s->hands_on) {
        return status;
    }
    const struct scan_desc *desc = &request->call.desc;
    const struct carry_head head = {.dtype = s->dtype,
                                    .precision = desc->precision,
                                    .exclusive = desc->exclusive,
                                    .reverse = desc->reverse,
                                    .lines = s->lines,
                                    .position = request->call.carry.position + s->elements};
    status = carry_seal(&head, (unsigned char *)part->carry, s->carry_bytes, parallel, err);
    if (status == STATUS_OK) {
        request->answer.head = part->carry;
        request->answer.head_bytes = (size_t)s->carry_bytes;
        part->sums = s->is_float ? NULL : part->sums; /* they went with it */
        part->carry = NULL;
    }
    return status;
}

/* S and B of one superblock: one of them is all that there is. */
static uint64_t total_of(const struct sizes *s, const unsigned char *sums, uint64_t count,
                         uint64_t row)
{
    const unsigned char *at = sums + row * s->sum;
    const unsigned char *behind = at + count * s->sum;
    uint64_t total = 0;
    if (!s->is_float) {
        return load(at, s->element) + load(behind, s->element);
    }
    if (s->sum == sizeof(double)) {
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
    (void)settle_nans(&total, s->sum, 1, NULL, NULL);
    return total;
}

static enum status finish_totals(struct request *request, const struct sizes *s,
                                 const struct parallel *parallel, struct error *err)
{
    const struct scan_desc *desc = &request->call.desc;
    const struct part *part = request->part;
    const size_t bytes = dtype_info(carry_sum_dtype(s->dtype, request->plan.precision))->bytes;
    const uint64_t each = s->superblocks + (s->blocks + s->tail > 0 ? 1 : 0);
    const unsigned char *rest = part->sums + 2 * s->superblocks * s->lines * s->sum;
    char *out = request_output_bytes(request);
    uint64_t inner = 1;
    for (int64_t d = desc->rank - 1;
         d > (desc->axis < 0 ? desc->axis + desc->rank : desc->axis); d--) {
        inner *= (uint64_t)desc->sizes[d];
    }
    for (uint64_t line = 0; line < s->lines && request->plan.pattern != SCAN_EMPTY; line++) {
        for (uint64_t k = 0; k < each; k++) {
            uint64_t total = 0;
            if (k == s->superblocks) {
                total = total_of(s, rest, s->lines, line);
            } else {
                const uint64_t at = request->plan.reverse ? s->superblocks - 1 - k : k;
                const uint64_t row =
                    (line / inner * s->superblocks + at) * inner + line % inner;
                total = total_of(s, part->sums, s->superblocks * s->lines, row);
            }
            memcpy(out + (line * each + k) * bytes, &total, bytes);
        }
        if (line % LINES_AT_ONCE == LINES_AT_ONCE - 1 && !parallel_step(parallel)) {
            return parallel_given_up(err);
        }
    }
    return STATUS_OK;
}

enum status part_finish(struct request *request, const struct parallel *parallel,
                        struct error *err)
{
    struct sizes s;
    if (!measure(request, &s)) {
        return error_set(err, STATUS_INTERNAL, "the part's geometry was not refused in time");
    }
    return s.totals ? finish_totals(request, &s, parallel, err)
                    : finish_part(request, &s, parallel, err);
}
