/* Scans a large tensor in slices: while its body still arrives (docs/design/decisions/008), and
 * when it is complete, so that none holds a device for long while others wait, and none is
 * scanned to its end for a client that has left.
 *
 *      slab   | computed | with the slice in the queue or on a device | arriving ........... |
 *      owner    nobody     the slice                                    the loop writes here
 *
 * A slice travels as a request of its own, `slice.of` set: queue and worker own it as they own
 * any request, over bytes that the loop does not write any more. One slice of a
 * request is out at a time, so that they run in order, on whatever devices; when it comes back
 * what arrived meanwhile is the next one, but no more than a device has done in SLICE_MS. When
 * the body is complete and was found right the rest goes out one slice after the other
 * (OWNER_SLICES); when the last is back the request is through.
 *
 * Of a tensor with segments a slice is a round of their scans (segments.h), or a slice of one that is
 * too long for a round.
 *
 * A slice that cannot be queued is no error before that: its bytes wait for the next one. One
 * that fails ends the request: its bytes may be overwritten. A request that ends while its
 * slice is out (the client left, a deadline passed, the device hangs) leaves block and
 * reservation to the slice; they are given back when that comes home.
 *
 * Thread: the loop, all functions. (Where a packed body is unpacked, begin and feed do
 * nothing.) */
#ifndef TALLY_SERVER_SLICES_H
#define TALLY_SERVER_SLICES_H

#include "server/sched/request.h"

struct slices; /* opaque: the slice of a request and how far it has come */

/* The request is decoded, planned and has its block, perhaps only a part of it yet: see whether
 * its body is to be scanned in slices (--slice-bytes), once the block is whole. Without memory
 * for it, it is not. */
void slices_begin(struct request *request);

/* More payload is in the block. */
void slices_feed(struct request *request);

/* The request is complete and planned: is it to be scanned in slices from now on? Thread: any
 * that owns the request. */
bool slices_wanted(const struct request *request);

/* Get ready for that, for slices_end(). False: it is scanned whole, for want of memory; a part,
 * which goes by slices alone (part.h), is not scanned, and request.error says why. */
bool slices_start(struct request *request);

/* The body is complete and right. True: a slice is out, suspend; false: request.error says why
 * it cannot be queued. Only if slices_start() says so. */
bool slices_end(struct request *request);

/* A slice came back.
 * returns its request if that is the loop's and something is to be done: it is through, or has
 * lost its slice, of which its error says why; else NULL */
struct request *slices_take_back(struct request *slice);

/* Whether the slice that came back last was lost; then the request's error says why. */
bool slices_lost(struct request *request);

/* Nobody waits for the request's result any more: cancel the slice that is out. */
void slices_cancel(struct request *request);

/* Give the request up if the device that has its slice gives no answer. True: it did,
 * request.error says so, and the block is gone. */
bool slices_give_up(struct request *request);

/* The request ends. */
void slices_release(struct request *request);

#endif
