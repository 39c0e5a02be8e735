/* One record per sliced request: the slice, as a request, and what is done. See slices.h. */
#include "server/job/slices.h"

#include "kernels/device.h"
#include "kernels/split.h"
#include "proto/elements.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/metrics.h"
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
    CARRY_BYTES = 1 << 20, /* most, for the sums that slices hand on */
    FIRST_SLICES = 4,      /* --slice-bytes in the first slice, at most */
    LONG_SLICES = 6,       /* in one whose slowest data take long, each of SLICE_MS */
    WHOLE_SLICES = 8,      /* in a complete tensor that is worth slicing: some milliseconds */
    SLICE_MS = 5,          /* that a slice holds a device, about */
    LEAST_ROUND = 1 << 16, /* elements that every round of segments may have */
    TURNED_SLICES = 8, /* of SLICE_MS in one slice, if data turn slow behind ordinary ones */
    GROWTH = 4         /* of a slice to the one before it, at most */
};

struct slices {
    struct request slice;
    struct request *whole;     /* NULL: it ended before its slice came back */
    struct part *part;         /* of the whole; owned where that is NULL. NULL: it is no part */
    struct segments *segments; /* the same; NULL: it has no offsets */
    struct scan_slicing slicing; /* of what is scanned now: of segments, the scans of a round */
    const struct scan_job
        *jobs;        /* of segments; borrowed from them. NULL: there is one scan, ... */
    size_t job_count; /* ... as if there is one of these, which is cut */
    uint64_t round_elements;
    uint64_t most_elements; /* of the next round */
    uint64_t step_bytes;    /* of the output */
    uint64_t step_effort;   /* scan_plan_effort() of a step: slices are measured in it */
    uint64_t safe_steps;    /* in a slice that takes SLICE_MS with the slowest data */
    uint64_t steps_done;    /* computed */
    uint64_t most_steps;    /* of the next slice */
    uint64_t steps_out;     /* of the slice that is out; 0: none is */
    uint64_t next_bytes;    /* payload that makes it worth while to try the queue */
    uint64_t queue_ns;      /* what the slices so far took */
    uint64_t compute_ns;
    struct memory_block block; /* left by a request that ended; held for the slice */
    uint64_t reserved_bytes;
    uint64_t carry[]; /* of slices along the axis: struct scan_job, carry */
};

/* ---- which requests ---- */

/* The payload is the input buffer, byte by byte and in its place for good. */
static bool lands_as_it_is(struct request *request)
{
    const struct scan_call *call = &request->scan.call;
    return call->source == CALL_SOURCE_PAYLOAD && call->payload_offset == 0 &&
           !call->byte_swap && !call->axis_pending && !elements_change(&call->desc) &&
           !infer_shm_used(request) && request->body.inflate == NULL && !request->body.spill &&
           request->memory.block.slab != NULL;
}

static uint64_t tensor_bytes(const struct scan_plan *plan)
{
    return plan->elements * dtype_info(plan->dtype)->bytes;
}

/* Bytes of the sums that slices hand on; a scan has no more lines than bytes. */
static uint64_t carry_bytes(const struct scan_slicing *slicing)
{
    return slicing->blocks > 1 ? slicing->lines * scan_carry_bytes(slicing->plan->dtype) : 0;
}

static bool carry_is_small(const struct scan_slicing *slicing)
{
    return carry_bytes(slicing) <= CARRY_BYTES;
}

/* When it is complete. */
static bool worth_slicing(const struct request *request, struct scan_slicing *slicing)
{
    uint64_t least = request->server->config->slice_bytes;
    bool long_at_worst =
        scan_plan_slowest_ns(&request->scan.plan) / LONG_SLICES >= SLICE_MS * NS_PER_MS;
    bool long_always = scan_plan_effort(&request->scan.plan) / WHOLE_SLICES >= least;
    return least > 0 && (long_always || long_at_worst) && !infer_shm_used(request) &&
           scan_slicing_make(&request->scan.plan, false, slicing) && carry_is_small(slicing);
}

bool slices_wanted(const struct request *request)
{
    struct scan_slicing ignored;
    return part_is_one(request) || request->scan.call.desc.has_offsets ||
           worth_slicing(request, &ignored);
}

