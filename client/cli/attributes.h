/* The attributes of a sum that the command line gives, as libtally takes them: --exclusive, --reverse,
 * --output-dtype, --nan, --initial, --include-initial and --offsets.
 *
 * Possible failures: attributes that do not go together, and an initial value that is not a number of
 * the type of the sums, are EXIT_USAGE, in the words of the service. Thread: the main one. */
#ifndef TALLY_CLI_ATTRIBUTES_H
#define TALLY_CLI_ATTRIBUTES_H

#include "client/cli/options.h"

struct attributes {
    struct tally_scan scan; /* the attributes alone; scan.dtype is the type of the elements */
    enum tally_dtype sums;  /* type of the sums */
    uint64_t initial;       /* bits of the initial value, in the type of the sums */
};

/* Read the attributes for elements of this type into *attributes, and check them. The attributes must
 * stay where they are while attributes_scan() is in use. The offsets are not checked against an
 * axis. Returns EXIT_DONE, or EXIT_USAGE after complaining. */
int attributes_read(const struct settings *settings, enum tally_dtype dtype,
                    struct attributes *attributes);

/* Return the number of sums that a line has more than elements. */
uint64_t attributes_extra_sums(const struct attributes *attributes);

/* The scan of a tensor with these attributes. `sizes` must outlive it. */
struct tally_scan attributes_scan(const struct attributes *attributes, int rank,
                                  const int64_t *sizes, int64_t axis);

/* Whether the sums of integers must be float64: the type of the sums is a float type, or the initial
 * value is not an integer. */
bool attributes_need_float(const struct settings *settings);

#endif
