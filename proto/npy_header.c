/* NPY headers.
 *
 *     \x93NUMPY  major minor  length(2 or 4 bytes, little-endian)
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   spaces \n
 *
 * The dict is parsed as a Python literal: keys in any order, either kind of quotes, a prefix u
 * as in Python 2, spaces and a trailing comma where Python allows them; everything else is
 * refused. A type may be a code (<f4), a letter (<f) or a name (float32), with NumPy's meaning
 * on Linux. Possible failures: INVALID_NPY (no magic, another version, a header that is cut
 * off or has no such dict), INVALID_DTYPE (text, objects, complex numbers, ...), INVALID_SHAPE
 * (too many dimensions). */
#include "proto/npy_header.h"

#include "proto/content_guess.h"
#include "proto/digits.h"
#include "proto/little_endian.h"
#include "proto/text.h"

#include <string.h>

enum {
    MAGIC = 6,
    SHORT_PREFIX = NPY_PREFIX_BYTES,
    LONG_PREFIX = 12,
    ALIGNMENT = 64
};

#define EXPECTED_TYPES                                                                     \
    "expected f2, f4, f8, i1, i2, i4, i8, u1, u2, u4 or u8, after < or >, or the name of " \
    "such a type, as float32"
#define TEXT_ADVICE                                                                        \
    "text has no sum: if it is numbers, send x.astype('int64') where all are whole, else " \
    "x.astype('float64'), which rounds to 53 bits"
#define ONE_BYTE_ADVICE                                                                    \
    "the file does not say which type of one byte this is (float8, float4, int4, int2, "   \
    "...), and none of them has sums here: from the array as it was before it was saved, " \
    "save x.astype('float32') if its type is a float, x.astype('int64') if it is an integer"
#define LONG_DOUBLE_ADVICE                                                            \
    "float64 is the widest float here: send x.astype('float64'), which rounds every " \
    "element to 53 bits and makes an infinity of one beyond 1.8e308"

static const char magic[MAGIC + 1] = "\x93NUMPY";

static enum status not_npy(struct byte_view head, struct error *err)
{
    enum content_kind kind = content_guess(head.bytes, head.count);
    if (kind == CONTENT_UNKNOWN) {
        return error_set(err, STATUS_INVALID_NPY,
                         "the body is no NPY file: it does not begin with \\x93NUMPY");
    }
    return error_set(err, STATUS_INVALID_NPY, "the body is no NPY file: it looks like %s; %s",
                     content_name(kind), content_advice(kind));
}

/* Return true if a NUL is missing behind the version of the format (1 to 3), where NumPy
 * writes one. */
static bool lost_its_nul(struct byte_view head)
{
    const char *bytes = head.bytes;
    return head.count > MAGIC && memcmp(bytes, magic, MAGIC) == 0 && bytes[MAGIC] >= 1 &&
           bytes[MAGIC] <= 3 && (head.count == MAGIC + 1 || bytes[MAGIC + 1] != '\0');
}

static enum status refuse_stripped(struct error *err)
{
    return error_set(err, STATUS_INVALID_NPY,
                     "the body begins as an NPY file does, but no NUL byte follows the version "
                     "of its format; " CONTENT_STRIPPED_ADVICE
                     ", with Content-Type: application/x-npy");
}

