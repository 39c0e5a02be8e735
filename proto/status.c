/* Texts and categories of the status codes; filling a struct error. */
#include "proto/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *slug;
    enum status_category category;
} status_rows[STATUS_COUNT] = {
#define X(symbol, category, slug) [STATUS_##symbol] = {slug, CATEGORY_##category},
    STATUS_TABLE(X)
#undef X
};

const char *status_slug(enum status status)
{
    return status_rows[status].slug;
}

enum status_category status_category(enum status status)
{
    return status_rows[status].category;
}

enum status(error_set_field)(struct error *err, enum status status, const char *field,
                             const char *format, ...)
{
    if (err == NULL || err->status != STATUS_OK) {
        return status;
    }
    va_list args;
    va_start(args, format);
    err->status = status;
    (void)snprintf(err->field, sizeof err->field, "%s", field);
    (void)vsnprintf(err->detail, sizeof err->detail, format, args);
    va_end(args);
    return status;
}

void error_prefix(struct error *err, const char *context)
{
    if (err == NULL || err->status == STATUS_OK) {
        return;
    }
    char whole[sizeof err->detail];
    if (snprintf(whole, sizeof whole, "%s: %s", context, err->detail) > 0) {
        memcpy(err->detail, whole, sizeof whole);
    }
}
