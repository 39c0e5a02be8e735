/* POST /v1/cumsum, application/octet-stream: the query describes the tensor, and the body is
 * the buffer.
 *
 *     ?dtype=float32&shape=2,3&axis=1    24 bytes    Tally-Dtype: float32, Tally-Shape: 2,3
 *
 * The body has no head but the carry of a part or the offsets of segments, and nothing is
 * converted. Possible failures: a query parameter is missing, unknown or has a wrong value;
 * LENGTH_MISMATCH, whose sentence says what the content of the body looks like. */
#include "proto/attributes.h"
#include "proto/codec_cumsum.h"
#include "proto/content_guess.h"
#include "proto/cumsum_request.h"
#include "proto/text.h"

#include <stdio.h>
#include <string.h>

enum {
    NEEDED = ATTRIBUTE_DTYPE | ATTRIBUTE_SHAPE,
    KNOWN = NEEDED | ATTRIBUTE_AXIS | ATTRIBUTE_EXCLUSIVE | ATTRIBUTE_REVERSE |
            ATTRIBUTE_STRIDES | ATTRIBUTE_OUTPUT_STRIDES | ATTRIBUTE_PART |
            ATTRIBUTE_OUTPUT_DTYPE | ATTRIBUTE_NAN | ATTRIBUTE_INITIAL |
            ATTRIBUTE_INCLUDE_INITIAL,
    SMALL_BODY = 65536, /* a larger body is refused for its length before its first byte
                           arrives */
    NPY_ALIGN = 64,     /* bytes: NPY headers have a multiple of this size */
    NPY_USUAL_MAX = 256 /* bytes: few NPY headers are longer */
};

/* Add to a LENGTH_MISMATCH a guess at the content of the body: by its first bytes if they have
 * arrived, else by its length. */
static void name_content(struct byte_view bytes, uint64_t found, uint64_t expected,
                         struct error *err)
{
    enum content_kind kind = content_guess(bytes.bytes, bytes.count);
    uint64_t more = found > expected ? found - expected : 0;
    const bool seen = bytes.count > 0 || found == 0;
    if (kind != CONTENT_UNKNOWN) {
        text_append(err->detail, sizeof err->detail, "; the bytes look like %s: %s",
                    content_name(kind), content_advice(kind));
    } else if (!seen && more > 0 && more <= NPY_USUAL_MAX && more % NPY_ALIGN == 0) {
        text_append(err->detail, sizeof err->detail,
                    "; %llu bytes more, as the header of an NPY file takes: if it is one, %s",
                    (unsigned long long)more, content_advice(CONTENT_NPY));
    } else if (seen && found < expected && content_may_be_stripped(bytes.bytes, bytes.count)) {
        text_append(err->detail, sizeof err->detail, "; " CONTENT_STRIPPED_ADVICE);
    }
}

enum status codec_raw_decode(const struct codec_request *request, struct byte_view head,
                             struct scan_call *call, struct error *err)
{
    const uint64_t front = cumsum_front_bytes(request);
    struct byte_view carry;
    struct attribute_lists lists = {.strides = 0};
    unsigned seen = 0;
    TRY(attributes_from_query(request, KNOWN, &call->desc, &lists, &seen, err));
    if ((seen & NEEDED) != NEEDED) {
        const char *missing = (seen & ATTRIBUTE_DTYPE) == 0 ? "dtype" : "shape";
        return error_set_field(err, STATUS_MISSING_FIELD, missing,
                               "the query parameter %s is missing: raw bytes need dtype and "
                               "shape, such as ?dtype=float32&shape=2,3",
                               missing);
    }
    TRY(attributes_complete(&call->desc, &lists.wishes, err));
    TRY(attributes_check_strides(&call->desc, &lists, err));
    TRY(cumsum_take_front(request, head, call, &carry, err));
    TRY(cumsum_take_part(request, carry, call, err));
    enum status status = cumsum_size_payload(request, front, call, err);
    if (status != STATUS_OK) { /* LENGTH_MISMATCH */
        name_content(head, (uint64_t)request->body_bytes, call->input_bytes, err);
    }
    return status;
}

/* Return true if decode() will certainly refuse the body, because the length of a contiguous
 * tensor described by the query differs from the body's. */
static bool has_wrong_length(const struct codec_request *request)
{
    struct scan_desc desc = {.rank = 0};
    struct attribute_lists lists;
    unsigned seen = 0;
    uint64_t elements = 0;
    return attributes_from_query(request, KNOWN, &desc, &lists, &seen, NULL) == STATUS_OK &&
           (seen & NEEDED) == NEEDED && (seen & ATTRIBUTE_STRIDES) == 0 &&
           input_reach(&desc, &elements) &&
           elements * dtype_info(desc.dtype)->bytes != (uint64_t)request->body_bytes;
}

/* The head is a carry or offsets, if any. If the length of a small body is wrong, its first
 * bytes are read as head, so that decode() can name their content. */
enum status codec_raw_head_need(const struct codec_request *request, struct byte_view head,
                                uint64_t *need, struct error *err)
{
    int64_t bytes = request->body_bytes;
    if (cumsum_front_bytes(request) > 0) {
        return cumsum_front_need(request, head, need, err);
    }
    *need = head.count;
    if (head.count == 0 && bytes > 0 && bytes <= SMALL_BODY && has_wrong_length(request)) {
        *need = bytes < CONTENT_GUESS_BYTES ? (uint64_t)bytes : CONTENT_GUESS_BYTES;
    }
    return STATUS_OK;
}

enum status codec_raw_complete(struct scan_call *call, void *input, uint64_t payload_bytes,
                               struct error *err)
{
    enum status status = cumsum_complete_payload(call, input, payload_bytes, err);
    if (status == STATUS_LENGTH_MISMATCH) {
        uint64_t there = smaller_of(payload_bytes, call->payload_max);
        name_content((struct byte_view){input, (size_t)there}, payload_bytes, call->input_bytes,
                     err);
    }
    return status;
}

void answer_raw(const struct scan_call *call, uint64_t elements, struct answer *answer)
{
    const struct dtype_info *info = dtype_info(call->desc.dtype);
    struct answer_header *dtype = &answer->headers[answer->header_count++];
    struct answer_header *shape = &answer->headers[answer->header_count++];
    dtype->name = "Tally-Dtype";
    memcpy(dtype->value, info->name, strlen(info->name) + 1);
    shape->name = "Tally-Shape";
    struct scan_desc room;
    attribute_shape_text(scan_output_desc(&call->desc, &room), shape->value,
                         sizeof shape->value);
    answer->content_type = "application/octet-stream";
    answer->payload_bytes = elements * info->bytes;
}
