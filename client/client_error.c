#include "client/client_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void client_error_reset(struct tally_error *err)
{
    if (err != NULL) {
        memset(err, 0, sizeof *err);
    }
}

enum tally_status client_error_set(struct tally_error *err, enum tally_status status,
                                   const char *format, ...)
{
    if (err == NULL) {
        return status;
    }
    err->status = status;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return status;
}

void client_error_append(struct tally_error *err, const char *format, ...)
{
    if (err == NULL) {
        return;
    }
    size_t used = strlen(err->message);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->message + used, sizeof err->message - used, format, args);
    va_end(args);
}

const char *tally_status_name(enum tally_status status)
{
    static const char *const names[] = {
        [TALLY_OK] = "ok",
        [TALLY_INVALID_ARGUMENT] = "invalid argument",
        [TALLY_OUT_OF_MEMORY] = "out of memory",
        [TALLY_UNSUPPORTED] = "unsupported",
        [TALLY_CONNECT] = "cannot connect",
        [TALLY_CONNECTION_LOST] = "connection lost",
        [TALLY_TIMEOUT] = "timeout",
        [TALLY_REJECTED] = "rejected",
        [TALLY_BUSY] = "busy",
        [TALLY_DEADLINE] = "deadline passed",
        [TALLY_SERVER_ERROR] = "server error",
        [TALLY_BAD_ANSWER] = "bad answer",
        [TALLY_CANCELLED] = "cancelled",
        [TALLY_LOCAL_IO] = "local input or output failed",
    };
    return (size_t)status < ARRAY_COUNT(names) ? names[status] : NULL;
}
