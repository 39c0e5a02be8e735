/* Runs a batch of jobs in waves. A wave is a set of jobs that fit into the device's buffers
 * together. A job that does not fit alone is cut into boxes (split.h), and each box is a wave.
 *
 *   in host memory   no copies: the slab itself serves as the buffer of the wave; the host
 *                    launches the wave and waits for it
 *   with transfers   inputs, and outputs that do not replace them, are packed into one device
 *                    buffer; a wave is uploaded, launched and downloaded, and the host
 *                    waits for it only when its buffer is needed again (transfer.h). A
 *                    large job is cut into slices, each a wave, so that the phases of its
 *                    waves overlap
 *
 * A failed call ends the batch as DEVICE_ERROR or OUT_OF_MEMORY. Afterwards the device is idle,
 * and the report states whether an input may have been overwritten. Thread: the device's. */
#include "kernels/batch.h"

#include "kernels/share.h"
#include "kernels/split.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PACK_ALIGN = 256,   /* bytes: alignment of tensors in a device buffer */
    BOX_BYTES = 8 << 20 /* most bytes of a box, so that copies hit the cache */
};

/* A job, or a box of a job, and the location of its cells on the host. */
struct region {
    struct scan_piece piece; /* offsets are not set: region_piece() */
    struct slab *in_slab;    /* borrowed */
    struct slab *out_slab;   /* borrowed; usually in_slab */
    uint64_t element_bytes;
    uint64_t in_byte;   /* byte offset in in_slab of the input cell with all indices 0 */
    uint64_t out_byte;  /* byte offset in out_slab of the output cell with all indices 0 */
    uint64_t in_bytes;  /* bytes from the first to the last input cell */
    uint64_t out_bytes; /* bytes from the first to the last output cell */
    bool in_place;      /* each output cell replaces its input cell */
    bool holes;         /* same as scan_job.holes */
};

/* State that all waves of a batch share. */
struct batch {
    struct scan_device *device;
    cl_mem carry;               /* borrowed from the device; NULL: no region has a carry */
    struct scan_report *report; /* borrowed: waves add to its counts and times */
    struct scan_piece *pieces;  /* borrowed: the pieces of a launch, room for one per region */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Derive the sizes and in_place from the plan and the offsets. */
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

/* Return the piece of a region in a wave. in_at, out_at: byte offset of the cell with all
 * indices 0, in the wave's input and output buffer. */
static struct scan_piece region_piece(const struct region *region, uint64_t in_at,
                                      uint64_t out_at)
{
    struct scan_piece piece = region->piece;
    piece.in_first = in_at / region->element_bytes;
    piece.out_first = out_at / region->element_bytes;
    return piece;
}

/* Enqueue the first `count` of batch->pieces. */
static enum status batch_launch(struct batch *batch, cl_mem in, cl_mem out, size_t count,
                                struct error *err)
{
    const struct scan_set set = {
        .in = in, .out = out, .carry = batch->carry, .pieces = batch->pieces, .count = count};
    return launcher_run(&batch->device->launcher, &set, &batch->report->launches, err);
}

/* Wait for the queue of launches, also after a failure: no command may be in flight when the caller
 * reuses the memory. Returns `status`, or the failure of the wait if `status` is STATUS_OK. */
static enum status launches_finish(struct batch *batch, enum status status, struct error *err)
{
    const struct opencl *cl = &batch->device->cl;
    struct error ignored = ERROR_INIT;
    enum status waited = opencl_finish(cl, cl->queue, status == STATUS_OK ? err : &ignored);
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

/* Launch `first` together with all later regions that have the same input slab and the same
 * output slab. */
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
        if (before == i) { /* else the launch of regions[before] has included it */
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
    status = launches_finish(batch, status, err);
    report->compute_ns += now_ns() - start;
    return status;
}

/* ---- with transfers ---- */

static uint64_t packed_bytes(uint64_t bytes)
{
    return (bytes + PACK_ALIGN - 1) / PACK_ALIGN * PACK_ALIGN;
}

/* Returns the bytes that a region takes in a device buffer. */
static uint64_t region_packed(const struct region *region)
{
    return packed_bytes(region->in_bytes) +
           (region->in_place ? 0 : packed_bytes(region->out_bytes));
}

/* The layout of the device buffer of a wave: inputs with a separate output, then in-place
 * inputs, then the separate outputs. The upload and the download are then one contiguous range
 * each. */
struct packing {
    struct transfer_span *spans; /* borrowed from the slot; in this order */
    size_t count;                /* number of inputs */
    size_t apart;                /* number of regions with a separate output */
    uint64_t out_from;           /* byte offset of the first separate output */
    uint64_t total;              /* bytes in use */
    bool gaps;                   /* a separate output has cells without an element */
};

/* Move regions with a separate output to the front; fill p and one piece per region. */
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
        p->spans[i] = (struct transfer_span){region->in_slab, in, p->total, region->in_bytes};
        p->total += packed_bytes(region->in_bytes);
    }
    p->out_from = p->total;
    for (size_t i = 0; i < count && !regions[i].in_place; i++) {
        const struct region *region = &regions[i];
        pieces[i].out_first = p->total / region->element_bytes;
        p->spans[count + i] = (struct transfer_span){region->out_slab, region_output(region),
                                                     p->total, region->out_bytes};
        p->total += packed_bytes(region->out_bytes);
        p->gaps = p->gaps || region->piece.plan->gaps;
    }
}

