/* Runs of segments, their matrices, and the copies between matrices and the tensor; see
 * segments.h. */
#include "server/job/segments.h"

#include "kernels/split.h"
#include "proto/elements.h"

#include <stdlib.h>
#include <string.h>

enum {
    RUN_MOST = 1 << 16, /* limit of the segments of a run; the work can stop between two runs */
    MOVES = 256,        /* maximum number of segments that are copied together, line by line */
    SHORT_BYTES = 64,   /* maximum number of bytes of a segment that copy_short() copies */
    MATRIX_ALIGN = 64   /* alignment of matrices in elements: a cache line for every type */
};

/* Adjacent segments of equal length, which are scanned as one matrix. */
struct segment_run {
    uint64_t first;    /* number of the first segment */
    uint64_t count;    /* number of segments */
    uint64_t length;   /* elements of each segment */
    uint64_t gathered; /* position of the run's matrix, if the run is gathered */
};

/* A matrix of gathered segments: all short segments of one length, or the segments of one long
 * run. */
struct segment_matrix {
    uint64_t count; /* number of segments */
    uint64_t at;    /* position in the gathered elements */
};

struct segments {
    const struct scan_call *call; /* borrowed */
    const struct scan_plan *plan; /* borrowed */
    size_t bytes;                 /* bytes of an element */
    uint64_t axis_in;             /* stride of the axis in the input, in elements */
    uint64_t axis_out;            /* stride of the axis in the output, in elements */
    struct scan_dim inner;        /* dimension inside the axis; size 1 if there is none */
    uint64_t outer;               /* number of lines of all other dimensions */
    uint64_t long_cells;          /* fewest cells along the axis that make a run long */
    uint64_t gathered;            /* number of gathered elements, padding included */
    /* matrices of short segments; the index is the length */
    struct segment_matrix classes[SEGMENTS_GATHER];
    size_t run_count;
    /* number of scans that segments_next() has returned: first the classes, then the runs */
    size_t scans_done;
    struct scan_job *jobs;     /* owned: scans of a round */
    struct scan_plan *plans;   /* owned: plans of these scans */
    size_t room;               /* entries of `jobs` and of `plans` */
    struct segment_run runs[]; /* long runs */
};

/* ---- sizes ---- */

/* Returns the dimension whose stride is less than that of the axis. */
static struct scan_dim inner_of(const struct scan_plan *plan)
{
    const struct scan_dim *last = &plan->dim[plan->dims > 0 ? plan->dims - 1 : 0];
    const bool inside = plan->dims > 0 && last->out_stride < plan->axis.out_stride;
    return inside ? *last : (struct scan_dim){1, 0, 0};
}

/* Returns an upper bound of the number of long runs in the tensor. */
static uint64_t runs_most(const struct scan_desc *desc, const struct scan_plan *plan)
{
    const uint64_t inner = inner_of(plan).size;
    const uint64_t chunk = desc->has_initial ? 1 : inner; /* see is_long() */
    return smaller_of(desc->segments, plan->axis.size * chunk / SEGMENTS_GATHER);
}

uint64_t segments_memory_bytes(const struct scan_desc *desc, const struct scan_plan *plan)
{
    return sizeof(struct segments) + runs_most(desc, plan) * sizeof(struct segment_run) +
           smaller_of(desc->segments, SEGMENTS_LAUNCH) *
               (sizeof(struct scan_job) + sizeof(struct scan_plan));
}

/* Returns the fewest cells along the axis that make a run long, in a tensor without an initial
 * value. */
static uint64_t long_cells(const struct scan_plan *plan)
{
    return scan_ceil_div(SEGMENTS_GATHER, inner_of(plan).size);
}

