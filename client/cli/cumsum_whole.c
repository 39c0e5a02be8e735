/* The sum of a tensor as one request: JSON, and raw input with strides.
 *
 *   input loaded -> request written -> exchanged (exchange.h)
 *
 * Raw bytes are the body, and the options are the query. A JSON array and the options become the
 * members of a request. A JSON object is a complete request. */
#include "client/cli/commands.h"

#include "client/cli/attributes.h"
#include "client/cli/exchange.h"
#include "client/cli/terminal.h"
#include "client/cli/text_writer.h"
#include "client/json_text.h"
#include "proto/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPTIONS_TEXT = 8192,     /* three lists of 64 numbers, and words */
    NUMBER_TEXT = 64,        /* of a size in JSON */
    ANSWER_BESIDE = 1 << 16, /* largest number of bytes of an answer without its elements */
    ANSWER_ELEMENT = 32,     /* the same of an element in JSON: 25 digits and a comma */
    OFFSET_TEXT = 21,        /* the same of an offset in JSON: 20 digits and a comma */
    ANSWER_CARRY = 512       /* the same of an element and a line of a carry in base64 */
};

/* Return a size, which JSON may spell 2, 2.0 or 2e0; -1 if the text is not a size. */
static int64_t size_of(struct json_text number)
{
    char text[NUMBER_TEXT];
    char *end = NULL;
    int64_t size = json_text_integer(number, -1);
    if (size >= 0 || number.count >= sizeof text) {
        return size;
    }
    memcpy(text, number.at, number.count);
    text[number.count] = '\0';
    double value = strtod(text, &end);
    bool whole = end != text && *end == '\0' && value >= 0 && value < 0x1p63 &&
                 fabs(value - trunc(value)) <= 0;
    return whole ? (int64_t)value : -1;
}

/* Return member `key` of an object as a list of sizes; an empty list if the member is something
 * else. */
static struct number_list member_list(struct json_text object, const char *key)
{
    struct number_list list = {.count = 0};
    struct json_text rest = {"", 0};
    struct json_text unused = {"", 0};
    struct json_text number = {"", 0};
    if (json_text_member(object, key, &rest)) {
        while (list.count < TALLY_MAX_RANK && json_text_next(&rest, &unused, &number)) {
            list.numbers[list.count] = size_of(number);
            if (list.numbers[list.count++] < 0) {
                return (struct number_list){.count = 0};
            }
        }
    }
    return list;
}

static void append_word(char *text, bool json, const char *key, const char *word)
{
    if (word != NULL) {
        text_append(text, OPTIONS_TEXT, json ? ",\"%s\":\"%s\"" : "&%s=%s", key, word);
    }
}

static void append_list(char *text, bool json, const char *key, const struct number_list *list)
{
    if (list->count > 0) {
        text_append(text, OPTIONS_TEXT, json ? ",\"%s\":[" : "&%s=", key);
        text_append_list(text, OPTIONS_TEXT, list->numbers, list->count);
        text_append(text, OPTIONS_TEXT, "%s", json ? "]" : "");
    }
}

/* Append the initial value: a number as given, a word as a string. In a query '+' means a blank, so
 * it is encoded. */
static void append_initial(const struct settings *settings, bool json, char *text)
{
    const char *number = settings->initial;
    const char *quote = json && attributes_initial_is_word(settings) ? "\"" : "";
    text_append(text, OPTIONS_TEXT, json ? ",\"initial\":%s" : "&initial=%s", quote);
    for (; *number != '\0'; number++) {
        text_append(text, OPTIONS_TEXT, !json && *number == '+' ? "%%2B" : "%c", *number);
    }
    text_append(text, OPTIONS_TEXT, "%s", quote);
}

/* Append the options of the sum: as members of a JSON object, each after a comma, or as parameters of
 * a query, each after '&'. The axis is always the first. */
