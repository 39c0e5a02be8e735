/* A batch becomes rounds: all jobs that fit the device's buffers together run in one round;
 * what does not fit alone is cut into boxes, a round each (scan_cut.h). */
#include "kernels/scan_device.h"

#include "kernels/cl_enqueue.h"
#include "kernels/cl_error.h"
#include "kernels/cl_fault.h"
#include "kernels/cl_transfer.h"
#include "kernels/scan_cut.h"
#include "kernels/scan_gaps.h"
#include "kernels/scan_program.h"
#include "kernels/scan_round.h"
#include "kernels/scan_selftest.h"
#include "kernels/slab_wrap.h"

#include <stdlib.h>
#include <string.h>

enum {
    BOX_MARGIN = 8192,      /* of a buffer: for how a box's ends are aligned */
    GATHER_BYTES = 64 << 20 /* largest gathered box */
};

enum lookback_state {
    LOOKBACK_UNTRIED,
    LOOKBACK_WORKS, /* for the kinds tried so far */
    LOOKBACK_FAILED
};

struct scan_device {
    struct cl_device cl;
    enum lookback_state lookback;
    struct scan_launcher *launcher; /* owned */
    struct cl_transfer *transfer;   /* owned; NULL while the device works in host memory */
    bool verified;                  /* a self-test has passed */
};

enum status scan_devices_list(struct scan_device_info *infos, size_t room, size_t *count,
                              struct error *err)
{
    size_t all = 0;
    enum status status = cl_devices_find(NULL, infos, room, &all, err);
    if (status == STATUS_OK) {
        *count = all < room ? all : room;
    }
    return status;
}

enum status scan_device_open(size_t number, const struct scan_device_options *options,
                             struct scan_device **out, struct error *err)
{
    cl_fault_from_environment();
    struct scan_device *device = calloc(1, sizeof *device);
    if (device == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a device");
    }
    enum status status = cl_device_open(number, options, &device->cl, err);
    if (status == STATUS_OK) {
        status = scan_launcher_create(&device->cl, &device->launcher, err);
    }
    if (status == STATUS_OK && !device->cl.host_memory) {
        status = cl_transfer_create(&device->cl, &device->transfer, err);
    }
    if (status != STATUS_OK) {
        scan_device_close(device);
        return status;
    }
    *out = device;
    return STATUS_OK;
}

void scan_device_close(struct scan_device *device)
{
    if (device == NULL) {
        return;
    }
    if (device->cl.queue != NULL) {
        (void)clFinish(device->cl.queue);
    }
    slab_wraps_drop(&device->cl);
    cl_transfer_destroy(device->transfer);
    scan_launcher_destroy(device->launcher);
    cl_device_close(&device->cl);
    free(device);
}

const struct scan_device_info *scan_device_info(const struct scan_device *device)
{
    return &device->cl.info;
}

/* The device does not see what the host writes into a slab, or the other way round: copy. */
static enum status use_transfers(struct scan_device *device, struct error *err)
{
    struct scan_launcher *launcher = NULL;
    struct cl_transfer *transfer = NULL;
    device->cl.host_memory = false;
    enum status status = scan_launcher_create(&device->cl, &launcher, err);
    if (status == STATUS_OK) {
        status = cl_transfer_create(&device->cl, &transfer, err);
    }
    if (status != STATUS_OK) {
        scan_launcher_destroy(launcher);
        device->cl.host_memory = true;
        return status;
    }
    slab_wraps_drop(&device->cl);
    scan_launcher_destroy(device->launcher);
    device->launcher = launcher;
    device->transfer = transfer;
    device->cl.info.host_memory = false;
    return STATUS_OK;
}

static void note_lookback(struct scan_device *device, const char *text)
{
    char *note = device->cl.info.lookback;
    size_t length = strnlen(text, sizeof device->cl.info.lookback - 1);
    memcpy(note, text, length);
    note[length] = '\0';
}

