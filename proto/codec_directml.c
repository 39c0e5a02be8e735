/* POST /v1/directml/cumulative_summation: DML_CUMULATIVE_SUMMATION_OPERATOR_DESC as JSON.
 *
 *     {"type": "DML_OPERATOR_CUMULATIVE_SUMMATION", "feature_level": "5_0",
 *      "desc": {"InputTensor": {...}, "OutputTensor": {...}, "Axis": 3,
 *               "AxisDirection": "DML_AXIS_DIRECTION_INCREASING", "HasExclusiveSum": false},
 *      "data": [...]}
 *
 * `data` is the input buffer, element by element; binary requests omit it and append the buffer
 * to the JSON. The answer repeats OutputTensor and returns the output buffer in the same form.
 * One request combines initialization, binding and execution: an input with OWNED_BY_DML is one
 * whose data, sent with the request, are bound at initialization.
 *
 * The first half of the file reads a DML_TENSOR_DESC: its members in the order of the
 * descriptor, each checked against the feature level, then the rules that involve several
 * members. The second half is the operator: decode() locates the input buffer, complete()
 * converts text to it, encode() writes OutputTensor as the client wrote it, then the output
 * buffer.
 *
 * Possible failures: a violated rule of DirectML, with the path of the member
 * ("desc.InputTensor.Sizes[2]"); LENGTH_MISMATCH for a buffer of another size;
 * OUT_OF_MEMORY. */
#include "proto/attributes.h"
#include "proto/framed.h"
#include "proto/text.h"

#include <inttypes.h>
#include <string.h>

enum {
    TYPES_2_1 = 1 << DTYPE_F32 | 1 << DTYPE_F16 | 1 << DTYPE_I32 | 1 << DTYPE_U32,
    TYPES_5_0 = TYPES_2_1 | 1 << DTYPE_I64 | 1 << DTYPE_U64,
    TYPES_2020_10 = 1 << DTYPE_F32 | 1 << DTYPE_F16 | 1 << DTYPE_U32 | 1 << DTYPE_U16
};

/* A name that feature_level accepts, too: the October 2020 edition of the operator's
 * documentation, whose "Tensor support" table has other types. */
#define EDITION "2020_10"

/* One feature level and its row of the operator's "Tensor support" table. */
struct level {
    const char *name; /* DML_FEATURE_LEVEL_5_0 without its prefix */
    unsigned types;   /* bit (1u << dtype) for each supported type; 0: the operator does not
                         exist */
    int dims_min;     /* minimum and maximum DimensionCount */
    int dims_max;
};

/* clang-format off */
static const struct level levels[] = {
    {"1_0", 0, 0, 0},         {"2_0", 0, 0, 0},
    {"2_1", TYPES_2_1, 4, 4}, {"3_0", TYPES_2_1, 4, 4}, {"3_1", TYPES_2_1, 4, 4},
    {"4_0", TYPES_2_1, 1, 8}, {"4_1", TYPES_2_1, 1, 8},
    {"5_0", TYPES_5_0, 1, 8}, {"5_1", TYPES_5_0, 1, 8}, {"5_2", TYPES_5_0, 1, 8},
    {"6_0", TYPES_5_0, 1, 8}, {"6_1", TYPES_5_0, 1, 8}, {"6_2", TYPES_5_0, 1, 8},
    {"6_3", TYPES_5_0, 1, 8}, {"6_4", TYPES_5_0, 1, 8},
    {EDITION, TYPES_2020_10, 4, 4},
};
/* clang-format on */

/* DML_BUFFER_TENSOR_DESC. */
struct tensor {
    struct json_place place; /* the object with its members */
    struct scan_desc scan;   /* DataType, Sizes, Strides */
    bool owned_by_dml;       /* the flag DML_TENSOR_FLAG_OWNED_BY_DML */
    uint64_t reach;          /* elements from the first to the last address of the layout */
    uint64_t total_bytes;    /* TotalTensorSizeInBytes, 0: the minimum */
    uint32_t alignment;      /* GuaranteedBaseOffsetAlignment, 0: no guarantee */
};

/* Two names of an enumeration, case-sensitive. */
struct words {
    const char *prefix; /* prefix that a client may omit */
    const char *first;
    const char *second;
};

