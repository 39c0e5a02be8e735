/* Receives the body of a request. The head is stored in a separate buffer, and the payload in
 * the slab in which the device works, so each byte is copied once. The memory for bodies of
 * unknown length (chunked, compressed) grows by doubling. Every byte of memory is reserved from
 * the budget before it is used.
 *
 * A compressed body (gzip, deflate) is buffered until it has ended. The client determines the
 * time of decompression, because each byte sent can produce up to a thousand bytes. So a thread
 * of the work pool decompresses the body, unless the body is short.
 *
 * If a request needs no body (GET), its body is discarded and takes no memory.
 *
 * Thread: the request's owner. */
#ifndef TALLY_SERVER_BODY_H
#define TALLY_SERVER_BODY_H

#include "server/sched/request.h"

enum {
    BODY_PAGE_BYTES = 1 << 20 /* maximum bytes of a body of a request without a tensor */
};

/* Begin to receive a body after the headers are checked and the codec is known. The function
 * checks the declared length against the limits, and asks the codec for the length of the head.
 * If the head has no bytes, the function decodes the request at once.
 * err   TOO_LARGE, OUT_OF_MEMORY, errors of the codec */
MUST_CHECK enum status body_begin(struct request *request, struct error *err);

/* Returns true if the next `count` bytes, as sent, can be stored without page faults; the
 * system may need milliseconds for the pages of a large block. Returns false if a thread of the
 * work pool now owns the request and touches the pages of the next few MiB. When the completion
 * list returns the request, call this function again. */
MUST_CHECK bool body_has_pages(struct request *request, size_t count);

/* Give back the touched pages beyond the reserved part of the block, because the client sends
 * no bytes. These pages were not charged. */
void body_forget_pages(struct request *request);

/* Store the next piece of the body, as sent. The loop calls body_receive(), which first admits
 * the request for the piece. If another thread owns the request after the call, nothing was
 * stored; when the completion list returns the request, the piece must be received again. */
MUST_CHECK enum status body_receive(struct request *request, const void *bytes, size_t count,
                                    struct error *err);
MUST_CHECK enum status body_feed(struct request *request, const void *bytes, size_t count,
                                 struct error *err);

/* The body has ended: check that the head is complete. Text is not decoded yet, and the body of
 * a request with a tensor is not decompressed yet. */
MUST_CHECK enum status body_finish(struct request *request, struct error *err);

/* Decompress a compressed body that has ended, store and finish it; do nothing for other
 * bodies. Stops after `most` decompressed bytes; then body.inflate is not NULL, and the
 * function must be called again.
 * err   errors of body_feed() and body_finish(); INVALID_ENCODING; CLIENT_GONE: the work was
 *       given up */
MUST_CHECK enum status body_unpack(struct request *request, uint64_t most, struct error *err);

/* Free the buffered compressed body of a request that ends, and release the reservation of the
 * body. */
void body_release(struct request *request);

#endif
