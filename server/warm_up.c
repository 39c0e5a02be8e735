/* The steps and the children; what is built is logged and counted here. */
#include "server/warm_up.h"

#include "server/clock.h"
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
    WAIT_MS = 5,     /* for a child, when there is nothing else to do */
    TRIES_MAX = 2,   /* children to lose over a kernel */
    USELESS_MAX = 2, /* children that cannot start before none is tried any more */
    NO_STEP = WARM_UP_STEPS_MAX
};

enum step_state {
    UNASKED, /* no job has wanted it */
    UNKNOWN, /* whether the cache has it */
    MISSING,
    ASKED,
    HERE,
    DONE,
    FAILED
};

void warm_up_init(struct warm_up *warm)
{
    *warm = (struct warm_up){.count = 0};
    for (size_t i = 0; i < WARM_UP_CHILDREN; i++) {
        kernel_builder_init(&warm->child[i]);
    }
}

void warm_up_stop(struct warm_up *warm)
{
    for (size_t i = 0; i < WARM_UP_CHILDREN; i++) {
        if (warm->child[i].pid != 0 && warm->child[i].greeted && warm->child[i].busy) {
            warm->steps[warm->asked[i]].state = MISSING;
        }
        kernel_builder_stop(&warm->child[i]);
    }
}

/* ---- the list of steps ---- */

/* Only float32 and narrower floats know two precisions. */
static bool has_kind(struct scan_kind kind)
{
    const struct dtype_info *info = dtype_info(kind.dtype);
    return kind.precision == PRECISION_WIDE ||
           (info->kind == DTYPE_KIND_FLOAT && info->bytes <= 4);
}

/* Wait until a job wants it: every kernel takes time to build and memory to keep, and jobs have
 * the generic one meanwhile. Look-back, of GPUs, is tried beforehand. */
static bool waits_for_jobs(const struct worker *worker, unsigned kernel)
{
    return !worker->plan->build_ahead && worker->info.kind == SCAN_DEVICE_CPU &&
           !worker->plan->open_options.gpu_kernels &&
           !worker->plan->driver->needs(worker->device, kernel);
}

/* The kernels of the types that --warm names, or of the others. */
static void add_steps(struct worker *worker, bool named, bool needed)
{
    const struct device_driver *driver = worker->plan->driver;
    struct warm_up *warm = &worker->warm;
    for (unsigned i = 0; i < WARM_UP_STEPS_MAX; i++) {
        const struct scan_build build = {
            {(enum dtype)(i / SCAN_BUILD_KERNELS % DTYPE_COUNT),
             i / SCAN_BUILD_KERNELS < DTYPE_COUNT ? PRECISION_WIDE : PRECISION_NATIVE},
            i % SCAN_BUILD_KERNELS};
        bool is_named = build.kind.precision == PRECISION_WIDE &&
                        (worker->plan->warm_dtypes >> build.kind.dtype & 1) != 0;
        if (is_named == named && has_kind(build.kind) && driver->uses(worker->device, &build) &&
            driver->needs(worker->device, build.kernel) == needed) {
            bool waits = waits_for_jobs(worker, build.kernel);
            warm->left += !waits;
            warm->steps[warm->count++] =
                (struct warm_up_step){build, waits ? UNASKED : UNKNOWN, 0};
        }
    }
}

/* Before ready, what answers any request of the named types. Then the same for the others; then
 * the best kernels, for the named types first, as clients mostly ask for them. */
static void list_steps(struct worker *worker)
{
    struct warm_up *warm = &worker->warm;
    warm_up_init(warm);
    add_steps(worker, true, true);
    warm->first = warm->count;
    add_steps(worker, false, true);
    add_steps(worker, true, false);
    add_steps(worker, false, false);
    /* a child opens the device as it is, and does not know of --gpu-kernels */
    warm->children = worker->plan->open_options.cache_dir != NULL &&
                     worker->plan->open_options.cache_dir[0] != '\0' &&
                     !worker->plan->open_options.gpu_kernels;
    warm->here_ns = clock_now_ns();
}

static size_t find_step(const struct warm_up *warm, const struct scan_build *build)
{
    for (size_t i = 0; i < warm->count; i++) {
        const struct scan_build *step = &warm->steps[i].build;
        if (step->kernel == build->kernel && step->kind.dtype == build->kind.dtype &&
            step->kind.precision == build->kind.precision) {
            return i;
        }
    }
    return NO_STEP;
}

static size_t first_in(const struct warm_up *warm, size_t from, size_t to,
                       enum step_state state)
{
    for (size_t i = from; i < to; i++) {
        if (warm->steps[i].state == state) {
            return i;
        }
    }
    return NO_STEP;
}

static bool is_needed(const struct worker *worker, size_t step)
{
    return worker->plan->driver->needs(worker->device, worker->warm.steps[step].build.kernel);
}

static bool is_left(enum step_state state)
{
    return state != UNASKED && state < DONE;
}