/* Return `text` without `prefix`, if it has this prefix. */
static const char *strip_prefix(const char *text, const char *prefix)
{
    const size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 ? text + length : text;
}

/* Read the member feature_level, with or without its prefix. */
static enum status read_level(const struct json_place *root, const struct level **out,
                              struct error *err)
{
    const char *text = "5_0"; /* the default */
    TRY(json_field_string(root, "feature_level", &text, err));
    /* The edition is not a feature level of DirectML and has no prefix. */
    const char *stripped = strip_prefix(text, "DML_FEATURE_LEVEL_");
    const char *name = strcmp(stripped, EDITION) == 0 ? text : stripped;
    for (size_t i = 0; i < ARRAY_COUNT(levels); i++) {
        if (strcmp(name, levels[i].name) != 0) {
            continue;
        }
        if (levels[i].types == 0) {
            return error_set_field(
                err, STATUS_INVALID_FIELD, "feature_level",
                "DML_OPERATOR_CUMULATIVE_SUMMATION does not exist at feature level %s: it was "
                "introduced in DML_FEATURE_LEVEL_2_1",
                levels[i].name);
        }
        *out = &levels[i];
        return STATUS_OK;
    }
    return error_set_field(
        err, STATUS_INVALID_FIELD, "feature_level",
        "unknown feature level \"%.60s\": expected one of 2_1, 3_0, 3_1, 4_0, 4_1, 5_0, 5_1, "
        "5_2, 6_0, 6_1, 6_2, 6_3, 6_4 (also with the prefix DML_FEATURE_LEVEL_), or " EDITION,
        text);
}

/* Read one of the two names from the member `name`, or from its element `index` if index >= 0.
 * Any other text is an error that names this member. */
static enum status read_word(const struct json_place *place, const char *name, int index,
                             const struct words *words, bool *second, struct error *err)
{
    const json_t *field = json_field(place, name);
    const char *text =
        json_string_value(index < 0 ? field : json_array_get(field, (size_t)index));
    const char *word = text == NULL ? "" : strip_prefix(text, words->prefix);
    *second = strcmp(word, words->second) == 0;
    if (*second || strcmp(word, words->first) == 0) {
        return STATUS_OK;
    }
    return json_field_refuse(
        place, name, index, STATUS_INVALID_FIELD, err,
        "%s%.60s%s: expected %s or %s, in upper case, with or without the prefix %s",
        text == NULL ? "found no string" : "unknown name \"", text == NULL ? "" : text,
        text == NULL ? "" : "\"", words->first, words->second, words->prefix);
}

/* ---- the members ---- */

/* Read an integer member in [0, UINT32_MAX]; *out is untouched if the member is absent. */
static enum status read_uint(const struct json_place *place, const char *name, uint32_t *out,
                             struct error *err)
{
    int64_t value = *out;
    TRY(json_field_int64(place, name, &value, err));
    if (value < 0 || value > UINT32_MAX) {
        return json_field_error(place, name, "a UINT, 0 to 4294967295", err);
    }
    *out = (uint32_t)value;
    return STATUS_OK;
}

static enum status read_uint_list(const struct json_place *place, const char *name,
                                  enum status bad, int64_t *out, int *count, struct error *err)
{
    TRY(json_field_int64_list(place, name, LIMIT_RANK, out, count, err));
    for (int i = 0; i < *count; i++) {
        if (out[i] < 0 || out[i] > UINT32_MAX) {
            return json_field_refuse(place, name, i, bad, err,
                                     "found %" PRId64 ": expected a UINT, 0 to 4294967295",
                                     out[i]);
        }
    }
    return STATUS_OK;
}

static enum status read_data_type(struct tensor *tensor, struct error *err)
{
    const char *text = NULL;
    TRY(json_require_string(&tensor->place, "DataType", &text, err));
    const char *name = strip_prefix(text, "DML_TENSOR_DATA_TYPE_");
    if (dtype_find(DTYPE_FAMILY_DIRECTML, name, strlen(name), &tensor->scan.dtype)) {
        return STATUS_OK;
    }
    return json_field_refuse(
        &tensor->place, "DataType", -1, STATUS_INVALID_DTYPE, err,
        "unknown DML_TENSOR_DATA_TYPE \"%.60s\": expected FLOAT32, FLOAT16, INT64, INT32, "
        "UINT64 or UINT32, in upper case, with or without the prefix DML_TENSOR_DATA_TYPE_",
        text);
}

