/* A line of requests, a list of jobs in pieces, and the threads of the pool; see work.h. */
#include "server/sched/work.h"

#include "server/base/clock.h"
#include "server/base/machine.h"
#include "server/base/thread.h"
#include "server/sched/device_pool.h"
#include "server/sched/line.h"
#include "server/sched/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

enum {
    /* bytes of text in a piece, which takes ten times as long as a wake-up */
    GRAIN_BYTES = 64 << 10
};

/* A job in pieces, on the stack of the thread that created it. That thread waits until no other
 * thread runs a piece of the job. The line's lock guards the record. */
struct parallel_job {
    parallel_piece piece;
    void *context;
    const struct request *request;
    unsigned class; /* class of the request in the line */
    int count;      /* number of pieces */
    int next;       /* index of the piece that is run next */
    int running;    /* number of pieces that threads are running */
    bool given_up;
    TAILQ_ENTRY(parallel_job) link;
};

struct work_pool {
    struct line line; /* its lock guards the fields below, too */
    pthread_cond_t work;
    pthread_cond_t piece_done;
    TAILQ_HEAD(job_list, parallel_job) jobs; /* jobs in progress, oldest first */
    bool stopping;
    size_t thread_count;
    pthread_t threads[];
};

/* State of a thread of the pool; all zero in threads outside the pool. */
static _Thread_local struct {
    bool of_pool;
    uint64_t nested_ns; /* time for which the current work was interrupted */
    /* time before which each class may not interrupt the current work */
    uint64_t rest_until[LINE_CLASSES];
} worker;

bool work_given_up(struct request *request)
{
    enum status status = request_verdict(request, clock_now_ns());
    if (status == STATUS_OK) {
        return false;
    }
    request->error = (struct error)ERROR_INIT;
    (void)error_set(
        &request->error, status,
        status == STATUS_CLIENT_GONE
            ? "the client closed the connection"
            : "the deadline passed while the request was read or its answer written");
    return true;
}

/* ---- requests ---- */

/* Returns the next request of a class, or NULL. Expired requests are added to the chain.
 * Thread: a holder of the lock. */
static struct request *next_request(struct work_pool *pool, unsigned class,
                                    struct request **expired)
{
    for (;;) {
        struct line_cursor cursor = line_begin(&pool->line, class);
        if (cursor.current == NULL) {
            return NULL;
        }
        if (request_verdict(cursor.current, clock_now_ns()) == STATUS_OK) {
            return line_take(&cursor);
        }
        line_drop(&cursor, expired);
    }
}

/* Run the next request of a class to its end. Thread: one of the pool, a holder of the lock;
 * the lock is released while the request runs. */
static void run_next(struct work_pool *pool, unsigned class)
{
    struct request *expired = NULL;
    struct request *request = next_request(pool, class, &expired);
    const uint64_t cost_ns = request != NULL ? request->line.cost_ns : 0;
    const uint64_t interrupted_ns = worker.nested_ns;
    pool->line.begun_ns[class] += cost_ns;
    MUST(pthread_mutex_unlock(&pool->line.lock));
    const uint64_t start_ns = clock_now_ns();
    line_end_expired(&pool->line, expired, start_ns);
    worker.nested_ns = 0;
    if (request != NULL) {
        request->line.job(request);
    }
    const uint64_t whole_ns = clock_span_ns(start_ns, clock_now_ns());
    MUST(pthread_mutex_lock(&pool->line.lock));
    pool->line.begun_ns[class] -= cost_ns;
    line_measured(&pool->line, cost_ns, whole_ns - worker.nested_ns);
    worker.nested_ns = interrupted_ns + whole_ns;
}

/* ---- between two pieces ---- */

/* Run a waiting request of a shorter class, between two pieces of work of this class. Thread:
 * one of the pool, a holder of the lock; the lock is released while the request runs. */