/* Long lines of the kind go in one pass if that proves right on this device; if it does not, or
 * not for one kind, it is not used at all. */
static void try_lookback(struct scan_device *device, struct scan_kind kind)
{
    if (device->cl.lookback != SCAN_LOOKBACK_AUTO || device->lookback == LOOKBACK_FAILED) {
        return;
    }
    uint64_t usual_ns = 0;
    struct error why = ERROR_INIT;
    enum status status = scan_selftest_usual(device, kind, &usual_ns, &why);
    if (status == STATUS_OK) {
        status = scan_launcher_use_lookback(device->launcher, kind, &why);
    }
    if (status == STATUS_OK) {
        status = scan_selftest_lookback(device, kind, device->lookback == LOOKBACK_UNTRIED,
                                        usual_ns, &why);
    }
    if (status == STATUS_OK) {
        device->lookback = LOOKBACK_WORKS;
        note_lookback(device, "on");
        return;
    }
    scan_launcher_drop_lookback(device->launcher);
    device->lookback = LOOKBACK_FAILED;
    error_prefix(&why, "given up");
    note_lookback(device, why.detail);
}

/* A self-test of what runs the kind: small scans with 32-bit offsets and with wide ones. */
static enum status selftest(struct scan_device *device, struct scan_kind kind, bool *wrong,
                            struct error *err)
{
    bool wide = device->cl.wide_index;
    enum status status = scan_selftest_run(device, kind, wrong, err);
    if (status == STATUS_OK && !device->cl.built_in) {
        device->cl.wide_index = true;
        status = scan_selftest_run(device, kind, wrong, err);
        device->cl.wide_index = wide;
    }
    return status;
}

static enum status prepare_kind(struct scan_device *device, struct scan_kind kind,
                                struct error *err)
{
    bool wrong = false;
    struct error first = ERROR_INIT;
    enum status status =
        device->cl.built_in ? STATUS_OK : scan_launcher_prepare(device->launcher, kind, &first);
    if (status == STATUS_OK) {
        status = selftest(device, kind, &wrong, &first);
    }
    if (wrong && !device->verified && device->cl.host_memory) {
        struct error second = ERROR_INIT;
        if (use_transfers(device, &second) == STATUS_OK &&
            selftest(device, kind, &wrong, &second) == STATUS_OK) {
            status = STATUS_OK;
        }
    }
    if (status != STATUS_OK) {
        return error_set(err, status, "%s: %s", dtype_info(kind.dtype)->name, first.detail);
    }
    device->verified = true;
    try_lookback(device, kind);
    return STATUS_OK;
}

/* Only float32 and narrower floats know two precisions. */
static bool has_kind(struct scan_kind kind)
{
    const struct dtype_info *info = dtype_info(kind.dtype);
    return kind.precision == PRECISION_WIDE ||
           (info->kind == DTYPE_KIND_FLOAT && info->bytes <= 4);
}

enum status scan_device_prepare(struct scan_device *device, enum dtype dtype, struct error *err)
{
    enum status status = prepare_kind(device, (struct scan_kind){dtype, PRECISION_WIDE}, err);
    const struct scan_kind native = {dtype, PRECISION_NATIVE};
    if (status == STATUS_OK && has_kind(native)) {
        status = prepare_kind(device, native, err);
    }
    return status;
}

static struct scan_round make_round(struct scan_device *device, struct scan_report *report)
{
    return (struct scan_round){.device = &device->cl,
                               .launcher = device->launcher,
                               .transfer = device->transfer,
                               .report = report};
}

static struct scan_part make_part(const struct scan_job *job)
{
    return (struct scan_part){.plan = job->plan,
                              .in_slab = job->slab,
                              .out_slab = job->out_slab != NULL ? job->out_slab : job->slab,
                              .in_byte = job->in_offset,
                              .out_byte = job->out_offset,
                              .position = job->position,
                              .holes = job->holes,
                              .carry_in = job->carry != NULL && job->position > 0,
                              .carry_out = job->carry != NULL && job->more};
}

