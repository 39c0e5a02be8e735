/* Reads /proc and the control groups. */
#include "kernels/machine.h"

#include "proto/macros.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool machine_read_number(const char *path, const char *key, uint64_t *value)
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

/* A whole number on its own in a group's file. */
static bool read_group_number(const char *group, const char *name, uint64_t *value)
{
    char path[2200];
    (void)snprintf(path, sizeof path, "%s/%s", group, name);
    return machine_read_number(path, NULL, value);
}

/* Lower *bytes to what one control group leaves; no effect if it has no limit. */
static void apply_memory(const char *group, const char *const files[2], uint64_t *bytes)
{
    uint64_t limit = 0;
    uint64_t usage = 0;
    if (read_group_number(group, files[0], &limit)) { /* "max" is no number */
        (void)read_group_number(group, files[1], &usage);
        uint64_t left = limit > usage ? limit - usage : 0;
        *bytes = left < *bytes ? left : *bytes;
    }
}

/* Lower *bytes to the limit of one control group. */
static void apply_memory_limit(const char *group, const char *const files[2], uint64_t *bytes)
{
    uint64_t limit = 0;
    if (read_group_number(group, files[0], &limit)) {
        *bytes = limit < *bytes ? limit : *bytes;
    }
}

/* Lower *cores to the share of time that one control group has, rounded up. v2 has quota and
 * period in one file, "max" being no limit; v1 two, -1 being no limit. */
static void apply_quota(const char *group, const char *const files[2], uint64_t *cores)
{
    char path[2200];
    char text[128] = "";
    (void)snprintf(path, sizeof path, "%s/%s", group, files[0]);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return;
    }
    bool got = fgets(text, sizeof text, file) != NULL;
    (void)fclose(file);
    char *end = text;
    long long quota = got ? strtoll(text, &end, 10) : 0;
    uint64_t period = strtoull(end, NULL, 10);
    if (files[1] != NULL && !read_group_number(group, files[1], &period)) {
        return;
    }
    if (end != text && quota > 0 && period > 0) {
        uint64_t share = ((uint64_t)quota - 1) / period + 1;
        *cores = share < *cores ? share : *cores;
    }
}

/* What is looked up in a control group, below which `files` lie. */
struct group_limit {
    void (*apply)(const char *group, const char *const files[2], uint64_t *least);
    const char *controller; /* of v1 */
    const char *v1[2];
    const char *v2[2];
    const char
        *v1_mounts[3]; /* up to the first NULL; v2 where it is mounted alone, or beside */
};

static const char *const v2_mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};

/* Our group of a hierarchy as /proc/self/cgroup names it, and every group above it. */
static void apply_hierarchy(const struct group_limit *limit, const char *mount,
                            const char *group, const char *const files[2], uint64_t *least)
{
    char path[2048];
    int written = snprintf(path, sizeof path, "%s%s", mount, group);
    if (written < 0 || (size_t)written >= sizeof path) {
        return;
    }
    for (char *end = path + written; end != NULL; end = strrchr(path + strlen(mount), '/')) {
        *end = '\0';
        limit->apply(path, files, least);
    }
}

/* Is the word one of those between the commas? `words` ends before `end`. */
static bool names_word(const char *words, const char *end, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; at < end;) {
        size_t bytes = strcspn(at, ",:");
        if (bytes == length && memcmp(at, word, length) == 0) {
            return true;
        }
        at += bytes + 1;
    }
    return false;
}

static void apply_mounts(const struct group_limit *limit, const char *root, const char *group,
                         bool v2, uint64_t *least)
{
    const char *const *mounts = v2 ? v2_mounts : limit->v1_mounts;
    for (size_t i = 0; v2 ? i < ARRAY_COUNT(v2_mounts) : mounts[i] != NULL; i++) {
        char mount[512];
        (void)snprintf(mount, sizeof mount, "%s%s", root, mounts[i]);
        apply_hierarchy(limit, mount, group, v2 ? limit->v2 : limit->v1, least);
    }
}

/* A line is "NUMBER:CONTROLLERS:GROUP"; v2 names no controllers. */
static void apply_control_groups(const struct group_limit *limit, const char *root,
                                 uint64_t *least)
{
    char line[1024];
    (void)snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *file = fopen(line, "re");
    if (file == NULL) {
        return;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        const char *names = strchr(line, ':');
        const char *group = names == NULL ? NULL : strchr(names + 1, ':');
        if (group == NULL) {
            continue;
        }
        bool v2 = names + 1 == group;
        if (v2 || names_word(names + 1, group, limit->controller)) {
            apply_mounts(limit, root, group + 1, v2, least);
        }
    }
    (void)fclose(file);
}

static const struct group_limit memory = {
    .controller = "memory",
    .v1 = {"memory.limit_in_bytes", "memory.usage_in_bytes"},
    .v2 = {"memory.max", "memory.current"},
    .v1_mounts = {"/sys/fs/cgroup/memory"}};

/* A row of /proc/meminfo, lowered by control groups. */
static uint64_t memory_bytes(const char *row,
                             void (*apply)(const char *, const char *const[2], uint64_t *))
{
    uint64_t kib = 0;
    uint64_t bytes = UINT64_C(1) << 30; /* without /proc */
    if (machine_read_number("/proc/meminfo", row, &kib)) {
        bytes = kib * 1024;
    }
    struct group_limit limit = memory;
    limit.apply = apply;
    apply_control_groups(&limit, "", &bytes);
    return bytes;
}

uint64_t machine_available_bytes(void)
{
    return memory_bytes("MemAvailable:", apply_memory);
}

uint64_t machine_memory_bytes(void)
{
    return memory_bytes("MemTotal:", apply_memory_limit);
}

size_t machine_quota_cores(const char *root)
{
    static const struct group_limit quota = {
        .apply = apply_quota,
        .controller = "cpu",
        .v1 = {"cpu.cfs_quota_us", "cpu.cfs_period_us"},
        .v2 = {"cpu.max", NULL},
        .v1_mounts = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}};
    uint64_t cores = UINT64_MAX;
    apply_control_groups(&quota, root, &cores);
    return cores == UINT64_MAX ? 0 : (size_t)cores;
}

/* Cores that the scheduler may put this process on. */
static size_t affinity_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) {
        return (size_t)CPU_COUNT(&set);
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than a cpu_set_t holds */
    return online > 0 ? (size_t)online : 1;
}

size_t machine_cores(void)
{
    size_t cores = affinity_cores();
    size_t quota = machine_quota_cores("");
    return quota > 0 && quota < cores ? quota : cores;
}
