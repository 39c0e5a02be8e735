/* Filling of struct tally_error. err may be NULL everywhere. Thread: any. */
#ifndef TALLY_CLIENT_ERROR_H
#define TALLY_CLIENT_ERROR_H

#include "client/tally.h"
#include "proto/macros.h"

/* Forget what a previous call left. */
void client_error_reset(struct tally_error *err);

/* Record status and sentence, and return the status: `return client_error_set(...)`. */
enum tally_status client_error_set(struct tally_error *err, enum tally_status status,
                                   const char *format, ...) PRINTF_LIKE(3, 4);

/* Append to the sentence. */
void client_error_append(struct tally_error *err, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
