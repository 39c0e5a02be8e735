/* Clients' shared memory: which objects may be registered, and that no change to an object by
 * its client harms the server. */
#include "server/memory/shm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char key[64];

static struct shm_registry *registry_with(size_t regions)
{
    struct shm_options options = {.max_regions = regions};
    struct shm_registry *registry = NULL;
    struct error err = ERROR_INIT;
    assert_int_equal(shm_create(&options, &registry, &err), STATUS_OK);
    return registry;
}

/* Create an object of `bytes` bytes 0, 1, 2, ... under `key`. */
static void make_object(size_t bytes)
{
    snprintf(key, sizeof key, "/tally_test_%d", (int)getpid());
    shm_unlink(key);
    int fd = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)i;
        assert_int_equal(write(fd, &byte, 1), 1);
    }
    close(fd);
}

static int truncate_object(off_t bytes)
{
    int fd = shm_open(key, O_RDWR, 0600);
    int result = ftruncate(fd, bytes);
    close(fd);
    return result;
}

static int drop_object(void **state)
{
    (void)state;
    shm_unlink(key);
    return 0;
}

static struct kserve_shm_region region_of(const char *name, uint64_t offset, uint64_t bytes)
{
    struct kserve_shm_region region = {.offset = offset, .byte_size = bytes};
    snprintf(region.name, sizeof region.name, "%s", name);
    snprintf(region.key, sizeof region.key, "%s", key);
    return region;
}

static enum status try_register(struct shm_registry *registry, struct kserve_shm_region region,
                                struct error *err)
{
    *err = (struct error)ERROR_INIT;
    return shm_register(registry, &region, true, err);
}

static struct shm_window window_of(const char *name, uint64_t offset, uint64_t bytes)
{
    struct shm_window window = {.offset = offset, .bytes = bytes};
    snprintf(window.region, sizeof window.region, "%s", name);
    return window;
}

static size_t open_fds(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

static void copies_windows_in_and_out_at_their_offsets(void **state)
{
    (void)state;
    make_object(64);
    struct shm_registry *registry = registry_with(4);
    struct error err;
    assert_int_equal(try_register(registry, region_of("r", 8, 56), &err), STATUS_OK);

    struct shm_window window = window_of("r", 3, 5);
    struct shm_region *region = NULL;
    assert_int_equal(shm_acquire(registry, &window, &region, &err), STATUS_OK);
    unsigned char bytes[5];
    assert_int_equal(shm_read(region, &window, bytes, 5, NULL, &err), STATUS_OK);
    assert_memory_equal(bytes, "\x0b\x0c\x0d\x0e\x0f", 5);
    assert_int_equal(shm_write(region, &window, "abc", 3, NULL, &err), STATUS_OK);
    assert_int_equal(shm_read(region, &window, bytes, 5, NULL, &err), STATUS_OK);
    assert_memory_equal(bytes, "abc\x0e\x0f", 5);
    shm_release(region);
    shm_destroy(registry);
}

static bool give_up(const struct parallel *parallel)
{
    (void)parallel;
    return false;
}

static void a_long_copy_is_given_up_between_two_steps(void **state)
{
    (void)state;
    enum {
        STEP = 1 << 20
    };
    static char bytes[2 * STEP];
    const struct parallel hasty = {.grain = 1, .step = give_up};
    make_object(0);
    assert_int_equal(truncate_object(2 * STEP), 0);
    struct shm_registry *registry = registry_with(4);
    struct error err;
    assert_int_equal(try_register(registry, region_of("r", 0, 2 * STEP), &err), STATUS_OK);
    struct shm_window window = window_of("r", 0, 2 * STEP);
    struct shm_region *region = NULL;
    assert_int_equal(shm_acquire(registry, &window, &region, &err), STATUS_OK);
    memset(bytes, 1, sizeof bytes);
    assert_int_equal(shm_write(region, &window, bytes, 2 * STEP, &hasty, &err),
                     STATUS_CLIENT_GONE);
    assert_int_equal(shm_read(region, &window, bytes, 2 * STEP, NULL, &err), STATUS_OK);
    assert_int_equal(bytes[STEP - 1], 1); /* a step was completed */
    assert_int_equal(bytes[STEP], 0);
    err = (struct error)ERROR_INIT;
    assert_int_equal(shm_read(region, &window, bytes, STEP, &hasty, &err), STATUS_OK);
    assert_int_equal(shm_read(region, &window, bytes, STEP + 1, &hasty, &err),
                     STATUS_CLIENT_GONE);
    shm_release(region);
    shm_destroy(registry);
}

static void remote_peers_may_not_register(void **state)
{
    (void)state;
    make_object(8);
    struct shm_registry *registry = registry_with(4);
    struct kserve_shm_region region = region_of("r", 0, 8);
    struct error err = ERROR_INIT;
    assert_int_equal(shm_register(registry, &region, false, &err), STATUS_FORBIDDEN);
    shm_destroy(registry);
}

static void keys_that_leave_the_shared_memory_directory_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",         "/",   ".",    "..",    "/..",   "a/b",     "//a", "../etc/passwd",
        "/.hidden", "a b", "a\nb", "sem.x", "a%2fb", "\xc3\xa9"};
    make_object(8);
    struct shm_registry *registry = registry_with(4);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct kserve_shm_region region = region_of("r", 0, 8);
        struct error err;
        snprintf(region.key, sizeof region.key, "%s", bad[i]);
        assert_int_equal(try_register(registry, region, &err), STATUS_SHM_ERROR);
        assert_string_equal(err.field, "key");
    }
    shm_destroy(registry);
}

