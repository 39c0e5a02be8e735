/* Spans that are not pinned are copied through windows of the device buffer; a window is as
 * large as a stage:
 *
 *     spans    [a----]   [b--------------------]  [c]        host, anywhere
 *     buffer   [a----....b-----------][---------..c]         dots: bytes of no span
 *     windows  [        one          ][     two    ]         copied by one command each
 *
 * The bytes between the spans of a window are copied as well, but never used. A wave with a
 * single window uses the stage of its slot, and the host continues immediately. A larger wave
 * uses all stages alternately, and the host waits for it; no other wave is in flight meanwhile.
 *
 * Possible failures: those of the driver's calls. After a lost device every call fails, and the
 * waits of transfer_abandon() end. */
#include "kernels/transfer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    DIRECT_BYTES = 64 << 10 /* mean size above which one command per span is faster */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void release_event(cl_event *event)
{
    if (*event != NULL) {
        (void)clReleaseEvent(*event);
    }
    *event = NULL;
}

/* ---- life ---- */

static enum status slot_init(const struct opencl *device, struct transfer_slot *slot,
                             struct error *err)
{
    enum status status = STATUS_OK;
    CL_MAKE(status, err, slot->stage_mem, clCreateBuffer, device->context,
            CL_MEM_ALLOC_HOST_PTR, TRANSFER_STAGE_BYTES, NULL);
    TRY(status);
    CL_MAKE(status, err, slot->stage, clEnqueueMapBuffer, device->queue, slot->stage_mem,
            CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, TRANSFER_STAGE_BYTES, 0, NULL, NULL);
    return status;
}

enum status transfer_init(struct transfer *transfer, const struct opencl *device,
                          struct error *err)
{
    transfer->device = device;
    enum status status = opencl_add_queue(device, &transfer->up, err);
    if (status == STATUS_OK) {
        status = opencl_add_queue(device, &transfer->down, err);
    }
    for (size_t i = 0; i < TRANSFER_SLOTS && status == STATUS_OK; i++) {
        status = slot_init(device, &transfer->slots[i], err);
    }
    if (status != STATUS_OK) {
        transfer_deinit(transfer);
    }
    return status;
}

static void phase_clear(struct transfer_phase *phase)
{
    release_event(&phase->first);
    release_event(&phase->last);
}

/* Release the events of the wave. */
static void slot_clear(struct transfer_slot *slot)
{
    phase_clear(&slot->upload);
    phase_clear(&slot->scan);
    phase_clear(&slot->download);
    release_event(&slot->stage_busy);
    slot->staged = NULL;
    slot->overwrites = false;
}

void transfer_deinit(struct transfer *transfer)
{
    for (size_t i = 0; i < TRANSFER_SLOTS; i++) {
        struct transfer_slot *slot = &transfer->slots[i];
        slot_clear(slot);
        if (slot->stage != NULL) {
            cl_command_queue queue = transfer->device->queue;
            (void)clEnqueueUnmapMemObject(queue, slot->stage_mem, slot->stage, 0, NULL, NULL);
            (void)clFinish(queue);
        }
        opencl_release(&slot->stage_mem);
        opencl_release(&slot->buffer.mem);
        free(slot->spans);
    }
    if (transfer->up != NULL) {
        (void)clReleaseCommandQueue(transfer->up);
    }
    if (transfer->down != NULL) {
        (void)clReleaseCommandQueue(transfer->down);
    }
    *transfer = (struct transfer){.device = NULL};
}

/* ---- copies by the host ---- */

/* Copy between a stage and the spans' bytes in the window that begins at `window`. */
static void window_copy(const struct transfer_span *spans, size_t count, uint64_t window,
                        unsigned char *stage, bool up)
{
    const uint64_t window_end = window + TRANSFER_STAGE_BYTES;
    for (size_t i = 0; i < count && spans[i].at < window_end; i++) {
        const struct transfer_span *span = &spans[i];
        const uint64_t from = larger_of(span->at, window);
        const uint64_t to = smaller_of(span->at + span->bytes, window_end);
        if (from < to) {
            unsigned char *host = span->host + (from - span->at);
            unsigned char *staged = stage + (from - window);
            memcpy(up ? staged : host, up ? host : staged, (size_t)(to - from));
        }
    }
}

