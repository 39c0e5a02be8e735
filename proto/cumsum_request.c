/* The parts of a request for cumulative sums that do not depend on its format: the bytes in
 * front of a binary tensor (a carry or offsets), the rules of parts, totals and carries, and
 * the length of the payload.
 *
 * Possible failures: LENGTH_MISMATCH, whose sentence explains the expected length;
 * INVALID_FIELD and MISSING_FIELD for attributes that exclude or need each other; INVALID_DATA
 * for a damaged carry; INVALID_DTYPE for bfloat16 in an NPY answer. */
#include "proto/cumsum_request.h"

#include "proto/attribute_words.h"
#include "proto/attributes.h"
#include "proto/json/cells.h"
#include "proto/little_endian.h"
#include "proto/offsets.h"

#include <inttypes.h>

/* ---- bytes in front of a tensor, parts ---- */

enum {
    CARRY_STEP = 64 << 10 /* bytes of a carry that are added to the checksum at a time */
};

static enum status carry_need(const struct codec_request *request, struct byte_view head,
                              uint64_t *need, struct error *err)
{
    const uint64_t count = request->carry_bytes;
    struct carry_head ignored;
    if (count > 0 && request->body_bytes >= 0 && (uint64_t)request->body_bytes < count) {
        return error_set_field(err, STATUS_LENGTH_MISMATCH, "carry",
                               "the body has %lld bytes, Tally-Carry-Length says that the "
                               "carry alone has %llu: send the carry, and the part behind it",
                               (long long)request->body_bytes, (unsigned long long)count);
    }
    if (count > 0 && count < CARRY_HEADER_BYTES) {
        return error_set_field(err, STATUS_INVALID_DATA, "carry",
                               "Tally-Carry-Length is %llu, but a carry has at least %d bytes",
                               (unsigned long long)count, CARRY_HEADER_BYTES);
    }
    if (head.count >= count) {
        *need = count;
        return STATUS_OK;
    }
    if (head.count < CARRY_HEADER_BYTES) {
        *need = CARRY_HEADER_BYTES;
        return STATUS_OK;
    }
    if (head.count == CARRY_HEADER_BYTES &&
        carry_read_head(head.bytes, count, &ignored, err) != STATUS_OK) {
        return err->status;
    }
    carry_crc_add(request->carry_crc, head.bytes, head.count);
    *need = count - head.count < CARRY_STEP ? count : head.count + CARRY_STEP;
    return STATUS_OK;
}

static enum status offsets_need(const struct codec_request *request, uint64_t *need,
                                struct error *err)
{
    const uint64_t count = request->offsets_bytes;
    if (request->carry_bytes > 0) {
        return error_set_field(err, STATUS_INVALID_FIELD, "offsets", WORDS_OFFSETS_PART);
    }
    if (count % OFFSET_BYTES != 0) {
        return error_set_field(err, STATUS_INVALID_FIELD, "offsets",
                               "Tally-Offsets-Length is %" PRIu64
                               ", expected a multiple of %d: each offset is an int64",
                               count, OFFSET_BYTES);
    }
    if (request->body_bytes >= 0 && (uint64_t)request->body_bytes < count) {
        return error_set_field(err, STATUS_LENGTH_MISMATCH, "offsets",
                               "the body has %" PRId64 " bytes, Tally-Offsets-Length says that "
                               "the offsets alone have %" PRIu64
                               ": send the offsets, and the tensor behind them",
                               request->body_bytes, count);
    }
    *need = count;
    return STATUS_OK;
}

enum status cumsum_front_need(const struct codec_request *request, struct byte_view head,
                              uint64_t *need, struct error *err)
{
    return request->offsets_bytes > 0 ? offsets_need(request, need, err)
                                      : carry_need(request, head, need, err);
}

enum status cumsum_take_front(const struct codec_request *request, struct byte_view head,
                              struct scan_call *call, struct byte_view *carry,
                              struct error *err)
{
    *carry = (struct byte_view){head.bytes, (size_t)request->carry_bytes};
    if (request->offsets_bytes == 0) {
        return STATUS_OK;
    }
    call->offsets.head = head.bytes;
    return offsets_announce(call, "offsets", request->offsets_bytes / OFFSET_BYTES, err);
}

enum status cumsum_check_part(const struct scan_desc *desc, bool totals, bool carry,
                              struct error *err)
{
    const bool part = desc->part != SCAN_PART_WHOLE;
    const bool goes_on = desc->part == SCAN_PART_NEXT || desc->part == SCAN_PART_LAST;
    if (desc->has_offsets && (part || totals || carry)) {
        return error_set_field(err, STATUS_INVALID_FIELD, "offsets", WORDS_OFFSETS_PART);
    }
    if (totals && part) {
        return error_set_field(err, STATUS_INVALID_FIELD, "part",
                               "totals are computed for the whole request: leave part out");
    }
    if ((part || totals) && desc->has_output_strides) {
        return error_set_field(err, STATUS_INVALID_FIELD, "output_strides",
                               "the answer %s is contiguous: leave output_strides out",
                               part ? "to a part" : "with totals");
    }
    if (desc->has_initial && (goes_on || carry)) {
        return error_set_field(
            err, STATUS_INVALID_FIELD, "initial",
            "the carry holds the initial value already: give initial with the "
            "first part only");
    }
    if (desc->include_initial && (goes_on || totals)) {
        return error_set_field(err, STATUS_INVALID_FIELD, "include_initial",
                               goes_on ? "the sum before the first element belongs to the part "
                                         "that begins the lines: leave include_initial out of "
                                         "the others"
                                       : WORDS_INCLUDE_INITIAL_TOTALS);
    }
    if (goes_on && !carry) {
        return error_set_field(
            err, STATUS_MISSING_FIELD, "carry",
            "part is %s, but there is no carry: send the carry in the answer "
            "to the previous part, or part=first",
            desc->part == SCAN_PART_NEXT ? "next" : "last");
    }
    if (!goes_on && !totals && carry) {
        return error_set_field(
            err, STATUS_INVALID_FIELD, "carry", "there is a carry, but %s",
            part ? "the first part takes none: leave it out, or say that part is next or last"
                 : "part is not given: leave it out, or say that part is next or last");
    }
    return STATUS_OK;
}

