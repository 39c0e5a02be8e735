/* Parsing a JSON request: the long arrays are cut out of the text, and jansson parses the
 * rest, the skeleton.
 *
 *     {"dtype":"float32", "data" : [[1,2],[3,4]], "axis":1}     text
 *     {"dtype":"float32", "data" : [10], "axis":1}              skeleton: [10 + k] is array k
 *
 * Every array under a key "data" is cut, however the key is escaped. Therefore every array
 * under "data" in the tree is a stand-in, and no client can forge one. The same holds for
 * "offsets" in the outermost object. */
#include "proto/json/doc.h"

#include "proto/content_guess.h"
#include "proto/digits.h"
#include "proto/text.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_STAND_IN = 10, /* all stand-ins have two digits */
    STAND_IN_BYTES = 4
};

struct builder {
    const char *text;
    size_t bytes;
    const struct parallel *parallel; /* NULL: none */
    size_t at;                       /* next byte of the text to read */
    size_t copied;                   /* the text before this offset is in the skeleton */
    int depth;
    int values;          /* values in the skeleton: one for each comma and opening bracket */
    struct json_doc doc; /* owned; its arena also contains the skeleton */
    char *skeleton;
    size_t skeleton_bytes;
    size_t skeleton_capacity;
    size_t skeleton_at[LIMIT_TENSORS]; /* offset of each array's stand-in */
    size_t carry_at;                   /* offset of the carry's stand-in in the skeleton */
};

static enum status append_skeleton(struct builder *builder, const char *text, size_t bytes,
                                   struct error *err)
{
    if (bytes > LIMIT_JSON_SKELETON - builder->skeleton_bytes) {
        return error_set(err, STATUS_TOO_LARGE,
                         "the JSON outside of \"data\" arrays is longer than %d KiB, blanks "
                         "included, which no setting changes: numbers of tensors belong under "
                         "\"data\"",
                         LIMIT_JSON_SKELETON / 1024);
    }
    size_t need = builder->skeleton_bytes + bytes;
    if (need > builder->skeleton_capacity) {
        size_t capacity = need * 2; /* cannot overflow: the limit is far smaller */
        char *grown = arena_take(&builder->doc.arena, capacity);
        if (grown == NULL) {
            return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the request's JSON");
        }
        if (builder->skeleton_bytes > 0) {
            memcpy(grown, builder->skeleton, builder->skeleton_bytes);
        }
        builder->skeleton = grown;
        builder->skeleton_capacity = capacity;
    }
    memcpy(builder->skeleton + builder->skeleton_bytes, text, bytes);
    builder->skeleton_bytes = need;
    return STATUS_OK;
}

/* Return the end of the search: longer text outside of arrays is refused. */
static size_t search_limit(const struct builder *builder)
{
    size_t left = builder->bytes - builder->copied;
    return builder->copied + (left <= LIMIT_JSON_SKELETON ? left : LIMIT_JSON_SKELETON + 1);
}

/* Return the offset of the next byte that is not a space, or the end of the search. */
static size_t skip_space(const struct builder *builder, size_t at)
{
    size_t limit = search_limit(builder);
    while (at < limit && text_is_space(builder->text[at])) {
        at++;
    }
    return at;
}

/* Return the offset behind the string whose opening quote is at `at`, or the end of the search
 * if the string does not end before. */
static size_t skip_string(const struct builder *builder, size_t at)
{
    size_t limit = search_limit(builder);
    for (size_t p = at + 1; p < limit; p++) {
        if (builder->text[p] == '"') {
            return p + 1;
        }
        p += builder->text[p] == '\\';
    }
    return limit;
}