static uint64_t spans_end(const struct transfer_span *spans, size_t count)
{
    return spans[count - 1].at + spans[count - 1].bytes;
}

static bool fits_stage(const struct transfer_span *spans, size_t count)
{
    return spans_end(spans, count) - spans[0].at <= TRANSFER_STAGE_BYTES;
}

/* One copy between a buffer and the host. */
struct copy {
    cl_mem mem;
    uint64_t at;
    uint64_t bytes;
    unsigned char *host;
    bool up;
};

/* Enqueue a copy. after: an event that the copy waits for; NULL: it waits only for its
 * queue. */
static enum status enqueue_copy(const struct transfer *transfer, const struct copy *copy,
                                cl_event after, cl_event *event, struct error *err)
{
    const cl_uint waits = after != NULL ? 1 : 0;
    const cl_event *list = after != NULL ? &after : NULL;
    const size_t at = (size_t)copy->at;
    const size_t bytes = (size_t)copy->bytes;
    return copy->up ? CL_CALL(err, clEnqueueWriteBuffer, transfer->up, copy->mem, CL_FALSE, at,
                              bytes, copy->host, waits, list, event)
                    : CL_CALL(err, clEnqueueReadBuffer, transfer->down, copy->mem, CL_FALSE, at,
                              bytes, copy->host, waits, list, event);
}

/* Wait until the copy that uses the stage has ended. */
static enum status stage_wait(const struct transfer *transfer, struct transfer_slot *slot,
                              struct error *err)
{
    enum status status = STATUS_OK;
    if (slot->stage_busy != NULL) {
        status = opencl_wait(transfer->device, slot->stage_busy, err);
        release_event(&slot->stage_busy);
    }
    return status;
}

/* Copy spans through all stages, and wait. In a download the host copies a window out of its
 * stage when the stage is needed again, while the next windows are in flight. */
static enum status move_windows(struct transfer *transfer, cl_mem mem,
                                const struct transfer_span *spans, size_t count, bool up,
                                struct error *err)
{
    const uint64_t end = spans_end(spans, count);
    const uint64_t ahead = (uint64_t)TRANSFER_SLOTS * TRANSFER_STAGE_BYTES;
    uint64_t window = spans[0].at;
    for (size_t k = 0; window < end + ahead; k++, window += TRANSFER_STAGE_BYTES) {
        struct transfer_slot *slot = &transfer->slots[k % TRANSFER_SLOTS];
        TRY(stage_wait(transfer, slot, err));
        if (!up && k >= TRANSFER_SLOTS) {
            window_copy(spans, count, window - ahead, slot->stage, false);
        }
        if (window >= end) {
            continue;
        }
        if (up) {
            window_copy(spans, count, window, slot->stage, true);
        }
        const struct copy copy = {mem, window, smaller_of(end - window, TRANSFER_STAGE_BYTES),
                                  slot->stage, up};
        TRY(enqueue_copy(transfer, &copy, NULL, &slot->stage_busy, err));
        (void)clFlush(up ? transfer->up : transfer->down);
    }
    return STATUS_OK;
}

/* ---- copies by the device ---- */

/* Returns true if the device copies each span by a separate command: all spans are pinned and
 * large enough. */
static bool is_direct(const struct transfer_span *spans, size_t count)
{
    uint64_t bytes = 0;
    bool pinned = true;
    for (size_t i = 0; i < count && pinned; i++) {
        pinned = slab_is_pinned(spans[i].slab);
        bytes += spans[i].bytes;
    }
    return pinned && (count == 1 || bytes >= count * DIRECT_BYTES);
}

static enum status copy_direct(const struct transfer *transfer, struct transfer_slot *slot,
                               const struct transfer_span *spans, size_t count, bool up,
                               struct error *err)
{
    struct transfer_phase *phase = up ? &slot->upload : &slot->download;
    for (size_t i = 0; i < count; i++) {
        cl_event *event = i == 0 ? &phase->first : i == count - 1 ? &phase->last : NULL;
        const struct copy copy = {slot->buffer.mem, spans[i].at, spans[i].bytes, spans[i].host,
                                  up};
        TRY(enqueue_copy(transfer, &copy, up || i > 0 ? NULL : slot->scan.first, event, err));
    }
    return STATUS_OK;
}

