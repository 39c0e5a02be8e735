/* A round in host memory: every slab is wrapped once per device and kept; a slab larger than
 * one buffer may be is seen through windows made for the round, one for the input's cells and
 * one for the output's. A round with transfers: inputs are packed into one device buffer,
 * outputs that do not replace their input into another. */
#include "kernels/scan_round.h"

#include "kernels/cl_enqueue.h"
#include "kernels/cl_error.h"
#include "kernels/cl_fault.h"
#include "kernels/cl_transfer.h"
#include "kernels/slab_wrap.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WINDOW_ALIGN = 4096, /* where a window begins: what every runtime takes without a copy */
    PACK_ALIGN = 256,    /* between the tensors packed into a device buffer */
    SYNC_BYTES = 1 << 20 /* smaller transfers are not timed on their own: a wait costs more */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t elem_bytes(const struct scan_part *part)
{
    return dtype_info(part->plan->dtype)->bytes;
}

static uint64_t in_bytes(const struct scan_part *part)
{
    return part->plan->in_elements * elem_bytes(part);
}

static uint64_t out_bytes(const struct scan_part *part)
{
    return part->plan->out_elements * elem_bytes(part);
}

static uint64_t packed(uint64_t bytes)
{
    return (bytes + PACK_ALIGN - 1) / PACK_ALIGN * PACK_ALIGN;
}

static struct scan_piece make_piece(const struct scan_part *part, uint64_t in_base,
                                    uint64_t out_base)
{
    uint64_t bytes = elem_bytes(part);
    unsigned char *out = part->gaps ? slab_data(part->out_slab) : NULL;
    return (struct scan_piece){.plan = part->plan,
                               .in_first = (part->in_byte - in_base) / bytes,
                               .out_first = (part->out_byte - out_base) / bytes,
                               .position = part->position,
                               .carry_line = part->carry_line,
                               .carry_in = part->carry_in,
                               .carry_out = part->carry_out,
                               .gaps = out != NULL ? out + part->out_byte : NULL};
}

static struct scan_group make_group(const struct scan_round *round,
                                    const struct scan_piece *pieces, size_t count)
{
    return (struct scan_group){.carry = round->carry,
                               .carry_lines = round->carry_lines,
                               .pieces = pieces,
                               .count = count};
}

/* ---- in host memory ---- */

static bool wrappable(const struct scan_round *round, const struct scan_part *part)
{
    uint64_t limit = round->device->alloc_limit;
    return slab_bytes(part->in_slab) <= limit && slab_bytes(part->out_slab) <= limit;
}

static void release_wrap(void *handle)
{
    (void)clReleaseMemObject(handle);
}

static enum status wrap_range(struct cl_device *device, const struct slab *slab, uint64_t from,
                              uint64_t bytes, cl_mem *mem, struct error *err)
{
    cl_int code = CL_SUCCESS;
    unsigned char *data = slab_data(slab);
    CL_MAKE(*mem, code,
            clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                           (size_t)bytes, data + from, &code));
    return cl_check(code, "clCreateBuffer (host memory)", err);
}

/* The buffer over a whole slab, made at its first use by the device. */
static enum status wrap_slab(struct cl_device *device, struct slab *slab, cl_mem *mem,
                             struct error *err)
{
    cl_mem wrap = slab_wrap_find(slab, device);
    if (wrap == NULL) {
        enum status status = wrap_range(device, slab, 0, slab_bytes(slab), &wrap, err);
        if (status != STATUS_OK) {
            return status;
        }
        if (!slab_wrap_keep(slab, device, wrap, release_wrap)) {
            release_wrap(wrap);
            return error_set(err, STATUS_OUT_OF_MEMORY, "no memory to keep a buffer of a slab");
        }
    }
    *mem = wrap;
    return STATUS_OK;
}

/* Launch parts whose inputs lie in one slab and outputs in one, as those of `part` do. */
static enum status launch_slab(struct scan_round *round, const struct scan_part *part,
                               const struct scan_piece *pieces, size_t count, struct error *err)
{
    struct scan_group group = make_group(round, pieces, count);
    enum status status = wrap_slab(round->device, part->in_slab, &group.in, err);
    if (status == STATUS_OK) {
        status = wrap_slab(round->device, part->out_slab, &group.out, err);
    }
    if (status == STATUS_OK) {
        status = scan_launch(round->launcher, &group, &round->report->launches, err);
    }
    return status;
}

