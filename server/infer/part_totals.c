/* Totals of superblocks; see part_totals.h. */
#include "server/infer/part_totals.h"

#include "server/infer/part_phases.h"
#include "server/infer/part_sums.h"

#include <string.h>

enum {
    LINES_AT_ONCE = 1024 /* whose totals are written between two steps */
};

/* Elements that change nothing. */
static void begin_elements(const struct part_sizes *s, char *elements, uint64_t count)
{
    memset(elements, 0, count * s->element);
    for (uint64_t i = 0; s->is_float && i < count; i++) {
        elements[(i + 1) * s->element - 1] = (char)0x80; /* -0.0 in every type */
    }
}

enum status part_totals_prepare(struct request *request, const struct part_sizes *s,
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
        phase = part_phase_add(request, s, &part->superblocks, 0, SCAN_SUPERBLOCK);
        phase->in_offset += before * plan->axis.in_stride * s->element;
        phase->out_offset += before * plan->axis.out_stride * s->element;
        phase->sum_lines = s->superblocks * s->lines;
        phase->more = true;
    }
    if (s->blocks > 0) {
        phase = part_phase_add(request, s, plan, whole, s->blocks);
        phase->sums = rest;
        phase->more = true;
    }
    if (s->tail > 0) {
        char *aside = part_aside(request);
        begin_elements(s, aside + s->tail * s->lines * s->element,
                       (SCAN_BLOCK - s->tail) * s->lines);
        enum status status =
            part_read_planes(request, whole + s->blocks, s->tail, aside, parallel, err);
        if (status == STATUS_OK) {
            status = part_phase_add_aside(request, s, SCAN_BLOCK, &phase, err);
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

/* S and B of one superblock: one of them is all that there is. */
static uint64_t total_of(const struct part_sizes *s, const unsigned char *sums, uint64_t count,
                         uint64_t row)
{
    const unsigned char *at = sums + row * s->sum;
    const unsigned char *behind = at + count * s->sum;
    uint64_t total = 0;
    if (!s->is_float) {
        return part_load(at, s->element) + part_load(behind, s->element);
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
    return part_sum_settled(total, s->sum);
}

enum status part_totals_finish(struct request *request, const struct part_sizes *s,
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
