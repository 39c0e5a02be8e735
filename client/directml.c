/* DirectML's descriptor on host buffers: the binding rules, the JSON head, the framed answer.
 *
 *   descriptor checked -> bindings checked -> head written -> [ head | input ] sent
 *   -> [ head | output ] received: the head must describe the requested output before a byte of the
 *      output is stored
 *
 * The client checks the bounds of the buffers. The server checks the rules of the operator,
 * which depend on the feature level.
 *
 * Possible failures: TALLY_INVALID_ARGUMENT, with the wrong member in err->field;
 * TALLY_BAD_ANSWER for an answer that is not framed, or describes another tensor. Thread: the
 * caller's. */
#include "client/cumsum_call.h"
#include "client/tally_directml.h"
#include "proto/dtype.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ANSWER_HEAD_MAX = 65536
};

enum {
    INPUT,
    OUTPUT
};

/* The execution of one descriptor. */
struct dml_call {
    const DML_CUMULATIVE_SUMMATION_OPERATOR_DESC *desc; /* borrowed */
    const DML_BUFFER_TENSOR_DESC *tensors[2];           /* borrowed: input, output */
    const struct dtype_info *types[2];                  /* element types of input and output */
    uint64_t bytes[2];                                  /* TotalTensorSizeInBytes of both */
    unsigned char *output;                              /* borrowed */
    struct front answer_head;                           /* JSON head of the answer */
};

static const char *const TENSOR_NAMES[] = {"InputTensor", "OutputTensor"};

/* Return the element type; NULL for unknown and 4-bit types. */
static const struct dtype_info *data_type_info(DML_TENSOR_DATA_TYPE type)
{
    static const enum dtype types[] = {
        [DML_TENSOR_DATA_TYPE_FLOAT32] = DTYPE_F32, [DML_TENSOR_DATA_TYPE_FLOAT16] = DTYPE_F16,
        [DML_TENSOR_DATA_TYPE_UINT32] = DTYPE_U32,  [DML_TENSOR_DATA_TYPE_UINT16] = DTYPE_U16,
        [DML_TENSOR_DATA_TYPE_UINT8] = DTYPE_U8,    [DML_TENSOR_DATA_TYPE_INT32] = DTYPE_I32,
        [DML_TENSOR_DATA_TYPE_INT16] = DTYPE_I16,   [DML_TENSOR_DATA_TYPE_INT8] = DTYPE_I8,
        [DML_TENSOR_DATA_TYPE_FLOAT64] = DTYPE_F64, [DML_TENSOR_DATA_TYPE_UINT64] = DTYPE_U64,
        [DML_TENSOR_DATA_TYPE_INT64] = DTYPE_I64,
    };
    return type != DML_TENSOR_DATA_TYPE_UNKNOWN && (size_t)type < ARRAY_COUNT(types)
               ? dtype_info(types[type])
               : NULL;
}

uint64_t tally_dml_buffer_tensor_size(DML_TENSOR_DATA_TYPE data_type, UINT dimension_count,
                                      const UINT *sizes, const UINT *strides)
{
    uint64_t elements = 1;
    uint64_t bytes = 0;
    const struct dtype_info *type = data_type_info(data_type);
    if (type == NULL || sizes == NULL || dimension_count < 1 ||
        dimension_count > DML_TENSOR_DIMENSION_COUNT_MAX1) {
        return 0;
    }
    for (UINT i = 0; i < dimension_count; i++) {
        uint64_t reach = strides == NULL ? 0 : (uint64_t)(sizes[i] - 1) * strides[i];
        if (sizes[i] == 0 ||
            (strides == NULL ? __builtin_mul_overflow(elements, (uint64_t)sizes[i], &elements)
                             : __builtin_add_overflow(elements, reach, &elements))) {
            return 0;
        }
    }
    if (__builtin_mul_overflow(elements, (uint64_t)type->bytes, &bytes) ||
        __builtin_add_overflow(bytes, 3U, &bytes) || bytes > INT64_MAX) {
        return 0;
    }
    return bytes & ~UINT64_C(3);
}

/* ---- checks ---- */

