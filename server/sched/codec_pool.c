/* A mutex, a line of requests for each class, the jobs that were opened to helpers, and some
 * threads; see codec_pool.h. */
#include "server/sched/codec_pool.h"

#include "server/base/clock.h"
#include "server/base/machine.h"
#include "server/base/thread.h"
#include "server/sched/client.h"
#include "server/sched/completion.h"
#include "server/sched/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

enum {
    GRAIN_BYTES = 64 << 10 /* of text: some ten times what waking a thread costs */
};

enum work_class {
    CLASS_SMALL,
    CLASS_LARGE,
    CLASS_HUGE,
    CLASS_COUNT
};

/* Bytes of text that a client gets in a turn. */
static const int64_t quanta[CLASS_COUNT] = {64 << 10, 4 << 20, 64 << 20};

/* A job in pieces. On the stack of the thread that opened it, which leaves only when no other
 * works on it any more. The pool's lock guards it. */
struct parallel_job {
    parallel_piece piece;
    void *context;
    const struct request *request;
    enum work_class kind;
    int count;
    int next;    /* piece to run next */
    int running; /* pieces */
    bool given_up;
    TAILQ_ENTRY(parallel_job) link;
};

struct codec_pool {
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t work;
    pthread_cond_t piece_done;
    TAILQ_HEAD(job_list, parallel_job) jobs; /* that have pieces left, oldest first */
    struct fair_line lines[CLASS_COUNT];
    uint64_t begun[CLASS_COUNT]; /* cost of what threads have begun with */
    int turn;            /* the class that is served next if there is something to do in it */
    uint64_t done_bytes; /* what was done, ... */
    uint64_t done_ns;    /* ... in which time of threads: for codec_pool_wait_ns() */
    bool stopping;
    size_t thread_count;
    pthread_t threads[];
};

/* A thread of a pool; on others nothing of this is set. */
static _Thread_local struct {
    bool of_pool;
    uint64_t nested_ns;               /* that the work at hand was interrupted for */
    uint64_t rest_until[CLASS_COUNT]; /* the work at hand is not interrupted for these before */
} worker;

static enum work_class class_of(uint64_t cost)
{
    return cost <= CODEC_SMALL_BYTES   ? CLASS_SMALL
           : cost <= CODEC_LARGE_BYTES ? CLASS_LARGE
                                       : CLASS_HUGE;
}

/* ---- given up ---- */

bool codec_pool_explain(struct request *request)
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

static const char our_turn[] =
    "a thread that reads it or writes its answer"; /* was waited for */

/* ---- one after the other ---- */

/* The next request of a class; those whose time is over go to the chain. Thread: a holder of
 * the lock. */
static struct request *next_request(struct codec_pool *pool, enum work_class kind,
                                    struct request **expired)
{
    for (;;) {
        struct fair_cursor cursor = fair_begin(&pool->lines[kind]);
        if (cursor.current == NULL) {
            return NULL;
        }
        if (request_verdict(cursor.current, clock_now_ns()) == STATUS_OK) {
            return fair_take(&cursor);
        }
        fair_drop(&cursor, expired);
    }
}

/* A thread has done so much, in so much time of its own. Thread: a holder of the lock. */
static void book_time(struct codec_pool *pool, uint64_t bytes, uint64_t own_ns)
{
    pool->done_bytes += bytes;
    pool->done_ns += own_ns;
    if (pool->done_ns > NS_PER_S) { /* what is long ago counts less and less */
        pool->done_bytes /= 2;
        pool->done_ns /= 2;
    }
}

/* Run the next request of a class to its end. Thread: one of the pool, a holder of the lock,
 * which is given up meanwhile. */
static void run_next(struct codec_pool *pool, enum work_class kind)
{
    struct request *expired = NULL;
    struct request *request = next_request(pool, kind, &expired);
    uint64_t cost = request != NULL ? request->line.cost : 0;
    uint64_t interrupted_ns = worker.nested_ns;
    pool->begun[kind] += cost;
    MUST(pthread_mutex_unlock(&pool->lock));
    uint64_t start_ns = clock_now_ns();
    request_end_expired(expired, start_ns, our_turn);
    worker.nested_ns = 0;
    if (request != NULL) {
        request->line.codec_job(request);
    }
    uint64_t whole_ns = clock_span_ns(start_ns, clock_now_ns());
    MUST(pthread_mutex_lock(&pool->lock));
    pool->begun[kind] -= cost;
    book_time(pool, cost, whole_ns - worker.nested_ns);
    worker.nested_ns = interrupted_ns + whole_ns;
}

/* ---- between two pieces ---- */

/* Between two pieces of work of a class: one that is smaller and waits goes first. Thread: one
 * of the pool, a holder of the lock, which is given up meanwhile. */
