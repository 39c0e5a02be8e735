/* Reads /proc, and asks the system. */
#include "server/base/machine.h"

#include "kernels/machine.h"
#include "server/base/clock.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

void machine_step_back(enum machine_steps steps)
{
    /* Linux does this to the calling thread, not to the process. */
    int failed = nice((int)steps);
    (void)failed;
}

static uint64_t count_open_files(void)
{
    DIR *directory = opendir("/proc/self/fd");
    if (directory == NULL) {
        return 0;
    }
    uint64_t count = 0;
    while (readdir(directory) != NULL) { /* NOLINT(concurrency-mt-unsafe): our own stream */
        count++;
    }
    (void)closedir(directory);
    return count > 3 ? count - 3 : 0; /* ".", ".." and the directory itself */
}

/* When what began so long after the machine did began, since the epoch. What is computed first
 * stays: two clocks are read one after the other, and one of them may be set, but a process
 * that began at another time is another one to who reads the figure. */
static uint64_t start_time_ns(uint64_t since_boot_ns)
{
    static _Atomic uint64_t known;
    uint64_t unknown = 0;
    uint64_t boot_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME);
    (void)atomic_compare_exchange_strong(&known, &unknown, boot_ns + since_boot_ns);
    return known;
}

/* Fields 20 (threads) and 22 (start, in ticks since boot) of /proc/self/stat. */
static void read_stat(struct machine_usage *out)
{
    FILE *file = fopen("/proc/self/stat", "re");
    if (file == NULL) {
        return;
    }
    char line[1024];
    const char *fields = fgets(line, sizeof line, file) == NULL ? NULL : strrchr(line, ')');
    (void)fclose(file);
    long ticks = sysconf(_SC_CLK_TCK);
    if (fields == NULL || ticks <= 0) {
        return;
    }
    char *save = NULL;
    char *word = strtok_r(line + (fields - line) + 1, " ", &save);
    for (int field = 3; word != NULL; field++, word = strtok_r(NULL, " ", &save)) {
        if (field == 20) {
            out->threads = strtoull(word, NULL, 10);
        } else if (field == 22) {
            uint64_t since_boot_ns = strtoull(word, NULL, 10) * (1000000000u / (uint64_t)ticks);
            out->start_time_seconds = (double)start_time_ns(since_boot_ns) / 1e9;
        }
    }
}

void machine_usage(struct machine_usage *out)
{
    *out = (struct machine_usage){.open_files = count_open_files()};
    uint64_t pages[2] = {0, 0};
    FILE *file = fopen("/proc/self/statm", "re");
    if (file != NULL) {
        char line[256];
        if (fgets(line, sizeof line, file) != NULL) {
            char *end = line;
            pages[0] = strtoull(line, &end, 10);
            pages[1] = strtoull(end, NULL, 10);
        }
        (void)fclose(file);
    }
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    out->virtual_bytes = pages[0] * page;
    out->resident_bytes = pages[1] * page;
    out->cpu_seconds = (double)clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        out->max_files = limit.rlim_cur;
    }
    read_stat(out);
    uint64_t total = 0;
    uint64_t available = 0;
    if (machine_read_number("/proc/meminfo", "MemTotal:", &total) &&
        machine_read_number("/proc/meminfo", "MemAvailable:", &available) &&
        available <= total) {
        out->memory_total_bytes = total * 1024;
        out->memory_used_bytes = (total - available) * 1024;
    }
}
