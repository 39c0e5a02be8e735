/* The selection of devices, their workers, and the sums of their statistics; see device_pool.h. */
#include "server/sched/device_pool.h"

#include "proto/text.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/thread.h"
#include "server/sched/line.h"
#include "server/sched/queue.h"
#include "server/sched/request.h"
#include "server/sched/worker.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Most time for which device_pool_stop() waits for a driver's call to return. */
#define JOIN_WAIT_NS (2 * NS_PER_S)

const struct device_driver device_driver_opencl = {
    .list = scan_devices_list,
    .open = scan_device_open,
    .prepare = scan_device_prepare,
    .measure = scan_device_measure,
    .close = scan_device_close,
    .run = scan_device_run,
    .info = scan_device_info,
};

struct device_pool {
    struct worker_plan plan;
    pthread_mutex_t changing; /* held during on_changed() */
    size_t device_count;
    size_t first[DEVICE_POOL_MAX + 1]; /* index of each device's first worker; last: `count` */
    size_t count;                      /* number of workers */
    size_t here; /* index of the worker for device_pool_scan_here(); `count`: none */
    struct dispatch_device dispatch[DEVICE_POOL_MAX]; /* one record for each device */
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

/* Returns the classes that a worker serves. The worker serves no class after another worker of
 * its device has found the device out of use. The two workers of Tally's own driver divide the
 * classes if both are ready. */
static unsigned choose_classes(const struct worker *worker)
{
    const unsigned shortest = 1U << 0;
    if (!worker->info.built_in || worker->mate_count < 2) {
        return atomic_load(&worker->lost) ? 0 : LINE_ALL;
    }
    for (size_t i = 0; i < worker->mate_count; i++) {
        if (worker_state(&worker->mates[i]) != DEVICE_READY) {
            return LINE_ALL;
        }
    }
    return worker->first ? shortest : LINE_ALL & ~shortest;
}

/* A worker's state has changed: choose the classes of all workers again, and tell the queue
 * whether any device is usable. */
static void on_changed(void *argument)
{
    struct device_pool *pool = argument;
    bool differ = false;
    MUST(pthread_mutex_lock(&pool->changing));
    for (size_t i = 0; i < pool->count; i++) {
        struct worker *worker = &pool->workers[i];
        const unsigned classes = choose_classes(worker);
        differ = atomic_exchange(&worker->classes, classes) != classes || differ;
    }
    queue_set_usable(pool->plan.parts.queue, device_pool_health(pool) != DEVICE_POOL_BROKEN,
                     differ);
    MUST(pthread_mutex_unlock(&pool->changing));
}

/* ---- which devices ---- */

/* Get the next word of a comma-separated text, without spaces around it. Returns false at the
 * end. */
static bool next_word(const char **text, char *word, size_t room)
{
    const char *start = *text + strspn(*text, ", ");
    size_t length = strcspn(start, ",");
    *text = start + length;
    while (length > 0 && start[length - 1] == ' ') {
        length--;
    }
    (void)snprintf(word, room, "%.*s", length < room ? (int)length : (int)room - 1, start);
    return length > 0;
}

/* Returns true for words that name a kind of device, not one device. */
static bool is_general(const char *word)
{
    return strcasecmp(word, "all") == 0 || strcasecmp(word, "cpu") == 0 ||
           strcasecmp(word, "gpu") == 0;
}

/* Returns true if the device is the processor in another driver, and Tally's own driver also
 * has a device for the processor (has_own). */
static bool is_second(const struct scan_device_info *info, bool has_own)
{
    return has_own && info->kind == SCAN_DEVICE_CPU && !info->built_in;
}

static bool word_matches(const char *word, size_t number, const struct scan_device_info *info,
                         bool has_own)
{
    if (strcasecmp(word, "all") == 0) {
        return !is_second(info, has_own);
    }
    if (strcasecmp(word, "cpu") == 0) {
        return info->kind == SCAN_DEVICE_CPU && !is_second(info, has_own);
    }
    if (strcasecmp(word, "gpu") == 0) {
        return info->kind == SCAN_DEVICE_GPU;
    }
    if (strspn(word, "0123456789") == strlen(word)) {
        char digits[24];
        (void)snprintf(digits, sizeof digits, "%zu", number);
        return strcmp(word, digits) == 0;
    }
    return strcasestr(info->name, word) != NULL || strcasestr(info->platform, word) != NULL ||
           strcasestr(info->vendor, word) != NULL;
}

/* Returns true if every word names Tally's own device. Assumes that this device exists. */
static bool names_own_alone(const char *text)
{
    char word[256];
    bool any = false;
    while (next_word(&text, word, sizeof word)) {
        if (strcasecmp(word, "cpu") != 0 && strcasecmp(word, "tally") != 0 &&
            strcmp(word, "0") != 0) {
            return false;
        }
        any = true;
    }
    return any;
}

/* Choose the devices that one word names. Returns false if the word matches no device. A name
 * that matches the processor in several drivers (its model name, for example) means Tally's own
 * device, which has the number `own`. Sets *named if the word names that device and
 * is_general() is false. */
static bool choose_by_word(const char *word, const struct scan_device_info *infos, size_t count,
                           size_t own, bool *chosen, bool *named)
{
    const bool has_own = own < count;
    const bool means_own = has_own && word_matches(word, own, &infos[own], true);
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        const bool match = word_matches(word, i, &infos[i], has_own) &&
                           !(means_own && is_second(&infos[i], true));
        chosen[i] = chosen[i] || match;
        found = found || match;
    }
    *named = *named || (means_own && !is_general(word));
    return found;
}

