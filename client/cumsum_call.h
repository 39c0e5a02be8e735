/* A scan as one request to POST /v1/cumsum, for a whole tensor or for a part. The scan is
 * checked and printed as a query string. The answer must have the type, shape and length of the
 * output.
 *
 * Possible failures: TALLY_INVALID_ARGUMENT for a wrong scan or wrong buffers, before anything
 * is sent; TALLY_BAD_ANSWER for an answer of another type, shape or length. Thread: one at a
 * time. */
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
    const char *dtype;      /* name of the type that the answer must have */
    char shape[SHAPE_TEXT]; /* shape that the answer must have, "3,4" */
    char path[PATH_TEXT];   /* path and query string */
    unsigned char *output;  /* borrowed from the caller */
    uint64_t output_bytes;
    uint64_t lines;      /* number of lines of the tensor */
    uint64_t carry_most; /* largest number of bytes of a carry in the answer */
    /* Submitted calls only: */
    struct call *call; /* owned */
    void *offsets;     /* owned: the copy of scan->offsets that is sent; NULL: no offsets */
    struct tally_done done;
    TAILQ_ENTRY(cumsum_call) link; /* entry in the list of struct async; guarded by its lock */
};

/* Check a scan and its buffers, and fill *cumsum. The scan is copied; the buffers and the
 * offsets are borrowed. `totals`: request only the carry at the end of the tensor; `output` is
 * not used. */
enum tally_status cumsum_call_init(struct cumsum_call *cumsum, const struct tally_scan *given,
                                   bool totals, const void *input, void *output,
                                   struct tally_error *err);

#endif
