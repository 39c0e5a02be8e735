/* shm_map.h: maps of shared memory survive the loss of their pages; other faults still end the
 * process. */
#include "proto/macros.h"
#include "server/memory/shm_map.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Pretended page size of the system; 0: the real one. mmap() then accepts only offsets that are
 * multiples of it. */
static size_t large_page;

long __real_sysconf(int name);
long __wrap_sysconf(int name);
void *__real_mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset);

/* The real page size. */
#define PAGE ((size_t)__real_sysconf(_SC_PAGESIZE))

long __wrap_sysconf(int name)
{
    return large_page > 0 && name == _SC_PAGESIZE ? (long)large_page : __real_sysconf(name);
}

void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset)
{
    if (large_page > 0 && (size_t)offset % large_page != 0) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    return __real_mmap(at, bytes, access, flags, fd, offset);
}

/* Create an object of that many bytes; each page is filled with its number, from 1. It is
 * unlinked. */
static int make_object(size_t bytes)
{
    char name[64];
    (void)snprintf(name, sizeof name, "/tally_map_test_%d", (int)getpid());
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(shm_unlink(name), 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    for (size_t at = 0; at < bytes; at++) {
        unsigned char byte = (unsigned char)(1 + at / PAGE);
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
        at += at % PAGE == 0 ? PAGE - 2 : 0; /* the first and the last byte of each page */
    }
    return fd;
}

static volatile unsigned char *bytes_of(const struct shm_map *map)
{
    return (unsigned char *)slab_data(shm_map_place(map).slab) + shm_map_place(map).offset;
}

static void a_map_is_the_object_at_any_offset(void **state)
{
    (void)state;
    int fd = make_object(3 * PAGE);
    struct shm_map *map = shm_map_create(fd, PAGE - 1, PAGE + 2);
    assert_non_null(map);
    assert_int_equal(shm_map_place(map).offset, PAGE - 1);
    assert_int_equal(slab_bytes(shm_map_place(map).slab), 3 * PAGE);
    assert_int_equal(bytes_of(map)[0], 1);
    assert_int_equal(bytes_of(map)[1], 2);
    assert_int_equal(bytes_of(map)[PAGE + 1], 3);
    bytes_of(map)[1] = 77;
    unsigned char byte = 0;
    assert_int_equal(pread(fd, &byte, 1, (off_t)PAGE), 1);
    assert_int_equal(byte, 77);
    assert_false(shm_map_broken(map));
    shm_map_destroy(map);
    close(fd);
}

static void a_map_begins_with_a_whole_page_also_where_pages_are_larger(void **state)
{
    (void)state;
    int fd = make_object(40 * PAGE);
    for (large_page = 4 * PAGE; large_page <= 16 * PAGE; large_page *= 4) {
        struct shm_map *map = shm_map_create(fd, 17 * PAGE, 2 * PAGE);
        assert_non_null(map);
        assert_int_equal(slab_bytes(shm_map_place(map).slab) % large_page, 0);
        assert_int_equal(bytes_of(map)[0], 18);
        assert_int_equal(bytes_of(map)[PAGE], 19);
        shm_map_destroy(map);
    }
    large_page = 0;
    close(fd);
}

static void pages_that_are_taken_away_read_as_zero_and_break_the_map(void **state)
{
    (void)state;
    int fd = make_object(4 * PAGE);
    struct shm_map *map = shm_map_create(fd, 0, 4 * PAGE);
    struct shm_map *other = shm_map_create(fd, 0, PAGE);
    assert_int_equal(ftruncate(fd, 2 * PAGE), 0);
    assert_int_equal(bytes_of(map)[PAGE], 2);
    assert_false(shm_map_broken(map));
    assert_int_equal(bytes_of(map)[3 * PAGE], 0);
    assert_true(shm_map_broken(map));
    bytes_of(map)[2 * PAGE] = 5; /* one more fault, at a lower address */
    assert_int_equal(bytes_of(map)[2 * PAGE], 5);
    assert_int_equal(bytes_of(map)[PAGE], 2);
    assert_false(shm_map_broken(other));
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(bytes_of(other)[0], 0);
    assert_true(shm_map_broken(other));
    shm_map_destroy(map);
    shm_map_destroy(other);
    struct shm_map *again = shm_map_create(fd, 0, PAGE);
    assert_false(shm_map_broken(again));
    shm_map_destroy(again);
    close(fd);
}

/* Write to every page, at a separate position for each caller. */
static void *write_all(void *argument)
{
    static atomic_size_t callers;
    const struct shm_map *map = argument;
    size_t mine = atomic_fetch_add(&callers, 1) % 512;
    size_t bytes = slab_bytes(shm_map_place(map).slab);
    for (int round = 0; round < 20; round++) {
        for (size_t at = 0; at < bytes; at += 512) {
            bytes_of(map)[at + mine] = (unsigned char)round;
        }
    }
    return NULL;
}

static void threads_may_fault_at_once_while_other_maps_come_and_go(void **state)
{
    (void)state;
    const size_t bytes = 256 * PAGE;
    int fd = make_object(bytes);
    struct shm_map *map = shm_map_create(fd, 0, bytes);
    pthread_t threads[3];
    for (size_t i = 0; i < ARRAY_COUNT(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_all, map), 0);
    }
    for (int i = 0; i < 200; i++) {
        struct shm_map *passing = shm_map_create(fd, 0, bytes);
        assert_int_equal(ftruncate(fd, i % 7 * PAGE), 0);
        assert_int_equal(ftruncate(fd, bytes), 0);
        shm_map_destroy(passing);
    }
    for (size_t i = 0; i < ARRAY_COUNT(threads); i++) {
        (void)pthread_join(threads[i], NULL);
    }
    assert_int_equal(ftruncate(fd, 0), 0);
    (void)write_all(map);
    assert_true(shm_map_broken(map));
    shm_map_destroy(map);
    close(fd);
}

