/* Lands a request's body: the head aside in memory of its own, the payload in the slab the
 * device will work in, each byte copied once. Bodies of unknown length (chunked, packed) grow
 * by doubling; every byte of memory is reserved from the budget before it is used. */
#ifndef TALLY_SERVER_BODY_H
#define TALLY_SERVER_BODY_H

#include "server/http/exchange.h"

/* The headers are fine, the codec is known: check the declared length against the limits,
 * reserve and allocate for it, ask the codec what it needs; decode at once if that is nothing.
 * err   TOO_LARGE, OUT_OF_MEMORY, what the codec says */
MUST_CHECK enum status body_begin(struct exchange *x, struct error *err);

/* The next piece, as sent. */
MUST_CHECK enum status body_feed(struct exchange *x, const void *bytes, size_t count,
                                 struct error *err);

/* The body has ended: checks that the head is complete. Text bodies are not decoded yet, packed
 * ones not unpacked. */
MUST_CHECK enum status body_finish(struct exchange *x, struct error *err);

/* A packed body that has ended: lands it as if it had come unpacked, and finishes it; nothing
 * to do for others. Stops with x->inflate still there once `most` bytes have come out: call
 * again for the rest. Thread: the request's owner. err   what body_feed() and body_finish()
 * say; INVALID_ENCODING; CLIENT_GONE: given up by `parallel` */
MUST_CHECK enum status body_unpack(struct exchange *x, uint64_t most,
                                   const struct parallel *parallel, struct error *err);

/* The text of numbers inside the head has been read and will not be again: give its memory and
 * its part of the budget back before an answer of about its length is printed. Thread: the
 * request's owner. */
void body_forget_text(struct exchange *x, struct json_cut text);

/* Reserve more of the memory budget for this request. Thread: its owner. */
MUST_CHECK enum status body_reserve(struct request *request, uint64_t bytes, struct error *err);

#endif
