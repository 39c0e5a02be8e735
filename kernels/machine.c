/* Reads limits of memory and cores from the system and from the control groups of the process
 * and all their parents; the lowest limit counts. A limit that cannot be read counts as no
 * limit. Of /proc only the folder of the process is needed: a service with ProcSubset=pid sees
 * nothing else. Thread: any. */
#include "kernels/machine.h"

#include "proto/macros.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define NODES "/sys/devices/system/node" /* the machine's memory, one folder per NUMA node */

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

/* Read a file of a control group that contains one whole number. */
static bool read_group_number(const char *group, const char *name, uint64_t *value)
{
    char path[2200];
    (void)snprintf(path, sizeof path, "%s/%s", group, name);
    return machine_read_number(path, NULL, value);
}

/* Lower *bytes to the memory limit of one control group; "max" means no limit. memory.high
 * counts as a limit, because the kernel slows down processes that exceed it. */
static void apply_memory_limit(const char *group, bool v2, uint64_t *bytes)
{
    static const char *const names[] = {"memory.max", "memory.high", NULL};
    static const char *const v1_names[] = {"memory.limit_in_bytes", NULL};
    for (const char *const *name = v2 ? names : v1_names; *name != NULL; name++) {
        uint64_t limit = 0;
        if (read_group_number(group, *name, &limit)) {
            *bytes = limit < *bytes ? limit : *bytes;
        }
    }
}

/* Return the bytes of a group's usage that are cached files: the system drops them when a
 * process needs memory, and MemAvailable counts them as free, too. They may be most of the
 * usage of a group that has read or written files for a long time. */
static uint64_t cached_file_bytes(const char *group, bool v2)
{
    static const char *const keys[] = {"inactive_file ", "active_file "};
    static const char *const v1_keys[] = {"total_inactive_file ", "total_active_file "};
    char path[2200];
    uint64_t bytes = 0;
    (void)snprintf(path, sizeof path, "%s/memory.stat", group);
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        uint64_t part = 0;
        (void)machine_read_number(path, v2 ? keys[i] : v1_keys[i], &part);
        bytes = __builtin_add_overflow(bytes, part, &part) ? UINT64_MAX : part;
    }
    return bytes;
}

/* Lower *bytes to the memory that one control group has left. */
static void apply_memory_left(const char *group, bool v2, uint64_t *bytes)
{
    uint64_t usage = 0;
    uint64_t left = UINT64_MAX;
    apply_memory_limit(group, v2, &left);
    if (left != UINT64_MAX) {
        (void)read_group_number(group, v2 ? "memory.current" : "memory.usage_in_bytes", &usage);
        const uint64_t cached = cached_file_bytes(group, v2);
        usage = usage > cached ? usage - cached : 0;
        left = left > usage ? left - usage : 0;
        *bytes = left < *bytes ? left : *bytes;
    }
}

/* Lower *cores to the CPU quota of one control group, rounded up. v2 has quota and period in
 * one file, where "max" means no limit; v1 has two files, where -1 means no limit. */
static void apply_quota(const char *group, bool v2, uint64_t *cores)
{
    char path[2200];
    char text[128] = "";
    (void)snprintf(path, sizeof path, "%s/%s", group, v2 ? "cpu.max" : "cpu.cfs_quota_us");
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return;
    }
    bool got = fgets(text, sizeof text, file) != NULL;
    (void)fclose(file);
    char *end = text;
    long long quota = got ? strtoll(text, &end, 10) : 0;
    uint64_t period = strtoull(end, NULL, 10);
    if (!v2 && !read_group_number(group, "cpu.cfs_period_us", &period)) {
        return;
    }
    if (end != text && quota > 0 && period > 0) {
        uint64_t share = ((uint64_t)quota - 1) / period + 1;
        *cores = share < *cores ? share : *cores;
    }
}

/* Return whether the word is in a list separated by commas, which ends before `end`. */
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

/* Mount points of the hierarchies: v2 alone, or v2 beside v1. */
static const char *const v2_mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified", NULL};
static const char *const memory_mounts[] = {"/sys/fs/cgroup/memory", NULL};
static const char *const cpu_mounts[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct",
                                         NULL};

/* Apply the limits of every control group of the process that has the controller, and of all
 * parents. /proc/self/cgroup has a line "NUMBER:CONTROLLERS:GROUP" for each group; v2 lists no
 * controllers. */
