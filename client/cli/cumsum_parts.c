/* Sums of a tensor of any size, part by part, by two threads with the memory of one part each:
 *
 *   next part (a box of the tensor) -> read -> summed by the server -> written -> counted
 *
 * A thread sums a lane of parts that depend on each other, then the next lane. A stream is read and
 * written in its order: then one thread sums a lane of several parts. The sums of a file overwrite
 * its elements in memory; the elements are read again before a part is repeated.
 *
 * Possible failures: while the server is not reached after it has answered once, a part is repeated
 * until --timeout has passed. A line of text that cannot be read ends the job after the sums of the
 * lines before it are written. The main thread shows the progress. */
#include "client/cli/commands.h"

#include "client/cli/attributes.h"
#include "client/cli/part_sink.h"
#include "client/cli/terminal.h"
#include "proto/macros.h"
#include "proto/text.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
    WORKERS = 2,
    SHOW_MS = 100,
    GATHER_SHARE = 2, /* part of --flush-ms for gathering; the rest is for the request */
    HUGE_PAGE = 2 << 20,
    PAUSE_MS = 200,   /* before the first repetition of a part; doubled for each further one */
    PAUSES_MOST = 32, /* longest pause, in PAUSE_MS */
    PATIENCE_S = 600
};

struct worker {
    struct parts_job *job;
    pthread_t thread;
    char *input;               /* owned: elements of a part */
    char *output;              /* owned: sums of a part; may be `input` */
    struct tally_parts *parts; /* owned: the sum of the lane; NULL: the lane is one box */
    uint64_t lane;             /* lane of a file */
    uint64_t step;             /* boxes of this lane read so far; 0: the next lane is due */
    struct box box;
    enum tally_dtype dtype;       /* of the elements of the box */
    enum tally_dtype parts_dtype; /* of the elements of `parts` */
    struct kept_lines kept;       /* of text: the lines of the box, if the sink needs them */
    _Atomic int64_t moved;        /* bytes of the box, both ways */
};

struct parts_job {
    const struct settings *settings;
    struct tally *client;
    struct attributes attributes; /* of the sum */
    struct attributes wider;      /* of the sum after text became float64; guarded by reading */
    bool is_wider;                /* `wider` is set; guarded by reading */
    bool keeps_lines;             /* the result has the lines of the input, with sums in them */
    struct tensor sums;           /* the result */
    struct cutting sums_cutting;  /* of the result */
    struct part_source source;    /* a stream is guarded by reading */
    struct part_sink sink;        /* if in_order: used by the worker whose part is next */
    uint64_t next_lane;           /* lanes of a file claimed so far; guarded by lock */
    bool in_order;
    bool reordered;                  /* Fortran order becomes C order: the tensor is one part */
    int64_t strides[TALLY_MAX_RANK]; /* of the input, if reordered */
    pthread_mutex_t reading;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t written;      /* outer indices written, in order; guarded by lock */
    int running;           /* number of running workers; guarded by lock */
    uint64_t moved;        /* bytes of finished parts, both ways; guarded by lock */
    _Atomic bool answered; /* the server has answered at least once */
    _Atomic int status;    /* exit status of the first failure */
};

/* End the job after the first failure, which has been complained about. */
static void fail_job(struct parts_job *job, int status)
{
    int none = EXIT_DONE;
    (void)atomic_compare_exchange_strong(&job->status, &none, status);
    MUST(pthread_mutex_lock(&job->lock));
    MUST(pthread_cond_broadcast(&job->changed));
    MUST(pthread_mutex_unlock(&job->lock));
}

/* ---- sums ---- */

static int on_progress(void *user, int64_t sent, int64_t send_total, int64_t received,
                       int64_t receive_total)
{
    struct worker *worker = user;
    (void)send_total;
    (void)receive_total;
    worker->moved = sent + received;
    return interrupted() || worker->job->status != EXIT_DONE;
}

static struct tally_scan scan_of(struct worker *worker, const int64_t sizes[3])
{
    const struct parts_job *job = worker->job;
    const bool same = worker->dtype == job->source.tensor.dtype;
    struct tally_scan scan =
        attributes_scan(same ? &job->attributes : &job->wider, 3, sizes, 1);
    scan.deadline_ms = (int64_t)(job->settings->deadline_s * 1000);
    scan.progress = on_progress;
    scan.progress_user = worker;
    return scan;
}

/* Whether to repeat a part: the server has answered before and is not reached now, or a proxy
 * reports that (502). A connection that broke during the very first attempt may have broken inside
 * the answer; libtally does not retry that, since the answer overwrites the elements. */
