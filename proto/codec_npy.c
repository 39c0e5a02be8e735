/* POST /v1/cumsum, application/x-npy: NumPy's file format, attributes in the query.
 *
 * head_need() asks for the file's header (npy_header.h), decode() parses it and sizes the
 * payload, encode() writes one of version 1.0. Possible failures: INVALID_NPY and INVALID_DTYPE
 * for the header, INVALID_SHAPE for a scalar, LENGTH_MISMATCH. */
#include "proto/attributes.h"
#include "proto/codec_cumsum.h"
#include "proto/npy_header.h"

#include <stdlib.h>
#include <string.h>

enum {
    KNOWN = ATTRIBUTE_AXIS | ATTRIBUTE_EXCLUSIVE | ATTRIBUTE_REVERSE | ATTRIBUTE_PRECISION |
            ATTRIBUTE_OUTPUT_STRIDES
};

static enum status head_need(const struct codec_request *request, struct byte_view head,
                             uint64_t *need, struct error *err)
{
    uint64_t found = 0;
    enum status status = npy_header_need(head, &found, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (request->body_bytes >= 0 && request->body_bytes < NPY_PREFIX_BYTES) {
        *need = (uint64_t)request->body_bytes; /* decode() says what it is instead */
        return STATUS_OK;
    }
    if (request->body_bytes >= 0 && (uint64_t)request->body_bytes < found) {
        return error_set(err, STATUS_INVALID_NPY,
                         "the NPY file ends inside its header: %lld bytes of at least %llu",
                         (long long)request->body_bytes, (unsigned long long)found);
    }
    *need = found;
    return STATUS_OK;
}

/* Strides of a column-major tensor. Where they overflow, so does the tensor: it is refused. */
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

static enum status check_desc(const struct scan_desc *desc, const struct attribute_lists *lists,
                              struct error *err)
{
    if (desc->rank == 0) {
        return error_set_field(
            err, STATUS_INVALID_SHAPE, "shape",
            "the NPY shape is (): a scalar has no axis to sum along, send at "
            "least one dimension");
    }
    return attributes_check_strides(desc, lists, err);
}

static enum status decode(const struct codec_request *request, struct byte_view head,
                          struct scan_call *call, struct error *err)
{
    struct scan_call found = {.desc.precision = PRECISION_WIDE};
    struct scan_desc *desc = &found.desc;
    struct attribute_lists lists = {0, 0};
    struct npy_header header;
    unsigned seen = 0;
    enum status status = attributes_from_query(request, KNOWN, desc, &lists, &seen, err);
    if (status == STATUS_OK) {
        status = npy_header_parse(head, &header, err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    desc->dtype = header.dtype;
    desc->rank = header.rank;
    memcpy(desc->sizes, header.sizes, sizeof desc->sizes);
    found.byte_swap = header.byte_swap;
    if (header.fortran_order) {
        set_fortran_strides(desc);
        lists.strides = desc->rank;
    }
    status = check_desc(desc, &lists, err);
    if (status == STATUS_OK) {
        status = cumsum_choose_answer(request, &found, err);
    }
    if (status == STATUS_OK) {
        status = cumsum_size_payload(request, head.count, &found, err);
    }
    if (status == STATUS_OK) {
        *call = found;
    }
    return status;
}

enum status answer_npy(const struct scan_call *call, uint64_t elements, struct answer *answer,
                       struct error *err)
{
    const struct scan_desc *desc = &call->desc;
    char text[NPY_HEADER_MAX];
    const int64_t flat = (int64_t)elements;
    bool strided = desc->has_output_strides;
    size_t bytes = npy_header_print(desc->dtype, strided ? &flat : desc->sizes,
                                    strided ? 1 : desc->rank, text);
    answer->head = malloc(bytes);
    if (answer->head == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the NPY header");
    }
    memcpy(answer->head, text, bytes);
    answer->head_bytes = bytes;
    answer->content_type = "application/x-npy";
    answer->payload_bytes = elements * dtype_info(desc->dtype)->bytes;
    return STATUS_OK;
}

const struct codec codec_npy = {
    .name = "npy",
    .head_need = head_need,
    .decode = decode,
    .complete = cumsum_complete_payload,
    .encode = cumsum_encode,
    .head_max = cumsum_head_max,
    .release = cumsum_release,
};
