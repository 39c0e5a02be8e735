/* Phases of a part; see part_phases.h. */
#include "server/infer/part_phases.h"

#include "server/infer/part_planes.h"

struct part_phase *part_phase_add(struct request *request, const struct part_sizes *sizes,
                                  const struct scan_plan *plan, uint64_t first, uint64_t length)
{
    struct part *part = request->part;
    struct part_phase *phase = &part->phases[part->phase_count++];
    *phase = (struct part_phase){.in_offset = request->in_offset,
                                 .out_offset = request->out_offset,
                                 .sums = part->sums,
                                 .sum_lines = sizes->lines,
                                 .sum_bytes = sizes->sum_bytes};
    scan_slicing_carried(plan, first, length, &phase->slicing);
    return phase;
}

char *part_aside(const struct request *request)
{
    return request_block_at(request, request->block.offset + request->body.side_at);
}

enum status part_phase_add_aside(struct request *request, const struct part_sizes *sizes,
                                 uint64_t planes, struct part_phase **phase, struct error *err)
{
    const struct scan_plan *plan = &request->plan;
    struct scan_plan *aside = &request->part->aside;
    const struct scan_desc desc = {.dtype = plan->dtype,
                                   .precision = plan->precision,
                                   .rank = 2,
                                   .sizes = {(int64_t)planes, (int64_t)sizes->lines},
                                   .exclusive = plan->exclusive};
    TRY(scan_plan_make(&desc, aside, err));
    *phase = part_phase_add(request, sizes, aside, 0, planes);
    (*phase)->in_offset = request->block.offset + request->body.side_at;
    (*phase)->out_offset = (*phase)->in_offset;
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