/* Read Flags: one name or an array of names. */
static enum status read_flags(struct tensor *tensor, struct error *err)
{
    static const struct words words = {"DML_TENSOR_FLAG_", "NONE", "OWNED_BY_DML"};
    const struct json_place *place = &tensor->place;
    const json_t *flags = json_field(place, "Flags");
    if (flags == NULL) {
        return STATUS_OK;
    }
    const bool list = json_is_array(flags);
    const size_t count = list ? json_array_size(flags) : 1;
    for (size_t i = 0; i < count; i++) {
        bool owned = false;
        TRY(read_word(place, "Flags", list ? (int)i : -1, &words, &owned, err));
        tensor->owned_by_dml = tensor->owned_by_dml || owned;
    }
    return STATUS_OK;
}

/* Read Sizes, and check that DimensionCount equals the number of sizes. */
static enum status read_sizes(const struct level *level, struct tensor *tensor,
                              struct error *err)
{
    const struct json_place *place = &tensor->place;
    int count = 0;
    TRY(json_require(place, "Sizes", err));
    TRY(read_uint_list(place, "Sizes", STATUS_INVALID_SHAPE, tensor->scan.sizes, &count, err));
    if (count < level->dims_min || count > level->dims_max) {
        return json_field_refuse(
            place, "Sizes", -1, STATUS_INVALID_SHAPE, err,
            "found %d dimensions: feature level %s allows %s", count, level->name,
            level->dims_min == level->dims_max ? "exactly 4 (4_0 and later allow 1 to 8)"
                                               : "1 to 8");
    }
    uint32_t counted = (uint32_t)count;
    TRY(read_uint(place, "DimensionCount", &counted, err));
    if (counted != (uint32_t)count) {
        return json_field_refuse(place, "DimensionCount", -1, STATUS_INVALID_SHAPE, err,
                                 "found %" PRIu32 ", but Sizes has %d dimensions", counted,
                                 count);
    }
    tensor->scan.rank = count;
    return STATUS_OK;
}

static enum status read_strides(struct tensor *tensor, struct error *err)
{
    const struct json_place *place = &tensor->place;
    if (json_field_given(place, "Strides") == NULL) {
        return STATUS_OK; /* null means contiguous, as a null pointer does in DirectML */
    }
    int count = 0;
    TRY(read_uint_list(place, "Strides", STATUS_INVALID_STRIDES, tensor->scan.strides, &count,
                       err));
    if (count != tensor->scan.rank) {
        return json_field_refuse(place, "Strides", -1, STATUS_INVALID_STRIDES, err,
                                 "found %d stride%s, expected %d: one for each dimension",
                                 count, count == 1 ? "" : "s", tensor->scan.rank);
    }
    tensor->scan.has_strides = true;
    return STATUS_OK;
}

/* ---- the rules ---- */

/* Check that no size is 0, and that both the product of the sizes and the reach of the strides
 * are at most 2^32-1 elements. */
static enum status check_sizes(struct tensor *tensor, struct error *err)
{
    const struct json_place *place = &tensor->place;
    const struct scan_desc *scan = &tensor->scan;
    uint64_t elements = 0;
    for (int i = 0; i < scan->rank; i++) {
        if (scan->sizes[i] == 0) {
            return json_field_refuse(
                place, "Sizes", i, STATUS_INVALID_SHAPE, err,
                "a size of 0 is not allowed: DirectML has no empty tensors");
        }
    }
    if (!buffer_reach(scan, NULL, &elements) || elements > UINT32_MAX) {
        return json_field_refuse(place, "Sizes", -1, STATUS_INVALID_SHAPE, err,
                                 "the tensor has more than 4294967295 (2^32-1) elements");
    }
    if (!input_reach(scan, &tensor->reach) || tensor->reach > UINT32_MAX) {
        return json_field_refuse(
            place, "Strides", -1, STATUS_INVALID_STRIDES, err,
            "the strides spread the tensor over more than 4294967295 (2^32-1) elements");
    }
    return STATUS_OK;
}

