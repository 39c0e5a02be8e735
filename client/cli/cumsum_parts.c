/* Sums of a tensor of any size, part by part, with the memory of two parts. A tensor with
 * strides is one part. So is a tensor in Fortran order if its result is in C order.
 *
 *   next part (a box of the tensor) -> read -> summed by the server -> written -> counted
 *
 * Two independent parts of a file are in flight at a time (tally_submit()). The sums of such a
 * part overwrite its elements in memory; before the part is repeated, its elements are read
 * again. Parts of a stream, and parts that need a carry, are summed one after the other.
 *
 * Possible failures: if the server has answered once and then cannot be reached, the part is
 * repeated until --timeout has passed. A line of text that cannot be read ends the job; the
 * sums of the lines before that line are written first. Thread: the main one, which shows the
 * progress; libtally's thread runs the callbacks of submitted parts. */
#include "client/cli/commands.h"

#include "client/cli/attributes.h"
#include "client/cli/part_sink.h"
#include "client/cli/terminal.h"
#include "proto/macros.h"
#include "proto/text.h"

#include <errno.h>
#include <inttypes.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SLOTS = 2,
    SHOW_MS = 100,
    GATHER_SHARE = 2, /* 1/2 of --flush-ms is for gathering lines, the rest for the request */
    PAUSE_MS = 200,   /* pause before a part is repeated; doubled for each further attempt */
    PAUSES_MOST = 32, /* longest pause, in units of PAUSE_MS */
    PATIENCE_S = 600  /* default of --timeout, in seconds */
};

/* A part in memory. */
struct slot {
    struct parts_job *job;
    char *input;  /* elements; borrowed from the job */
    char *output; /* sums; may be `input` */
    struct box box;
    enum tally_dtype dtype; /* type of the elements */
    bool submitted;         /* the first attempt was submitted; await_part() must be called */
    _Atomic bool running;   /* the submitted attempt is not done */
    sem_t done;             /* posted by on_done() */
    struct tally_error err; /* outcome of the last attempt; not read while running */
    _Atomic int64_t moved;  /* bytes sent and received by the last attempt */
};

struct parts_job {
    const struct settings *settings;
    struct tally *client;
    struct attributes attributes; /* attributes of the sum */
    struct attributes wider;     /* the same for float64, after a line of text needed float64 */
    bool is_wider;               /* `wider` is set */
    bool keeps_lines;            /* --columns: the result has the lines of the input */
    struct tensor sums;          /* the result */
    struct cutting sums_cutting; /* division of the result into boxes */
    struct part_source source;
    struct part_sink sink;
    struct tally_parts *parts;    /* owned: the sum of chained boxes; NULL: no chained boxes */
    enum tally_dtype parts_dtype; /* element type of `parts` */
    struct kept_lines kept;       /* lines of the box, if keeps_lines */
    char *buffers[SLOTS]; /* owned: each has room for the elements, or the sums, of a part */
    struct slot slots[SLOTS];
    uint64_t moved;             /* bytes of the elements and sums of finished parts */
    bool answered;              /* the server has answered at least once */
    _Atomic bool failed;        /* the job has failed: submitted parts are cancelled */
    bool in_order;              /* the parts must be read, or written, from first to last */
    bool whole;                 /* the tensor is one part, described by the next three lists */
    struct number_list shape;   /* sizes of the tensor */
    struct number_list strides; /* layout of the elements; count 0: contiguous */
    struct number_list output_strides; /* layout of the sums; count 0: contiguous */
};

/* ---- sums ---- */

static void show_moved(const struct parts_job *job)
{
    const uint64_t bytes = cutting_bytes(&job->source.cutting);
    const double both = (double)bytes + (double)cutting_bytes(&job->sums_cutting);
    double moved = (double)job->moved;
    for (int i = 0; i < SLOTS; i++) {
        moved += (double)job->slots[i].moved;
    }
    progress_show(moved / 2, bytes == OPEN_SIZE ? -1 : both / 2);
}

