/* Lands a request's body: the head aside in memory of its own, the payload in the slab the device
 * will work in, each byte copied once. Bodies of unknown length (chunked, packed) grow by
 * doubling; every byte of memory is reserved from the budget before it is used.
 *
 * A packed body (gzip, deflate) is kept as it came until it has ended: unpacking takes time that
 * the client chooses, up to a thousand bytes for each that was sent, and so is work for the codec
 * pool unless there is little of it.
 *
 * What comes with a request that has no use for a body (GET) takes no memory.
 *
 * Thread: the request's owner. */
#ifndef TALLY_SERVER_BODY_H
#define TALLY_SERVER_BODY_H

#include "server/sched/request.h"

enum {
    BODY_PAGE_BYTES = 1 << 20 /* most of a body that is no tensor's */
};

/* The headers are fine, the codec is known: check the declared length against the limits,
 * reserve and allocate for it, ask the codec what it needs; decode at once if that is nothing.
 * err   TOO_LARGE, OUT_OF_MEMORY, what the codec says */
MUST_CHECK enum status body_begin(struct request *request, struct error *err);

/* Whether the next `count` bytes, as sent, can land without waiting for the system, which may
 * take milliseconds to make the pages of a large block. False: the request is PAUSED, and a
 * thread of the codec pool has those of the next few MiB made. It comes back by its completion
 * list; then ask again. */
MUST_CHECK bool body_has_pages(struct request *request, size_t count);

/* The request's client sends nothing: give back the pages that were made for what has not come.
 * They are not charged. */
void body_forget_pages(struct request *request);

/* The next piece, as sent. */
MUST_CHECK enum status body_feed(struct request *request, const void *bytes, size_t count,
                                 struct error *err);

/* The body has ended: checks that the head is complete. Text bodies are not decoded yet, packed
 * ones not unpacked. */
MUST_CHECK enum status body_finish(struct request *request, struct error *err);

/* A packed body that has ended: lands it as if it had come unpacked, and finishes it; nothing to
 * do for others. Stops with body.inflate still there once `most` bytes have come out: call again
 * for the rest.
 * err   what body_feed() and body_finish() say; INVALID_ENCODING; CLIENT_GONE: given up */
MUST_CHECK enum status body_unpack(struct request *request, uint64_t most, struct error *err);

/* The request ends: free what is kept packed, and release what was reserved for it. */
void body_release(struct request *request);

#endif