enum status npy_header_need(struct byte_view head, uint64_t *need, struct error *err)
{
    const unsigned char *bytes = head.bytes;
    if (head.count < SHORT_PREFIX) {
        *need = SHORT_PREFIX;
        return STATUS_OK;
    }
    if (memcmp(bytes, magic, MAGIC) != 0) {
        return not_npy(head, err);
    }
    if (lost_its_nul(head)) {
        return refuse_stripped(err);
    }
    int major = bytes[MAGIC];
    int minor = bytes[MAGIC + 1];
    if (major < 1 || major > 3 || minor != 0) {
        return error_set(err, STATUS_INVALID_NPY,
                         "NPY format version %d.%d, expected 1.0, 2.0 or 3.0", major, minor);
    }
    size_t prefix = major == 1 ? SHORT_PREFIX : LONG_PREFIX;
    if (head.count < prefix) {
        *need = prefix;
        return STATUS_OK;
    }
    uint64_t length = little_endian_load(bytes + MAGIC + 2, major == 1 ? 2 : 4);
    if (length > LIMIT_NPY_HEADER) {
        return error_set(err, STATUS_INVALID_NPY,
                         "the NPY header has %llu bytes, at most %d are accepted",
                         (unsigned long long)length, LIMIT_NPY_HEADER);
    }
    *need = prefix + length;
    return STATUS_OK;
}

/* The text of the dict; `end` is behind its last byte. */
struct cursor {
    const char *at;
    const char *end;
};

static void skip_space(struct cursor *cursor)
{
    while (cursor->at < cursor->end && text_is_space(*cursor->at)) {
        cursor->at++;
    }
}

/* Move past `token` if the text continues with it, and return true. */
static bool take_token(struct cursor *cursor, const char *token)
{
    size_t length = strlen(token);
    skip_space(cursor);
    if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, token, length) != 0) {
        return false;
    }
    cursor->at += length;
    return true;
}

static enum status syntax_error(const struct cursor *cursor, const char *expected,
                                struct error *err)
{
    char found[24];
    size_t n = 0;
    while (n < sizeof found - 1 && cursor->at + n < cursor->end) {
        found[n] = (char)(cursor->at[n] >= ' ' && cursor->at[n] < 0x7F ? cursor->at[n] : '?');
        n++;
    }
    found[n] = '\0';
    return error_set(err, STATUS_INVALID_NPY,
                     "the NPY header is not valid: expected %s at '%s'", expected, found);
}

/* Read 'text' or "text" without escape sequences, with an optional prefix u as in Python 2. */
static bool take_string(struct cursor *cursor, struct byte_view *out)
{
    skip_space(cursor);
    const char *quote = cursor->at;
    quote += quote < cursor->end && (*quote | 0x20) == 'u';
    if (quote == cursor->end || (*quote != '\'' && *quote != '"')) {
        return false;
    }
    const char *begin = quote + 1;
    const char *close = memchr(begin, *quote, (size_t)(cursor->end - begin));
    if (close == NULL || memchr(begin, '\\', (size_t)(close - begin)) != NULL) {
        return false;
    }
    *out = (struct byte_view){begin, (size_t)(close - begin)};
    cursor->at = close + 1;
    return true;
}

static bool view_is(struct byte_view text, const char *word)
{
    return text.count == strlen(word) && memcmp(text.bytes, word, text.count) == 0;
}

/* Other spellings of NumPy's types on Linux, where a C long has 8 bytes. */
static const struct spelling {
    const char *text;
    const char *type; /* descr without its byte order */
} codes[] = {{"?", "b1"},  {"b", "i1"}, {"B", "u1"},  {"h", "i2"},  {"H", "u2"}, {"i", "i4"},
             {"I", "u4"},  {"l", "i8"}, {"L", "u8"},  {"q", "i8"},  {"Q", "u8"}, {"n", "i8"},
             {"N", "u8"},  {"p", "i8"}, {"P", "u8"},  {"e", "f2"},  {"f", "f4"}, {"d", "f8"},
             {"g", "f16"}, {"F", "c8"}, {"D", "c16"}, {"G", "c32"}, {"c", "S1"}},
  names[] = {{"bool", "b1"},      {"bool_", "b1"},       {"byte", "i1"},     {"ubyte", "u1"},
             {"short", "i2"},     {"ushort", "u2"},      {"intc", "i4"},     {"uintc", "u4"},
             {"int", "i8"},       {"int_", "i8"},        {"uint", "u8"},     {"intp", "i8"},
             {"uintp", "u8"},     {"long", "i8"},        {"ulong", "u8"},    {"longlong", "i8"},
             {"ulonglong", "u8"}, {"half", "f2"},        {"single", "f4"},   {"float", "f8"},
             {"double", "f8"},    {"longdouble", "f16"}, {"float128", "f16"}};