uint64_t segments_gathered_most(const struct scan_desc *desc, const struct scan_plan *plan)
{
    uint64_t matrices = smaller_of(desc->segments, SEGMENTS_GATHER);
    uint64_t cells = 0; /* along the axis */
    uint64_t most = 0;
    if (desc->has_initial) {
        matrices += runs_most(desc, plan);
        cells = plan->axis.size + desc->segments;
    } else if (__builtin_mul_overflow(desc->segments, long_cells(plan), &cells) ||
               cells > plan->axis.size) {
        cells = plan->axis.size;
    }
    if (__builtin_mul_overflow(cells, plan->lines, &most) ||
        __builtin_add_overflow(most, matrices * MATRIX_ALIGN, &most) ||
        most > INT64_MAX / dtype_info(plan->dtype)->bytes) {
        return UINT64_MAX;
    }
    return most;
}

uint64_t segments_gathered(const struct segments *segments)
{
    return segments->gathered;
}

/* ---- runs ---- */

static uint64_t segment_length(const struct scan_desc *desc, uint64_t segment)
{
    return (uint64_t)(scan_offset(desc, segment + 1) - scan_offset(desc, segment));
}

/* Replace a run by the next one; a run of all zeros is replaced by the first one. Returns false
 * after the last one. */
static bool run_next(const struct scan_desc *desc, struct segment_run *run)
{
    const uint64_t first = run->first + run->count;
    if (first == desc->segments) {
        return false;
    }
    const uint64_t most = smaller_of(desc->segments - first, RUN_MOST);
    *run = (struct segment_run){first, 1, segment_length(desc, first), 0};
    while (run->count < most && segment_length(desc, first + run->count) == run->length) {
        run->count++;
    }
    return true;
}

/* Returns true if a run has its own scan. With an initial value, every segment needs additional
 * room, so long runs are gathered, too; in this case a run is long if its segments are too long
 * for a class. */
static bool is_long(const struct segments *segments, const struct segment_run *run)
{
    if (segments->call->desc.has_initial) {
        return run->length >= SEGMENTS_GATHER;
    }
    return run->count * run->length >= segments->long_cells;
}

/* Returns the number of cells along the axis of a gathered segment. */
static uint64_t gathered_length(const struct segments *segments, uint64_t length)
{
    return length + segments->call->desc.has_initial;
}

/* Append a matrix of `count` segments to the gathered elements. Returns its position. */
static uint64_t place_matrix(struct segments *segments, uint64_t length, uint64_t count)
{
    const uint64_t at = segments->gathered;
    const uint64_t cells = gathered_length(segments, length) * segments->plan->lines;
    segments->gathered = scan_ceil_div(at + count * cells, MATRIX_ALIGN) * MATRIX_ALIGN;
    return at;
}

static enum status find_runs(struct segments *segments, struct error *err)
{
    const struct scan_call *call = segments->call;
    struct segment_run run = {.count = 0};
    uint64_t done = 0;
    while (run_next(&call->desc, &run)) {
        if (is_long(segments, &run)) {
            segments->runs[segments->run_count++] = run;
        } else {
            segments->classes[run.length].count += run.count;
        }
        done += run.count;
        if (done >= RUN_MOST) {
            done = 0;
            if (!parallel_step(call->parallel)) {
                return parallel_given_up(err);
            }
        }
    }
    segments->classes[0].count = 0; /* empty segments have no sums */
    for (uint64_t length = 1; length < SEGMENTS_GATHER; length++) {
        struct segment_matrix *class = &segments->classes[length];
        class->at = class->count > 0 ? place_matrix(segments, length, class->count) : 0;
    }
    for (size_t i = 0; call->desc.has_initial && i < segments->run_count; i++) {
        struct segment_run *found = &segments->runs[i];
        found->gathered = place_matrix(segments, found->length, found->count);
    }
    return STATUS_OK;
}