static int on_progress(void *user, int64_t sent, int64_t send_total, int64_t received,
                       int64_t receive_total)
{
    struct slot *slot = user;
    (void)send_total, (void)receive_total;
    slot->moved = sent + received;
    if (!slot->submitted) { /* this is the main thread */
        show_moved(slot->job);
    }
    return interrupted() || slot->job->failed;
}

static void on_done(void *user, const struct tally_error *result)
{
    struct slot *slot = user;
    slot->err = *result;
    slot->running = false;
    MUST(sem_post(&slot->done));
}

/* Return a scan with the attributes of the slot's element type. `sizes` must outlive the
 * scan. */
static struct tally_scan scan_of(struct slot *slot, const int64_t sizes[3])
{
    const struct parts_job *job = slot->job;
    const bool same = slot->dtype == job->source.tensor.dtype;
    struct tally_scan scan =
        attributes_scan(same ? &job->attributes : &job->wider, 3, sizes, 1);
    scan.deadline_ms = (int64_t)(job->settings->deadline_s * 1000);
    scan.progress = on_progress;
    scan.progress_user = slot;
    return scan;
}

/* Set the shape, layout and axis of a tensor that is one part. */
static void describe_whole(const struct parts_job *job, struct tally_scan *scan)
{
    scan->rank = job->shape.count;
    scan->sizes = job->shape.numbers;
    scan->strides = job->strides.count > 0 ? job->strides.numbers : NULL;
    scan->output_strides = job->output_strides.count > 0 ? job->output_strides.numbers : NULL;
    scan->axis = job->settings->axis;
}

/* Return whether to repeat a part. The server must have answered before; now it cannot be
 * reached, or a proxy cannot reach it (502). The first attempt is an exception: its connection
 * may have broken in the middle of the answer, and libtally does not repeat a request whose
 * answer overwrites the elements. */
static bool worth_waiting(const struct parts_job *job, const struct tally_error *err,
                          int64_t since_ns, bool first)
{
    const double patience =
        job->settings->timeout_s > 0 ? job->settings->timeout_s : (double)PATIENCE_S;
    const bool unreachable = err->status == TALLY_CONNECT ||
                             err->status == TALLY_CONNECTION_LOST ||
                             err->status == TALLY_BUSY || err->http_status == 502;
    const bool was_reached = job->answered || (first && err->status == TALLY_CONNECTION_LOST);
    return unreachable && was_reached && job->settings->retries != 0 && !interrupted() &&
           (double)(now_ns() - since_ns) / 1e9 < patience;
}

/* Wait until a submitted part is done, showing the progress. Returns its status. */
static enum tally_status await_part(struct slot *slot)
{
    while (slot->running) {
        const int64_t until_ns = now_ns() + SHOW_MS * 1000000L;
        const struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
        (void)sem_clockwait(&slot->done, CLOCK_MONOTONIC, &until); /* for SHOW_MS at most */
        show_moved(slot->job);
    }
    slot->submitted = false;
    return slot->err.status;
}

/* Sum `count` elements along the axis; for chained boxes, after the carry of job->parts. The
 * first attempt may already be submitted. The request is repeated as long as worth_waiting()
 * allows. Returns EXIT_DONE, or an exit status after complaining. */
static int sum_elements(struct slot *slot, const struct tally_scan *scan, int64_t count,
                        char *input, char *output)
{
    struct parts_job *job = slot->job;
    struct tally_error *err = &slot->err;
    const int64_t start_ns = now_ns();
    int pauses = 1;
    for (bool first = true;; first = false) {
        const enum tally_status status =
            slot->submitted      ? await_part(slot)
            : job->parts != NULL ? tally_parts_next(job->parts, count, input, output, err)
                                 : tally_cumsum(job->client, scan, input, output, err);
        if (status == TALLY_OK) {
            job->answered = true;
            return EXIT_DONE;
        }
        if (!worth_waiting(job, err, start_ns, first)) {
            break;
        }
        for (int i = 0; i < pauses && !interrupted(); i++) {
            const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
            (void)nanosleep(&pause, NULL);
        }
        pauses = pauses < PAUSES_MOST ? 2 * pauses : PAUSES_MOST;
        if (output == input && part_source_read(&job->source, &slot->box, input) != EXIT_DONE) {
            return EXIT_LOCAL;
        }
    }
    return interrupted() ? complain(EXIT_INTERRUPTED, "interrupted") : complain_error(err);
}