/* Return the number of bytes that the layout reaches. */
static uint64_t least_bytes(const struct tensor *tensor)
{
    return tensor->reach * dtype_info(tensor->scan.dtype)->bytes;
}

/* Return least_bytes(), rounded up to a multiple of 4 as bindings require. */
static uint64_t minimum_bytes(const struct tensor *tensor)
{
    return (least_bytes(tensor) + 3) & ~UINT64_C(3);
}

/* Return TotalTensorSizeInBytes: the given value, or the minimum. */
static uint64_t total_bytes(const struct tensor *tensor)
{
    return tensor->total_bytes != 0 ? tensor->total_bytes : minimum_bytes(tensor);
}

static enum status check_tensor(const struct level *level, struct tensor *tensor,
                                struct error *err)
{
    const struct json_place *place = &tensor->place;
    const enum dtype dtype = tensor->scan.dtype;
    const size_t element = dtype_info(dtype)->bytes;
    const uint32_t alignment = tensor->alignment;
    if ((level->types & 1U << dtype) == 0) {
        char known[128] = "";
        for (int i = 0; i < DTYPE_COUNT; i++) {
            if ((level->types & 1U << i) != 0) {
                text_append(known, sizeof known, "%s%s", known[0] != '\0' ? ", " : "",
                            dtype_info((enum dtype)i)->directml);
            }
        }
        return json_field_refuse(place, "DataType", -1, STATUS_INVALID_DTYPE, err,
                                 "%s is not supported at feature level %s: expected one of %s",
                                 dtype_info(dtype)->directml, level->name, known);
    }
    TRY(check_sizes(tensor, err));
    const uint64_t minimum = minimum_bytes(tensor);
    if (tensor->total_bytes != 0 && tensor->total_bytes < minimum) {
        return json_field_refuse(place, "TotalTensorSizeInBytes", -1, STATUS_INVALID_FIELD, err,
                                 "found %" PRIu64 ", but the tensor needs at least %" PRIu64
                                 " bytes (%" PRIu64
                                 " elements of %zu bytes, rounded up to a multiple of 4); 0 or "
                                 "absent means that minimum",
                                 tensor->total_bytes, minimum, tensor->reach, element);
    }
    if (alignment != 0 && ((alignment & (alignment - 1)) != 0 || alignment < element)) {
        return json_field_refuse(
            place, "GuaranteedBaseOffsetAlignment", -1, STATUS_INVALID_FIELD, err,
            "found %" PRIu32
            ": expected 0 (no guarantee) or a power of two of at least the element size, %zu",
            alignment, element);
    }
    return STATUS_OK;
}

/* ---- the tensor ---- */

/* Replace {"Type": ..., "Desc": {...}} by its Desc; a plain descriptor is unchanged. */
static enum status unwrap_buffer_tensor(struct json_place *place, struct error *err)
{
    static const char *const known[] = {"Type", "Desc"};
    const char *type = NULL;
    if (json_field(place, "Type") == NULL && json_field(place, "Desc") == NULL) {
        return STATUS_OK;
    }
    TRY(json_fields_known(place, known, ARRAY_COUNT(known), err));
    TRY(json_require_string(place, "Type", &type, err));
    if (strcmp(strip_prefix(type, "DML_TENSOR_TYPE_"), "BUFFER") != 0) {
        return json_field_refuse(place, "Type", -1, STATUS_INVALID_FIELD, err,
                                 "unknown DML_TENSOR_TYPE \"%.60s\": expected "
                                 "DML_TENSOR_TYPE_BUFFER, the only kind of tensor there is",
                                 type);
    }
    TRY(json_require(place, "Desc", err));
    return json_field_object(place, "Desc", place, err);
}

