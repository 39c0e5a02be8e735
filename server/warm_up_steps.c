/* The list of steps, and the only place where a step's state changes. */
#include "server/warm_up_steps.h"

#include "server/clock.h"
#include "server/worker.h"

#include <stdio.h>
#include <string.h>

enum {
    NEEDED_DOUBLINGS = 6, /* of the time that a kernel is put off: a minute at most */
    OTHER_DOUBLINGS = 12  /* an hour */
};

void warm_up_init(struct warm_up *warm)
{
    *warm = (struct warm_up){.again_ns = UINT64_MAX};
    for (size_t i = 0; i < WARM_UP_CHILDREN; i++) {
        kernel_builder_init(&warm->child[i]);
    }
}

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
            warm->lacking += !waits;
            warm->steps[warm->count++] =
                (struct warm_up_step){.build = build, .state = waits ? UNASKED : UNKNOWN};
        }
    }
}

/* Before ready, what answers any request of the named types. Then the same for the others; then
 * the best kernels, for the named types first, as clients mostly ask for them. */
void warm_up_list(struct worker *worker)
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

size_t warm_up_find(const struct warm_up *warm, const struct scan_build *build)
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

size_t warm_up_first(const struct warm_up *warm, size_t from, size_t to, enum step_state state)
{
    for (size_t i = from; i < to; i++) {
        if (warm->steps[i].state == state) {
            return i;
        }
    }
    return NO_STEP;
}

bool warm_up_needed(const struct worker *worker, size_t step)
{
    return worker->plan->driver->needs(worker->device, worker->warm.steps[step].build.kernel);
}

static bool is_left(enum step_state state)
{
    return state != UNASKED && state < DONE;
}

static bool is_lacking(enum step_state state)
{
    return state != UNASKED && state != DONE;
}

void warm_up_set(struct worker *worker, size_t step, enum step_state state)
{
    struct warm_up *warm = &worker->warm;
    enum step_state was = (enum step_state)warm->steps[step].state;
    warm->lacking += (size_t)is_lacking(state) - (size_t)is_lacking(was);
    warm->steps[step].state = (unsigned char)state;
    warm->next_load = state == UNKNOWN && step < warm->next_load ? step : warm->next_load;
    warm->left += (size_t)is_left(state) - (size_t)is_left(was);
    (void)pthread_mutex_lock(&worker->lock);
    worker->stats.to_build = warm->left;
    (void)pthread_mutex_unlock(&worker->lock);
}

void warm_up_note(struct worker *worker, enum log_level level, size_t step, const char *what)
{
    char text[SCAN_BUILD_TEXT];
    scan_build_describe(&worker->warm.steps[step].build, text);
    log_message(worker->plan->server->log, level, "device %zu: %s: %s", worker->number, text,
                what);
}

void warm_up_note_failure(struct worker *worker, size_t step, const char *why)
{
    char text[SCAN_BUILD_TEXT];
    scan_build_describe(&worker->warm.steps[step].build, text);
    (void)pthread_mutex_lock(&worker->lock);
    (void)snprintf(worker->stats.build_error, sizeof worker->stats.build_error, "%s: %s", text,
                   why);
    (void)pthread_mutex_unlock(&worker->lock);
    warm_up_note(worker, LOG_WARN, step, why);
}

void warm_up_put_off(struct worker *worker, size_t step, const char *why)
{
    struct warm_up *warm = &worker->warm;
    struct warm_up_step *lost = &warm->steps[step];
    unsigned most = warm_up_needed(worker, step) ? NEEDED_DOUBLINGS : OTHER_DOUBLINGS;
    unsigned doublings = lost->tries < TRIES_MAX ? 0 : lost->tries - TRIES_MAX + 1U;
    doublings = doublings < most ? doublings : most;
    lost->tries = (unsigned char)(TRIES_MAX + doublings);
    lost->again_ns = clock_now_ns() + (worker->plan->back_off_ns << doublings);
    warm->again_ns = lost->again_ns < warm->again_ns ? lost->again_ns : warm->again_ns;
    warm_up_note_failure(worker, step, why);
    warm_up_set(worker, step, PUT_OFF);
}

void warm_up_resume(struct worker *worker, uint64_t now_ns)
{
    struct warm_up *warm = &worker->warm;
    if (now_ns < warm->again_ns) {
        return;
    }
    warm->again_ns = UINT64_MAX;
    for (size_t i = 0; i < warm->count; i++) {
        const struct warm_up_step *step = &warm->steps[i];
        if (step->state != PUT_OFF) {
            continue;
        }
        if (now_ns >= step->again_ns) {
            warm_up_set(worker, i, warm_up_needed(worker, i) ? UNKNOWN : UNASKED);
        } else if (step->again_ns < warm->again_ns) {
            warm->again_ns = step->again_ns;
        }
    }
}
