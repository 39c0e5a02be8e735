/* Tests write the setting, and every thread reads it. While no fault is set, `active` is
 * false, and readers do not take the lock. */
#include "tests/lib/cl_fault.h"

#include "proto/macros.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Thread_local cl_int cl_fault_code;

static atomic_bool active; /* a fault is set */
static pthread_mutex_t setting_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cl_fault setting; /* guarded by setting_lock, as are the counters */
static uint32_t calls;
static uint32_t selftests;
static uint32_t trials;

void cl_fault_set(const struct cl_fault *fault)
{
    MUST(pthread_mutex_lock(&setting_lock));
    calls = 0;
    selftests = 0;
    trials = 0;
    setting = fault != NULL ? *fault : (struct cl_fault){0};
    atomic_store(&active, fault != NULL);
    MUST(pthread_mutex_unlock(&setting_lock));
}

uint32_t cl_fault_calls(void)
{
    MUST(pthread_mutex_lock(&setting_lock));
    uint32_t made = calls;
    MUST(pthread_mutex_unlock(&setting_lock));
    return made;
}

static bool inactive(void)
{
    return !atomic_load_explicit(&active, memory_order_relaxed);
}

cl_int cl_fault_next(void)
{
    if (inactive()) {
        return CL_SUCCESS;
    }
    MUST(pthread_mutex_lock(&setting_lock));
    uint32_t number = calls++;
    bool fails = number >= setting.skip && number - setting.skip < setting.count;
    cl_int code = fails ? setting.code : CL_SUCCESS;
    MUST(pthread_mutex_unlock(&setting_lock));
    return code;
}

bool cl_fault_selftest(void)
{
    if (inactive()) {
        return false;
    }
    MUST(pthread_mutex_lock(&setting_lock));
    bool wrong = selftests < setting.selftest;
    selftests += wrong;
    MUST(pthread_mutex_unlock(&setting_lock));
    return wrong;
}

static void hang(uint32_t ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL);
}

bool cl_fault_build(const char *options)
{
    if (inactive()) {
        return false;
    }
    MUST(pthread_mutex_lock(&setting_lock));
    bool refused = setting.build[0] != '\0' && strstr(options, setting.build) != NULL;
    uint32_t ms = setting.build_ms;
    MUST(pthread_mutex_unlock(&setting_lock));
    hang(ms);
    return refused;
}

bool cl_fault_lookback(void)
{
    if (inactive()) {
        return false;
    }
    MUST(pthread_mutex_lock(&setting_lock));
    bool wrong = trials < setting.lookback;
    trials += wrong;
    MUST(pthread_mutex_unlock(&setting_lock));
    return wrong;
}

void cl_fault_hang(void)
{
    if (inactive()) {
        return;
    }
    MUST(pthread_mutex_lock(&setting_lock));
    uint32_t ms = setting.hang_ms;
    MUST(pthread_mutex_unlock(&setting_lock));
    hang(ms);
}

/* Return the text after "name=" in a comma-separated text; NULL if it has no such field. */
static const char *fault_field(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = text; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && at[length] == '=') {
            return at + length + 1;
        }
    }
    return NULL;
}

static long fault_number(const char *text, const char *name)
{
    const char *value = fault_field(text, name);
    return value != NULL ? strtol(value, NULL, 10) : 0;
}

static void fault_word(const char *text, const char *name, char *word, size_t room)
{
    const char *value = fault_field(text, name);
    if (value != NULL) {
        (void)snprintf(word, room, "%.*s", (int)strcspn(value, ","), value);
    }
}

static void set_from_text(const char *text)
{
    struct cl_fault fault = {.code = (cl_int)fault_number(text, "code"),
                             .skip = (uint32_t)fault_number(text, "skip"),
                             .count = (uint32_t)fault_number(text, "count"),
                             .selftest = (uint32_t)fault_number(text, "selftest"),
                             .lookback = (uint32_t)fault_number(text, "lookback"),
                             .hang_ms = (uint32_t)fault_number(text, "hang_ms"),
                             .build_ms = (uint32_t)fault_number(text, "build_ms")};
    fault_word(text, "build", fault.build, sizeof fault.build);
    cl_fault_set(&fault);
}

static void read_text(const char *source, char *text, size_t room)
{
    text[0] = '\0';
    FILE *file = source[0] == '@' ? fopen(source + 1, "r") : NULL;
    if (file != NULL) {
        text[fread(text, 1, room - 1, file)] = '\0';
        text[strcspn(text, "\n")] = '\0';
        (void)fclose(file);
    } else if (source[0] != '@') {
        (void)snprintf(text, room, "%s", source);
    }
}

void cl_fault_reread(void)
{
    static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
    static char known[256]; /* guarded by known_lock: the text whose setting is active */
    char text[sizeof known];
    const char *source = getenv("TALLY_TEST_CL_FAULT"); /* NOLINT(concurrency-mt-unsafe) */
    if (source == NULL) {
        return;
    }
    MUST(pthread_mutex_lock(&known_lock));
    read_text(source, text, sizeof text);
    if (strcmp(text, known) != 0) {
        (void)snprintf(known, sizeof known, "%s", text);
        set_from_text(text);
    }
    MUST(pthread_mutex_unlock(&known_lock));
}