/* Read and check the descriptor desc.<name>. */
static enum status read_tensor(const struct level *level, const struct json_place *desc,
                               const char *name, struct tensor *tensor, struct error *err)
{
    static const char *const known[] = {"DataType",
                                        "Flags",
                                        "DimensionCount",
                                        "Sizes",
                                        "Strides",
                                        "TotalTensorSizeInBytes",
                                        "GuaranteedBaseOffsetAlignment"};
    struct json_place *place = &tensor->place;
    TRY(json_require(desc, name, err));
    TRY(json_field_object(desc, name, place, err));
    TRY(unwrap_buffer_tensor(place, err));
    TRY(json_fields_known(place, known, ARRAY_COUNT(known), err));
    TRY(read_data_type(tensor, err));
    TRY(read_flags(tensor, err));
    TRY(read_sizes(level, tensor, err));
    TRY(read_strides(tensor, err));
    TRY(json_field_size(place, "TotalTensorSizeInBytes", &tensor->total_bytes, err));
    TRY(read_uint(place, "GuaranteedBaseOffsetAlignment", &tensor->alignment, err));
    return check_tensor(level, tensor, err);
}

/* Check the rule "InputTensor and OutputTensor must have the same DataType, DimensionCount,
 * and Sizes", and that only inputs are OWNED_BY_DML. An error names the member of the
 * output. */
static enum status check_output(const struct tensor *input, const struct tensor *output,
                                struct error *err)
{
    const struct json_place *place = &output->place;
    if (output->owned_by_dml) {
        return json_field_refuse(
            place, "Flags", -1, STATUS_INVALID_FIELD, err,
            "OWNED_BY_DML is for input tensors: an output cannot be bound at initialisation");
    }
    const struct scan_desc *out = &output->scan;
    const struct scan_desc *in = &input->scan;
    if (out->dtype != in->dtype) {
        return json_field_refuse(
            place, "DataType", -1, STATUS_INVALID_DTYPE, err,
            "found %s, but InputTensor.DataType is %s: they must be the same",
            dtype_info(out->dtype)->directml, dtype_info(in->dtype)->directml);
    }
    if (out->rank != in->rank) {
        return json_field_refuse(
            place, "Sizes", -1, STATUS_INVALID_SHAPE, err,
            "found %d dimensions, but InputTensor has %d: they must be the same", out->rank,
            in->rank);
    }
    for (int i = 0; i < out->rank; i++) {
        if (out->sizes[i] != in->sizes[i]) {
            return json_field_refuse(place, "Sizes", i, STATUS_INVALID_SHAPE, err,
                                     "found %" PRId64 ", but InputTensor.Sizes[%d] is %" PRId64
                                     ": they must be the same",
                                     out->sizes[i], i, in->sizes[i]);
        }
    }
    return STATUS_OK;
}

/* ---- the operator ---- */

struct directml {
    struct framed framed; /* its `text` is OutputTensor as the client wrote it */
    const struct level *level;
    struct tensor input;
    struct tensor output;
};

static enum status read_desc(const struct json_place *desc, struct directml *dml,
                             struct scan_desc *scan, struct error *err)
{
    static const char *const known[] = {"InputTensor", "OutputTensor", "Axis", "AxisDirection",
                                        "HasExclusiveSum"};
    static const struct words direction = {"DML_AXIS_DIRECTION_", "INCREASING", "DECREASING"};
    const struct scan_desc *output = &dml->output.scan;
    TRY(json_fields_known(desc, known, ARRAY_COUNT(known), err));
    TRY(read_tensor(dml->level, desc, "InputTensor", &dml->input, err));
    TRY(read_tensor(dml->level, desc, "OutputTensor", &dml->output, err));
    TRY(check_output(&dml->input, &dml->output, err));
    *scan = dml->input.scan;
    scan->has_output_strides = output->has_strides;
    memcpy(scan->output_strides, output->strides, sizeof output->strides);
    TRY(json_require(desc, "Axis", err));
    TRY(json_field_int64(desc, "Axis", &scan->axis, err));
    if (scan->axis < 0 || scan->axis >= scan->rank) {
        return error_set_field(err, STATUS_INVALID_AXIS, "desc.Axis",
                               "found %" PRId64 ": Axis is unsigned and must be less than the "
                               "DimensionCount of InputTensor, %d",
                               scan->axis, scan->rank);
    }
    TRY(json_require(desc, "AxisDirection", err));
    TRY(read_word(desc, "AxisDirection", -1, &direction, &scan->reverse, err));
    TRY(json_require(desc, "HasExclusiveSum", err));
    TRY(json_field_bool(desc, "HasExclusiveSum", false, &scan->exclusive, err));
    dml->framed.text = json_doc_dump(json_field(desc, "OutputTensor"));
    return dml->framed.text != NULL
               ? STATUS_OK
               : error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the descriptor");
}

