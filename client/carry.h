/* Carries as libtally sees them: bytes of the server's, checked and added up. docs/carry.md has the
 * layout.
 *
 * Failure: bytes that are no carry are refused with a sentence. Thread: any; pure. */
#ifndef TALLY_CLIENT_CARRY_H
#define TALLY_CLIENT_CARRY_H

#include "client/client_error.h"

#include <stdbool.h>

/* The most bytes that a carry of so many lines has; UINT64_MAX: more than 64 bits count. */
uint64_t carry_bytes_most(enum tally_dtype dtype, uint64_t lines);

/* Check that the bytes are a whole carry in the form of docs/carry.md.
 * status   of the error where they are not */
enum tally_status carry_check(const struct tally_carry *carry, enum tally_status status,
                              struct tally_error *err);

/* Whether the carry, which was checked, is the one behind the tensor of a valid scan, which has so
 * many lines. */
bool carry_is_behind(const struct tally_carry *carry, const struct tally_scan *scan,
                     uint64_t lines);

#endif
