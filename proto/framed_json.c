/* Framing and its errors, one wording for the three dialects that use it. */
#include "proto/framed_json.h"

#include <inttypes.h>
#include <stdio.h>

enum status framed_head_need(const struct codec_request *request, struct byte_view head,
                             uint64_t *need, struct error *err)
{
    (void)head;
    if (request->head_bytes < 0) {
        *need = UINT64_MAX;
        return STATUS_OK;
    }
    if (request->body_bytes >= 0 && request->head_bytes > request->body_bytes) {
        return error_set_field(err, STATUS_INVALID_REQUEST, FRAMED_HEADER,
                               "the header announces %" PRId64 " bytes of JSON, but the body "
                               "has %" PRId64,
                               request->head_bytes, request->body_bytes);
    }
    *need = (uint64_t)request->head_bytes;
    return STATUS_OK;
}

int64_t framed_payload_bytes(const struct codec_request *request)
{
    if (request->head_bytes < 0) {
        return 0;
    }
    return request->body_bytes < 0 ? -1 : request->body_bytes - request->head_bytes;
}

enum status framed_check_payload(uint64_t found, uint64_t least, uint64_t most,
                                 struct error *err)
{
    if (found >= least && found <= most) {
        return STATUS_OK;
    }
    if (least == most) {
        return error_set(err, STATUS_LENGTH_MISMATCH,
                         "the body has %" PRIu64 " bytes after its JSON, but the tensors "
                         "described there take %" PRIu64 "; is " FRAMED_HEADER " right?",
                         found, least);
    }
    return error_set(err, STATUS_LENGTH_MISMATCH,
                     "the body has %" PRIu64 " bytes after its JSON, but the tensor described "
                     "there takes %" PRIu64 " to %" PRIu64 "; is " FRAMED_HEADER " right?",
                     found, least, most);
}

enum status framed_no_query(const struct codec_request *request, struct error *err)
{
    if (request->param_count == 0) {
        return STATUS_OK;
    }
    return error_set_field(err, STATUS_UNKNOWN_FIELD, request->params[0].name,
                           "this route takes no query parameters: everything is in the body");
}

enum status framed_check_flat(const struct json_array *array, const char *field, uint64_t least,
                              uint64_t most, struct error *err)
{
    if (array->rank > 1 || array->ragged) {
        return error_set_field(err, STATUS_INVALID_DATA, field,
                               "found nested arrays: expected one flat array, in buffer order");
    }
    if (array->elements >= least && array->elements <= most) {
        return STATUS_OK;
    }
    if (least == most) {
        return error_set_field(err, STATUS_INVALID_DATA, field,
                               "found %" PRIu64 " elements: expected %" PRIu64, array->elements,
                               least);
    }
    return error_set_field(err, STATUS_INVALID_DATA, field,
                           "found %" PRIu64 " elements: expected %" PRIu64 " to %" PRIu64,
                           array->elements, least, most);
}

enum status framed_answer(struct json_writer *w, bool framed, uint64_t payload_bytes,
                          struct answer *answer, struct error *err)
{
    size_t bytes = 0;
    char *text = json_writer_take(w, &bytes);
    if (text == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the text of the answer");
    }
    answer->head = text;
    answer->head_bytes = bytes;
    answer->content_type = framed ? "application/octet-stream" : "application/json";
    answer->payload_bytes = framed ? payload_bytes : 0;
    if (framed) {
        struct answer_header *header = &answer->headers[answer->header_count++];
        header->name = FRAMED_HEADER;
        (void)snprintf(header->value, sizeof header->value, "%zu", bytes);
    }
    return STATUS_OK;
}
