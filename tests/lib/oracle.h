/* The operator in plain, slow C: every kernel's output is compared with this one, byte for
 * byte. Sums of floats are exact and rounded once, sums of integers wrap. The oracle uses
 * neither plans nor OpenCL. Thread: any. */
#ifndef TALLY_TESTS_LIB_ORACLE_H
#define TALLY_TESTS_LIB_ORACLE_H

#include "proto/scan_desc.h"
#include "tests/lib/exact_oracle.h"

#include <stddef.h>
#include <stdint.h>

/* Scan the whole tensor of desc. Only output cells that belong to elements are written.
 * in    desc must be valid; the buffers must have the size that its strides require
 * note  NaN results are the type's positive quiet NaN without payload */
void oracle_scan(const struct scan_desc *desc, const void *in, void *out);

/* Return the elements that the strides (or the contiguous shape) reach: the minimum size of
 * the buffer. */
uint64_t oracle_in_elements(const struct scan_desc *desc);
uint64_t oracle_out_elements(const struct scan_desc *desc);

#endif