static void let_smaller_go(struct codec_pool *pool, enum work_class kind)
{
    uint64_t now_ns = clock_now_ns();
    for (int c = 0; c < (int)kind; c++) {
        if (pool->lines[c].count > 0 && now_ns >= worker.rest_until[c]) {
            run_next(pool, (enum work_class)c);
            uint64_t end_ns = clock_now_ns();
            worker.rest_until[c] = end_ns + clock_span_ns(now_ns, end_ns);
            return;
        }
    }
}

static bool piece_step(const struct parallel *parallel)
{
    const struct codec_parallel *codecs = (const struct codec_parallel *)(const void *)parallel;
    enum work_class kind = class_of(codecs->request->line.cost);
    bool smaller_wait = false;
    for (int c = 0; worker.of_pool && c < (int)kind; c++) {
        smaller_wait = smaller_wait || fair_count(&codecs->pool->lines[c]) > 0;
    }
    if (smaller_wait) {
        MUST(pthread_mutex_lock(&codecs->pool->lock));
        let_smaller_go(codecs->pool, kind);
        MUST(pthread_mutex_unlock(&codecs->pool->lock));
    }
    return request_verdict(codecs->request, clock_now_ns()) == STATUS_OK;
}

/* ---- side by side ---- */

/* Whether a thread may take a piece. Thread: a holder of the lock. */
static bool has_piece(struct parallel_job *job)
{
    job->given_up = job->given_up || request_verdict(job->request, clock_now_ns()) != STATUS_OK;
    return job->next < job->count && !job->given_up;
}

/* Thread: a holder of the lock, which is given up meanwhile. */
static void run_piece(struct codec_pool *pool, struct parallel_job *job)
{
    int index = job->next++;
    job->running++;
    MUST(pthread_mutex_unlock(&pool->lock));
    job->piece(job->context, index);
    MUST(pthread_mutex_lock(&pool->lock));
    job->running--;
    if (job->running == 0) {
        MUST(pthread_cond_broadcast(&pool->piece_done));
    }
}

/* On a loop: to wake a thread takes longer than a piece, and one that has taken a piece may have no
 * processor for it as long as loops have something to do. */
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
    const struct codec_parallel *codecs = (const struct codec_parallel *)(const void *)parallel;
    struct codec_pool *pool = codecs->pool;
    if (!worker.of_pool) {
        return run_alone(codecs->request, count, piece, context);
    }
    struct parallel_job job = {.piece = piece,
                               .context = context,
                               .request = codecs->request,
                               .kind = class_of(codecs->request->line.cost),
                               .count = count};
    MUST(pthread_mutex_lock(&pool->lock));
    TAILQ_INSERT_TAIL(&pool->jobs, &job, link);
    for (int helpers = 1; helpers < count && (size_t)helpers < pool->thread_count; helpers++) {
        MUST(pthread_cond_signal(&pool->work));
    }
    while (has_piece(&job)) {
        run_piece(pool, &job);
        let_smaller_go(pool, job.kind);
    }
    TAILQ_REMOVE(&pool->jobs, &job, link);
    while (job.running > 0) {
        MUST(pthread_cond_wait(&pool->piece_done, &pool->lock));
    }
    MUST(pthread_mutex_unlock(&pool->lock));
    return job.next == count;
}

struct codec_parallel codec_pool_parallel(struct codec_pool *pool,
                                          const struct request *request)
{
    return (struct codec_parallel){
        .parallel = {.grain = GRAIN_BYTES, .run = run_pieces, .step = piece_step},
        .pool = pool,
        .request = request};
}

/* ---- threads ---- */

/* Do something of the class that has this turn. False: there is nothing to do. Thread: one of
 * the pool, a holder of the lock, which is given up meanwhile. */
static bool take_turn(struct codec_pool *pool, enum work_class kind)
{
    struct parallel_job *job = TAILQ_FIRST(&pool->jobs);
    while (job != NULL && (job->kind != kind || !has_piece(job))) {
        job = TAILQ_NEXT(job, link);
    }
    if (job != NULL) {
        uint64_t start_ns = clock_now_ns(); /* of a job that another thread has begun */
        run_piece(pool, job);
        book_time(pool, 0, clock_span_ns(start_ns, clock_now_ns()));
        return true;
    }
    bool any = pool->lines[kind].count > 0;
    if (any) {
        run_next(pool, kind);
    }
    return any;
}

/* Do something. False: there is nothing to do. Thread: likewise. */
static bool work_once(struct codec_pool *pool)
{
    bool done = false;
    for (int i = 0; i < CLASS_COUNT && !done; i++) {
        int turn = pool->turn;
        pool->turn = (turn + 1) % CLASS_COUNT;
        done = take_turn(pool, (enum work_class)turn);
    }
    return done;
}

