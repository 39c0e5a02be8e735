/* One request whose answer is checked, and written to the result.
 *
 *   output opened -> request sent -> head of the answer checked -> bytes received, with progress
 *   -> length and content checked -> result finished
 *
 * Possible failures, after a complaint: an unexpected answer is EXIT_SERVER, an output that cannot be
 * written is EXIT_LOCAL, a failed call has the exit status of its error (terminal.h). The output is
 * then unchanged. Thread: the main one. */
#ifndef TALLY_CLI_EXCHANGE_H
#define TALLY_CLI_EXCHANGE_H

#include "client/cli/fields.h"
#include "client/cli/format.h"
#include "client/cli/options.h"

/* The expected answer. */
struct expectation {
    enum format format;
    const char *dtype;          /* NULL: any type */
    struct number_list shape;   /* count 0: any shape */
    struct number_list strides; /* of raw numbers; count 0: packed */
    uint64_t extra;             /* sums that a line has more than elements */
    struct dialect dialect;     /* of text and CSV */
    const char *member;         /* member of a JSON answer, an array */
    bool bare;                  /* only this member of a JSON answer is written */
    uint64_t most; /* largest number of bytes of JSON, or of numbers of any shape */
};

/* Send `request`, whose callbacks are set here, and write the answer to `output`; NULL: standard
 * output. *err is the error of the call. Returns EXIT_DONE or an exit status. */
int exchange(struct tally *client, struct tally_request request,
             const struct expectation *expected, const char *output, bool quiet,
             struct tally_error *err);

#endif