/* What was enqueued since there were `before` launches may have overwritten inputs. */
static void mark_inputs(struct scan_round *round, uint32_t before,
                        const struct scan_part *parts, size_t count)
{
    for (size_t i = 0; i < count && round->report->launches != before; i++) {
        if (scan_part_in_place(&parts[i])) {
            round->report->inputs_intact = false;
        }
    }
}

/* Take the parts that lie in the slabs of `like`. */
static size_t take_slab(const struct scan_part *parts, size_t count,
                        const struct scan_part *like, bool *taken, struct scan_piece *pieces)
{
    size_t together = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].in_slab == like->in_slab && parts[i].out_slab == like->out_slab) {
            taken[i] = true;
            pieces[together++] = make_piece(&parts[i], 0, 0);
        }
    }
    return together;
}

/* One launch for each slab, or pair of slabs, that the parts lie in. */
static enum status launch_slabs(struct scan_round *round, const struct scan_part *parts,
                                size_t count, struct error *err)
{
    struct scan_piece *pieces = malloc(count * sizeof *pieces);
    bool *taken = calloc(count, sizeof *taken);
    if (pieces == NULL || taken == NULL) {
        free(pieces);
        free(taken);
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a batch of %zu", count);
    }
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        if (!taken[i]) {
            size_t together = take_slab(parts, count, &parts[i], taken, pieces);
            status = launch_slab(round, &parts[i], pieces, together, err);
        }
    }
    free(pieces);
    free(taken);
    return status;
}

/* Where a window over a side of a part begins and how long it is. */
static void window_of(const struct scan_part *part, bool output, uint64_t *from,
                      uint64_t *bytes)
{
    uint64_t start = output ? part->out_byte : part->in_byte;
    uint64_t length = output ? out_bytes(part) : in_bytes(part);
    *from = start / WINDOW_ALIGN * WINDOW_ALIGN;
    *bytes = start + length - *from;
}

/* One part of a slab that is too large for a buffer. */
static enum status run_windowed(struct scan_round *round, const struct scan_part *part,
                                struct error *err)
{
    uint64_t in_from = 0;
    uint64_t out_from = 0;
    uint64_t in_length = 0;
    uint64_t out_length = 0;
    window_of(part, false, &in_from, &in_length);
    window_of(part, true, &out_from, &out_length);
    struct scan_piece piece = make_piece(part, in_from, out_from);
    struct scan_group group = make_group(round, &piece, 1);
    enum status status =
        wrap_range(round->device, part->in_slab, in_from, in_length, &group.in, err);
    if (status == STATUS_OK && scan_part_in_place(part)) {
        group.out = group.in;
    } else if (status == STATUS_OK) {
        status =
            wrap_range(round->device, part->out_slab, out_from, out_length, &group.out, err);
    }
    if (status == STATUS_OK) {
        uint32_t before = round->report->launches;
        status = scan_launch(round->launcher, &group, &round->report->launches, err);
        mark_inputs(round, before, part, 1);
    }
    struct error ignored = ERROR_INIT;
    enum status finished =
        cl_device_finish(round->device, status == STATUS_OK ? err : &ignored);
    if (group.out != NULL && group.out != group.in) {
        release_wrap(group.out);
    }
    if (group.in != NULL) {
        release_wrap(group.in);
    }
    return status == STATUS_OK ? finished : status;
}

static enum status run_in_host_memory(struct scan_round *round, const struct scan_part *parts,
                                      size_t count, struct error *err)
{
    uint64_t start = now_ns();
    enum status status = STATUS_OK;
    if (!wrappable(round, &parts[0])) {
        status = run_windowed(round, &parts[0], err);
    } else {
        uint32_t before = round->report->launches;
        status = launch_slabs(round, parts, count, err);
        mark_inputs(round, before, parts, count);
        struct error ignored = ERROR_INIT;
        enum status finished =
            cl_device_finish(round->device, status == STATUS_OK ? err : &ignored);
        status = status == STATUS_OK ? finished : status;
    }
    round->report->compute_ns += now_ns() - start;
    return status;
}

