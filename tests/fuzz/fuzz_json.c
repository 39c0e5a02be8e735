/* libFuzzer target: JSON requests of /v1/cumsum. In addition to a complete request, the first
 * array in the text is read by jansson and by Tally: both must accept or refuse it, with the
 * same numbers, also if it is read in parts. */
#include "proto/json/tensor.h"
#include "tests/fuzz/fuzz_input.h"

#include <jansson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    ELEMENTS_MAX = 4096,
    PARTS = 5
};

/* Compare numbers depth first. Returns false if the tree contains anything but numbers. */
static bool same_numbers(const json_t *tree, const double *values, size_t count, size_t *at)
{
    if (json_is_number(tree)) {
        double expected = json_number_value(tree);
        REQUIRE(*at < count);
        REQUIRE(memcmp(&values[(*at)++], &expected, sizeof expected) == 0);
        return true;
    }
    for (size_t i = 0; i < json_array_size(tree); i++) {
        if (!same_numbers(json_array_get(tree, i), values, count, at)) {
            return false;
        }
    }
    return json_is_array(tree);
}

static bool only_numbers(const json_t *tree)
{
    bool only = json_is_number(tree) || json_is_array(tree);
    for (size_t i = 0; only && i < json_array_size(tree); i++) {
        only = only_numbers(json_array_get(tree, i));
    }
    return only;
}

/* Read the array in parts, the last part first. The numbers must be those of reading the whole
 * array. If a ragged array has an empty inner array, the cuts may be at wrong numbers; then one
 * of the parts is refused. */
static void check_parts(const struct json_array *array, const struct json_read *read,
                        const double *whole, bool taken)
{
    static double values[ELEMENTS_MAX];
    struct json_part parts[PARTS];
    bool all = true;
    struct json_rest rest = {.cut = array->cut, .elements = array->elements};
    int count = json_tensor_cut(&rest, array->cut.bytes / PARTS + 1, parts, PARTS);
    if (count == JSON_UNCUT) {
        return;
    }
    REQUIRE(count >= 1 && count <= PARTS && rest.at == array->cut.bytes);
    for (int k = count - 1; k >= 0; k--) {
        char *text = run_copy(parts[k].text, parts[k].bytes);
        struct error err = ERROR_INIT;
        struct json_part part = parts[k];
        part.text = text;
        all = json_tensor_read_part(read, &part, values, &err) == STATUS_OK && all;
        free(text);
    }
    REQUIRE(all == taken || (taken && array->ragged));
    REQUIRE(!all || memcmp(values, whole, array->elements * sizeof *values) == 0);
}

/* NaN, Infinity, null and quoted numbers are elements for Tally, but not numbers for
 * jansson. */
static bool has_words(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const char c = text[i];
        if (c == '"' ||
            (((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) && c != 'e' && c != 'E')) {
            return true;
        }
    }
    return false;
}

static void compare_with_jansson(const char *text, size_t bytes)
{
    static double values[ELEMENTS_MAX];
    struct json_array array;
    struct error err = ERROR_INIT;
    const struct json_read read = {.dtype = DTYPE_F64, .field = "data"};
    json_t *tree =
        json_loadb(text, bytes, JSON_DISABLE_EOF_CHECK | JSON_DECODE_INT_AS_REAL, NULL);
    if (json_tensor_measure(text, bytes, NULL, &array, &err) != STATUS_OK) {
        REQUIRE(tree == NULL || err.status == STATUS_INVALID_SHAPE);
        json_decref(tree);
        return;
    }
    if (array.elements <= ELEMENTS_MAX) {
        bool taken =
            json_tensor_read(&read, array.cut, array.elements, values, &err) == STATUS_OK;
        bool words = has_words(text, array.cut.bytes);
        bool nul = memchr(text, '\0', array.cut.bytes) != NULL; /* jansson skips some NULs */
        REQUIRE(!taken || !nul);
        size_t at = 0;
        REQUIRE(words || nul || taken == (tree != NULL && only_numbers(tree)));
        if (taken && !words) {
            REQUIRE(same_numbers(tree, values, array.elements, &at));
            REQUIRE(at == array.elements);
        }
        check_parts(&array, &read, values, taken);
    }
    json_decref(tree);
}

/* A JSON answer must be valid JSON, and must be accepted as a request. */
static void check_answer(const struct run *run)
{
    json_t *tree = json_loadb(run->body, run->bytes, JSON_DECODE_INT_AS_REAL, NULL);
    REQUIRE(tree != NULL);
    json_decref(tree);
    if (run->call.desc.has_output_strides) {
        return;
    }
    struct run again;
    run_request(codec_cumsum(CODEC_FORMAT_JSON), "", CODEC_FORMAT_JSON,
                (struct byte_view){run->body, run->bytes}, &again);
    REQUIRE(again.status == STATUS_OK);
    run_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input;
    struct run run;
    if (!fuzz_split(data, size, false, &input)) {
        return 0;
    }
    run_request(codec_cumsum(CODEC_FORMAT_JSON), "", input.answer_format, input.body, &run);
    fuzz_check(&run);
    if (run.computed && input.answer_format == CODEC_FORMAT_JSON) {
        check_answer(&run);
    }
    run_deinit(&run);
    const char *array = memchr(input.body.bytes, '[', input.body.count);
    if (array != NULL) {
        const char *end = (const char *)input.body.bytes + input.body.count;
        compare_with_jansson(array, (size_t)(end - array));
    }
    return 0;
}
