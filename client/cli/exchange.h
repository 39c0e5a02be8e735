/* One request with a JSON answer that is written unchanged: `tally cumsum` with a JSON object
 * as its input, and `tally devices --json`.
 *
 *   output opened -> request sent -> answer received to memory and checked -> answer written
 *
 * Possible failures, after a complaint: an answer that is not a JSON object is EXIT_SERVER, an
 * output that cannot be written is EXIT_LOCAL, a failed call has the exit status of its error
 * (terminal.h). The output does not change then. Thread: the main one. */
#ifndef TALLY_CLI_EXCHANGE_H
#define TALLY_CLI_EXCHANGE_H

#include "client/tally.h"

/* Send a request, and write the answer, a JSON object of at most `most` bytes, to the file
 * `output`; NULL: standard output. The function sets the callbacks of the request. Returns
 * EXIT_DONE or an exit status. */
int exchange_json(struct tally *client, struct tally_request request, uint64_t most,
                  const char *output);

#endif
