/* POST /v1/cumsum, application/json. The body is one object; the numbers in its member "data"
 * are converted directly into the tensor.
 *
 *     {"data": [[2,1,3,5],[3,8,7,3]], "dtype": "float32", "axis": 1}
 *     {"dtype": "float32", "shape": [2,4], "data": [[2.0,3.0,6.0,11.0],[3.0,11.0,18.0,21.0]]}
 *
 * decode() measures "data" and takes the shape from it, and the type if the request names
 * none; complete() converts the numbers; answer_json() writes the JSON answer to a request of
 * any format, nested only if the data of the request was nested.
 *
 * Possible failures: a field is unknown, missing or of another kind; INVALID_SHAPE if shape
 * and nesting disagree; LENGTH_MISMATCH if shape and number of elements disagree; INVALID_DATA
 * names the element that is not a number of the type. */
#include "proto/attributes.h"
#include "proto/base64.h"
#include "proto/codec_cumsum.h"
#include "proto/content_guess.h"
#include "proto/cumsum_request.h"
#include "proto/json/doc.h"
#include "proto/json/fields.h"
#include "proto/offsets.h"
#include "proto/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const members[] = {"data",           "dtype", "shape",     "strides",
                                      "output_strides", "axis",  "exclusive", "reverse",
                                      "output_dtype",   "nan",   "initial",   "include_initial",
                                      "part",           "carry", "offsets"};

enum {
    ELEMENT_MEMBERS =
        0xF << 8 /* output_dtype to include_initial; bit i stands for members[i] */
};

enum status codec_json_head_need(const struct codec_request *request, struct byte_view head,
                                 uint64_t *need, struct error *err)
{
    (void)request;
    (void)head;
    (void)err;
    *need = UINT64_MAX;
    return STATUS_OK;
}

/* Read the attributes of elements and of the sums before the first element. */
static enum status read_element_attributes(const struct json_place *root,
                                           const struct json_doc *doc, struct scan_desc *desc,
                                           struct attribute_wishes *wishes, struct error *err)
{
    const char *output = NULL;
    const char *nan = NULL;
    TRY(json_field_bool(root, "include_initial", false, &desc->include_initial, err));
    TRY(json_field_string(root, "nan", &nan, err));
    if (nan != NULL) {
        TRY(attribute_nan("nan", nan, &desc->nan, err));
    }
    TRY(json_field_string(root, "output_dtype", &output, err));
    wishes->has_output = output != NULL;
    wishes->output_field = "output_dtype";
    if (output != NULL) {
        TRY(attribute_output_dtype("output_dtype", output, &wishes->output, err));
    }
    wishes->initial_field = "initial";
    return json_doc_initial(doc, root, &wishes->initial, err);
}

/* Read the other attributes, except data, dtype and shape. */
static enum status read_attributes(const struct json_place *root, struct scan_desc *desc,
                                   struct attribute_lists *lists, struct error *err)
{
    TRY(json_field_int64(root, "axis", &desc->axis, err));
    TRY(json_field_bool(root, "exclusive", false, &desc->exclusive, err));
    TRY(json_field_bool(root, "reverse", false, &desc->reverse, err));
    const char *part = NULL;
    TRY(json_field_string(root, "part", &part, err));
    if (part != NULL) {
        TRY(carry_part("part", part, &desc->part, err));
    }
    desc->has_strides = json_field(root, "strides") != NULL;
    TRY(json_field_int64_list(root, "strides", LIMIT_RANK, desc->strides, &lists->strides,
                              err));
    desc->has_output_strides = json_field(root, "output_strides") != NULL;
    return json_field_int64_list(root, "output_strides", LIMIT_RANK, desc->output_strides,
                                 &lists->output_strides, err);
}

/* Set the shape of the tensor: the field "shape" if it is given, else the shape of the
 * nesting. */
static enum status read_shape(const struct json_place *root, const struct json_array *data,
                              struct scan_desc *desc, struct error *err)
{
    int given = -1;
    TRY(json_field_int64_list(root, "shape", LIMIT_RANK, desc->sizes, &given, err));
    if (given < 0 && desc->has_strides) {
        return error_set_field(err, STATUS_MISSING_FIELD, "shape",
                               "the field shape is missing: strides need it, because data is "
                               "then the flat buffer");
    }
    if (given < 0) {
        desc->rank = data->rank;
        memcpy(desc->sizes, data->sizes, (size_t)data->rank * sizeof *desc->sizes);
        return STATUS_OK;
    }
    desc->rank = given;
    /* A nested list ends at the first dimension of size 0; the dimensions behind it are
     * unknown. */
    bool whole =
        given == data->rank || (given > data->rank && data->sizes[data->rank - 1] == 0);
    bool same = whole &&
                memcmp(desc->sizes, data->sizes, (size_t)data->rank * sizeof *desc->sizes) == 0;
    if (data->rank == 1 || same) {
        return STATUS_OK;
    }
    char found[160] = "";
    char expected[160] = "";
    text_append_list(found, sizeof found, data->sizes, data->rank);
    text_append_list(expected, sizeof expected, desc->sizes, desc->rank);
    return error_set_field(
        err, STATUS_INVALID_SHAPE, "shape",
        "data is nested as [%s], shape says [%s]: they must agree, unless data is flat", found,
        expected);
}