static void set_step(struct worker *worker, size_t step, enum step_state state)
{
    struct warm_up *warm = &worker->warm;
    bool was_left = is_left((enum step_state)warm->steps[step].state);
    warm->steps[step].state = (unsigned char)state;
    warm->next_load = state == UNKNOWN && step < warm->next_load ? step : warm->next_load;
    warm->left += (size_t)is_left(state) - (size_t)was_left;
    (void)pthread_mutex_lock(&worker->lock);
    worker->stats.to_build = warm->left;
    (void)pthread_mutex_unlock(&worker->lock);
}

static void count_build(struct worker *worker, uint64_t began_ns, bool failed)
{
    (void)pthread_mutex_lock(&worker->lock);
    worker->stats.builds += !failed;
    worker->stats.build_failures += failed;
    worker->stats.build_ns += clock_span_ns(began_ns, clock_now_ns());
    (void)pthread_mutex_unlock(&worker->lock);
}

static void note(struct worker *worker, enum log_level level, size_t step, const char *what)
{
    char text[SCAN_BUILD_TEXT];
    scan_build_describe(&worker->warm.steps[step].build, text);
    log_message(worker->plan->server->log, level, "device %zu: %s: %s", worker->number, text,
                what);
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

/* ---- loading and compiling in the worker ---- */

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
        note(worker, LOG_DEBUG, step, what);
        set_step(worker, step, DONE);
        return true;
    }
    if (status == STATUS_NOT_FOUND && !compile) {
        set_step(worker, step, MISSING);
        return true;
    }
    if (status == STATUS_DEVICE_ERROR) {
        error_prefix(&err, dtype_info(worker->warm.steps[step].build.kind.dtype)->name);
        worker_fail(worker, err.detail);
        return false;
    }
    note(worker, LOG_WARN, step, err.detail);
    set_step(worker, step, FAILED); /* jobs that cannot do without it say so to their clients */
    return true;
}

