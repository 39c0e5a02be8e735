/* The table of element types, and its look-ups. */
#include "proto/dtype.h"

#include "proto/text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct dtype_info dtype_rows[DTYPE_COUNT + 1] = {
#define X(symbol, size, type_kind, exponent, v1, oip, model, array, dml, ir, ov) \
    [DTYPE_##symbol] = {.name = v1,                                              \
                        .kserve = oip,                                           \
                        .npy = array,                                            \
                        .directml = dml,                                         \
                        .openvino_ir = ir,                                       \
                        .openvino_type = ov,                                     \
                        .bytes = size,                                           \
                        .kind = DTYPE_KIND_##type_kind,                          \
                        .exponent_bits = exponent},
    DTYPE_TABLE(X)
#undef X
        [DTYPE_BOOL] = {.name = "bool",
                        .kserve = "BOOL",
                        .npy = "|b1",
                        .openvino_ir = "BOOL",
                        .openvino_type = "boolean",
                        .bytes = 1,
                        .kind = DTYPE_KIND_UNSIGNED},
};

const struct dtype_info *dtype_info(enum dtype dtype)
{
    return &dtype_rows[dtype];
}

bool dtype_is_float(enum dtype dtype)
{
    return dtype_rows[dtype].kind == DTYPE_KIND_FLOAT;
}

bool dtype_widens(enum dtype from, enum dtype to)
{
    const struct dtype_info *narrow = &dtype_rows[from];
    const struct dtype_info *wide = &dtype_rows[to];
    if (from == to || to == DTYPE_BOOL) {
        return from == to;
    }
    if (from == DTYPE_BOOL) {
        return wide->kind != DTYPE_KIND_FLOAT;
    }
    return narrow->bytes < wide->bytes &&
           (narrow->kind == wide->kind ||
            (narrow->kind == DTYPE_KIND_UNSIGNED && wide->kind == DTYPE_KIND_SIGNED));
}

uint64_t dtype_bits(enum dtype dtype, int value)
{
    const struct dtype_info *info = &dtype_rows[dtype];
    const int width = 8 * (int)info->bytes;
    uint64_t bits = (uint64_t)(int64_t)value;
    if (info->kind == DTYPE_KIND_FLOAT) {
        const int fraction = width - 1 - info->exponent_bits;
        const int bias = (1 << (info->exponent_bits - 1)) - 1;
        const uint64_t magnitude = value < 0 ? -bits : bits;
        bits = (uint64_t)(value < 0) << (width - 1);
        if (magnitude != 0) { /* the leading bit is not stored; adding it increments the
                                 exponent */
            const int power = 63 - __builtin_clzll(magnitude);
            bits +=
                ((uint64_t)(bias + power - 1) << fraction) + (magnitude << (fraction - power));
        }
    }
    return width == 64 ? bits : bits & ((UINT64_C(1) << width) - 1);
}

static bool name_is(const char *name, const char *text, size_t length)
{
    return name != NULL && strlen(name) == length && memcmp(name, text, length) == 0;
}

static bool name_is_in_any_case(const char *name, const char *text, size_t length)
{
    return strlen(name) == length && strncasecmp(name, text, length) == 0;
}

static const char *family_name(enum dtype dtype, enum dtype_family family)
{
    const struct dtype_info *info = dtype_info(dtype);
    switch (family) {
    case DTYPE_FAMILY_NAME:
    case DTYPE_FAMILY_SPELLING:
        return info->name;
    case DTYPE_FAMILY_KSERVE:
        return info->kserve;
    case DTYPE_FAMILY_DIRECTML:
        return info->directml;
    case DTYPE_FAMILY_OPENVINO:
        return info->openvino_ir;
    }
    return NULL;
}

