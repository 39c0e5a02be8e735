/* A request whose answer is checked, and written where the result goes.
 *
 *   output opened -> sent and answered, the head of the answer checked before its bytes, with
 *   progress -> length and content checked -> put in place
 *
 * Failure: complained about here. An answer that is not the expected one is EXIT_SERVER, an
 * output that cannot be written EXIT_LOCAL, and a failed call as its status says (terminal.h);
 * the output is then as it was. Thread: the main one. */
#ifndef TALLY_CLI_EXCHANGE_H
#define TALLY_CLI_EXCHANGE_H

#include "client/cli/fields.h"
#include "client/cli/format.h"
#include "client/cli/options.h"

/* What the answer must be. */
struct expectation {
    enum format format;
    const char *dtype;          /* NULL: what the answer says; likewise */
    struct number_list shape;   /* with a count of 0 */
    struct number_list strides; /* of raw numbers, where they do not lie packed */
    struct dialect dialect;     /* of text and CSV */
    const char *member;         /* that JSON has */
    bool bare;                  /* of JSON that member alone is written */
    uint64_t most;              /* bytes that the answer to this request can have at most: JSON,
                                   or numbers without a shape here */
};

/* `request` says what is asked, not what becomes of the answer; *err is what went wrong with
 * the call. output NULL: standard output. EXIT_DONE, or the status after complaining. */
int exchange(struct tally *client, struct tally_request request,
             const struct expectation *expected, const char *output, bool quiet,
             struct tally_error *err);

#endif
