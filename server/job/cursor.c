/* The record of a scan in slices: its entry in the queue, and its progress; see cursor.h. */
#include "server/job/cursor.h"

#include "kernels/device.h"
#include "kernels/split.h"
#include "proto/elements.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/metrics.h"
#include "server/base/thread.h"
#include "server/job/infer_memory.h"
#include "server/job/infer_shm.h"
#include "server/job/part.h"
#include "server/job/segments.h"
#include "server/sched/client.h"
#include "server/sched/completion.h"
#include "server/sched/queue.h"
#include "server/sched/server.h"

#include <assert.h>
#include <stdlib.h>

enum {
    CARRY_BYTES = 1 << 20, /* maximum number of bytes of the carries between slices */
    FIRST_SLICES = 4,      /* maximum size of the first slice, as a multiple of --slice-bytes */
    /* a complete tensor gets a cursor if its scan may take LONG_SLICES * SLICE_MS, for the data
     * that take longest, or if it has at least WHOLE_SLICES times --slice-bytes */
    LONG_SLICES = 6,
    WHOLE_SLICES = 8,
    SLICE_MS = 5,          /* target device time of a slice */
    TURNED_MS = 40,        /* maximum device time of a slice, for the data that take longest */
    LEAST_ROUND = 1 << 16, /* smallest limit of the elements in a round of segments */
    GROWTH = 4             /* maximum factor from the size of one slice to that of the next */
};

enum cursor_state {
    CURSOR_PARKED,
    CURSOR_IN_FLIGHT, /* the slice is in the queue or on a device */
    CURSOR_OVER       /* all slices are computed, or slice.error is set */
};

struct cursor {
    struct request slice; /* entry of the queue; the queue and workers own it while IN_FLIGHT */
    pthread_mutex_t lock; /* guards all fields below; taken before the lock of the queue */
    enum cursor_state state;
    bool begun; /* a slice was pushed; the loop pushes the first slice */
    bool kept;  /* the worker that ended the last slice owns the next one */
    /* during advance_cursor(): options of the worker that has ended a slice; else NULL */
    const struct queue_batching *worker;
    /* Borrowed: the request of the tensor. NULL: the cursor is detached. A detached cursor owns
     * `block`, slice.scan.part, slice.scan.segments and slice.memory.reserved_bytes, which
     * belonged to the request. */
    struct request *whole;
    struct memory_block block;
    /* slices of a tensor or of a long segment; plan NULL: the slice is a round */
    struct scan_slicing slicing;
    const struct scan_job *jobs;  /* scans of the round; borrowed from the segments */
    size_t job_count;             /* number of jobs; 0: the request has no segments */
    uint64_t round_elements;      /* elements in all scans of the current round */
    uint64_t most_elements;       /* limit of the elements of the next slice, at least a step */
    uint64_t arrived_bytes;       /* bytes of payload that have arrived */
    uint64_t steps_done;          /* number of computed steps of `slicing` */
    uint64_t slice_steps;         /* number of steps of the slice in flight */
    uint64_t queue_ns;            /* time of all slices in the queue */
    uint64_t compute_ns;          /* time of all slices on devices */
    struct metrics_launch launch; /* sums over all slices */
    uint64_t carry[];             /* carry between slices along the axis (struct scan_job) */
};

/* ---- which requests ---- */

/* Returns true if the payload can be scanned as it arrives: no conversion and no move is
 * needed. */
static bool payload_is_input(struct request *request)
{
    const struct scan_call *call = &request->scan.call;
    return call->source == CALL_SOURCE_PAYLOAD && call->payload_offset == 0 &&
           !call->byte_swap && !call->axis_pending && !elements_change(&call->desc) &&
           !infer_shm_used(request) && request->body.inflate == NULL && !request->body.spill &&
           request->memory.block.slab != NULL;
}

/* Returns the bytes of the carries between slices. The result cannot overflow, because a scan
 * has no more lines than bytes. */
static uint64_t carry_bytes(const struct scan_slicing *slicing)
{
    return slicing->blocks > 1 ? slicing->lines * scan_carry_bytes(slicing->plan->dtype) : 0;
}