/* Continue an int64 sum of chained boxes as a float64 sum. First a row of zeros is summed: the
 * server answers with the int64 sums so far. Then two float64 rows are summed as the beginning
 * of the new sum: the high and the low 32 bits of these integers. float64 represents both
 * exactly. */
static int widen_parts(struct slot *slot)
{
    struct parts_job *job = slot->job;
    const size_t columns = job->source.cutting.inner;
    const int64_t sizes[3] = {1, 0, (int64_t)columns};
    const struct tally_scan scan = scan_of(slot, sizes);
    struct tally_scan rest =
        scan; /* without the initial value, which the sums so far include */
    struct tally_error err;
    rest.initial = NULL;
    rest.include_initial = 0;
    int64_t *sums = calloc(2 * columns, sizeof *sums); /* a row of zeros, and their sums */
    double *halves = calloc(2 * columns, sizeof *halves);
    double *unused = calloc(2 * columns, sizeof *unused);
    int status = EXIT_LOCAL;
    if (sums == NULL || halves == NULL || unused == NULL) {
        (void)complain_no_memory();
    } else {
        status = sum_elements(slot, &scan, 1, (char *)sums, (char *)(sums + columns));
    }
    for (size_t i = 0; status == EXIT_DONE && i < columns; i++) {
        const int64_t sum = sums[columns + i];
        halves[i] = (double)(sum & ~INT64_C(0xFFFFFFFF));
        halves[columns + i] = (double)(sum & INT64_C(0xFFFFFFFF));
    }
    if (status == EXIT_DONE) {
        tally_parts_close(job->parts);
        job->parts = tally_parts_open(job->client, &rest, &err);
        job->parts_dtype = slot->dtype;
        status = job->parts != NULL
                     ? sum_elements(slot, &rest, 2, (char *)halves, (char *)unused)
                     : complain_error(&err);
    }
    free(sums);
    free(halves);
    free(unused);
    return status;
}

/* ---- parts ---- */

/* Read the next box to a slot; slot->box.outers is 0 at the end. Opens the sum of the first
 * chained box of each line, and widens the sum if the text now has float64. */
static int read_next(struct slot *slot)
{
    struct parts_job *job = slot->job;
    struct tally_error err;
    const int64_t sizes[3] = {1, 0, (int64_t)job->source.cutting.inner};
    job->kept.count = 0;
    STEP(part_source_read_next(&job->source, &slot->box, slot->input,
                               job->keeps_lines ? &job->kept : NULL, &slot->dtype));
    if (slot->dtype != job->source.tensor.dtype && !job->is_wider) {
        STEP(attributes_read(job->settings, slot->dtype, &job->wider));
        job->is_wider = true;
    }
    if (!job->source.cutting.chained || slot->box.outers == 0) {
        return EXIT_DONE;
    }
    if (!slot->box.first) {
        return slot->dtype != job->parts_dtype ? widen_parts(slot) : EXIT_DONE;
    }
    const struct tally_scan scan = scan_of(slot, sizes);
    tally_parts_close(job->parts);
    job->parts = tally_parts_open(job->client, &scan, &err);
    job->parts_dtype = slot->dtype;
    return job->parts != NULL ? EXIT_DONE : complain_error(&err);
}

/* Return the scan of the part in a slot. The sizes are stored in `sizes`, which must outlive
 * the scan. */