/* Steps, one at least, that take one thread no longer with the slowest data. */
static uint64_t steps_in(const struct slices *slices, uint64_t ns)
{
    const struct scan_slicing *slicing = &slices->slicing;
    const uint64_t step_ns = scan_ceil_div(scan_plan_slowest_ns(slicing->plan), slicing->steps);
    return step_ns == 0 ? UINT64_MAX : larger_of(ns / step_ns, 1);
}

/* Begin a run at its first step. */
static void set_slicing(struct slices *slices, const struct scan_slicing *slicing)
{
    const struct config *config = slices->slice.server->config;
    slices->slicing = *slicing;
    slices->steps_done = 0;
    slices->step_bytes = slicing->elements * dtype_info(slicing->plan->dtype)->bytes;
    slices->step_effort = scan_ceil_div(scan_plan_effort(slicing->plan), slicing->steps);
    slices->safe_steps = steps_in(slices, SLICE_MS * NS_PER_MS);
    slices->most_steps = smaller_of(slices->safe_steps, 1 + config->slice_bytes * FIRST_SLICES /
                                                                slices->step_effort);
}

/* Elements that take one thread SLICE_MS with the slowest data. */
static uint64_t safe_elements(const struct scan_plan *plan)
{
    const uint64_t ns = scan_plan_slowest_ns(plan);
    return ns == 0 ? UINT64_MAX
                   : larger_of(SLICE_MS * NS_PER_MS / scan_ceil_div(ns, plan->elements), 1);
}

/* Whether a round may have one scan of more elements than it should have: then that is cut. */
static bool segments_may_be_cut(const struct request *request)
{
    return larger_of(request->scan.plan.elements, segments_gathered(request->scan.segments)) >
           LEAST_ROUND;
}

/* Begin the next round of segments; false: there is none. A scan that is too long for a slice is cut
 * as a tensor without segments is. */
static bool begin_round(struct slices *slices)
{
    const struct request *whole = slices->whole;
    const struct segments_place place = {.slab = whole->memory.block.slab,
                                         .in_offset = whole->memory.in_offset,
                                         .out_offset = whole->memory.out_offset,
                                         .gathered_offset = whole->memory.gathered_offset};
    const uint64_t most = slices->most_elements;
    struct scan_slicing slicing;
    if (slices->segments == NULL) {
        return false;
    }
    slices->job_count =
        segments_next(slices->segments, &place, most, &slices->jobs, &slices->round_elements);
    if (slices->job_count == 1 && slices->round_elements > most &&
        scan_slicing_make(slices->jobs->plan, false, &slicing) && carry_is_small(&slicing)) {
        set_slicing(slices, &slicing);
    } else {
        slices->slicing = (struct scan_slicing){.steps = 1};
        slices->steps_done = 0;
    }
    return slices->job_count > 0;
}

/* slicing: NULL for segments. */
static bool create_slices(struct request *request, const struct scan_slicing *slicing,
                          struct error *err)
{
    size_t carry = 0;
    if (slicing == NULL) {
        carry = segments_may_be_cut(request) ? CARRY_BYTES : 0;
    } else if (!part_is_one(request)) {
        carry = (size_t)carry_bytes(slicing);
    }
    size_t bytes = sizeof(struct slices) + carry;
    if (infer_charge(request, bytes, err) != STATUS_OK) {
        return false;
    }
    struct slices *slices = calloc(1, bytes);
    if (slices == NULL) {
        infer_discharge(request, bytes);
        (void)error_set(
            err, STATUS_OUT_OF_MEMORY,
            "the system has no memory to scan the tensor in slices: try again after "
            "Retry-After seconds, or send less at once");
        return false;
    }
    slices->whole = request;
    slices->part = request->scan.part;
    slices->segments = request->scan.segments;
    slices->slice = (struct request){.completion = request->completion,
                                     .server = request->server,
                                     .arrival.client = request->arrival.client,
                                     .arrival.high = request->arrival.high,
                                     .line.ticket = request->line.ticket,
                                     .arrival.deadline_ns = request->arrival.deadline_ns,
                                     .scan.planned = true,
                                     .scan.alone = true,
                                     .scan.device = -1,
                                     .slice = {.of = slices}};
    client_hold(request->arrival.client);
    request->scan.slices = slices;
    if (slicing != NULL) {
        set_slicing(slices, slicing);
        return true;
    }
    const size_t bytes_each = dtype_info(request->scan.plan.dtype)->bytes;
    const uint64_t first = request->server->config->slice_bytes * FIRST_SLICES / bytes_each;
    slices->most_elements =
        smaller_of(safe_elements(&request->scan.plan), larger_of(first, LEAST_ROUND));
    const bool began = begin_round(slices);
    assert(began); /* there are elements */
    return true;
}

