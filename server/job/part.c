/* Parts and totals, from the carry of the request to the carry of the answer; see part.h. */
#include "server/job/part.h"

#include "kernels/device.h"
#include "server/sched/server.h"

#include <inttypes.h>
#include <stdlib.h>

/* Compute the header of the carry in the answer. Returns false if the carry would exceed
 * INT64_MAX bytes of memory. */
static bool make_carry_head(const struct request *request, struct carry_head *head)
{
    const struct scan_desc *desc = &request->scan.call.desc;
    uint64_t elements = 0;
    *head = (struct carry_head){.dtype = desc->dtype,
                                .exclusive = desc->exclusive,
                                .reverse = desc->reverse,
                                .nan = desc->nan};
    const bool fits = carry_geometry(desc, &head->lines, &elements) &&
                      carry_room(head->dtype, head->lines) <= INT64_MAX - CARRY_ROOM;
    head->position = request->scan.call.carry.position + elements + desc->has_initial;
    return fits;
}

enum status part_measure(const struct request *request, uint64_t *memory, struct error *err)
{
    struct carry_head head;
    /* A carry in the head of the request is counted with the head. */
    const bool in_head = request->arrival.codec_request.carry_bytes > 0;
    if (!make_carry_head(request, &head)) {
        return memory_never_fits(request->server->memory, UINT64_MAX, err);
    }
    *memory = carry_room(head.dtype, head.lines) + CARRY_ROOM +
              (in_head ? 0 : request->scan.call.carry.bytes);
    return STATUS_OK;
}

/* Write the initial sum of each line to part->sums: the sum in the received carry, or the
 * initial value, or zero. */
static enum status write_initial_sums(const struct request *request, const struct part *part,
                                      struct error *err)
{
    const struct scan_call *call = &request->scan.call;
    struct carry_head head = part->head;
    head.position = call->carry.position;
    if (call->carry.start == NULL) {
        const uint64_t *initial = call->desc.has_initial ? &call->desc.initial : NULL;
        return carry_begin(&head, initial, request->parallel, part->sums, err);
    }
    return carry_decode(&head, call->carry.start, call->carry.bytes, request->parallel,
                        part->sums, err);
}

enum status part_prepare(struct request *request, struct error *err)
{
    struct carry_head head;
    if (!make_carry_head(request, &head)) {
        return error_set(err, STATUS_INTERNAL, "the part's geometry was not refused in time");
    }
    struct part *part = calloc(1, sizeof *part);
    request->scan.part = part;
    if (part == NULL || !text_grow(request->server->memory, &part->carry, 0,
                                   (size_t)carry_room(head.dtype, head.lines) + CARRY_ROOM)) {
        return error_set(err, STATUS_OUT_OF_MEMORY,
                         "no memory for the sums of %" PRIu64 " lines", head.lines);
    }
    part->head = head;
    part->sum_bytes = scan_carry_bytes(head.dtype);
    part->sums = (unsigned char *)part->carry.bytes + carry_sums_at(head.dtype, head.lines);
    part->carries =
        request->scan.call.carry.start != NULL || request->scan.call.desc.has_initial;
    if (request->scan.plan.elements > 0) {
        scan_slicing_carried(&request->scan.plan, &part->slicing);
    }
    return part->carries || request->scan.plan.elements == 0
               ? write_initial_sums(request, part, err)
               : STATUS_OK;
}

enum status part_finish(struct request *request, struct error *err)
{
    struct part *part = request->scan.part;
    struct answer *answer = &request->reply.answer;
    uint64_t bytes = 0;
    if (carry_answer_most(&request->scan.call.desc, request->scan.call.totals) == 0) {
        return STATUS_OK; /* the answer has no carry */
    }
    TRY(carry_encode(&part->head, (unsigned char *)part->carry.bytes, request->parallel, &bytes,
                     err));
    text_wrote(&part->carry, (size_t)bytes);
    request->scan.call.carry.answer_bytes = bytes;
    answer->carry = part->carry.bytes;
    answer->head = part->carry.bytes;
    answer->head_bytes = (size_t)bytes;
    return STATUS_OK;
}

void part_destroy(struct part *part, struct memory *memory)
{
    if (part != NULL) {
        text_free(memory, &part->carry);
        free(part);
    }
}