static void a_missing_object_is_not_found_and_leaks_no_path(void **state)
{
    (void)state;
    make_object(8);
    struct shm_registry *registry = registry_with(4);
    struct kserve_shm_region region = region_of("r", 0, 8);
    struct error err;
    snprintf(region.key, sizeof region.key, "tally_no_such_object");
    assert_int_equal(try_register(registry, region, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.detail, "--ipc=host"));
    assert_null(strstr(err.detail, "tally_no_such_object"));
    shm_destroy(registry);
}

static void symbolic_links_and_directories_are_refused(void **state)
{
    (void)state;
    char path[300];
    make_object(8);
    struct shm_registry *registry = registry_with(4);
    struct error err;
    struct kserve_shm_region region = region_of("r", 0, 1);

    snprintf(region.key, sizeof region.key, "tally_link_%d", (int)getpid());
    snprintf(path, sizeof path, "/dev/shm/%s", region.key);
    unlink(path);
    assert_int_equal(symlink("/etc/hostname", path), 0);
    assert_int_not_equal(try_register(registry, region, &err), STATUS_OK);
    unlink(path);

    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_not_equal(try_register(registry, region, &err), STATUS_OK);
    rmdir(path);

    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(try_register(registry, region, &err), STATUS_SHM_ERROR);
    unlink(path);
    shm_destroy(registry);
}

static void objects_of_other_users_are_refused(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    make_object(8);
    char path[128];
    snprintf(path, sizeof path, "/dev/shm%s", key);
    assert_int_equal(chown(path, 12345, 12345), 0);
    struct shm_registry *registry = registry_with(4);
    struct kserve_shm_region region = region_of("r", 0, 8);
    struct error err;
    assert_int_equal(try_register(registry, region, &err), STATUS_FORBIDDEN);
    shm_destroy(registry);
}

static void windows_outside_the_object_are_refused_without_wrapping(void **state)
{
    (void)state;
    static const uint64_t bad[][2] = {{0, 65},
                                      {64, 1},
                                      {65, 1},
                                      {1, 64},
                                      {UINT64_MAX, 1},
                                      {1, UINT64_MAX},
                                      {UINT64_MAX, UINT64_MAX}};
    make_object(64);
    struct shm_registry *registry = registry_with(4);
    struct error err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(try_register(registry, region_of("r", bad[i][0], bad[i][1]), &err),
                         STATUS_SHM_ERROR);
        assert_string_equal(err.field, "byte_size");
    }
    assert_int_equal(try_register(registry, region_of("r", 0, 0), &err), STATUS_SHM_ERROR);
    assert_int_equal(try_register(registry, region_of("r", 63, 1), &err), STATUS_OK);
    shm_destroy(registry);
}

