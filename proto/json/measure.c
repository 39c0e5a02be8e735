/* The first pass over a JSON array: its end, its shape, and whether all numbers are integers.
 * Bytes are classified 64 at a time into bit masks. Only brackets and quotes are examined one
 * by one; commas between them are counted. */
#include "proto/json/tensor.h"

#include "proto/text.h"

#include <stdio.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum {
    BLOCK = 64
};

/* Bit i of each mask describes byte i of a block. */
struct masks {
    uint64_t comma;
    uint64_t mark;     /* [ ] or ", and some letters, which walk_block() ignores */
    uint64_t fraction; /* a point, a letter or ':' to '@': no integer contains one */
};

struct walk {
    const char *text;
    size_t bytes;
    const struct parallel *parallel; /* NULL: none */
    struct json_array *array;
    bool in_string; /* the next byte is inside a string */
    bool given_up;
    size_t opened;                     /* offset of the latest '[' */
    int depth;                         /* number of open arrays */
    uint64_t commas[LIMIT_RANK + 1];   /* [d]: commas so far in the open array at depth d
                                          (from 1) */
    uint64_t children[LIMIT_RANK + 1]; /* [d]: arrays so far in that array */
};

#ifdef __SSE2__
static uint64_t bits_of(__m128i matches, int part)
{
    return (uint64_t)(unsigned)_mm_movemask_epi8(matches) << (16 * part);
}

static void classify_block(const char *bytes, struct masks *out)
{
    struct masks masks = {0, 0, 0};
    for (int part = 0; part < 4; part++, bytes += 16) {
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)bytes);
        __m128i bracket =
            _mm_cmpeq_epi8(_mm_or_si128(c, _mm_set1_epi8('[' | ']')), _mm_set1_epi8('[' | ']'));
        bracket = _mm_and_si128(bracket, _mm_cmpgt_epi8(c, _mm_set1_epi8('X')));
        __m128i quote = _mm_cmpeq_epi8(c, _mm_set1_epi8('"'));
        __m128i dot = _mm_cmpeq_epi8(c, _mm_set1_epi8('.'));
        __m128i letter = _mm_andnot_si128(bracket, _mm_cmpgt_epi8(c, _mm_set1_epi8('9')));
        masks.comma |= bits_of(_mm_cmpeq_epi8(c, _mm_set1_epi8(',')), part);
        masks.mark |= bits_of(_mm_or_si128(bracket, quote), part);
        masks.fraction |= bits_of(_mm_or_si128(dot, letter), part);
    }
    *out = masks;
}
#else
static void classify_block(const char *bytes, struct masks *out)
{
    struct masks masks = {0, 0, 0};
    for (int i = 0; i < BLOCK; i++) {
        char c = bytes[i];
        masks.comma |= (uint64_t)(c == ',') << i;
        masks.mark |= (uint64_t)(c == '[' || c == ']' || c == '"') << i;
        masks.fraction |= (uint64_t)(c == '.' || (c > '9' && c != '[' && c != ']')) << i;
    }
    *out = masks;
}
#endif

static uint64_t bits_below(int bit)
{
    return ((uint64_t)1 << bit) - 1;
}

/* Mark the array as ragged: at the open array at depth `depth`, or at its element `index` if
 * index >= 0. Only the first such place is recorded; returns false if there was one before. */
static bool found_ragged(const struct walk *walk, int depth, int64_t index)
{
    struct json_array *array = walk->array;
    if (array->ragged) {
        return false;
    }
    for (int d = 1; d < depth; d++) {
        text_append(array->where, sizeof array->where, "[%llu]",
                    (unsigned long long)walk->commas[d]);
    }
    if (depth > 0 && index >= 0) {
        text_append(array->where, sizeof array->where, "[%llu]", (unsigned long long)index);
    }
    array->ragged = true;
    return true;
}