enum status segments_create(const struct scan_call *call, const struct scan_plan *plan,
                            struct segments **out, struct error *err)
{
    const struct scan_desc *desc = &call->desc;
    const uint64_t runs = runs_most(desc, plan);
    struct segments *segments =
        calloc(1, sizeof *segments + (size_t)runs * sizeof(struct segment_run));
    struct elements_layout layout;
    if (segments == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the segments");
    }
    elements_layout_make(desc, call->packs_output, &layout);
    segments->call = call;
    segments->plan = plan;
    segments->bytes = dtype_info(plan->dtype)->bytes;
    segments->axis_in = layout.in_strides[layout.axis];
    segments->axis_out = layout.out_strides[layout.axis];
    segments->inner = inner_of(plan);
    segments->outer = plan->lines / segments->inner.size;
    segments->long_cells = long_cells(plan);
    segments->room = (size_t)smaller_of(desc->segments, SEGMENTS_LAUNCH);
    segments->jobs = calloc(segments->room, sizeof *segments->jobs);
    segments->plans = calloc(segments->room, sizeof *segments->plans);
    enum status status = STATUS_OK;
    if (segments->jobs == NULL || segments->plans == NULL) {
        status = error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the scans of segments");
    } else {
        status = find_runs(segments, err);
    }
    if (status != STATUS_OK) {
        segments_destroy(segments);
        return status;
    }
    *out = segments;
    return STATUS_OK;
}

void segments_destroy(struct segments *segments)
{
    if (segments != NULL) {
        free(segments->jobs);
        free(segments->plans);
        free(segments);
    }
}

/* ---- copies between the tensor and the matrices ---- */

/* The copy of one segment; positions and lengths in elements. */
struct segment_move {
    /* offset of the segment's first cell from the start of a line of the tensor */
    uint64_t tensor;
    /* position, in the matrix, of the first cell of the segment in the first outer line */
    uint64_t gathered;
    uint64_t line; /* distance between two outer lines in the matrix */
    uint64_t length;
    uint64_t initial; /* position of the initial value of the first outer line */
};

struct mover {
    const struct segments *segments;
    bool back;             /* true: copy from the matrices to the output */
    unsigned char *tensor; /* input or output; an input is only read */
    unsigned char *gathered;
    uint64_t axis_step;  /* stride of the axis in the tensor */
    uint64_t inner_step; /* stride of the inner dimension in the tensor */
    bool dense;          /* the cells of a segment are contiguous in the tensor */
    uint64_t moved;      /* bytes copied since the last step */
    size_t count;        /* number of moves */
    struct segment_move moves[MOVES];
};

/* Count work, and call parallel_step() after each PARALLEL_STEP_BYTES. Returns false if the
 * work must stop. */
static bool count_work(struct mover *mover, uint64_t bytes)
{
    enum {
        MOVE_BYTES = 32 /* bytes that are copied in the fixed time of one move */
    };
    mover->moved += bytes + MOVE_BYTES;
    if (mover->moved < PARALLEL_STEP_BYTES) {
        return true;
    }
    mover->moved = 0;
    return parallel_step(mover->segments->call->parallel);
}

/* Copy at most SHORT_BYTES without a call of memcpy(). With p the greatest power of two that is
 * at most `count`, copy the first p and the last p bytes; the two copies may overlap. The code
 * has few branches on the length: lengths vary from segment to segment, so the processor would
 * mispredict such branches. */
static inline void copy_short(unsigned char *to, const unsigned char *from, size_t count)
{
#define COPY_HALVES(half)                          \
    do {                                           \
        unsigned char first[half];                 \
        unsigned char last[half];                  \
        memcpy(first, from, half);                 \
        memcpy(last, from + count - (half), half); \
        memcpy(to, first, half);                   \
        memcpy(to + count - (half), last, half);   \
    } while (0)
    if (count >= 32) {
        COPY_HALVES(32);
    } else if (count >= 16) {
        COPY_HALVES(16);
    } else if (count >= 8) {
        COPY_HALVES(8);
    } else if (count >= 4) {
        COPY_HALVES(4);
    } else if (count >= 2) {
        COPY_HALVES(2);
    } else {
        *to = *from;
    }
#undef COPY_HALVES
}

/* Copy `count` cells. The cells are `step` elements apart in the tensor and contiguous in the
 * matrix. */