static struct tally_scan scan_of_part(struct slot *slot, int64_t sizes[3])
{
    const struct parts_job *job = slot->job;
    sizes[0] = (int64_t)slot->box.outers;
    sizes[1] = (int64_t)slot->box.count;
    sizes[2] = (int64_t)job->source.cutting.inner;
    struct tally_scan scan = scan_of(slot, sizes);
    if (job->whole) {
        describe_whole(job, &scan);
    }
    return scan;
}

/* Submit a part. If libtally refuses the call, finish_part() sums the part. */
static void submit_part(struct slot *slot)
{
    int64_t sizes[3];
    const struct tally_scan scan = scan_of_part(slot, sizes);
    slot->submitted = true;
    slot->running = true;
    if (tally_submit(slot->job->client, &scan, slot->input, slot->output,
                     (struct tally_done){on_done, slot}, NULL) != TALLY_OK) {
        slot->submitted = false;
        slot->running = false;
    }
}

/* Sum a part, or wait for the submitted sum, and write the sums. */
static int finish_part(struct slot *slot)
{
    struct parts_job *job = slot->job;
    int64_t sizes[3];
    const struct tally_scan scan = scan_of_part(slot, sizes);
    const struct box sums = job->whole
                                ? (struct box){.outers = 1, .count = job->sums_cutting.length}
                                : box_of_sums(&job->source.cutting, &slot->box);
    STEP(sum_elements(slot, &scan, sizes[1], slot->input, slot->output));
    slot->moved = 0;
    job->moved +=
        box_bytes(&job->source.cutting, &slot->box) + box_bytes(&job->sums_cutting, &sums);
    return part_sink_write(&job->sink, &sums,
                           slot->dtype == job->source.tensor.dtype ? job->sums.dtype
                                                                   : job->wider.sums,
                           slot->output, job->keeps_lines ? job->kept.bytes : NULL);
}

/* Sum independent parts of a file. Part i uses slot i % 2. While the server sums one part, this
 * thread writes the sums of the previous part and reads the next part. */
static int sum_pairs(struct parts_job *job)
{
    for (uint64_t i = 0;; i++) {
        struct slot *slot = &job->slots[i % SLOTS];
        const int status = read_next(slot);
        const bool more = status == EXIT_DONE && slot->box.outers > 0;
        if (more) {
            submit_part(slot);
        }
        STEP(i > 0 ? finish_part(&job->slots[(i - 1) % SLOTS]) : EXIT_DONE);
        if (!more) {
            return status;
        }
    }
}

/* Sum parts one after the other. */
static int sum_parts(struct parts_job *job)
{
    struct slot *slot = &job->slots[0];
    for (;;) {
        STEP(read_next(slot));
        if (slot->box.outers == 0) {
            return EXIT_DONE;
        }
        STEP(finish_part(slot));
    }
}

static int run_job(struct parts_job *job)
{
    const struct cutting *cutting = &job->source.cutting;
    const uint64_t room =
        job->whole ? larger_of(cutting_bytes(cutting), cutting_bytes(&job->sums_cutting))
                   : cutting_room(cutting, job->sums_cutting.element_bytes);
    const bool paired = !job->source.bytes->stream && !job->whole && !cutting->chained &&
                        cutting->outer > cutting->outer_step;
    for (int i = 0; i < SLOTS; i++) {
        job->buffers[i] = malloc(room + 1);
        if (job->buffers[i] == NULL) {
            return complain(EXIT_LOCAL,
                            job->settings->offsets != NULL
                                ? "out of memory: an axis with offsets is one part, "
                                  "whatever --part-bytes is"
                                : "out of memory: use smaller --part-bytes");
        }
        job->slots[i].job = job;
        job->slots[i].dtype = job->source.tensor.dtype;
        job->slots[i].input = job->buffers[i];
        job->slots[i].output = job->buffers[i];
    }
    job->slots[0].output = job->buffers[paired ? 0 : 1];
    progress_begin(job->settings->quiet);
    const int status = paired ? sum_pairs(job) : sum_parts(job);
    job->failed = status != EXIT_DONE;
    (void)tally_wait(job->client, -1); /* after a failure another part may be in flight */
    progress_end();
    return status;
}

