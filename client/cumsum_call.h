/* A cumulative sum as one request to POST /v1/cumsum, whole or a part with a carry: the scan is
 * checked and written as a query, and the answer must have the type, shape and length of the output.
 *
 * Possible failures: a scan or buffers that make no sense are TALLY_INVALID_ARGUMENT before
 * anything is sent; an answer of another type, shape or length is TALLY_BAD_ANSWER. Thread: one
 * at a time. */
#ifndef TALLY_CLIENT_CUMSUM_CALL_H
#define TALLY_CLIENT_CUMSUM_CALL_H

#include "client/call.h"
#include "client/scan.h"

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
    uint64_t carry_most; /* largest number of bytes of a carry in the answer */
    /* Submitted calls only: */
    struct call *call; /* owned */
    void *offsets;     /* owned: the copy of scan->offsets that is sent; NULL: there are none */
    struct tally_done done;
    TAILQ_ENTRY(cumsum_call) link; /* in the list of async.c, under its lock */
};

/* Fill *cumsum from a scan, which is copied; the two buffers and the offsets are borrowed. `totals`:
 * request only the carry behind the tensor; the output is not used. */
enum tally_status cumsum_call_init(struct cumsum_call *cumsum, const struct tally_scan *given,
                                   bool totals, const void *input, void *output,
                                   struct tally_error *err);

#endif
