/* Cutting the bulk arrays out of a JSON text, and jansson on what is left.
 *
 *     {"dtype":"float32", "data" : [[1,2],[3,4]], "axis":1}     text
 *     {"dtype":"float32", "data" : [0], "axis":1}               skeleton: [k] is array k
 *
 * Every array that is the value of a key "data", however that key is escaped, is cut; so
 * wherever the tree has an array under "data" it is a stand-in, and no client can forge one. */
#include "proto/json/doc.h"

#include "proto/content_guess.h"
#include "proto/digits.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct builder {
    const char *text;
    size_t bytes;
    const struct parallel *parallel; /* NULL: none */
    size_t at;                       /* next byte of text */
    size_t copied;                   /* text before this is in the skeleton */
    int depth;
    struct arena arena; /* owned: everything below, and the tree */
    char *skeleton;
    size_t skeleton_bytes;
    size_t skeleton_capacity;
    struct json_array *arrays;
    int array_count;
    int array_room;
    size_t skeleton_at[LIMIT_TENSORS]; /* place of each array's stand-in */
    struct json_cut carry;
    size_t carry_at; /* place of its stand-in in the skeleton */
};

static enum status append(struct builder *b, const char *text, size_t bytes, struct error *err)
{
    if (bytes > LIMIT_JSON_SKELETON - b->skeleton_bytes) {
        return error_set(err, STATUS_TOO_LARGE,
                         "the JSON outside of \"data\" arrays is longer than %d KiB, which no "
                         "setting changes: numbers of tensors belong under \"data\"",
                         LIMIT_JSON_SKELETON / 1024);
    }
    if (bytes == 0) {
        return STATUS_OK;
    }
    size_t need = b->skeleton_bytes + bytes;
    if (need > b->skeleton_capacity) {
        size_t capacity = need * 2; /* no overflow: the limit is far below */
        char *grown = arena_take(&b->arena, capacity);
        if (grown == NULL) {
            return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the request's JSON");
        }
        if (b->skeleton_bytes > 0) {
            memcpy(grown, b->skeleton, b->skeleton_bytes);
        }
        b->skeleton = grown;
        b->skeleton_capacity = capacity;
    }
    memcpy(b->skeleton + b->skeleton_bytes, text, bytes);
    b->skeleton_bytes = need;
    return STATUS_OK;
}

/* Where to stop looking: so much text outside of arrays is refused. */
static size_t limit_of(const struct builder *b)
{
    size_t left = b->bytes - b->copied;
    return b->copied + (left <= LIMIT_JSON_SKELETON ? left : LIMIT_JSON_SKELETON + 1);
}

/* Place of what is no space, or where to stop looking. */
static size_t skip_space(const struct builder *b, size_t at)
{
    size_t limit = limit_of(b);
    while (at < limit && strchr(" \t\r\n", b->text[at]) != NULL && b->text[at] != '\0') {
        at++;
    }
    return at;
}

/* Place after the string whose opening quote is at `at`; where to stop looking if it has no end
 * before. */
static size_t skip_string(const struct builder *b, size_t at)
{
    size_t limit = limit_of(b);
    for (size_t p = at + 1; p < limit; p++) {
        if (b->text[p] == '"') {
            return p + 1;
        }
        p += b->text[p] == '\\';
    }
    return limit;
}

