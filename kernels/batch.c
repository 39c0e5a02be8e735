/* A batch becomes waves: all jobs that fit the device's buffers together run in one wave; what
 * does not fit alone goes box by box, a wave each (split.h). A wave is moved in, launched, moved
 * out and waited for:
 *
 *   in host memory   nothing moves: a slab is a buffer for the wave's time
 *   with transfers   inputs, and outputs that do not replace them, are packed into a device
 *                    buffer
 *
 * A call that fails ends the batch as DEVICE_ERROR or OUT_OF_MEMORY; the device is idle
 * afterwards, and the report says whether an input may have been overwritten. Thread: that of
 * the device. */
#include "kernels/batch.h"

#include "kernels/split.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PACK_ALIGN = 256,     /* between the tensors packed into a device buffer */
    SYNC_BYTES = 1 << 20, /* smaller transfers are not timed apart: a wait costs more */
    BOX_BYTES = 8 << 20   /* at most, of a box: it is copied while it is in a cache */
};

/* A job, or a box of one, and where its cells lie on the host. */
struct region {
    struct scan_piece piece; /* but for where it is in the buffers of a wave */
    struct slab *in_slab;    /* borrowed */
    struct slab *out_slab;   /* borrowed; mostly the same */
    uint64_t element_bytes;
    uint64_t in_byte;  /* of the input cell of all indices 0 in its slab */
    uint64_t out_byte; /* of the output cell in its slab */
    uint64_t in_bytes; /* that it spans */
    uint64_t out_bytes;
    bool in_place; /* the output takes the input's place, cell by cell */
    bool holes;    /* as in struct scan_job */
};

/* What all waves of a batch have in common. */
struct batch {
    struct scan_device *device;
    cl_mem carry;               /* NULL if no region carries */
    struct scan_report *report; /* added to */
    struct scan_piece *pieces;  /* of a launch: room for one of each region */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* What follows from the plan and the places. */
static void region_measure(struct region *region)
{
    const struct scan_plan *plan = region->piece.plan;
    region->element_bytes = dtype_info(plan->dtype)->bytes;
    region->in_bytes = plan->in_elements * region->element_bytes;
    region->out_bytes = plan->out_elements * region->element_bytes;
    region->in_place =
        region->in_slab == region->out_slab && region->in_byte == region->out_byte;
}

static unsigned char *region_output(const struct region *region)
{
    return (unsigned char *)slab_data(region->out_slab) + region->out_byte;
}

/* The piece of a region whose cells of all indices 0 are so many bytes into the buffers. */
static struct scan_piece region_piece(const struct region *region, uint64_t in_at,
                                      uint64_t out_at)
{
    struct scan_piece piece = region->piece;
    piece.in_first = in_at / region->element_bytes;
    piece.out_first = out_at / region->element_bytes;
    return piece;
}

/* The first `count` of batch->pieces. */
static enum status batch_launch(struct batch *batch, cl_mem in, cl_mem out, size_t count,
                                struct error *err)
{
    const struct scan_set set = {
        .in = in, .out = out, .carry = batch->carry, .pieces = batch->pieces, .count = count};
    return launcher_run(&batch->device->launcher, &set, &batch->report->launches, err);
}

/* Wait for the device, also after a failure: nothing may be under way when memory is used
 * again. */
static enum status wait_after(struct batch *batch, enum status status, struct error *err)
{
    struct error ignored = ERROR_INIT;
    enum status waited =
        opencl_finish(&batch->device->cl, status == STATUS_OK ? err : &ignored);
    return status == STATUS_OK ? waited : status;
}

/* ---- in host memory ---- */

static enum status wrap_slab(struct batch *batch, const struct slab *slab, cl_mem *mem,
                             struct error *err)
{
    enum status status = STATUS_OK;
    CL_MAKE(status, err, *mem, clCreateBuffer, batch->device->cl.context,
            CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, slab_bytes(slab), slab_data(slab));
    return status;
}

static bool same_slabs(const struct region *a, const struct region *b)
{
    return a->in_slab == b->in_slab && a->out_slab == b->out_slab;
}

/* One launch for the regions that lie in the slab, or pair of slabs, of the first. */
static enum status launch_together(struct batch *batch, const struct region *first,
                                   const struct region *regions, size_t count,
                                   struct error *err)
{
    const bool apart = first->out_slab != first->in_slab;
    cl_mem in = NULL;
    cl_mem out = NULL;
    size_t together = 0;
    TRY(wrap_slab(batch, first->in_slab, &in, err));
    enum status status = apart ? wrap_slab(batch, first->out_slab, &out, err) : STATUS_OK;
    for (size_t i = 0; i < count; i++) {
        if (same_slabs(first, &regions[i])) {
            batch->pieces[together++] =
                region_piece(&regions[i], regions[i].in_byte, regions[i].out_byte);
        }
    }
    if (status == STATUS_OK) {
        status = batch_launch(batch, in, apart ? out : in, together, err);
    }
    opencl_release(&out);
    opencl_release(&in);
    return status;
}

static enum status launch_slabs(struct batch *batch, const struct region *regions, size_t count,
                                struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        size_t before = 0;
        while (!same_slabs(&regions[before], &regions[i])) {
            before++;
        }
        if (before == i) { /* or it is launched with that one */
            TRY(launch_together(batch, &regions[i], regions, count, err));
        }
    }
    return STATUS_OK;
}

