/* A tensor whose axis is cut into segments (the attribute offsets), as scans of ordinary shape. Segments
 * of the same length are the lines of one matrix, so no kernel knows of segments:
 *
 *   long     neighbours of one length, SEGMENTS_GATHER elements or more together, are scanned where
 *            they lie: one matrix of the tensor
 *   short    all others of one length are gathered into one matrix beside the tensor, which is
 *            scanned there, and their sums are scattered to the output
 *
 *     tensor    | aa | bbb | cc | dddddddddddd.... | ee | f |
 *     gathered  [ aa  cc  ee ] [ bbb ] [ f ]            and the d are scanned in place
 *
 * All scans of a round (segments_next()) are one launch: the pieces of one table (kernels/batch.c). With
 * an initial value every segment is gathered, and the value is one element more in front of it.
 *
 * Gathering and scattering are in steps. Possible failures: OUT_OF_MEMORY; CLIENT_GONE: given up by
 * `parallel`. Thread: the owner of the request. */
#ifndef TALLY_SERVER_SEGMENTS_H
#define TALLY_SERVER_SEGMENTS_H

#include "kernels/device.h"
#include "proto/parallel.h"
#include "proto/scan_call.h"

enum {
    SEGMENTS_GATHER = 512, /* elements of neighbours that are worth a scan of their own */
    SEGMENTS_LAUNCH = 256  /* most scans of a launch */
};

struct segments; /* opaque: the scans, and how far they have come */

/* Bytes that segments_create() takes at most, and elements that are gathered at most; UINT64_MAX: more
 * than INT64_MAX. The plan is that of the whole tensor, and has elements. */
uint64_t segments_memory_bytes(const struct scan_desc *desc, const struct scan_plan *plan);
uint64_t segments_gathered_most(const struct scan_desc *desc, const struct scan_plan *plan);

/* Find the scans. The offsets have been checked. `call` and `plan` are borrowed, as long as anything is
 * gathered, scattered or still to be scanned.
 * err   OUT_OF_MEMORY, CLIENT_GONE */
MUST_CHECK enum status segments_create(const struct scan_call *call,
                                       const struct scan_plan *plan, struct segments **out,
                                       struct error *err);
void segments_destroy(struct segments *segments); /* NULL is fine */

/* Elements that are gathered. */
uint64_t segments_gathered(const struct segments *segments);

/* Gather the short segments of the tensor; write their sums to the output.
 * err   CLIENT_GONE */
MUST_CHECK enum status segments_gather(const struct segments *segments, const void *input,
                                       void *gathered, struct error *err);
MUST_CHECK enum status segments_scatter(const struct segments *segments, void *gathered,
                                        void *output, struct error *err);

/* Where tensors and gathered segments are: offsets in bytes. */
struct segments_place {
    struct slab *slab; /* borrowed */
    size_t in_offset;
    size_t out_offset;
    size_t gathered_offset;
};

/* The scans of the next round: `most` elements together, or one scan of more.
 * out   *jobs      valid until the next call, or segments_destroy()
 *       *elements  of all of them
 * returns how many they are; 0 after the last */
size_t segments_next(struct segments *segments, const struct segments_place *place,
                     uint64_t most, const struct scan_job **jobs, uint64_t *elements);

/* Whether the last round is out. */
bool segments_done(const struct segments *segments);

#endif
