/* The submitting side of a client: one thread that drives any number of submitted calls over a
 * few connections with curl_multi.
 *
 *   tally_submit -> [ waiting ] -> connection free -> [ active ] -> done -> callback
 *                        ^                                |
 *                        +---- [ backing off ] <----------+ 503, connection lost
 *
 * Lists of calls, their connections and the multi handle belong to that thread; `lock` guards
 * what submitters share with it. Failure of the thread's own memory ends in the call's error.
 */
#ifndef TALLY_CLIENT_ASYNC_H
#define TALLY_CLIENT_ASYNC_H

#include "client/client.h"

struct async;

/* Cancel everything, run the callbacks, end the thread. NULL ok. */
void async_close(struct async *async);

#endif