/* Return true if the text is a spelling of the type other than its v1 name. */
static bool is_spelling(enum dtype dtype, const char *text, size_t length)
{
    static const struct {
        const char *word;
        enum dtype dtype;
    } words[] = {
        {"half", DTYPE_F16}, {"float", DTYPE_F32}, {"double", DTYPE_F64}, {"?", DTYPE_BOOL}};
    const struct dtype_info *info = &dtype_rows[dtype];
    size_t order = 0; /* bytes of NumPy's byte order mark, little-endian or native */
    while (order < length && (text[order] == '<' || text[order] == '|' || text[order] == '=')) {
        order++;
    }
    const char *code = text + order;
    const size_t bytes = length - order;
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        if (words[i].dtype == dtype && name_is(words[i].word, code, bytes)) {
            return true;
        }
    }
    const bool numpy_differs = info->bytes == 1 && dtype != DTYPE_BOOL; /* i8 has eight bytes */
    return (info->npy != NULL && name_is(info->npy + 1, code, bytes)) ||
           name_is_in_any_case(info->kserve, text, length) ||
           (!numpy_differs && name_is_in_any_case(info->openvino_type, text, length));
}

bool dtype_find(enum dtype_family family, const char *text, size_t length, enum dtype *out)
{
    for (int i = 0; i <= DTYPE_BOOL; i++) {
        const enum dtype dtype = (enum dtype)i;
        if (name_is(family_name(dtype, family), text, length) ||
            (family == DTYPE_FAMILY_OPENVINO &&
             name_is(dtype_rows[i].openvino_type, text, length)) ||
            (family == DTYPE_FAMILY_SPELLING && is_spelling(dtype, text, length))) {
            *out = dtype;
            return true;
        }
    }
    return false;
}

void dtype_list(enum dtype_family family, char *text, size_t size)
{
    (void)snprintf(text, size, "one of");
    for (int i = 0; i <= DTYPE_BOOL; i++) {
        const char *name = family_name((enum dtype)i, family);
        if (name != NULL) {
            text_append(text, size, "%s %s", i > 0 ? "," : "", name);
        }
    }
    if (family == DTYPE_FAMILY_OPENVINO) {
        text_append(text, size, ", or the same as an element type, f16 to u64 and boolean");
    }
    if (family == DTYPE_FAMILY_SPELLING) {
        text_append(text, size, ", or a spelling such as f4, <f4, double, FP32");
    }
}

void dtype_list_wider(enum dtype from, char *text, size_t size)
{
    text[0] = '\0';
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (dtype_widens(from, (enum dtype)i)) {
            text_append(text, size, "%s%s", text[0] != '\0' ? ", " : "", dtype_rows[i].name);
        }
    }
}

/* Return the widest types of the set `types` (bit i: type i): floats, or types that are not
 * floats. */
static unsigned widest_types(unsigned types, bool floats)
{
    size_t bytes = 0;
    unsigned widest = 0;
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        if ((types & 1U << i) == 0 || dtype_is_float((enum dtype)i) != floats) {
            continue;
        }
        if (dtype_rows[i].bytes > bytes) {
            bytes = dtype_rows[i].bytes;
            widest = 1U << i;
        } else if (dtype_rows[i].bytes == bytes) {
            widest |= 1U << i;
        }
    }
    return widest;
}

/* Return the significant bits of a type. A float rounds a whole number that has more. */
static int significant_bits(enum dtype dtype)
{
    const struct dtype_info *info = &dtype_rows[dtype];
    const int width = 8 * (int)info->bytes;
    return info->kind == DTYPE_KIND_UNSIGNED ? width
           : info->kind == DTYPE_KIND_SIGNED ? width - 1
                                             : width - info->exponent_bits;
}

void dtype_takers(enum dtype asked, unsigned takers, char *text, size_t size)
{
    const unsigned integers = dtype_is_float(asked) ? 0 : widest_types(takers, false);
    unsigned left = integers != 0 ? integers : widest_types(takers, true);
    int bits = significant_bits(asked);
    const char *verb = (left & (left - 1)) == 0 ? " takes it" : " take it";
    const char *before = "; ";
    text[0] = '\0';
    for (unsigned i = 0; left != 0 && i < DTYPE_COUNT; i++) {
        if ((left & 1U << i) != 0) {
            left &= ~(1U << i);
            text_append(text, size, "%s%s%s", before, dtype_info((enum dtype)i)->name,
                        left == 0 ? verb : "");
            before = (left & (left - 1)) == 0 ? " and " : ", ";
            const int kept = significant_bits((enum dtype)i);
            bits = kept < bits ? kept : bits;
        }
    }
    if (text[0] != '\0' && !dtype_is_float(asked) && bits < significant_bits(asked)) {
        text_append(text, size, ", with whole numbers beyond 2^%d rounded", bits);
    }
}
