/* POST /v1/directml/cumulative_summation: DML_CUMULATIVE_SUMMATION_OPERATOR_DESC as JSON.
 *
 *     {"type": "DML_OPERATOR_CUMULATIVE_SUMMATION", "feature_level": "5_0",
 *      "desc": {"InputTensor": {...}, "OutputTensor": {...}, "Axis": 3,
 *               "AxisDirection": "DML_AXIS_DIRECTION_INCREASING", "HasExclusiveSum": false},
 *      "data": [...]}
 *
 * `data` is the input buffer, element by element; binary requests leave it out and append the
 * buffer to the JSON. The answer repeats OutputTensor and carries the output buffer the same
 * way. One request is initialisation, binding and execution in one: an input OWNED_BY_DML is
 * one whose data, sent along, are bound at initialisation.
 *
 * decode() reads the descriptor's members, innermost first, checks them against
 * directml_tensor.h, and finds the input buffer; complete() turns text into it; encode() writes
 * OutputTensor as the client wrote it, then the output buffer.
 *
 * Possible failures: whatever breaks a rule of DirectML blames its member
 * ("desc.InputTensor.Sizes[2]"); LENGTH_MISMATCH for a buffer of another size; OUT_OF_MEMORY. */
#include "proto/codec.h"
#include "proto/directml_tensor.h"
#include "proto/framed.h"
#include "proto/json/doc.h"
#include "proto/json/fields.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct directml {
    struct json_doc doc;
    const struct json_array *array; /* text of the input buffer, NULL if binary */
    char *output_text;              /* owned: OutputTensor as the client wrote it */
    struct directml_tensor input;
    struct directml_tensor output;
};

static void directml_release(struct scan_call *call)
{
    struct directml *dml = call->dialect;
    if (dml != NULL) {
        json_doc_deinit(&dml->doc);
        free(dml->output_text);
        free(dml);
    }
    call->dialect = NULL;
}

/* ---- the operator ---- */

/* The tensors, as the operator has them. */
static void describe_tensors(const struct directml *dml, struct scan_desc *scan)
{
    scan->dtype = dml->input.dtype;
    scan->precision = PRECISION_WIDE;
    scan->rank = (int)dml->input.dims;
    scan->has_strides = dml->input.has_strides;
    scan->has_output_strides = dml->output.has_strides;
    for (int i = 0; i < scan->rank; i++) {
        scan->sizes[i] = dml->input.sizes[i];
        scan->strides[i] = dml->input.strides[i];
        scan->output_strides[i] = dml->output.strides[i];
    }
}

static enum status read_axis(const struct json_place *desc, struct scan_desc *scan,
                             struct error *err)
{
    TRY(json_require(desc, "Axis", err));
    TRY(json_field_int64(desc, "Axis", &scan->axis, err));
    if (scan->axis < 0 || scan->axis >= scan->rank) {
        return error_set_field(err, STATUS_INVALID_AXIS, "desc.Axis",
                               "found %" PRId64 ": Axis is unsigned and must be less than the "
                               "DimensionCount of InputTensor, %d",
                               scan->axis, scan->rank);
    }
    return STATUS_OK;
}

static enum status read_direction(const struct json_place *desc, struct scan_desc *scan,
                                  struct error *err)
{
    static const struct directml_words words = {"DML_AXIS_DIRECTION_", "INCREASING",
                                                "DECREASING"};
    TRY(json_require(desc, "AxisDirection", err));
    TRY(directml_read_word(desc, "AxisDirection", -1, &words, &scan->reverse, err));
    TRY(json_require(desc, "HasExclusiveSum", err));
    return json_field_bool(desc, "HasExclusiveSum", false, &scan->exclusive, err);
}

static enum status read_desc(const struct directml_level *level, const struct json_place *desc,
                             struct directml *dml, struct scan_desc *scan, struct error *err)
{
    static const char *const known[] = {"InputTensor", "OutputTensor", "Axis", "AxisDirection",
                                        "HasExclusiveSum"};
    struct json_place input;
    struct json_place output;
    TRY(json_fields_known(desc, known, ARRAY_COUNT(known), err));
    TRY(directml_read_tensor(level, desc, "InputTensor", &input, &dml->input, err));
    TRY(directml_read_tensor(level, desc, "OutputTensor", &output, &dml->output, err));
    TRY(directml_check_output(&dml->input, &dml->output, &output, err));
    describe_tensors(dml, scan);
    TRY(read_axis(desc, scan, err));
    TRY(read_direction(desc, scan, err));
    dml->output_text = json_doc_dump(json_field(desc, "OutputTensor"));
    return dml->output_text != NULL
               ? STATUS_OK
               : error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the descriptor");
}

/* {"type"?, "feature_level"?, "desc": {...}, "data"?}. Any other member is refused; "data" is not
 * looked at here. */
static enum status read_operator(struct directml *dml, struct scan_desc *scan,
                                 struct error *err)
{
    static const char *const known[] = {"type", "feature_level", "desc", "data"};
    struct json_place root = {.object = dml->doc.root, .path = ""};
    const struct directml_level *level = NULL;
    const char *type = NULL;
    struct json_place desc;
    TRY(framed_no_parts(&root, err));
    TRY(json_fields_known(&root, known, ARRAY_COUNT(known), err));
    TRY(json_field_string(&root, "type", &type, err));
    if (type != NULL && strcmp(type, "DML_OPERATOR_CUMULATIVE_SUMMATION") != 0 &&
        strcmp(type, "CUMULATIVE_SUMMATION") != 0) {
        return json_field_error(
            &root, "type", "DML_OPERATOR_CUMULATIVE_SUMMATION, the one that this route runs",
            err);
    }
    TRY(directml_read_level(&root, &level, err));
    TRY(json_field_object(&root, "desc", &desc, err));
    if (desc.object == NULL) {
        return json_field_missing(&root, "desc", err);
    }
    return read_desc(level, &desc, dml, scan, err);
}