static bool worth_waiting(const struct parts_job *job, const struct tally_error *err,
                          int64_t since_ns, bool first)
{
    double patience =
        job->settings->timeout_s > 0 ? job->settings->timeout_s : (double)PATIENCE_S;
    bool away = err->status == TALLY_CONNECT || err->status == TALLY_CONNECTION_LOST ||
                err->status == TALLY_BUSY || err->http_status == 502;
    bool there = job->answered || (first && err->status == TALLY_CONNECTION_LOST);
    return away && there && job->settings->retries != 0 && !interrupted() &&
           job->status == EXIT_DONE && (double)(now_ns() - since_ns) / 1e9 < patience;
}

/* Have `count` elements along the axis summed, in the carry of the worker's lane if the lane has
 * one. While the server does not answer, the request is repeated. */
static int sum_elements(struct worker *worker, const struct tally_scan *scan, int64_t count,
                        char *input, char *output)
{
    struct parts_job *job = worker->job;
    int64_t start_ns = now_ns();
    struct tally_error err;
    int pauses = 1;
    for (bool first = true;; first = false) {
        enum tally_status status =
            worker->parts != NULL ? tally_parts_next(worker->parts, count, input, output, &err)
                                  : tally_cumsum(job->client, scan, input, output, &err);
        if (status == TALLY_OK) {
            job->answered = true;
            return EXIT_DONE;
        }
        if (!worth_waiting(job, &err, start_ns, first)) {
            break;
        }
        for (int i = 0; i < pauses && !interrupted() && job->status == EXIT_DONE; i++) {
            struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
            (void)nanosleep(&pause, NULL);
        }
        pauses = pauses < PAUSES_MOST ? 2 * pauses : PAUSES_MOST;
        if (output == input &&
            part_source_read(&job->source, &worker->box, input) != EXIT_DONE) {
            return EXIT_LOCAL;
        }
    }
    return interrupted() ? complain(EXIT_INTERRUPTED, "interrupted") : complain_error(&err);
}

static int sum_box(struct worker *worker)
{
    struct parts_job *job = worker->job;
    const struct box *box = &worker->box;
    const int64_t sizes[3] = {(int64_t)box->outers, (int64_t)box->count, (int64_t)box->columns};
    struct tally_scan scan = scan_of(worker, sizes);
    if (job->reordered) {
        const struct number_list *shape = &job->source.tensor.shape;
        scan.rank = shape->count;
        scan.sizes = shape->numbers;
        scan.strides = job->strides;
        scan.axis = job->settings->axis;
    }
    return sum_elements(worker, &scan, sizes[1], worker->input, worker->output);
}

/* Replace the lane's int64 sums by float64 sums. The sums so far, which are what a row of zeros
 * sums up to, enter the new sum in parts as two rows: the high and the low halves of the integers,
 * which float64 holds exactly. */
static int widen_lane(struct worker *worker)
{
    const size_t columns = worker->box.columns;
    const int64_t sizes[3] = {1, 0, (int64_t)columns};
    const struct tally_scan scan = scan_of(worker, sizes);
    struct tally_scan rest = scan; /* the initial value is in the sums so far */
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
        status = sum_elements(worker, &scan, 1, (char *)sums, (char *)(sums + columns));
    }
    for (size_t i = 0; status == EXIT_DONE && i < columns; i++) {
        const int64_t sum = sums[columns + i];
        halves[i] = (double)(sum & ~INT64_C(0xFFFFFFFF));
        halves[columns + i] = (double)(sum & INT64_C(0xFFFFFFFF));
    }
    if (status == EXIT_DONE) {
        tally_parts_close(worker->parts);
        worker->parts = tally_parts_open(worker->job->client, &rest, &err);
        worker->parts_dtype = worker->dtype;
        status = worker->parts != NULL
                     ? sum_elements(worker, &rest, 2, (char *)halves, (char *)unused)
                     : complain_error(&err);
    }
    free(sums);
    free(halves);
    free(unused);
    return status;
}

/* ---- parts ---- */

/* Open a sum in parts for the lane, unless the lane is a single box. */
static int begin_lane(struct worker *worker)
{
    struct parts_job *job = worker->job;
    const struct cutting *cutting = &job->source.cutting;
    struct tally_error err;
    tally_parts_close(worker->parts);
    worker->parts = NULL;
    if (cutting->steps == 1) {
        return EXIT_DONE;
    }
    struct box box = cutting_box(cutting, worker->lane, 0);
    const int64_t sizes[3] = {1, 0, (int64_t)box.columns};
    struct tally_scan scan = scan_of(worker, sizes);
    worker->parts = tally_parts_open(job->client, &scan, &err);
    worker->parts_dtype = worker->dtype;
    return worker->parts != NULL ? EXIT_DONE : complain_error(&err);
}

