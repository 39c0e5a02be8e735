/* Which large requests may begin, and with how much memory: a few at a time, whole, in turn by
 * client (fair.h), the others wait outside with their bodies unread. So under overload those
 * that began finish, and what waits costs a connection and nothing else.
 *
 * A request whose tensors and texts need no more than ADMISSION_LARGE_BYTES is small: it never
 * comes here, and takes its memory from the budget as it goes. A part of the budget is kept for
 * such (memory.h). A large one enters when its first bytes of a body have come, or when what a
 * short body asks for is known. It states a claim, the most bytes that it may need, and a cost,
 * which says how long it takes: places and memory go by claims; turns and the time that is foretold
 * go by costs, as bytes of some layouts take a hundred times as long as others. Costs are estimated
 * nanoseconds.
 *
 *   NONE --enter--> WAITING --a place and the memory are there--> ACTIVE --computed--> FINISHED
 *     |                ^  |                                        |  |                   |
 *     |                |  +--cancelled, late: ends with an error   |  +--its client sends |
 *     |                +------- enter, a larger claim -------------+     slowly: ASIDE,   |
 *     |                                                                  hardly: SLOW     |
 *     +<------------------------------- leave --------------------------------------------+
 *
 * ACTIVE holds a place, and a promise of the memory budget (memory_promise()) from which it
 * takes what it uses as the bytes come. A client that stops sending loses both, but not what
 * has arrived: it goes on with what is free. A link of a MiB a second would keep a place for an hour:
 * while a client waits that has none, a body that comes slowly goes on beside the places, with its
 * promise. So does one of each client; of another one, and of a client that has more than its part
 * of the places, it loses both.
 *
 * Who waits to begin may hold memory: what it took as long as it seemed small. So that nobody waits
 * for those who wait behind it, the first begins with what there is if nobody is active and that
 * memory is all that it lacks.
 *
 * Overtaking: while a request lacks memory, requests behind it begin if they fit. Overtaking requests
 * together hold no more than the overtaken request leaves of the budget. So the overtaken request
 * begins as soon as the requests before it have given back enough, and does not wait for memory of
 * requests that overtook it. While the request could not begin without them either, overtaking
 * requests may hold an eighth of the budget if that is more; the request then waits at most for the
 * overtaking requests that are in flight when the others have given back. A request that lacks a
 * place is not overtaken.
 *
 * While a request lacks memory, a body keeps its promise only if it arrives at a rate at which the
 * whole claim arrives within ADMISSION_TURNOVER_S.
 *
 * Place: at most ADMISSION_PLACES, or more of them while their claims together are short: bodies
 * come side by side, while scans have turns of their own (queue.h). A client that holds more than
 * its part of the budget waits while others do.
 *
 * Waiting requests belong to this module (OWNER_ADMISSION); they return to their loop by their
 * completion list, admitted or with an error.
 * Thread: any, all functions. */
#ifndef TALLY_SERVER_ADMISSION_H
#define TALLY_SERVER_ADMISSION_H

#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct admission; /* opaque */
struct client;
struct memory;
struct request;

enum {
    ADMISSION_LARGE_BYTES = 1 << 20,
    ADMISSION_PLACES = 4,
    ADMISSION_SHORT_BYTES = 256 << 20, /* claims that together are short, ... */
    ADMISSION_SHORT_PART = 4,          /* ... if the budget is this many times as large */
    /* Seconds in which a request moves all the memory that it holds while others lack memory */
    ADMISSION_TURNOVER_S = 120
};

/* request->admission.state */
enum admission_state {
    ADMISSION_NONE,
    ADMISSION_WAITING,
    ADMISSION_ACTIVE,
    ADMISSION_ASIDE,   /* admitted, but its client sends slowly and others wait: no place */
    ADMISSION_SLOW,    /* admitted, but its client hardly sends: no place, no promise */
    ADMISSION_FINISHED /* its answer is on the way */
};

/* What a request has of it; guarded by the lock, but for promised_bytes, its owner's. */
struct admission_hold {
    enum admission_state state;
    uint64_t claim;          /* the most bytes it may need, 0: none stated */
    uint64_t cost;           /* estimated nanoseconds (infer_cost_ns()) */
    uint64_t wanted;         /* in the line: the claim it waits for, ... */
    uint64_t wanted_cost;    /* ... its cost then, ... */
    uint64_t held_bytes;     /* ... and what it has of the memory budget meanwhile */
    uint64_t promised_bytes; /* of the memory budget, not taken yet */
    uint64_t overtook; /* number of the shortage of memory in which it began, 0: in none */
};

/* max_waiting   --queue-depth; who has less than its part of these may wait beyond it */
MUST_CHECK enum status admission_create(struct memory *memory, size_t max_waiting,
                                        struct admission **out, struct error *err);
void admission_destroy(struct admission *admission); /* nobody waits; NULL is fine */

/* Before a large request's body is read: could it begin at all, and in time for its deadline?
 * err   TOO_LARGE: more than the budget ever has; QUEUE_FULL: too many wait, or those that wait
 *       take longer than its deadline allows; *wait_ns is when to come again */
MUST_CHECK enum status admission_check(struct admission *admission,
                                       const struct request *request, uint64_t claim,
                                       uint64_t cost, uint64_t *wait_ns, struct error *err);

/* Let the request have `claim` bytes in all, which costs so much in all. Returns true if the request
 * may go on now; false if it waits, owned by this module. A claim beyond the budget is cut
 * to that: what is really needed decides when it is known. */
MUST_CHECK bool admission_enter(struct admission *admission, struct request *request,
                                uint64_t claim, uint64_t cost);

/* What it has claimed turned out to be more than it needs, or to cost less or more. Thread: the
 * request's owner. */
void admission_settle(struct admission *admission, struct request *request, uint64_t claim,
                      uint64_t cost);

/* So much of the request's body came in a heartbeat (HEARTBEAT_MS), all that its client sent.
 * returns true if that is too slow for a place that it has or had, or for its promise */
bool admission_pace(struct admission *admission, struct request *request, uint64_t came);

/* The request is computed and its answer is ready: others may begin. Nothing to do for small
 * ones. */
void admission_finish(struct admission *admission, struct request *request);

/* The request ends, its memory is back. Nothing to do for small ones. */
void admission_leave(struct admission *admission, struct request *request);

/* Memory has come back that was not a large request's: those who wait may look again. Cheap if
 * none does. */
void admission_wake(struct admission *admission);

/* End who is cancelled (CLIENT_GONE) or past its deadline (DEADLINE_PASSED), and see whether
 * somebody can begin. Returns the earliest deadline still waiting, 0 if none. */
uint64_t admission_sweep(struct admission *admission, uint64_t now_ns);

/* End everybody who waits (DRAINING): the loops have stopped. NULL is fine. */
void admission_close(struct admission *admission);

struct admission_stats {
    size_t waiting;
    size_t active;
};
void admission_stats(struct admission *admission, struct admission_stats *out);

#endif
