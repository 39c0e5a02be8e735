/* The operator in plain C, as slow as it is plain: what every kernel's output is compared with, byte
 * for byte. Sums of floats are exact and rounded once, sums of integers wrap. It knows nothing of
 * plans or OpenCL.
 * Thread: any. */
#ifndef TALLY_TESTS_LIB_ORACLE_H
#define TALLY_TESTS_LIB_ORACLE_H

#include "proto/scan_desc.h"
#include "tests/lib/exact_oracle.h"

#include <stddef.h>
#include <stdint.h>

/* Scan desc's whole tensor. Only output cells that belong to elements are written.
 * in    desc must be valid; buffers hold what its strides reach
 * note  NaN results are the type's positive quiet NaN without payload */
void oracle_scan(const struct scan_desc *desc, const void *in, void *out);

/* Elements that the strides (or the packed shape) reach: the least size of the buffer. */
uint64_t oracle_in_elements(const struct scan_desc *desc);
uint64_t oracle_out_elements(const struct scan_desc *desc);

#endif
