/* Admission of large requests. Before the body of a large request is read, this module decides
 * when the request begins and how much memory it gets. The rules are in docs/running.md, "Large
 * requests under load".
 *
 *   NONE --enter--> in the line --a place, memory--> ACTIVE --finish--> FINISHED --leave--> NONE
 *
 * A request states a claim (the maximum memory that it may need, in bytes) and a cost (its
 * estimated time, infer_cost_ns()). The request corrects both when more is known. A request
 * that needs no more than ADMISSION_LARGE_BYTES is small: it needs no admission, and a part of
 * the budget is kept for small requests (memory.h).
 *
 * Place: a share of the server's speed. A body slower than ADMISSION_PLACE_RATE uses so little
 * of the speed that it has no place; it gets a place again when it arrives faster. Each of
 * ADMISSION_PLACES clients may have one place, even if another client has ADMISSION_PLACES
 * places. Memory: the claim is promised when the request begins (memory_promise()), and charged
 * as bytes arrive. Overtaking: a request that lacks memory waits for the requests before it,
 * and for the few requests that have overtaken it. Both are limited in number. Deadlock: a
 * request that has begun may need more than its claim, and a waiting request may hold memory
 * that it reserved while it looked small. If all requests that hold memory wait, no request
 * overtakes them, and the first of them continues with the free memory. Possible failure:
 * OUT_OF_MEMORY if the free memory is not enough. Time: the time between two finishes, divided
 * by the cost of the later one, is the factor by which requests are slower than estimated.
 *
 * Waiting requests are owned by this module (OWNER_ADMISSION). They return to their loop by
 * their completion list, admitted or with an error. Thread: any, all functions. */
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
    /* More than ADMISSION_PLACES places exist while the claims of all requests with a place
     * together are at most ADMISSION_SHORT_BYTES and 1/ADMISSION_SHORT_PART of the budget. */
    ADMISSION_SHORT_BYTES = 256 << 20,
    ADMISSION_SHORT_PART = 4,
    ADMISSION_PLACE_RATE = 16 << 20, /* bytes per second of a body that needs a place */
    /* maximum number of seconds in which a body may fill its claim; a slower body loses the
     * promised memory */
    ADMISSION_TURNOVER_S = 120
};

/* request->admission.state */
enum admission_state {
    ADMISSION_NONE,    /* small, or not begun */
    ADMISSION_ACTIVE,  /* begun */
    ADMISSION_FINISHED /* computed; its answer is being sent */
};

/* Part of a request. The admission lock guards all fields except promised_bytes, which the
 * owner of the request alone accesses. The owner may read all fields. */
struct admission_hold {
    enum admission_state state;
    bool has_place;
    bool waits;              /* in the line */
    bool overtook;           /* began although an older request lacked memory */
    uint64_t begun_ns;       /* time when the request began */
    uint64_t claim;          /* maximum bytes of memory that the request may need; 0: none */
    uint64_t cost_ns;        /* estimated time (infer_cost_ns()) */
    uint64_t wanted;         /* claim that the request waits for in the line */
    uint64_t wanted_cost_ns; /* estimated time with the wanted claim */
    uint64_t promised_bytes; /* bytes of the budget that are promised and not yet charged */
};

/* max_waiting: most requests in the line (--queue-depth). If the line is full, a client that
 * has less than its part of the line may still add a request. */
MUST_CHECK enum status admission_create(struct memory *memory, size_t max_waiting,
                                        struct admission **out, struct error *err);
void admission_destroy(struct admission *admission); /* no request waits; NULL is fine */

/* Check, before the body of a large request is read, that the request can begin and meet its
 * deadline. *wait_ns: estimated time until the answer; 0: the request need not wait
 * err   QUEUE_FULL: too many requests wait, or the deadline is earlier than the answer;
 *       DEADLINE_PASSED */
MUST_CHECK enum status admission_check(struct admission *admission,
                                       const struct request *request, uint64_t cost_ns,
                                       uint64_t *wait_ns, struct error *err);

/* Raise the claim of the request to `claim` bytes, and its cost to `cost_ns`. Returns true if
 * the request may continue; false if it waits, owned by this module. A claim beyond the budget
 * is cut to the budget, because a claim is a guess until the request is decoded. */
MUST_CHECK bool admission_enter(struct admission *admission, struct request *request,
                                uint64_t claim, uint64_t cost_ns);

/* Lower the claim, and correct the cost. Thread: the request's owner. */
void admission_update(struct admission *admission, struct request *request, uint64_t claim,
                      uint64_t cost_ns);

/* Report that the client sends the body at `rate` bytes per second. Returns true if the request
 * has given back promised memory. Thread: the request's owner. */
bool admission_pace(struct admission *admission, struct request *request, uint64_t rate);

/* The answer is ready: give back the place and the promised memory that was not charged. No
 * effect on small requests. */
void admission_finish(struct admission *admission, struct request *request);

/* The request has ended and its memory is released: admit waiting requests. Call this for small
 * requests, too, because they release memory. The call is cheap if no request waits. */
void admission_leave(struct admission *admission, struct request *request);

/* End waiting requests that are cancelled (CLIENT_GONE) or past their deadline
 * (DEADLINE_PASSED), and admit others. Returns the earliest deadline of the waiting requests, 0
 * if no request has a deadline. */
uint64_t admission_sweep(struct admission *admission, uint64_t now_ns);

/* End all waiting requests with DRAINING. The loops have stopped. NULL is fine. */
void admission_close(struct admission *admission);

struct admission_stats {
    size_t waiting; /* requests in the line */
    size_t active;  /* requests that are ACTIVE */
};
void admission_stats(struct admission *admission, struct admission_stats *out);

#endif
