/* Framing, shapes, locations and axis tensors, with equal error texts in all dialects that
 * have them. */
#include "proto/framed.h"

#include "proto/attributes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *framed_plan_field(const struct framed_name *names, size_t count, const char *field)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(field, names[i].field) == 0) {
            return names[i].name;
        }
    }
    return "";
}

enum status framed_head_need(const struct codec_request *request, struct byte_view head,
                             uint64_t *need, struct error *err)
{
    (void)head;
    if (request->carry_bytes > 0 || request->offsets_bytes > 0) {
        const char *input = request->carry_bytes > 0 ? "carry" : "offsets";
        const char *header =
            request->carry_bytes > 0 ? "Tally-Carry-Length" : "Tally-Offsets-Length";
        return error_set_field(err, STATUS_INVALID_FIELD, header,
                               "%s is for raw and NPY bodies of /v1/cumsum: here a body begins "
                               "with its JSON; v2 takes the %s as the input \"%s\"",
                               header, input, input);
    }
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

enum status framed_check_payload(uint64_t found, uint64_t expected, struct error *err)
{
    if (found == expected) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_LENGTH_MISMATCH,
                     "the body has %" PRIu64 " bytes after its JSON, but the tensors "
                     "described there take %" PRIu64 "; is " FRAMED_HEADER " right?",
                     found, expected);
}

enum status framed_check_announced(const struct codec_request *request, uint64_t expected,
                                   struct error *err)
{
    const int64_t announced = framed_payload_bytes(request);
    return announced < 0 ? STATUS_OK : framed_check_payload((uint64_t)announced, expected, err);
}

enum status framed_no_query(const struct codec_request *request, const char *attributes,
                            struct error *err)
{
    if (request->param_count == 0) {
        return STATUS_OK;
    }
    return error_set_field(
        err, STATUS_UNKNOWN_FIELD, request->params[0].name,
        "this route takes no query, such as %.40s: the attributes are in the "
        "JSON of the body, %s",
        request->params[0].name, attributes);
}

enum status framed_check_members(const struct json_place *root, const char *const *known,
                                 size_t count, struct error *err)
{
    const bool part = json_field(root, "part") != NULL;
    if (json_field(root, "offsets") != NULL) {
        return error_set_field(
            err, STATUS_UNKNOWN_FIELD, "offsets",
            "there is no field offsets: the descriptors of DirectML and OpenVINO "
            "have no segments; /v1/cumsum and v2 have them");
    }
    if (part || json_field(root, "carry") != NULL) {
        const char *name = part ? "part" : "carry";
        return error_set_field(
            err, STATUS_UNKNOWN_FIELD, name,
            "there is no field %s: the descriptors of DirectML and OpenVINO have "
            "no parts of a tensor; /v1/cumsum and v2 have them",
            name);
    }
    return json_fields_known(root, known, count, err);
}

enum status framed_check_flat(const struct json_array *array, const char *field, uint64_t least,
                              uint64_t most, struct error *err)
{
    if (array->rank > 1) {
        return error_set_field(err, STATUS_INVALID_DATA, field,
                               "found nested arrays: expected one flat array, in buffer order");
    }
    return json_tensor_require_count(array, field, least, most, NULL, err);
}

enum status framed_answer(struct json_writer *w, const struct scan_call *call,
                          struct byte_view carry, bool framed, struct answer *answer,
                          struct error *err)
{
    const size_t bytes = w->bytes;
    char *behind = json_writer_space(w, carry.count);
    if (behind != NULL && carry.count > 0) {
        w->failed =
            parallel_copy(call->parallel, behind, carry.bytes, carry.count, NULL) != STATUS_OK;
        json_writer_advance(w, carry.count);
    }
    if (!answer_end_text(answer, w)) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the text of the answer");
    }
    answer->payload_bytes = framed ? call->output_bytes : 0;
    framed = framed || carry.count > 0;
    answer->content_type = framed ? "application/octet-stream" : "application/json";
    if (framed) {
        struct answer_header *header = &answer->headers[answer->header_count++];
        header->name = FRAMED_HEADER;
        (void)snprintf(header->value, sizeof header->value, "%zu", bytes);
    }
    return STATUS_OK;
}

uint64_t framed_head_max(const struct scan_call *call, bool text)
{
    enum {
        KEYS = 250, /* upper bound for keys, names, sizes and punctuation, in bytes */
        ESCAPED = 6 /* maximum length of one escaped byte of the id */
    };
    const struct framed *framed = call->dialect;
    const struct json_print print = framed_print(call, NULL, call->output_bytes);
    uint64_t around = KEYS + ESCAPED * strlen(call->id);
    around += JSON_INT_MAX * (uint64_t)call->desc.rank;
    around += framed->text != NULL ? strlen(framed->text) : 0;
    return text ? json_tensor_write_max(&print, around) : around;
}

struct json_print framed_print(const struct scan_call *call, const void *output, uint64_t bytes)
{
    enum dtype dtype = call->desc.dtype;
    return (struct json_print){.dtype = dtype,
                               .data = output,
                               .elements = bytes / dtype_info(dtype)->bytes,
                               .parallel = call->parallel};
}