/* Claim the next lane of a file. Returns false if there is none. */
static bool claim_lane(struct worker *worker)
{
    struct parts_job *job = worker->job;
    MUST(pthread_mutex_lock(&job->lock));
    const bool found = job->next_lane < job->source.cutting.lanes;
    worker->lane = job->next_lane;
    job->next_lane += found;
    MUST(pthread_mutex_unlock(&job->lock));
    return found;
}

/* Read the next box of a file. worker->box.outers is 0 if there is none. */
static int read_next_of_file(struct worker *worker)
{
    struct parts_job *job = worker->job;
    const struct cutting *cutting = &job->source.cutting;
    worker->box.outers = 0;
    if (worker->step == 0) {
        if (!claim_lane(worker)) {
            return EXIT_DONE;
        }
        STEP(begin_lane(worker));
    }
    worker->box = cutting_box(cutting, worker->lane, worker->step);
    worker->step = (worker->step + 1) % cutting->steps;
    return part_source_read(&job->source, &worker->box, worker->input);
}

/* Read the next box of a stream. worker->box.outers is 0 if there is none. */
static int read_next_of_stream(struct worker *worker)
{
    struct parts_job *job = worker->job;
    const struct cutting *cutting = &job->source.cutting;
    MUST(pthread_mutex_lock(&job->reading));
    worker->kept.count = 0;
    int status = part_source_read_next(&job->source, &worker->box, worker->input,
                                       job->keeps_lines ? &worker->kept : NULL, &worker->dtype);
    if (status == EXIT_DONE && worker->dtype != job->source.tensor.dtype && !job->is_wider) {
        status = attributes_read(job->settings, &worker->dtype, &job->wider);
        job->is_wider = true;
    }
    MUST(pthread_mutex_unlock(&job->reading));
    if (status != EXIT_DONE || cutting->steps == 1 || worker->box.outers == 0) {
        return status;
    }
    if (worker->box.at == 0) {
        return begin_lane(worker);
    }
    return worker->dtype != worker->parts_dtype ? widen_lane(worker) : EXIT_DONE;
}

/* ---- the result ---- */

/* Wait until all parts before the worker's part are written, if the result is in order. Returns
 * false if the job has failed. */
static bool wait_for_turn(struct worker *worker)
{
    struct parts_job *job = worker->job;
    MUST(pthread_mutex_lock(&job->lock));
    while (job->in_order && job->written < worker->box.outer && job->status == EXIT_DONE) {
        MUST(pthread_cond_wait(&job->changed, &job->lock));
    }
    MUST(pthread_mutex_unlock(&job->lock));
    return job->status == EXIT_DONE;
}

/* Count a part whose sums are written, and let the next part in order be written. */
static void count_part(struct worker *worker)
{
    struct parts_job *job = worker->job;
    MUST(pthread_mutex_lock(&job->lock));
    const struct box sums = box_of_sums(&job->source.cutting, &worker->box);
    job->moved +=
        box_bytes(&job->source.cutting, &worker->box) + box_bytes(&job->sums_cutting, &sums);
    worker->moved = 0;
    job->written = worker->box.outer + worker->box.outers;
    MUST(pthread_cond_broadcast(&job->changed));
    MUST(pthread_mutex_unlock(&job->lock));
}

static void *worker_main(void *user)
{
    struct worker *worker = user;
    struct parts_job *job = worker->job;
    int status = EXIT_DONE;
    while (status == EXIT_DONE && job->status == EXIT_DONE) {
        const bool stream = job->source.bytes->stream;
        status = stream ? read_next_of_stream(worker) : read_next_of_file(worker);
        if (status != EXIT_DONE && stream) { /* the good rows before a bad one are written */
            (void)wait_for_turn(worker);
        }
        if (status != EXIT_DONE || worker->box.outers == 0) {
            break;
        }
        status = sum_box(worker);
        if (status == EXIT_DONE && wait_for_turn(worker)) {
            const struct box sums = box_of_sums(&job->source.cutting, &worker->box);
            const enum tally_dtype dtype =
                worker->dtype == job->source.tensor.dtype ? job->sums.dtype : job->wider.sums;
            status = part_sink_write(&job->sink, &sums, dtype, worker->output,
                                     job->keeps_lines ? worker->kept.bytes : NULL);
            count_part(worker);
        }
    }
    if (status != EXIT_DONE) {
        fail_job(job, status);
    }
    MUST(pthread_mutex_lock(&job->lock));
    job->running--;
    MUST(pthread_cond_broadcast(&job->changed));
    MUST(pthread_mutex_unlock(&job->lock));
    return NULL;
}