/* Cut the scan into slices. Returns false if it cannot be cut, or if the carries exceed
 * CARRY_BYTES. */
static bool make_slicing(const struct scan_plan *plan, bool arriving,
                         struct scan_slicing *slicing)
{
    return scan_slicing_make(plan, arriving, slicing) && carry_bytes(slicing) <= CARRY_BYTES;
}

/* Returns true if a complete tensor is long enough for slices and can be cut. */
static bool worth_slicing(const struct request *request, struct scan_slicing *slicing)
{
    uint64_t least = request->server->config->slice_bytes;
    bool long_at_worst =
        scan_plan_slowest_ns(&request->scan.plan) / LONG_SLICES >= SLICE_MS * NS_PER_MS;
    bool long_always = scan_plan_effort(&request->scan.plan) / WHOLE_SLICES >= least;
    return least > 0 && (long_always || long_at_worst) && !infer_shm_used(request) &&
           make_slicing(&request->scan.plan, false, slicing);
}

bool cursor_wanted(const struct request *request)
{
    struct scan_slicing ignored;
    return request->scan.cursor != NULL || part_is_one(request) ||
           request->scan.call.desc.has_offsets || worth_slicing(request, &ignored);
}

/* ---- the size of slices ---- */

/* Returns the number of elements that one thread scans in this time, for the data that take
 * longest (scan_plan_slowest_ns()). */
static uint64_t safe_elements(const struct scan_plan *plan, uint64_t ms)
{
    const uint64_t ns = scan_plan_slowest_ns(plan);
    return ns == 0 ? UINT64_MAX
                   : larger_of(ms * NS_PER_MS / scan_ceil_div(ns, plan->elements), 1);
}

/* Returns the minimum number of elements of a slice. The minimum for a round of segments is
 * LEAST_ROUND. For a tensor the slice has enough steps that their effort (scan_plan_effort())
 * exceeds `slices` times --slice-bytes. */
static uint64_t least_elements(const struct cursor *cursor, uint64_t slices)
{
    const struct scan_slicing *slicing = &cursor->slicing;
    if (slicing->plan == NULL) {
        return LEAST_ROUND;
    }
    const uint64_t effort = slices * cursor->slice.server->config->slice_bytes;
    const uint64_t step = scan_ceil_div(scan_plan_effort(slicing->plan), slicing->steps);
    return (1 + effort / step) * slicing->elements;
}

bool cursor_is_one_slice(struct request *request)
{
    const struct part *part = request->scan.part;
    const struct scan_plan *plan = &request->scan.plan;
    if (scan_plan_effort(plan) > request->server->config->slice_bytes ||
        safe_elements(plan, SLICE_MS) < plan->elements) {
        return false;
    }
    request->slice.job.carry = part->sums;
    request->slice.job.carry_in = part->carries;
    request->slice.job.carry_out = true;
    request->slice.job.totals = request->scan.call.totals;
    return true;
}

/* Begin the next round of segments. Returns false if no round is left. If a scan is too long
 * for a slice, it is cut like a tensor without segments. */
static bool begin_round(struct cursor *cursor)
{
    const struct request *whole = cursor->whole;
    const struct segments_place place = {.slab = whole->memory.block.slab,
                                         .in_offset = whole->memory.in_offset,
                                         .out_offset = whole->memory.out_offset,
                                         .gathered_offset = whole->memory.gathered_offset};
    const uint64_t most = cursor->most_elements;
    if (whole->scan.segments == NULL) {
        return false;
    }
    cursor->steps_done = 0;
    cursor->job_count = segments_next(whole->scan.segments, &place, most, &cursor->jobs,
                                      &cursor->round_elements);
    if (cursor->job_count != 1 || cursor->round_elements <= most ||
        !make_slicing(cursor->jobs->plan, false, &cursor->slicing)) {
        cursor->slicing = (struct scan_slicing){.steps = 1};
    }
    return cursor->job_count > 0;
}

/* ---- pushing a slice; thread: a holder of the lock ---- */