enum status cumsum_take_carry(const struct carry_crc *crc, struct byte_view carry,
                              const struct parallel *parallel, struct scan_call *call,
                              struct error *err)
{
    struct carry_head found;
    struct carry_crc all = crc != NULL ? *crc : (struct carry_crc){.done = 0};
    if (carry.count < CARRY_HEADER_BYTES) {
        return error_set_field(err, STATUS_INVALID_DATA, "carry",
                               "the carry has %zu bytes, at least %d are expected", carry.count,
                               CARRY_HEADER_BYTES);
    }
    TRY(carry_read_head(carry.bytes, carry.count, &found, err));
    TRY(carry_check_head(&found, &call->desc, err));
    TRY(carry_check_crc(&all, carry.bytes, carry.count, parallel, err));
    call->carry.bytes = carry.count;
    call->carry.start = carry.bytes;
    call->carry.position = found.position;
    return STATUS_OK;
}

enum status cumsum_take_part(const struct codec_request *request, struct byte_view carry,
                             struct scan_call *call, struct error *err)
{
    const struct scan_desc *desc = &call->desc;
    struct scan_desc room;
    TRY(cumsum_check_part(desc, request->totals, carry.count > 0, err));
    call->totals = request->totals;
    if (carry.count > 0) {
        TRY(cumsum_take_carry(request->carry_crc, carry, request->parallel, call, err));
    }
    call->answer_format = request->answer_format;
    call->packs_output = request->answer_format == CODEC_FORMAT_JSON &&
                         json_cells_are_sparse(scan_output_desc(desc, &room));
    if (request->answer_format == CODEC_FORMAT_NPY && !call->totals &&
        dtype_info(desc->dtype)->npy == NULL) {
        return error_set_field(err, STATUS_INVALID_DTYPE, "dtype",
                               "an NPY answer cannot carry %s: accept application/octet-stream "
                               "or application/json instead",
                               dtype_info(desc->dtype)->name);
    }
    return STATUS_OK;
}

uint64_t cumsum_carry_bytes(const struct scan_call *call)
{
    return call->carry.answer_bytes > 0 ? call->carry.answer_bytes
                                        : carry_answer_usual(&call->desc, call->totals);
}

/* ---- the payload ---- */

static enum status length_error(const struct scan_call *call, uint64_t found, struct error *err)
{
    char shape[200];
    const struct dtype_info *info = dtype_info(scan_input_dtype(&call->desc));
    uint64_t elements = call->input_bytes / info->bytes;
    attribute_shape_text(&call->desc, shape, sizeof shape);
    return error_set(err, STATUS_LENGTH_MISMATCH,
                     "the body holds %llu byte%s of data, expected %llu: %llu element%s (shape "
                     "%s%s) of %zu byte%s (%s)",
                     (unsigned long long)found, found == 1 ? "" : "s",
                     (unsigned long long)call->input_bytes, (unsigned long long)elements,
                     elements == 1 ? "" : "s", shape,
                     call->desc.has_strides ? ", reached by its strides" : "", info->bytes,
                     info->bytes == 1 ? "" : "s", info->name);
}

enum status cumsum_size_payload(const struct codec_request *request, uint64_t head_bytes,
                                struct scan_call *call, struct error *err)
{
    uint64_t elements = 0;
    call->source = CALL_SOURCE_PAYLOAD;
    if (!input_reach(&call->desc, &elements)) {
        return STATUS_OK;
    }
    call->input_bytes = elements * dtype_info(scan_input_dtype(&call->desc))->bytes;
    call->payload_max = call->input_bytes;
    const uint64_t found = (uint64_t)request->body_bytes - head_bytes; /* if body_bytes >= 0 */
    if (request->body_bytes >= 0 && found != call->input_bytes) {
        return length_error(call, found, err);
    }
    return STATUS_OK;
}

enum status cumsum_complete_payload(struct scan_call *call, void *input, uint64_t payload_bytes,
                                    struct error *err)
{
    const size_t size = dtype_info(scan_input_dtype(&call->desc))->bytes;
    const uint64_t bytes = call->input_bytes;
    if (payload_bytes != bytes) {
        return length_error(call, payload_bytes, err);
    }
    for (uint64_t at = 0; call->byte_swap && at < bytes; at += PARALLEL_STEP_BYTES) {
        if (at > 0 && !parallel_step(call->parallel)) {
            return parallel_given_up(err);
        }
        little_endian_swap((char *)input + at, smaller_of(bytes - at, PARALLEL_STEP_BYTES),
                           size);
    }
    return call->offsets.head == NULL ? STATUS_OK
                                      : offsets_take(call, "offsets", call->offsets.head, err);
}