static void windows_outside_the_region_are_refused_without_wrapping(void **state)
{
    (void)state;
    static const uint64_t bad[][2] = {{32, 0}, {32, 1},         {0, 33},
                                      {31, 2}, {UINT64_MAX, 2}, {1, UINT64_MAX}};
    make_object(64);
    struct shm_registry *registry = registry_with(4);
    struct error err;
    assert_int_equal(try_register(registry, region_of("r", 16, 32), &err), STATUS_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct shm_window window = window_of("r", bad[i][0], bad[i][1]);
        struct shm_region *region = NULL;
        err = (struct error)ERROR_INIT;
        assert_int_equal(shm_acquire(registry, &window, &region, &err), STATUS_SHM_ERROR);
        assert_null(region);
    }
    struct shm_window unknown = window_of("q", 0, 1);
    struct shm_region *region = NULL;
    err = (struct error)ERROR_INIT;
    assert_int_equal(shm_acquire(registry, &unknown, &region, &err), STATUS_NOT_FOUND);
    shm_destroy(registry);
}

static void names_and_room_are_limited(void **state)
{
    (void)state;
    make_object(64);
    struct shm_registry *registry = registry_with(2);
    struct error err;
    assert_int_equal(try_register(registry, region_of("a", 0, 60), &err), STATUS_OK);
    assert_int_equal(try_register(registry, region_of("a", 0, 1), &err), STATUS_SHM_ERROR);
    assert_int_equal(try_register(registry, region_of("b", 0, 40), &err), STATUS_OK);
    assert_int_equal(try_register(registry, region_of("c", 0, 1), &err), STATUS_SHM_ERROR);
    shm_unregister(registry, "a");
    assert_int_equal(try_register(registry, region_of("c", 0, 1), &err), STATUS_OK);

    struct kserve_shm_region list[4];
    assert_int_equal(shm_list(registry, NULL, list, 4), 2);
    assert_string_equal(list[0].name, "b");
    assert_string_equal(list[1].name, "c");
    assert_int_equal(list[0].byte_size, 40);
    assert_int_equal(shm_list(registry, "c", list, 4), 1);
    assert_int_equal(shm_list(registry, "a", list, 4), 0);
    struct shm_amount amount = shm_unregister(registry, NULL);
    assert_int_equal(amount.regions, 2);
    assert_int_equal(amount.bytes, 41);
    amount = shm_unregister(registry, "b");
    assert_int_equal(amount.regions, 0);
    assert_int_equal(amount.bytes, 0);
    shm_destroy(registry);
}

static void a_configured_prefix_is_required_of_every_key(void **state)
{
    static const struct {
        const char *prefix;
        enum status status;
    } rows[] = {{"other_", STATUS_FORBIDDEN}, /* the prefix inside the key is not enough: */
                {"test_", STATUS_FORBIDDEN},
                {"tally_test_", STATUS_OK}};
    (void)state;
    make_object(8);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct shm_options options = {.max_regions = 4, .key_prefix = rows[i].prefix};
        struct shm_registry *registry = NULL;
        struct error err = ERROR_INIT;
        assert_int_equal(shm_create(&options, &registry, &err), STATUS_OK);
        assert_int_equal(try_register(registry, region_of("r", 0, 8), &err), rows[i].status);
        shm_destroy(registry);
    }
}

static void an_object_that_shrinks_gives_an_error_and_does_not_grow_back(void **state)
{
    (void)state;
    make_object(64);
    struct shm_registry *registry = registry_with(4);
    struct error err;
    assert_int_equal(try_register(registry, region_of("r", 0, 64), &err), STATUS_OK);
    struct shm_window window = window_of("r", 0, 64);
    struct shm_region *region = NULL;
    assert_int_equal(shm_acquire(registry, &window, &region, &err), STATUS_OK);
    int fd = shm_open(key, O_RDWR, 0);
    assert_int_equal(ftruncate(fd, 10), 0);

    char bytes[64];
    assert_int_equal(shm_read(region, &window, bytes, 64, NULL, &err), STATUS_SHM_ERROR);
    err = (struct error)ERROR_INIT;
    assert_int_equal(shm_write(region, &window, bytes, 64, NULL, &err), STATUS_SHM_ERROR);
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_size, 10);
    struct shm_region *second = NULL;
    err = (struct error)ERROR_INIT;
    assert_int_equal(shm_acquire(registry, &window, &second, &err), STATUS_SHM_ERROR);
    close(fd);
    shm_release(region);
    shm_destroy(registry);
}

static bool is_full;