/* Character at text[*at] of a string, \u escapes of ASCII resolved, anything else as -1. */
static int next_char(const char *text, size_t end, size_t *at)
{
    char c = text[(*at)++];
    if (c != '\\') {
        return (unsigned char)c;
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

/* True if the string text[at..end), without quotes, spells the name. */
static bool spells(const char *text, size_t at, size_t end, const char *name)
{
    size_t matched = 0;
    while (at < end && name[matched] != '\0') {
        if (next_char(text, end, &at) != name[matched]) {
            return false;
        }
        matched++;
    }
    return at == end && name[matched] == '\0';
}

/* Room for one more array. */
static enum status add_array(struct builder *b, struct error *err)
{
    if (b->array_count == LIMIT_TENSORS) {
        return error_set(err, STATUS_INVALID_JSON,
                         "the request holds more than %d \"data\" arrays", LIMIT_TENSORS);
    }
    if (b->array_count < b->array_room) {
        return STATUS_OK;
    }
    /* Nearly every request has one; a record is large. */
    int room = b->array_room == 0 ? 1 : LIMIT_TENSORS;
    struct json_array *grown = arena_take(&b->arena, (size_t)room * sizeof *grown);
    if (grown == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the request's JSON");
    }
    if (b->array_count > 0) {
        memcpy(grown, b->arrays, (size_t)b->array_count * sizeof *grown);
    }
    b->arrays = grown;
    b->array_room = room;
    return STATUS_OK;
}

/* Measure the array whose '[' is at `at` and put its stand-in into the skeleton. */
static enum status cut(struct builder *b, size_t at, struct error *err)
{
    char stand_in[8] = {'[', 0};
    TRY(add_array(b, err));
    TRY(append(b, b->text + b->copied, at - b->copied, err));
    struct json_array *array = &b->arrays[b->array_count];
    TRY(json_tensor_measure(b->text + at, b->bytes - at, b->parallel, array, err));
    int k = b->array_count++;
    size_t n = 1;
    if (k >= 10) {
        stand_in[n++] = (char)('0' + k / 10);
    }
    stand_in[n++] = (char)('0' + k % 10);
    stand_in[n++] = ']';
    b->skeleton_at[k] = b->skeleton_bytes;
    b->at = at + array->cut.bytes;
    b->copied = b->at;
    return append(b, stand_in, n, err);
}

/* Take the string whose opening quote is at `at` as the carry, and put an empty one into the
 * skeleton. One that holds a quote is no base64, and is left to jansson. */
static enum status cut_carry(struct builder *b, size_t at, struct error *err)
{
    const char *text = b->text + at + 1;
    const char *quote = memchr(text, '"', b->bytes - at - 1);
    if (quote == NULL || (quote > text && quote[-1] == '\\')) {
        return STATUS_OK;
    }
    enum status status = append(b, b->text + b->copied, at + 1 - b->copied, err);
    b->carry = (struct json_cut){text, (size_t)(quote - text)};
    b->carry_at = b->skeleton_bytes;
    b->copied = (size_t)(quote - b->text);
    b->at = b->copied + 1;
    return status;
}

/* The string at b->at, and the array or the carry that it may be the key of. */
static enum status string(struct builder *b, struct error *err)
{
    size_t begin = b->at + 1;
    b->at = skip_string(b, b->at);
    if (b->at >= limit_of(b)) {
        return STATUS_OK;
    }
    const bool data = spells(b->text, begin, b->at - 1, "data");
    const bool carry = b->depth == 1 && spells(b->text, begin, b->at - 1, "carry");
    if (!data && !carry) {
        return STATUS_OK;
    }
    size_t colon = skip_space(b, b->at);
    if (colon >= limit_of(b) || b->text[colon] != ':') {
        return STATUS_OK;
    }
    size_t value = skip_space(b, colon + 1);
    if (value >= limit_of(b) || b->text[value] != (data ? '[' : '"')) {
        return STATUS_OK;
    }
    return data ? cut(b, value, err) : cut_carry(b, value, err);
}

/* Place in the text of a place in the skeleton. */
static size_t original(const struct builder *b, size_t at)
{
    size_t moved = b->carry.text != NULL && b->carry_at < at ? b->carry.bytes : 0;
    for (int k = 0; k < b->array_count && b->skeleton_at[k] < at; k++) {
        size_t stand_in = k < 10 ? 3 : 4;
        moved += b->arrays[k].cut.bytes - stand_in;
    }
    return at + moved;
}

static enum status build(struct builder *b, struct error *err)
{
    while (b->at < b->bytes) {
        char c = b->text[b->at];
        if (c == '"') {
            TRY(string(b, err));
            continue;
        }
        b->at++;
        b->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (b->depth > LIMIT_JSON_DEPTH) {
            return error_set(err, STATUS_INVALID_JSON,
                             "the JSON is nested more than %d levels deep", LIMIT_JSON_DEPTH);
        }
        if (b->at - b->copied > LIMIT_JSON_SKELETON) {
            break; /* append() says so */
        }
    }
    return append(b, b->text + b->copied, b->at - b->copied, err);
}

/* jansson takes the nodes of a tree from the arena of the document that this thread reads just
 * now, so that they cost no call of malloc() each and go back together. It tells "no memory"
 * from "no JSON" in most places only, and loses the rest of a long string without a word: what
 * counts is whether an allocation failed while it parsed. */
static _Thread_local struct arena *filling; /* NULL: no document is being read */
static _Thread_local bool allocation_failed;

static void *allocate(size_t bytes)
{
    void *block = filling != NULL ? arena_take(filling, bytes) : malloc(bytes);
    allocation_failed = allocation_failed || block == NULL;
    return block;
}

static void deallocate(void *block)
{
    if (filling == NULL) {
        free(block);
    }
}

static void take_over_allocations(void)
{
    json_set_alloc_funcs(allocate, deallocate);
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

/* The skeleton as jansson takes it: to an integer that may not fit into 64 bits, which it refuses, an
 * exponent makes no difference, but that it becomes a number of the other kind, and the field that
 * it is for can say what it expects. False: no memory. */
static bool widen_integers(struct builder *b)
{
    enum {
        LEAST = 19 /* digits of 2^63 */
    };
    char *text = allocate(2 * b->skeleton_bytes);
    size_t used = 0;
    size_t digits = 0; /* of the number that ends here; SIZE_MAX: it is no integer */
    bool quoted = false;
    for (size_t at = 0; text != NULL && at < b->skeleton_bytes; at++) {
        const char c = b->skeleton[at];
        const bool escape = quoted && c == '\\' && at + 1 < b->skeleton_bytes;
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
            text[used++] = b->skeleton[++at];
        }
    }
    if (text != NULL) {
        b->skeleton = text;
        b->skeleton_bytes = used;
    }
    return text != NULL;
}

static json_t *load_skeleton(const struct builder *b, json_error_t *trouble)
{
    return json_loadb(b->skeleton, b->skeleton_bytes, JSON_REJECT_DUPLICATES, trouble);
}

static enum status load(struct builder *b, json_t **out, struct error *err)
{
    json_error_t trouble;
    json_error_t again;
    watch_allocations();
    filling = &b->arena;
    json_t *root = load_skeleton(b, &trouble);
    if (root == NULL && json_error_code(&trouble) == json_error_numeric_overflow &&
        widen_integers(b)) {
        root = load_skeleton(b, &again);
    }
    filling = NULL;
    if (allocation_failed) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the request's JSON");
    }
    if (root == NULL) {
        size_t place = trouble.position > 0 ? original(b, (size_t)trouble.position) : 0;
        if (json_error_code(&trouble) == json_error_null_character) {
            return error_set(err, STATUS_INVALID_JSON,
                             "a string in the body holds \\u0000, which none here may: leave "
                             "it out (byte %zu)",
                             place);
        }
        if (json_error_code(&trouble) == json_error_numeric_overflow) {
            return error_set(err, STATUS_INVALID_JSON,
                             "the body holds a number that does not fit into 64 bits where one "
                             "must: %s (byte %zu)",
                             trouble.text, place);
        }
        return error_set(err, STATUS_INVALID_JSON, "the body is not valid JSON: %s (byte %zu)",
                         trouble.text, place);
    }
    *out = root;
    return STATUS_OK;
}

static enum status parse(struct builder *b, struct json_doc *doc, struct error *err)
{
    if (b->skeleton == NULL || memchr(b->skeleton, '\0', b->skeleton_bytes) != NULL) {
        /* jansson skips some */
        return error_set(err, STATUS_INVALID_JSON,
                         "the body is not valid JSON: it holds a NUL byte");
    }
    json_t *root = NULL;
    TRY(load(b, &root, err));
    if (!json_is_object(root)) {
        return error_set(err, STATUS_INVALID_JSON,
                         "the body is valid JSON, but not an object: expected {...}");
    }
    *doc = (struct json_doc){.root = root,
                             .arrays = b->arrays,
                             .array_count = b->array_count,
                             .carry = b->carry,
                             .arena = b->arena};
    b->arena = (struct arena){.chunks = NULL};
    return STATUS_OK;
}

/* A body that does not begin like an object. Not read any further: a long one would otherwise
 * be searched for "data" to its end, and called too long outside of that. */
static enum status not_an_object(const struct builder *b, size_t first, struct error *err)
{
    enum {
        SHOWN = 24
    };
    enum content_kind kind = content_guess(b->text, b->bytes);
    if (kind == CONTENT_JSON) {
        return error_set(err, STATUS_INVALID_JSON,
                         "the body is an array, not an object: put it into one, such as "
                         "{\"data\": [...]} for /v1/cumsum");
    }
    if (kind != CONTENT_UNKNOWN) {
        return error_set(err, STATUS_INVALID_JSON,
                         "the body is not valid JSON: it looks like %s; %s", content_name(kind),
                         content_advice(kind));
    }
    char shown[SHOWN];
    size_t count = 0;
    for (; count < SHOWN && first + count < b->bytes; count++) {
        char c = b->text[first + count];
        shown[count] = (char)(c >= ' ' && c < 0x7F ? c : '.');
    }
    return error_set(err, STATUS_INVALID_JSON,
                     "the body is no JSON object: it begins with '%.*s%s', expected '{'",
                     (int)count, shown, first + count < b->bytes ? "..." : "");
}

enum status json_doc_parse(const char *text, size_t bytes, const struct parallel *parallel,
                           struct json_doc *doc, struct error *err)
{
    struct builder b = {.text = text, .bytes = bytes, .parallel = parallel};
    enum status status = STATUS_OK;
    size_t first = skip_space(&b, 0);
    if (first == bytes) {
        return error_set(err, STATUS_INVALID_JSON, "the body is empty, expected a JSON object");
    }
    size_t second = skip_space(&b, first + 1);
    if (text[first] != '{' || (second < bytes && text[second] == '\'')) {
        return not_an_object(&b, first, err);
    }
    status = build(&b, err);
    if (status == STATUS_OK) {
        status = parse(&b, doc, err);
    }
    arena_release(&b.arena);
    return status;
}

void json_doc_deinit(struct json_doc *doc)
{
    arena_release(&doc->arena); /* the tree too */
    *doc = (struct json_doc){.root = NULL};
}

const struct json_array *json_doc_array(const struct json_doc *doc, const json_t *value)
{
    if (!json_is_array(value)) {
        return NULL;
    }
    json_int_t k = json_integer_value(json_array_get(value, 0));
    return k >= 0 && k < doc->array_count ? &doc->arrays[k] : NULL;
}