/* ---- with transfers ---- */

/* The plan of a round's device buffers: spans of inputs, and of outputs in each buffer. */
struct packing {
    struct cl_transfer_span *up;     /* owned: one for each part, in the order of `pieces` */
    struct cl_transfer_span *placed; /* owned: outputs in the input buffer */
    struct cl_transfer_span *apart;  /* owned: outputs in the output buffer */
    struct scan_piece *pieces;       /* owned: those in place first */
    size_t count;
    size_t placed_count;
    uint64_t in_total;
    uint64_t out_total;
    bool gaps; /* an output of the output buffer has cells that no element is written to */
};

static void packing_deinit(struct packing *p)
{
    free(p->up);
    free(p->placed);
    free(p->apart);
    free(p->pieces);
}

static enum status packing_init(struct packing *p, size_t count, struct error *err)
{
    *p = (struct packing){.up = calloc(count, sizeof *p->up),
                          .placed = calloc(count, sizeof *p->placed),
                          .apart = calloc(count, sizeof *p->apart),
                          .pieces = calloc(count, sizeof *p->pieces)};
    if (p->up != NULL && p->placed != NULL && p->apart != NULL && p->pieces != NULL) {
        return STATUS_OK;
    }
    packing_deinit(p);
    (void)error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a batch of %zu", count);
    return STATUS_OUT_OF_MEMORY;
}

static void pack(struct packing *p, const struct scan_part *part)
{
    unsigned char *in = slab_data(part->in_slab);
    unsigned char *out = slab_data(part->out_slab);
    struct scan_piece *piece = &p->pieces[p->count];
    *piece = make_piece(part, part->in_byte, part->out_byte);
    piece->in_first = p->in_total / elem_bytes(part);
    p->up[p->count] =
        (struct cl_transfer_span){in + part->in_byte, p->in_total, in_bytes(part)};
    if (scan_part_in_place(part)) {
        piece->out_first = piece->in_first;
        p->placed[p->placed_count++] = p->up[p->count];
    } else {
        piece->out_first = p->out_total / elem_bytes(part);
        p->apart[p->count - p->placed_count] =
            (struct cl_transfer_span){out + part->out_byte, p->out_total, out_bytes(part)};
        p->out_total += packed(out_bytes(part));
        p->gaps = p->gaps || part->plan->gaps;
    }
    p->in_total += packed(in_bytes(part));
    p->count++;
}

/* Those in place, or those apart. */
static void pack_all(struct packing *p, const struct scan_part *parts, size_t count,
                     bool placed)
{
    for (size_t i = 0; i < count; i++) {
        if (scan_part_in_place(&parts[i]) == placed) {
            pack(p, &parts[i]);
        }
    }
}

/* Wait, if the transfers are large enough to be timed, and add the time since *start. */
static enum status lap(struct scan_round *round, const struct packing *p, uint64_t *total,
                       uint64_t *start, struct error *err)
{
    enum status status = STATUS_OK;
    if (p->in_total + p->out_total >= SYNC_BYTES) {
        status = cl_device_finish(round->device, err);
    }
    uint64_t now = now_ns();
    *total += now - *start;
    *start = now;
    return status;
}

/* Launch the pieces that work in one buffer, then those that go from one to the other. */
static enum status launch_packed(struct scan_round *round, const struct packing *p,
                                 const cl_mem mem[CL_TRANSFER_SIDES], struct error *err)
{
    struct scan_group group = make_group(round, p->pieces, p->placed_count);
    enum status status = STATUS_OK;
    group.in = mem[CL_TRANSFER_IN];
    group.out = mem[CL_TRANSFER_IN];
    if (group.count > 0) {
        status = scan_launch(round->launcher, &group, &round->report->launches, err);
    }
    group.out = mem[CL_TRANSFER_OUT];
    group.pieces = p->pieces + p->placed_count;
    group.count = p->count - p->placed_count;
    if (status == STATUS_OK && group.count > 0) {
        status = scan_launch(round->launcher, &group, &round->report->launches, err);
    }
    return status;
}