/* Enqueue a wave. Its regions' memory is in use until transfer_finish(). */
static enum status run_packed(struct batch *batch, struct transfer_slot *slot,
                              const struct packing *p, struct error *err)
{
    const struct opencl *cl = &batch->device->cl;
    struct transfer *transfer = &batch->device->transfer;
    TRY(opencl_buffer_grow(cl, &slot->buffer, p->total, err));
    cl_mem mem = slot->buffer.mem;
    if (p->gaps) {
        TRY(opencl_fill(cl, mem, 0, p->out_from, p->total - p->out_from, err));
    }
    TRY(transfer_upload(transfer, slot, p->spans, p->count, err));
    const uint64_t start = now_ns();
    TRY(batch_launch(batch, mem, mem, p->count, err));
    batch->report->compute_ns += cl->profiles ? 0 : now_ns() - start;
    return transfer_download(transfer, slot, p->spans + p->apart, p->count,
                             p->apart != p->count, err);
}

static enum status run_with_transfers(struct batch *batch, struct region *regions, size_t count,
                                      struct error *err)
{
    struct transfer_slot *slot = NULL;
    TRY(transfer_begin(&batch->device->transfer, 2 * count, batch->report, &slot, err));
    struct packing p = {.spans = slot->spans, .count = count};
    pack_regions(&p, regions, batch->pieces);
    return run_packed(batch, slot, &p, err);
}

/* ---- waves ---- */

/* Returns true if the regions fit into one wave. A single region that does not fit is run in
 * boxes. */
static bool wave_fits(const struct batch *batch, const struct region *regions, size_t count)
{
    const uint64_t limit = batch->device->cl.alloc_limit;
    uint64_t total = 0; /* no overflow: each span has at most INT64_MAX bytes */
    bool fits = true;
    for (size_t i = 0; i < count && fits; i++) {
        const struct region *region = &regions[i];
        if (batch->device->cl.info.host_memory) {
            fits =
                slab_bytes(region->in_slab) <= limit && slab_bytes(region->out_slab) <= limit;
        } else {
            total += region_packed(region);
            fits = total <= limit && !region->holes;
        }
    }
    return fits;
}

/* Run regions that fit into one wave. With transfers, the wave may still be in flight when the
 * function returns. */
static enum status wave_run(struct batch *batch, struct region *regions, size_t count,
                            struct error *err)
{
    if (!batch->device->cl.info.host_memory) {
        return run_with_transfers(batch, regions, count, err);
    }
    enum status status = run_in_host_memory(batch, regions, count, err);
    batch->device->launcher.table.used = 0; /* the queue is empty */
    return status;
}

/* Wait for all waves, also after a failure: no command may be in flight when the caller reuses the
 * memory. Returns `status`, or the failure of the wait if `status` is STATUS_OK. */
static enum status waves_finish(struct batch *batch, enum status status, struct error *err)
{
    struct transfer *transfer = &batch->device->transfer;
    if (batch->device->cl.info.host_memory) {
        return status;
    }
    if (status == STATUS_OK) {
        status = transfer_finish(transfer, batch->report, err);
    }
    if (status != STATUS_OK) {
        transfer_abandon(transfer, batch->report);
    }
    batch->device->launcher.table.used = 0;
    return status;
}

/* ---- jobs in pieces ---- */

/* Set batch->carry to a buffer of at least `bytes` bytes for the sums of lines, and enqueue a
 * copy of `sums` to it. The caller must not change `sums` until the waves are finished. sums
 * NULL: the content of the buffer is undefined. */
static enum status carry_begin(struct batch *batch, size_t bytes, const void *sums,
                               struct error *err)
{
    const struct opencl *cl = &batch->device->cl;
    struct opencl_buffer *carry = &batch->device->carry;
    TRY(opencl_buffer_grow(cl, carry, bytes, err));
    batch->carry = carry->mem;
    return sums == NULL ? opencl_poison(cl, carry->mem, bytes, err)
                        : CL_CALL(err, clEnqueueWriteBuffer, cl->queue, carry->mem, CL_FALSE, 0,
                                  bytes, sums, 0, NULL, NULL);
}

