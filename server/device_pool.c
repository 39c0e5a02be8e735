/* The workers of all selected devices, and what they add up to. */
#include "server/device_pool.h"

#include "server/clock.h"
#include "server/config.h"
#include "server/device_select.h"
#include "server/log.h"
#include "server/queue.h"
#include "server/worker.h"

#include <pthread.h>
#include <stdlib.h>

/* How long destroy waits for threads that are in the middle of something. */
#define JOIN_WAIT_NS (2 * NS_PER_S)

struct device_pool {
    struct worker_plan plan;
    pthread_mutex_t changing; /* one at a time tells the queue */
    size_t count;
    struct worker workers[];
};

const char *device_state_name(enum device_state state)
{
    static const char *const names[DEVICE_STATE_COUNT] = {"opening", "ready", "failed", "hung"};
    return names[state];
}

enum device_pool_health device_pool_health(struct device_pool *pool)
{
    enum device_pool_health health = DEVICE_POOL_BROKEN;
    for (size_t i = 0; i < pool->count; i++) {
        enum device_state state = worker_state(&pool->workers[i]);
        if (state == DEVICE_READY) {
            return DEVICE_POOL_USABLE;
        }
        if (state == DEVICE_OPENING) {
            health = DEVICE_POOL_OPENING;
        }
    }
    return health;
}

/* A worker's state changed: tell the queue whether it still leads anywhere. */
static void on_changed(void *argument)
{
    struct device_pool *pool = argument;
    (void)pthread_mutex_lock(&pool->changing);
    queue_set_usable(pool->plan.server->queue, device_pool_health(pool) != DEVICE_POOL_BROKEN);
    (void)pthread_mutex_unlock(&pool->changing);
}

static enum status fill_plan(struct server *server, const struct device_driver *driver,
                             struct worker_plan *plan, struct error *err)
{
    const struct config *config = server->config;
    unsigned dtypes = 0;
    enum status status = device_select_dtypes(config->warm, &dtypes, err);
    if (status != STATUS_OK) {
        return status;
    }
    *plan = (struct worker_plan){
        .server = server,
        .driver = driver,
        .open_options = {.cache_dir = config->kernel_cache,
                         .gpu_kernels = config->gpu_kernels,
                         .lookback = (enum scan_lookback)config->gpu_lookback,
                         .patient = true},
        .batch = {.max_requests = (size_t)config->batch_max_requests,
                  .max_bytes = config->batch_max_bytes,
                  .delay_ns = config->batch_delay_us * NS_PER_US},
        .busy_poll_ns = busy_poll_limit_ns(config->busy_poll_us),
        .timeout_ns = config->device_timeout_ms * NS_PER_MS,
        .back_off_ns = NS_PER_S < config->device_timeout_ms * NS_PER_MS
                           ? NS_PER_S
                           : config->device_timeout_ms * NS_PER_MS,
        .warm_dtypes = dtypes,
        .build_ahead = config->build_ahead,
        .changed = on_changed,
        .tuning = scan_tuning_default,
    };
    return config->kernel_table[0] == '\0'
               ? STATUS_OK
               : scan_tuning_read(config->kernel_table, &plan->tuning, err);
}

/* The pool with a worker for every chosen device. */
static enum status build(const struct worker_plan *plan, const struct scan_device_info *infos,
                         const bool *chosen, size_t count, struct device_pool **out,
                         struct error *err)
{
    struct device_pool *pool = calloc(1, sizeof *pool + count * sizeof(struct worker));
    if (pool == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the devices");
    }
    pool->plan = *plan;
    pool->plan.pool = pool;
    pool->plan.open_options.tuning = &pool->plan.tuning;
    (void)pthread_mutex_init(&pool->changing, NULL);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        if (chosen[i]) {
            status = worker_init(&pool->workers[pool->count], &pool->plan, i, &infos[i], err);
            pool->count += status == STATUS_OK;
        }
    }
    if (status != STATUS_OK) {
        (void)!device_pool_destroy(pool);
        return status;
    }
    *out = pool;
    return STATUS_OK;
}

enum status device_pool_create(struct server *server, const struct device_driver *driver,
                               struct device_pool **out, struct error *err)
{
    struct worker_plan plan;
    enum status status = fill_plan(server, driver, &plan, err);
    if (status != STATUS_OK) {
        return status;
    }
    struct scan_device_info *infos = calloc(DEVICE_POOL_MAX, sizeof *infos);
    if (infos == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the devices");
    }
    size_t count = 0;
    bool chosen[DEVICE_POOL_MAX];
    status = driver->list(infos, DEVICE_POOL_MAX, &count, err);
    if (status == STATUS_OK) {
        status = device_select(server->config->devices, infos, count, chosen, err);
    }
    if (status == STATUS_OK) {
        status = build(&plan, infos, chosen, count, out, err);
    }
    free(infos);
    return status;
}

enum status device_pool_start(struct device_pool *pool, struct error *err)
{
    for (size_t i = 0; i < pool->count; i++) {
        enum status status = worker_start(&pool->workers[i], err);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

bool device_pool_destroy(struct device_pool *pool)
{
    if (pool == NULL) {
        return true;
    }
    uint64_t until_ns = clock_now_ns() + JOIN_WAIT_NS;
    for (size_t i = 0; i < pool->count; i++) {
        worker_stop(&pool->workers[i]);
    }
    bool joined = true;
    for (size_t i = 0; i < pool->count; i++) {
        joined = worker_join(&pool->workers[i], until_ns) && joined;
    }
    if (!joined) {
        return false;
    }
    for (size_t i = 0; i < pool->count; i++) {
        worker_deinit(&pool->workers[i]);
    }
    (void)pthread_mutex_destroy(&pool->changing);
    free(pool);
    return true;
}

void device_pool_tick(struct device_pool *pool, uint64_t now_ns)
{
    for (size_t i = 0; i < pool->count; i++) {
        worker_watch(&pool->workers[i], now_ns);
    }
}

size_t device_pool_count(const struct device_pool *pool)
{
    return pool->count;
}

void device_pool_stats(struct device_pool *pool, size_t index, struct device_stats *out)
{
    worker_stats(&pool->workers[index], out);
}