static void apply_groups(const char *root, const char *controller, const char *const *v1_mounts,
                         void (*apply)(const char *group, bool v2, uint64_t *least),
                         uint64_t *least)
{
    char line[1024];
    char path[2048];
    (void)snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *file = fopen(line, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        const char *names = strchr(line, ':');
        const char *group = names == NULL ? NULL : strchr(names + 1, ':');
        const bool v2 = group != NULL && names + 1 == group;
        if (group == NULL || (!v2 && !names_word(names + 1, group, controller))) {
            continue;
        }
        for (const char *const *mount = v2 ? v2_mounts : v1_mounts; *mount != NULL; mount++) {
            const size_t top = strlen(root) + strlen(*mount);
            (void)snprintf(path, sizeof path, "%s%s%s", root, *mount, group + 1);
            for (char *end = path + strlen(path); end != NULL; end = strrchr(path + top, '/')) {
                *end = '\0';
                apply(path, v2, least);
            }
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* Return the memory of a node in KiB that is free or that the system drops when programs need
 * it (cached files and other caches). */
static uint64_t node_kib(const char *root, const char *node)
{
    static const char *const rows[] = {
        "MemFree:", "Active(file):", "Inactive(file):", "SReclaimable:"};
    char path[512];
    char key[320];
    uint64_t sum = 0;
    (void)snprintf(path, sizeof path, "%s" NODES "/%s/meminfo", root, node);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint64_t kib = 0;
        (void)snprintf(key, sizeof key, "Node %s %s", node + strlen("node"), rows[i]);
        (void)machine_read_number(path, key, &kib);
        sum = __builtin_add_overflow(sum, kib, &kib) ? UINT64_MAX : kib;
    }
    return sum;
}

/* Return node_kib() of all nodes together; 0: the kernel has no nodes. */
static uint64_t nodes_kib(const char *root)
{
    char path[512];
    uint64_t sum = 0;
    (void)snprintf(path, sizeof path, "%s" NODES, root);
    DIR *directory = opendir(path);
    struct dirent *entry = NULL;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is used only here */
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        const bool is_node = strncmp(entry->d_name, "node", strlen("node")) == 0;
        uint64_t kib = is_node ? node_kib(root, entry->d_name) : 0;
        sum = __builtin_add_overflow(sum, kib, &kib) ? UINT64_MAX : kib;
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
    return sum;
}

uint64_t machine_total_bytes(void)
{
    struct sysinfo info = {.mem_unit = 0};
    (void)sysinfo(&info);
    return (uint64_t)info.totalram * info.mem_unit;
}

uint64_t machine_free_bytes(const char *root)
{
    char path[512];
    uint64_t kib = 0;
    uint64_t bytes = 0;
    (void)snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (!machine_read_number(path, "MemAvailable:", &kib)) {
        kib = nodes_kib(root);
    }
    if (kib == 0) {
        struct sysinfo info = {.mem_unit = 0};
        (void)sysinfo(&info);
        return ((uint64_t)info.freeram + info.bufferram) * info.mem_unit;
    }
    return __builtin_mul_overflow(kib, UINT64_C(1024), &bytes) ? UINT64_MAX : bytes;
}

uint64_t machine_group_bytes_left(const char *root)
{
    uint64_t bytes = UINT64_MAX;
    apply_groups(root, "memory", memory_mounts, apply_memory_left, &bytes);
    return bytes;
}

uint64_t machine_available_bytes(void)
{
    return smaller_of(machine_group_bytes_left(""), machine_free_bytes(""));
}

uint64_t machine_memory_bytes(void)
{
    uint64_t bytes = machine_total_bytes();
    apply_groups("", "memory", memory_mounts, apply_memory_limit, &bytes);
    return bytes;
}

size_t machine_quota_cores(const char *root)
{
    uint64_t cores = UINT64_MAX;
    apply_groups(root, "cpu", cpu_mounts, apply_quota, &cores);
    return cores == UINT64_MAX ? 0 : (size_t)cores;
}

/* Return the number of cores in the affinity mask of the process. */
static size_t affinity_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) {
        return (size_t)CPU_COUNT(&set);
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* the machine has more cores than a
                                                    cpu_set_t can represent */
    return online > 0 ? (size_t)online : 1;
}

size_t machine_cores(void)
{
    size_t cores = affinity_cores();
    size_t quota = machine_quota_cores("");
    return quota > 0 ? smaller_of(quota, cores) : cores;
}