/* Return a part of a region, a slice or a box, as a region. line: number of the first line of
 * the part; done: number of elements of each line that earlier parts have scanned. */
static struct region part_of(const struct region *whole, const struct scan_plan *plan,
                             bool carried, uint64_t line, uint64_t done)
{
    struct region region = *whole;
    region.piece.plan = plan;
    region.piece.carry_line += carried ? line : 0;
    region.piece.carry_in = whole->piece.carry_in || done > 0;
    region.piece.carry_out =
        whole->piece.carry_out || done + plan->axis.size < whole->piece.plan->axis.size;
    return region;
}

/* Cut a region into slices that fit into the staging buffer (TRANSFER_STAGE_BYTES) and into one
 * device buffer. *steps: maximum number of steps of a slice. Returns false if the region
 * already fits or cannot be cut. */
static bool cut_region(const struct batch *batch, const struct region *whole,
                       struct scan_slicing *slicing, uint64_t *steps)
{
    const struct scan_plan *plan = whole->piece.plan;
    const uint64_t room = smaller_of(batch->device->cl.alloc_limit, TRANSFER_STAGE_BYTES);
    const uint64_t bytes = region_packed(whole);
    struct scan_plan first;
    if (AID(&batch->device->cl, whole) || plan->gaps || whole->holes || bytes <= room) {
        return false;
    }
    if (batch->carry != NULL) {
        scan_slicing_carried(plan, slicing);
    } else if (!scan_slicing_make(plan, false, slicing)) {
        return false;
    }
    *steps = larger_of(room / (bytes / slicing->steps + 1), 1);
    const struct scan_slice slice = scan_slicing_take(slicing, 0, *steps, &first);
    /* If cells of other slices are between those of a slice, the region is run in boxes
     * instead. */
    return slicing->steps > *steps && !slice.holes;
}

/* Run a region that does not fit into one wave: for each box, copy the elements into a packed
 * slab, run the box, and copy the results back. The boxes of a cut line pass its sum on through
 * batch->carry. */
static enum status run_boxes(struct batch *batch, const struct region *whole, struct error *err)
{
    const struct scan_plan *plan = whole->piece.plan;
    const uint64_t room = smaller_of(batch->device->cl.alloc_limit - SLAB_ALIGN, BOX_BYTES);
    const uint64_t most = room / whole->element_bytes;
    const bool carried = batch->carry != NULL;
    unsigned char *in = (unsigned char *)slab_data(whole->in_slab) + whole->in_byte;
    TRY(waves_finish(batch, STATUS_OK, err)); /* the report then covers all earlier waves */
    bool intact = batch->report->inputs_intact;
    struct slab *packed = slab_create((size_t)room);
    struct scan_box box = {.line = 0};
    enum status status = STATUS_OK;
    if (packed == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY,
                         "no memory to copy a part of the tensor together");
    }
    if (plan->axis.size > most && !carried) {
        status = carry_begin(batch, scan_carry_bytes(plan->dtype), NULL, err);
    }
    while (status == STATUS_OK && scan_box_next(plan, most, &box)) {
        struct region region = part_of(whole, &box.plan, carried, box.line, box.position);
        region.in_slab = packed;
        region.out_slab = packed;
        region.in_byte = 0;
        region.out_byte = 0;
        region.holes = false;
        region_measure(&region);
        scan_box_copy(plan, &box, in, slab_data(packed), false);
        status = waves_finish(batch, wave_run(batch, &region, 1, err), err);
        if (status == STATUS_OK) {
            scan_box_copy(plan, &box, region_output(whole), slab_data(packed), true);
            intact = intact && !whole->in_place;
        }
        batch->report->inputs_intact = intact; /* the wave overwrote only the copy */
    }
    if (!carried) {
        batch->carry = NULL;
    }
    slab_destroy(packed);
    return status;
}

/* Run a region in slices (cut_region()). The slices of a line pass its sum on through batch->carry, in
 * the order of the launches. */