static bool move_cells(struct mover *mover, uint64_t tensor, uint64_t step, uint64_t gathered,
                       uint64_t count)
{
    const size_t bytes = mover->segments->bytes;
    for (uint64_t at = 0; at < count;) {
        const uint64_t some = smaller_of(count - at, PARALLEL_STEP_BYTES / bytes);
        unsigned char *own = mover->tensor + (tensor + at * step) * bytes;
        unsigned char *other = mover->gathered + (gathered + at) * bytes;
        if (step == 1) {
            memcpy(mover->back ? own : other, mover->back ? other : own, some * bytes);
        } else if (mover->back) {
            scan_copy_elements(own, step, other, 1, some, bytes);
        } else {
            scan_copy_elements(other, 1, own, step, some, bytes);
        }
        at += some;
        if (!count_work(mover, some * bytes)) {
            return false;
        }
    }
    return true;
}

/* Write the initial value to the cells before (or after) a segment, one for each inner line. */
static bool put_initial(struct mover *mover, uint64_t cell)
{
    const size_t bytes = mover->segments->bytes;
    const uint64_t count = mover->segments->inner.size;
    const uint64_t value = mover->segments->call->desc.initial;
    for (uint64_t i = 0; i < count; i++) { /* hosts are little-endian: copy the low bytes */
        memcpy(mover->gathered + (cell + i) * bytes, &value, bytes);
        if (i % RUN_MOST == RUN_MOST - 1 && !count_work(mover, RUN_MOST * bytes)) {
            return false;
        }
    }
    return true;
}

/* Copy one segment of one outer line, which begins at element `at` of the tensor. */
static bool move_segment(struct mover *mover, const struct segment_move *move, uint64_t at,
                         uint64_t outer)
{
    const uint64_t inner = mover->segments->inner.size;
    const uint64_t tensor = at + move->tensor;
    const uint64_t gathered = move->gathered + outer * move->line;
    if (mover->segments->call->desc.has_initial && !mover->back &&
        !put_initial(mover, move->initial + outer * move->line)) {
        return false;
    }
    if (inner == 1) {
        return move_cells(mover, tensor, mover->axis_step, gathered, move->length);
    }
    if (mover->dense) {
        return move_cells(mover, tensor, 1, gathered, move->length * inner);
    }
    bool ok = true;
    for (uint64_t i = 0; i < move->length && ok; i++) {
        ok = move_cells(mover, tensor + i * mover->axis_step, mover->inner_step,
                        gathered + i * inner, inner);
    }
    return ok;
}

/* Perform all collected moves for one outer line, for dense segments without an initial
 * value. */
static bool move_dense(struct mover *mover, uint64_t at, uint64_t outer)
{
    const size_t bytes = mover->segments->bytes;
    const uint64_t inner = mover->segments->inner.size;
    bool ok = true;
    for (size_t i = 0; i < mover->count && ok; i++) {
        const struct segment_move *move = &mover->moves[i];
        const uint64_t cells = move->length * inner;
        unsigned char *own = mover->tensor + (at + move->tensor) * bytes;
        unsigned char *other = mover->gathered + (move->gathered + outer * move->line) * bytes;
        if (cells > SHORT_BYTES / bytes) {
            ok = move_segment(mover, move, at, outer);
        } else {
            copy_short(mover->back ? own : other, mover->back ? other : own, cells * bytes);
        }
    }
    return ok && count_work(mover, mover->count * SHORT_BYTES / 2);
}

/* Perform all collected moves, line by line, so that each line of the tensor is accessed in
 * order. */
static bool make_moves(struct mover *mover)
{
    const struct segments *segments = mover->segments;
    bool ok = true;
    for (uint64_t outer = 0; outer < segments->outer && ok; outer++) {
        const uint64_t at =
            scan_plan_line_at(segments->plan, outer * segments->inner.size, mover->back);
        if (mover->dense && (mover->back || !segments->call->desc.has_initial)) {
            ok = move_dense(mover, at, outer);
            continue;
        }
        for (size_t i = 0; i < mover->count && ok; i++) {
            ok = move_segment(mover, &mover->moves[i], at, outer);
        }
    }
    mover->count = 0;
    return ok;
}

