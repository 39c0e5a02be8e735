/* Errors of libtally. Every function that can fail returns an enum tally_status and fills the
 * caller's struct tally_error, which may be NULL everywhere. Thread: any. */
#ifndef TALLY_CLIENT_CLIENT_ERROR_H
#define TALLY_CLIENT_CLIENT_ERROR_H

#include "client/tally.h"
#include "proto/macros.h"

/* Clear the error of an earlier call. */
void client_error_reset(struct tally_error *err);

/* Clear the error of an earlier call, and refuse a client that is NULL. Every call begins so. */
enum tally_status client_require(const struct tally *client, struct tally_error *err);

/* Record the status and a sentence. Returns the status, for `return client_error_set(...)`. */
enum tally_status client_error_set(struct tally_error *err, enum tally_status status,
                                   const char *format, ...) PRINTF_LIKE(3, 4);

/* Record TALLY_INVALID_ARGUMENT, a sentence, and the field to blame. Returns the status. */
enum tally_status client_error_blame(struct tally_error *err, const char *field,
                                     const char *format, ...) PRINTF_LIKE(3, 4);

/* Record TALLY_OUT_OF_MEMORY, and return it. */
enum tally_status client_error_no_memory(struct tally_error *err);

/* Make a call that can fail. If the call fails, the calling function returns its status. */
#define CLIENT_TRY(call)                        \
    do {                                        \
        enum tally_status call_status = (call); \
        if (call_status != TALLY_OK)            \
            return call_status;                 \
    } while (0)

#endif