enum status device_select(const char *text, const struct scan_device_info *infos, size_t count,
                          bool *chosen, struct error *err)
{
    char word[256];
    bool any = false;
    bool named = false;  /* a word names Tally's own device (choose_by_word()) */
    bool second = false; /* a device of another driver for the same processor is chosen */
    size_t own = 0;      /* number of the device of Tally's own driver; `count`: none */
    memset(chosen, 0, count * sizeof *chosen);
    while (own < count && !infos[own].built_in) {
        own++;
    }
    while (next_word(&text, word, sizeof word)) {
        any = true;
        if (!choose_by_word(word, infos, count, own, chosen, &named)) {
            char devices[300] = ""; /* "0 (name), 1 (name)" */
            for (size_t i = 0; i < count; i++) {
                text_append(devices, sizeof devices, "%s%zu (%s)", i == 0 ? "" : ", ", i,
                            infos[i].name);
            }
            return error_set(err, STATUS_NO_DEVICE,
                             "--devices: \"%.100s\" names no OpenCL device; there is %s", word,
                             devices);
        }
    }
    if (!any) {
        return error_set(err, STATUS_INVALID_REQUEST,
                         "--devices names nothing; write all, cpu, gpu, numbers or names");
    }
    for (size_t i = 0; i < count; i++) {
        second = second || (chosen[i] && is_second(&infos[i], own < count));
    }
    if (second && named) {
        return error_set(err, STATUS_INVALID_REQUEST,
                         "--devices names the processor twice: by Tally's own driver and by "
                         "another; choose one of them");
    }
    if (second) {
        chosen[own] = false;
    }
    return STATUS_OK;
}

/* ---- creating the pool ---- */

/* Returns the number of workers of a device. A device with transfers has one worker for each
 * phase of a batch: while one batch is uploaded, another batch is scanned and a third batch is
 * downloaded. */
static size_t count_workers(const struct scan_device_info *info)
{
    return info->built_in ? 2 : info->host_memory ? 1 : DEVICE_POOL_WORKERS_MAX;
}