/* Copy spans that fit into the slot's stage, between the stage and the buffer. */
static enum status copy_staged(const struct transfer *transfer, struct transfer_slot *slot,
                               const struct transfer_span *spans, size_t count, bool up,
                               struct error *err)
{
    const struct copy copy = {slot->buffer.mem, spans[0].at,
                              spans_end(spans, count) - spans[0].at, slot->stage, up};
    return enqueue_copy(transfer, &copy, up ? NULL : slot->scan.first,
                        up ? &slot->upload.first : &slot->download.first, err);
}

/* Return the last command of a phase. */
static cl_event phase_end(const struct transfer_phase *phase)
{
    return phase->last != NULL ? phase->last : phase->first;
}

/* ---- the end of a wave ---- */

/* Returns a time of a command on the device's clock; 0 if the driver does not record it. */
static uint64_t event_ns(cl_event event, cl_profiling_info what)
{
    cl_ulong ns = 0;
    return event != NULL &&
                   clGetEventProfilingInfo(event, what, sizeof ns, &ns, NULL) == CL_SUCCESS
               ? ns
               : 0;
}

static uint64_t span_ns(uint64_t from, uint64_t to)
{
    return from != 0 && to > from ? to - from : 0;
}

/* Add the times of a finished wave's phases. A scan begins when its upload and the scan before it have
 * ended. */
static void report_wave(struct transfer *transfer, const struct transfer_slot *slot,
                        struct scan_report *report)
{
    const uint64_t uploaded = event_ns(phase_end(&slot->upload), CL_PROFILING_COMMAND_END);
    const uint64_t scanned = event_ns(slot->scan.first, CL_PROFILING_COMMAND_END);
    const uint64_t began = larger_of(uploaded, transfer->scanned_ns);
    report->upload_ns +=
        span_ns(event_ns(slot->upload.first, CL_PROFILING_COMMAND_START), uploaded);
    report->compute_ns += span_ns(began, scanned);
    report->download_ns +=
        span_ns(event_ns(slot->download.first, CL_PROFILING_COMMAND_START),
                event_ns(phase_end(&slot->download), CL_PROFILING_COMMAND_END));
    transfer->scanned_ns = scanned;
}

/* Wait until the wave in the slot is downloaded, and copy its bytes to their destination. */
static enum status slot_finish(struct transfer *transfer, struct transfer_slot *slot,
                               struct scan_report *report, struct error *err)
{
    cl_event end = phase_end(&slot->download);
    const uint64_t start_ns = now_ns();
    if (slot->scan.first == NULL) {
        return STATUS_OK; /* the slot has no wave */
    }
    if (end != NULL) {
        TRY(opencl_wait(transfer->device, end, err));
        report->inputs_intact = report->inputs_intact && !slot->overwrites;
    }
    const uint64_t copied_ns = now_ns();
    if (slot->staged != NULL) {
        window_copy(slot->staged, slot->staged_count, slot->staged[0].at, slot->stage, false);
    }
    report->download_ns += now_ns() - (transfer->device->profiles ? copied_ns : start_ns);
    if (transfer->device->profiles) {
        report_wave(transfer, slot, report);
    }
    slot_clear(slot);
    return STATUS_OK;
}

/* Finish the waves of all other slots, in order. */
static enum status finish_others(struct transfer *transfer, const struct transfer_slot *slot,
                                 struct scan_report *report, struct error *err)
{
    for (size_t i = 0; i < TRANSFER_SLOTS; i++) {
        struct transfer_slot *other = &transfer->slots[(transfer->next + i) % TRANSFER_SLOTS];
        TRY(other != slot ? slot_finish(transfer, other, report, err) : STATUS_OK);
    }
    return STATUS_OK;
}

/* ---- the phases of a wave ---- */