/* Check that data has as many numbers as the input buffer. */
static enum status check_count(const struct scan_desc *desc, const struct json_array *data,
                               struct error *err)
{
    uint64_t need = 0;
    char shape[160];
    char told[200];
    if ((desc->has_strides || desc->has_output_strides) && data->rank > 1) {
        return error_set_field(err, STATUS_INVALID_DATA, "data",
                               "data is nested, expected a flat array: with strides or "
                               "output_strides it is the buffer in memory order");
    }
    if (!input_reach(desc, &need)) {
        return STATUS_OK; /* scan_plan_make() reports the fault */
    }
    uint64_t most = desc->has_strides ? UINT64_MAX : need;
    if (data->elements >= need && data->elements <= most) {
        return STATUS_OK;
    }
    attribute_shape_text(desc, shape, sizeof shape);
    (void)snprintf(told, sizeof told, "[%s]%s", shape,
                   desc->has_strides ? " with these strides" : "");
    return json_tensor_require_count(data, "data", need, most, told, err);
}

static enum status read_data(const struct json_place *root, const struct json_doc *doc,
                             struct json_array *data, struct error *err)
{
    const json_t *value = json_field(root, "data");
    const struct json_array *array = json_doc_array(doc, value);
    if (value == NULL) {
        return json_field_missing(root, "data", err);
    }
    if (array == NULL) {
        return json_field_error(root, "data",
                                "an array of numbers, nested or flat with a shape", err);
    }
    *data = *array;
    return json_tensor_require_regular(data, "data", err);
}

/* Decode the member "carry" into memory that the call owns. */
static enum status read_carry(const struct codec_request *request,
                              const struct json_place *root, const struct json_doc *doc,
                              struct scan_call *call, struct error *err)
{
    const struct json_cut text = doc->carry;
    struct byte_view carry = {"", 0};
    const char *ignored = NULL;
    TRY(json_field_string(root, "carry", &ignored, err));
    if (cumsum_front_bytes(request) > 0) {
        const bool is_carry = request->carry_bytes > 0;
        return error_set_field(err, STATUS_INVALID_FIELD,
                               is_carry ? "Tally-Carry-Length" : "Tally-Offsets-Length",
                               "%s is for raw and NPY bodies: in JSON the %s",
                               is_carry ? "Tally-Carry-Length" : "Tally-Offsets-Length",
                               is_carry ? "carry is the member carry, in base64"
                                        : "offsets are the member offsets, an array");
    }
    if (ignored != NULL && text.text == NULL) {
        return json_field_error(root, "carry", "base64", err);
    }
    if (text.text != NULL) {
        call->carry.owned = malloc(text.bytes / 4 * 3 + 3);
        if (call->carry.owned == NULL) {
            return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the carry");
        }
        carry.bytes = call->carry.owned;
        TRY(base64_decode("carry", text, request->parallel, call->carry.owned, &carry.count,
                          err));
    }
    return cumsum_take_part(request, carry, call, err);
}

/* Count the offsets. complete() reads their values, after memory for them was reserved. */
static enum status read_offsets(const struct json_place *root, const struct json_doc *doc,
                                struct scan_call *call, struct error *err)
{
    const json_t *value = json_field(root, "offsets");
    const struct json_array *array = json_doc_array(doc, value);
    if (value == NULL) {
        return STATUS_OK;
    }
    if (array == NULL || array->rank > 1) {
        return json_field_error(root, "offsets", "a flat array of integers", err);
    }
    call->offsets.text = array->cut;
    return offsets_announce(call, "offsets", array->elements, err);
}

