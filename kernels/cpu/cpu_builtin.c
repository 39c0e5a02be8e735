/* The kernels of the highest level that this processor has. */
#include "kernels/cpu/cpu_builtin.h"

#include <string.h>

/* As x86-64-v2, -v3 and -v4 of the psABI, but for what every processor with the rest has. */
static bool has_level(const char *level)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    bool v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");
    return strcmp(level, "v4") == 0   ? v4
           : strcmp(level, "v3") == 0 ? v3
           : strcmp(level, "v2") == 0 ? v2
                                      : true;
#else
    (void)level;
    return true; /* the architecture's baseline */
#endif
}

static const struct cpu_row *first;
static size_t chosen;

static void choose(void)
{
    size_t at = 0;
    while (at < cpu_row_count && !has_level(cpu_rows[at].level)) {
        at++;
    }
    first = &cpu_rows[at];
    while (at + chosen < cpu_row_count &&
           strcmp(cpu_rows[at + chosen].level, first->level) == 0) {
        chosen++;
    }
}

const struct cpu_row *cpu_builtins(size_t *count)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, choose); /* fails for bad arguments only */
    *count = chosen;
    return first;
}