/* Describe the elements and the carry of a slice in the entry of the queue. */
static void describe_slice(struct cursor *cursor, const struct scan_slice *cut)
{
    const struct request *whole = cursor->whole;
    struct request *slice = &cursor->slice;
    const uint64_t bytes = dtype_info(whole->scan.plan.dtype)->bytes;
    struct scan_job *job = &slice->slice.job;
    *job = (struct scan_job){.carry = cut->carries ? cursor->carry : NULL,
                             .carry_in = cut->carries && cut->position > 0,
                             .carry_out = cut->carries && cut->more,
                             .holes = cut->holes};
    if (whole->scan.part != NULL) {
        job->carry = whole->scan.part->sums + cut->line * whole->scan.part->sum_bytes;
        job->carry_in = whole->scan.part->carries || cut->position > 0;
        job->carry_out = true;
        job->totals = whole->scan.call.totals;
    }
    /* true: the slice is part of one long scan of segments, not of the whole tensor */
    const bool one = cursor->job_count == 1;
    const size_t in = one ? cursor->jobs->in_offset : whole->memory.in_offset;
    const size_t out =
        one ? cursor->jobs->out_offset : whole->memory.out_offset + whole->memory.out_first;
    slice->memory.in_offset = in + (size_t)(cut->in_first * bytes);
    slice->memory.out_offset = out + (size_t)(cut->out_first * bytes);
}

/* Describe all scans of a round as one slice. The plan of the slice only states the number of
 * elements. */
static void describe_round(struct cursor *cursor)
{
    const uint64_t elements = cursor->round_elements;
    struct request *slice = &cursor->slice;
    slice->scan.plan = (struct scan_plan){.dtype = cursor->jobs->plan->dtype,
                                          .in_place = true,
                                          .axis = {elements, 1, 1},
                                          .lines = 1,
                                          .elements = elements,
                                          .in_elements = elements,
                                          .out_elements = elements};
    slice->slice.jobs = cursor->jobs;
    slice->slice.job_count = cursor->job_count;
}

/* Hand over the next slice, which contains the steps before `end`. If cursor->worker may keep
 * the slice, it gets the slice and cursor->kept is set; otherwise the queue gets the slice.
 * After success the cursor is IN_FLIGHT. */
static enum status push_slice(struct cursor *cursor, uint64_t end, struct error *err)
{
    const struct request *whole = cursor->whole;
    struct server *server = whole->server;
    struct request *slice = &cursor->slice;
    struct scan_slice cut = {.steps = 1};
    slice->slice.jobs = NULL;
    if (cursor->slicing.plan == NULL) {
        describe_round(cursor);
    } else {
        const uint64_t most = larger_of(cursor->most_elements / cursor->slicing.elements, 1);
        cut = scan_slicing_take(&cursor->slicing, cursor->steps_done,
                                smaller_of(end - cursor->steps_done, most), &slice->scan.plan);
        describe_slice(cursor, &cut);
    }
    slice->slice.last = cursor->steps_done + cut.steps == cursor->slicing.steps &&
                        (whole->scan.segments == NULL || segments_done(whole->scan.segments));
    slice->memory.block = (struct memory_block){
        .slab = whole->memory.block.slab,
        .offset = whole->memory.block.offset,
        .bytes = (size_t)slice->scan.plan.elements * dtype_info(slice->scan.plan.dtype)->bytes};
    atomic_store_explicit(&slice->slice.overdue, false, memory_order_relaxed);
    /* The statistics count the request once, with its last slice. */
    slice->arrival.model = slice->slice.last ? whole->arrival.model : -1;
    slice->scan.retries = 0;
    cursor->kept = cursor->worker != NULL && queue_keep(server->queue, cursor->worker, slice);
    if (!cursor->kept) {
        TRY(queue_push(server->queue, slice, err));
        /* Wake the devices at once, because a slice shares its launch with no other request. */
        queue_wake(server->queue);
    }
    cursor->state = CURSOR_IN_FLIGHT;
    cursor->slice_steps = cut.steps;
    metrics_add(server->metrics, METRICS_COUNTER_SLICES, 1);
    if (!cursor->begun) {
        const bool counts = whole->scan.part == NULL && whole->scan.segments == NULL;
        cursor->begun = true;
        metrics_add(server->metrics, METRICS_COUNTER_SLICED_REQUESTS, counts);
    }
    return STATUS_OK;
}