static enum status read_call(const struct codec_request *request, const struct json_doc *doc,
                             struct scan_call *call, struct error *err)
{
    const struct json_place root = {.object = doc->root};
    struct attribute_lists lists = {.strides = 0};
    struct json_array data = {.rank = 0};
    struct scan_desc *desc = &call->desc;
    uint64_t given = 0;
    TRY(json_fields_given(&root, members, ARRAY_COUNT(members), &given, err));
    TRY(read_data(&root, doc, &data, err));
    TRY(read_attributes(&root, desc, &lists, err));
    if ((given & ELEMENT_MEMBERS) != 0) {
        TRY(read_element_attributes(&root, doc, desc, &lists.wishes, err));
    }
    desc->dtype = json_tensor_infer(&data); /* used unless the request names a type */
    TRY(json_field_dtype(&root, "dtype", DTYPE_FAMILY_SPELLING, &desc->dtype, err));
    TRY(attributes_complete(desc, &lists.wishes, err));
    TRY(read_shape(&root, &data, desc, err));
    TRY(attributes_check_strides(desc, &lists, err));
    TRY(read_offsets(&root, doc, call, err));
    TRY(read_carry(request, &root, doc, call, err));
    TRY(check_count(desc, &data, err));
    call->source = CALL_SOURCE_TEXT;
    call->nested = data.rank > 1;
    call->data = data.cut;
    call->input_bytes = data.elements * dtype_info(scan_input_dtype(desc))->bytes;
    return STATUS_OK;
}

/* Return the error of a request with a query. The sentence says that the attributes belong into
 * the body; or, if the body is not JSON, that the client must name its type. */
static enum status refuse_query(const struct codec_request *request, struct byte_view head,
                                struct error *err)
{
    const char *name = request->params[0].name;
    const enum content_kind kind = content_guess(head.bytes, head.count);
    const char *first = head.bytes;
    size_t member = 0;
    while (member < ARRAY_COUNT(members) && strcmp(name, members[member]) != 0) {
        member++;
    }
    if (*first != '{' && *first != '[' && !text_is_space(*first)) {
        if (kind != CONTENT_UNKNOWN && kind != CONTENT_NPY) {
            return error_set(err, STATUS_INVALID_JSON, CONTENT_NO_JSON, content_name(kind),
                             content_advice(kind));
        }
        return error_set_field(
            err, STATUS_UNKNOWN_FIELD, name,
            "a query such as %.40s describes raw bytes or an NPY file, but the Content-Type of "
            "this request means JSON, and the body is %s: name its type, by Content-Type: "
            "application/octet-stream for raw bytes, application/x-npy for an NPY file (curl "
            "--data-binary @FILE -H 'Content-Type: application/%s')",
            name, kind == CONTENT_NPY ? content_name(kind) : "not JSON",
            kind == CONTENT_NPY ? "x-npy" : "octet-stream");
    }
    if (member < ARRAY_COUNT(members)) {
        return error_set_field(
            err, STATUS_UNKNOWN_FIELD, name,
            "a JSON request takes no query: put %s into the body, as a field beside data, such "
            "as {\"data\": [[1,2],[3,4]], \"axis\": 1}; only raw bytes (Content-Type: "
            "application/octet-stream) and NPY files (application/x-npy) have attributes in "
            "the query",
            name);
    }
    char known[160] = "";
    text_append_names(known, sizeof known, members, ARRAY_COUNT(members));
    return error_set_field(
        err, STATUS_UNKNOWN_FIELD, name,
        "there is no attribute %.40s, and a JSON request takes no query: its "
        "attributes are fields of its body, which are %s%s",
        name, known, text_unknown_note(name));
}

enum status codec_json_decode(const struct codec_request *request, struct byte_view head,
                              struct scan_call *call, struct error *err)
{
    struct json_doc doc = {.root = NULL};
    const bool has_query = request->param_count > 0 && head.count > 0;
    enum status status =
        has_query ? refuse_query(request, head, err)
                  : json_doc_parse(head.bytes, head.count, request->parallel, &doc, err);
    if (status == STATUS_INVALID_JSON && request->form &&
        content_needs_form_advice(head.bytes, head.count)) {
        text_append(err->detail, sizeof err->detail, "; " CONTENT_FORM_ADVICE);
    }
    TRY(status);
    status = read_call(request, &doc, call, err);
    json_doc_deinit(&doc);
    return status;
}

static enum status complete_offsets(struct scan_call *call, struct error *err)
{
    const struct json_read read = {.dtype = DTYPE_I64,
                                   .types = 1U << DTYPE_I64,
                                   .field = "offsets",
                                   .rank = 1,
                                   .parallel = call->parallel};
    TRY(offsets_allocate(call, err));
    const enum status status = json_tensor_read(
        &read, call->offsets.text, call->desc.segments + 1, call->offsets.owned, err);
    if (status == STATUS_INVALID_DATA) {
        /* The sentence already contains the index of the element. */
        (void)snprintf(err->field, sizeof err->field, "offsets");
    }
    TRY(status);
    return offsets_take(call, "offsets", call->offsets.owned, err);
}

