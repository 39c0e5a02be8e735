/* Submitted calls of a client. Thread: any. */
#ifndef TALLY_CLIENT_ASYNC_H
#define TALLY_CLIENT_ASYNC_H

struct async;

/* Cancel all submitted calls, run their callbacks, and end the thread. NULL is fine. */
void async_close(struct async *async);

#endif