ssize_t __real_pwrite(int fd, const void *bytes, size_t count, off_t at);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t count, off_t at);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t count, off_t at)
{
    if (is_full) {
        errno = ENOSPC;
        return -1;
    }
    return __real_pwrite(fd, bytes, count, at);
}

static void where_there_is_no_page_for_a_result_that_is_said(void **state)
{
    (void)state;
    make_object(64);
    struct shm_registry *registry = registry_with(4);
    struct error err;
    assert_int_equal(try_register(registry, region_of("r", 0, 64), &err), STATUS_OK);
    struct shm_window window = window_of("r", 0, 64);
    struct shm_region *region = NULL;
    assert_int_equal(shm_acquire(registry, &window, &region, &err), STATUS_OK);
    is_full = true;
    assert_int_equal(shm_write(region, &window, "abc", 3, NULL, &err), STATUS_SHM_ERROR);
    is_full = false;
    assert_non_null(strstr(err.detail, "/dev/shm is full"));
    assert_null(strstr(err.detail, "smaller"));
    shm_release(region);
    shm_destroy(registry);
}

static void a_region_in_use_outlives_its_registration(void **state)
{
    (void)state;
    make_object(16);
    struct shm_registry *registry = registry_with(4);
    struct error err;
    assert_int_equal(try_register(registry, region_of("r", 0, 16), &err), STATUS_OK);
    struct shm_window window = window_of("r", 0, 16);
    struct shm_region *region = NULL;
    assert_int_equal(shm_acquire(registry, &window, &region, &err), STATUS_OK);
    shm_unregister(registry, "r");
    shm_unlink(key);
    unsigned char bytes[16];
    assert_int_equal(shm_read(region, &window, bytes, 16, NULL, &err), STATUS_OK);
    assert_int_equal(bytes[15], 15);
    shm_destroy(registry);
    assert_int_equal(shm_write(region, &window, bytes, 16, NULL, &err), STATUS_OK);
    shm_release(region);
}

static void no_outcome_leaves_a_file_descriptor_behind(void **state)
{
    (void)state;
    make_object(64);
    size_t before = open_fds();
    struct shm_registry *registry = registry_with(2);
    struct error err;
    for (int i = 0; i < 10; i++) {
        try_register(registry, region_of("a", 0, 10), &err);
        try_register(registry, region_of("a", 0, 10), &err);
        try_register(registry, region_of("b", 0, 1000), &err);
        try_register(registry, region_of("b", 0, 10), &err);
        try_register(registry, region_of("c", 0, 10), &err);
        shm_unregister(registry, "a");
    }
    shm_unregister(registry, NULL);
    assert_int_equal(open_fds(), before);
    shm_destroy(registry);
}

static void a_result_larger_than_its_window_is_refused(void **state)
{
    (void)state;
    make_object(64);
    struct shm_registry *registry = registry_with(2);
    struct error err;
    assert_int_equal(try_register(registry, region_of("r", 0, 64), &err), STATUS_OK);
    struct shm_window window = window_of("r", 0, 8);
    struct shm_region *region = NULL;
    assert_int_equal(shm_acquire(registry, &window, &region, &err), STATUS_OK);
    assert_int_equal(shm_write(region, &window, "123456789", 9, NULL, &err), STATUS_SHM_ERROR);
    shm_release(region);
    shm_destroy(registry);
}

static struct shm_registry *zero_copy_registry(void)
{
    const struct shm_options options = {.zero_copy = true, .max_regions = 8};
    struct shm_registry *registry = NULL;
    struct error err = ERROR_INIT;
    assert_int_equal(shm_create(&options, &registry, &err), STATUS_OK);
    return registry;
}

static struct shm_region *acquire(struct shm_registry *registry,
                                  const struct shm_window *window)
{
    struct shm_region *region = NULL;
    struct error err = ERROR_INIT;
    assert_int_equal(shm_acquire(registry, window, &region, &err), STATUS_OK);
    return region;
}

