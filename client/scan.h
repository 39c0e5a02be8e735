/* A struct tally_scan, checked: its types, its geometry and its attributes.
 *
 * Possible failures: a scan that makes no sense is TALLY_INVALID_ARGUMENT, with the field to blame.
 * Thread: any; pure. */
#ifndef TALLY_CLIENT_SCAN_H
#define TALLY_CLIENT_SCAN_H

#include "client/client_error.h"

#include <stdbool.h>

/* Names of the values of enum tally_nan. */
extern const char *const SCAN_NAN_NAMES[];

/* Check a scan, whose struct_size may be that of an older tally.h, and copy it to *full. The arrays
 * stay the caller's. The values of the offsets are not read. */
enum tally_status scan_read(const struct tally_scan *scan, struct tally_scan *full,
                            struct tally_error *err);

/* The functions below take a scan that scan_read() has checked. */

/* Return the axis counted from the first dimension. */
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

/* Check the values of the offsets, and store the bytes of the two buffers. */
enum tally_status scan_buffers(const struct tally_scan *scan, uint64_t *input_bytes,
                               uint64_t *output_bytes, struct tally_error *err);

/* Return the number of lines: the product of all sizes but that of the axis; UINT64_MAX if the
 * product is larger. */
uint64_t scan_lines(const struct tally_scan *scan);

/* Refuse a scan with offsets, for totals and sums in parts. */
enum tally_status scan_refuse_offsets(const struct tally_scan *scan, struct tally_error *err);

/* Whether two byte ranges may be an input and an output: identical starts (in place) or
 * disjoint. Sets *in_place. */
bool ranges_allowed(const void *input, uint64_t input_bytes, const void *output,
                    uint64_t output_bytes, bool *in_place);

#endif
