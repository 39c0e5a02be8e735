/* Turns the outcome of an exchange into an HTTP answer: status category to HTTP code, headers,
 * body, with as little copying as MHD lets us. */
#ifndef TALLY_SERVER_RESPOND_H
#define TALLY_SERVER_RESPOND_H

#include "server/http/exchange.h"

/* Queue the answer with MHD. False: it cannot be (out of memory): close the connection. */
MUST_CHECK bool respond(struct exchange *x);

/* Write a refusal straight to the socket while the client is still sending, and close our side
 * of the connection for writing. MHD has sent nothing of this exchange yet, so nothing is mixed
 * up. */
void respond_early(struct exchange *x);

/* The HTTP status of an outcome. Thread: any. */
unsigned respond_http_status(enum status status, const struct route *route);

#endif