/* Refuse --reverse if the axis is cut and the input or output can only be used from first to
 * last: a reversed sum begins with the last part. */
static int check_direction(const struct parts_job *job)
{
    const struct settings *settings = job->settings;
    const struct cutting *cutting = &job->source.cutting;
    if (job->in_order && settings->reverse && cutting->chained) {
        return complain(
            EXIT_USAGE,
            job->source.is_text
                ? "--reverse sums from the end, and text is read from its start: turn the "
                  "lines round before and after, tac FILE | tally cumsum ... | tac, or give an "
                  "NPY or raw file"
                : "--reverse sums from the end, and a line is larger than a part: that "
                  "needs a file as input and as output (-o FILE)");
    }
    return EXIT_DONE;
}

/* Describe a tensor in Fortran order by its shape in C order, and strides. */
static void shape_in_c_order(struct parts_job *job)
{
    struct tensor *tensor = &job->source.tensor;
    const struct number_list reversed = tensor->shape;
    const int last = reversed.count - 1;
    int64_t stride = 1;
    job->strides.count = reversed.count;
    for (int i = 0; i <= last; i++) {
        tensor->shape.numbers[i] = reversed.numbers[last - i];
        job->strides.numbers[i] = stride;
        if (__builtin_mul_overflow(stride, tensor->shape.numbers[i], &stride)) {
            stride = 0; /* possible for an empty tensor only: files have less than 2^63 bytes */
        }
    }
    tensor->fortran_order = false;
}

/* Check that a list of strides is absent, or has a number for each dimension. */
static int check_strides(const struct parts_job *job, const char *option,
                         const struct number_list *strides)
{
    const int rank = job->shape.count;
    return strides->count == 0 || strides->count == rank
               ? EXIT_DONE
               : complain(EXIT_USAGE,
                          "--%s has %d number%s, and the shape has %d: expected as many",
                          option, strides->count, strides->count == 1 ? "" : "s", rank);
}

/* Describe a tensor that is one part, and its result. Both are read and written as flat arrays;
 * the strides are in the scan. The input must have exactly the bytes that the strides cover;
 * JSON may have more. */
static int open_whole(struct parts_job *job, enum format input)
{
    struct tensor *tensor = &job->source.tensor;
    const size_t element = tally_dtype_bytes(tensor->dtype);
    const uint64_t found = job->source.bytes->bytes - tensor->data_offset;
    uint64_t bytes = 0;
    uint64_t sum_bytes = 0;
    struct tally_error err;
    job->shape = tensor->shape;
    STEP(check_strides(job, "strides", &job->strides));
    STEP(check_strides(job, "output-strides", &job->output_strides));
    struct tally_scan scan = job->attributes.scan;
    describe_whole(job, &scan);
    if (tally_scan_bytes(&scan, &bytes, &sum_bytes, &err) != TALLY_OK) {
        return complain_error(&err);
    }
    if (found < bytes || (found > bytes && input != FORMAT_JSON)) {
        return complain(EXIT_USAGE,
                        "%s has %" PRIu64 " bytes of %s, and shape and strides make %" PRIu64,
                        job->source.bytes->name, found, tally_dtype_name(tensor->dtype), bytes);
    }
    const size_t sum = tally_dtype_bytes(job->sums.dtype);
    job->source.cutting = cutting_of_flat(bytes / element, element);
    job->sums_cutting = cutting_of_flat(sum_bytes / sum, sum);
    if (job->output_strides.count > 0) { /* the result is a flat array of sums and gaps */
        job->sums.shape =
            (struct number_list){.count = 1, .numbers = {(int64_t)(sum_bytes / sum)}};
    }
    return EXIT_DONE;
}