static struct byte_view respell(struct byte_view type, const struct spelling *spellings,
                                size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (view_is(type, spellings[i].text)) {
            return (struct byte_view){spellings[i].type, strlen(spellings[i].type)};
        }
    }
    return type;
}

/* Return NumPy's usual spelling of a type without byte order: i8 for l. A name has no byte
 * order. */
static struct byte_view usual_spelling(struct byte_view type, bool has_order)
{
    enum dtype dtype = DTYPE_F32;
    if (!has_order && dtype_find(DTYPE_FAMILY_NAME, type.bytes, type.count, &dtype) &&
        dtype_info(dtype)->npy != NULL) {
        const char *npy = dtype_info(dtype)->npy + 1;
        return (struct byte_view){npy, strlen(npy)};
    }
    const struct byte_view code = respell(type, codes, ARRAY_COUNT(codes));
    return has_order ? code : respell(code, names, ARRAY_COUNT(names));
}

/* Advice for a descr that is not a type of the service. Every advised step keeps all sums
 * exact; an unavoidable loss is named. */
static const struct {
    const char *type; /* descr without its byte order; a kind without a size matches any size */
    const char *advice; /* how to send the array */
} unlike[] = {
    {"c",
     "a complex number has two parts, each with a sum of its own: send x.real and x.imag as "
     "two arrays; their sums are the real and the imaginary parts of the result"},
    {"O",
     "Python objects are never unpickled: save x.astype('int64') where all are whole numbers "
     "that int64 holds, else x.astype('float64'), which rounds to 53 bits"},
    {"S", TEXT_ADVICE},
    {"U", TEXT_ADVICE},
    {"a", TEXT_ADVICE},
    {"T", TEXT_ADVICE},
    {"bfloat16", "NPY has no bfloat16: send x.tobytes() as application/octet-stream with "
                 "dtype=bfloat16 and its shape"},
    {"V2",
     "the file does not say which type of 2 bytes this is; bfloat16 is one that NumPy saves "
     "so: if the array was bfloat16 before it was saved, send its x.tobytes() as "
     "application/octet-stream with dtype=bfloat16 and its shape, else convert it to a type "
     "that has sums before it is saved"},
    {"V1", ONE_BYTE_ADVICE},
    {"f1", ONE_BYTE_ADVICE},
    {"V", "the file does not say of which type these bytes are: convert x to a type that has "
          "sums before it is saved, " EXPECTED_TYPES},
    {"f12", LONG_DOUBLE_ADVICE},
    {"f16", LONG_DOUBLE_ADVICE},
    {"m",
     "spans of time are summed as int64: send x.astype('int64') without NaT, which would "
     "count as -2^63 (numpy.isnat finds it), and turn the sums back with .astype(x.dtype)"},
    {"M", "points in time have no sum, the spans between them have: send "
          "numpy.diff(x).astype('int64'), where x has no NaT (numpy.isnat finds it)"},
    {"", EXPECTED_TYPES},
};

static bool view_begins(struct byte_view text, const char *start)
{
    const size_t length = strlen(start);
    return text.count >= length && memcmp(text.bytes, start, length) == 0;
}

/* Return the advice of the first row that matches. A row whose type is a kind alone matches
 * any size; the last row matches every type. */
static const char *unlike_advice(struct byte_view type)
{
    size_t at = 0;
    while (strlen(unlike[at].type) > 1 ? !view_is(type, unlike[at].type)
                                       : !view_begins(type, unlike[at].type)) {
        at++;
    }
    return unlike[at].advice;
}