/* Set TALLY_INVALID_ARGUMENT, and a message that begins with the member to blame. */
PRINTF_LIKE(3, 4)
static enum tally_status dml_blame(struct tally_error *err, const char *field,
                                   const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return client_error_blame(err, field, "%s: %s", field, text);
}

/* Check the members of a tensor that determine its size, and store the tensor in *call. */
static enum tally_status check_tensor(struct dml_call *call, int which,
                                      const DML_TENSOR_DESC *tensor, struct tally_error *err)
{
    const char *name = TENSOR_NAMES[which];
    if (tensor == NULL || tensor->Type != DML_TENSOR_TYPE_BUFFER || tensor->Desc == NULL) {
        return dml_blame(err, name,
                         "expected a DML_TENSOR_DESC of type DML_TENSOR_TYPE_BUFFER");
    }
    const DML_BUFFER_TENSOR_DESC *desc = tensor->Desc;
    call->types[which] = data_type_info(desc->DataType);
    if (call->types[which] == NULL) {
        return dml_blame(err, name, "DataType %d is unknown or has less than 8 bits",
                         (int)desc->DataType);
    }
    if (desc->DimensionCount < 1 || desc->DimensionCount > DML_TENSOR_DIMENSION_COUNT_MAX1 ||
        desc->Sizes == NULL) {
        return dml_blame(err, name,
                         "DimensionCount is %" PRIu32 "; expected 1 to %d, with Sizes",
                         desc->DimensionCount, DML_TENSOR_DIMENSION_COUNT_MAX1);
    }
    if (desc->Flags != DML_TENSOR_FLAG_NONE && desc->Flags != DML_TENSOR_FLAG_OWNED_BY_DML) {
        return dml_blame(err, name, "Flags is 0x%x; expected 0 or DML_TENSOR_FLAG_OWNED_BY_DML",
                         (unsigned)desc->Flags);
    }
    uint64_t minimum = tally_dml_buffer_tensor_size(desc->DataType, desc->DimensionCount,
                                                    desc->Sizes, desc->Strides);
    if (minimum == 0) {
        return dml_blame(err, name, "a size is 0, or the tensor is larger than 2^63 bytes");
    }
    if (desc->TotalTensorSizeInBytes < minimum || desc->TotalTensorSizeInBytes > INT64_MAX) {
        return dml_blame(err, name,
                         "TotalTensorSizeInBytes is %" PRIu64
                         "; sizes and strides need at least %" PRIu64,
                         desc->TotalTensorSizeInBytes, minimum);
    }
    call->tensors[which] = desc;
    call->bytes[which] = desc->TotalTensorSizeInBytes;
    return TALLY_OK;
}

static enum tally_status check_binding(const struct dml_call *call, int which,
                                       const struct tally_dml_binding *binding,
                                       struct tally_error *err)
{
    const char *name = TENSOR_NAMES[which];
    const DML_BUFFER_TENSOR_DESC *tensor = call->tensors[which];
    assert(tensor != NULL); /* check_tensor() has set it */
    uint64_t alignment = tensor->GuaranteedBaseOffsetAlignment;
    uint64_t element = call->types[which]->bytes;
    if (binding == NULL || binding->buffer == NULL) {
        return dml_blame(err, name, "nothing is bound");
    }
    if (binding->offset % DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT != 0) {
        return dml_blame(err, name, "the bound offset %" PRIu64 " is not a multiple of %d",
                         binding->offset, DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT);
    }
    if (alignment != 0 && ((alignment & (alignment - 1)) != 0 || alignment < element)) {
        return dml_blame(err, name,
                         "GuaranteedBaseOffsetAlignment is %" PRIu64
                         "; expected 0 or a power of two of at least %" PRIu64,
                         alignment, element);
    }
    if (alignment != 0 && binding->offset % alignment != 0) {
        return dml_blame(err, name,
                         "the bound offset %" PRIu64
                         " is not a multiple of the guaranteed %" PRIu64,
                         binding->offset, alignment);
    }
    if (binding->size_in_bytes % 4 != 0) {
        return dml_blame(err, name,
                         "the bound range of %" PRIu64 " bytes is not a multiple of 4",
                         binding->size_in_bytes);
    }
    if (binding->size_in_bytes < call->bytes[which]) {
        return dml_blame(err, name,
                         "the bound range has %" PRIu64
                         " bytes, TotalTensorSizeInBytes is %" PRIu64,
                         binding->size_in_bytes, call->bytes[which]);
    }
    return TALLY_OK;
}

