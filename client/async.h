/* Submitted calls of a client (tally_submit()). Thread: any but that of the callbacks. */
#ifndef TALLY_CLIENT_ASYNC_H
#define TALLY_CLIENT_ASYNC_H

struct async;

/* Cancel all submitted calls, run their callbacks, end the thread, and free `async`. NULL is
 * fine. */
void async_close(struct async *async);

#endif
