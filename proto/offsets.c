/* Counting and checking offsets; see offsets.h. */
#include "proto/offsets.h"

#include "proto/attribute_words.h"
#include "proto/macros.h"

#include <stdlib.h>

enum {
    STEP_OFFSETS = PARALLEL_STEP_BYTES / OFFSET_BYTES /* offsets checked between two steps */
};

enum status offsets_announce(struct scan_call *call, const char *field, uint64_t count,
                             struct error *err)
{
    if (count == 0) {
        return error_set_field(err, STATUS_INVALID_FIELD, field, WORDS_OFFSETS_NONE, field);
    }
    call->desc.has_offsets = true;
    call->desc.segments = count - 1;
    return STATUS_OK;
}

uint64_t offsets_owned_bytes(const struct scan_call *call)
{
    return call->desc.has_offsets && call->offsets.head == NULL
               ? (call->desc.segments + 1) * OFFSET_BYTES
               : 0;
}

enum status offsets_allocate(struct scan_call *call, struct error *err)
{
    call->offsets.owned = malloc((size_t)(call->desc.segments + 1) * OFFSET_BYTES);
    return call->offsets.owned != NULL
               ? STATUS_OK
               : error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the offsets");
}

/* Check the offsets first..end-1. *before is the offset before them on entry, the last of them
 * on return. */
static enum status check_some(const struct scan_desc *desc, const char *field, uint64_t first,
                              uint64_t end, int64_t *before, struct error *err)
{
    const int64_t size = scan_desc_axis_size(desc);
    for (uint64_t i = first; i < end; i++) {
        const int64_t offset = scan_offset(desc, i);
        if (i == 0 && offset != 0) {
            return error_set_field(err, STATUS_INVALID_FIELD, field, WORDS_OFFSETS_FIRST, field,
                                   offset);
        }
        if (offset < *before) {
            return error_set_field(err, STATUS_INVALID_FIELD, field, WORDS_OFFSETS_DECREASE,
                                   field, i, offset, *before);
        }
        if (offset > size) {
            return error_set_field(err, STATUS_INVALID_FIELD, field, WORDS_OFFSETS_BEYOND,
                                   field, i, offset, size);
        }
        *before = offset;
    }
    return STATUS_OK;
}

enum status offsets_take(struct scan_call *call, const char *field, const void *values,
                         struct error *err)
{
    struct scan_desc *desc = &call->desc;
    const uint64_t count = desc->segments + 1;
    int64_t before = 0;
    if (desc->rank < 1 || desc->rank > LIMIT_RANK || desc->axis < -desc->rank ||
        desc->axis >= desc->rank) {
        return STATUS_OK;
    }
    desc->offsets = values;
    for (uint64_t at = 0; at < count; at += STEP_OFFSETS) {
        if (at > 0 && !parallel_step(call->parallel)) {
            return parallel_given_up(err);
        }
        TRY(check_some(desc, field, at, smaller_of(count, at + STEP_OFFSETS), &before, err));
    }
    if (before != scan_desc_axis_size(desc)) {
        return error_set_field(err, STATUS_INVALID_FIELD, field, WORDS_OFFSETS_LAST, field,
                               desc->segments, before, scan_desc_axis_size(desc));
    }
    return STATUS_OK;
}