static bool build_here(struct worker *worker, size_t step)
{
    uint64_t began_ns = clock_now_ns();
    bool usable = warm_step(worker, step, true);
    worker->warm.here_ns = clock_now_ns();
    count_build(worker, began_ns, !usable || worker->warm.steps[step].state == FAILED);
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

static void child_could_not_start(struct worker *worker, const char *reason)
{
    if (++worker->warm.useless >= USELESS_MAX) {
        give_up_children(worker, reason);
    }
}

static bool start_child(struct worker *worker, struct kernel_builder *child)
{
    struct error err = ERROR_INIT;
    bool started =
        kernel_builder_start(child, worker->number, worker->plan->open_options.cache_dir,
                             worker->plan->timeout_ns, &err) == STATUS_OK;
    if (!started) {
        child_could_not_start(worker, err.detail);
    } else if (worker_state(worker) == DEVICE_READY) {
        kernel_builder_nice(child);
    }
    return started;
}

static void lose_child(struct worker *worker, size_t step, const char *reason)
{
    struct warm_up_step *lost = &worker->warm.steps[step];
    note(worker, LOG_WARN, step, reason);
    if (++lost->tries < TRIES_MAX) {
        set_step(worker, step, MISSING);
    } else {
        set_step(worker, step, is_needed(worker, step) ? HERE : FAILED);
    }
}

/* It says that it is built: then it is in the cache. False: the device is out of use. */
static bool load_built(struct worker *worker, size_t step)
{
    if (!warm_step(worker, step, false)) {
        return false;
    }
    if (worker->warm.steps[step].state == MISSING) {
        give_up_children(worker, "what was built is not in the kernel cache (--kernel-cache)");
    }
    return true;
}

/* What a child has to say, if anything. False: the device is out of use. */
static bool hear_child(struct worker *worker, size_t number, int wait_ms)
{
    struct warm_up *warm = &worker->warm;
    char reason[KERNEL_BUILDER_TEXT];
    enum kernel_builder_news news = kernel_builder_poll(&warm->child[number], wait_ms, reason);
    size_t step = warm->asked[number];
    if (news == KERNEL_BUILDER_USELESS) {
        child_could_not_start(worker, reason);
    }
    if (news != KERNEL_BUILDER_DONE && news != KERNEL_BUILDER_FAILED &&
        (news != KERNEL_BUILDER_GONE || warm->steps[step].state != ASKED)) {
        return true;
    }
    count_build(worker, warm->asked_ns[number], news != KERNEL_BUILDER_DONE);
    if (news == KERNEL_BUILDER_DONE) {
        return load_built(worker, step);
    }
    if (news == KERNEL_BUILDER_FAILED) {
        note(worker, LOG_WARN, step, reason);
        set_step(worker, step, is_needed(worker, step) ? HERE : FAILED);
    } else {
        lose_child(worker, step, reason);
    }
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
    set_step(worker, step, ASKED);
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
                          : first_in(warm, 0, to, MISSING);
        if (step == NO_STEP || i >= most || !warm->children) {
            continue;
        }
        bool running = child->pid != 0 || start_child(worker, child);
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

/* Bring the steps [from, to) to an end, by up to `most` children or here. */
static bool finish_steps(struct worker *worker, size_t from, size_t to, size_t most)
{
    struct warm_up *warm = &worker->warm;
    bool usable = true;
    for (size_t i = from; i < to && usable; i++) {
        usable = warm->steps[i].state != UNKNOWN || warm_step(worker, i, false);
    }
    while (usable && !worker_is_stopping(worker)) {
        size_t missing = first_in(warm, from, to, MISSING);
        size_t here = first_in(warm, from, to, HERE);
        if (here == NO_STEP && !warm->children) {
            here = missing;
        }
        if (here != NO_STEP) {
            usable = build_here(worker, here);
            continue;
        }
        if (missing == NO_STEP && first_in(warm, from, to, ASKED) == NO_STEP) {
            return true;
        }
        usable = tend_children(worker, most, to, missing) && wait_for_children(worker);
    }
    return false;
}

bool warm_up_begin(struct worker *worker)
{
    struct warm_up *warm = &worker->warm;
    list_steps(worker);
    note_lookback(worker);
    (void)pthread_mutex_lock(&worker->lock);
    worker->stats.to_build = warm->left;
    (void)pthread_mutex_unlock(&worker->lock);
    size_t most = worker->plan->cpus < WARM_UP_CHILDREN ? 1 : WARM_UP_CHILDREN;
    bool usable = finish_steps(worker, 0, warm->first, most);
    for (size_t i = 1; i < WARM_UP_CHILDREN; i++) {
        kernel_builder_stop(&warm->child[i]); /* the rest is for one, in the background */
    }
    kernel_builder_nice(&warm->child[0]);
    return usable;
}

enum warm_up_result warm_up_for(struct worker *worker, struct scan_kind kind, struct error *err)
{
    struct warm_up *warm = &worker->warm;
    for (unsigned kernel = 0; kernel < SCAN_BUILD_KERNELS && warm->left > 0; kernel++) {
        const struct scan_build build = {kind, kernel};
        if (!worker->plan->driver->needs(worker->device, kernel)) {
            continue;
        }
        size_t step = find_step(warm, &build);
        if (step == NO_STEP || warm->steps[step].state >= DONE ||
            finish_steps(worker, step, step + 1, 1)) {
            continue;
        }
        if (worker_state(worker) != DEVICE_READY) {
            return WARM_UP_OUT;
        }
        (void)error_set(err, STATUS_DRAINING, "the service stops");
        return WARM_UP_MISSING;
    }
    return WARM_UP_READY;
}

/* Load a kernel if it is time: the one that jobs want, or the next. */
static bool load_one(struct worker *worker, size_t wanted, uint64_t now_ns)
{
    struct warm_up *warm = &worker->warm;
    if (now_ns < warm->load_ns) {
        return true;
    }
    warm->next_load = first_in(warm, warm->next_load, warm->count, UNKNOWN);
    size_t step =
        wanted != NO_STEP && warm->steps[wanted].state == UNKNOWN ? wanted : warm->next_load;
    warm->load_ns = now_ns + LOAD_EVERY_NS;
    return step == NO_STEP || warm_step(worker, step, false);
}

/* The step of the kernel that jobs wanted lately; it is left to do from now on. */
static size_t look_for_wanted(struct worker *worker)
{
    struct scan_build build;
    if (!worker->plan->driver->wanted(worker->device, &build)) {
        return NO_STEP;
    }
    size_t step = find_step(&worker->warm, &build);
    if (step != NO_STEP && worker->warm.steps[step].state == UNASKED) {
        set_step(worker, step, UNKNOWN);
    }
    return step;
}

bool warm_up_tick(struct worker *worker, bool quiet)
{
    struct warm_up *warm = &worker->warm;
    size_t wanted = look_for_wanted(worker);
    if (warm->left == 0 ||
        lifecycle_phase(worker->plan->server->lifecycle) >= LIFECYCLE_DRAINING) {
        warm_up_stop(warm);
        return true;
    }
    uint64_t now_ns = clock_now_ns();
    if (!load_one(worker, wanted, now_ns) || !tend_children(worker, 1, warm->count, wanted)) {
        return false;
    }
    size_t here = first_in(warm, 0, warm->count, warm->children ? HERE : MISSING);
    bool now = quiet || now_ns - warm->here_ns >= NEVER_QUIET_NS;
    return here == NO_STEP || !now || build_here(worker, here);
}

uint64_t warm_up_wait_ns(const struct worker *worker)
{
    const struct warm_up *warm = &worker->warm;
    if (warm->left == 0) {
        return NOTHING_ELSE_NS;
    }
    bool loading = first_in(warm, warm->next_load, warm->count, UNKNOWN) != NO_STEP;
    return loading || warm->children ? LOAD_EVERY_NS : IDLE_WAIT_NS;
}
