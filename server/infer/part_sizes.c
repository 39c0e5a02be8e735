/* How a part, or a tensor whose totals are asked for, is cut, and the bytes that come of it.
 * Pure. */
#include "server/infer/part_work.h"

#include "kernels/device.h"
#include "server/sched/server.h"

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

bool part_sizes_of(const struct request *request, struct part_sizes *out)
{
    const struct scan_call *call = &request->call;
    const struct scan_plan *plan = &request->plan;
    const struct dtype_info *info = dtype_info(plan->dtype);
    struct part_sizes sizes = {.dtype = plan->dtype,
                               .is_float = info->kind == DTYPE_KIND_FLOAT,
                               .totals = call->totals,
                               .hands_on = !call->totals && call->desc.part != SCAN_PART_LAST,
                               .element_bytes = info->bytes,
                               .sum_bytes =
                                   scan_accumulator_bytes(plan->dtype, plan->precision),
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
