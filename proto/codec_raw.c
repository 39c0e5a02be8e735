/* POST /v1/cumsum, application/octet-stream: the description in the query, the body is the
 * buffer. */
#include "proto/attributes.h"
#include "proto/codec_cumsum.h"

#include <string.h>

enum {
    KNOWN = ATTRIBUTE_DTYPE | ATTRIBUTE_SHAPE | ATTRIBUTE_AXIS | ATTRIBUTE_EXCLUSIVE |
            ATTRIBUTE_REVERSE | ATTRIBUTE_PRECISION | ATTRIBUTE_STRIDES |
            ATTRIBUTE_OUTPUT_STRIDES
};

static enum status head_need(const struct codec_request *request, struct byte_view head,
                             uint64_t *need, struct error *err)
{
    (void)request;
    (void)head;
    (void)err;
    *need = 0;
    return STATUS_OK;
}

static enum status missing(const char *name, const char *example, struct error *err)
{
    return error_set_field(err, STATUS_MISSING_FIELD, name,
                           "the query parameter %s is missing: raw bytes need dtype and shape, "
                           "such as %s",
                           name, example);
}

static enum status decode(const struct codec_request *request, struct byte_view head,
                          struct scan_call *call, struct error *err)
{
    struct scan_call found = {.desc.precision = PRECISION_WIDE};
    struct attribute_lists lists = {0, 0};
    unsigned seen = 0;
    (void)head;
    enum status status = attributes_from_query(request, KNOWN, &found.desc, &lists, &seen, err);
    if (status == STATUS_OK && !(seen & ATTRIBUTE_DTYPE)) {
        status = missing("dtype", "?dtype=float32&shape=2,3", err);
    }
    if (status == STATUS_OK && !(seen & ATTRIBUTE_SHAPE)) {
        status = missing("shape", "?dtype=float32&shape=2,3", err);
    }
    if (status == STATUS_OK) {
        status = attributes_check_strides(&found.desc, &lists, err);
    }
    if (status == STATUS_OK) {
        status = cumsum_choose_answer(request, &found, err);
    }
    if (status == STATUS_OK) {
        status = cumsum_size_payload(request, 0, &found, err);
    }
    if (status == STATUS_OK) {
        *call = found;
    }
    return status;
}

enum status answer_raw(const struct scan_call *call, uint64_t elements, struct answer *answer,
                       struct error *err)
{
    const struct dtype_info *info = dtype_info(call->desc.dtype);
    struct answer_header *dtype = &answer->headers[0];
    struct answer_header *shape = &answer->headers[1];
    (void)err;
    dtype->name = "Tally-Dtype";
    memcpy(dtype->value, info->name, strlen(info->name) + 1);
    shape->name = "Tally-Shape";
    cumsum_shape_text(&call->desc, shape->value, sizeof shape->value);
    answer->header_count = 2;
    answer->content_type = "application/octet-stream";
    answer->payload_bytes = elements * info->bytes;
    return STATUS_OK;
}

const struct codec codec_raw = {
    .name = "raw",
    .head_need = head_need,
    .decode = decode,
    .complete = cumsum_complete_payload,
    .encode = cumsum_encode,
    .release = cumsum_release,
};