/* Set the size of an open axis to the last offset, or to 0 for text without a line. libtally
 * compares the offsets with the size of the axis, which must be known. */
static void close_axis(struct parts_job *job, int64_t axis)
{
    const struct tally_scan *scan = &job->attributes.scan;
    int64_t *size = &job->source.tensor.shape.numbers[axis];
    if (*size < 0 && scan->offset_count > 0) {
        const bool empty = job->source.is_text && job->source.text.columns == 0;
        const int64_t last = scan->offsets[scan->offset_count - 1];
        *size = empty || last < 0 ? 0 : last;
    }
}

/* Read the attributes, and set the type and shape of the result. `axis` is the dimension in the
 * order of the file. Refuses attributes that the format of the result does not allow. */
static int describe_sums(struct parts_job *job, int64_t axis, enum format output)
{
    const struct settings *settings = job->settings;
    const struct tensor *tensor = &job->source.tensor;
    struct tally_error err;
    int64_t sizes[TALLY_MAX_RANK];
    STEP(attributes_read(settings, tensor->dtype, &job->attributes));
    close_axis(job, axis);
    for (int i = 0; i < tensor->shape.count; i++) {
        sizes[i] = tensor->shape.numbers[i] < 0 ? 0 : tensor->shape.numbers[i];
    }
    const struct tally_scan scan =
        attributes_scan(&job->attributes, tensor->shape.count, sizes, axis);
    if (tally_scan_bytes(&scan, NULL, NULL, &err) != TALLY_OK) {
        return complain_error(&err);
    }
    job->sums = *tensor;
    job->sums.dtype = job->attributes.sums;
    if (tensor->shape.numbers[axis] >= 0) {
        job->sums.shape.numbers[axis] += (int64_t)attributes_extra_sums(&job->attributes);
    }
    if (!format_is_text(output) || !settings->include_initial) {
        return EXIT_DONE;
    }
    if (job->source.text.header != NULL && axis > 0) {
        return complain(EXIT_USAGE,
                        "the header has one name for each column, and --include-initial makes "
                        "one column more: leave it out, or give --axis 0");
    }
    if (settings->columns != NULL) {
        return complain(EXIT_USAGE,
                        "--columns passes on the other columns of each row, and "
                        "--include-initial makes one sum more, which has none: leave one of "
                        "them out, or give --output-format json");
    }
    return EXIT_DONE;
}

/* Determine the type and shape of the input, and whether the tensor must be one part. Sets
 * *flat if the input is a JSON array that is not nested. */
static int open_tensor(struct parts_job *job, enum format input, enum format output, bool *flat)
{
    const struct settings *settings = job->settings;
    struct source *bytes = job->source.bytes;
    struct tensor *tensor = &job->source.tensor;
    job->strides = settings->strides;
    job->output_strides = settings->output_strides;
    job->whole = settings_have_strides(settings);
    STEP(format_is_text(input)  ? tensor_of_text(settings, input == FORMAT_CSV, &job->source)
         : input == FORMAT_NPY  ? tensor_of_npy(bytes, tensor)
         : input == FORMAT_JSON ? tensor_of_json(settings, bytes, tensor, flat)
                                : tensor_of_raw(settings, bytes, tensor));
    if (tensor->fortran_order && output != FORMAT_NPY) {
        if (bytes->stream) {
            STEP(source_load(bytes));
            STEP(tensor_of_npy(bytes, tensor)); /* a second time: now the length is known */
        }
        job->whole = true;
        shape_in_c_order(job);
    } else if (input == FORMAT_NPY && bytes->stream) { /* the header is consumed */
        source_drop(bytes, (size_t)tensor->data_offset);
    }
    return EXIT_DONE;
}

