/* One request whose answer is JSON, and is written as the server sent it: a whole request of `tally
 * cumsum`, and `tally devices --json`.
 *
 *   output opened -> request sent -> answer kept in memory, and checked -> result written
 *
 * Possible failures, after a complaint: an unexpected answer is EXIT_SERVER, an output that cannot be
 * written is EXIT_LOCAL, a failed call has the exit status of its error (terminal.h). The output is
 * then unchanged. Thread: the main one. */
#ifndef TALLY_CLI_EXCHANGE_H
#define TALLY_CLI_EXCHANGE_H

#include "client/tally.h"

/* Send `request`, whose callbacks are set here, and write the answer, a JSON object of at most `most`
 * bytes, to `output`; NULL: standard output. Returns EXIT_DONE or an exit status. */
int exchange_json(struct tally *client, struct tally_request request, uint64_t most,
                  const char *output);

#endif