static enum status parse_descr(struct cursor *cursor, struct npy_header *out, struct error *err)
{
    struct byte_view descr = {NULL, 0};
    skip_space(cursor);
    if (cursor->at < cursor->end &&
        (*cursor->at == '[' || *cursor->at == '(' || *cursor->at == '{')) {
        return error_set_field(err, STATUS_INVALID_DTYPE, "descr",
                               "the NPY element type is structured: send one field, x['name']");
    }
    if (!take_string(cursor, &descr)) {
        return syntax_error(cursor, "a string such as '<f4' for descr", err);
    }
    const char *text = descr.bytes;
    char order = '|';
    struct byte_view type = descr;
    if (descr.count > 0 && strchr("<>=|", text[0]) != NULL && text[0] != '\0') {
        order = text[0];
        type = (struct byte_view){text + 1, descr.count - 1};
    }
    type = usual_spelling(type, type.count < descr.count);
    for (int i = 0; i <= DTYPE_BOOL; i++) {
        const struct dtype_info *info = dtype_info((enum dtype)i);
        if (info->npy != NULL && view_is(type, info->npy + 1)) {
            out->dtype = (enum dtype)i;
            out->byte_swap = order == '>' && info->bytes > 1;
            return STATUS_OK;
        }
    }
    int shown = descr.count < 40 ? (int)descr.count : 40;
    return error_set_field(err, STATUS_INVALID_DTYPE, "descr",
                           "the NPY element type is '%.*s': %s", shown, text,
                           unlike_advice(type));
}

static enum status parse_order(struct cursor *cursor, struct npy_header *out, struct error *err)
{
    if (take_token(cursor, "True")) {
        out->fortran_order = true;
        return STATUS_OK;
    }
    out->fortran_order = false;
    return take_token(cursor, "False")
               ? STATUS_OK
               : syntax_error(cursor, "True or False for fortran_order", err);
}

/* Read a decimal size; Python 2 wrote long integers as 3L. */
static bool take_size(struct cursor *cursor, int64_t *out)
{
    uint64_t value = 0;
    bool fits = false;
    skip_space(cursor);
    size_t digits = digits_read(cursor->at, (size_t)(cursor->end - cursor->at), &value, &fits);
    if (digits == 0 || !fits || value > INT64_MAX) {
        return false;
    }
    *out = (int64_t)value;
    cursor->at += digits;
    cursor->at += cursor->at < cursor->end && *cursor->at == 'L';
    return true;
}

/* Read () or (3,) or (3, 4) or (3, 4,). */
static enum status parse_shape(struct cursor *cursor, struct npy_header *out, struct error *err)
{
    static const char expected[] = "a tuple of sizes such as (3, 4) for shape";
    bool comma = true;
    out->rank = 0;
    if (!take_token(cursor, "(")) {
        return syntax_error(cursor, expected, err);
    }
    while (!take_token(cursor, ")")) {
        if (out->rank == LIMIT_RANK) {
            return error_set_field(err, STATUS_INVALID_SHAPE, "shape",
                                   "the NPY shape has more than %d dimensions", LIMIT_RANK);
        }
        if (!comma || !take_size(cursor, &out->sizes[out->rank])) {
            return syntax_error(cursor, expected, err);
        }
        out->rank++;
        comma = take_token(cursor, ",");
    }
    if (out->rank == 1 && !comma) {
        return syntax_error(cursor, "a comma in a shape of one dimension, (3,),", err);
    }
    return STATUS_OK;
}