/* Hand over the next slice of a PARKED cursor, or end the scan. While the body arrives, a slice
 * has at least --slice-bytes, and the last step is not pushed, because the body must be checked
 * first. If the queue refuses a slice while the body arrives, the next slice includes the same
 * bytes. */
static void push_next(struct cursor *cursor)
{
    const struct scan_slicing *slicing = &cursor->slicing;
    struct error ignored = ERROR_INIT;
    if (request_owner(cursor->whole) == OWNER_CURSOR) {
        const bool over = cursor->steps_done == slicing->steps && !begin_round(cursor);
        if (over || push_slice(cursor, slicing->steps, &cursor->slice.error) != STATUS_OK) {
            cursor->state = CURSOR_OVER;
        }
        return;
    }
    const uint64_t step_bytes = slicing->elements * dtype_info(slicing->plan->dtype)->bytes;
    const uint64_t arrived = cursor->arrived_bytes / step_bytes;
    if (arrived < slicing->steps && (arrived - cursor->steps_done) * step_bytes >=
                                        cursor->slice.server->config->slice_bytes) {
        (void)push_slice(cursor, arrived, &ignored);
    }
}

/* ---- ending a slice ---- */

/* Count a slice that was computed. The next slice gets as many elements as this slice would
 * have scanned in SLICE_MS. */
static void account_slice(struct cursor *cursor)
{
    const struct request *slice = &cursor->slice;
    const struct scan_plan *plan = &cursor->whole->scan.plan;
    const uint64_t took_ns = clock_span_ns(slice->times.started, slice->times.computed);
    const double done = (double)slice->scan.plan.elements;
    const double fits = done * (double)(SLICE_MS * NS_PER_MS) / (double)(took_ns + 1);
    const uint64_t next = (uint64_t)(fits < done * GROWTH ? fits : done * GROWTH);
    const uint64_t safe = safe_elements(plan, SLICE_MS);
    cursor->most_elements =
        smaller_of(larger_of(next, smaller_of(safe, least_elements(cursor, 1))),
                   safe_elements(plan, TURNED_MS));
    cursor->steps_done += cursor->slice_steps;
    cursor->queue_ns += clock_span_ns(slice->times.queued, slice->times.started);
    cursor->compute_ns += took_ns;
    cursor->launch.upload_ns += slice->scan.launch.upload_ns;
    cursor->launch.compute_ns += slice->scan.launch.compute_ns;
    cursor->launch.download_ns += slice->scan.launch.download_ns;
}

/* Copy the result of the finished scan to the request. */
static void report_scan(const struct cursor *cursor)
{
    struct request *whole = cursor->whole;
    whole->error = cursor->slice.error;
    whole->scan.launch = cursor->launch;
    whole->scan.device = cursor->slice.scan.device;
    whole->scan.batch = cursor->slice.scan.batch;
    /* Report the times of all slices together, as the times of one scan. */
    if (whole->error.status == STATUS_OK) {
        whole->times.computed = cursor->slice.times.computed;
        whole->times.started = whole->times.computed - cursor->compute_ns;
        whole->times.queued = whole->times.started - cursor->queue_ns;
    }
}

/* No other thread may have a pointer to the cursor. */
static void destroy_cursor(struct cursor *cursor)
{
    if (cursor->whole == NULL) { /* detached */
        struct memory *memory = cursor->slice.server->memory;
        memory_give(memory, &cursor->block);
        part_destroy(cursor->slice.scan.part, memory);
        segments_destroy(cursor->slice.scan.segments);
        memory_release(memory, cursor->slice.memory.reserved_bytes);
    }
    client_release(cursor->slice.arrival.client);
    MUST(pthread_mutex_destroy(&cursor->lock));
    free(cursor);
}

/* Returns true if the finished cursor will post or has posted its request. Thread: a holder of
 * the lock. */
static bool is_posted(const struct cursor *cursor)
{
    return cursor->state == CURSOR_OVER && request_owner(cursor->whole) == OWNER_CURSOR;
}

