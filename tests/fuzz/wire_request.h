/* Requests of every dialect, format and framing, generated from a few bytes, with the expected
 * answers. Two requests never have the same numbers. Pure, except for the bytes in shared
 * memory.
 *
 * Parameters, each a byte; missing ones are 0:
 *   0 kind   1 type   2-4 shape   5 flags, axis, answer's format   6 framing   7 deadline
 *   8 share that is sent at once   9 edits: below 192 none, 192 one, 193 two ...; then 4 bytes
 *     for each edit */
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

/* Position of the sums in a correct answer. */
enum wire_form {
    WIRE_ANY,    /* not checked */
    WIRE_WHOLE,  /* the body */
    WIRE_TAIL,   /* the end of the body, after a header */
    WIRE_NUMBERS /* JSON numbers of the member "data" */
};

/* An expected answer. */
struct wire_request {
    char id[WIRE_ID_BYTES]; /* X-Request-Id */
    bool head;              /* the answer has no body */
    bool must_work;         /* must be 200 if nothing interferes */
    bool may_time_out;
    bool waits_for_100;
    bool closes; /* the connection closes after the answer */
    enum wire_form form;
    enum dtype dtype;
    unsigned char *sums; /* owned */
    size_t sums_bytes;
};

/* Append a request and describe the expected answer. Returns how many bytes to send at once.
 * *edited is true if bytes were changed; then no particular answer is expected. */
size_t wire_request_make(struct wire_reader params, unsigned client, unsigned number,
                         struct wire_text *out, struct wire_request *request, bool *edited);

#endif
