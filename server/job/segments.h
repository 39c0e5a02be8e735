/* A tensor whose axis is cut into segments (the attribute `offsets`) is computed as scans of
 * ordinary shape. Segments of the same length are the lines of one matrix, so kernels need no
 * code for segments:
 *
 *   long     adjacent segments of equal length with at least SEGMENTS_GATHER elements together
 *            are scanned in place, as one matrix in the tensor
 *   short    all other segments of equal length are gathered into one matrix outside the
 *            tensor; the matrix is scanned, and the sums are scattered to the output
 *
 *     tensor    | aa | bbb | cc | dddddddddddd.... | ee | f |
 *     gathered  [ aa  cc  ee ] [ bbb ] [ f ]            and the d are scanned in place
 *
 * All scans of a round (segments_next()) run in one launch (kernels/batch.c). With an initial
 * value every segment is gathered, with the value as an additional first element.
 *
 * Segments are gathered and scattered in steps. Possible failures: OUT_OF_MEMORY; CLIENT_GONE:
 * the work was given up. Thread: the owner of the request. */
#ifndef TALLY_SERVER_SEGMENTS_H
#define TALLY_SERVER_SEGMENTS_H

#include "kernels/device.h"
#include "proto/parallel.h"
#include "proto/scan_call.h"

enum {
    SEGMENTS_GATHER = 512, /* fewest elements of adjacent segments that have their own scan */
    SEGMENTS_LAUNCH = 256  /* maximum number of scans of a launch */
};

struct segments; /* opaque: the scans and their progress */

/* Returns the maximum number of bytes that segments_create() allocates. Requires the plan of
 * the whole tensor, with elements. */
uint64_t segments_memory_bytes(const struct scan_desc *desc, const struct scan_plan *plan);
/* Returns the maximum number of elements that are gathered; UINT64_MAX: their size exceeds
 * INT64_MAX bytes. */
uint64_t segments_gathered_most(const struct scan_desc *desc, const struct scan_plan *plan);

/* Find the scans. Requires valid offsets. `call` and `plan` are borrowed until
 * segments_destroy().
 * err   OUT_OF_MEMORY, CLIENT_GONE */
MUST_CHECK enum status segments_create(const struct scan_call *call,
                                       const struct scan_plan *plan, struct segments **out,
                                       struct error *err);
void segments_destroy(struct segments *segments); /* NULL is fine */

/* Returns the number of elements that are gathered, with the space between matrices. */
uint64_t segments_gathered(const struct segments *segments);

/* segments_gather() copies the short segments of the tensor to their matrices,
 * segments_scatter() copies their sums to the output.
 * err   CLIENT_GONE */
MUST_CHECK enum status segments_gather(const struct segments *segments, const void *input,
                                       void *gathered, struct error *err);
MUST_CHECK enum status segments_scatter(const struct segments *segments, void *gathered,
                                        void *output, struct error *err);

/* Offsets of the tensors and the gathered segments in a slab, in bytes. */
struct segments_place {
    struct slab *slab; /* borrowed */
    size_t in_offset;
    size_t out_offset;
    size_t gathered_offset;
};

/* Get the scans of the next round. A round has at most `most` elements, or one longer scan.
 * out   *jobs      valid until the next call, or segments_destroy()
 *       *elements  sum over all jobs
 * returns the number of jobs; 0 after the last round */
size_t segments_next(struct segments *segments, const struct segments_place *place,
                     uint64_t most, const struct scan_job **jobs, uint64_t *elements);

/* Returns true if segments_next() has returned all scans. */
bool segments_done(const struct segments *segments);

#endif
