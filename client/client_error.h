/* Errors of libtally. Every function that can fail returns an enum tally_status and fills the
 * caller's struct tally_error, which may be NULL everywhere. Thread: any. */
#ifndef TALLY_CLIENT_CLIENT_ERROR_H
#define TALLY_CLIENT_CLIENT_ERROR_H

#include "client/tally.h"
#include "proto/macros.h"

/* Clear the error of an earlier call. */
void client_error_reset(struct tally_error *err);

/* Clear the error of an earlier call, and refuse a client that is NULL. Exported functions
 * begin with this check. */
enum tally_status client_require(const struct tally *client, struct tally_error *err);

/* Set the status and the message, one sentence. Returns the status, for `return
 * client_error_set(...)`. */
enum tally_status client_error_set(struct tally_error *err, enum tally_status status,
                                   const char *format, ...) PRINTF_LIKE(3, 4);

/* Set the status TALLY_INVALID_ARGUMENT, the message, and the name of the wrong field. Returns
 * the status. */
enum tally_status client_error_blame(struct tally_error *err, const char *field,
                                     const char *format, ...) PRINTF_LIKE(3, 4);

/* Set the status TALLY_OUT_OF_MEMORY and a message. Returns the status. */
enum tally_status client_error_no_memory(struct tally_error *err);

/* Call a function that returns a status. The calling function returns a status other than
 * TALLY_OK. */
#define CLIENT_TRY(call)                        \
    do {                                        \
        enum tally_status call_status = (call); \
        if (call_status != TALLY_OK)            \
            return call_status;                 \
    } while (0)

#endif