static enum status open_array(struct walk *walk, size_t at, struct error *err)
{
    if (walk->depth == LIMIT_RANK) {
        return error_set(err, STATUS_INVALID_SHAPE,
                         "an array is nested more than %d levels deep, the most dimensions a "
                         "tensor may have",
                         LIMIT_RANK);
    }
    int depth = walk->depth;
    if (depth > 0) {
        uint64_t children = walk->children[depth]++;
        if (walk->commas[depth] > children) { /* the array contains a number and an array */
            uint64_t odd = children > 0 ? children : walk->commas[depth];
            (void)found_ragged(walk, depth, (int64_t)odd);
        }
    }
    walk->opened = at;
    walk->depth = depth + 1;
    walk->commas[walk->depth] = 0;
    walk->children[walk->depth] = 0;
    return STATUS_OK;
}

/* Return the number of elements of the array that closes at `at`. Arrays without a comma between
 * them are counted too: reading then reports the missing comma. */
static uint64_t count_elements(struct walk *walk, size_t at)
{
    int depth = walk->depth;
    if (walk->commas[depth] > 0 || walk->children[depth] > 0) {
        return larger_of(walk->commas[depth] + 1, walk->children[depth]);
    }
    for (size_t p = walk->opened + 1; p < at; p++) {
        if (!text_is_space(walk->text[p])) {
            return 1;
        }
        if (p % PARALLEL_STEP_BYTES == 0 && !parallel_step(walk->parallel)) {
            walk->given_up = true;
            return 0;
        }
    }
    return 0;
}

static void close_array(struct walk *walk, size_t at)
{
    struct json_array *array = walk->array;
    int64_t *expected = &array->sizes[walk->depth - 1];
    uint64_t size = count_elements(walk, at);
    uint64_t children = walk->children[walk->depth];
    bool leaf = children == 0;
    if (leaf && array->rank == 0) {
        array->rank = walk->depth;
    } else if (leaf && array->rank != walk->depth) {
        (void)found_ragged(walk, walk->depth, -1);
    } else if (!leaf && children < size) {
        (void)found_ragged(walk, walk->depth, (int64_t)children);
    }
    if (*expected < 0) {
        *expected = (int64_t)size;
    } else if ((uint64_t)*expected != size && found_ragged(walk, walk->depth, -1)) {
        array->found = size;
        array->expected = (uint64_t)*expected;
    }
    array->elements += size > children ? size - children : 0;
    walk->depth--;
}

/* Continue inside a string, from a byte `at` that is not escaped. Returns the offset behind
 * the string, or the offset after one step's bytes, or `bytes` if the string has no end. */
static size_t skip_string(struct walk *walk, size_t at)
{
    size_t stop = at + smaller_of(walk->bytes - at, PARALLEL_STEP_BYTES);
    size_t p = at;
    walk->in_string = true;
    for (; p < stop && walk->in_string; p++) {
        walk->in_string = walk->text[p] != '"';
        p += walk->text[p] == '\\';
    }
    return p < walk->bytes ? p : walk->bytes;
}

/* Process the marks of the block at *at. *at then is the next offset to process: the next
 * block, or the byte after a string or after the whole array (depth 0). */
static enum status walk_block(struct walk *walk, size_t *at, const struct masks *masks,
                              struct error *err)
{
    uint64_t commas = masks->comma;
    for (uint64_t marks = masks->mark; marks != 0; marks &= marks - 1) {
        int bit = __builtin_ctzll(marks);
        size_t place = *at + (size_t)bit;
        walk->commas[walk->depth] += (uint64_t)__builtin_popcountll(commas & bits_below(bit));
        commas &= ~bits_below(bit);
        enum status status = STATUS_OK;
        switch (walk->text[place]) {
        case '[':
            status = open_array(walk, place, err);
            break;
        case ']':
            close_array(walk, place);
            break;
        case '"':
            place = skip_string(walk, place + 1) - 1;
            walk->array->integers = false;
            break;
        default:
            continue;
        }
        if (status != STATUS_OK) {
            return status;
        }
        if (walk->depth == 0 || walk->text[*at + (size_t)bit] == '"') {
            walk->array->integers &= (masks->fraction & bits_below(bit)) == 0;
            *at = place + 1;
            return STATUS_OK;
        }
    }
    walk->commas[walk->depth] += (uint64_t)__builtin_popcountll(commas);
    walk->array->integers &= masks->fraction == 0;
    *at = walk->bytes - *at > BLOCK ? *at + BLOCK : walk->bytes;
    return STATUS_OK;
}