/* Collect the move of a segment, which has the number `index` in its matrix. */
static inline bool add_move(struct mover *mover, uint64_t segment, uint64_t length,
                            const struct segment_matrix *matrix, uint64_t index)
{
    const struct scan_desc *desc = &mover->segments->call->desc;
    const uint64_t inner = mover->segments->inner.size;
    const uint64_t cells = gathered_length(mover->segments, length) * inner;
    const uint64_t first = matrix->at + index * cells;
    const bool before = desc->has_initial && !desc->reverse;
    const uint64_t along =
        mover->back ? elements_first_sum(desc, segment) : (uint64_t)scan_offset(desc, segment);
    mover->moves[mover->count++] =
        (struct segment_move){.tensor = along * mover->axis_step,
                              .gathered = before ? first + inner : first,
                              .line = matrix->count * cells,
                              .length = length,
                              .initial = before ? first : first + length * inner};
    return mover->count < MOVES || make_moves(mover);
}

/* Collect the moves of the segments [first, end), which are all short. next: for each class,
 * the number of its next segment in the matrix. */
static bool move_short(struct mover *mover, uint64_t first, uint64_t end, uint64_t *next)
{
    const struct segments *segments = mover->segments;
    bool ok = true;
    for (uint64_t at = first; at < end && ok; at += RUN_MOST) {
        const uint64_t stop = smaller_of(at + RUN_MOST, end);
        for (uint64_t segment = at; segment < stop && ok; segment++) {
            const uint64_t length = segment_length(&segments->call->desc, segment);
            if (length > 0) {
                ok = add_move(mover, segment, length, &segments->classes[length],
                              next[length]++);
            }
        }
        ok = ok && count_work(mover, RUN_MOST);
    }
    return ok;
}

/* Copy all gathered segments in one direction. */
static bool move_all(struct mover *mover)
{
    const struct segments *segments = mover->segments;
    const struct scan_desc *desc = &segments->call->desc;
    const uint64_t inner = segments->inner.size;
    uint64_t next[SEGMENTS_GATHER] = {0};
    uint64_t segment = 0;
    bool ok = true;
    mover->dense = inner == 1 ? mover->axis_step == 1
                              : mover->inner_step == 1 && mover->axis_step == inner;
    for (size_t i = 0; i < segments->run_count && ok; i++) {
        const struct segment_run *run = &segments->runs[i];
        const struct segment_matrix own = {run->count, run->gathered};
        ok = move_short(mover, segment, run->first, next);
        for (uint64_t k = 0; desc->has_initial && k < run->count && ok; k++) {
            ok = add_move(mover, run->first + k, run->length, &own, k);
        }
        segment = run->first + run->count;
    }
    return ok && move_short(mover, segment, desc->segments, next) && make_moves(mover);
}

enum status segments_gather(const struct segments *segments, const void *input, void *gathered,
                            struct error *err)
{
    struct mover mover = {.segments = segments,
                          .tensor = (unsigned char *)(uintptr_t)input, /* read only */
                          .gathered = gathered,
                          .axis_step = segments->axis_in,
                          .inner_step = segments->inner.in_stride};
    return move_all(&mover) ? STATUS_OK : parallel_given_up(err);
}

enum status segments_scatter(const struct segments *segments, void *gathered, void *output,
                             struct error *err)
{
    struct mover mover = {.segments = segments,
                          .back = true,
                          .tensor = output,
                          .gathered = gathered,
                          .axis_step = segments->axis_out,
                          .inner_step = segments->inner.out_stride};
    return move_all(&mover) ? STATUS_OK : parallel_given_up(err);
}

/* ---- scans ---- */