static void append_options(const struct settings *settings, bool json, char *text)
{
    text_append(text, OPTIONS_TEXT, json ? ",\"axis\":%" PRId64 : "&axis=%" PRId64,
                settings->axis);
    if (settings->exclusive) {
        text_append(text, OPTIONS_TEXT, "%s", json ? ",\"exclusive\":true" : "&exclusive=true");
    }
    if (settings->reverse) {
        text_append(text, OPTIONS_TEXT, "%s", json ? ",\"reverse\":true" : "&reverse=true");
    }
    append_word(text, json, "dtype", settings->dtype);
    append_word(text, json, "output_dtype", settings->output_dtype);
    append_word(text, json, "nan", settings->nan);
    if (settings->initial != NULL) {
        append_initial(settings, json, text);
    }
    if (settings->include_initial) {
        text_append(text, OPTIONS_TEXT, "%s",
                    json ? ",\"include_initial\":true" : "&include_initial=true");
    }
    append_list(text, json, "shape", &settings->shape);
    append_list(text, json, "strides", &settings->strides);
    append_list(text, json, "output_strides", &settings->output_strides);
}

/* Add `extra` elements along the axis to the shape of the sums. The server refuses an invalid axis. */
static void grow_shape(struct number_list *shape, int64_t axis, uint64_t extra)
{
    axis += axis < 0 ? shape->count : 0;
    if (axis >= 0 && axis < shape->count) {
        int64_t *size = &shape->numbers[axis];
        *size = __builtin_add_overflow(*size, extra, size) ? INT64_MAX : *size;
    }
}

/* Return the number of segments of each line of a complete request. */
static uint64_t member_segments(struct json_text request)
{
    struct json_text rest = {"", 0};
    struct json_text unused = {"", 0};
    struct json_text number = {"", 0};
    uint64_t count = 0;
    if (!json_text_member(request, "offsets", &rest)) {
        return 1;
    }
    while (json_text_next(&rest, &unused, &number)) {
        count++;
    }
    return count - (count > 0);
}

/* Read the shape and strides of the answer from a complete request. */
static void expect_of_request(struct json_text request, struct expectation *expected)
{
    struct json_text value = {"", 0};
    int64_t axis = 0;
    expected->shape = member_list(request, "shape");
    expected->strides = member_list(request, "output_strides");
    if (json_text_member(request, "axis", &value)) {
        axis = json_text_integer(value, 0);
    }
    if (json_text_member(request, "include_initial", &value) && *value.at == 't') {
        expected->extra = member_segments(request);
        grow_shape(&expected->shape, axis, expected->extra);
    }
}

/* Check the attributes, and apply them to the expected type and shape. Without --dtype the server
 * chooses the type of JSON. */
static int apply_attributes(const struct settings *settings, struct expectation *expected)
{
    enum tally_dtype dtype = TALLY_FLOAT64;
    struct attributes attributes;
    const bool typed = settings->dtype != NULL;
    if (typed) {
        (void)tally_dtype_find(settings->dtype, &dtype); /* it is one of the choices */
    }
    STEP(attributes_read(settings, typed ? &dtype : NULL, &attributes));
    expected->dtype =
        typed || settings->output_dtype != NULL ? tally_dtype_name(attributes.sums) : NULL;
    expected->extra = attributes_extra_sums(&attributes);
    grow_shape(&expected->shape, settings->axis, expected->extra);
    return EXIT_DONE;
}

/* Print the offsets to `text` as a member of a JSON object, after a comma. Returns the bytes. */
static size_t print_offsets(const struct settings *settings, char *text)
{
    size_t used = (size_t)sprintf(text, ",\"offsets\":[");
    for (uint64_t i = 0; i < settings->offset_count; i++) {
        used +=
            (size_t)sprintf(text + used, "%s%" PRId64, i > 0 ? "," : "", settings->offsets[i]);
    }
    return used + (size_t)sprintf(text + used, "]");
}

/* Make a request of JSON input: an array becomes the member "data" of *body, which the caller frees;
 * an object is a complete request, and *body stays NULL. */
static int wrap_json(const struct settings *settings, const struct source *source,
                     struct expectation *expected, char **body, size_t *body_bytes)
{
    char options[OPTIONS_TEXT] = "";
    const char *text = source->memory;
    size_t blank = strspn(text, " \t\r\n");
    append_options(settings, true, options);
    expected->bare = text[blank] != '{';
    if (!expected->bare) {
        expect_of_request((struct json_text){text, source->bytes}, expected);
        bool given = settings->axis_given || strcmp(options, ",\"axis\":0") != 0 ||
                     settings->offsets != NULL;
        return given ? complain(EXIT_USAGE,
                                "%s is a whole request (a JSON object): write the options into "
                                "it",
                                source->name)
                     : EXIT_DONE;
    }
    if (source->bytes == blank) {
        return complain(EXIT_USAGE, "%s is empty; give numbers such as [[1,2],[3,4]]",
                        source->name);
    }
    STEP(format_check_array(source));
    const size_t size = source->bytes + strlen(options) + sizeof "{\"data\":,\"offsets\":[]}" +
                        (size_t)settings->offset_count * OFFSET_TEXT;
    *body = malloc(size);
    if (*body == NULL) {
        return complain_no_memory();
    }
    size_t used = (size_t)snprintf(*body, size, "{\"data\":");
    memcpy(*body + used, text, source->bytes);
    used += source->bytes;
    if (settings->offsets != NULL) {
        used += print_offsets(settings, *body + used);
    }
    *body_bytes = used + (size_t)snprintf(*body + used, size - used, "%s}", options);
    return EXIT_DONE;
}

