/* The cursor of a large scan. A large tensor is scanned in slices, both while its body arrives
 * (docs/design/decisions/008) and after the body is complete (013), so that it does not occupy
 * a device for long while other requests wait. The cursor is the entry of the tensor in the
 * device queue and describes one slice at a time. So the slices run in order, on any device,
 * and other clients have turns between two slices. A slice of a tensor with segments is a round
 * of scans (segments.h), or a slice of one long scan.
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
 * Rule: the lock of the cursor guards the state. The thread that ends a slice (a device worker, or
 * a thread that removes the entry from the queue) changes the state from IN_FLIGHT. The loop
 * records how many bytes have arrived, and pushes the cursor only if it is PARKED. So each slice is
 * pushed by one thread, and the loop does nothing for a scan whose body is complete.
 *
 * While the body arrives, the loop owns the request, and checks for a failure when bytes arrive
 * (cursor_feed()) and at every heartbeat (cursor_has_failed()). When the body is complete, the
 * cursor owns the request (OWNER_CURSOR) and returns it once, with the sums or an error,
 * through the completion list of its loop. If the request ends while a slice is in flight (the
 * client closed the connection, or the device hangs), the cursor is detached: it keeps the
 * block and the reservation of the request and does not post the request. The thread that ends
 * the slice frees the detached cursor.
 *
 * Possible failures: a slice fails, and its bytes may be partly overwritten; a slice of a
 * complete body cannot be queued. Thread: the loop, unless a comment names another. */
#ifndef TALLY_SERVER_CURSOR_H
#define TALLY_SERVER_CURSOR_H

#include "server/sched/request.h"

struct cursor; /* opaque */

/* Create a cursor if the body is to be scanned while it arrives (--slice-bytes). Requires a
 * decoded and planned request with a block; parts of the block may still be unreserved. If
 * there is no memory for a cursor, the tensor is scanned after its body has arrived. */
void cursor_begin(struct request *request);

/* Scan the payload that has arrived in the block of a request with a cursor. Returns the status
 * of request->error, which is set if a slice has failed (cursor_has_failed()). */
MUST_CHECK enum status cursor_feed(struct request *request);

/* Returns true if the complete and planned request must be scanned in slices. Thread: the owner
 * of the request. */
bool cursor_wanted(const struct request *request);

/* Returns true if the first slice of a part would contain the whole part. Then the request
 * itself describes the scan to device_pool_scan_here(). Thread: the owner of the request. */
bool cursor_is_one_slice(struct request *request);

/* Scan the rest of a complete and valid body. Returns true if the cursor owns the request.
 * Returns false if request.error is set; without an error, false means that the tensor must be
 * scanned as a whole. */
bool cursor_scan(struct request *request);

/* Returns true and sets request.error if the scan of a request has failed and no cursor will
 * return the request. If a device has missed its deadline, the cursor is detached, and the
 * request loses its block. Requires that the loop or the cursor owns the request. */
bool cursor_has_failed(struct request *request);

/* Cancel the slice in flight, because its result is not needed. */
void cursor_cancel(struct request *request);

/* Detach or free the cursor of a request that ends, with its part and segments. Returns false
 * and changes nothing if the cursor has posted the request, because the completion list will
 * still return the request. */
bool cursor_release(struct request *request);

#endif