/* Read {"type"?, "feature_level"?, "desc": {...}, "data"?}. Any other member is refused. The
 * value of "data" is not read here. */
static enum status read_operator(struct directml *dml, struct scan_desc *scan,
                                 struct error *err)
{
    static const char *const known[] = {"type", "feature_level", "desc", "data"};
    struct json_place root = {.object = dml->framed.doc.root, .path = ""};
    const char *type = NULL;
    struct json_place desc;
    TRY(framed_check_members(&root, known, ARRAY_COUNT(known), err));
    TRY(json_field_string(&root, "type", &type, err));
    if (type != NULL && strcmp(type, "DML_OPERATOR_CUMULATIVE_SUMMATION") != 0 &&
        strcmp(type, "CUMULATIVE_SUMMATION") != 0) {
        return json_field_error(
            &root, "type", "DML_OPERATOR_CUMULATIVE_SUMMATION, the one that this route runs",
            err);
    }
    TRY(read_level(&root, &dml->level, err));
    TRY(json_require(&root, "desc", err));
    TRY(json_field_object(&root, "desc", &desc, err));
    return read_desc(&desc, dml, scan, err);
}

/* ---- the request ---- */

/* Check the length of a binary buffer. The client may send the whole buffer, or only the bytes
 * up to the last element. */
static enum status check_payload(const struct tensor *input, uint64_t found, struct error *err)
{
    uint64_t least = least_bytes(input);
    uint64_t minimum = minimum_bytes(input);
    uint64_t total = total_bytes(input);
    if (found == least || found == minimum || found == total) {
        return STATUS_OK;
    }
    return error_set(
        err, STATUS_LENGTH_MISMATCH,
        "the body has %" PRIu64 " bytes after its JSON: expected the input buffer, "
        "TotalTensorSizeInBytes %" PRIu64 " bytes, or no more than its elements "
        "need, %" PRIu64 " bytes (rounded up to 4: %" PRIu64 "); is " FRAMED_HEADER " right?",
        found, total, least, minimum);
}

/* Locate the elements of a request whose data are JSON. The input must have at least the
 * elements that the layout reaches and at most those of the buffer. The answer shows the whole
 * output buffer if the client gave its size, else the elements that the layout reaches. Zeros
 * behind the last sum are printed without being stored. */
static enum status locate_text(const struct codec_request *request, const struct directml *dml,
                               const struct json_array *array, struct scan_call *call,
                               struct error *err)
{
    size_t size = dtype_info(dml->input.scan.dtype)->bytes;
    TRY(framed_check_flat(array, "data", dml->input.reach, total_bytes(&dml->input) / size,
                          err));
    TRY(framed_check_announced(request, 0, err));
    call->source = CALL_SOURCE_TEXT;
    call->data = array->cut;
    call->input_bytes = array->elements * size;
    call->packs_output = json_cells_are_sparse(&call->desc);
    return STATUS_OK;
}

static enum status locate_input(const struct codec_request *request, const struct directml *dml,
                                struct scan_call *call, struct error *err)
{
    struct json_place root = {.object = dml->framed.doc.root, .path = ""};
    const json_t *data = json_field_given(&root, "data");
    const struct json_array *array = json_doc_array(&dml->framed.doc, data);
    if (array != NULL) {
        return locate_text(request, dml, array, call, err);
    }
    if (data != NULL) {
        return json_field_error(&root, "data", "a flat array of numbers", err);
    }
    if (request->head_bytes < 0) {
        return json_field_missing(&root, "data", err);
    }
    const int64_t known = framed_payload_bytes(request);
    call->source = CALL_SOURCE_PAYLOAD;
    call->answer_format = CODEC_FORMAT_RAW;
    call->input_bytes = least_bytes(&dml->input);
    call->output_bytes = total_bytes(&dml->output);
    call->payload_max = known >= 0 ? (uint64_t)known : total_bytes(&dml->input);
    return known >= 0 ? check_payload(&dml->input, call->payload_max, err) : STATUS_OK;
}

