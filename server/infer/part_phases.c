/* The phases of a part, runs along the axis that are scanned one after the other, where the tensor
 * is or aside; and planes of its elements. */
#include "server/infer/part_work.h"

#include "kernels/split.h"

struct part_phase *part_phase_add(struct request *request, const struct scan_plan *plan,
                                  uint64_t first, uint64_t length)
{
    struct part *part = request->part;
    struct part_phase *phase = &part->phases[part->phase_count++];
    *phase = (struct part_phase){.in_offset = request->in_offset,
                                 .out_offset = request->out_offset,
                                 .sums = part->sums,
                                 .sum_lines = part->sizes.lines,
                                 .sum_bytes = part->sizes.sum_bytes};
    scan_slicing_carried(plan, first, length, &phase->slicing);
    return phase;
}

char *part_aside(const struct request *request)
{
    return request_block_at(request, request->block.offset + request->body.side_at);
}

enum status part_phase_add_aside(struct request *request, uint64_t planes,
                                 struct part_phase **phase, struct error *err)
{
    const struct scan_plan *plan = &request->plan;
    struct scan_plan *aside = &request->part->aside;
    const struct scan_desc desc = {
        .dtype = plan->dtype,
        .precision = plan->precision,
        .rank = 2,
        .sizes = {(int64_t)planes, (int64_t)request->part->sizes.lines},
        .exclusive = plan->exclusive};
    TRY(scan_plan_make(&desc, aside, err));
    *phase = part_phase_add(request, aside, 0, planes);
    (*phase)->in_offset = request->block.offset + request->body.side_at;
    (*phase)->out_offset = (*phase)->in_offset;
    return STATUS_OK;
}

/* ---- planes ---- */

enum {
    LINES_AT_ONCE = 1024, /* whose elements are copied together: they stay in a cache */
    NEIGHBOURS_AT_ONCE = 4096
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

enum status part_planes_move(const struct part_planes *move, const struct parallel *parallel,
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
            if (!parallel_step(parallel)) {
                return parallel_given_up(err);
            }
        }
    }
    return STATUS_OK;
}

enum status part_read_planes(const struct request *request, uint64_t first, uint64_t count,
                             void *planes, const struct parallel *parallel, struct error *err)
{
    const struct part_planes move = {.plan = &request->plan,
                                     .cells = request_block_at(request, request->in_offset),
                                     .first = first,
                                     .count = count,
                                     .planes = planes};
    return part_planes_move(&move, parallel, err);
}