/* The slice is computed, or slice->error is set: hand over the next slice, or return the
 * request to its loop. Thread: the thread that ended the slice; it holds no lock. */
static bool advance_cursor(struct request *slice, const struct queue_batching *batching)
{
    struct cursor *cursor = (struct cursor *)(void *)slice; /* the slice is the first member */
    MUST(pthread_mutex_lock(&cursor->lock));
    struct request *whole = cursor->whole;
    if (whole == NULL) {
        MUST(pthread_mutex_unlock(&cursor->lock));
        destroy_cursor(cursor);
        return false;
    }
    const bool failed = slice->error.status != STATUS_OK;
    cursor->state = failed ? CURSOR_OVER : CURSOR_PARKED;
    cursor->kept = false;
    if (!failed) {
        account_slice(cursor);
        cursor->worker = batching;
        push_next(cursor);
        cursor->worker = NULL;
    }
    const bool posts = is_posted(cursor);
    const bool kept = cursor->kept;
    if (posts) {
        report_scan(cursor);
    }
    MUST(pthread_mutex_unlock(&cursor->lock));
    if (posts) {
        completion_post(whole->completion, whole);
    }
    return kept;
}

/* ---- the loop ---- */

/* Create request->scan.cursor. slicing: NULL for segments. */
static enum status create_cursor(struct request *request, const struct scan_slicing *slicing,
                                 struct error *err)
{
    size_t carry = 0;
    if (slicing != NULL && !part_is_one(request)) {
        carry = (size_t)carry_bytes(slicing);
    } else if (slicing == NULL &&
               larger_of(request->scan.plan.elements,
                         segments_gathered(request->scan.segments)) > LEAST_ROUND) {
        carry = CARRY_BYTES; /* a round may be one long scan that is cut into slices */
    }
    const size_t bytes = sizeof(struct cursor) + carry;
    TRY(infer_charge(request, bytes, err));
    struct cursor *cursor = calloc(1, bytes);
    if (cursor == NULL) {
        infer_discharge(request, bytes);
        return error_set(
            err, STATUS_OUT_OF_MEMORY,
            "the system has no memory to scan the tensor in slices: try again after "
            "Retry-After seconds, or send less at once");
    }
    cursor->slice = (struct request){.server = request->server,
                                     .arrival.client = request->arrival.client,
                                     .arrival.high = request->arrival.high,
                                     .line.ticket = request->line.ticket,
                                     .arrival.deadline_ns = request->arrival.deadline_ns,
                                     .scan.planned = true,
                                     .scan.alone = true,
                                     .scan.device = -1,
                                     .slice = {.advance = advance_cursor}};
    MUST(pthread_mutex_init(&cursor->lock, NULL));
    client_hold(request->arrival.client);
    cursor->whole = request;
    cursor->slicing = slicing != NULL ? *slicing : (struct scan_slicing){.steps = 1};
    cursor->most_elements = smaller_of(safe_elements(&request->scan.plan, SLICE_MS),
                                       least_elements(cursor, FIRST_SLICES));
    const bool began = slicing != NULL || begin_round(cursor);
    assert(began); /* the tensor has elements, so there is a round */
    request->scan.cursor = cursor;
    return STATUS_OK;
}

void cursor_begin(struct request *request)
{
    struct scan_slicing slicing;
    struct error ignored = ERROR_INIT;
    uint64_t least = request->server->config->slice_bytes;
    uint64_t bytes = request->scan.plan.elements * dtype_info(request->scan.plan.dtype)->bytes;
    if (request->scan.cursor == NULL && !part_is_one(request) &&
        !request->scan.call.desc.has_offsets && least > 0 && bytes / 2 >= least &&
        request->scan.call.payload_max >= bytes && payload_is_input(request) &&
        make_slicing(&request->scan.plan, true, &slicing)) {
        (void)create_cursor(request, &slicing, &ignored);
    }
}

/* Ensure that a complete request has a cursor if it must be scanned in slices. Returns false if
 * it need not, or if request.error is set. */
