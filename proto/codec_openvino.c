/* POST /v1/openvino/cumsum-3: CumSum-3 of OpenVINO's opset 3 as JSON.
 *
 *     {"attributes": {"exclusive": false, "reverse": true},
 *      "inputs": [{"precision": "FP32", "shape": [5], "data": [1,2,3,4,5]},
 *                 {"precision": "I64", "shape": [], "data": -1}]}
 *
 * An input may have "binary_data_size" instead of "data"; its bytes then follow the JSON, in
 * the order of the inputs. The answer has the form and the type of the first input, except
 * that sums of booleans have type I64.
 *
 * decode() reads attributes and inputs; complete() converts text to the tensor and reads an
 * axis that was sent as bytes; encode() writes the output. Possible failures: a member is
 * unknown, missing or of another kind; a tensor is not valid (INVALID_DTYPE, INVALID_SHAPE);
 * LENGTH_MISMATCH; OUT_OF_MEMORY. */
#include "proto/codec.h"

#include "proto/attributes.h"
#include "proto/framed.h"

#include <inttypes.h>
#include <string.h>

struct openvino {
    struct framed framed;
    struct framed_tensor data;
    struct framed_tensor axis; /* place.object is NULL if there is no axis input */
};

/* ---- one input ---- */

/* Read one input: its elements are "data", or "binary_data_size" bytes after the JSON. */
static enum status read_port(const struct json_doc *doc, bool axis, struct framed_tensor *port,
                             uint64_t *payload, struct error *err)
{
    static const char *const known[] = {"precision", "shape", "data", "binary_data_size"};
    const json_t *data = json_field_given(&port->place, "data");
    bool binary = json_field(&port->place, "binary_data_size") != NULL;
    int64_t size = -1;
    TRY(json_fields_known(&port->place, known, ARRAY_COUNT(known), err));
    TRY(json_require(&port->place, "precision", err));
    TRY(json_field_dtype(&port->place, "precision", DTYPE_FAMILY_OPENVINO, &port->dtype, err));
    TRY(framed_tensor_read_shape(port, err));
    TRY(json_field_int64(&port->place, "binary_data_size", &size, err));
    if ((data != NULL) == binary) {
        return error_set_field(err, data != NULL ? STATUS_INVALID_FIELD : STATUS_MISSING_FIELD,
                               port->place.path,
                               "expected either data or binary_data_size, found %s",
                               data != NULL ? "both" : "neither");
    }
    return data != NULL
               ? framed_tensor_take_data(doc, data, axis, port, err)
               : framed_tensor_take_payload(port, "binary_data_size", size, payload, err);
}

/* ---- the operator ---- */

/* Refuse the member "precision" outside a port. json_fields_known() would answer that this
 * service has no choice of precision; in this dialect, however, each port has a precision, so
 * this sentence says where to write it. */
static enum status refuse_precision(const struct json_place *place, struct error *err)
{
    char path[JSON_PATH_MAX];
    if (json_field(place, "precision") == NULL) {
        return STATUS_OK;
    }
    json_path_of(place, "precision", -1, path);
    return error_set_field(err, STATUS_UNKNOWN_FIELD, path,
                           "there is no field %s: the precision of a port is its element type "
                           "and stands in the port, as inputs[0].precision; sums are always "
                           "exact, and no attribute changes that",
                           path);
}

static enum status read_attributes(const struct json_place *root, struct scan_desc *desc,
                                   struct error *err)
{
    static const char *const known[] = {"exclusive", "reverse"};
    struct json_place place;
    TRY(json_field_object(root, "attributes", &place, err));
    if (place.object == NULL) {
        return STATUS_OK;
    }
    TRY(refuse_precision(&place, err));
    TRY(json_fields_known(&place, known, ARRAY_COUNT(known), err));
    TRY(json_field_bool(&place, "exclusive", true, &desc->exclusive, err));
    return json_field_bool(&place, "reverse", true, &desc->reverse, err);
}

/* Read input 0, the data, and input 1, the axis, if it is present. */
static enum status read_inputs(const struct json_place *root, struct openvino *openvino,
                               struct scan_call *call, struct error *err)
{
    const struct json_doc *doc = &openvino->framed.doc;
    struct framed_tensor *data = &openvino->data;
    struct framed_tensor *axis = &openvino->axis;
    size_t count = 0;
    TRY(json_require_array(root, "inputs", &count, err));
    if (count < 1 || count > 2) {
        return error_set_field(
            err, STATUS_INVALID_FIELD, "inputs",
            "found %zu inputs: expected the data and, as an option, the axis", count);
    }
    TRY(json_array_object(root, "inputs", 0, &data->place, err));
    TRY(read_port(doc, false, data, &call->payload_max, err));
    TRY(framed_tensor_check_data(data, true, err));
    if (count < 2 || json_is_null(json_array_get(json_field(root, "inputs"), 1))) {
        return STATUS_OK;
    }
    TRY(json_array_object(root, "inputs", 1, &axis->place, err));
    TRY(read_port(doc, true, axis, &call->payload_max, err));
    TRY(framed_tensor_check_axis(axis, "precision", err));
    TRY(framed_tensor_check_data(axis, true, err));
    call->axis_pending = axis->binary;
    return axis->binary ? STATUS_OK : framed_axis_from_json(axis, &call->desc.axis, err);
}