/* ---- the job ---- */

/* Wait for the started workers, and show their progress. */
static void watch_workers(struct parts_job *job, struct worker *workers, int started)
{
    uint64_t bytes = cutting_bytes(&job->source.cutting);
    double both = (double)bytes + (double)cutting_bytes(&job->sums_cutting);
    double total = bytes == OPEN_SIZE ? -1 : both / 2;
    MUST(pthread_mutex_lock(&job->lock));
    while (job->running > 0) {
        int64_t until_ns = now_ns() + SHOW_MS * 1000000L;
        struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
        int waited = pthread_cond_clockwait(&job->changed, &job->lock, CLOCK_MONOTONIC, &until);
        MUST(waited == ETIMEDOUT ? 0 : waited);
        double moved = (double)job->moved;
        for (int i = 0; i < WORKERS; i++) {
            moved += (double)workers[i].moved;
        }
        progress_show(moved / 2, total);
        for (int i = 0; interrupted() && i < started; i++) {
            wake_thread(workers[i].thread); /* the worker may wait for the reader of a pipe */
        }
    }
    MUST(pthread_mutex_unlock(&job->lock));
}

/* Allocate the buffers of a worker. Returns false without memory. Huge pages, where the system has
 * them, are cleared in a third of the time of small ones. */
static bool have_buffers(struct worker *worker, uint64_t bytes)
{
    const struct parts_job *job = worker->job;
    const bool in_place = !job->source.bytes->stream && !job->reordered;
    const uint64_t whole = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    worker->input = aligned_alloc(HUGE_PAGE, whole);
    worker->output = in_place ? worker->input : aligned_alloc(HUGE_PAGE, whole);
    if (worker->input == NULL || worker->output == NULL) {
        return false;
    }
    if (bytes >= HUGE_PAGE) {
        (void)madvise(worker->input, whole, MADV_HUGEPAGE);
        (void)madvise(worker->output, whole, MADV_HUGEPAGE);
    }
    return true;
}

static int run_workers(struct parts_job *job)
{
    const struct cutting *cutting = &job->source.cutting;
    struct worker workers[WORKERS];
    uint64_t most = cutting_room(cutting, job->sums_cutting.element_bytes);
    bool alone = cutting->lanes < 2 || (job->in_order && cutting->steps > 1);
    int count = alone ? 1 : WORKERS;
    int started = 0;
    memset(workers, 0, sizeof workers);
    progress_begin(job->settings->quiet);
    job->running = count;
    for (; started < count; started++) {
        struct worker *worker = &workers[started];
        worker->job = job;
        worker->dtype = job->source.tensor.dtype;
        if (!have_buffers(worker, most) ||
            pthread_create(&worker->thread, NULL, worker_main, worker) != 0) {
            fail_job(job,
                     complain(EXIT_LOCAL, job->settings->offsets != NULL
                                              ? "out of memory: an axis with offsets is one "
                                                "part, whatever --part-bytes is"
                                              : "out of memory: use smaller --part-bytes"));
            break;
        }
    }
    MUST(pthread_mutex_lock(&job->lock));
    job->running -= count - started;
    MUST(pthread_mutex_unlock(&job->lock));
    watch_workers(job, workers, started);
    for (int i = 0; i < WORKERS; i++) {
        if (i < started) {
            MUST(pthread_join(workers[i].thread, NULL));
        }
        tally_parts_close(workers[i].parts);
        free(workers[i].output == workers[i].input ? NULL : workers[i].output);
        free(workers[i].input);
        free(workers[i].kept.bytes);
    }
    progress_end();
    return job->status;
}