static enum status run_in_host_memory(struct batch *batch, const struct region *regions,
                                      size_t count, struct error *err)
{
    struct scan_report *report = batch->report;
    const uint64_t start = now_ns();
    const uint32_t before = report->launches;
    enum status status = launch_slabs(batch, regions, count, err);
    for (size_t i = 0; i < count && report->launches != before; i++) {
        report->inputs_intact = report->inputs_intact && !regions[i].in_place;
    }
    status = wait_after(batch, status, err);
    report->compute_ns += now_ns() - start;
    return status;
}

/* ---- with transfers ---- */

static uint64_t packed_bytes(uint64_t bytes)
{
    return (bytes + PACK_ALIGN - 1) / PACK_ALIGN * PACK_ALIGN;
}

/* The device buffer of a wave: inputs whose outputs lie apart, then those in place, then the
 * outputs that lie apart. So what goes up is a run of it, and what comes down. */
struct packing {
    struct transfer_span *spans; /* in this order */
    size_t count;                /* inputs */
    size_t apart;                /* outputs, and inputs before those in place */
    uint64_t out_from;           /* where these outputs begin */
    uint64_t total;
    bool gaps; /* one of them has cells that no element is written to */
};

/* Regions apart come first; a piece for each region. */
static void pack_regions(struct packing *p, struct region *regions, struct scan_piece *pieces)
{
    const size_t count = p->count;
    for (size_t i = 0; i < count; i++) {
        if (!regions[i].in_place && i > p->apart) {
            const struct region region = regions[i];
            regions[i] = regions[p->apart];
            regions[p->apart] = region;
        }
        p->apart += regions[p->apart].in_place ? 0 : 1;
    }
    for (size_t i = 0; i < count; i++) {
        const struct region *region = &regions[i];
        unsigned char *in = (unsigned char *)slab_data(region->in_slab) + region->in_byte;
        pieces[i] = region_piece(region, p->total, p->total);
        p->spans[i] = (struct transfer_span){in, p->total, region->in_bytes};
        p->total += packed_bytes(region->in_bytes);
    }
    p->out_from = p->total;
    for (size_t i = 0; i < count && !regions[i].in_place; i++) {
        const struct region *region = &regions[i];
        pieces[i].out_first = p->total / region->element_bytes;
        p->spans[count + i] =
            (struct transfer_span){region_output(region), p->total, region->out_bytes};
        p->total += packed_bytes(region->out_bytes);
        p->gaps = p->gaps || region->piece.plan->gaps;
    }
}