static void run_shorter(struct work_pool *pool, unsigned class)
{
    const uint64_t now_ns = clock_now_ns();
    for (unsigned c = 0; c < class; c++) {
        if (line_count(&pool->line, 1U << c) > 0 && now_ns >= worker.rest_until[c]) {
            run_next(pool, c);
            const uint64_t end_ns = clock_now_ns();
            worker.rest_until[c] = end_ns + clock_span_ns(now_ns, end_ns);
            return;
        }
    }
}

static bool piece_step(const struct parallel *parallel)
{
    const struct work_parallel *work = (const struct work_parallel *)(const void *)parallel;
    if (worker.of_pool) {
        struct line *line = &work->pool->line;
        const unsigned class = line_class_of(line, work->request->line.cost_ns);
        if (line_count(line, (1U << class) - 1) > 0) {
            MUST(pthread_mutex_lock(&line->lock));
            run_shorter(work->pool, class);
            MUST(pthread_mutex_unlock(&line->lock));
        }
    }
    return request_verdict(work->request, clock_now_ns()) == STATUS_OK;
}

/* ---- pieces ---- */

/* Returns true if a thread may begin a piece. Thread: a holder of the lock. */
static bool has_piece(struct parallel_job *job)
{
    job->given_up = job->given_up || request_verdict(job->request, clock_now_ns()) != STATUS_OK;
    return job->next < job->count && !job->given_up;
}

/* Thread: a holder of the lock; the lock is released while the piece runs. */
static void run_piece(struct work_pool *pool, struct parallel_job *job)
{
    int index = job->next++;
    job->running++;
    MUST(pthread_mutex_unlock(&pool->line.lock));
    job->piece(job->context, index);
    MUST(pthread_mutex_lock(&pool->line.lock));
    job->running--;
    if (job->running == 0) {
        MUST(pthread_cond_broadcast(&pool->piece_done));
    }
}

/* Run all pieces in the calling loop: waking a thread takes longer than a piece, and that
 * thread may get no processor while loops are busy. */
static bool run_alone(const struct request *request, int count, parallel_piece piece,
                      void *context)
{
    for (int i = 0; i < count; i++) {
        if (request_verdict(request, clock_now_ns()) != STATUS_OK) {
            return false;
        }
        piece(context, i);
    }
    return true;
}

static bool run_pieces(const struct parallel *parallel, int count, parallel_piece piece,
                       void *context)
{
    const struct work_parallel *work = (const struct work_parallel *)(const void *)parallel;
    struct work_pool *pool = work->pool;
    if (!worker.of_pool) {
        return run_alone(work->request, count, piece, context);
    }
    struct parallel_job job = {.piece = piece,
                               .context = context,
                               .request = work->request,
                               .class = line_class_of(&pool->line, work->request->line.cost_ns),
                               .count = count};
    MUST(pthread_mutex_lock(&pool->line.lock));
    TAILQ_INSERT_TAIL(&pool->jobs, &job, link);
    for (int helpers = 1; helpers < count && (size_t)helpers < pool->thread_count; helpers++) {
        MUST(pthread_cond_signal(&pool->work));
    }
    while (has_piece(&job)) {
        run_piece(pool, &job);
        run_shorter(pool, job.class);
    }
    TAILQ_REMOVE(&pool->jobs, &job, link);
    while (job.running > 0) {
        MUST(pthread_cond_wait(&pool->piece_done, &pool->line.lock));
    }
    MUST(pthread_mutex_unlock(&pool->line.lock));
    return job.next == count;
}

struct work_parallel work_parallel(struct work_pool *pool, const struct request *request)
{
    return (struct work_parallel){
        .parallel = {.grain = GRAIN_BYTES, .run = run_pieces, .step = piece_step},
        .pool = pool,
        .request = request};
}

/* ---- threads ---- */

/* Run a piece of a job that another thread has begun in this class; if there is none, run the
 * next request of the class. Returns false if the class has neither. Thread: one of the pool, a
 * holder of the lock; the lock is released while the work runs. */