/* Refuse a reversed sum of what can only be read from its start. */
static int check_direction(const struct parts_job *job)
{
    const struct settings *settings = job->settings;
    const struct cutting *cutting = &job->source.cutting;
    if (job->in_order && settings->reverse && cutting->steps > 1) {
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
static void shape_in_c_order(struct parts_job *job, struct tensor *tensor)
{
    const struct number_list reversed = tensor->shape;
    const int last = reversed.count - 1;
    uint64_t stride = 1; /* below 2^63: the file is as long, or the tensor is empty */
    for (int i = 0; i <= last; i++) {
        tensor->shape.numbers[i] = reversed.numbers[last - i];
        job->strides[i] = (int64_t)stride;
        stride *= (uint64_t)tensor->shape.numbers[i];
    }
    tensor->fortran_order = false;
}

/* The size of an open axis is the last offset; text without a line has the size 0. libtally checks
 * every other size against the offsets. */
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

/* Read the attributes, and describe the result: sums along dimension `axis` of the tensor in the
 * file. */
static int describe_sums(struct parts_job *job, int64_t axis, enum format output)
{
    const struct settings *settings = job->settings;
    const struct tensor *tensor = &job->source.tensor;
    struct tally_error err;
    int64_t sizes[TALLY_MAX_RANK];
    STEP(attributes_read(settings, &tensor->dtype, &job->attributes));
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

static int open_job(struct parts_job *job, enum format input, enum format output)
{
    const struct settings *settings = job->settings;
    struct tensor *tensor = &job->source.tensor;
    struct source *bytes = job->source.bytes;
    STEP(format_is_text(input) ? tensor_of_text(settings, input == FORMAT_CSV, &job->source)
         : input == FORMAT_NPY ? tensor_of_npy(bytes, tensor)
                               : tensor_of_raw(settings, bytes, tensor));
    int rank = tensor->shape.count;
    int64_t axis = settings->axis < 0 ? settings->axis + rank : settings->axis;
    if (axis < 0 || axis >= rank) {
        return complain(EXIT_USAGE,
                        "--axis %" PRId64 ": the tensor has %d dimension%s, expected %d to %d",
                        settings->axis, rank, rank == 1 ? "" : "s", -rank, rank - 1);
    }
    if (input == FORMAT_NPY && bytes->stream) { /* the rest is the data */
        source_drop(bytes, (size_t)tensor->data_offset);
    }
    job->reordered = tensor->fortran_order && output != FORMAT_NPY;
    if (job->reordered) {
        shape_in_c_order(job, tensor);
    }
    job->in_order = bytes->stream || part_sink_in_order(output, settings->output);
    if (tensor->fortran_order) {
        axis = rank - 1 - axis;
    }
    STEP(describe_sums(job, axis, output));
    const struct cutting_terms terms = {
        .axis = axis,
        .reverse = settings->reverse,
        .in_order = job->in_order,
        .whole_lines = settings->offsets != NULL,
        .extra = attributes_extra_sums(&job->attributes),
        .sum_bytes = tally_dtype_bytes(job->sums.dtype),
        .part_bytes = job->reordered ? INT64_MAX / 2 : (uint64_t)settings->part_bytes};
    job->source.cutting = cutting_of(tensor, &terms);
    job->sums_cutting = cutting_of_sums(&job->source.cutting, terms.sum_bytes);
    const bool at_once = job->reordered || (settings->offsets != NULL && axis == 0);
    job->source.gather_ms = at_once ? -1 : (int)settings->flush_ms / GATHER_SHARE;
    job->sink.cutting = &job->sums_cutting;
    if (format_is_text(input)) {
        struct text_reader *text = &job->source.text;
        job->sink.reader = text;
        job->keeps_lines = format_is_text(output) && text->chosen != NULL;
        text->undecided = text->undecided && !format_is_binary(output); /* has one type */
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
    MUST(pthread_mutex_init(&job->reading, NULL));
    MUST(pthread_mutex_init(&job->lock, NULL));
    MUST(pthread_cond_init(&job->changed, NULL));
    int status = open_job(job, input, output);
    /* If offsets say that a stream has no elements, the end of the stream is checked. */
    const bool to_check = settings->offsets != NULL && source->stream;
    if (status == EXIT_DONE && (to_check || cutting_bytes(&job->sums_cutting) > 0)) {
        status = run_workers(job);
    }
    if (status == EXIT_DONE) {
        const bool along = job->source.cutting.length == OPEN_SIZE;
        const struct box *end = &job->source.next;
        status = part_sink_finish(&job->sink,
                                  along ? end->at + settings->include_initial : end->outer);
    }
    part_sink_close(&job->sink);
    text_reader_close(&job->source.text);
    MUST(pthread_mutex_destroy(&job->reading));
    MUST(pthread_mutex_destroy(&job->lock));
    MUST(pthread_cond_destroy(&job->changed));
    free(job);
    return status;
}