void slices_begin(struct request *request)
{
    struct scan_slicing slicing;
    struct error ignored = ERROR_INIT;
    uint64_t least = request->server->config->slice_bytes;
    uint64_t bytes = tensor_bytes(&request->scan.plan);
    if (request->scan.slices == NULL && !part_is_one(request) &&
        !request->scan.call.desc.has_offsets && least > 0 && bytes / 2 >= least &&
        request->scan.call.payload_max >= bytes && lands_as_it_is(request) &&
        scan_slicing_make(&request->scan.plan, true, &slicing) && carry_is_small(&slicing)) {
        (void)create_slices(request, &slicing, &ignored);
    }
}

/* ---- handing over ---- */

/* Where a slice's cells are, and the sums of its lines. */
static void place_slice(struct slices *slices, const struct scan_slice *cut,
                        struct request *slice)
{
    const struct request *whole = slices->whole;
    const uint64_t bytes = dtype_info(whole->scan.plan.dtype)->bytes;
    struct scan_job *job = &slice->slice.job;
    *job = (struct scan_job){.carry = cut->carries ? slices->carry : NULL,
                             .carry_in = cut->carries && cut->position > 0,
                             .carry_out = cut->carries && cut->more,
                             .holes = cut->holes};
    if (slices->part != NULL) {
        job->carry = slices->part->sums + cut->line * slices->part->sum_bytes;
        job->carry_in = slices->part->carries || cut->position > 0;
        job->carry_out = true;
        job->totals = whole->scan.call.totals;
    }
    const bool one = slices->job_count == 1; /* of segments */
    const size_t in = one ? slices->jobs->in_offset : whole->memory.in_offset;
    const size_t out =
        one ? slices->jobs->out_offset : whole->memory.out_offset + whole->memory.out_first;
    slice->memory.in_offset = in + (size_t)(cut->in_first * bytes);
    slice->memory.out_offset = out + (size_t)(cut->out_first * bytes);
}

/* All scans of a round as one slice, whose plan has as many elements. */
static void place_round(struct slices *slices, struct request *slice)
{
    const uint64_t elements = slices->round_elements;
    slice->scan.plan = (struct scan_plan){.dtype = slices->jobs->plan->dtype,
                                          .in_place = true,
                                          .axis = {elements, 1, 1},
                                          .lines = 1,
                                          .elements = elements,
                                          .in_elements = elements,
                                          .out_elements = elements};
    slice->slice.jobs = slices->jobs;
    slice->slice.job_count = slices->job_count;
}

/* Queue what there is up to step `end`, or the first of it. */
static enum status push_slice(struct slices *slices, uint64_t end, struct error *err)
{
    const struct request *whole = slices->whole;
    struct request *slice = &slices->slice;
    struct scan_slice cut = {.steps = 1};
    slice->slice.jobs = NULL;
    if (slices->slicing.plan == NULL) {
        place_round(slices, slice);
    } else {
        cut = scan_slicing_take(&slices->slicing, slices->steps_done,
                                smaller_of(end - slices->steps_done, slices->most_steps),
                                &slice->scan.plan);
        place_slice(slices, &cut, slice);
    }
    slice->slice.last = slices->steps_done + cut.steps == slices->slicing.steps &&
                        (slices->segments == NULL || segments_done(slices->segments));
    slice->memory.block =
        (struct memory_block){.slab = whole->memory.block.slab,
                              .offset = whole->memory.block.offset,
                              .bytes = (size_t)tensor_bytes(&slice->scan.plan)};
    atomic_store_explicit(&slice->slice.overdue, false, memory_order_relaxed);
    slice->arrival.model = slice->slice.last ? whole->arrival.model : -1; /* counted once */
    slice->scan.retries = 0;
    TRY(queue_push(whole->server->queue, slice, err));
    bool first = slices->steps_done == 0 && slices->part == NULL && slices->segments == NULL;
    queue_wake(whole->server->queue); /* long, and alone: it waits for no peers */
    slices->steps_out = cut.steps;
    slice->completion->expected++;
    metrics_add(whole->server->metrics, METRICS_COUNTER_SLICES, 1);
    metrics_add(whole->server->metrics, METRICS_COUNTER_SLICED_REQUESTS, first);
    return STATUS_OK;
}