/* A job cut into boxes, and what the boxes need besides the job's own memory. */
struct cut_run {
    const struct scan_part *whole;
    struct scan_round *round;
    struct scan_cut cut;
    struct slab *rows; /* owned: elements of a gathered box */
    bool chained;      /* a slice: the carry is there, and has a row for every line */
};

static enum status run_box(struct cut_run *run, const struct scan_box *box, struct error *err)
{
    const struct scan_part *whole = run->whole;
    size_t bytes = dtype_info(box->plan.dtype)->bytes;
    struct scan_part part = {.plan = &box->plan,
                             .in_slab = whole->in_slab,
                             .out_slab = whole->out_slab,
                             .in_byte = whole->in_byte + box->in_first * bytes,
                             .out_byte = whole->out_byte + box->out_first * bytes,
                             .position = whole->position + box->position,
                             .carry_line = run->chained ? box->first_line : 0,
                             .carry_in = whole->carry_in || !box->first,
                             .carry_out = whole->carry_out || !box->last};
    if (!run->cut.gathered) {
        return scan_round_run(run->round, &part, 1, err);
    }
    unsigned char *in = slab_data(whole->in_slab);
    unsigned char *out = slab_data(whole->out_slab);
    bool intact = run->round->report->inputs_intact;
    part.in_slab = run->rows;
    part.out_slab = run->rows;
    part.in_byte = 0;
    part.out_byte = 0;
    scan_box_gather(&run->cut, box, in + whole->in_byte, slab_data(run->rows));
    enum status status = scan_round_run(run->round, &part, 1, err);
    run->round->report->inputs_intact = intact; /* it was the copy that was overwritten */
    if (status == STATUS_OK) {
        if (scan_part_in_place(whole)) {
            run->round->report->inputs_intact = false;
        }
        scan_box_scatter(&run->cut, box, slab_data(run->rows), out + whole->out_byte);
    }
    return status;
}

static enum status run_boxes(struct cut_run *run, struct error *err)
{
    struct scan_box box;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && scan_cut_next(&run->cut, &box)) {
        status = run_box(run, &box, err);
    }
    return status;
}

/* Room for the sums that the boxes of a chain hand on; `sums`: what it holds, NULL: anything.
 */
static enum status create_carry(struct cl_device *device, struct scan_round *round,
                                uint64_t lines, uint64_t *sums, struct error *err)
{
    cl_int code = CL_SUCCESS;
    cl_mem_flags flags = CL_MEM_READ_WRITE | (sums != NULL ? CL_MEM_COPY_HOST_PTR : 0);
    size_t bytes = (size_t)lines * 2 * sizeof(cl_ulong);
    CL_MAKE(round->carry, code, clCreateBuffer(device->context, flags, bytes, sums, &code));
    round->carry_lines = lines;
    enum status status = cl_check(code, "clCreateBuffer (carry)", err);
    return status == STATUS_OK && sums == NULL ? cl_poison(device, round->carry, bytes, err)
                                               : status;
}

static void release_carry(struct scan_round *round)
{
    if (round->carry != NULL) {
        (void)clReleaseMemObject(round->carry);
        round->carry = NULL;
    }
}

static enum status run_cut(struct scan_device *device, struct scan_round *round,
                           const struct scan_part *whole, struct error *err)
{
    size_t bytes = dtype_info(whole->plan->dtype)->bytes;
    uint64_t room = device->cl.alloc_limit - BOX_MARGIN;
    struct scan_cut_limits limits = {.in = room / bytes,
                                     .out = room / bytes,
                                     .gather =
                                         (room < GATHER_BYTES ? room : GATHER_BYTES) / bytes,
                                     .compact = device->transfer != NULL,
                                     .gathered = device->transfer != NULL && whole->holes};
    struct cut_run run = {.whole = whole, .round = round, .chained = round->carry != NULL};
    scan_cut_init(&run.cut, whole->plan, &limits);
    enum status status = STATUS_OK;
    if (run.cut.gathered) {
        run.rows = slab_create((size_t)(limits.gather * bytes));
        if (run.rows == NULL) {
            return error_set(err, STATUS_OUT_OF_MEMORY,
                             "no memory to copy a part of the tensor together");
        }
    }
    if (run.cut.axis < whole->plan->axis.size && !run.chained) {
        status = create_carry(&device->cl, round, scan_cut_lines(&run.cut), NULL, err);
    }
    if (status == STATUS_OK) {
        status = run_boxes(&run, err);
    }
    if (!run.chained) {
        release_carry(round);
    }
    slab_destroy(run.rows);
    return status;
}