/* Plan the scan of a matrix of gathered segments. */
static void plan_gathered(const struct segments *segments, uint64_t length, uint64_t count,
                          struct scan_plan *plan)
{
    const uint64_t inner = segments->inner.size;
    const uint64_t cells = gathered_length(segments, length);
    const struct scan_dim axis = {cells, inner, inner};
    const struct scan_dim dims[] = {{count * segments->outer, cells * inner, cells * inner},
                                    {inner, 1, 1}};
    scan_plan_lines(segments->plan, axis, dims, ARRAY_COUNT(dims), plan);
}

/* Plan the scan of a run whose segments stay in the tensor. */
static void plan_run(const struct segments *segments, const struct segment_run *run,
                     struct scan_plan *plan)
{
    const struct scan_plan *whole = segments->plan;
    const uint64_t out_length = run->length + segments->call->desc.include_initial;
    const struct scan_dim axis = {run->length, segments->axis_in, segments->axis_out};
    struct scan_dim dims[LIMIT_RANK];
    memcpy(dims, whole->dim, (size_t)whole->dims * sizeof *dims);
    dims[whole->dims] = (struct scan_dim){run->count, run->length * segments->axis_in,
                                          out_length * segments->axis_out};
    scan_plan_lines(whole, axis, dims, (size_t)whole->dims + 1, plan);
}

/* Returns the scan of a run: in the tensor or, if `gathered`, in its matrix. */
static struct scan_job make_job(const struct segments *segments, const struct segment_run *run,
                                bool gathered, const struct segments_place *place,
                                struct scan_plan *plan)
{
    const struct scan_desc *desc = &segments->call->desc;
    struct scan_job job = {.plan = plan, .slab = place->slab};
    if (gathered) {
        plan_gathered(segments, run->length, run->count, plan);
        job.in_offset = place->gathered_offset + (size_t)run->gathered * segments->bytes;
        job.out_offset = job.in_offset;
        return job;
    }
    const uint64_t in = (uint64_t)scan_offset(desc, run->first) * segments->axis_in;
    const uint64_t out = elements_first_sum(desc, run->first) * segments->axis_out;
    plan_run(segments, run, plan);
    job.in_offset = place->in_offset + (size_t)in * segments->bytes;
    job.out_offset = place->out_offset + (size_t)out * segments->bytes;
    job.holes = plan->gaps; /* the gaps contain cells of other scans */
    plan->gaps = false;
    return job;
}

bool segments_done(const struct segments *segments)
{
    return segments->scans_done == SEGMENTS_GATHER + segments->run_count;
}

/* Skip classes without segments. */
static void skip_classes(struct segments *segments)
{
    while (segments->scans_done < SEGMENTS_GATHER &&
           segments->classes[segments->scans_done].count == 0) {
        segments->scans_done++;
    }
}

/* Returns the next scan, with its plan. */
static struct scan_job next_job(const struct segments *segments,
                                const struct segments_place *place, struct scan_plan *plan)
{
    const size_t next = segments->scans_done;
    if (next >= SEGMENTS_GATHER) {
        return make_job(segments, &segments->runs[next - SEGMENTS_GATHER],
                        segments->call->desc.has_initial, place, plan);
    }
    const struct segment_matrix *class = &segments->classes[next];
    const struct segment_run run = {
        .count = class->count, .length = next, .gathered = class->at};
    return make_job(segments, &run, true, place, plan);
}

size_t segments_next(struct segments *segments, const struct segments_place *place,
                     uint64_t most, const struct scan_job **jobs, uint64_t *elements)
{
    size_t count = 0;
    uint64_t sum = 0;
    for (skip_classes(segments); count < segments->room && !segments_done(segments);
         skip_classes(segments)) {
        segments->jobs[count] = next_job(segments, place, &segments->plans[count]);
        const uint64_t more = segments->plans[count].elements;
        if (count > 0 && (more > most || sum > most - more)) {
            break; /* this scan begins the next round */
        }
        sum += more;
        count++;
        segments->scans_done++;
    }
    *jobs = segments->jobs;
    *elements = sum;
    return count;
}
