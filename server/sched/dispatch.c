/* The schedule: an estimate of which worker will take which waiting request. The schedule is
 * computed again for each worker that becomes free; see dispatch.h. */
#include "server/sched/dispatch.h"

#include "kernels/plan.h"
#include "server/base/clock.h"
#include "server/sched/request.h"

enum {
    /* Maximum number of waiting requests that the schedule assigns. A slow device gets none of
     * these requests if it needs more time for one of them than the other devices need for
     * all. */
    LOOK_AHEAD = 64,
    TRIAL_PART = 100
};

/* Age at which the pace of a device that declines requests is out of date. */
#define FRESH_NS (5 * NS_PER_S)

/* ---- workers ---- */

void dispatch_join(struct dispatch *dispatch, struct dispatch_worker *worker, uint64_t now_ns)
{
    if (!worker->joined) {
        LIST_INSERT_HEAD(&dispatch->workers, worker, link);
        worker->joined = true;
    }
    worker->busy = false;
    worker->since_ns = now_ns;
}

void dispatch_leave(struct dispatch_worker *worker)
{
    if (worker->joined) {
        LIST_REMOVE(worker, link);
        worker->joined = false;
    }
}

static bool worker_serves(const struct dispatch_worker *worker, unsigned class)
{
    return (atomic_load(worker->classes) >> class & 1) != 0;
}

static uint64_t worker_batch_ns(const struct dispatch_worker *worker, enum dtype dtype,
                                uint64_t cost_ns)
{
    return pace_batch_ns(&worker->device->pace, pace_kind_of(dtype), cost_ns);
}

static uint64_t request_ns(const struct dispatch_worker *worker, const struct request *request)
{
    return worker_batch_ns(worker, request->scan.plan.dtype, request->line.cost_ns);
}

/* Returns true if `own_ns` is at most `other_ns` within the tolerance. */
static bool is_no_later(uint64_t own_ns, uint64_t other_ns)
{
    return own_ns <= other_ns + other_ns / DISPATCH_TOLERANCE;
}

/* ---- the schedule ---- */

/* Returns the additional time that the worker needs for a request after the requests assigned
 * to it. A request that can share a launch with the last of these saves the fixed time. */
static uint64_t further_ns(const struct dispatch_worker *worker, const struct request *request)
{
    const struct request *before = worker->given;
    const uint64_t whole_ns = request_ns(worker, request);
    if (before == NULL || before->scan.alone || request->scan.alone ||
        !scan_plan_batches_with(&before->scan.plan, &request->scan.plan)) {
        return whole_ns;
    }
    const enum pace_kind kind = pace_kind_of(request->scan.plan.dtype);
    const uint64_t fixed_ns = (uint64_t)pace_fixed_ns(&worker->device->pace, kind);
    return whole_ns - smaller_of(fixed_ns, whole_ns);
}

/* Estimate when the worker can begin its first assigned request. ready_ns: time from which a
 * worker may take the request. */
static void estimate_begin(struct dispatch_worker *worker, uint64_t ready_ns, uint64_t now_ns)
{
    worker->due_ns = worker->busy ? worker->since_ns : larger_of(worker->since_ns, ready_ns);
    worker->begin_ns = worker->due_ns >= now_ns ? worker->due_ns : 2 * now_ns - worker->due_ns;
    worker->end_ns = worker->begin_ns;
}

/* A waiting request, and the free worker that may take it. */
struct candidate {
    const struct dispatch_worker *worker;
    const struct request *request;
    unsigned class;    /* class of the request */
    uint64_t ready_ns; /* time from which a worker may take the request */
    uint64_t now_ns;
};

/* Returns the other worker that would finish a request first; NULL if no other worker serves
 * its class.
 * out   *end_ns: time at which that worker would finish the request */
static struct dispatch_worker *first_other(struct dispatch *dispatch,
                                           const struct candidate *candidate, uint64_t *end_ns)
{
    struct dispatch_worker *first = NULL;
    struct dispatch_worker *other = NULL;
    LIST_FOREACH(other, &dispatch->workers, link)
    {
        if (other == candidate->worker || !worker_serves(other, candidate->class)) {
            continue;
        }
        if (other->given == NULL) {
            estimate_begin(other, candidate->ready_ns, candidate->now_ns);
        }
        const uint64_t ns = other->end_ns + further_ns(other, candidate->request);
        if (first == NULL || ns < *end_ns) {
            first = other;
            *end_ns = ns;
        }
    }
    return first;
}

/* Decide which worker takes the next request of the schedule. Returns true if this worker takes the
 * request. Otherwise the request is assigned to another worker that serves its class, if there
 * is one. */