/* Skip whole blocks from `at` up to `stop` that contain only numbers. Compilers vectorize the
 * inner loops. */
static size_t pass_numbers(struct walk *walk, size_t at, size_t stop)
{
    uint64_t commas = 0;
    for (; at < stop && stop - at >= BLOCK; at += BLOCK) {
        const char *bytes = walk->text + at;
        unsigned char found = 0;
        unsigned char marks = 0;
        unsigned char fraction = 0;
        for (int i = 0; i < BLOCK; i++) {
            const char c = bytes[i];
            found = (unsigned char)(found + (c == ','));
            /* '[' and ']', and two letters that no number contains */
            marks |= ((c | 6) == ('[' | ']')) | (c == '"');
        }
        if (marks != 0) {
            break;
        }
        for (int i = 0; walk->array->integers && i < BLOCK; i++) {
            fraction |= (bytes[i] == '.') | (bytes[i] > '9');
        }
        commas += found;
        walk->array->integers &= fraction == 0;
    }
    walk->commas[walk->depth] += commas;
    return at;
}

/* Process the text at *at: blocks up to `stop` and the block behind them, or one step of a
 * long string. */
static enum status walk_on(struct walk *walk, size_t *at, size_t stop, struct error *err)
{
    if (walk->in_string) {
        *at = skip_string(walk, *at);
        return STATUS_OK;
    }
    *at = pass_numbers(walk, *at, stop < walk->bytes ? stop : walk->bytes);
    if (*at >= stop || *at == walk->bytes) {
        return STATUS_OK;
    }
    char padded[BLOCK];
    const char *block = walk->text + *at;
    if (walk->bytes - *at < BLOCK) {
        memset(padded, 0, sizeof padded); /* zero bytes behind the end have no meaning */
        memcpy(padded, block, walk->bytes - *at);
        block = padded;
    }
    struct masks masks;
    classify_block(block, &masks);
    return walk_block(walk, at, &masks, err);
}

