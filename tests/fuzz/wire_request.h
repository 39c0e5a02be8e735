/* Requests of every dialect, format and framing, made of a few bytes, and what their answers
 * must be. Two requests never carry the same numbers. Pure but for the shared memory's bytes.
 *
 * Parameters, each a byte; those that are missing are 0:
 *   0 kind   1 type   2-4 shape   5 flags, axis, answer's format   6 framing   7 deadline
 *   8 how much of it is sent at once   9 number of edits, from 192 on; then 4 bytes for each */
#ifndef TALLY_TESTS_FUZZ_WIRE_REQUEST_H
#define TALLY_TESTS_FUZZ_WIRE_REQUEST_H

#include "proto/dtype.h"
#include "tests/fuzz/wire_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WIRE_ID_BYTES = 40
};

/* Where the sums are in a right answer. */
enum wire_form {
    WIRE_ANY,    /* not looked at */
    WIRE_WHOLE,  /* the body */
    WIRE_TAIL,   /* the end of the body, behind a header */
    WIRE_NUMBERS /* JSON numbers of the member "data" */
};

/* What was asked. */
struct wire_request {
    char id[WIRE_ID_BYTES]; /* X-Request-Id */
    bool head;              /* the answer has no body */
    bool must_work;         /* 200, if nothing is in its way */
    bool may_time_out;
    bool waits_for_100;
    bool closes; /* the connection */
    enum wire_form form;
    enum dtype dtype;
    unsigned char *sums; /* owned */
    size_t sums_bytes;
};

/* Append the request, and say what its answer is to be. Returns how many of its bytes are to be
 * sent at once; *edited: bytes of it were changed, so that nothing is known of the answer. */
size_t wire_request_make(struct wire_reader params, unsigned client, unsigned number,
                         struct wire_text *out, struct wire_request *request, bool *edited);

#endif