static bool find_cursor(struct request *request)
{
    struct scan_slicing slicing;
    struct error ignored = ERROR_INIT;
    const bool part = part_is_one(request);
    if (request->scan.cursor != NULL && request->scan.cursor->begun) {
        return true;
    }
    if (part || request->scan.segments != NULL) {
        return create_cursor(request, part ? &request->scan.part->slicing : NULL,
                             &request->error) == STATUS_OK;
    }
    return worth_slicing(request, &slicing) &&
           (request->scan.cursor != NULL ||
            create_cursor(request, &slicing, &ignored) == STATUS_OK);
}

bool cursor_scan(struct request *request)
{
    if (!find_cursor(request)) {
        return false;
    }
    struct cursor *cursor = request->scan.cursor;
    HOLD_LOCK(&cursor->lock);
    request_set_owner(request, OWNER_CURSOR);
    if (cursor->state == CURSOR_PARKED) {
        push_next(cursor);
    }
    if (cursor->state != CURSOR_OVER) {
        return true;
    }
    request_set_owner(request, OWNER_LOOP);
    report_scan(cursor);
    return false;
}

/* ---- ending early ---- */

void cursor_cancel(struct request *request)
{
    if (request->scan.cursor != NULL) {
        atomic_store_explicit(&request->scan.cursor->slice.cancelled, true,
                              memory_order_relaxed);
    }
}

/* Move the memory of the request to the cursor, because a slice is in flight. Thread: the loop,
 * holding the lock. */
static void detach_cursor(struct cursor *cursor)
{
    struct request *whole = cursor->whole;
    atomic_store_explicit(&cursor->slice.cancelled, true, memory_order_relaxed);
    cursor->whole = NULL;
    cursor->block = whole->memory.block;
    cursor->slice.scan.part = whole->scan.part;
    cursor->slice.scan.segments = whole->scan.segments;
    cursor->slice.memory.reserved_bytes = whole->memory.reserved_bytes;
    whole->memory.block = (struct memory_block){.slab = NULL};
    whole->scan.cursor = NULL;
    whole->scan.part = NULL;
    whole->scan.segments = NULL;
    whole->memory.reserved_bytes = 0;
}

/* See cursor_has_failed(). Thread: the loop, holding the lock. */
static bool find_failure(struct cursor *cursor)
{
    struct request *request = cursor->whole;
    const bool overdue =
        cursor->state == CURSOR_IN_FLIGHT &&
        atomic_load_explicit(&cursor->slice.slice.overdue, memory_order_relaxed);
    const bool failed = cursor->state == CURSOR_OVER && !is_posted(cursor);
    if (failed) {
        report_scan(cursor);
    } else if (overdue) {
        (void)error_set(&request->error, STATUS_DEVICE_ERROR,
                        "the device that scans this tensor gives no answer; try again");
        detach_cursor(cursor);
    }
    return failed || overdue;
}

bool cursor_has_failed(struct request *request)
{
    if (request->scan.cursor == NULL) {
        return false;
    }
    HOLD_LOCK(&request->scan.cursor->lock);
    return find_failure(request->scan.cursor);
}

enum status cursor_feed(struct request *request)
{
    struct cursor *cursor = request->scan.cursor;
    HOLD_LOCK(&cursor->lock);
    cursor->arrived_bytes = request->body.payload_received;
    if (cursor->state == CURSOR_PARKED) {
        push_next(cursor);
    } else {
        (void)find_failure(cursor);
    }
    return request->error.status;
}

bool cursor_release(struct request *request)
{
    struct cursor *cursor = request->scan.cursor;
    if (cursor != NULL) {
        HOLD_LOCK(&cursor->lock);
        if (is_posted(cursor)) {
            return false;
        }
        if (cursor->state == CURSOR_IN_FLIGHT) {
            detach_cursor(cursor);
        }
    }
    if (request->scan.cursor != NULL) {
        destroy_cursor(request->scan.cursor);
    }
    if (request->scan.part != NULL) {
        part_destroy(request->scan.part, request->server->memory);
    }
    if (request->scan.segments != NULL) {
        segments_destroy(request->scan.segments);
    }
    request->scan.cursor = NULL;
    request->scan.part = NULL;
    request->scan.segments = NULL;
    return true;
}