/* Return the first byte of a bound range. */
static unsigned char *bound_start(const struct tally_dml_binding *binding)
{
    return (unsigned char *)binding->buffer + binding->offset;
}

/* ---- the request ---- */

static json_t *list_of(const UINT *numbers, UINT count)
{
    json_t *list = json_array();
    for (UINT i = 0; i < count; i++) {
        if (json_array_append_new(list, json_integer(numbers[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Return the description of a tensor; NULL without memory. */
static json_t *tensor_json(const struct dml_call *call, int which)
{
    const DML_BUFFER_TENSOR_DESC *desc = call->tensors[which];
    assert(desc != NULL && call->types[which] != NULL); /* check_call() has found both */
    json_t *tensor = json_pack(
        "{s:s,s:I,s:o,s:I,s:I}", "DataType", call->types[which]->directml, "DimensionCount",
        (json_int_t)desc->DimensionCount, "Sizes", list_of(desc->Sizes, desc->DimensionCount),
        "TotalTensorSizeInBytes", (json_int_t)desc->TotalTensorSizeInBytes,
        "GuaranteedBaseOffsetAlignment", (json_int_t)desc->GuaranteedBaseOffsetAlignment);
    const bool whole =
        (desc->Strides == NULL ||
         json_object_set_new(tensor, "Strides", list_of(desc->Strides, desc->DimensionCount)) ==
             0) &&
        (desc->Flags != DML_TENSOR_FLAG_OWNED_BY_DML ||
         json_object_set_new(tensor, "Flags", json_string("DML_TENSOR_FLAG_OWNED_BY_DML")) ==
             0);
    if (!whole) {
        json_decref(tensor);
        return NULL;
    }
    return tensor;
}

/* Return the JSON head of the request, owned by the caller; NULL without memory. */
static char *head_text(const struct dml_call *call, int feature_level)
{
    const DML_CUMULATIVE_SUMMATION_OPERATOR_DESC *desc = call->desc;
    const int level = feature_level == 0 ? DML_FEATURE_LEVEL_5_0 : feature_level;
    char name[32];
    (void)snprintf(name, sizeof name, "%d_%d", level >> 12, (level >> 8) & 15);
    json_t *head = json_pack(
        "{s:s,s:s,s:{s:o,s:o,s:I,s:s,s:b}}", "type", "DML_OPERATOR_CUMULATIVE_SUMMATION",
        "feature_level", name, "desc", "InputTensor", tensor_json(call, INPUT), "OutputTensor",
        tensor_json(call, OUTPUT), "Axis", (json_int_t)desc->Axis, "AxisDirection",
        desc->AxisDirection == DML_AXIS_DIRECTION_INCREASING ? "DML_AXIS_DIRECTION_INCREASING"
                                                             : "DML_AXIS_DIRECTION_DECREASING",
        "HasExclusiveSum", desc->HasExclusiveSum != 0);
    char *text = json_dumps(head, JSON_COMPACT);
    json_decref(head);
    return text;
}

/* ---- the answer ---- */

static enum tally_status dml_begin(void *context, const struct tally_answer *answer,
                                   uint64_t *due, struct tally_error *err)
{
    struct dml_call *call = context;
    if (!media_type_is(answer->content_type, "application/octet-stream") ||
        answer->head_length <= 0 || answer->head_length > ANSWER_HEAD_MAX) {
        return client_error_set(err, TALLY_BAD_ANSWER,
                                "the answer is not framed (Content-Type \"%s\", "
                                "Inference-Header-Content-Length %" PRId64
                                "); is this the URL of a Tally server?",
                                answer->content_type, answer->head_length);
    }
    *due = call->bytes[OUTPUT];
    return front_expect(&call->answer_head, (uint64_t)answer->head_length, due, err);
}

/* Return whether the answer's head describes a tensor with the type and sizes of the output. */
static bool head_matches(const struct dml_call *call)
{
    static const char prefix[] = "DML_TENSOR_DATA_TYPE_";
    const DML_BUFFER_TENSOR_DESC *desc = call->tensors[OUTPUT];
    const struct front *text = &call->answer_head;
    json_t *head = json_loadb((const char *)text->bytes, (size_t)text->count, 0, NULL);
    const char *name = "";
    const json_t *sizes = NULL;
    bool same = json_unpack(head, "{s:{s:s,s:o}}", "OutputTensor", "DataType", &name, "Sizes",
                            &sizes) == 0;
    name += strncmp(name, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
    same = same && strcmp(name, call->types[OUTPUT]->directml) == 0 &&
           json_array_size(sizes) == desc->DimensionCount;
    for (UINT i = 0; same && i < desc->DimensionCount; i++) {
        const json_t *size = json_array_get(sizes, i);
        same = json_is_integer(size) && json_integer_value(size) == desc->Sizes[i];
    }
    json_decref(head);
    return same;
}

static enum tally_status dml_write(void *context, uint64_t offset, const void *bytes,
                                   size_t count, struct tally_error *err)
{
    struct dml_call *call = context;
    const struct front *head = &call->answer_head;
    if (offset == 0 && !head_matches(call)) {
        return client_error_set(err, TALLY_BAD_ANSWER,
                                "the answer describes another OutputTensor: %.*s",
                                (int)smaller_of(head->count, 200), head->bytes);
    }
    memcpy(call->output + offset, bytes, count);
    return TALLY_OK;
}

/* ---- the call ---- */

static enum tally_status check_call(struct dml_call *call,
                                    const struct tally_dml_binding *input,
                                    const struct tally_dml_binding *output, bool *in_place,
                                    struct tally_error *err)
{
    const DML_CUMULATIVE_SUMMATION_OPERATOR_DESC *desc = call->desc;
    if (desc == NULL) {
        return dml_blame(err, "desc", "it is NULL");
    }
    if (desc->AxisDirection != DML_AXIS_DIRECTION_INCREASING &&
        desc->AxisDirection != DML_AXIS_DIRECTION_DECREASING) {
        return dml_blame(err, "AxisDirection", "%d is not a DML_AXIS_DIRECTION",
                         (int)desc->AxisDirection);
    }
    CLIENT_TRY(check_tensor(call, INPUT, desc->InputTensor, err));
    CLIENT_TRY(check_tensor(call, OUTPUT, desc->OutputTensor, err));
    CLIENT_TRY(check_binding(call, INPUT, input, err));
    CLIENT_TRY(check_binding(call, OUTPUT, output, err));
    bool allowed = ranges_allowed(bound_start(input), input->size_in_bytes, bound_start(output),
                                  output->size_in_bytes, in_place);
    if (!allowed || (*in_place && input->size_in_bytes != output->size_in_bytes)) {
        return dml_blame(
            err, "OutputTensor",
            "its bound range overlaps InputTensor's; in place, both ranges must be identical");
    }
    return TALLY_OK;
}

enum tally_status
tally_dml_cumulative_summation(struct tally *client,
                               const DML_CUMULATIVE_SUMMATION_OPERATOR_DESC *desc,
                               int feature_level, const struct tally_dml_binding *input,
                               const struct tally_dml_binding *output, struct tally_error *err)
{
    bool in_place = false;
    struct dml_call call = {.desc = desc};
    CLIENT_TRY(client_require(client, err));
    CLIENT_TRY(check_call(&call, input, output, &in_place, err));
    char *head = head_text(&call, feature_level);
    if (head == NULL) {
        return client_error_no_memory(err);
    }
    call.output = bound_start(output);
    struct call_spec spec = {
        .method = "POST",
        .path = "/v1/directml/cumulative_summation",
        .content_type = "application/octet-stream",
        .head = head,
        .head_bytes = strlen(head),
        .head_header = "Inference-Header-Content-Length",
        .body = bound_start(input),
        .body_bytes = call.bytes[INPUT],
        .once = in_place,
        .in_order = true,
        .front = &call.answer_head,
        .begin = dml_begin,
        .write = dml_write,
        .context = &call,
    };
    enum tally_status status = call_run(client, &spec, err);
    free(call.answer_head.bytes);
    free(head);
    return status;
}
