/* A cumulative sum as one request to POST /v1/cumsum: the descriptor checked and written as a
 * query, and the sink that lets only its own answer into the output buffer. */
#ifndef TALLY_CLIENT_SCAN_CALL_H
#define TALLY_CLIENT_SCAN_CALL_H

#include "client/exchange.h"

enum {
    SHAPE_TEXT = TALLY_MAX_RANK * 20 + 1, /* "9223372036854775807," per dimension */
    PATH_TEXT = 3 * SHAPE_TEXT + 256
};

struct scan_call {
    struct exchange_spec spec;
    enum tally_dtype dtype;
    char shape[SHAPE_TEXT];
    char path[PATH_TEXT];
    unsigned char *output; /* borrowed from the caller */
    uint64_t output_bytes;
    /* Submitted calls only: */
    struct exchange *exchange; /* owned */
    struct tally_done done;
    struct scan_call *next; /* shared: the list it is in */
};

/* Fill *call; everything but the two buffers is copied from the scan. */
enum tally_status scan_call_init(struct scan_call *call, const struct tally_scan *scan,
                                 const void *input, void *output, struct tally_error *err);

/* Whether two byte ranges may be an input and an output: identical starts (in place) or
 * disjoint. *in_place says which. */
bool ranges_allowed(const void *input, uint64_t input_bytes, const void *output,
                    uint64_t output_bytes, bool *in_place);

#endif