/* ---- one tensor ---- */

enum status framed_tensor_read_shape(struct framed_tensor *tensor, struct error *err)
{
    int rank = 0;
    TRY(json_require(&tensor->place, "shape", err));
    TRY(json_field_int64_list(&tensor->place, "shape", LIMIT_RANK, tensor->sizes, &rank, err));
    struct scan_desc desc = {.dtype = tensor->dtype, .rank = rank};
    for (int i = 0; i < rank; i++) {
        desc.sizes[i] = tensor->sizes[i];
        if (tensor->sizes[i] < 0) {
            return json_field_refuse(&tensor->place, "shape", i, STATUS_INVALID_SHAPE, err,
                                     "found %" PRId64 ": a dimension has 0 elements or more",
                                     tensor->sizes[i]);
        }
    }
    if (!buffer_reach(&desc, NULL, &tensor->elements)) {
        return json_field_refuse(&tensor->place, "shape", -1, STATUS_INVALID_SHAPE, err,
                                 "the tensor has more than 2^63-1 bytes");
    }
    tensor->rank = rank;
    tensor->bytes = tensor->elements * dtype_info(tensor->dtype)->bytes;
    return STATUS_OK;
}

enum status framed_tensor_take_data(const struct json_doc *doc, const json_t *data, bool scalar,
                                    struct framed_tensor *tensor, struct error *err)
{
    tensor->array = json_doc_array(doc, data);
    if (tensor->array != NULL) {
        return STATUS_OK;
    }
    int64_t number = 0;
    if (scalar && json_integer_of(data, &number)) {
        tensor->scalar = data;
        return STATUS_OK;
    }
    return json_field_error(&tensor->place, "data",
                            scalar ? "an integer or an array of one" : "an array of numbers",
                            err);
}

enum status framed_tensor_check_data(const struct framed_tensor *tensor, bool flat,
                                     struct error *err)
{
    const struct json_array *array = tensor->array;
    const uint64_t count = tensor->elements;
    char path[JSON_PATH_MAX];
    if (array == NULL) {
        return STATUS_OK;
    }
    json_path_of(&tensor->place, "data", -1, path);
    return flat ? framed_check_flat(array, path, count, count, err)
                : json_tensor_require_count(array, path, count, count, NULL, err);
}

enum status framed_tensor_read_data(const struct framed_tensor *tensor, struct json_read how,
                                    void *out, struct error *err)
{
    char path[JSON_PATH_MAX];
    json_path_of(&tensor->place, "data", -1, path);
    how.dtype = tensor->dtype;
    how.field = path;
    return json_tensor_read(&how, tensor->array->cut, tensor->elements, out, err);
}

enum status framed_tensor_take_payload(struct framed_tensor *tensor, const char *name,
                                       int64_t size, uint64_t *payload, struct error *err)
{
    if (size < 0 || (uint64_t)size != tensor->bytes) {
        return json_field_refuse(&tensor->place, name, -1, STATUS_LENGTH_MISMATCH, err,
                                 "found %" PRId64 ", but shape and type take %" PRIu64 " bytes",
                                 size, tensor->bytes);
    }
    tensor->binary = true;
    tensor->payload_offset = *payload;
    if (__builtin_add_overflow(*payload, tensor->bytes, payload) || *payload > INT64_MAX) {
        return json_field_refuse(&tensor->place, name, -1, STATUS_LENGTH_MISMATCH, err,
                                 "the binary tensors take more than 2^63-1 bytes");
    }
    return STATUS_OK;
}

enum status framed_tensor_check_axis(const struct framed_tensor *tensor,
                                     const char *type_member, struct error *err)
{
    if (tensor->dtype != DTYPE_I32 && tensor->dtype != DTYPE_I64) {
        return json_field_refuse(&tensor->place, type_member, -1, STATUS_INVALID_DTYPE, err,
                                 "found %s: the axis is of type int64 or int32",
                                 dtype_info(tensor->dtype)->name);
    }
    if (tensor->rank > 1 || tensor->elements != 1) {
        return json_field_refuse(&tensor->place, "shape", -1, STATUS_INVALID_SHAPE, err,
                                 "found %d dimensions with %" PRIu64 " elements: the axis is "
                                 "a scalar, of the shape [] or [1]",
                                 tensor->rank, tensor->elements);
    }
    return STATUS_OK;
}

int64_t framed_axis_from_bytes(enum dtype dtype, const void *bytes)
{
    int32_t narrow = 0;
    int64_t wide = 0;
    if (dtype == DTYPE_I32) {
        memcpy(&narrow, bytes, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, bytes, sizeof wide);
    return wide;
}

enum status framed_axis_from_json(const struct framed_tensor *tensor, int64_t *axis,
                                  struct error *err)
{
    if (tensor->scalar != NULL) {
        (void)json_integer_of(tensor->scalar, axis);
        return STATUS_OK;
    }
    int64_t value = 0;
    const struct json_read how = {.types = 1U << DTYPE_I32 | 1U << DTYPE_I64};
    TRY(framed_tensor_read_data(tensor, how, &value, err));
    *axis = framed_axis_from_bytes(tensor->dtype, &value);
    return STATUS_OK;
}
