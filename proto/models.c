/* The table of models: five with different attributes, and one for each element type. */
#include "proto/models.h"

#include <string.h>

/* clang-format off */
static const struct model model_rows[] = {
    /* name                       declared   any   axis in  axis  exclusive reverse */
    {"cumsum",                    DTYPE_F32, true, false,    0,   false,    false},
    {"cumsum_exclusive",          DTYPE_F32, true, false,   -1,   true,     false},
    {"cumsum_reverse",            DTYPE_F32, true, false,   -1,   false,    true},
    {"cumsum_exclusive_reverse",  DTYPE_F32, true, false,   -1,   true,     true},
    {"cumsum_onnx",               DTYPE_F32, true, true,     0,   false,    false},
#define X(symbol, bytes, kind, exponent, name, kserve, model, ...) \
    {"cumsum_" model, DTYPE_##symbol, false, false, -1, false, false},
    DTYPE_TABLE(X)
#undef X
};
/* clang-format on */

size_t model_count(void)
{
    return ARRAY_COUNT(model_rows);
}

const struct model *model_at(size_t index)
{
    return &model_rows[index];
}

const struct model *model_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < ARRAY_COUNT(model_rows); i++) {
        if (strcmp(model_rows[i].name, name) == 0) {
            return &model_rows[i];
        }
    }
    return NULL;
}

size_t model_index(const struct model *model)
{
    return (size_t)(model - model_rows);
}

enum status model_require(const char *name, const char *version, const struct model **out,
                          struct error *err)
{
    const struct model *model = model_find(name);
    if (model == NULL || (version != NULL && strcmp(version, MODEL_VERSION) != 0)) {
        return error_set(err, STATUS_NOT_FOUND,
                         "there is no model \"%.80s\"%s%.20s; GET /v2/models lists the "
                         "models, each has version " MODEL_VERSION,
                         name == NULL ? "" : name, version == NULL ? "" : " version ",
                         version == NULL ? "" : version);
    }
    *out = model;
    return STATUS_OK;
}