static void *thread_main(void *argument)
{
    struct codec_pool *pool = argument;
    (void)pthread_setname_np(pthread_self(), "tally-codec");
    machine_step_back(MACHINE_BEHIND_DEVICES);
    worker.of_pool = true;
    MUST(pthread_mutex_lock(&pool->lock));
    for (;;) {
        if (work_once(pool)) {
            continue;
        }
        if (pool->stopping) {
            break;
        }
        MUST(pthread_cond_wait(&pool->work, &pool->lock));
    }
    MUST(pthread_mutex_unlock(&pool->lock));
    return NULL;
}

enum status codec_pool_create(size_t threads, struct codec_pool **out, struct error *err)
{
    struct codec_pool *pool = calloc(1, sizeof *pool + threads * sizeof(pthread_t));
    if (pool == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the codec threads");
    }
    MUST(pthread_mutex_init(&pool->lock, NULL));
    MUST(pthread_cond_init(&pool->work, NULL));
    MUST(pthread_cond_init(&pool->piece_done, NULL));
    TAILQ_INIT(&pool->jobs);
    for (int kind = 0; kind < CLASS_COUNT; kind++) {
        fair_init(&pool->lines[kind], (enum fair_line_id)(FAIR_TEXT_SMALL + kind),
                  quanta[kind]);
    }
    for (size_t i = 0; i < threads; i++) {
        char whose[80];
        (void)snprintf(whose, sizeof whose, "codecs (--codec-threads), %zu of %zu", i + 1,
                       threads);
        enum status status = thread_start(&pool->threads[i], thread_main, pool, whose, err);
        if (status != STATUS_OK) {
            codec_pool_destroy(pool);
            return status;
        }
        pool->thread_count++;
    }
    *out = pool;
    return STATUS_OK;
}

void codec_pool_destroy(struct codec_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    MUST(pthread_mutex_lock(&pool->lock));
    pool->stopping = true;
    MUST(pthread_cond_broadcast(&pool->work));
    MUST(pthread_mutex_unlock(&pool->lock));
    for (size_t i = 0; i < pool->thread_count; i++) {
        MUST(pthread_join(pool->threads[i], NULL));
    }
    MUST(pthread_cond_destroy(&pool->piece_done));
    MUST(pthread_cond_destroy(&pool->work));
    MUST(pthread_mutex_destroy(&pool->lock));
    free(pool);
}

/* ---- from outside ---- */

void codec_pool_submit(struct codec_pool *pool, struct request *request, uint64_t cost,
                       codec_job job)
{
    enum work_class kind = class_of(cost);
    request->line.codec_job = job;
    request->line.cost = cost;
    request_set_owner(request, OWNER_CODECS);
    MUST(pthread_mutex_lock(&pool->lock));
    fair_push(&pool->lines[kind], request, false);
    MUST(pthread_cond_signal(&pool->work));
    MUST(pthread_mutex_unlock(&pool->lock));
}

uint64_t codec_pool_sweep(struct codec_pool *pool, uint64_t now_ns)
{
    uint64_t earliest = 0;
    struct request *expired = NULL;
    MUST(pthread_mutex_lock(&pool->lock));
    for (int kind = 0; kind < CLASS_COUNT; kind++) {
        earliest =
            deadline_earlier(earliest, fair_expire(&pool->lines[kind], now_ns, &expired));
    }
    MUST(pthread_mutex_unlock(&pool->lock));
    request_end_expired(expired, now_ns, our_turn);
    return earliest;
}

uint64_t codec_pool_wait_ns(struct codec_pool *pool, const struct client *client, bool high,
                            uint64_t bytes)
{
    const enum work_class kind = class_of(bytes);
    bool shared = false; /* with other classes: they get a share of each thread */
    MUST(pthread_mutex_lock(&pool->lock));
    const double done_bytes = (double)pool->done_bytes * (double)pool->thread_count;
    const double done_ns = (double)pool->done_ns;
    const uint64_t ahead =
        fair_ahead(&pool->lines[kind], client, high, bytes) + pool->begun[kind] / 2;
    for (int c = 0; c < CLASS_COUNT; c++) {
        shared |= c != (int)kind && pool->lines[c].cost + pool->begun[c] > 0;
    }
    MUST(pthread_mutex_unlock(&pool->lock));
    const double before = (double)ahead * (shared ? 2 : 1);
    const double wait_ns = done_bytes > 0 ? before * done_ns / done_bytes : 0;
    return wait_ns < (double)INT64_MAX ? (uint64_t)wait_ns : INT64_MAX;
}

size_t codec_pool_waiting(struct codec_pool *pool)
{
    size_t waiting = 0;
    for (int kind = 0; kind < CLASS_COUNT; kind++) {
        waiting += fair_count(&pool->lines[kind]);
    }
    return waiting;
}
