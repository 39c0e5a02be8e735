/* POST /v1/cumsum, application/x-npy: NumPy's file format, attributes in the query.
 *
 * head_need() asks for a carry or offsets, if the request has them, and for the header of the
 * file (npy_header.h); decode() parses the header and computes the size of the payload;
 * answer_npy() writes a header of version 1.0. Possible failures: INVALID_NPY and
 * INVALID_DTYPE for the header, INVALID_SHAPE for a scalar, LENGTH_MISMATCH. */
#include "proto/attributes.h"
#include "proto/codec_cumsum.h"
#include "proto/cumsum_request.h"
#include "proto/npy_header.h"

#include <stdlib.h>
#include <string.h>

enum {
    KNOWN = ATTRIBUTE_AXIS | ATTRIBUTE_EXCLUSIVE | ATTRIBUTE_REVERSE |
            ATTRIBUTE_OUTPUT_STRIDES | ATTRIBUTE_PART | ATTRIBUTE_OUTPUT_DTYPE | ATTRIBUTE_NAN |
            ATTRIBUTE_INITIAL | ATTRIBUTE_INCLUDE_INITIAL
};

/* Return the bytes behind the first `first` bytes. While no byte has arrived, bytes.bytes is
 * NULL. */
static struct byte_view bytes_behind(struct byte_view bytes, uint64_t first)
{
    if (first == 0) {
        return bytes;
    }
    return (struct byte_view){(const char *)bytes.bytes + first, bytes.count - (size_t)first};
}

enum status codec_npy_head_need(const struct codec_request *request, struct byte_view head,
                                uint64_t *need, struct error *err)
{
    const uint64_t front = cumsum_front_bytes(request);
    uint64_t found = 0;
    TRY(cumsum_front_need(request, head, need, err));
    if (head.count < front) {
        return STATUS_OK;
    }
    const int64_t file = request->body_bytes < 0 ? -1 : request->body_bytes - (int64_t)front;
    TRY(npy_header_need(bytes_behind(head, front), &found, err));
    if (file >= 0 && file < NPY_PREFIX_BYTES) {
        /* The body is shorter than an NPY prefix. Read all of it; codec_npy_decode() then
         * reports what it looks like. */
        *need = front + (uint64_t)file;
        return STATUS_OK;
    }
    if (file >= 0 && (uint64_t)file < found) {
        return error_set(err, STATUS_INVALID_NPY,
                         "the NPY file ends inside its header: %lld bytes of at least %llu",
                         (long long)file, (unsigned long long)found);
    }
    *need = front + found;
    return STATUS_OK;
}

/* Set the strides of a column-major tensor. If a stride overflows, the tensor's size overflows
 * too, and the tensor is refused. */
static void set_fortran_strides(struct scan_desc *desc)
{
    int64_t stride = 1;
    bool overflow = false;
    bool empty = false;
    for (int d = 0; d < desc->rank; d++) {
        desc->strides[d] = stride;
        empty = empty || desc->sizes[d] == 0;
        overflow |= __builtin_mul_overflow(stride, desc->sizes[d], &stride);
    }
    desc->has_strides = !empty && !overflow;
}

enum status codec_npy_decode(const struct codec_request *request, struct byte_view head,
                             struct scan_call *call, struct error *err)
{
    struct scan_desc *desc = &call->desc;
    struct attribute_lists lists = {.strides = 0};
    struct npy_header header;
    struct byte_view carry;
    unsigned seen = 0;
    TRY(attributes_from_query(request, KNOWN, desc, &lists, &seen, err));
    TRY(npy_header_parse(bytes_behind(head, cumsum_front_bytes(request)), &header, err));
    desc->dtype = header.dtype;
    desc->rank = header.rank;
    memcpy(desc->sizes, header.sizes, sizeof desc->sizes);
    call->byte_swap = header.byte_swap;
    if (header.fortran_order) {
        set_fortran_strides(desc);
        lists.strides = desc->rank;
    }
    if (desc->rank == 0) {
        return error_set_field(err, STATUS_INVALID_SHAPE, "shape",
                               "the NPY shape is (): a scalar has no axis to sum along, send "
                               "at least one dimension");
    }
    TRY(attributes_complete(desc, &lists.wishes, err));
    TRY(attributes_check_strides(desc, &lists, err));
    TRY(cumsum_take_front(request, head, call, &carry, err));
    TRY(cumsum_take_part(request, carry, call, err));
    return cumsum_size_payload(request, head.count, call, err);
}

enum status answer_npy(const struct scan_call *call, uint64_t elements, struct answer *answer,
                       struct error *err)
{
    struct scan_desc room;
    const struct scan_desc *desc = scan_output_desc(&call->desc, &room);
    char text[NPY_HEADER_MAX];
    const int64_t flat = (int64_t)elements;
    bool strided = desc->has_output_strides;
    size_t bytes = npy_header_print(desc->dtype, false, strided ? &flat : desc->sizes,
                                    strided ? 1 : desc->rank, 0, text);
    if (answer->head == NULL) {
        answer->head = malloc(bytes);
    }
    if (answer->head == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the NPY header");
    }
    memcpy(answer->head + answer->head_bytes, text, bytes); /* behind a carry */
    answer->head_bytes += bytes;
    answer->content_type = "application/x-npy";
    answer->payload_bytes = elements * dtype_info(desc->dtype)->bytes;
    return STATUS_OK;
}