static enum status directml_decode(const struct codec_request *request, struct byte_view head,
                                   struct scan_call *call, struct error *err)
{
    struct directml *dml = call->dialect;
    TRY(framed_no_query(request,
                        "as Axis, AxisDirection and HasExclusiveSum of the object desc", err));
    TRY(json_doc_parse(head.bytes, head.count, request->parallel, &dml->framed.doc, err));
    TRY(read_operator(dml, &call->desc, err));
    return locate_input(request, dml, call, err);
}

static enum status directml_complete(struct scan_call *call, void *input,
                                     uint64_t payload_bytes, struct error *err)
{
    const struct directml *dml = call->dialect;
    if (call->source == CALL_SOURCE_PAYLOAD) {
        return check_payload(&dml->input, payload_bytes, err);
    }
    TRY(framed_check_payload(payload_bytes, 0, err));
    struct json_read read = {.dtype = call->desc.dtype,
                             .types = dml->level->types,
                             .field = "data",
                             .parallel = call->parallel};
    return json_tensor_read(&read, call->data,
                            call->input_bytes / dtype_info(read.dtype)->bytes, input, err);
}

/* Describe the output buffer for printing: up to the given size, else up to the last sum.
 * `room` holds the cells if zeros lie between or behind the sums. */
static struct json_print print_of(const struct scan_call *call, const void *output,
                                  struct json_cells *room)
{
    const struct tensor *tensor = &((const struct directml *)call->dialect)->output;
    const uint64_t count = tensor->total_bytes / dtype_info(tensor->scan.dtype)->bytes;
    const bool sparse = call->packs_output && json_cells_strided(&call->desc, room);
    struct json_print print = framed_print(call, output, least_bytes(tensor));
    if (sparse) {
        room->count = larger_of(room->count, count);
    } else if (count > tensor->reach) {
        json_cells_tailed(tensor->reach, count, room);
    }
    print.cells = sparse || count > tensor->reach ? room : NULL;
    return print;
}

static uint64_t directml_head_max(const struct scan_call *call)
{
    const uint64_t around = framed_head_max(call, false);
    struct json_cells cells;
    if (call->source != CALL_SOURCE_TEXT) {
        return around;
    }
    const struct json_print print = print_of(call, NULL, &cells);
    return json_tensor_write_max(&print, around);
}

static enum status directml_encode(const struct scan_call *call, const void *output,
                                   uint64_t output_bytes, struct answer *answer,
                                   struct error *err)
{
    const struct directml *dml = call->dialect;
    bool framed = call->source == CALL_SOURCE_PAYLOAD;
    struct json_writer w;
    answer_begin_text(answer, &w, directml_head_max(call));
    json_writer_begin_object(&w);
    json_writer_key(&w, "OutputTensor");
    json_writer_raw(&w, dml->framed.text, strlen(dml->framed.text));
    if (!framed) {
        struct json_cells cells;
        const struct json_print print = print_of(call, output, &cells);
        json_writer_key(&w, "data");
        json_tensor_write(&print, &w);
    }
    json_writer_end_object(&w);
    (void)output_bytes;
    return framed_answer(&w, call, (struct byte_view){"", 0}, framed, answer, err);
}

static const char *directml_plan_field(const struct scan_call *call, const char *field)
{
    static const struct framed_name names[] = {{"shape", "desc.InputTensor.Sizes"},
                                               {"axis", "desc.Axis"},
                                               {"strides", "desc.InputTensor.Strides"},
                                               {"output_strides", "desc.OutputTensor.Strides"}};
    (void)call;
    return framed_plan_field(names, ARRAY_COUNT(names), field);
}

const struct codec codec_directml = {.name = "directml",
                                     .head_need = framed_head_need,
                                     .record_bytes = sizeof(struct directml),
                                     .decode = directml_decode,
                                     .complete = directml_complete,
                                     .encode = directml_encode,
                                     .head_max = directml_head_max,
                                     .plan_field = directml_plan_field};
