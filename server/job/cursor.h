/* The cursor of a large scan. A large tensor is scanned in slices: while its body still arrives
 * (docs/design/decisions/008), and when the body is complete, so that no slice occupies a device
 * for long while others wait (013). The cursor is the entry of the tensor in the device queue,
 * which describes one slice at a time. So the slices run in order, on any devices, and other
 * clients have turns between them. A slice of a tensor with segments is a round of scans
 * (segments.h), or a slice of one long scan.
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
 * While the body arrives, the loop owns the request, and learns of a failure when bytes arrive
 * (cursor_feed()) and at every heartbeat (cursor_has_failed()). After that the cursor owns the request (OWNER_CURSOR), and returns
 * it once by the completion list of its loop, with the sums or an error. If the request ends while
 * a slice is in flight (the client closed the connection, the device hangs), the cursor is
 * detached: it keeps block and reservation of the request, posts nothing, and is freed by the
 * thread that ends its slice.
 *
 * Possible failures: a slice fails, after which its bytes may be overwritten; a slice of a complete
 * body cannot be queued. Thread: the loop, unless a comment names another. */
#ifndef TALLY_SERVER_CURSOR_H
#define TALLY_SERVER_CURSOR_H

#include "server/sched/request.h"

struct cursor; /* opaque */

/* Create a cursor if the body is to be scanned while it arrives (--slice-bytes). Requires a decoded
 * and planned request with a block; a part of the block need not be reserved yet. Without memory
 * there is no cursor, and the tensor is scanned after its body has arrived. */
void cursor_begin(struct request *request);

/* Scan the payload that has arrived in the block of a request with a cursor. Returns the status of
 * request->error: that of a slice that has failed (cursor_has_failed()). */
MUST_CHECK enum status cursor_feed(struct request *request);

/* Returns true if the complete and planned request is to be scanned in slices. Thread: its
 * owner. */
bool cursor_wanted(const struct request *request);

/* Returns true if the first slice of a part would contain all of it. Then the request itself
 * describes the scan to device_pool_scan_here(). Thread: its owner. */
bool cursor_is_one_slice(struct request *request);

/* Scan the rest of a complete and valid body. Returns true if the cursor owns the request. Returns
 * false if request.error is set, or, without an error, if the tensor is to be scanned whole. */
bool cursor_scan(struct request *request);

/* Returns true, and sets request.error, if the scan of a request has failed and its cursor, if any,
 * will not return the request. If a device has missed its deadline, the cursor is detached, and the request
 * has no block any more. The loop or the cursor owns the request. */
bool cursor_has_failed(struct request *request);

/* Cancel the slice that is in flight: the result is not needed. */
void cursor_cancel(struct request *request);

/* The request ends: detach its cursor, or free it, with part and segments. Returns false, and
 * changes nothing, if the cursor has posted the request: then the completion list still returns
 * it. */
bool cursor_release(struct request *request);

#endif
