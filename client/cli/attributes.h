/* The attributes of a sum, converted from the command line to a struct tally_scan: --exclusive,
 * --reverse, --output-dtype, --nan, --initial, --include-initial and --offsets.
 *
 * Possible failures: attributes that cannot be combined, and an initial value that is not a
 * number of the type of the sums, are EXIT_USAGE, with the message of the service. Thread: the
 * main one. */
#ifndef TALLY_CLI_ATTRIBUTES_H
#define TALLY_CLI_ATTRIBUTES_H

#include "client/cli/options.h"

struct attributes {
    struct tally_scan scan; /* dtype and attributes; rank, sizes and axis are not set */
    enum tally_dtype sums;  /* type of the sums */
    uint64_t initial;       /* initial value, encoded in the type of the sums */
};

/* Read and check the attributes for elements of this type. attributes->scan points into
 * *attributes, which must not be moved. The offsets are not compared to an axis. Returns
 * EXIT_DONE, or EXIT_USAGE after complaining. */
int attributes_read(const struct settings *settings, enum tally_dtype dtype,
                    struct attributes *attributes);

/* Return the number of sums of a line minus the number of its elements: with --include-initial
 * one for each segment, else 0. */
uint64_t attributes_extra_sums(const struct attributes *attributes);

/* Return the scan of a tensor with these attributes. `sizes` must outlive the scan. */
struct tally_scan attributes_scan(const struct attributes *attributes, int rank,
                                  const int64_t *sizes, int64_t axis);

/* Return whether text with integers alone must be read as float64: --output-dtype is a float
 * type, or --initial is not an integer. */
bool attributes_need_float(const struct settings *settings);

#endif
