/* Reads /proc and the control groups. */
#include "server/machine.h"

#include "server/clock.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* A whole number on its own in a file, or after `key` at the start of a line. */
static bool read_number(const char *path, const char *key, uint64_t *value)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    char line[256];
    bool found = false;
    size_t key_length = key == NULL ? 0 : strlen(key);
    while (!found && fgets(line, sizeof line, file) != NULL) {
        if (key_length == 0 || strncmp(line, key, key_length) == 0) {
            char *end = NULL;
            errno = 0;
            unsigned long long number = strtoull(line + key_length, &end, 10);
            found = errno == 0 && end != line + key_length;
            *value = found ? number : *value;
        }
    }
    (void)fclose(file);
    return found;
}

/* Lower *bytes to what one control group leaves; no effect if it has no limit. */
static void apply_group(const char *limit_path, const char *usage_path, uint64_t *bytes)
{
    uint64_t limit = 0;
    uint64_t usage = 0;
    if (read_number(limit_path, NULL, &limit)) { /* "max" is no number */
        (void)read_number(usage_path, NULL, &usage);
        uint64_t left = limit > usage ? limit - usage : 0;
        *bytes = left < *bytes ? left : *bytes;
    }
}

/* Our group of a hierarchy as /proc/self/cgroup names it, and every group above it. */
static void apply_hierarchy(const char *root, const char *group, const char *const files[2],
                            uint64_t *bytes)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s", group);
    for (;;) {
        char limit[1200];
        char usage[1200];
        (void)snprintf(limit, sizeof limit, "%s%s/%s", root, path, files[0]);
        (void)snprintf(usage, sizeof usage, "%s%s/%s", root, path, files[1]);
        apply_group(limit, usage, bytes);
        char *slash = strrchr(path, '/');
        if (slash == NULL) {
            return;
        }
        *slash = '\0';
    }
}

static void apply_control_groups(uint64_t *bytes)
{
    static const char *const v2[2] = {"memory.max", "memory.current"};
    static const char *const v1[2] = {"memory.limit_in_bytes", "memory.usage_in_bytes"};
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL) {
        return;
    }
    char line[1024];
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        const char *names = strchr(line, ':');
        const char *group = names == NULL ? NULL : strchr(names + 1, ':');
        if (group == NULL) {
            continue;
        }
        if (names + 1 == group) {
            apply_hierarchy("/sys/fs/cgroup", group + 1, v2, bytes);
        } else if (strstr(names, ":memory:") == names) {
            apply_hierarchy("/sys/fs/cgroup/memory", group + 1, v1, bytes);
        }
    }
    (void)fclose(file);
}

uint64_t machine_available_bytes(void)
{
    uint64_t kib = 0;
    uint64_t bytes = UINT64_C(1) << 30; /* without /proc */
    if (read_number("/proc/meminfo", "MemAvailable:", &kib)) {
        bytes = kib * 1024;
    }
    apply_control_groups(&bytes);
    return bytes;
}

size_t machine_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) {
        return (size_t)CPU_COUNT(&set);
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than a cpu_set_t holds */
    return online > 0 ? (size_t)online : 1;
}

uint64_t machine_raise_open_files(uint64_t files)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 0;
    }
    if (limit.rlim_cur < files) {
        struct rlimit raised = {.rlim_cur = files < limit.rlim_max ? files : limit.rlim_max,
                                .rlim_max = limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0) {
            return raised.rlim_cur;
        }
    }
    return limit.rlim_cur;
}

int machine_make_directory(const char *path)
{
    char partial[4096];
    if (strlen(path) >= sizeof partial) {
        return ENAMETOOLONG;
    }
    for (size_t length = 1; length <= strlen(path); length++) {
        if (path[length] != '/' && path[length] != '\0') {
            continue;
        }
        memcpy(partial, path, length);
        partial[length] = '\0';
        if (mkdir(partial, 0700) != 0 && errno != EEXIST && errno != EISDIR) {
            return errno;
        }
    }
    return access(path, W_OK | X_OK) == 0 ? 0 : errno;
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
            double since_boot = (double)strtoull(word, NULL, 10) / (double)ticks;
            double up = (double)clock_ns(CLOCK_BOOTTIME) / 1e9;
            out->start_time_seconds = (double)clock_ns(CLOCK_REALTIME) / 1e9 - up + since_boot;
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
    if (read_number("/proc/meminfo", "MemTotal:", &total) &&
        read_number("/proc/meminfo", "MemAvailable:", &available) && available <= total) {
        out->memory_total_bytes = total * 1024;
        out->memory_used_bytes = (total - available) * 1024;
    }
}
