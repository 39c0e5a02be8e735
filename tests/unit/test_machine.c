/* machine.h: the memory and cores that the machine and its control groups allow, with
 * artificial trees of /proc and /sys. */
#include "kernels/machine.h"
#include "proto/macros.h"
#include "server/base/clock.h"
#include "server/base/machine.h"
#include "tests/lib/unit.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char root[64];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/tally-machine-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

/* Write a file below the root, with the directories above it. */
static void put(const char *name, const char *text)
{
    char path[512];
    char command[600];
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    (void)snprintf(command, sizeof command, "mkdir -p '%.*s'", (int)(strrchr(path, '/') - path),
                   path);
    assert_int_equal(system(command), 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void a_quota_is_rounded_up_to_whole_cores(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t cores;
    } rows[] = {{"max 100000\n", 0},     {"100000 100000\n", 1},
                {"100001 100000\n", 2},  {"150000 100000\n", 2},
                {"1000 100000\n", 1},    {"400000 100000\n", 4},
                {"50000 25000\n", 2},    {"", 0},
                {"nonsense\n", 0},       {"-1 100000\n", 0},
                {"0 100000\n", 0},       {"100000 0\n", 0},
                {"12800000 100000", 128}};
    put("proc/self/cgroup", "0::/a\n");
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        put("sys/fs/cgroup/a/cpu.max", rows[i].text);
        assert_int_equal(machine_quota_cores(root), rows[i].cores);
    }
}

