/* The cursor of a large scan. A large tensor is scanned in slices: while its body still arrives
 * (docs/design/decisions/008), and when the body is complete, so that no slice holds a device for long
 * while others wait (013). The cursor is the entry of the tensor in the device queue, which describes one
 * slice at a time. So the slices run in order, on any devices, and other clients have turns between them.
 * Of a tensor with segments, a slice is a round of scans (segments.h), or a slice of a long one.
 *
 *      slab   | computed | slice in the queue or on a device | arrived | arriving ........... |
 *      writer   nobody     the device                          nobody    the loop
 *
 * | state     | next                                                                                |
 * |-----------|-------------------------------------------------------------------------------------|
 * | PARKED    | IN_FLIGHT: enough has arrived for a slice, or the body is complete                  |
 * | IN_FLIGHT | IN_FLIGHT: the next slice; PARKED: more must arrive; OVER: all is computed, or a    |
 * |           | slice has failed                                                                    |
 *
 * Rule: the lock of the cursor guards the state. The thread that ends a slice (a device worker, or a
 * thread that takes the entry out of the queue) moves the cursor on from IN_FLIGHT. The loop notes how
 * much has arrived, and pushes the cursor only if it is PARKED. So each slice is pushed by one thread, and
 * the loop has no part in a scan whose body is complete.
 *
 * While the body arrives, the loop owns the request, and asks cursor_has_failed() when bytes arrive and at
 * every heartbeat. Then the cursor owns the request (OWNER_CURSOR), and returns it once by the completion
 * list of its loop, with the sums or an error. If the request ends while a slice is in flight (the client
 * has left, the device hangs), the cursor is detached: it keeps block and reservation of the request,
 * posts nothing, and is freed by the thread that ends its slice.
 *
 * Possible failures: those of a slice, whose bytes may be overwritten; and of a slice that cannot be
 * queued, if the body is complete. Thread: the loop, or as said. */
#ifndef TALLY_SERVER_CURSOR_H
#define TALLY_SERVER_CURSOR_H

#include "server/sched/request.h"

struct cursor; /* opaque */

/* Create a cursor if the body is to be scanned while it arrives (--slice-bytes). Requires a decoded and
 * planned request with a block, of which a part may be reserved. Possible failure: no memory; then the
 * tensor is scanned after its body. */
void cursor_begin(struct request *request);

/* More payload is in the block. Does nothing for a request without a cursor. */
void cursor_feed(struct request *request);

/* True if the complete and planned request is to be scanned in slices. Thread: its owner. */
bool cursor_wanted(const struct request *request);

/* The body is complete and valid: scan the rest. True: the cursor owns the request. False: request.error
 * says why; or, without an error, the tensor is to be scanned whole. */
bool cursor_scan(struct request *request);

/* True if the scan of a request that the loop or the cursor owns has failed: request.error says why. If the
 * reason is a device that gives no answer, the cursor is detached, and the request has no block any more.
 * False if the cursor returns the request by itself. */
bool cursor_has_failed(struct request *request);

/* Nobody waits for the result any more: cancel the slice that is in flight. */
void cursor_cancel(struct request *request);

/* The request ends: detach its cursor, or free it, with part and segments. Returns false, and changes
 * nothing, if the cursor has posted the request, which will come back by the completion list. */
bool cursor_release(struct request *request);

#endif