static enum status openvino_decode(const struct codec_request *request, struct byte_view head,
                                   struct scan_call *call, struct error *err)
{
    static const char *const known[] = {"attributes", "inputs"};
    struct openvino *openvino = call->dialect;
    const struct framed_tensor *data = &openvino->data;
    TRY(framed_no_query(request,
                        "exclusive and reverse in the object attributes, the axis as the "
                        "second of the inputs",
                        err));
    TRY(json_doc_parse(head.bytes, head.count, request->parallel, &openvino->framed.doc, err));
    struct json_place root = {.object = openvino->framed.doc.root, .path = ""};
    TRY(refuse_precision(&root, err));
    TRY(framed_check_members(&root, known, ARRAY_COUNT(known), err));
    TRY(read_attributes(&root, &call->desc, err));
    TRY(read_inputs(&root, openvino, call, err));
    call->desc.dtype = data->dtype;
    call->desc.rank = data->rank;
    memcpy(call->desc.sizes, data->sizes, sizeof data->sizes);
    call->input_bytes = data->bytes;
    const struct attribute_wishes none = {.has_output = false};
    TRY(attributes_complete(&call->desc, &none, err));
    call->output_bytes = data->elements * dtype_info(call->desc.dtype)->bytes; /* contiguous */
    call->source = data->binary ? CALL_SOURCE_PAYLOAD : CALL_SOURCE_TEXT;
    call->answer_format = data->binary ? CODEC_FORMAT_RAW : CODEC_FORMAT_JSON;
    if (data->array != NULL) {
        call->data = data->array->cut;
    }
    return framed_check_announced(request, call->payload_max, err);
}

static enum status openvino_complete(struct scan_call *call, void *input,
                                     uint64_t payload_bytes, struct error *err)
{
    const struct openvino *openvino = call->dialect;
    TRY(framed_check_payload(payload_bytes, call->payload_max, err));
    if (call->axis_pending) {
        call->desc.axis = framed_axis_from_bytes(
            openvino->axis.dtype, (const char *)input + openvino->axis.payload_offset);
    }
    if (call->source == CALL_SOURCE_PAYLOAD) {
        return STATUS_OK; /* already at the start: the data are the first tensor of the
                             payload */
    }
    const struct json_read how = {.parallel = call->parallel};
    return framed_tensor_read_data(&openvino->data, how, input, err);
}

static uint64_t openvino_head_max(const struct scan_call *call)
{
    return framed_head_max(call, call->source == CALL_SOURCE_TEXT);
}

static enum status openvino_encode(const struct scan_call *call, const void *output,
                                   uint64_t output_bytes, struct answer *answer,
                                   struct error *err)
{
    const struct openvino *openvino = call->dialect;
    const struct framed_tensor *port = &openvino->data;
    (void)output_bytes;
    struct json_writer w;
    answer_begin_text(answer, &w, openvino_head_max(call));
    json_writer_begin_object(&w);
    json_writer_member_array(&w, "outputs");
    json_writer_begin_object(&w);
    const json_t *precision = json_field(&port->place, "precision");
    const char *came = json_string_value(precision);
    const struct dtype_info *sums = dtype_info(call->desc.dtype);
    json_writer_member_string(&w, "precision",
                              !call->desc.converts        ? came /* in the spelling of the
                                                                    request */
                              : strcmp(came, "BOOL") == 0 ? sums->openvino_ir
                                                          : sums->openvino_type);
    json_writer_member_int_list(&w, "shape", port->sizes, port->rank);
    if (port->binary) {
        json_writer_member_uint(&w, "binary_data_size", call->output_bytes);
    } else {
        const struct json_print print = framed_print(call, output, call->output_bytes);
        json_writer_key(&w, "data");
        json_tensor_write(&print, &w);
    }
    json_writer_end_object(&w);
    json_writer_end_array(&w);
    json_writer_end_object(&w);
    return framed_answer(&w, call, (struct byte_view){"", 0}, port->binary, answer, err);
}

static const char *openvino_plan_field(const struct scan_call *call, const char *field)
{
    (void)call;
    return strcmp(field, "axis") == 0 ? "inputs[1].data" : "inputs[0].shape";
}

const struct codec codec_openvino = {.name = "openvino",
                                     .head_need = framed_head_need,
                                     .record_bytes = sizeof(struct openvino),
                                     .decode = openvino_decode,
                                     .complete = openvino_complete,
                                     .encode = openvino_encode,
                                     .head_max = openvino_head_max,
                                     .plan_field = openvino_plan_field};
