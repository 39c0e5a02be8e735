/* Shapes, places and axis tensors. */
#include "proto/framed_tensor.h"

#include "proto/attributes.h"

#include <inttypes.h>
#include <string.h>

enum status framed_tensor_read_shape(struct framed_tensor *tensor, struct error *err)
{
    int rank = -1;
    char path[JSON_PATH_MAX];
    enum status status =
        json_field_int64_list(&tensor->place, "shape", LIMIT_RANK, tensor->sizes, &rank, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (rank < 0) {
        return json_field_missing(&tensor->place, "shape", err);
    }
    struct scan_desc desc = {.dtype = tensor->dtype, .rank = rank};
    for (int i = 0; i < rank; i++) {
        desc.sizes[i] = tensor->sizes[i];
        if (tensor->sizes[i] < 0) {
            json_path_of(&tensor->place, "shape", i, path);
            return error_set_field(err, STATUS_INVALID_SHAPE, path,
                                   "found %" PRId64 ": a dimension has 0 elements or more",
                                   tensor->sizes[i]);
        }
    }
    if (!buffer_reach(&desc, NULL, &tensor->elements)) {
        json_path_of(&tensor->place, "shape", -1, path);
        return error_set_field(err, STATUS_INVALID_SHAPE, path,
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

enum status framed_tensor_take_payload(struct framed_tensor *tensor, const char *name,
                                       int64_t size, uint64_t *payload, struct error *err)
{
    if (size < 0 || (uint64_t)size != tensor->bytes) {
        char path[JSON_PATH_MAX];
        json_path_of(&tensor->place, name, -1, path);
        return error_set_field(err, STATUS_LENGTH_MISMATCH, path,
                               "found %" PRId64 ", but shape and type take %" PRIu64 " bytes",
                               size, tensor->bytes);
    }
    tensor->binary = true;
    tensor->payload_offset = *payload;
    *payload += tensor->bytes; /* each is below 2^63, and there are two */
    return STATUS_OK;
}

enum status framed_tensor_check_axis(const struct framed_tensor *tensor,
                                     const char *type_member, struct error *err)
{
    char path[JSON_PATH_MAX];
    if (tensor->dtype != DTYPE_I32 && tensor->dtype != DTYPE_I64) {
        json_path_of(&tensor->place, type_member, -1, path);
        return error_set_field(err, STATUS_INVALID_DTYPE, path,
                               "found %s: the axis is of type int64 or int32",
                               dtype_info(tensor->dtype)->name);
    }
    if (tensor->rank > 1 || tensor->elements != 1) {
        json_path_of(&tensor->place, "shape", -1, path);
        return error_set_field(err, STATUS_INVALID_SHAPE, path,
                               "the axis is a scalar: expected the shape [] or [1]");
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
    char path[JSON_PATH_MAX];
    int64_t value = 0;
    json_path_of(&tensor->place, "data", -1, path);
    struct json_read read = {.dtype = tensor->dtype, .field = path};
    enum status status = json_tensor_read(&read, tensor->array->cut, 1, &value, err);
    if (status == STATUS_OK) {
        *axis = framed_axis_from_bytes(tensor->dtype, &value);
    }
    return status;
}
