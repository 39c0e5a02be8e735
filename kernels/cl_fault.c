/* The fault setting is written by tests while no device works, and read by everybody. */
#include "kernels/cl_fault.h"

#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#ifdef TALLY_FAULTS
#include <stdlib.h>
#include <string.h>
#endif

static atomic_bool active; /* guards `setting`: written before it is set */
static struct cl_fault setting;
static atomic_uint calls;
static atomic_uint canaries;

void cl_fault_set(const struct cl_fault *fault)
{
    atomic_store(&active, false);
    atomic_store(&calls, 0);
    atomic_store(&canaries, 0);
    if (fault != NULL) {
        setting = *fault;
        atomic_store(&active, true);
    }
}

uint32_t cl_fault_calls(void)
{
    return atomic_load(&calls);
}

cl_int cl_fault_next(void)
{
    if (!atomic_load_explicit(&active, memory_order_relaxed) || !atomic_load(&active)) {
        return CL_SUCCESS;
    }
    uint32_t number = atomic_fetch_add(&calls, 1);
    bool fails = number >= setting.skip && number - setting.skip < setting.count;
    return fails ? setting.code : CL_SUCCESS;
}

bool cl_fault_canary(void)
{
    return atomic_load(&active) && atomic_fetch_add(&canaries, 1) < setting.canary;
}

void cl_fault_hang(void)
{
    if (!atomic_load(&active) || setting.hang_ms == 0) {
        return;
    }
    struct timespec pause = {.tv_sec = setting.hang_ms / 1000,
                             .tv_nsec = (long)(setting.hang_ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL);
}

#ifdef TALLY_FAULTS
/* Value of "name=value" in a comma-separated text, 0 without one. */
static long fault_field(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = text; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            return strtol(at + length + 1, NULL, 10);
        }
    }
    return 0;
}

void cl_fault_from_environment(void)
{
    const char *text = getenv("TALLY_TEST_CL_FAULT"); /* NOLINT(concurrency-mt-unsafe) */
    if (text == NULL || atomic_load(&active)) {
        return;
    }
    struct cl_fault fault = {.code = (cl_int)fault_field(text, "code"),
                             .skip = (uint32_t)fault_field(text, "skip"),
                             .count = (uint32_t)fault_field(text, "count"),
                             .canary = (uint32_t)fault_field(text, "canary"),
                             .hang_ms = (uint32_t)fault_field(text, "hang_ms")};
    cl_fault_set(&fault);
}
#else
void cl_fault_from_environment(void) {}
#endif
