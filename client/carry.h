/* Checks of carries, which the server sends. docs/carry.md has the layout.
 *
 * Possible failures: carry_check() refuses bytes that are not a carry. Thread: any; no
 * state. */
#ifndef TALLY_CLIENT_CARRY_H
#define TALLY_CLIENT_CARRY_H

#include "client/client_error.h"

#include <stdbool.h>

/* Return the largest number of bytes of a carry with this number of lines; UINT64_MAX on
 * overflow. */
uint64_t carry_bytes_most(enum tally_dtype dtype, uint64_t lines);

/* Check that the bytes are a complete carry in the form of docs/carry.md. Returns TALLY_OK, or
 * `status` with a message. */
enum tally_status carry_check(const struct tally_carry *carry, enum tally_status status,
                              struct tally_error *err);

/* Return whether a checked carry belongs to the end of the tensor of a valid scan: equal type,
 * flags, number of lines and number of elements along the axis. */
bool carry_is_behind(const struct tally_carry *carry, const struct tally_scan *scan,
                     uint64_t lines);

#endif