static enum status run_slices(struct batch *batch, const struct region *whole,
                              const struct scan_slicing *slicing, uint64_t steps,
                              struct error *err)
{
    const enum dtype dtype = whole->piece.plan->dtype;
    const bool carried = batch->carry != NULL;
    enum status status = STATUS_OK;
    if (slicing->blocks > 1 && !carried) {
        status =
            carry_begin(batch, (size_t)slicing->lines * scan_carry_bytes(dtype), NULL, err);
    }
    for (uint64_t done = 0; done < slicing->steps && status == STATUS_OK;) {
        struct scan_plan plan;
        const struct scan_slice slice =
            scan_slicing_take(slicing, done, smaller_of(steps, slicing->steps - done), &plan);
        struct region region = part_of(whole, &plan, carried, slice.line, slice.position);
        region.in_byte += slice.in_first * whole->element_bytes;
        region.out_byte += slice.out_first * whole->element_bytes;
        region.holes = slice.holes;
        region_measure(&region);
        status = wave_fits(batch, &region, 1) ? wave_run(batch, &region, 1, err)
                                              : run_boxes(batch, &region, err);
        done += slice.steps;
    }
    if (!carried) {
        batch->carry = NULL;
    }
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

/* Run regions that fit into one wave, or a single region of any size. */
static enum status run_regions(struct batch *batch, struct region *regions, size_t count,
                               struct error *err)
{
    struct scan_slicing slicing;
    uint64_t steps = 0;
    if (!batch->device->cl.info.host_memory && count == 1 &&
        cut_region(batch, regions, &slicing, &steps)) {
        return run_slices(batch, regions, &slicing, steps, err);
    }
    return wave_fits(batch, regions, count) ? wave_run(batch, regions, count, err)
                                            : run_boxes(batch, regions, err);
}

/* Add the last element of each line of integers, from the input or the output, to the line's
 * sum. */
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

/* Scan one slice of a longer axis. The carry-in of each line is uploaded before the scan, and the
 * carry-out is stored in job->carry after it.
 *
 * Floats: the kernel computes the carry-out, and this function downloads it. Integers: this
 * function computes the carry-out on the host; it is the last output of the line, plus the last
 * element if the scan is exclusive.
 *
 * job->carry may hold the carry-in. The carry-out is therefore first stored in `sums`, temporary
 * memory, so that job->carry is unchanged if the slice fails and is run again. */
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
    const struct opencl *cl = &batch->device->cl;
    if (job->carry_in || region.piece.carry_out) {
        status = carry_begin(batch, bytes, job->carry_in ? job->carry : NULL, err);
    }
    if (status == STATUS_OK) {
        status = run_regions(batch, &region, 1, err);
    }
    status = waves_finish(batch, status, err);
    if (status == STATUS_OK && region.piece.carry_out) {
        status = CL_CALL(err, clEnqueueReadBuffer, cl->queue, batch->carry, CL_FALSE, 0, bytes,
                         sums, 0, NULL, NULL);
    }
    if (batch->carry != NULL) {
        status = launches_finish(batch, status, err);
    }
    if (status == STATUS_OK && job->carry_out && !floats) {
        add_last(job, &region, true, sums);
    }
    if (status == STATUS_OK && aside) {
        memcpy(job->carry, sums, bytes);
    }
    if (aside) {
        free(sums);
    }
    return status;
}

/* Zero the gaps of a region's output, or leave them to the launch if the region runs in host
 * memory: kernels for CPUs zero some gaps themselves. */
static void settle_gaps(const struct batch *batch, struct region *region)
{
    const struct scan_device *device = batch->device;
    if (device->cl.info.host_memory && !device->cl.gpu_kernels && wave_fits(batch, region, 1)) {
        region->piece.gaps = region_output(region);
    } else {
        (void)scan_gaps_zero(region->piece.plan, false, NULL, region_output(region));
    }
}

static enum status run_jobs(struct batch *batch, const struct scan_job *jobs, size_t count,
                            struct error *err)
{
    struct region *regions = malloc(count * (sizeof *regions + sizeof *batch->pieces));
    if (regions == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a batch of %zu", count);
    }
    batch->pieces = (struct scan_piece *)(regions + count);
    for (size_t i = 0; i < count; i++) {
        regions[i] = make_region(&jobs[i]);
        if (jobs[i].plan->gaps) {
            settle_gaps(batch, &regions[i]);
        }
    }
    enum status status = STATUS_OK;
    for (size_t done = 0; done < count && status == STATUS_OK;) {
        size_t together = count - done;
        while (together > 1 && !wave_fits(batch, regions + done, together)) {
            together = (together + 1) / 2;
        }
        status = run_regions(batch, regions + done, together, err);
        done += together;
    }
    status = waves_finish(batch, status, err);
    free(regions);
    return status;
}

enum status scan_device_run(struct scan_device *device, const struct scan_job *jobs,
                            size_t count, struct scan_report *report, struct error *err)
{
    struct scan_piece alone;
    struct batch batch = {.device = device, .report = report, .pieces = &alone};
    IN_TESTS(cl_fault_reread(), (void)0);
    *report = (struct scan_report){.inputs_intact = true};
    const enum status status = jobs[0].carry != NULL ? run_slice(&batch, jobs, err)
                                                     : run_jobs(&batch, jobs, count, err);
    if (status == STATUS_DEVICE_ERROR) {
        share_fail(device->share);
    }
    return status;
}
