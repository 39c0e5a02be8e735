/* A mutex, two lines of requests, the jobs that were opened to helpers, and some threads. */
#include "server/codec_pool.h"

#include "server/request.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    GRAIN_BYTES = 64 << 10 /* of text: some ten times what waking a thread costs */
};

/* A job in pieces. On the stack of the thread that opened it, which leaves only when no other
 * works on it any more. The pool's lock guards it. */
struct crew_job {
    parallel_piece piece;
    void *context;
    const atomic_bool *cancelled;
    int count;
    int next;    /* piece to run next */
    int running; /* pieces */
    struct crew_job *link;
};

struct lane {
    struct request *first; /* owned while they wait, linked by next */
    struct request *last;
};

struct codec_pool {
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t work;
    pthread_cond_t piece_done;
    struct crew_job *jobs; /* that have pieces left, oldest first */
    struct lane lanes[CODEC_LANE_COUNT];
    size_t waiting;
    bool stopping;
    size_t thread_count;
    pthread_t threads[];
};

/* Thread: a holder of the lock. */
static struct request *next_request(struct codec_pool *pool)
{
    for (int i = 0; i < CODEC_LANE_COUNT; i++) {
        struct lane *lane = &pool->lanes[i];
        struct request *request = lane->first;
        if (request != NULL) {
            lane->first = request->next;
            request->next = NULL;
            pool->waiting--;
            return request;
        }
    }
    return NULL;
}

static bool has_piece(const struct crew_job *job)
{
    return job->next < job->count &&
           !atomic_load_explicit(job->cancelled, memory_order_relaxed);
}

/* Run pieces of the job until none is left. Thread: a holder of the lock, which is given up
 * meanwhile. */
static void work_on(struct codec_pool *pool, struct crew_job *job)
{
    while (has_piece(job)) {
        int index = job->next++;
        job->running++;
        (void)pthread_mutex_unlock(&pool->lock);
        job->piece(job->context, index);
        (void)pthread_mutex_lock(&pool->lock);
        job->running--;
    }
    if (job->running == 0) {
        (void)pthread_cond_broadcast(&pool->piece_done);
    }
}

/* The oldest job with pieces left, NULL. Thread: a holder of the lock. */
static struct crew_job *open_job(const struct codec_pool *pool)
{
    struct crew_job *job = pool->jobs;
    while (job != NULL && !has_piece(job)) {
        job = job->link;
    }
    return job;
}

static void link_job(struct codec_pool *pool, struct crew_job *job)
{
    struct crew_job **link = &pool->jobs;
    while (*link != NULL) {
        link = &(*link)->link;
    }
    *link = job;
}

static void unlink_job(struct codec_pool *pool, const struct crew_job *job)
{
    struct crew_job **link = &pool->jobs;
    while (*link != job) {
        link = &(*link)->link;
    }
    *link = job->link;
}

static bool run_pieces(const struct parallel *parallel, int count, parallel_piece piece,
                       void *context)
{
    const struct codec_crew *crew = (const struct codec_crew *)(const void *)parallel;
    struct codec_pool *pool = crew->pool;
    struct crew_job job = {.piece = piece,
                           .context = context,
                           .cancelled = &crew->request->cancelled,
                           .count = count};
    (void)pthread_mutex_lock(&pool->lock);
    link_job(pool, &job);
    for (int helpers = 1; helpers < count && (size_t)helpers < pool->thread_count; helpers++) {
        (void)pthread_cond_signal(&pool->work);
    }
    work_on(pool, &job);
    unlink_job(pool, &job);
    while (job.running > 0) {
        (void)pthread_cond_wait(&pool->piece_done, &pool->lock);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return job.next == count;
}

struct codec_crew codec_pool_crew(struct codec_pool *pool, const struct request *request)
{
    return (struct codec_crew){.parallel = {.grain = GRAIN_BYTES, .run = run_pieces},
                               .pool = pool,
                               .request = request};
}

static void *thread_main(void *argument)
{
    struct codec_pool *pool = argument;
    (void)pthread_setname_np(pthread_self(), "tally-codec");
    (void)pthread_mutex_lock(&pool->lock);
    for (;;) {
        struct crew_job *job = open_job(pool);
        if (job != NULL) {
            work_on(pool, job);
            continue;
        }
        struct request *request = next_request(pool);
        if (request != NULL) {
            (void)pthread_mutex_unlock(&pool->lock);
            request->codec_job(request);
            (void)pthread_mutex_lock(&pool->lock);
        } else if (pool->stopping) {
            break;
        } else {
            (void)pthread_cond_wait(&pool->work, &pool->lock);
        }
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return NULL;
}

enum status codec_pool_create(size_t threads, struct codec_pool **out, struct error *err)
{
    struct codec_pool *pool = calloc(1, sizeof *pool + threads * sizeof(pthread_t));
    if (pool == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the codec threads");
    }
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->work, NULL);
    (void)pthread_cond_init(&pool->piece_done, NULL);
    for (size_t i = 0; i < threads; i++) {
        int failure = pthread_create(&pool->threads[i], NULL, thread_main, pool);
        if (failure != 0) {
            codec_pool_destroy(pool);
            return error_set(err, STATUS_INTERNAL, "cannot start codec thread %zu of %zu: %s",
                             i + 1, threads, strerrordesc_np(failure));
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
    (void)pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    (void)pthread_cond_broadcast(&pool->work);
    (void)pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->thread_count; i++) {
        (void)pthread_join(pool->threads[i], NULL);
    }
    (void)pthread_cond_destroy(&pool->piece_done);
    (void)pthread_cond_destroy(&pool->work);
    (void)pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void codec_pool_submit(struct codec_pool *pool, struct request *request, enum codec_lane lane,
                       codec_job job)
{
    request->codec_job = job;
    request->next = NULL;
    struct lane *line = &pool->lanes[lane];
    (void)pthread_mutex_lock(&pool->lock);
    if (line->first == NULL) {
        line->first = request;
    } else {
        line->last->next = request;
    }
    line->last = request;
    pool->waiting++;
    (void)pthread_cond_signal(&pool->work);
    (void)pthread_mutex_unlock(&pool->lock);
}

size_t codec_pool_waiting(struct codec_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
    size_t waiting = pool->waiting;
    (void)pthread_mutex_unlock(&pool->lock);
    return waiting;
}
