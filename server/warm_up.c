/* What is done about the steps: loading, children, compiling here. */
#include "server/warm_up_steps.h"

#include "server/clock.h"
#include "server/kernel_cache.h"
#include "server/lifecycle.h"
#include "server/log.h"
#include "server/worker.h"

#include <stdio.h>
#include <string.h>

/* Between batches a kernel is loaded this often; a busy child is looked after as often. */
#define LOAD_EVERY_NS (20 * NS_PER_MS)
/* Without children: how long the worker waits for requests at a time, and when it compiles
 * although there are always some. */
#define IDLE_WAIT_NS    (250 * NS_PER_MS)
#define NEVER_QUIET_NS  (60 * NS_PER_S)
#define NOTHING_ELSE_NS (3600 * NS_PER_S)

enum {
    WAIT_MS = 5,         /* for a child, when there is nothing else to do */
    LOAD_ROOM = 1 << 20, /* bytes for the files that PoCL makes of a kernel: 100 KiB, or so */
    BUILD_ROOM = 4 << 20 /* those of its compiler, as well */
};

void warm_up_stop(struct warm_up *warm)
{
    for (size_t i = 0; i < WARM_UP_CHILDREN; i++) {
        if (warm->child[i].pid != 0 && warm->child[i].greeted && warm->child[i].busy) {
            warm->steps[warm->asked[i]].state = MISSING;
        }
        kernel_builder_stop(&warm->child[i]);
    }
}

/* ---- loading and compiling in the worker ---- */

static void count_build(struct worker *worker, uint64_t began_ns, bool failed)
{
    (void)pthread_mutex_lock(&worker->lock);
    worker->stats.builds += !failed;
    worker->stats.build_failures += failed;
    worker->stats.build_ns += clock_span_ns(began_ns, clock_now_ns());
    (void)pthread_mutex_unlock(&worker->lock);
}

/* Has PoCL room for files of so many bytes? 0 or an errno; 0 for other drivers. */
static int find_room(const struct worker *worker, size_t bytes)
{
    bool pocl = strcmp(worker->info.platform, "Portable Computing Language") == 0;
    return pocl ? kernel_cache_room(worker->plan->pocl_cache, bytes) : 0;
}

/* How the device runs long lines now: a trial may have changed that. */
static void note_lookback(struct worker *worker)
{
    const char *lookback = worker->plan->driver->info(worker->device)->lookback;
    char *noted = worker->stats.lookback;
    (void)pthread_mutex_lock(&worker->lock);
    bool changed = strcmp(noted, lookback) != 0 && noted[0] != '\0';
    (void)snprintf(noted, sizeof worker->stats.lookback, "%s", lookback);
    (void)pthread_mutex_unlock(&worker->lock);
    if (changed) {
        log_message(worker->plan->server->log, LOG_INFO, "device %zu (%s): look-back: %s",
                    worker->number, worker->info.name, lookback);
    }
}

/* One call of the driver for a step. False: the device is out of use. */
static bool warm_step(struct worker *worker, size_t step, bool compile)
{
    const struct device_driver *driver = worker->plan->driver;
    struct error err = ERROR_INIT;
    uint64_t began_ns = clock_now_ns();
    worker_call_begin(worker, compile ? WORKER_CALL_BUILD : WORKER_CALL_LOAD, 0);
    enum status status =
        driver->warm(worker->device, &worker->warm.steps[step].build, compile, &err);
    if (!worker_call_end(worker)) {
        return false;
    }
    note_lookback(worker);
    if (status == STATUS_OK) {
        char what[64];
        (void)snprintf(what, sizeof what, "%s in %llu us", compile ? "built here" : "loaded",
                       (unsigned long long)((clock_now_ns() - began_ns) / NS_PER_US));
        warm_up_note(worker, LOG_DEBUG, step, what);
        warm_up_set(worker, step, DONE);
        return true;
    }
    if (status == STATUS_NOT_FOUND && !compile) {
        warm_up_set(worker, step, MISSING);
        return true;
    }
    if (status == STATUS_DEVICE_ERROR) {
        error_prefix(&err, dtype_info(worker->warm.steps[step].build.kind.dtype)->name);
        worker_fail(worker, DEVICE_FAILED, err.detail);
        return false;
    }
    if (status == STATUS_UNSUPPORTED) {
        warm_up_note_failure(worker, step, err.detail);
        warm_up_set(worker, step, FAILED);
    } else {
        warm_up_put_off(worker, step, err.detail);
    }
    return true;
}

