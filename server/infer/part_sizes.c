/* Sizes of parts and totals; see part_sizes.h. */
#include "server/infer/part_sizes.h"

#include "kernels/device.h"
#include "server/infer/part.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool times(uint64_t *value, uint64_t factor)
{
    return !__builtin_mul_overflow(*value, factor, value);
}

static void cut_totals(struct part_sizes *s)
{
    uint64_t rest = s->elements % SCAN_SUPERBLOCK;
    s->superblocks = s->elements / SCAN_SUPERBLOCK;
    s->tail = rest % SCAN_BLOCK;
    s->blocks = rest - s->tail;
}

static void cut_part(struct part_sizes *s)
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

bool part_sizes_of(const struct request *request, struct part_sizes *out)
{
    const struct scan_call *call = &request->call;
    const struct scan_plan *plan = &request->plan;
    const struct dtype_info *info = dtype_info(plan->dtype);
    struct part_sizes s = {.dtype = plan->dtype,
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
    if (!times(&s.sums_bytes, 2 * s.sum) || s.carry_bytes == UINT64_MAX ||
        s.sums_bytes > INT64_MAX || s.carry_bytes > INT64_MAX) {
        return false;
    }
    s.room_bytes = s.carry_bytes;
    if (s.is_float && !s.totals) {
        s.room_bytes = larger(s.carry_bytes, CARRY_HEADER_BYTES + s.sums_bytes);
    }
    s.room_bytes += CARRY_ROOM;
    s.sums_apart = !s.is_float || s.totals;
    *out = s;
    return true;
}

enum status part_measure(const struct request *request, uint64_t *aside, uint64_t *memory,
                         struct error *err)
{
    struct part_sizes s;
    uint64_t total = 0;
    if (!part_sizes_of(request, &s) ||
        __builtin_add_overflow(s.room_bytes, s.sums_bytes, &total) ||
        s.aside_bytes > INT64_MAX || total > INT64_MAX) {
        return error_set_field(err, STATUS_TOO_LARGE, "shape",
                               "the sums of so many lines are too large for any memory");
    }
    *aside = s.aside_bytes;
    const uint64_t in_head = request->codec_request.carry_bytes; /* and counted there */
    *memory = (s.room_bytes > in_head ? s.room_bytes - in_head : 0) +
              (s.sums_apart ? s.sums_bytes : 0) + (in_head > 0 ? 0 : request->call.carry.bytes);
    return STATUS_OK;
}
