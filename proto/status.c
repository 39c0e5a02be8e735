/* HTTP status and slug of each status code; filling of struct error. */
#include "proto/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *slug;
    int http;
} status_rows[STATUS_COUNT] = {
#define X(symbol, http, slug) [STATUS_##symbol] = {slug, http},
    STATUS_TABLE(X)
#undef X
};

const char *status_slug(enum status status)
{
    return status_rows[status].slug;
}

int status_http(enum status status)
{
    return status_rows[status].http;
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