static void zero_copy_places_aligned_windows_in_the_objects_own_pages(void **state)
{
    (void)state;
    make_object(64);
    struct shm_registry *registry = zero_copy_registry();
    struct error err;
    assert_int_equal(try_register(registry, region_of("r", 8, 56), &err), STATUS_OK);
    struct shm_window window = window_of("r", 4, 16);
    struct shm_region *region = acquire(registry, &window);
    struct tensor_place place = shm_place(region, &window, 4);
    assert_non_null(place.slab);
    unsigned char *bytes = (unsigned char *)slab_data(place.slab) + place.offset;
    assert_int_equal(bytes[0], 12);
    bytes[0] = 99;
    unsigned char copied = 0;
    assert_int_equal(shm_read(region, &window, &copied, 1, NULL, &err), STATUS_OK);
    assert_int_equal(copied, 99);
    assert_null(shm_place(region, &window, 8).slab);
    shm_release(region);
    shm_destroy(registry);
}

static void without_zero_copy_nothing_is_mapped(void **state)
{
    (void)state;
    make_object(64);
    struct shm_registry *registry = registry_with(4);
    struct error err;
    assert_int_equal(try_register(registry, region_of("r", 0, 64), &err), STATUS_OK);
    struct shm_window window = window_of("r", 0, 16);
    struct shm_region *region = acquire(registry, &window);
    assert_null(shm_place(region, &window, 1).slab);
    shm_release(region);
    shm_destroy(registry);
}

static void windows_over_the_same_bytes_are_recognised_under_any_name(void **state)
{
    (void)state;
    make_object(64);
    struct shm_registry *registry = zero_copy_registry();
    struct error err;
    assert_int_equal(try_register(registry, region_of("a", 0, 64), &err), STATUS_OK);
    assert_int_equal(try_register(registry, region_of("b", 16, 48), &err), STATUS_OK);
    struct shm_window a = window_of("a", 16, 16);
    struct shm_window b = window_of("b", 0, 16);
    struct shm_region *first = acquire(registry, &a);
    struct shm_region *second = acquire(registry, &b);
    assert_int_equal(shm_overlap(first, &a, 16, second, &b, 16), SHM_SAME);
    b.offset = 15;
    assert_int_equal(shm_overlap(first, &a, 16, second, &b, 16), SHM_OVERLAP);
    b.offset = 16;
    assert_int_equal(shm_overlap(first, &a, 16, second, &b, 16), SHM_APART);
    a.offset = 0;
    b.offset = 0;
    assert_int_equal(shm_overlap(first, &a, 16, second, &b, 16), SHM_APART);
    assert_int_equal(shm_overlap(first, &a, 17, second, &b, 16), SHM_OVERLAP);
    assert_int_equal(shm_overlap(second, &b, 16, first, &a, 17), SHM_OVERLAP);
    shm_release(first);
    shm_release(second);
    shm_destroy(registry);
}

static void an_object_that_shrinks_in_use_is_noticed_and_copied_afterwards(void **state)
{
    (void)state;
    make_object(64);
    struct shm_registry *registry = zero_copy_registry();
    struct error err;
    assert_int_equal(try_register(registry, region_of("r", 0, 64), &err), STATUS_OK);
    struct shm_window window = window_of("r", 0, 64);
    struct shm_region *region = acquire(registry, &window);
    struct tensor_place place = shm_place(region, &window, 1);
    assert_int_equal(shm_verify(region, &window, &err), STATUS_OK);

    int fd = shm_open(key, O_RDWR, 0);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(shm_verify(region, &window, &err), STATUS_SHM_ERROR);
    assert_int_equal(*((volatile unsigned char *)slab_data(place.slab) + place.offset), 0);
    assert_int_equal(ftruncate(fd, 64), 0);
    err = (struct error)ERROR_INIT;
    assert_int_equal(shm_verify(region, &window, &err), STATUS_SHM_ERROR);
    assert_non_null(strstr(err.detail, "missing"));
    assert_null(shm_place(region, &window, 1).slab);
    unsigned char bytes[64];
    err = (struct error)ERROR_INIT;
    assert_int_equal(shm_read(region, &window, bytes, 64, NULL, &err), STATUS_OK);
    (void)close(fd);
    shm_release(region);
    shm_destroy(registry);
}

static void a_request_gives_all_its_regions_back(void **state)
{
    (void)state;
    make_object(64);
    size_t before = open_fds();
    struct shm_registry *registry = zero_copy_registry();
    struct error err;
    assert_int_equal(try_register(registry, region_of("r", 0, 64), &err), STATUS_OK);
    struct shm_window window = window_of("r", 0, 64);
    struct shm_tensor shm[SHM_USES] = {{.region = acquire(registry, &window)}};
    shm[SHM_OUTPUT].region = acquire(registry, &window);
    shm_destroy(registry);
    assert_int_equal(open_fds(), before + 1);
    shm_release_all(shm);
    assert_null(shm[SHM_OUTPUT].region);
    assert_int_equal(open_fds(), before);
    shm_release_all(shm);
}