int json_string_char(const char *text, size_t end, size_t *at)
{
    const char c = text[(*at)++];
    if (c != '\\') {
        return (unsigned char)c;
    }
    if (*at < end && text[*at] == '/') {
        (*at)++;
        return '/';
    }
    if (end - *at < 5 || text[*at] != 'u') {
        return -1;
    }
    int code = 0;
    for (size_t i = *at + 1; i < *at + 5; i++) {
        int digit = hex_digit(text[i]);
        if (digit < 0) {
            return -1;
        }
        code = code * 16 + digit;
    }
    *at += 5;
    return code;
}

/* Return whether the string text[at..end), without quotes, spells the name. */
static bool string_spells(const char *text, size_t at, size_t end, const char *name)
{
    size_t matched = 0;
    while (at < end && name[matched] != '\0') {
        if (json_string_char(text, end, &at) != name[matched]) {
            return false;
        }
        matched++;
    }
    return at == end && name[matched] == '\0';
}

/* Measure the array whose '[' is at `at` and put its stand-in into the skeleton. */
static enum status cut_array(struct builder *builder, size_t at, struct error *err)
{
    if (builder->doc.array_count == LIMIT_TENSORS) {
        return error_set(err, STATUS_INVALID_JSON,
                         "the request holds more than %d arrays of numbers", LIMIT_TENSORS);
    }
    struct json_array *array = arena_take(&builder->doc.arena, sizeof *array);
    if (array == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the request's JSON");
    }
    TRY(append_skeleton(builder, builder->text + builder->copied, at - builder->copied, err));
    TRY(json_tensor_measure(builder->text + at, builder->bytes - at, builder->parallel, array,
                            err));
    const int k = builder->doc.array_count++;
    const int number = FIRST_STAND_IN + k;
    const char stand_in[STAND_IN_BYTES] = {'[', (char)('0' + number / 10),
                                           (char)('0' + number % 10), ']'};
    builder->doc.arrays[k] = array;
    builder->skeleton_at[k] = builder->skeleton_bytes;
    builder->at = at + array->cut.bytes;
    builder->copied = builder->at;
    return append_skeleton(builder, stand_in, sizeof stand_in, err);
}

/* Store the string whose opening quote is at `at` as the carry, and put an empty string into
 * the skeleton. A string with an escaped quote is not base64 and stays in the skeleton. */
static enum status cut_carry(struct builder *builder, size_t at, struct error *err)
{
    const char *text = builder->text + at + 1;
    const char *quote = memchr(text, '"', builder->bytes - at - 1);
    if (quote == NULL || (quote > text && quote[-1] == '\\')) {
        return STATUS_OK;
    }
    enum status status = append_skeleton(builder, builder->text + builder->copied,
                                         at + 1 - builder->copied, err);
    builder->doc.carry = (struct json_cut){text, (size_t)(quote - text)};
    builder->carry_at = builder->skeleton_bytes;
    builder->copied = (size_t)(quote - builder->text);
    builder->at = builder->copied + 1;
    return status;
}

/* Record the text of the number at `at`, because jansson converts the number to a double. The
 * number also stays in the skeleton. */
static void note_initial(struct builder *builder, size_t at)
{
    struct json_doc *doc = &builder->doc;
    struct json_cut found = {builder->text + at, 0};
    while (at + found.bytes < builder->bytes && found.text[found.bytes] != '\0' &&
           strchr("+-.0123456789eE", found.text[found.bytes]) != NULL) {
        found.bytes++;
    }
    if (found.bytes > 0 && doc->initial.text == NULL) {
        doc->initial = found;
    } else if (found.bytes > 0) {
        doc->initials_differ |= found.bytes != doc->initial.bytes ||
                                memcmp(found.text, doc->initial.text, found.bytes) != 0;
    }
}

/* Read the string at builder->at. If it is the key of an array or of the carry, cut the
 * value. */
