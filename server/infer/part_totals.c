/* Totals: what the lines sum up to in each superblock of the axis, [lines][superblocks] in the
 * accumulator's type. Whole superblocks are lines of their own; what is left is one more line of
 * each line, filled up with elements that change nothing. */
#include "server/infer/part_work.h"

#include <string.h>

enum {
    LINES_AT_ONCE = 1024 /* whose totals are written between two steps */
};

/* With the zeros that change no sum: of short lines up to 255 times what came. */
static enum status fill_with_zeros(const struct part_sizes *sizes, char *elements,
                                   uint64_t count, const struct parallel *parallel,
                                   struct error *err)
{
    const size_t bytes = sizes->element_bytes;
    const uint64_t step = PARALLEL_STEP_BYTES / bytes;
    const uint64_t first = smaller_of(count, step); /* what the others are copies of */
    memset(elements, 0, first * bytes);
    for (uint64_t i = 0; sizes->is_float && i < first; i++) {
        elements[(i + 1) * bytes - 1] = (char)0x80; /* -0.0 in every type */
    }
    for (uint64_t at = first; at < count; at += step) {
        memcpy(elements + at * bytes, elements, smaller_of(count - at, step) * bytes);
        if (!parallel_step(parallel)) {
            return parallel_given_up(err);
        }
    }
    return STATUS_OK;
}

enum status part_totals_prepare(struct request *request, const struct parallel *parallel,
                                struct error *err)
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
        TRY(fill_with_zeros(sizes, aside + sizes->tail * sizes->lines * sizes->element_bytes,
                            (SCAN_BLOCK - sizes->tail) * sizes->lines, parallel, err));
        TRY(part_read_planes(request, whole + sizes->block_elements, sizes->tail, aside,
                             parallel, err));
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

enum status part_totals_finish(struct request *request, const struct parallel *parallel,
                               struct error *err)
{
    const struct scan_desc *desc = &request->call.desc;
    const struct part *part = request->part;
    const struct part_sizes *sizes = &part->sizes;
    const size_t bytes =
        dtype_info(carry_sum_dtype(sizes->dtype, request->plan.precision))->bytes;
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
        if (line % LINES_AT_ONCE == LINES_AT_ONCE - 1 && !parallel_step(parallel)) {
            return parallel_given_up(err);
        }
    }
    return STATUS_OK;
}