static uint64_t processor_ns(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

enum {
    MANY = 64,
    MANY_BYTES = 256 << 20 /* freeing it takes many times as long as creating a thread */
};

/* Create an object without a name and return its descriptor. If `name` is not NULL, register
 * the object under it. */
static int make_nameless(struct shm_registry *registry, const char *name, off_t bytes)
{
    make_object(1);
    int fd = shm_open(key, O_RDWR, 0);
    struct error err;
    assert_true(fd >= 0);
    assert_int_equal(posix_fallocate(fd, 0, bytes), 0);
    if (name != NULL) {
        assert_int_equal(try_register(registry, region_of(name, 0, 16), &err), STATUS_OK);
    }
    shm_unlink(key);
    return fd;
}

/* Return the processor time for freeing MANY_BYTES. */
static uint64_t to_free_ns(void)
{
    int fd = make_nameless(NULL, NULL, MANY_BYTES);
    uint64_t begin_ns = processor_ns();
    close(fd);
    return processor_ns() - begin_ns;
}

/* Return the processor time of a caller that unregisters everything. */
static uint64_t to_unregister_ns(struct shm_registry *registry, size_t regions)
{
    uint64_t begin_ns = processor_ns();
    assert_int_equal(shm_unregister(registry, NULL).regions, regions);
    return processor_ns() - begin_ns;
}

static void await_open_fds(size_t count)
{
    while (open_fds() > count) {
        usleep(1000);
    }
}

static void unregistering_does_not_wait_until_a_large_object_is_freed(void **state)
{
    (void)state;
    struct shm_registry *registry = registry_with(4);
    size_t before = open_fds();
    uint64_t most_ns = to_free_ns() / 4;
    close(make_nameless(registry, "r", MANY_BYTES));
    assert_in_range(to_unregister_ns(registry, 1), 0, most_ns);
    await_open_fds(before);
    shm_destroy(registry);
}

static void nor_for_many_small_ones(void **state)
{
    (void)state;
    struct shm_registry *registry = registry_with(MANY);
    size_t before = open_fds();
    uint64_t most_ns = to_free_ns() / 4;
    for (int i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "r%d", i);
        close(make_nameless(registry, name, MANY_BYTES / MANY));
    }
    assert_in_range(to_unregister_ns(registry, MANY), 0, most_ns);
    await_open_fds(before);
    shm_destroy(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_teardown(f, drop_object)
        TEST(copies_windows_in_and_out_at_their_offsets),
        TEST(a_long_copy_is_given_up_between_two_steps),
        TEST(remote_peers_may_not_register),
        TEST(keys_that_leave_the_shared_memory_directory_are_refused),
        TEST(a_missing_object_is_not_found_and_leaks_no_path),
        TEST(symbolic_links_and_directories_are_refused),
        TEST(objects_of_other_users_are_refused),
        TEST(windows_outside_the_object_are_refused_without_wrapping),
        TEST(windows_outside_the_region_are_refused_without_wrapping),
        TEST(names_and_room_are_limited),
        TEST(a_configured_prefix_is_required_of_every_key),
        TEST(an_object_that_shrinks_gives_an_error_and_does_not_grow_back),
        TEST(where_there_is_no_page_for_a_result_that_is_said),
        TEST(a_region_in_use_outlives_its_registration),
        TEST(no_outcome_leaves_a_file_descriptor_behind),
        TEST(a_result_larger_than_its_window_is_refused),
        TEST(zero_copy_places_aligned_windows_in_the_objects_own_pages),
        TEST(without_zero_copy_nothing_is_mapped),
        TEST(windows_over_the_same_bytes_are_recognised_under_any_name),
        TEST(an_object_that_shrinks_in_use_is_noticed_and_copied_afterwards),
        TEST(a_request_gives_all_its_regions_back),
        TEST(unregistering_does_not_wait_until_a_large_object_is_freed),
        TEST(nor_for_many_small_ones),
#undef TEST
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