/* As many rounds as the parts need. */
static enum status run_parts(struct scan_device *device, const struct scan_part *parts,
                             size_t count, struct scan_report *report, struct error *err)
{
    struct scan_round round = make_round(device, report);
    enum status status = STATUS_OK;
    size_t done = 0;
    while (done < count && status == STATUS_OK) {
        size_t together = count - done;
        while (together > 1 && !scan_round_fits(&round, parts + done, together)) {
            together = (together + 1) / 2;
        }
        if (scan_round_fits(&round, parts + done, together)) {
            status = scan_round_run(&round, parts + done, together, err);
        } else {
            status = run_cut(device, &round, parts + done, err);
        }
        done += together;
    }
    return status;
}

/* One slice: its lines' sums go to the device and come back. */
static enum status run_slice(struct scan_device *device, const struct scan_job *job,
                             struct scan_report *report, struct error *err)
{
    struct scan_round round = make_round(device, report);
    struct scan_part part = make_part(job);
    enum status status = create_carry(&device->cl, &round, job->plan->lines,
                                      part.carry_in ? job->carry : NULL, err);
    if (status == STATUS_OK) {
        status = scan_round_fits(&round, &part, 1) ? scan_round_run(&round, &part, 1, err)
                                                   : run_cut(device, &round, &part, err);
    }
    if (status == STATUS_OK && part.carry_out) {
        cl_int code = CL_SUCCESS;
        CL_TRY(code, clEnqueueReadBuffer(device->cl.queue, round.carry, CL_TRUE, 0,
                                         (size_t)job->plan->lines * 2 * sizeof(cl_ulong),
                                         job->carry, 0, NULL, NULL));
        status = cl_check(code, "clEnqueueReadBuffer (carry)", err);
    }
    release_carry(&round);
    return status;
}

/* Zero a part's gaps, or leave them to its launch: kernels for CPUs zero some with the results.
 */
static void settle_gaps(struct scan_device *device, struct scan_report *report,
                        struct scan_part *part)
{
    const struct scan_round round = make_round(device, report);
    part->gaps =
        device->transfer == NULL && !device->cl.gpu_kernels && scan_round_fits(&round, part, 1);
    if (!part->gaps) {
        unsigned char *data = slab_data(part->out_slab);
        scan_gaps_zero(part->plan, data + part->out_byte);
    }
}

enum status scan_device_run(struct scan_device *device, const struct scan_job *jobs,
                            size_t count, struct scan_report *report, struct error *err)
{
    enum {
        ON_STACK = 64
    };
    struct scan_part few[ON_STACK];
    struct scan_part *parts = few;
    *report = (struct scan_report){.inputs_intact = true};
    cl_fault_from_environment();
    if (jobs[0].carry != NULL) {
        return run_slice(device, jobs, report, err);
    }
    if (count > ON_STACK) {
        parts = malloc(count * sizeof *parts);
    }
    if (parts == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a batch of %zu", count);
    }
    for (size_t i = 0; i < count; i++) {
        parts[i] = make_part(&jobs[i]);
        if (jobs[i].plan->gaps) {
            settle_gaps(device, report, &parts[i]);
        }
    }
    enum status status = run_parts(device, parts, count, report, err);
    if (parts != few) {
        free(parts);
    }
    return status;
}