/* Wait, if the transfers are large enough to be timed, and add the time since *start. */
static enum status add_phase_time(struct batch *batch, const struct packing *p, uint64_t *total,
                                  uint64_t *start, struct error *err)
{
    if (p->total >= SYNC_BYTES) {
        TRY(opencl_finish(&batch->device->cl, err));
    }
    const uint64_t now = now_ns();
    *total += now - *start;
    *start = now;
    return STATUS_OK;
}

static enum status run_packed(struct batch *batch, const struct packing *p, struct error *err)
{
    const struct opencl *cl = &batch->device->cl;
    struct transfer *transfer = &batch->device->transfer;
    struct scan_report *report = batch->report;
    uint64_t start = now_ns();
    TRY(opencl_buffer_grow(cl, &transfer->buffer, p->total, err));
    cl_mem mem = transfer->buffer.mem;
    if (p->gaps) {
        TRY(opencl_fill(cl, mem, 0, p->out_from, p->total - p->out_from, err));
    }
    TRY(transfer_move(transfer, mem, p->spans, p->count, true, err));
    TRY(add_phase_time(batch, p, &report->upload_ns, &start, err));
    TRY(batch_launch(batch, mem, mem, p->count, err));
    TRY(add_phase_time(batch, p, &report->compute_ns, &start, err));
    report->inputs_intact = report->inputs_intact && p->apart == p->count;
    TRY(transfer_move(transfer, mem, p->spans + p->apart, p->count, false, err));
    report->download_ns += now_ns() - start;
    return STATUS_OK;
}

static enum status run_with_transfers(struct batch *batch, struct region *regions, size_t count,
                                      struct error *err)
{
    struct packing p = {.spans = calloc(2 * count, sizeof *p.spans), .count = count};
    if (p.spans == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a batch of %zu", count);
    }
    pack_regions(&p, regions, batch->pieces);
    enum status status = run_packed(batch, &p, err);
    if (status != STATUS_OK) {
        status = wait_after(batch, status, err);
    }
    free(p.spans);
    return status;
}

/* ---- waves ---- */

/* Can the regions share a wave? A region alone that says no has to be cut. */
static bool wave_fits(const struct batch *batch, const struct region *regions, size_t count)
{
    const uint64_t limit = batch->device->cl.alloc_limit;
    uint64_t total = 0; /* no overflow: a span is at most INT64_MAX */
    bool fits = true;
    for (size_t i = 0; i < count && fits; i++) {
        const struct region *region = &regions[i];
        if (batch->device->cl.info.host_memory) {
            fits =
                slab_bytes(region->in_slab) <= limit && slab_bytes(region->out_slab) <= limit;
        } else {
            total += packed_bytes(region->in_bytes);
            total += region->in_place ? 0 : packed_bytes(region->out_bytes);
            fits = total <= limit && !region->holes;
        }
    }
    return fits;
}

/* Run regions that fit and wait for them. */
static enum status wave_run(struct batch *batch, struct region *regions, size_t count,
                            struct error *err)
{
    enum status status = batch->device->cl.info.host_memory
                             ? run_in_host_memory(batch, regions, count, err)
                             : run_with_transfers(batch, regions, count, err);
    batch->device->launcher.table.used = 0; /* the queue is empty */
    return status;
}

/* ---- sums that are handed on ---- */

/* `bytes` for the sums of lines; `sums`: what they are; NULL: anything. */
static enum status carry_create(struct batch *batch, size_t bytes, void *sums,
                                struct error *err)
{
    const struct opencl *cl = &batch->device->cl;
    const cl_mem_flags flags = CL_MEM_READ_WRITE | (sums != NULL ? CL_MEM_COPY_HOST_PTR : 0);
    enum status status = STATUS_OK;
    CL_MAKE(status, err, batch->carry, clCreateBuffer, cl->context, flags, bytes, sums);
    return status == STATUS_OK && sums == NULL ? opencl_poison(cl, batch->carry, bytes, err)
                                               : status;
}