static void the_smallest_quota_of_our_group_and_all_above_it_counts(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/a/b/c\n");
    put("sys/fs/cgroup/a/b/c/cpu.max", "400000 100000\n");
    put("sys/fs/cgroup/a/b/d/cpu.max", "100000 100000\n"); /* not an ancestor */
    assert_int_equal(machine_quota_cores(root), 4);
    put("sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    assert_int_equal(machine_quota_cores(root), 3);
    put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_int_equal(machine_quota_cores(root), 3);
    put("sys/fs/cgroup/cpu.max", "200000 100000\n"); /* a container sees its own group there */
    assert_int_equal(machine_quota_cores(root), 2);
    put("sys/fs/cgroup/a/b/c/cpu.max", "100000 100000\n");
    assert_int_equal(machine_quota_cores(root), 1);
}

static void the_files_of_version_1_count_as_well(void **state)
{
    (void)state;
    put("proc/self/cgroup",
        "9:name=systemd:/\n4:cpuset:/x\n3:cpuacct,cpu:/docker/1\n2:memory:/\n0::/\n");
    assert_int_equal(machine_quota_cores(root), 0);
    put("sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000\n");
    assert_int_equal(machine_quota_cores(root), 0);
    put("sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "310000\n");
    assert_int_equal(machine_quota_cores(root), 4);
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "60000\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n");
    assert_int_equal(machine_quota_cores(root), 2);
}

static void version_2_beside_version_1_is_found_where_it_is_mounted(void **state)
{
    (void)state;
    put("proc/self/cgroup", "1:cpuset:/\n0::/a\n");
    put("sys/fs/cgroup/unified/a/cpu.max", "300000 100000\n");
    assert_int_equal(machine_quota_cores(root), 3);
}

static void without_control_groups_there_is_no_quota(void **state)
{
    (void)state;
    assert_int_equal(machine_quota_cores(root), 0);
    put("proc/self/cgroup", "0\n:\n0:\n0::\n\n::::\n7:cpuset,cpuacct:/a\n");
    put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "100000\n");
    put("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    assert_int_equal(machine_quota_cores(root), 0);
}

/* The page cache of a group that has read many files grows up to its limit. */
static void copies_of_files_that_the_system_keeps_count_as_free(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/a\n");
    put("sys/fs/cgroup/a/memory.max", "1000000\n");
    put("sys/fs/cgroup/a/memory.current", "990000\n");
    assert_int_equal(machine_group_bytes_left(root), 10000);
    put("sys/fs/cgroup/a/memory.stat",
        "anon 90000\nfile 900000\nshmem 100000\ninactive_file 700000\nactive_file 100000\n");
    assert_int_equal(machine_group_bytes_left(root), 810000);
    /* The usage may be read later than memory.stat, and be less than its files. */
    put("sys/fs/cgroup/a/memory.current", "1000\n");
    assert_int_equal(machine_group_bytes_left(root), 1000000);
    put("proc/self/cgroup", "3:memory:/b\n");
    put("sys/fs/cgroup/memory/b/memory.limit_in_bytes", "2000000\n");
    put("sys/fs/cgroup/memory/b/memory.usage_in_bytes", "2000000\n");
    put("sys/fs/cgroup/memory/b/memory.stat",
        "inactive_file 1\nactive_file 1\ntotal_inactive_file 300000\ntotal_active_file 5\n");
    assert_int_equal(machine_group_bytes_left(root), 300005);
}

static void the_least_memory_that_our_group_and_all_above_it_leave_counts(void **state)
{
    (void)state;
    assert_true(machine_group_bytes_left(root) == UINT64_MAX);
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/memory.max", "max\n");
    put("sys/fs/cgroup/a/b/memory.high", "max\n");
    assert_true(machine_group_bytes_left(root) == UINT64_MAX);
    put("sys/fs/cgroup/a/memory.max", "5000\n");
    put("sys/fs/cgroup/a/memory.current", "1000\n");
    assert_int_equal(machine_group_bytes_left(root), 4000);
    put("sys/fs/cgroup/a/b/memory.high", "3000\n");
    assert_int_equal(machine_group_bytes_left(root), 3000);
    put("sys/fs/cgroup/a/memory.current", "6000\n");
    assert_int_equal(machine_group_bytes_left(root), 0);
}

static void free_memory_is_mem_available_of_the_system(void **state)
{
    (void)state;
    put("proc/meminfo", "MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:    5000 kB\n");
    put("sys/devices/system/node/node0/meminfo", "Node 0 MemFree:  7000 kB\n");
    assert_int_equal(machine_free_bytes(root), 5000 * 1024);
}

/* Without /proc/meminfo, as in a service with ProcSubset=pid. */
static void without_its_page_in_proc_the_nodes_of_memory_are_asked(void **state)
{
    (void)state;
    put("sys/devices/system/node/online", "0-1\n");
    put("sys/devices/system/node/node0/meminfo",
        "Node 0 MemTotal:  900000 kB\nNode 0 MemFree:  1000 kB\nNode 0 Active:  77777 kB\n"
        "Node 0 Active(anon):  66666 kB\nNode 0 Active(file):  200 kB\n"
        "Node 0 Inactive(file):  30 kB\nNode 0 Mapped:  55555 kB\n"
        "Node 0 SReclaimable:  4 kB\nNode 0 SUnreclaim:  44444 kB\n");
    assert_int_equal(machine_free_bytes(root), 1234 * 1024);
    put("sys/devices/system/node/node11/meminfo", "Node 11 MemFree:  5000 kB\n");
    assert_int_equal(machine_free_bytes(root), 6234 * 1024);
}

static void without_both_files_free_memory_is_at_most_all_memory(void **state)
{
    (void)state;
    assert_in_range(machine_free_bytes(root), 1, machine_total_bytes());
    put("proc/meminfo", "nothing of use\n");
    put("sys/devices/system/node/node0/meminfo", "Node 0 nothing of use\n");
    assert_in_range(machine_free_bytes(root), 1, machine_total_bytes());
}

static void cores_that_it_may_not_run_on_do_not_count(void **state)
{
    (void)state;
    cpu_set_t all;
    cpu_set_t one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_in_range(machine_cores(), 1, CPU_COUNT(&all));
    int first = 0;
    while (!CPU_ISSET(first, &all)) {
        first++;
    }
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(machine_cores(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

static void a_process_began_at_one_time(void **state)
{
    (void)state;
    struct machine_usage first;
    machine_usage(&first);
    assert_true(first.start_time_seconds > 1e9);
    for (int i = 0; i < 20; i++) {
        struct machine_usage again;
        machine_usage(&again);
        assert_memory_equal(&again.start_time_seconds, &first.start_time_seconds,
                            sizeof first.start_time_seconds);
    }
}

static void as_many_descriptors_are_counted_as_are_open(void **state)
{
    (void)state;
    struct machine_usage before;
    struct machine_usage after;
    int opened[100];
    machine_usage(&before);
    for (size_t i = 0; i < ARRAY_COUNT(opened); i++) {
        opened[i] = dup(STDERR_FILENO);
        assert_true(opened[i] >= 0);
    }
    machine_usage(&after);
    assert_int_equal(after.open_files, before.open_files + ARRAY_COUNT(opened));
    for (size_t i = 0; i < ARRAY_COUNT(opened); i++) {
        (void)close(opened[i]);
    }
}

static void the_system_is_asked_for_the_figures_of_pages_once_a_second(void **state)
{
    (void)state;
    const uint64_t now_ns = clock_now_ns();
    struct machine_usage first;
    struct machine_usage later;
    machine_usage_sampled(now_ns, &first);
    const int opened = dup(STDERR_FILENO);
    assert_true(opened >= 0);
    machine_usage_sampled(now_ns + NS_PER_S - 1, &later);
    assert_int_equal(later.open_files, first.open_files);
    machine_usage_sampled(now_ns + NS_PER_S, &later);
    assert_int_equal(later.open_files, first.open_files + 1);
    (void)close(opened);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_quota_is_rounded_up_to_whole_cores),
        T(the_smallest_quota_of_our_group_and_all_above_it_counts),
        T(the_files_of_version_1_count_as_well),
        T(version_2_beside_version_1_is_found_where_it_is_mounted),
        T(without_control_groups_there_is_no_quota),
        T(copies_of_files_that_the_system_keeps_count_as_free),
        T(the_least_memory_that_our_group_and_all_above_it_leave_counts),
        T(free_memory_is_mem_available_of_the_system),
        T(without_its_page_in_proc_the_nodes_of_memory_are_asked),
        T(without_both_files_free_memory_is_at_most_all_memory),
        T(cores_that_it_may_not_run_on_do_not_count),
        T(a_process_began_at_one_time),
        T(as_many_descriptors_are_counted_as_are_open),
        T(the_system_is_asked_for_the_figures_of_pages_once_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
