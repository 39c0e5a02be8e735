/* Reads /proc and calls the system; see machine.h. */
#include "server/base/machine.h"

#include "kernels/machine.h"
#include "proto/macros.h"
#include "server/base/clock.h"
#include "server/base/thread.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

void machine_step_back(enum machine_steps steps)
{
    /* Linux changes the calling thread, not the process. */
    int failed = nice((int)steps);
    (void)failed;
}

/* Returns the number of open descriptors. Since Linux 6.2 this number is the size of
 * /proc/self/fd. Before Linux 6.2 the size is 0, and the directory must be listed, which takes
 * a microsecond for each descriptor. */
static uint64_t count_open_files(void)
{
    struct stat folder;
    if (stat("/proc/self/fd", &folder) == 0 && folder.st_size > 0) {
        return (uint64_t)folder.st_size;
    }
    DIR *directory = opendir("/proc/self/fd");
    if (directory == NULL) {
        return 0;
    }
    uint64_t count = 0;
    while (readdir(directory) != NULL) { /* NOLINT(concurrency-mt-unsafe): local stream */
        count++;
    }
    (void)closedir(directory);
    return count > 3 ? count - 3 : 0; /* ".", ".." and the directory itself */
}

/* Start of the process on the boot-time clock. */
static uint64_t began_ns;

__attribute__((constructor)) static void note_begin(void)
{
    began_ns = clock_ns(CLOCK_BOOTTIME);
}

/* Returns the start of the process in nanoseconds since the epoch. The start is computed from
 * two clocks, and one of them may be changed later. A monitoring system takes a process with
 * another start time for another process, so the first result is kept. */
static uint64_t start_time_ns(void)
{
    static _Atomic uint64_t known;
    uint64_t unknown = 0;
    uint64_t boot_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME);
    (void)atomic_compare_exchange_strong(&known, &unknown, boot_ns + began_ns);
    return known;
}

/* Returns the value of the line `key` of a file in /proc, converted from KiB to bytes; 0: the
 * file has no such line. */
static uint64_t read_kib(const char *path, const char *key)
{
    uint64_t kib = 0;
    (void)machine_read_number(path, key, &kib);
    return kib * 1024;
}

void machine_usage(struct machine_usage *out)
{
    struct rlimit limit = {.rlim_cur = 0};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    const uint64_t total = machine_total_bytes();
    const uint64_t available = machine_free_bytes("");
    *out =
        (struct machine_usage){.resident_bytes = read_kib("/proc/self/status", "VmRSS:"),
                               .virtual_bytes = read_kib("/proc/self/status", "VmSize:"),
                               .open_files = count_open_files(),
                               .max_files = limit.rlim_cur,
                               .cpu_seconds = (double)clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9,
                               .start_time_seconds = (double)start_time_ns() / 1e9,
                               .memory_total_bytes = total,
                               .memory_used_bytes = total > available ? total - available : 0};
    (void)machine_read_number("/proc/self/status", "Threads:", &out->threads);
}

/* The last sample of machine_usage_sampled(). */
static struct {
    pthread_mutex_t lock;
    bool taken;
    uint64_t taken_ns;
    struct machine_usage usage;
} sample = {.lock = PTHREAD_MUTEX_INITIALIZER};

void machine_usage_sampled(uint64_t now_ns, struct machine_usage *out)
{
    HOLD_LOCK(&sample.lock);
    if (!sample.taken || clock_span_ns(sample.taken_ns, now_ns) >= MACHINE_SAMPLE_NS) {
        machine_usage(&sample.usage);
        sample.taken = true;
        sample.taken_ns = now_ns;
    }
    *out = sample.usage;
}