static bool decide(struct dispatch *dispatch, const struct candidate *candidate,
                   struct dispatch_found *found)
{
    const struct request *request = candidate->request;
    const uint64_t now_ns = candidate->now_ns;
    uint64_t end_ns = 0;
    struct dispatch_worker *other = first_other(dispatch, candidate, &end_ns);
    const bool serves = worker_serves(candidate->worker, candidate->class);
    found->rival = other;
    if (other == NULL) {
        return serves;
    }
    const uint64_t own_ns = request_ns(candidate->worker, request);
    if (serves && is_no_later(own_ns, end_ns - now_ns)) {
        const uint64_t rival_ns = request_ns(other, request);
        found->rival_wait_ns = end_ns - now_ns - smaller_of(rival_ns, end_ns - now_ns);
        return true;
    }
    other->given = request;
    other->end_ns = end_ns;
    if (serves) {
        /* Time from which the other worker is so late that this one takes the request. */
        const uint64_t chain_ns = end_ns - other->begin_ns;
        const uint64_t late_ns = other->due_ns + own_ns - smaller_of(chain_ns, own_ns);
        const uint64_t retry_ns = larger_of(late_ns, now_ns + 1);
        found->retry_ns =
            found->retry_ns == 0 ? retry_ns : smaller_of(found->retry_ns, retry_ns);
        found->idle = found->idle || !other->busy;
    }
    return false;
}

bool dispatch_find(struct dispatch *dispatch, struct line *line, struct dispatch_worker *worker,
                   uint64_t now_ns, uint64_t delay_ns, struct dispatch_found *found)
{
    struct line_cursor cursors[LINE_CLASSES];
    struct dispatch_worker *other = NULL;
    *found = (struct dispatch_found){.rival = NULL};
    LIST_FOREACH(other, &dispatch->workers, link)
    {
        other->given = NULL;
    }
    for (unsigned c = 0; c < LINE_CLASSES; c++) {
        cursors[c] = line_begin(line, c);
    }
    unsigned empty = 0; /* number of consecutive classes without a further request */
    unsigned c = line->turn;
    for (int looked_at = 0; looked_at < LOOK_AHEAD && empty < LINE_CLASSES;
         c = (c + 1) % LINE_CLASSES) {
        const struct request *request = cursors[c].current;
        empty = request == NULL ? empty + 1 : 0;
        if (request == NULL) {
            continue;
        }
        if (request_verdict(request, now_ns) != STATUS_OK) {
            line_drop(&cursors[c], &found->expired);
            continue;
        }
        looked_at++;
        const struct candidate candidate = {.worker = worker,
                                            .request = request,
                                            .class = c,
                                            .ready_ns = request->times.queued + delay_ns,
                                            .now_ns = now_ns};
        if (decide(dispatch, &candidate, found)) {
            found->cursor = cursors[c];
            found->class = c;
            return true;
        }
        line_step(&cursors[c]);
    }
    return false;
}

bool dispatch_keeps(const struct dispatch_worker *worker, const struct dispatch_found *found,
                    enum dtype dtype, uint64_t cost_ns)
{
    return found->rival == NULL ||
           is_no_later(worker_batch_ns(worker, dtype, cost_ns),
                       found->rival_wait_ns + worker_batch_ns(found->rival, dtype, cost_ns));
}

/* ---- after a decision ---- */

void dispatch_taken(struct dispatch *dispatch, struct dispatch_worker *worker,
                    const struct dispatch_found *found, const struct dispatch_batch *batch,
                    uint64_t now_ns)
{
    const struct request *first = batch->first;
    struct dispatch_device *device = worker->device;
    const struct dispatch_worker *rival = found->rival;
    struct dispatch_worker *other = NULL;
    const struct scan_plan *plan = &first->scan.plan;
    struct dispatch_choice choice = {.made = true,
                                     .taken = true,
                                     .dtype = plan->dtype,
                                     .bytes = plan->elements * dtype_info(plan->dtype)->bytes,
                                     .own_ns = request_ns(worker, first)};
    worker->busy = true;
    worker->since_ns = now_ns + worker_batch_ns(worker, choice.dtype, batch->cost_ns);
    if (rival != NULL && rival->device != device) {
        choice.other = rival->device->number;
        choice.other_ns = found->rival_wait_ns + request_ns(rival, first);
        device->choice = choice;
    }
    device->counted = ++dispatch->batches;
    LIST_FOREACH(other, &dispatch->workers, link)
    {
        if (other->device->counted != dispatch->batches && !other->busy &&
            worker_serves(other, found->class) && request_ns(other, first) > choice.own_ns) {
            other->device->counted = dispatch->batches;
            other->device->declined += batch->count;
            other->device->choice = (struct dispatch_choice){.made = true,
                                                             .dtype = choice.dtype,
                                                             .bytes = choice.bytes,
                                                             .own_ns = request_ns(other, first),
                                                             .other_ns = choice.own_ns,
                                                             .other = device->number};
        }
    }
}

bool dispatch_keep(struct dispatch *dispatch, struct dispatch_worker *worker, unsigned class,
                   const struct request *slice, uint64_t now_ns)
{
    struct dispatch_worker *other = NULL;
    LIST_FOREACH(other, &dispatch->workers, link)
    {
        if (worker_serves(other, class) != (other == worker)) {
            return false;
        }
    }
    worker->since_ns = now_ns + request_ns(worker, slice);
    return worker->joined;
}

bool dispatch_trial_due(const struct dispatch_device *device, uint64_t now_ns)
{
    return now_ns - device->measured_ns > larger_of(FRESH_NS, TRIAL_PART * device->trial_ns);
}