/* Create the pool with workers for every chosen device. */
static enum status build_pool(const struct worker_plan *plan,
                              const struct scan_device_info *infos, const bool *chosen,
                              size_t count, struct device_pool **out, struct error *err)
{
    struct device_pool *pool =
        calloc(1, sizeof *pool + DEVICE_POOL_WORKERS_MAX * count * sizeof(struct worker));
    if (pool == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the devices");
    }
    pool->plan = *plan;
    pool->plan.pool = pool;
    MUST(pthread_mutex_init(&pool->changing, NULL));
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        struct dispatch_device *device = &pool->dispatch[pool->device_count];
        struct worker *mates = &pool->workers[pool->count];
        const size_t workers = chosen[i] ? count_workers(&infos[i]) : 0;
        for (size_t j = 0; j < workers && status == STATUS_OK; j++) {
            device->number = i;
            status = worker_init(&mates[j], &pool->plan, device, &infos[i], err);
            mates[j].first = j == 0;
            mates[j].mates = mates;
            mates[j].mate_count = workers;
            pool->count += status == STATUS_OK;
        }
        pool->device_count += chosen[i];
        pool->first[pool->device_count] = pool->count;
    }
    if (status != STATUS_OK) {
        device_pool_destroy(pool);
        return status;
    }
    pool->here = 0;
    while (pool->here < pool->count &&
           (!pool->workers[pool->here].info.built_in || plan->batch.delay_ns > 0)) {
        pool->here++;
    }
    *out = pool;
    return STATUS_OK;
}

/* The list of devices, shared by the thread that calls the drivers and the thread that waits
 * for it. */
struct listing {
    const struct device_driver *driver;
    bool own_alone; /* call other drivers only if Tally's own driver has no device */
    /* one of the two threads has left the record; the other thread frees it */
    atomic_bool left;
    struct scan_device_info infos[DEVICE_POOL_MAX];
    size_t count;
    enum status status;
    struct error err;
};

static void *list_devices(void *argument)
{
    struct listing *listing = argument;
    size_t room = listing->own_alone ? 1 : DEVICE_POOL_MAX;
    listing->status =
        listing->driver->list(listing->infos, room, &listing->count, &listing->err);
    if (room == 1 && listing->status == STATUS_OK && !listing->infos[0].built_in) {
        listing->status = listing->driver->list(listing->infos, DEVICE_POOL_MAX,
                                                &listing->count, &listing->err);
    }
    if (atomic_exchange(&listing->left, true)) {
        free(listing);
    }
    return NULL;
}

/* List the devices in a separate thread. If the thread needs more than timeout_ns, it is
 * detached and owns the record; *owned is then NULL. */
static enum status list_in_time(struct listing **owned, uint64_t timeout_ns, struct error *err)
{
    struct listing *listing = *owned;
    pthread_t thread;
    TRY(thread_start(&thread, list_devices, listing, "listing the devices", err));
    if (thread_join_until(thread, clock_now_ns() + timeout_ns)) {
        return listing->status == STATUS_OK
                   ? STATUS_OK
                   : error_set(err, listing->status, "%s", listing->err.detail);
    }
    MUST(pthread_detach(thread));
    *owned = NULL;
    if (atomic_exchange(&listing->left, true)) {
        free(listing); /* the thread has ended in the meantime */
    }
    return error_set(err, STATUS_DEVICE_ERROR,
                     "the OpenCL drivers did not say within %llu ms which devices there are "
                     "(%d times --device-timeout-ms)",
                     (unsigned long long)(timeout_ns / NS_PER_MS), WORKER_PATIENCE);
}