static enum status download(struct scan_round *round, const struct packing *p,
                            const cl_mem mem[CL_TRANSFER_SIDES], struct error *err)
{
    enum status status = STATUS_OK;
    if (p->count > p->placed_count) {
        status = cl_transfer_down(round->transfer, mem[CL_TRANSFER_OUT], p->apart,
                                  p->count - p->placed_count, err);
    }
    if (status == STATUS_OK && p->placed_count > 0) {
        round->report->inputs_intact = false;
        status = cl_transfer_down(round->transfer, mem[CL_TRANSFER_IN], p->placed,
                                  p->placed_count, err);
    }
    return status;
}

static enum status run_packed(struct scan_round *round, const struct packing *p,
                              struct error *err)
{
    struct scan_report *report = round->report;
    cl_mem mem[CL_TRANSFER_SIDES] = {NULL, NULL};
    uint64_t start = now_ns();
    enum status status = cl_transfer_buffer(round->transfer, CL_TRANSFER_IN, p->in_total,
                                            &mem[CL_TRANSFER_IN], err);
    if (status == STATUS_OK && p->out_total > 0) {
        status = cl_transfer_buffer(round->transfer, CL_TRANSFER_OUT, p->out_total,
                                    &mem[CL_TRANSFER_OUT], err);
    }
    if (status == STATUS_OK && p->gaps) {
        status = cl_fill(round->device, mem[CL_TRANSFER_OUT], 0, (size_t)p->out_total, err);
    }
    if (status == STATUS_OK) {
        status = cl_transfer_up(round->transfer, mem[CL_TRANSFER_IN], p->up, p->count, err);
    }
    if (status == STATUS_OK) {
        status = lap(round, p, &report->upload_ns, &start, err);
    }
    if (status == STATUS_OK) {
        status = launch_packed(round, p, mem, err);
    }
    if (status == STATUS_OK) {
        status = lap(round, p, &report->compute_ns, &start, err);
    }
    if (status == STATUS_OK) {
        status = download(round, p, mem, err);
        report->download_ns += now_ns() - start;
    }
    return status;
}

static enum status run_with_transfers(struct scan_round *round, const struct scan_part *parts,
                                      size_t count, struct error *err)
{
    struct packing p;
    enum status status = packing_init(&p, count, err);
    if (status != STATUS_OK) {
        return status;
    }
    pack_all(&p, parts, count, true);
    pack_all(&p, parts, count, false);
    status = run_packed(round, &p, err);
    if (status != STATUS_OK) { /* nothing may be under way when the buffers are used again */
        struct error ignored = ERROR_INIT;
        (void)!cl_device_finish(round->device, &ignored);
    }
    packing_deinit(&p);
    return status;
}

static bool fits_host_memory(const struct scan_round *round, const struct scan_part *parts,
                             size_t count)
{
    uint64_t limit = round->device->alloc_limit - WINDOW_ALIGN;
    bool wraps = true;
    for (size_t i = 0; i < count; i++) {
        wraps = wraps && wrappable(round, &parts[i]);
    }
    return wraps || (count == 1 && in_bytes(parts) <= limit && out_bytes(parts) <= limit);
}

bool scan_round_fits(const struct scan_round *round, const struct scan_part *parts,
                     size_t count)
{
    if (round->transfer == NULL) {
        return fits_host_memory(round, parts, count);
    }
    uint64_t limit = round->device->alloc_limit;
    uint64_t in_total = 0;
    uint64_t out_total = 0;
    bool fits = true;
    for (size_t i = 0; i < count && fits; i++) { /* no overflow: a part is at most INT64_MAX */
        in_total += packed(in_bytes(&parts[i]));
        out_total += scan_part_in_place(&parts[i]) ? 0 : packed(out_bytes(&parts[i]));
        fits = in_total <= limit && out_total <= limit && !parts[i].holes;
    }
    return fits;
}

enum status scan_round_run(struct scan_round *round, const struct scan_part *parts,
                           size_t count, struct error *err)
{
    enum status status = round->transfer == NULL ? run_in_host_memory(round, parts, count, err)
                                                 : run_with_transfers(round, parts, count, err);
    scan_launcher_recycle(round->launcher);
    return status;
}
