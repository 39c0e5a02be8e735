/* Errors of libtally: a status and a sentence, in the caller's struct tally_error. */
#include "client/client_error.h"

#include "proto/macros.h"
#include "proto/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

void client_error_reset(struct tally_error *err)
{
    if (err != NULL) {
        memset(err, 0, sizeof *err);
    }
}

__attribute__((format(printf, 3, 0))) static void
record(struct tally_error *err, enum tally_status status, const char *format, va_list args)
{
    if (err != NULL) {
        err->status = status;
        (void)vsnprintf(err->message, sizeof err->message, format, args);
        text_make_safe(err->message); /* texts from the network may be in the message */
    }
}

enum tally_status client_error_set(struct tally_error *err, enum tally_status status,
                                   const char *format, ...)
{
    va_list args;
    va_start(args, format);
    record(err, status, format, args);
    va_end(args);
    return status;
}

enum tally_status client_error_blame(struct tally_error *err, const char *field,
                                     const char *format, ...)
{
    va_list args;
    va_start(args, format);
    record(err, TALLY_INVALID_ARGUMENT, format, args);
    va_end(args);
    if (err != NULL) {
        (void)snprintf(err->field, sizeof err->field, "%s", field);
    }
    return TALLY_INVALID_ARGUMENT;
}

enum tally_status client_require(const struct tally *client, struct tally_error *err)
{
    client_error_reset(err);
    return client != NULL ? TALLY_OK
                          : client_error_set(err, TALLY_INVALID_ARGUMENT, "the client is NULL");
}

enum tally_status client_error_no_memory(struct tally_error *err)
{
    return client_error_set(err, TALLY_OUT_OF_MEMORY, "out of memory");
}