enum status codec_json_complete(struct scan_call *call, void *input, uint64_t payload_bytes,
                                struct error *err)
{
    const struct scan_desc *desc = &call->desc;
    const enum dtype dtype = scan_input_dtype(desc);
    const struct json_read read = {.dtype = dtype,
                                   .field = "data",
                                   .rank = call->nested ? desc->rank : 1,
                                   .sizes = desc->sizes,
                                   .parallel = call->parallel};
    if (payload_bytes != 0) {
        return error_set(err, STATUS_LENGTH_MISMATCH, "%llu bytes follow the JSON text",
                         (unsigned long long)payload_bytes);
    }
    TRY(json_tensor_read(&read, call->data, call->input_bytes / dtype_info(dtype)->bytes, input,
                         err));
    return desc->has_offsets ? complete_offsets(call, err) : STATUS_OK;
}

/* Describe the output for printing. The result borrows `desc`, the description of the output,
 * and `room`, memory for the cells of a contiguous output. */
static struct json_print print_of(const struct scan_call *call, const struct scan_desc *desc,
                                  const void *output, uint64_t elements,
                                  struct json_cells *room)
{
    const bool sparse = call->packs_output && json_cells_strided(desc, room);
    return (struct json_print){.dtype = desc->dtype,
                               .data = output,
                               .elements = elements,
                               .rank = call->nested ? desc->rank : 1,
                               .sizes = desc->sizes,
                               .parallel = call->parallel,
                               .cells = sparse ? room : NULL};
}

uint64_t answer_json_max(const struct scan_call *call, uint64_t elements)
{
    enum {
        KEYS = 120 /* upper bound for keys, the type's name and punctuation, in bytes */
    };
    struct scan_desc room;
    struct json_cells cells;
    const struct scan_desc *desc = scan_output_desc(&call->desc, &room);
    const struct json_print print = print_of(call, desc, NULL, elements, &cells);
    const uint64_t carry = cumsum_carry_bytes(call);
    if (carry > SIZE_MAX / 4) {
        return UINT64_MAX;
    }
    return json_tensor_write_max(&print,
                                 KEYS + base64_size((size_t)carry) +
                                     2 * (uint64_t)JSON_INT_MAX * (uint64_t)call->desc.rank);
}

/* Write the carry (the current head of the answer) as base64. A carry may be far longer than
 * the tensor, so it is written in steps; if the work is given up, the writer fails. */
static void write_carry(const struct answer *answer, const struct parallel *parallel,
                        struct json_writer *w)
{
    enum {
        STEP = PARALLEL_STEP_BYTES / 4 * 3 /* a multiple of three: no padding between steps */
    };
    const unsigned char *carry = (const unsigned char *)answer->head;
    const size_t bytes = base64_size(answer->head_bytes);
    json_writer_key(w, "carry");
    json_writer_begin_value(w);
    char *text = json_writer_space(w, bytes + 2);
    if (text != NULL) {
        text[0] = '"';
        for (size_t at = 0; at < answer->head_bytes; at += STEP) {
            if (at > 0 && !parallel_step(parallel)) {
                w->failed = true;
                return;
            }
            base64_encode(carry + at, smaller_of(answer->head_bytes - at, STEP),
                          text + 1 + base64_size(at));
        }
        text[bytes + 1] = '"';
        json_writer_advance(w, bytes + 2);
    }
}

enum status answer_json(const struct scan_call *call, const void *output, uint64_t elements,
                        struct answer *answer, struct error *err)
{
    struct scan_desc room;
    struct json_cells cells;
    const struct scan_desc *desc = scan_output_desc(&call->desc, &room);
    const struct json_print print = print_of(call, desc, output, elements, &cells);
    struct json_writer w;
    answer_begin_text(answer, &w, answer_json_max(call, elements));
    json_writer_begin_object(&w);
    json_writer_member_string(&w, "dtype", dtype_info(desc->dtype)->name);
    json_writer_member_int_list(&w, "shape", desc->sizes, desc->rank);
    if (desc->has_output_strides) {
        json_writer_member_int_list(&w, "strides", desc->output_strides, desc->rank);
    }
    if (answer->head_bytes > 0) {
        write_carry(answer, call->parallel, &w);
    }
    if (!call->totals) {
        json_writer_key(&w, "data");
        json_tensor_write(&print, &w);
    }
    json_writer_end_object(&w);
    if (!answer_end_text(answer, &w)) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the JSON answer");
    }
    answer->content_type = "application/json";
    return STATUS_OK;
}