static bool serve_class(struct work_pool *pool, unsigned class)
{
    struct parallel_job *job = TAILQ_FIRST(&pool->jobs);
    while (job != NULL && (job->class != class || !has_piece(job))) {
        job = TAILQ_NEXT(job, link);
    }
    if (job != NULL) {
        const uint64_t start_ns = clock_now_ns();
        run_piece(pool, job);
        line_measured(&pool->line, 0, clock_span_ns(start_ns, clock_now_ns()));
        return true;
    }
    const bool any = line_count(&pool->line, 1U << class) > 0;
    if (any) {
        run_next(pool, class);
    }
    return any;
}

/* Serve the next class that has work. Returns false if no class has work. Thread: as for
 * serve_class(). */
static bool work_once(struct work_pool *pool)
{
    bool done = false;
    for (unsigned i = 0; i < LINE_CLASSES && !done; i++) {
        const unsigned class = pool->line.turn;
        pool->line.turn = (class + 1) % LINE_CLASSES;
        done = serve_class(pool, class);
    }
    return done;
}

static void *thread_main(void *argument)
{
    struct work_pool *pool = argument;
    (void)pthread_setname_np(pthread_self(), "tally-codec");
    machine_step_back(MACHINE_BEHIND_DEVICES);
    worker.of_pool = true;
    MUST(pthread_mutex_lock(&pool->line.lock));
    for (;;) {
        if (work_once(pool)) {
            continue;
        }
        if (pool->stopping) {
            break;
        }
        MUST(pthread_cond_wait(&pool->work, &pool->line.lock));
    }
    MUST(pthread_mutex_unlock(&pool->line.lock));
    device_pool_close_here();
    return NULL;
}

enum status work_pool_create(size_t threads, struct work_pool **out, struct error *err)
{
    struct work_pool *pool = calloc(1, sizeof *pool + threads * sizeof(pthread_t));
    if (pool == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the work threads");
    }
    line_init(&pool->line, LINE_WORK);
    pool->line.takers = threads;
    MUST(pthread_cond_init(&pool->work, NULL));
    MUST(pthread_cond_init(&pool->piece_done, NULL));
    TAILQ_INIT(&pool->jobs);
    for (size_t i = 0; i < threads; i++) {
        char purpose[80];
        (void)snprintf(purpose, sizeof purpose, "codecs (--codec-threads), %zu of %zu", i + 1,
                       threads);
        enum status status = thread_start(&pool->threads[i], thread_main, pool, purpose, err);
        if (status != STATUS_OK) {
            work_pool_destroy(pool);
            return status;
        }
        pool->thread_count++;
    }
    *out = pool;
    return STATUS_OK;
}

void work_pool_destroy(struct work_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    MUST(pthread_mutex_lock(&pool->line.lock));
    pool->stopping = true;
    MUST(pthread_cond_broadcast(&pool->work));
    MUST(pthread_mutex_unlock(&pool->line.lock));
    for (size_t i = 0; i < pool->thread_count; i++) {
        MUST(pthread_join(pool->threads[i], NULL));
    }
    MUST(pthread_cond_destroy(&pool->piece_done));
    MUST(pthread_cond_destroy(&pool->work));
    line_deinit(&pool->line);
    free(pool);
}

/* ---- submitting ---- */

void work_submit(struct work_pool *pool, struct request *request, uint64_t cost_ns,
                 work_job job)
{
    request->line.job = job;
    request->line.cost_ns = cost_ns;
    request_set_owner(request, OWNER_WORK);
    MUST(pthread_mutex_lock(&pool->line.lock));
    line_push(&pool->line, request, false);
    MUST(pthread_cond_signal(&pool->work));
    MUST(pthread_mutex_unlock(&pool->line.lock));
}

struct line *work_line(struct work_pool *pool)
{
    return &pool->line;
}