static void the_number_of_maps_is_bounded(void **state)
{
    (void)state;
    static struct shm_map *maps[SHM_MAPS_MAX];
    int fd = make_object(PAGE);
    for (size_t i = 0; i < SHM_MAPS_MAX; i++) {
        maps[i] = shm_map_create(fd, 0, PAGE);
        assert_non_null(maps[i]);
    }
    assert_null(shm_map_create(fd, 0, PAGE));
    shm_map_destroy(maps[17]);
    maps[17] = shm_map_create(fd, 0, PAGE);
    assert_non_null(maps[17]);
    for (size_t i = 0; i < SHM_MAPS_MAX; i++) {
        shm_map_destroy(maps[i]);
    }
    close(fd);
}

static void maps_that_cannot_be_are_refused(void **state)
{
    (void)state;
    int fd = make_object(PAGE);
    assert_null(shm_map_create(fd, 0, 0));
    assert_null(shm_map_create(fd, 0, UINT64_MAX));
    assert_null(shm_map_create(fd, 0, UINT64_C(17) << 40));
    struct shm_map *large = shm_map_create(fd, 0, UINT64_C(9) << 40);
    if (large != NULL) { /* a sanitizer may not leave enough address space */
        assert_null(shm_map_create(fd, 0, UINT64_C(9) << 40));
        shm_map_destroy(large);
        large = shm_map_create(fd, 0, UINT64_C(9) << 40);
        assert_non_null(large);
        shm_map_destroy(large);
    }
    assert_null(shm_map_create(-1, 0, PAGE));
    shm_map_destroy(NULL);
    close(fd);
}

/* Call `action` in a child process, which leaves no core file. Returns the signal that ended
 * the child, or its exit code. */
static int end_of(void (*action)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        action();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void with_default_action(void)
{
    (void)signal(SIGBUS, SIG_DFL); /* replaces cmocka's handler */
    int fd = make_object(PAGE);
    struct shm_map *map = shm_map_create(fd, 0, PAGE); /* installs the handler */
    if (map == NULL) {
        _exit(1);
    }
}

static void touch_foreign_pages(void)
{
    with_default_action();
    int fd = make_object(PAGE);
    volatile char *page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    if (ftruncate(fd, 0) == 0) {
        (void)page[0];
    }
}

static void be_sent_the_signal(void)
{
    with_default_action();
    (void)kill(getpid(), SIGBUS);
}

static void any_other_bus_error_ends_the_process(void **state)
{
    (void)state;
    assert_int_equal(end_of(touch_foreign_pages), SIGBUS);
    assert_int_equal(end_of(be_sent_the_signal), SIGBUS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_other_bus_error_ends_the_process),
        cmocka_unit_test(a_map_is_the_object_at_any_offset),
        cmocka_unit_test(a_map_begins_with_a_whole_page_also_where_pages_are_larger),
        cmocka_unit_test(pages_that_are_taken_away_read_as_zero_and_break_the_map),
        cmocka_unit_test(threads_may_fault_at_once_while_other_maps_come_and_go),
        cmocka_unit_test(the_number_of_maps_is_bounded),
        cmocka_unit_test(maps_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