void slices_feed(struct request *request)
{
    struct slices *slices = request->scan.slices;
    if (slices == NULL || slices->steps_out > 0) {
        return;
    }
    struct error ignored = ERROR_INIT;
    uint64_t received = request->body.payload_received;
    uint64_t least = request->server->config->slice_bytes;
    uint64_t arrived = received / slices->step_bytes;
    if (received < slices->next_bytes || arrived >= slices->slicing.steps ||
        (arrived - slices->steps_done) * slices->step_bytes < least) {
        return; /* the last slice waits for the verdict on the whole body */
    }
    if (push_slice(slices, arrived, &ignored) != STATUS_OK) {
        slices->next_bytes = received + least;
    }
}

/* Whether any slice was handed over, so that the request must end in slices. */
static bool slices_begun(const struct slices *slices)
{
    return slices != NULL && (slices->steps_out > 0 || slices->steps_done > 0 ||
                              slices->slice.error.status != STATUS_OK);
}

bool slices_start(struct request *request)
{
    struct scan_slicing slicing;
    struct error ignored = ERROR_INIT;
    if (slices_begun(request->scan.slices)) {
        return true;
    }
    if (part_is_one(request)) {
        return create_slices(request, &request->scan.part->slicing, &request->error);
    }
    if (request->scan.segments != NULL) {
        return create_slices(request, NULL, &request->error);
    }
    return worth_slicing(request, &slicing) &&
           (request->scan.slices != NULL || create_slices(request, &slicing, &ignored));
}

bool slices_lost(struct request *request)
{
    const struct slices *slices = request->scan.slices;
    if (slices == NULL || slices->steps_out > 0 || slices->slice.error.status == STATUS_OK) {
        return false;
    }
    request->error = slices->slice.error;
    return true;
}

bool slices_end(struct request *request)
{
    struct slices *slices = request->scan.slices;
    const bool out = slices->steps_out > 0 ||
                     (!slices_lost(request) &&
                      push_slice(slices, slices->slicing.steps, &request->error) == STATUS_OK);
    if (out) { /* a slice returns to this thread, not before */
        request_set_owner(request, OWNER_SLICES);
    }
    return out;
}

/* ---- coming back ---- */

/* How much of what took so long fits into SLICE_MS. */
static uint64_t next_most(uint64_t done, uint64_t took_ns)
{
    const double fits = (double)done * (double)(SLICE_MS * NS_PER_MS) / (double)(took_ns + 1);
    const double most = (double)done * (double)GROWTH;
    return (uint64_t)(fits < most ? fits : most);
}

/* Count a slice that was computed to its request, and choose how much a device gets next. */
static void account_slice(struct slices *slices, uint64_t steps)
{
    struct request *whole = slices->whole;
    const struct request *slice = &slices->slice;
    uint64_t took_ns = clock_span_ns(slice->times.started, slice->times.computed);
    if (slices->slicing.plan == NULL) {
        const uint64_t safe = safe_elements(&whole->scan.plan);
        const uint64_t next = next_most(slices->round_elements, took_ns);
        slices->most_elements =
            smaller_of(larger_of(next, smaller_of(safe, LEAST_ROUND)),
                       safe > UINT64_MAX / TURNED_SLICES ? UINT64_MAX : safe * TURNED_SLICES);
    } else {
        uint64_t least = 1 + slice->server->config->slice_bytes / slices->step_effort;
        least = smaller_of(least, slices->safe_steps);
        slices->most_steps = smaller_of(larger_of(next_most(steps, took_ns), least),
                                        steps_in(slices, SLICE_MS * NS_PER_MS * TURNED_SLICES));
    }
    slices->queue_ns += clock_span_ns(slice->times.queued, slice->times.started);
    slices->compute_ns += took_ns;
    whole->scan.launch.upload_ns += slice->scan.launch.upload_ns;
    whole->scan.launch.compute_ns += slice->scan.launch.compute_ns;
    whole->scan.launch.download_ns += slice->scan.launch.download_ns;
    whole->scan.device = slice->scan.device;
    whole->scan.batch = slice->scan.batch;
}