static int open_job(struct parts_job *job, enum format input, enum format output)
{
    const struct settings *settings = job->settings;
    struct tensor *tensor = &job->source.tensor;
    bool flat = false;
    STEP(open_tensor(job, input, output, &flat));
    int rank = tensor->shape.count;
    int64_t axis = settings->axis < 0 ? settings->axis + rank : settings->axis;
    if (axis < 0 || axis >= rank) {
        return complain(EXIT_USAGE,
                        "--axis %" PRId64 ": the tensor has %d dimension%s, expected %d to %d",
                        settings->axis, rank, rank == 1 ? "" : "s", -rank, rank - 1);
    }
    if (job->output_strides.count > 0 && format_is_text(output)) {
        return complain(EXIT_USAGE, "a result with output strides becomes json, npy or raw: "
                                    "rows of text have no gaps");
    }
    job->in_order = job->source.bytes->stream || part_sink_in_order(output, settings->output);
    if (tensor->fortran_order) {
        axis = rank - 1 - axis;
    }
    STEP(describe_sums(job, axis, output));
    const struct cutting_terms terms = {.axis = axis,
                                        .reverse = settings->reverse,
                                        .whole_lines = settings->offsets != NULL,
                                        .extra = attributes_extra_sums(&job->attributes),
                                        .sum_bytes = tally_dtype_bytes(job->sums.dtype),
                                        .part_bytes = (uint64_t)settings->part_bytes};
    if (job->whole) {
        STEP(open_whole(job, input));
    } else {
        job->source.cutting = cutting_of(tensor, &terms);
        job->sums_cutting = cutting_of_sums(&job->source.cutting, terms.sum_bytes);
    }
    const bool at_once = settings->offsets != NULL && axis == 0;
    job->source.gather_ms = at_once ? -1 : (int)settings->flush_ms / GATHER_SHARE;
    job->sink.cutting = &job->sums_cutting;
    if (flat && output == FORMAT_JSON) { /* a flat array has a flat result despite --shape */
        const uint64_t count = cutting_bytes(&job->sums_cutting) / terms.sum_bytes;
        job->sums.shape = (struct number_list){.count = 1, .numbers = {(int64_t)count}};
    }
    if (format_is_text(input)) {
        struct text_reader *text = &job->source.text;
        job->sink.reader = text;
        job->keeps_lines = format_is_text(output) && text->chosen != NULL;
        text->undecided =
            text->undecided && !format_is_binary(output); /* binary results have one type */
        text->kept_most = terms.whole_lines ? SIZE_MAX : text->kept_most;
    }
    STEP(check_direction(job));
    STEP(part_sink_open(&job->sink, settings, output, &job->sums));
    return part_sink_begin(&job->sink);
}

int cumsum_parts(const struct settings *settings, struct tally *client, struct source *source,
                 enum format input, enum format output)
{
    struct parts_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return complain_no_memory();
    }
    job->settings = settings;
    job->client = client;
    job->source.bytes = source;
    for (int i = 0; i < SLOTS; i++) {
        MUST(sem_init(&job->slots[i].done, 0, 0));
    }
    int status = open_job(job, input, output);
    /* With offsets an empty tensor is read, too: the stream must have ended. */
    const bool to_check = settings->offsets != NULL && source->stream;
    if (status == EXIT_DONE && (to_check || cutting_bytes(&job->sums_cutting) > 0)) {
        status = run_job(job);
    }
    if (status == EXIT_USAGE) {
        part_sink_cut(&job->sink);
    } else if (status == EXIT_DONE) {
        const bool along = job->source.cutting.length == OPEN_SIZE;
        const struct box *end = &job->source.next;
        status = part_sink_finish(&job->sink,
                                  along ? end->at + settings->include_initial : end->outer);
    }
    part_sink_close(&job->sink);
    text_reader_close(&job->source.text);
    tally_parts_close(job->parts);
    free(job->kept.bytes);
    for (int i = 0; i < SLOTS; i++) {
        MUST(sem_destroy(&job->slots[i].done));
        free(job->buffers[i]);
    }
    free(job);
    return status;
}