/* A region that does not fit alone: its elements are copied together, box by box, and back. The
 * sums of a line that is cut are handed on in a carry of their own, if the region has none. */
static enum status run_boxes(struct batch *batch, const struct region *whole, struct error *err)
{
    const struct scan_plan *plan = whole->piece.plan;
    const uint64_t room = smaller_of(batch->device->cl.alloc_limit - SLAB_ALIGN, BOX_BYTES);
    const uint64_t most = room / whole->element_bytes;
    const bool carried = batch->carry != NULL;
    bool intact = batch->report->inputs_intact;
    unsigned char *in = (unsigned char *)slab_data(whole->in_slab) + whole->in_byte;
    struct slab *packed = slab_create((size_t)room);
    struct scan_box box = {.line = 0};
    enum status status = STATUS_OK;
    if (packed == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY,
                         "no memory to copy a part of the tensor together");
    }
    if (plan->axis.size > most && !carried) {
        status = carry_create(batch, scan_carry_bytes(plan->dtype), NULL, err);
    }
    while (status == STATUS_OK && scan_box_next(plan, most, &box)) {
        struct region region = {.piece = whole->piece, .in_slab = packed, .out_slab = packed};
        const uint64_t done = box.position + box.plan.axis.size;
        region.piece.plan = &box.plan;
        region.piece.carry_line += carried ? box.line : 0;
        region.piece.carry_in = whole->piece.carry_in || box.position > 0;
        region.piece.carry_out = whole->piece.carry_out || done < plan->axis.size;
        region_measure(&region);
        scan_box_copy(plan, &box, in, slab_data(packed), false);
        status = wave_run(batch, &region, 1, err);
        if (status == STATUS_OK) {
            scan_box_copy(plan, &box, region_output(whole), slab_data(packed), true);
            intact = intact && !whole->in_place;
        }
        batch->report->inputs_intact = intact; /* it was the copy that was overwritten */
    }
    if (!carried) {
        opencl_release(&batch->carry);
    }
    slab_destroy(packed);
    return status;
}

/* ---- batches ---- */

static struct region make_region(const struct scan_job *job)
{
    struct region region = {
        .piece = {.plan = job->plan,
                  .carry_in = job->carry_in,
                  .carry_out = job->carry_out && dtype_is_float(job->plan->dtype),
                  .totals = job->totals && dtype_is_float(job->plan->dtype)},
        .in_slab = job->slab,
        .out_slab = job->out_slab != NULL ? job->out_slab : job->slab,
        .in_byte = job->in_offset,
        .out_byte = job->out_offset,
        .holes = job->holes};
    region_measure(&region);
    return region;
}

/* Regions that fit together, or one that may not fit alone. */
static enum status run_regions(struct batch *batch, struct region *regions, size_t count,
                               struct error *err)
{
    return wave_fits(batch, regions, count) ? wave_run(batch, regions, count, err)
                                            : run_boxes(batch, regions, err);
}

/* Add the last elements of all lines, on one side, to their sums: of integers. */
static void add_last(const struct scan_job *job, const struct region *region, bool output,
                     unsigned char *sums)
{
    const struct scan_plan *plan = job->plan;
    const size_t bytes = dtype_info(plan->dtype)->bytes;
    const size_t sum_bytes = scan_carry_bytes(plan->dtype);
    const uint64_t step = output ? plan->axis.out_stride : plan->axis.in_stride;
    const uint64_t last = plan->reverse ? 0 : (plan->axis.size - 1) * step;
    const unsigned char *cells =
        output ? region_output(region)
               : (unsigned char *)slab_data(region->in_slab) + region->in_byte;
    for (uint64_t line = 0; line < plan->lines; line++, sums += sum_bytes) {
        uint64_t sum = 0;
        uint64_t element = 0; /* hosts are little-endian */
        memcpy(&sum, sums, sum_bytes);
        memcpy(&element, cells + (scan_plan_line_at(plan, line, output) + last) * bytes, bytes);
        sum += element;
        memcpy(sums, &sum, sum_bytes);
    }
}

