/* The element type table and look-ups in it. */
#include "proto/dtype.h"

#include <stdio.h>
#include <string.h>

static const struct dtype_info dtype_rows[DTYPE_COUNT] = {
#define X(symbol, size, type_kind, v1, oip, model, array, dml, ir, ov) \
    [DTYPE_##symbol] = {.name = v1,                                    \
                        .kserve = oip,                                 \
                        .npy = array,                                  \
                        .directml = dml,                               \
                        .openvino_ir = ir,                             \
                        .openvino_type = ov,                           \
                        .bytes = size,                                 \
                        .kind = DTYPE_KIND_##type_kind},
    DTYPE_TABLE(X)
#undef X
};

const struct dtype_info *dtype_info(enum dtype dtype)
{
    return &dtype_rows[dtype];
}

static bool same(const char *name, const char *text, size_t length)
{
    return name != NULL && strlen(name) == length && memcmp(name, text, length) == 0;
}

static bool row_matches(const struct dtype_info *row, enum dtype_family family,
                        const char *text, size_t length)
{
    switch (family) {
    case DTYPE_FAMILY_NAME:
        return same(row->name, text, length);
    case DTYPE_FAMILY_KSERVE:
        return same(row->kserve, text, length);
    case DTYPE_FAMILY_DIRECTML:
        return same(row->directml, text, length);
    case DTYPE_FAMILY_OPENVINO:
        return same(row->openvino_ir, text, length) || same(row->openvino_type, text, length);
    }
    return false;
}

bool dtype_find(enum dtype_family family, const char *text, size_t length, enum dtype *out)
{
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (row_matches(&dtype_rows[i], family, text, length)) {
            *out = (enum dtype)i;
            return true;
        }
    }
    return false;
}

static const char *family_name(enum dtype dtype, enum dtype_family family)
{
    const struct dtype_info *info = dtype_info(dtype);
    switch (family) {
    case DTYPE_FAMILY_NAME:
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

void dtype_list(enum dtype_family family, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "one of");
    for (int i = 0; i < DTYPE_COUNT && used < size; i++) {
        const char *name = family_name((enum dtype)i, family);
        int n = name == NULL
                    ? 0
                    : snprintf(text + used, size - used, "%s %s", i > 0 ? "," : "", name);
        used += n > 0 ? (size_t)n : 0;
    }
}