static enum status read_string(struct builder *builder, struct error *err)
{
    const char *text = builder->text;
    const size_t limit = search_limit(builder);
    const size_t begin = builder->at + 1;
    const size_t end = skip_string(builder, builder->at);
    builder->at = end;
    if (end >= limit) {
        return STATUS_OK;
    }
    const bool data = string_spells(text, begin, end - 1, "data") ||
                      (builder->depth == 1 && string_spells(text, begin, end - 1, "offsets"));
    const bool carry = builder->depth == 1 && string_spells(text, begin, end - 1, "carry");
    const bool initial = string_spells(text, begin, end - 1, "initial");
    if (!data && !carry && !initial) {
        return STATUS_OK;
    }
    const size_t colon = skip_space(builder, end);
    if (colon >= limit || text[colon] != ':') {
        return STATUS_OK;
    }
    const size_t value = skip_space(builder, colon + 1);
    if (value < limit && initial) {
        note_initial(builder, value);
        return STATUS_OK;
    }
    if (value >= limit || text[value] != (data ? '[' : '"')) {
        return STATUS_OK;
    }
    return data ? cut_array(builder, value, err) : cut_carry(builder, value, err);
}

/* Convert an offset in the skeleton to an offset in the text. */
static size_t place_in_text(const struct builder *builder, size_t at)
{
    size_t moved = builder->doc.carry.text != NULL && builder->carry_at < at
                       ? builder->doc.carry.bytes
                       : 0;
    for (int k = 0; k < builder->doc.array_count && builder->skeleton_at[k] < at; k++) {
        moved += builder->doc.arrays[k]->cut.bytes - STAND_IN_BYTES;
    }
    return at + moved;
}

static enum status build_skeleton(struct builder *builder, struct error *err)
{
    while (builder->at < builder->bytes) {
        char c = builder->text[builder->at];
        if (c == '"') {
            TRY(read_string(builder, err));
            continue;
        }
        builder->at++;
        const bool opens = c == '{' || c == '[';
        builder->depth += opens - (c == '}' || c == ']');
        builder->values += opens || c == ',';
        if (builder->depth > LIMIT_JSON_DEPTH) {
            return error_set(err, STATUS_INVALID_JSON,
                             "the JSON is nested more than %d levels deep", LIMIT_JSON_DEPTH);
        }
        if (builder->values > LIMIT_JSON_VALUES) {
            return error_set(
                err, STATUS_TOO_LARGE,
                "the JSON outside of \"data\" arrays has more than %d values, "
                "which no setting changes: numbers of tensors belong under \"data\"",
                LIMIT_JSON_VALUES);
        }
        if (builder->at - builder->copied > LIMIT_JSON_SKELETON) {
            break; /* append_skeleton() reports the error */
        }
    }
    return append_skeleton(builder, builder->text + builder->copied,
                           builder->at - builder->copied, err);
}

/* While jansson parses, it allocates the nodes of the tree from the arena of the document that
 * this thread reads: no node costs a call of malloc(), and all are freed together. jansson
 * does not always distinguish "no memory" from "no JSON", and may silently cut a long string.
 * Therefore this module records whether any allocation failed. */
static _Thread_local struct arena *tree_arena; /* NULL: this thread reads no document */
static _Thread_local bool allocation_failed;

static void *tree_malloc(size_t bytes)
{
    void *block = tree_arena != NULL ? arena_take(tree_arena, bytes) : malloc(bytes);
    allocation_failed = allocation_failed || block == NULL;
    return block;
}

static void tree_free(void *block)
{
    if (tree_arena == NULL) {
        free(block);
    }
}

static void take_over_allocations(void)
{
    json_set_alloc_funcs(tree_malloc, tree_free);
}

static void watch_allocations(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, take_over_allocations);
    allocation_failed = false;
}

char *json_doc_dump(const json_t *value)
{
    watch_allocations();
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT) : NULL;
    if (allocation_failed) {
        free(text);
        return NULL;
    }
    return text;
}

/* Add an exponent to integers that may exceed 64 bits, because jansson refuses such integers.
 * The value stays the same but becomes a real number, so that the field that contains it can
 * report what it expects. Returns false if there is no memory. */