/* Run one slice. The sums that its lines begin with go to the device, and those after them come
 * back: by way of other memory where they take the place of the former, because a read that fails
 * may have written some of them. The sum after a line of integers is its last output, or that and
 * its last element where sums are exclusive. */
static enum status run_slice(struct batch *batch, const struct scan_job *job, struct error *err)
{
    struct region region = make_region(job);
    const bool floats = dtype_is_float(job->plan->dtype);
    const size_t bytes = (size_t)job->plan->lines * scan_carry_bytes(job->plan->dtype);
    const bool aside = job->carry_out && (job->carry_in || !floats);
    unsigned char *sums = aside ? calloc(1, bytes) : job->carry;
    enum status status = STATUS_OK;
    if (sums == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the sums of the lines");
    }
    if (job->carry_out && !floats && job->plan->exclusive) {
        add_last(job, &region, false, sums);
    }
    if (job->carry_in || region.piece.carry_out) {
        status = carry_create(batch, bytes, job->carry_in ? job->carry : NULL, err);
    }
    if (status == STATUS_OK) {
        status = run_regions(batch, &region, 1, err);
    }
    if (status == STATUS_OK && region.piece.carry_out) {
        status = CL_CALL(err, clEnqueueReadBuffer, batch->device->cl.queue, batch->carry,
                         CL_TRUE, 0, bytes, sums, 0, NULL, NULL);
    }
    if (status == STATUS_OK && job->carry_out && !floats) {
        add_last(job, &region, true, sums);
    }
    if (status == STATUS_OK && aside) {
        memcpy(job->carry, sums, bytes);
    }
    opencl_release(&batch->carry);
    if (aside) {
        free(sums);
    }
    return status;
}

/* Zero a region's gaps, or leave them to its launch: kernels for CPUs zero some themselves. */
static void settle_gaps(const struct batch *batch, struct region *region)
{
    const struct scan_device *device = batch->device;
    if (device->cl.info.host_memory && !device->cl.gpu_kernels && wave_fits(batch, region, 1)) {
        region->piece.gaps = region_output(region);
    } else {
        (void)scan_gaps_zero(region->piece.plan, false, NULL, region_output(region));
    }
}

enum status scan_device_run(struct scan_device *device, const struct scan_job *jobs,
                            size_t count, struct scan_report *report, struct error *err)
{
    struct scan_piece alone;
    struct batch batch = {.device = device, .report = report, .pieces = &alone};
    IN_TESTS(cl_fault_reread(), (void)0);
    *report = (struct scan_report){.inputs_intact = true};
    if (jobs[0].carry != NULL) {
        return run_slice(&batch, jobs, err);
    }
    struct region *regions = malloc(count * (sizeof *regions + sizeof *batch.pieces));
    if (regions == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a batch of %zu", count);
    }
    batch.pieces = (struct scan_piece *)(regions + count);
    for (size_t i = 0; i < count; i++) {
        regions[i] = make_region(&jobs[i]);
        if (jobs[i].plan->gaps) {
            settle_gaps(&batch, &regions[i]);
        }
    }
    enum status status = STATUS_OK;
    for (size_t done = 0; done < count && status == STATUS_OK;) {
        size_t together = count - done;
        while (together > 1 && !wave_fits(&batch, regions + done, together)) {
            together = (together + 1) / 2;
        }
        status = run_regions(&batch, regions + done, together, err);
        done += together;
    }
    free(regions);
    return status;
}