static void put_off_for_room(struct worker *worker, size_t step, int failure)
{
    char why[256];
    (void)snprintf(why, sizeof why, "no room for the files of PoCL in %s: %s",
                   worker->plan->pocl_cache, strerrordesc_np(failure));
    warm_up_put_off(worker, step, why);
}

/* Load a kernel if it is in the cache. False: the device is out of use. */
static bool load_step(struct worker *worker, size_t step)
{
    int failure = find_room(worker, LOAD_ROOM);
    if (failure == 0) {
        return warm_step(worker, step, false);
    }
    if (worker->warm.children) {
        warm_up_set(worker, step, MISSING); /* a child loads it first */
    } else {
        put_off_for_room(worker, step, failure);
    }
    return true;
}

static bool build_here(struct worker *worker, size_t step)
{
    uint64_t began_ns = clock_now_ns();
    int failure = find_room(worker, BUILD_ROOM);
    if (failure != 0) {
        put_off_for_room(worker, step, failure);
        count_build(worker, began_ns, true);
        return true;
    }
    bool usable = warm_step(worker, step, true);
    worker->warm.here_ns = clock_now_ns();
    count_build(worker, began_ns, !usable || worker->warm.steps[step].state != DONE);
    return usable;
}

/* ---- children ---- */

static void give_up_children(struct worker *worker, const char *reason)
{
    struct warm_up *warm = &worker->warm;
    log_message(worker->plan->server->log, LOG_WARN,
                "device %zu: kernels are built in the service itself: %s", worker->number,
                reason);
    warm->children = false;
    warm_up_stop(warm);
}

/* A child ended over it, or could not start. */
static void lose_child(struct worker *worker, size_t step, const char *reason)
{
    struct warm_up_step *lost = &worker->warm.steps[step];
    if (lost->tries + 1 < TRIES_MAX) {
        lost->tries++;
        warm_up_note(worker, LOG_WARN, step, reason);
        warm_up_set(worker, step, MISSING);
    } else {
        warm_up_put_off(worker, step, reason);
    }
}

/* Start a child for a step. */
static bool start_child(struct worker *worker, size_t number, size_t step)
{
    struct error err = ERROR_INIT;
    struct kernel_builder *child = &worker->warm.child[number];
    enum status status =
        kernel_builder_start(child, worker->number, worker->plan->open_options.cache_dir,
                             worker->plan->timeout_ns, &err);
    worker->warm.asked[number] = step;
    if (status == STATUS_UNSUPPORTED) {
        give_up_children(worker, err.detail);
    } else if (status != STATUS_OK) {
        lose_child(worker, step, err.detail);
    } else if (worker_state(worker) == DEVICE_READY) {
        kernel_builder_nice(child);
    }
    return status == STATUS_OK;
}

/* It says that it is built: then it is in the cache. False: the device is out of use. */
static bool load_built(struct worker *worker, size_t step)
{
    if (!warm_step(worker, step, false)) {
        return false;
    }
    if (worker->warm.steps[step].state == MISSING) {
        warm_up_put_off(worker, step,
                        "what was built could not be kept in the kernel cache "
                        "(--kernel-cache)");
    }
    return true;
}

/* The child says that it cannot be built. False: the device is out of use. */
static bool accept_failure(struct worker *worker, size_t number, const struct error *err)
{
    size_t step = worker->warm.asked[number];
    bool room = find_room(worker, BUILD_ROOM) == 0;
    kernel_builder_stop(&worker->warm.child[number]); /* it remembers what did not work */
    if (room && err->status == STATUS_UNSUPPORTED) {
        warm_up_note_failure(worker, step, err->detail);
        warm_up_set(worker, step, FAILED);
    } else if (room && step < worker->warm.first && worker_state(worker) != DEVICE_READY) {
        worker_fail(worker, DEVICE_FAILED, err->detail);
        return false;
    } else {
        warm_up_put_off(worker, step, err->detail);
    }
    return true;
}