/* ---- the request ---- */

/* A binary buffer may be sent whole, or without what lies behind its last element. */
static enum status check_payload(const struct directml_tensor *input, uint64_t found,
                                 struct error *err)
{
    uint64_t least = directml_least_bytes(input);
    uint64_t minimum = directml_minimum_bytes(input);
    uint64_t total = directml_total_bytes(input);
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

static enum status locate_payload(const struct codec_request *request,
                                  const struct directml *dml, struct scan_call *call,
                                  struct error *err)
{
    int64_t known = framed_payload_bytes(request);
    call->source = CALL_SOURCE_PAYLOAD;
    call->answer_format = CODEC_FORMAT_RAW;
    call->input_bytes = directml_least_bytes(&dml->input);
    call->output_bytes = directml_total_bytes(&dml->output);
    call->payload_max = directml_total_bytes(&dml->input);
    if (known >= 0) {
        call->payload_max = (uint64_t)known;
        return check_payload(&dml->input, (uint64_t)known, err);
    }
    return STATUS_OK;
}

/* The elements of a text: those the layout reaches, and no more than the buffer has. A text
 * answer has all elements of an output buffer whose size was given, else those reached. */
static enum status locate_text(const struct codec_request *request, struct directml *dml,
                               struct scan_call *call, struct error *err)
{
    size_t size = dtype_info(dml->input.dtype)->bytes;
    TRY(framed_check_flat(dml->array, "data", directml_reach(&dml->input),
                          directml_total_bytes(&dml->input) / size, err));
    TRY(framed_check_announced(request, 0, err));
    call->source = CALL_SOURCE_TEXT;
    call->data = dml->array->cut;
    call->input_bytes = dml->array->elements * size;
    call->output_bytes = dml->output.total_bytes != 0 ? dml->output.total_bytes
                                                      : directml_least_bytes(&dml->output);
    return STATUS_OK;
}

static enum status locate_input(const struct codec_request *request, struct directml *dml,
                                struct scan_call *call, struct error *err)
{
    struct json_place root = {.object = dml->doc.root, .path = ""};
    const json_t *data = json_field_given(&root, "data");
    if (data != NULL) {
        dml->array = json_doc_array(&dml->doc, data);
        if (dml->array == NULL) {
            return json_field_error(&root, "data", "a flat array of numbers", err);
        }
        return locate_text(request, dml, call, err);
    }
    if (request->head_bytes < 0) {
        return json_field_missing(&root, "data", err);
    }
    return locate_payload(request, dml, call, err);
}

static enum status read_request(const struct codec_request *request, struct byte_view head,
                                struct directml *dml, struct scan_call *call, struct error *err)
{
    TRY(framed_no_query(request, err));
    TRY(json_doc_parse(head.bytes, head.count, request->parallel, &dml->doc, err));
    TRY(read_operator(dml, &call->desc, err));
    return locate_input(request, dml, call, err);
}

static enum status directml_decode(const struct codec_request *request, struct byte_view head,
                                   struct scan_call *call, struct error *err)
{
    struct directml *dml = calloc(1, sizeof *dml);
    if (dml == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the request");
    }
    struct scan_call found = {.dialect = dml};
    enum status status = read_request(request, head, dml, &found, err);
    if (status != STATUS_OK) {
        directml_release(&found);
        return status;
    }
    *call = found;
    return STATUS_OK;
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
                             .any_spelling = true,
                             .field = "data",
                             .parallel = call->parallel};
    return json_tensor_read(&read, call->data, dml->array->elements, input, err);
}

static uint64_t directml_head_max(const struct scan_call *call)
{
    enum {
        KEYS = 50 /* bytes of keys and of what stands between them */
    };
    const struct directml *dml = call->dialect;
    const struct json_print print = framed_print(call, NULL, call->output_bytes);
    uint64_t around = KEYS + strlen(dml->output_text);
    return call->source == CALL_SOURCE_PAYLOAD ? around : json_tensor_write_max(&print, around);
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
    json_writer_raw(&w, dml->output_text, strlen(dml->output_text));
    if (!framed) {
        const struct json_print print = framed_print(call, output, call->output_bytes);
        json_writer_key(&w, "data");
        json_tensor_write(&print, &w);
    }
    json_writer_end_object(&w);
    (void)output_bytes;
    return framed_answer(&w, (struct byte_view){"", 0}, framed, call->output_bytes, answer,
                         err);
}

static const char *directml_plan_field(const struct scan_call *call, const char *field)
{
    static const char *const names[][2] = {{"shape", "desc.InputTensor.Sizes"},
                                           {"axis", "desc.Axis"},
                                           {"strides", "desc.InputTensor.Strides"},
                                           {"output_strides", "desc.OutputTensor.Strides"}};
    (void)call;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (strcmp(field, names[i][0]) == 0) {
            return names[i][1];
        }
    }
    return "";
}

const struct codec codec_directml = {.name = "directml",
                                     .head_need = framed_head_need,
                                     .decode = directml_decode,
                                     .complete = directml_complete,
                                     .encode = directml_encode,
                                     .head_max = directml_head_max,
                                     .release = directml_release,
                                     .plan_field = directml_plan_field};