enum status transfer_upload(struct transfer *transfer, struct transfer_slot *slot,
                            const struct transfer_span *spans, size_t count, struct error *err)
{
    const uint64_t start_ns = now_ns();
    const struct opencl *device = transfer->device;
    struct scan_report *report = transfer->report;
    if (is_direct(spans, count)) {
        TRY(copy_direct(transfer, slot, spans, count, true, err));
    } else if (fits_stage(spans, count)) {
        window_copy(spans, count, spans[0].at, slot->stage, true);
        report->upload_ns += device->profiles ? now_ns() - start_ns : 0;
        TRY(copy_staged(transfer, slot, spans, count, true, err));
    } else {
        TRY(finish_others(transfer, slot, report, err));
        TRY(move_windows(transfer, slot->buffer.mem, spans, count, true, err));
        report->upload_ns += now_ns() - start_ns;
        /* The scan begins here on the device's clock. */
        return CL_CALL(err, clEnqueueMarkerWithWaitList, device->queue, 0, NULL,
                       &slot->upload.last);
    }
    (void)clFlush(transfer->up);
    report->upload_ns += device->profiles ? 0 : now_ns() - start_ns;
    cl_event uploaded = phase_end(&slot->upload);
    return CL_CALL(err, clEnqueueBarrierWithWaitList, device->queue, 1, &uploaded, NULL);
}

enum status transfer_download(struct transfer *transfer, struct transfer_slot *slot,
                              const struct transfer_span *spans, size_t count, bool overwrites,
                              struct error *err)
{
    const struct opencl *device = transfer->device;
    struct scan_report *report = transfer->report;
    TRY(CL_CALL(err, clEnqueueMarkerWithWaitList, device->queue, 0, NULL, &slot->scan.first));
    (void)clFlush(device->queue);
    const uint64_t start_ns = now_ns();
    if (is_direct(spans, count)) {
        slot->overwrites = overwrites;
        TRY(copy_direct(transfer, slot, spans, count, false, err));
    } else if (fits_stage(spans, count)) {
        slot->overwrites = overwrites;
        slot->staged = spans;
        slot->staged_count = count;
        TRY(copy_staged(transfer, slot, spans, count, false, err));
    } else {
        TRY(finish_others(transfer, slot, report, err));
        TRY(opencl_wait(device, slot->scan.first, err));
        const uint64_t scanned_ns = now_ns();
        report->compute_ns += device->profiles ? 0 : scanned_ns - start_ns;
        report->inputs_intact = report->inputs_intact && !overwrites;
        TRY(move_windows(transfer, slot->buffer.mem, spans, count, false, err));
        report->download_ns += now_ns() - scanned_ns;
        return STATUS_OK;
    }
    (void)clFlush(transfer->down);
    report->download_ns += device->profiles ? 0 : now_ns() - start_ns;
    return STATUS_OK;
}

enum status transfer_finish(struct transfer *transfer, struct scan_report *report,
                            struct error *err)
{
    TRY(finish_others(transfer, NULL, report, err));
    transfer->next = 0;
    return STATUS_OK;
}

enum status transfer_begin(struct transfer *transfer, size_t span_count,
                           struct scan_report *report, struct transfer_slot **out,
                           struct error *err)
{
    struct transfer_slot *slot = &transfer->slots[transfer->next];
    TRY(slot_finish(transfer, slot, report, err));
    if (span_count > slot->room) {
        void *spans = reallocarray(slot->spans, span_count, sizeof *slot->spans);
        if (spans == NULL) {
            return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a batch of %zu",
                             span_count);
        }
        slot->spans = spans;
        slot->room = span_count;
    }
    transfer->next = (transfer->next + 1) % TRANSFER_SLOTS;
    transfer->report = report;
    *out = slot;
    return STATUS_OK;
}

void transfer_abandon(struct transfer *transfer, struct scan_report *report)
{
    const struct opencl *device = transfer->device;
    struct error ignored = ERROR_INIT;
    (void)!opencl_finish(device, transfer->up, &ignored);
    (void)!opencl_finish(device, device->queue, &ignored);
    (void)!opencl_finish(device, transfer->down, &ignored);
    for (size_t i = 0; i < TRANSFER_SLOTS; i++) {
        struct transfer_slot *slot = &transfer->slots[i];
        cl_int state = CL_COMPLETE;
        /* If the output is in a stage that the host has not copied, the input is intact.
         * Without a stage, the download has begun unless the scan before it failed. */
        if (slot->overwrites && slot->staged == NULL && slot->download.first != NULL &&
            (clGetEventInfo(slot->scan.first, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state,
                            &state, NULL) != CL_SUCCESS ||
             state >= CL_COMPLETE)) {
            report->inputs_intact = false;
        }
        slot_clear(slot);
    }
    transfer->next = 0;
}
