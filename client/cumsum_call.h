/* A cumulative sum as one request to POST /v1/cumsum, whole or a part with a carry:
 * the descriptor checked and written as a query, and what lets only its own answer into the
 * output buffer.
 *
 * Failure: a descriptor or buffers that make no sense are TALLY_INVALID_ARGUMENT before
 * anything is sent; an answer of another type, shape or length is TALLY_BAD_ANSWER. Thread: one
 * at a time. */
#ifndef TALLY_CLIENT_CUMSUM_CALL_H
#define TALLY_CLIENT_CUMSUM_CALL_H

#include "client/call.h"

#include <sys/queue.h>

enum {
    SHAPE_TEXT = TALLY_MAX_RANK * 20 + 1, /* "9223372036854775807," per dimension */
    PATH_TEXT = 3 * SHAPE_TEXT + 512
};

struct cumsum_call {
    struct call_spec spec;
    const char *dtype;      /* name of the answer's type */
    char shape[SHAPE_TEXT]; /* of the answer */
    char path[PATH_TEXT];
    unsigned char *output; /* borrowed from the caller */
    uint64_t output_bytes;
    uint64_t lines;      /* of the tensor */
    uint64_t carry_most; /* of a carry in the answer, in bytes */
    /* Submitted calls only: */
    struct call *call; /* owned */
    void *offsets;     /* owned: the copy of scan->offsets that is sent; NULL: there are none */
    struct tally_done done;
    TAILQ_ENTRY(cumsum_call) link; /* shared: the list it is in */
};

/* The axis counted from the first. The scan is valid. */
static inline int64_t scan_axis(const struct tally_scan *scan)
{
    return scan->axis < 0 ? scan->axis + scan->rank : scan->axis;
}

/* Check a scan, whose struct_size may be that of an older tally.h, and copy it to *full: what it
 * points to stays the caller's. The values of its offsets are not read. */
enum tally_status scan_read(const struct tally_scan *scan, struct tally_scan *full,
                            struct tally_error *err);

/* The type of the sums. The scan is valid. */
static inline enum tally_dtype scan_output_dtype(const struct tally_scan *scan)
{
    const bool is_bool = scan->dtype == TALLY_BOOL;
    return scan->has_output_dtype != 0 ? scan->output_dtype
           : is_bool                   ? TALLY_INT64
                                       : scan->dtype;
}

/* Refuse a scan with offsets for totals and sums in parts. */
enum tally_status scan_refuse_offsets(const struct tally_scan *scan, struct tally_error *err);

/* Fill *cumsum; everything but the two buffers and the offsets is copied from the scan: spec.head
 * borrows scan->offsets. `totals`: ask for the carry behind the tensor alone; the output is not used. */
enum tally_status cumsum_call_init(struct cumsum_call *cumsum, const struct tally_scan *given,
                                   bool totals, const void *input, void *output,
                                   struct tally_error *err);

/* Whether two byte ranges may be an input and an output: identical starts (in place) or
 * disjoint. *in_place says which. */
bool ranges_allowed(const void *input, uint64_t input_bytes, const void *output,
                    uint64_t output_bytes, bool *in_place);

#endif