/* What a child has to say, if anything. False: the device is out of use. */
static bool hear_child(struct worker *worker, size_t number, int wait_ms)
{
    struct warm_up *warm = &worker->warm;
    struct error err = ERROR_INIT;
    enum kernel_builder_news news = kernel_builder_poll(&warm->child[number], wait_ms, &err);
    size_t step = warm->asked[number];
    bool asked = warm->steps[step].state == ASKED;
    if (news == KERNEL_BUILDER_USELESS && warm->steps[step].state == MISSING) {
        lose_child(worker, step, err.detail);
    }
    if (news != KERNEL_BUILDER_DONE && news != KERNEL_BUILDER_FAILED &&
        (news != KERNEL_BUILDER_GONE || !asked)) {
        return true;
    }
    count_build(worker, warm->asked_ns[number], news != KERNEL_BUILDER_DONE);
    if (news == KERNEL_BUILDER_DONE) {
        return load_built(worker, step);
    }
    if (news == KERNEL_BUILDER_FAILED) {
        return accept_failure(worker, number, &err);
    }
    lose_child(worker, step, err.detail);
    return true;
}

/* Give an idle child a step. */
static void ask_child(struct worker *worker, size_t number, size_t step)
{
    struct warm_up *warm = &worker->warm;
    warm->asked[number] = step;
    warm->asked_ns[number] = clock_now_ns();
    kernel_builder_ask(&warm->child[number], &warm->steps[step].build,
                       worker->plan->timeout_ns);
    warm_up_set(worker, step, ASKED);
}

/* Keep up to `most` children at work on the steps before `to`, `urgent` first. False: the
 * device is out of use. */
static bool tend_children(struct worker *worker, size_t most, size_t to, size_t urgent)
{
    struct warm_up *warm = &worker->warm;
    for (size_t i = 0; i < WARM_UP_CHILDREN && warm->children; i++) {
        struct kernel_builder *child = &warm->child[i];
        if (!hear_child(worker, i, 0)) {
            return false;
        }
        size_t step = urgent != NO_STEP && warm->steps[urgent].state == MISSING
                          ? urgent
                          : warm_up_first(warm, 0, to, MISSING);
        if (step == NO_STEP || i >= most || !warm->children) {
            continue;
        }
        bool running = child->pid != 0 || start_child(worker, i, step);
        if (running && !child->busy) {
            ask_child(worker, i, step);
        }
    }
    return true;
}

/* Wait a moment for a child. False: the device is out of use. */
static bool wait_for_children(struct worker *worker)
{
    bool usable = true;
    for (size_t i = 0; i < WARM_UP_CHILDREN && usable; i++) {
        if (worker->warm.child[i].pid != 0) {
            usable = hear_child(worker, i, WAIT_MS);
        }
    }
    return usable;
}

/* ---- what the worker calls ---- */

/* Bring the steps [from, to) to an end, by up to `most` children or here, unless one is put
 * off. False: the device is out of use, or the worker is to stop. */
static bool finish_steps(struct worker *worker, size_t from, size_t to, size_t most)
{
    struct warm_up *warm = &worker->warm;
    bool usable = true;
    for (size_t i = from; i < to && usable; i++) {
        usable = warm->steps[i].state != UNKNOWN || load_step(worker, i);
    }
    while (usable && !worker_is_stopping(worker)) {
        size_t missing = warm_up_first(warm, from, to, MISSING);
        bool ended = missing == NO_STEP && warm_up_first(warm, from, to, ASKED) == NO_STEP;
        if (ended || warm_up_first(warm, from, to, PUT_OFF) != NO_STEP) {
            return true;
        }
        if (missing != NO_STEP && !warm->children) {
            usable = build_here(worker, missing);
            continue;
        }
        usable = tend_children(worker, most, to, missing) && wait_for_children(worker);
    }
    return false;
}

bool warm_up_begin(struct worker *worker)
{
    struct warm_up *warm = &worker->warm;
    warm_up_list(worker);
    note_lookback(worker);
    (void)pthread_mutex_lock(&worker->lock);
    worker->stats.to_build = warm->left;
    (void)pthread_mutex_unlock(&worker->lock);
    size_t most = worker->plan->cpus < WARM_UP_CHILDREN ? 1 : WARM_UP_CHILDREN;
    bool usable = finish_steps(worker, 0, warm->first, most);
    for (size_t i = 0; i < warm->first && usable; i++) {
        if (warm->steps[i].state != DONE) {
            worker_fail(worker, DEVICE_UNBUILT, worker->stats.build_error);
            usable = false;
        }
    }
    for (size_t i = 1; i < WARM_UP_CHILDREN; i++) {
        kernel_builder_stop(&warm->child[i]); /* the rest is for one, in the background */
    }
    kernel_builder_nice(&warm->child[0]);
    return usable;
}