static bool widen_integers(struct builder *builder)
{
    enum {
        LEAST = 19 /* decimal digits of 2^63 */
    };
    char *text = tree_malloc(2 * builder->skeleton_bytes);
    size_t used = 0;
    size_t digits = 0; /* digits of the current number so far; SIZE_MAX: it is not an integer */
    bool quoted = false;
    for (size_t at = 0; text != NULL && at < builder->skeleton_bytes; at++) {
        const char c = builder->skeleton[at];
        const bool escape = quoted && c == '\\' && at + 1 < builder->skeleton_bytes;
        if (!quoted && c >= '0' && c <= '9') {
            digits += digits != SIZE_MAX;
        } else if (!quoted && c != '\0' && strchr("+.eE", c) != NULL) {
            digits = SIZE_MAX;
        } else if (c != '-' || digits != SIZE_MAX) {
            if (digits >= LEAST && digits != SIZE_MAX) {
                text[used++] = 'e';
                text[used++] = '0';
            }
            digits = 0;
        }
        quoted = quoted != (c == '"');
        text[used++] = c;
        if (escape) {
            text[used++] = builder->skeleton[++at];
        }
    }
    if (text != NULL) {
        builder->skeleton = text;
        builder->skeleton_bytes = used;
    }
    return text != NULL;
}

static json_t *load_skeleton(const struct builder *builder, json_error_t *trouble)
{
    return json_loadb(builder->skeleton, builder->skeleton_bytes, JSON_REJECT_DUPLICATES,
                      trouble);
}

/* Advice for a value of Python's that jansson refused: `found` is jansson's sentence. */
static const char *python_advice(const char *found)
{
    if (strstr(found, "near 'True'") != NULL || strstr(found, "near 'False'") != NULL) {
        return "; JSON writes true and false in small letters";
    }
    if (strstr(found, "near 'array'") != NULL || strstr(found, "near 'tensor'") != NULL) {
        return "; a printed array is no JSON (Python: json.dumps({\"data\": x.tolist()}))";
    }
    return "";
}

static enum status parse_skeleton(struct builder *builder, struct error *err)
{
    json_error_t trouble = {.line = 0}; /* jansson may fail without memory and set no code */
    json_error_t again;
    assert(builder->skeleton != NULL); /* the skeleton begins with '{', and so does the tree */
    if (memchr(builder->skeleton, '\0', builder->skeleton_bytes) != NULL) {
        /* jansson ignores some NUL bytes */
        return error_set(err, STATUS_INVALID_JSON,
                         "the body is not valid JSON: it holds a NUL byte");
    }
    watch_allocations();
    tree_arena = &builder->doc.arena;
    json_t *root = load_skeleton(builder, &trouble);
    if (root == NULL && json_error_code(&trouble) == json_error_numeric_overflow &&
        widen_integers(builder)) {
        root = load_skeleton(builder, &again);
    }
    tree_arena = NULL;
    if (allocation_failed) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the request's JSON");
    }
    if (root == NULL) {
        size_t place =
            trouble.position > 0 ? place_in_text(builder, (size_t)trouble.position) : 0;
        if (json_error_code(&trouble) == json_error_null_character) {
            return error_set(err, STATUS_INVALID_JSON,
                             "a string in the body contains \\u0000, which is not allowed: "
                             "leave it out (byte %zu)",
                             place);
        }
        if (json_error_code(&trouble) == json_error_numeric_overflow) {
            return error_set(err, STATUS_INVALID_JSON,
                             "the body holds a number that does not fit into 64 bits: %s "
                             "(byte %zu)",
                             trouble.text, place);
        }
        return error_set(err, STATUS_INVALID_JSON,
                         "the body is not valid JSON: %s (byte %zu)%s", trouble.text, place,
                         python_advice(trouble.text));
    }
    assert(json_is_object(root));
    builder->doc.root = root;
    return STATUS_OK;
}