enum status json_tensor_measure(const char *text, size_t bytes, const struct parallel *parallel,
                                struct json_array *array, struct error *err)
{
    struct json_array found = {.integers = true};
    struct walk walk = {.text = text, .bytes = bytes, .parallel = parallel, .array = &found};
    size_t next_step = PARALLEL_STEP_BYTES;
    for (int i = 0; i < LIMIT_RANK; i++) {
        found.sizes[i] = -1;
    }
    enum status status = open_array(&walk, 0, err);
    size_t at = 1;
    while (status == STATUS_OK && walk.depth > 0 && at < bytes) {
        status = walk_on(&walk, &at, next_step, err);
        if (status == STATUS_OK && at >= next_step) {
            next_step = at + PARALLEL_STEP_BYTES;
            walk.given_up |= !parallel_step(parallel);
        }
        if (walk.given_up) {
            return parallel_given_up(err);
        }
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (walk.depth > 0) {
        return error_set(err, STATUS_INVALID_JSON,
                         "the text ends inside an array: ']' is missing");
    }
    found.cut = (struct json_cut){.text = text, .bytes = at};
    *array = found;
    return STATUS_OK;
}

enum status json_tensor_require_regular(const struct json_array *array, const char *field,
                                        struct error *err)
{
    if (!array->ragged) {
        return STATUS_OK;
    }
    char path[sizeof err->field];
    char first[sizeof err->field]; /* path of the first array at this depth */
    (void)snprintf(path, sizeof path, "%s%s", field, array->where);
    (void)snprintf(first, sizeof first, "%s", field);
    for (const char *at = array->where; *at != '\0'; at++) {
        text_append(first, sizeof first, "%s", *at == '[' ? "[0]" : "");
    }
    if (array->found == array->expected) {
        return error_set_field(err, STATUS_INVALID_SHAPE, path,
                               "%s is nested to another depth than its neighbours: nest every "
                               "number equally deep",
                               path);
    }
    return error_set_field(err, STATUS_INVALID_SHAPE, path,
                           "%s has %llu element%s, but %s has %llu: all rows must be equally "
                           "long; rows of different lengths are sent as one flat list with "
                           "offsets, such as [1,2,3] with offsets [0,2,3] for rows of 2 and 1",
                           path, (unsigned long long)array->found, array->found == 1 ? "" : "s",
                           first, (unsigned long long)array->expected);
}

enum status json_tensor_require_count(const struct json_array *array, const char *field,
                                      uint64_t least, uint64_t most, const char *shape,
                                      struct error *err)
{
    char expected[64] = "";
    if (array->elements >= least && array->elements <= most) {
        return STATUS_OK;
    }
    text_append(expected, sizeof expected, "%s%llu", most == UINT64_MAX ? "at least " : "",
                (unsigned long long)least);
    if (most != least && most != UINT64_MAX) {
        text_append(expected, sizeof expected, " to %llu", (unsigned long long)most);
    }
    return error_set_field(
        err, STATUS_LENGTH_MISMATCH, field, "found %llu element%s, expected %s%s%s",
        (unsigned long long)array->elements, array->elements == 1 ? "" : "s", expected,
        shape != NULL ? " for shape " : "", shape != NULL ? shape : "");
}

enum dtype json_tensor_infer(const struct json_array *array)
{
    enum {
        LOOKED_AT =
            1024 /* bytes searched for the first element; after more blanks a client must
                    name the type */
    };
    const char *text = array->cut.text;
    size_t at = 0;
    while (at < array->cut.bytes && at < LOOKED_AT &&
           (text[at] == '[' || text_is_space(text[at]))) {
        at++;
    }
    if (at < array->cut.bytes && (text[at] == 't' || text[at] == 'f')) {
        return DTYPE_BOOL;
    }
    return array->integers && array->elements > 0 ? DTYPE_I64 : DTYPE_F64;
}

/* Return the number of commas in text[0..bytes). */
static uint64_t count_commas(const char *text, size_t bytes)
{
    uint64_t commas = 0;
    size_t at = 0;
    for (; bytes - at >= BLOCK; at += BLOCK) {
        unsigned char found = 0;
        for (int i = 0; i < BLOCK; i++) {
            found = (unsigned char)(found + (text[at + (size_t)i] == ','));
        }
        commas += found;
    }
    for (; at < bytes; at++) {
        commas += text[at] == ',';
    }
    return commas;
}

int json_tensor_cut(struct json_rest *rest, size_t bytes, struct json_part *parts, int room)
{
    const char *text = rest->cut.text;
    int count = 0;
    while (count < room && rest->at < rest->cut.bytes) {
        size_t from = rest->at;
        size_t left = rest->cut.bytes - from;
        struct json_part *part = &parts[count];
        if (left < 2 * bytes) { /* the commas of the last part are counted when the part is
                                   read */
            *part = (struct json_part){text + from, left, rest->first,
                                       rest->elements - rest->first};
            rest->at += left;
            return count + 1;
        }
        /* Parts must not be much longer than `bytes`, so text with few commas is not cut. */
        const char *comma = memchr(text + from + bytes, ',', bytes);
        if (comma == NULL) {
            return JSON_UNCUT;
        }
        size_t to = (size_t)(comma - text) + 1;
        uint64_t elements = count_commas(text + from, to - from);
        if (elements >= rest->elements - rest->first) {
            return JSON_UNCUT;
        }
        *part = (struct json_part){text + from, to - from, rest->first, elements};
        rest->first += elements;
        rest->at = to;
        count++;
    }
    return count;
}
