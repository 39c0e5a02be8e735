/* Checks of a struct tally_scan: its types, its geometry and its attributes.
 *
 * Possible failures: TALLY_INVALID_ARGUMENT for a wrong scan. Thread: any; no state. */
#ifndef TALLY_CLIENT_SCAN_H
#define TALLY_CLIENT_SCAN_H

#include "client/client_error.h"

#include <stdbool.h>

/* Names of the values of enum tally_nan. */
extern const char *const SCAN_NAN_NAMES[];

/* Check a scan, and copy it to *full. The scan may have the struct_size of an older tally.h.
 * Arrays are not copied. The values of the offsets are not checked. */
enum tally_status scan_read(const struct tally_scan *scan, struct tally_scan *full,
                            struct tally_error *err);

/* The functions below require a scan that scan_read() has checked. */

/* Return the index of the axis, 0..rank-1. */
static inline int64_t scan_axis(const struct tally_scan *scan)
{
    return scan->axis < 0 ? scan->axis + scan->rank : scan->axis;
}

/* Return the type of the sums. */
static inline enum tally_dtype scan_output_dtype(const struct tally_scan *scan)
{
    const bool is_bool = scan->dtype == TALLY_BOOL;
    return scan->has_output_dtype != 0 ? scan->output_dtype
           : is_bool                   ? TALLY_INT64
                                       : scan->dtype;
}

/* Store the sizes of the output. */
void scan_output_sizes(const struct tally_scan *scan, int64_t sizes[TALLY_MAX_RANK]);

/* Check the values of the offsets, and store the sizes of the two buffers in bytes. */
enum tally_status scan_buffers(const struct tally_scan *scan, uint64_t *input_bytes,
                               uint64_t *output_bytes, struct tally_error *err);

/* Return the number of lines: the product of all sizes except that of the axis; UINT64_MAX on
 * overflow. */
uint64_t scan_lines(const struct tally_scan *scan);

/* Refuse a scan with offsets, for totals and sums in parts. */
enum tally_status scan_refuse_offsets(const struct tally_scan *scan, struct tally_error *err);

/* Return whether two byte ranges may be an input and an output: they must begin at the same
 * address or be disjoint. Sets *in_place to whether they overlap. */
bool ranges_allowed(const void *input, uint64_t input_bytes, const void *output,
                    uint64_t output_bytes, bool *in_place);

#endif