/* Refuse a body that does not begin like an object. The rest is not read: a long body would
 * otherwise be searched for "data" to its end, and then be refused as too long. */
static enum status refuse_no_object(const struct builder *builder, size_t first,
                                    struct error *err)
{
    enum {
        SHOWN = 24
    };
    enum content_kind kind = content_guess(builder->text, builder->bytes);
    if (kind == CONTENT_JSON) {
        return error_set(err, STATUS_INVALID_JSON,
                         "the body is an array, not an object: put it into one, such as "
                         "{\"data\": [...]} for /v1/cumsum");
    }
    if (kind != CONTENT_UNKNOWN) {
        return error_set(err, STATUS_INVALID_JSON, CONTENT_NO_JSON, content_name(kind),
                         content_advice(kind));
    }
    char shown[SHOWN];
    size_t count = 0;
    for (; count < SHOWN && first + count < builder->bytes; count++) {
        char c = builder->text[first + count];
        shown[count] = (char)(c >= ' ' && c < 0x7F ? c : '.');
    }
    return error_set(err, STATUS_INVALID_JSON,
                     "the body is no JSON object: it begins with '%.*s%s', expected '{'",
                     (int)count, shown, first + count < builder->bytes ? "..." : "");
}

enum status json_doc_parse(const char *text, size_t bytes, const struct parallel *parallel,
                           struct json_doc *doc, struct error *err)
{
    struct builder builder = {.text = text, .bytes = bytes, .parallel = parallel};
    enum status status = STATUS_OK;
    size_t first = skip_space(&builder, 0);
    if (first == bytes) {
        return error_set(
            err, STATUS_INVALID_JSON,
            "the body is empty, expected a JSON object, such as {\"data\": [1,2,3]} "
            "for /v1/cumsum");
    }
    size_t second = skip_space(&builder, first + 1);
    const bool all_space = text_is_space(text[first]); /* build_skeleton() refuses it as too
                                                          long */
    const bool wide =
        second < bytes && text[second] == '\0' && content_is_wide(content_guess(text, bytes));
    if ((text[first] != '{' && !all_space) || (second < bytes && text[second] == '\'') ||
        wide) {
        return refuse_no_object(&builder, first, err);
    }
    status = build_skeleton(&builder, err);
    if (status == STATUS_OK) {
        status = parse_skeleton(&builder, err);
    }
    if (status != STATUS_OK) {
        json_doc_deinit(&builder.doc);
        return status;
    }
    *doc = builder.doc;
    return STATUS_OK;
}

enum status json_doc_initial(const struct json_doc *doc, const struct json_place *place,
                             struct json_cut *text, struct error *err)
{
    const json_t *value = json_field(place, "initial");
    if (value == NULL) {
        return STATUS_OK;
    }
    if (doc->initials_differ) {
        return json_field_refuse(
            place, "initial", -1, STATUS_INVALID_FIELD, err,
            "initial is given twice, with different values: leave one out");
    }
    if (!json_is_string(value) && (!json_is_number(value) || doc->initial.text == NULL)) {
        return json_field_error(place, "initial", "a number, \"NaN\" or \"Infinity\"", err);
    }
    *text = json_is_string(value)
                ? (struct json_cut){json_string_value(value), json_string_length(value)}
                : doc->initial;
    return STATUS_OK;
}

void json_doc_deinit(struct json_doc *doc)
{
    arena_release(&doc->arena); /* includes the tree */
    *doc = (struct json_doc){.root = NULL};
}

const struct json_array *json_doc_array(const struct json_doc *doc, const json_t *value)
{
    if (!json_is_array(value)) {
        return NULL;
    }
    const int k = (int)json_integer_value(json_array_get(value, 0)) - FIRST_STAND_IN;
    return k >= 0 && k < doc->array_count ? doc->arrays[k] : NULL;
}
