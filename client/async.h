/* The submitting side of a client: one thread that drives any number of submitted calls over a
 * few connections with curl_multi.
 *
 *   tally_submit -> [ waiting ] -> connection free -> [ active ] -> done -> callback
 *                        ^                                |
 *                        +------ until retry_at_ms -------+ 503, connection lost
 *
 * Failure: what cannot be queued is refused by tally_submit() and its callback never runs. Once
 * queued, a call ends in its callback, whatever happens: the answer, an error, lack of memory,
 * or TALLY_CANCELLED when the client is closed.
 *
 * Thread: the connections and the multi handle belong to the client's own thread,
 * which runs the callbacks; `lock` guards what submitters share with it. */
#ifndef TALLY_CLIENT_ASYNC_H
#define TALLY_CLIENT_ASYNC_H

#include "client/internal.h"

struct async;

/* Cancel everything, run the callbacks, end the thread. NULL ok. */
void async_close(struct async *async);

#endif