/* Have the kernel of a step, waiting for it. */
static enum warm_up_result have_step(struct worker *worker, size_t step, struct error *err)
{
    struct warm_up *warm = &worker->warm;
    bool ended = warm->steps[step].state == DONE || finish_steps(worker, step, step + 1, 1);
    if (warm->steps[step].state == DONE) {
        return WARM_UP_READY;
    }
    if (!ended && worker_state(worker) != DEVICE_READY) {
        return WARM_UP_OUT;
    }
    (void)error_set(err, ended ? STATUS_DEVICE_ERROR : STATUS_DRAINING,
                    "device %zu (%s) has no kernel for %s now, try again later; %s",
                    worker->number, worker->info.name,
                    dtype_info(warm->steps[step].build.kind.dtype)->name,
                    ended ? worker->stats.build_error : "the service stops");
    return WARM_UP_MISSING;
}

enum warm_up_result warm_up_for(struct worker *worker, struct scan_kind kind, struct error *err)
{
    struct warm_up *warm = &worker->warm;
    enum warm_up_result result = WARM_UP_READY;
    warm_up_resume(worker, clock_now_ns());
    for (unsigned kernel = 0;
         kernel < SCAN_BUILD_KERNELS && result == WARM_UP_READY && warm->lacking > 0;
         kernel++) {
        const struct scan_build build = {kind, kernel};
        size_t step = worker->plan->driver->needs(worker->device, kernel)
                          ? warm_up_find(warm, &build)
                          : NO_STEP;
        result = step == NO_STEP ? WARM_UP_READY : have_step(worker, step, err);
    }
    return result;
}

/* Load a kernel if it is time: the one that jobs want, or the next. */
static bool load_one(struct worker *worker, size_t wanted, uint64_t now_ns)
{
    struct warm_up *warm = &worker->warm;
    if (now_ns < warm->load_ns) {
        return true;
    }
    warm->next_load = warm_up_first(warm, warm->next_load, warm->count, UNKNOWN);
    size_t step =
        wanted != NO_STEP && warm->steps[wanted].state == UNKNOWN ? wanted : warm->next_load;
    warm->load_ns = now_ns + LOAD_EVERY_NS;
    return step == NO_STEP || load_step(worker, step);
}

/* The step of the kernel that jobs wanted lately; it is left to do from now on. */
static size_t look_for_wanted(struct worker *worker)
{
    struct scan_build build;
    if (!worker->plan->driver->wanted(worker->device, &build)) {
        return NO_STEP;
    }
    size_t step = warm_up_find(&worker->warm, &build);
    if (step != NO_STEP && worker->warm.steps[step].state == UNASKED) {
        warm_up_set(worker, step, UNKNOWN);
    }
    return step;
}

bool warm_up_tick(struct worker *worker, bool quiet)
{
    struct warm_up *warm = &worker->warm;
    uint64_t now_ns = clock_now_ns();
    size_t wanted = look_for_wanted(worker);
    warm_up_resume(worker, now_ns);
    if (warm->left == 0 ||
        lifecycle_phase(worker->plan->server->lifecycle) >= LIFECYCLE_DRAINING) {
        warm_up_stop(warm);
        return true;
    }
    if (!load_one(worker, wanted, now_ns) || !tend_children(worker, 1, warm->count, wanted)) {
        return false;
    }
    size_t here = warm->children ? NO_STEP : warm_up_first(warm, 0, warm->count, MISSING);
    bool now = quiet || now_ns - warm->here_ns >= NEVER_QUIET_NS;
    return here == NO_STEP || !now || build_here(worker, here);
}

uint64_t warm_up_wait_ns(const struct worker *worker)
{
    const struct warm_up *warm = &worker->warm;
    if (warm->left == 0) {
        uint64_t now_ns = clock_now_ns();
        uint64_t again_ns = warm->again_ns > now_ns ? warm->again_ns - now_ns : 0;
        return again_ns < NOTHING_ELSE_NS ? again_ns : NOTHING_ELSE_NS;
    }
    bool loading = warm_up_first(warm, warm->next_load, warm->count, UNKNOWN) != NO_STEP;
    return loading || warm->children ? LOAD_EVERY_NS : IDLE_WAIT_NS;
}