static enum status parse_dict(struct cursor *cursor, struct npy_header *out, struct error *err)
{
    static const struct {
        const char *key;
        enum status (*parse)(struct cursor *cursor, struct npy_header *out, struct error *err);
    } entries[] = {
        {"descr", parse_descr}, {"fortran_order", parse_order}, {"shape", parse_shape}};
    bool seen[ARRAY_COUNT(entries)] = {false};
    bool comma = true;
    if (!take_token(cursor, "{")) {
        return syntax_error(cursor, "'{'", err);
    }
    while (!take_token(cursor, "}")) {
        struct byte_view name = {NULL, 0};
        if (!comma) {
            return syntax_error(cursor, "',' or '}'", err);
        }
        if (!take_string(cursor, &name)) {
            return syntax_error(cursor, "a key in quotes", err);
        }
        size_t at = 0;
        while (at < ARRAY_COUNT(entries) && !view_is(name, entries[at].key)) {
            at++;
        }
        if (at == ARRAY_COUNT(entries) || seen[at]) {
            return error_set(err, STATUS_INVALID_NPY,
                             "the NPY header has %s key '%.*s', expected descr, fortran_order "
                             "and shape once each",
                             at == ARRAY_COUNT(entries) ? "an unknown" : "a second",
                             name.count < 40 ? (int)name.count : 40, (const char *)name.bytes);
        }
        seen[at] = true;
        if (!take_token(cursor, ":")) {
            return syntax_error(cursor, "':'", err);
        }
        TRY(entries[at].parse(cursor, out, err));
        comma = take_token(cursor, ",");
    }
    skip_space(cursor);
    if (cursor->at != cursor->end) {
        return syntax_error(cursor, "the end of the header", err);
    }
    for (size_t at = 0; at < ARRAY_COUNT(entries); at++) {
        if (!seen[at]) {
            return error_set(err, STATUS_INVALID_NPY, "the NPY header lacks the key '%s'",
                             entries[at].key);
        }
    }
    return STATUS_OK;
}

enum status npy_header_parse(struct byte_view head, struct npy_header *out, struct error *err)
{
    uint64_t need = 0;
    TRY(npy_header_need(head, &need, err));
    if (head.count == 0) {
        return error_set(err, STATUS_INVALID_NPY, "the body is empty, expected an NPY file");
    }
    if (memcmp(head.bytes, magic, head.count < MAGIC ? head.count : MAGIC) != 0) {
        return not_npy(head, err);
    }
    if (lost_its_nul(head)) {
        return refuse_stripped(err);
    }
    if (head.count != need || need < SHORT_PREFIX) {
        return error_set(err, STATUS_INVALID_NPY,
                         "the NPY file ends inside its header: %zu bytes of at least %llu",
                         head.count, (unsigned long long)need);
    }
    const char *bytes = head.bytes;
    struct cursor cursor = {bytes + (bytes[MAGIC] == 1 ? SHORT_PREFIX : LONG_PREFIX),
                            bytes + head.count};
    struct npy_header found = {.rank = 0};
    TRY(parse_dict(&cursor, &found, err));
    *out = found;
    return STATUS_OK;
}

size_t npy_header_print(enum dtype dtype, bool fortran_order, const int64_t *sizes, int rank,
                        size_t least, char text[NPY_HEADER_MAX])
{
    char *dict = text + SHORT_PREFIX;
    const size_t room = NPY_HEADER_MAX - SHORT_PREFIX;
    dict[0] = '\0';
    text_append(dict, room, "{'descr': '%s', 'fortran_order': %s, 'shape': (",
                dtype_info(dtype)->npy, fortran_order ? "True" : "False");
    for (int d = 0; d < rank; d++) {
        text_append(dict, room, "%s%lld", d > 0 ? ", " : "", (long long)sizes[d]);
    }
    text_append(dict, room, "%s), }", rank == 1 ? "," : "");
    const size_t used = strlen(dict);
    size_t whole = (SHORT_PREFIX + used + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    whole = larger_of(whole, least);
    memset(dict + used, ' ', whole - SHORT_PREFIX - used);
    text[whole - 1] = '\n';
    memcpy(text, magic, MAGIC);
    text[MAGIC] = 1;
    text[MAGIC + 1] = 0;
    little_endian_store(text + MAGIC + 2, 2, whole - SHORT_PREFIX);
    return whole;
}