enum status device_pool_create(const struct device_pool_parts *parts,
                               const struct device_driver *driver, struct device_pool **out,
                               struct error *err)
{
    const struct config *config = parts->config;
    const uint64_t timeout_ns = config->device_timeout_ms * NS_PER_MS;
    const struct worker_plan plan = {
        .parts = *parts,
        .driver = driver,
        .batch = {.max_requests = (size_t)config->batch_max_requests,
                  .max_bytes = config->batch_max_bytes,
                  .delay_ns = config->batch_delay_us * NS_PER_US},
        .timeout_ns = timeout_ns,
        .back_off_ns = smaller_of(NS_PER_S, timeout_ns),
        .changed = on_changed,
    };
    struct listing *listing = calloc(1, sizeof *listing);
    if (listing == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the devices");
    }
    listing->driver = driver;
    listing->own_alone = names_own_alone(config->devices);
    bool chosen[DEVICE_POOL_MAX];
    enum status status = list_in_time(&listing, WORKER_PATIENCE * timeout_ns, err);
    if (status == STATUS_OK) {
        status = device_select(config->devices, listing->infos, listing->count, chosen, err);
    }
    if (status == STATUS_OK) {
        status = build_pool(&plan, listing->infos, chosen, listing->count, out, err);
    }
    free(listing);
    return status;
}

enum status device_pool_start(struct device_pool *pool, struct error *err)
{
    for (size_t i = 0; i < pool->count; i++) {
        TRY(worker_start(&pool->workers[i], err));
    }
    return STATUS_OK;
}

bool device_pool_stop(struct device_pool *pool)
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
        struct worker *worker = &pool->workers[i];
        worker->started = worker->started && !thread_join_until(worker->thread, until_ns);
        joined = joined && !worker->started;
    }
    return joined;
}

void device_pool_destroy(struct device_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    for (size_t i = 0; i < pool->count; i++) {
        worker_deinit(&pool->workers[i]);
    }
    MUST(pthread_mutex_destroy(&pool->changing));
    free(pool);
}

bool device_pool_scan_here(struct device_pool *pool, uint64_t most_ns, struct request *request)
{
    return pool->here < pool->count && request_scan_ns(request) <= most_ns &&
           worker_scan_here(&pool->workers[pool->here], request);
}

void device_pool_tick(struct device_pool *pool, uint64_t now_ns, uint64_t lost_ns)
{
    for (size_t i = 0; i < pool->count; i++) {
        worker_watch(&pool->workers[i], now_ns, lost_ns);
    }
}

size_t device_pool_count(const struct device_pool *pool)
{
    return pool->device_count;
}

/* Fill the fields that all workers of a device share. */
static void share_stats(struct device_pool *pool, size_t index, struct device_stats *out)
{
    struct dispatch_device device;
    queue_device(pool->plan.parts.queue, &pool->dispatch[index], &device);
    out->declined = device.declined;
    out->choice = device.choice;
    memset(out->pace, 0, sizeof out->pace);
    for (int i = 0; i < PACE_KINDS; i++) {
        const enum pace_kind kind = (enum pace_kind)i;
        if (pace_is_measured(&device.pace, kind)) {
            const double bytes_per_s =
                SCAN_BYTES_PER_NS * (double)NS_PER_S / pace_slope(&device.pace, kind);
            out->pace[kind] =
                (struct device_pace){.bytes_per_s = (uint64_t)bytes_per_s,
                                     .fixed_ns = (uint64_t)pace_fixed_ns(&device.pace, kind)};
        }
    }
}

void device_pool_stats(struct device_pool *pool, size_t index, struct device_stats *out)
{
    worker_stats(&pool->workers[pool->first[index]], out);
    for (size_t i = pool->first[index] + 1; i < pool->first[index + 1]; i++) {
        struct device_stats more;
        worker_stats(&pool->workers[i], &more);
        out->state = more.state > out->state ? more.state : out->state;
        out->prepared = larger_of(out->prepared, more.prepared);
        if (out->lookback[0] == '\0') { /* no earlier worker has opened the device */
            memcpy(out->lookback, more.lookback, sizeof out->lookback);
        }
        if (out->last_error[0] == '\0') {
            memcpy(out->last_error, more.last_error, sizeof out->last_error);
        }
        out->batches += more.batches;
        out->requests += more.requests;
        out->elements += more.elements;
        out->bytes += more.bytes;
        out->errors += more.errors;
        out->busy_ns += more.busy_ns;
        out->running += more.running;
    }
    share_stats(pool, index, out);
}