/* Return the largest number of bytes of the answer. A request has at most as many elements as bytes,
 * unless it has a shape: strides may repeat elements, and output strides make gaps. A request
 * without a shape has at most as many lines as elements, and each line may have more sums than
 * elements. The carry of a part has a sum even for a line without elements. */
static uint64_t most_of_answer(const struct expectation *expected, uint64_t request_bytes,
                               bool part)
{
    const struct number_list *shape = &expected->shape;
    const bool strided = expected->strides.count == shape->count;
    uint64_t elements = 1;
    uint64_t nested = 0; /* sums, if the shape is that of the nesting */
    uint64_t most = 0;
    bool overflow = __builtin_mul_overflow(request_bytes, expected->extra + 1, &nested);
    for (int i = 0; i < shape->count; i++) {
        const uint64_t size = larger_of((uint64_t)shape->numbers[i], 1);
        uint64_t reach = 0;
        overflow |= strided ? __builtin_mul_overflow(
                                  size - 1, (uint64_t)expected->strides.numbers[i], &reach) ||
                                  __builtin_add_overflow(elements, reach, &elements)
                            : __builtin_mul_overflow(elements, size, &elements);
    }
    overflow |=
        __builtin_mul_overflow(larger_of(elements, shape->count > 0 ? request_bytes : nested),
                               part ? ANSWER_CARRY : ANSWER_ELEMENT, &most) ||
        __builtin_add_overflow(most, ANSWER_BESIDE, &most);
    return overflow ? UINT64_MAX : most;
}

/* ---- the call ---- */

int cumsum_whole(const struct settings *settings, struct tally *client, struct source *source,
                 enum format input, enum format output)
{
    char path[OPTIONS_TEXT] = "/v1/cumsum";
    char *wrapped = NULL;
    size_t bytes = 0;
    struct json_text part = {"", 0};
    struct expectation expected = {.format = output,
                                   .shape = settings->shape,
                                   .strides = settings->output_strides,
                                   .dialect = dialect_of_result(settings, output, NULL),
                                   .member = "data"};
    STEP(apply_attributes(settings, &expected));
    if (input == FORMAT_JSON) {
        STEP(format_check_start(source));
        STEP(source_load(source));
        STEP(wrap_json(settings, source, &expected, &wrapped, &bytes));
    } else {
        STEP(source_load(source));
        size_t query = strlen(path);
        append_options(settings, false, path);
        path[query] = '?';
    }
    if (expected.strides.count > 0 && format_is_text(output)) {
        free(wrapped);
        return complain(EXIT_USAGE, "a result with output strides becomes json, npy or raw: "
                                    "rows of text have no gaps");
    }
    if (wrapped == NULL) {
        bytes = source->bytes;
    }
    struct json_text request_text = {source->memory, source->bytes};
    expected.most = most_of_answer(
        &expected, bytes, wrapped == NULL && json_text_member(request_text, "part", &part));
    struct tally_error err = {.status = TALLY_OK};
    struct tally_request request = {
        .path = path,
        .content_type = format_content_type(input),
        .body = wrapped != NULL ? wrapped : source->memory,
        .body_bytes = bytes,
        .deadline_ms = (int64_t)(settings->deadline_s * 1000),
    };
    int status = exchange(client, request, &expected, settings->output, settings->quiet, &err);
    if (wrapped != NULL && strcmp(err.code, "too_large") == 0) {
        (void)fprintf(stderr,
                      "  the input has %" PRIu64 " bytes, with the options around it %zu\n",
                      source->bytes, bytes);
    }
    free(wrapped);
    return status;
}
