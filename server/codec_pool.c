/* A mutex, two lines of requests and some threads. */
#include "server/codec_pool.h"

#include "server/request.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct lane {
    struct request *first; /* owned while they wait, linked by next */
    struct request *last;
};

struct codec_pool {
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t work;
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

static void *thread_main(void *argument)
{
    struct codec_pool *pool = argument;
    (void)pthread_setname_np(pthread_self(), "tally-codec");
    (void)pthread_mutex_lock(&pool->lock);
    for (;;) {
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