static void destroy_slices(struct slices *slices)
{
    struct memory *memory = slices->slice.server->memory;
    memory_give(memory, &slices->block);
    part_destroy(slices->part, memory);
    segments_destroy(slices->segments);
    memory_release(memory, slices->reserved_bytes);
    client_release(slices->slice.arrival.client);
    free(slices);
}

/* A slice is back of a request that waits for nothing else: the next one goes out, or the request
 * is through or has failed, and is returned. */
static struct request *push_next_slice(struct slices *slices)
{
    struct request *whole = slices->whole;
    const bool through = slices->steps_done == slices->slicing.steps && !begin_round(slices);
    if (through) {
        /* As if its slices had waited and run one after the other at the end. */
        whole->times.computed = slices->slice.times.computed;
        whole->times.started = whole->times.computed - slices->compute_ns;
        whole->times.queued = whole->times.started - slices->queue_ns;
        return whole;
    }
    if (atomic_load_explicit(&whole->cancelled, memory_order_relaxed)) {
        (void)error_set(&whole->error, STATUS_CLIENT_GONE, "the client closed the connection");
        return whole;
    }
    return push_slice(slices, slices->slicing.steps, &whole->error) == STATUS_OK ? NULL : whole;
}

struct request *slices_take_back(struct request *slice)
{
    struct slices *slices = slice->slice.of;
    struct request *whole = slices->whole;
    uint64_t steps = slices->steps_out;
    slice->completion->expected--;
    slices->steps_out = 0;
    if (whole == NULL) {
        destroy_slices(slices);
        return NULL;
    }
    const bool body = request_state(whole) == REQUEST_BODY;
    const bool waits = request_owner(whole) == OWNER_SLICES;
    const bool ours = waits || (body && !request_is_away(whole));
    if (slice->error.status != STATUS_OK) {
        return ours && slices_lost(whole) ? whole : NULL; /* else it is asked later */
    }
    slices->steps_done += steps;
    account_slice(slices, steps);
    if (waits) {
        return push_next_slice(slices);
    }
    if (body) {
        slices_feed(whole);
    }
    return NULL;
}

/* ---- ending early ---- */

void slices_cancel(struct request *request)
{
    if (request->scan.slices != NULL) {
        atomic_store_explicit(&request->scan.slices->slice.cancelled, true,
                              memory_order_relaxed);
    }
}

void slices_release(struct request *request)
{
    struct slices *slices = request->scan.slices;
    struct part *part = request->scan.part;
    struct segments *segments = request->scan.segments;
    request->scan.slices = NULL;
    request->scan.part = NULL;
    request->scan.segments = NULL;
    if (slices == NULL) {
        part_destroy(part, request->server->memory);
        segments_destroy(segments);
        return;
    }
    slices->part = part;
    slices->segments = segments;
    if (slices->steps_out == 0) {
        destroy_slices(slices);
        return;
    }
    atomic_store_explicit(&slices->slice.cancelled, true, memory_order_relaxed);
    slices->whole = NULL;
    slices->block = request->memory.block;
    slices->reserved_bytes = request->memory.reserved_bytes;
    request->memory.block = (struct memory_block){.slab = NULL};
    request->memory.reserved_bytes = 0;
}

bool slices_give_up(struct request *request)
{
    struct slices *slices = request->scan.slices;
    if (slices == NULL || slices->steps_out == 0 ||
        !atomic_load_explicit(&slices->slice.slice.overdue, memory_order_relaxed)) {
        return false;
    }
    slices_release(request);
    (void)error_set(&request->error, STATUS_DEVICE_ERROR,
                    "the device that scans this tensor gives no answer; try again");
    return true;
}
