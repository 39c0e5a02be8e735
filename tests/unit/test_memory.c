/* memory.h and buddy.h: the budget, blocks that never overlap, and slabs that are reused and
 * given back; also with threads. */
#include "kernels/slab.h"
#include "proto/macros.h"
#include "server/base/clock.h"
#include "server/memory/buddy.h"
#include "server/memory/memory.h"
#include "server/memory/text.h"
#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct memory_options small_options = {.budget_bytes = 64 << 20,
                                                    .small_slab_bytes = 1 << 20,
                                                    .small_block_bytes = 64 << 10,
                                                    .keep_ms = 10};

static int set_up(void **state)
{
    return memory_create(&small_options, (struct memory **)state, NULL) != STATUS_OK;
}

static int tear_down(void **state)
{
    memory_destroy(*state);
    return 0;
}

static struct memory_stats stats_of(struct memory *memory)
{
    struct memory_stats stats;
    memory_stats(memory, &stats);
    return stats;
}

static char *bytes_of(const struct memory_block *block)
{
    return (char *)slab_data(block->slab) + block->offset;
}

/* Pretended page size of the system; 0: the real one. madvise() then accepts only ranges that
 * begin at such a page, and affects whole pages. */
static size_t large_page;

long __real_sysconf(int name);
long __wrap_sysconf(int name);
int __real_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice);

long __wrap_sysconf(int name)
{
    return large_page > 0 && name == _SC_PAGESIZE ? (long)large_page : __real_sysconf(name);
}

int __wrap_madvise(void *at, size_t bytes, int advice)
{
    if (large_page > 0 && (uintptr_t)at % large_page != 0) {
        errno = EINVAL;
        return -1;
    }
    bytes += large_page > 0 ? (large_page - bytes % large_page) % large_page : 0;
    return __real_madvise(at, bytes, advice);
}

static void the_budget_is_kept_to_the_byte(void **state)
{
    struct memory *memory = *state;
    struct error err = ERROR_INIT;
    assert_int_equal(memory_reserve(memory, 0, 64 << 20, &err), STATUS_OK);
    assert_int_equal(memory_reserve(memory, 0, 1, &err), STATUS_OUT_OF_MEMORY);
    assert_non_null(strstr(err.detail, "--memory-budget"));
    memory_release(memory, 5);
    assert_int_equal(memory_reserve(memory, 0, 5, NULL), STATUS_OK);
    assert_int_equal(memory_reserve(memory, 0, 1, NULL), STATUS_OUT_OF_MEMORY);
    memory_release(memory, 64 << 20);
    assert_int_equal(stats_of(memory).reserved_bytes, 0);
}

static void a_refusal_for_want_of_free_memory_is_remembered(void **state)
{
    struct memory *memory = *state;
    uint64_t before_ns = clock_now_ns();
    assert_int_equal(memory_reserve(memory, 0, (64 << 20) + 1, NULL), STATUS_TOO_LARGE);
    assert_int_equal(memory_reserve(memory, 0, 64 << 20, NULL), STATUS_OK);
    assert_int_equal(memory_pressed(memory, 0), 0);
    assert_int_equal(memory_reserve(memory, 0, 7, NULL), STATUS_OUT_OF_MEMORY);
    assert_int_equal(memory_pressed(memory, before_ns), 7);
    assert_int_equal(memory_pressed(memory, clock_now_ns()), 0);
    memory_release(memory, 64 << 20);
}

static void a_refusal_presses_no_more_when_its_bytes_are_free_or_were_had(void **state)
{
    struct memory *memory = *state;
    uint64_t before_ns = clock_now_ns();
    assert_int_equal(memory_reserve(memory, 0, 64 << 20, NULL), STATUS_OK);
    assert_int_equal(memory_reserve(memory, 0, 7, NULL), STATUS_OUT_OF_MEMORY);
    memory_release(memory, 10);
    assert_int_equal(memory_pressed(memory, before_ns), 0);
    assert_int_equal(memory_reserve(memory, 0, 6, NULL), STATUS_OK);
    /* The refused request needs 7 bytes, and 4 are free. */
    assert_int_equal(memory_pressed(memory, before_ns), 3);
    memory_release(memory, 3);
    assert_int_equal(memory_reserve(memory, 0, 7, NULL), STATUS_OK);
    assert_int_equal(memory_pressed(memory, before_ns), 0);
    memory_release(memory, 64 << 20);
}

static void a_refused_request_presses_for_what_it_held_as_well(void **state)
{
    struct memory *memory = *state;
    uint64_t before_ns = clock_now_ns();
    assert_int_equal(memory_reserve(memory, 0, (64 << 20) - 10, NULL), STATUS_OK);
    assert_int_equal(memory_reserve(memory, 0, 7, NULL), STATUS_OK);
    assert_int_equal(memory_reserve(memory, 7, 7, NULL), STATUS_OUT_OF_MEMORY);
    memory_release(memory, 7); /* 10 bytes are free, and the request needs 14 */
    assert_int_equal(memory_pressed(memory, before_ns), 4);
    memory_release(memory, 4);
    assert_int_equal(memory_reserve(memory, 0, 7, NULL), STATUS_OK);
    assert_int_equal(memory_reserve(memory, 7, 7, NULL), STATUS_OK);
    assert_int_equal(memory_pressed(memory, before_ns), 0);
    memory_release(memory, 64 << 20);
}

static void without_a_first_slab_there_is_no_start(void **state)
{
    const struct memory_options options = {.budget_bytes = 64 << 20,
                                           .small_slab_bytes = UINT64_C(1) << 56,
                                           .small_block_bytes = 64 << 10,
                                           .keep_ms = 10};
    struct memory *memory = NULL;
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(memory_create(&options, &memory, &err), STATUS_OK);
    assert_int_equal(memory_prepare(memory, &err), STATUS_OUT_OF_MEMORY);
    assert_non_null(strstr(err.detail, "first tensors"));
    memory_destroy(memory);
}

static void the_first_slab_is_there_before_the_first_block_and_stays(void **state)
{
    struct memory_block block = {0};
    assert_int_equal(memory_prepare(*state, NULL), STATUS_OK);
    assert_int_equal(stats_of(*state).slab_bytes, 1 << 20);
    assert_int_equal(memory_take(*state, 100, &block, NULL), STATUS_OK);
    memory_give(*state, &block);
    memory_trim(*state, clock_now_ns() + 60 * NS_PER_S);
    assert_int_equal(stats_of(*state).slab_bytes, 1 << 20);
}

static void a_request_that_can_never_fit_is_too_large(void **state)
{
    struct error err = ERROR_INIT;
    assert_int_equal(memory_reserve(*state, 0, (64 << 20) + 1, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.detail, "64 MiB"));
    assert_int_equal(memory_reserve(*state, 0, UINT64_MAX, NULL), STATUS_TOO_LARGE);
    struct memory_block block = {0};
    assert_int_equal(memory_take(*state, SIZE_MAX, &block, NULL), STATUS_TOO_LARGE);
    assert_null(block.slab);
}

static void
the_refusal_of_a_request_that_never_fits_names_the_part_for_small_requests(void **state)
{
    const struct memory_options options = {.budget_bytes = UINT64_C(4) << 30,
                                           .small_slab_bytes = 1 << 20,
                                           .small_block_bytes = 64 << 10};
    struct memory *large = NULL;
    struct error err = ERROR_INIT;
    assert_int_equal(memory_never_fits(*state, 1 << 30, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.detail, "of which 4 MiB are kept for small ones"));
    assert_int_equal(memory_create(&options, &large, &err), STATUS_OK);
    err = (struct error)ERROR_INIT;
    assert_int_equal(memory_never_fits(large, UINT64_C(1) << 40, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.detail, "of which 64 MiB are kept for small ones"));
    memory_destroy(large);
}

static void blocks_of_every_size_are_aligned_and_have_headroom(void **state)
{
    static const size_t sizes[] = {0,   1,    63,    64,    65,      511,
                                   512, 4096, 65536, 65537, 1 << 20, 3000000};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        struct memory_block block = {0};
        assert_int_equal(memory_take(*state, sizes[i], &block, NULL), STATUS_OK);
        assert_true(block.bytes >= sizes[i]);
        assert_true(block.offset >= MEMORY_HEADROOM);
        assert_int_equal((uintptr_t)bytes_of(&block) % MEMORY_ALIGN, 0);
        assert_true(block.offset + block.bytes <= slab_bytes(block.slab));
        memset(bytes_of(&block) - MEMORY_HEADROOM, 0x5a, MEMORY_HEADROOM + block.bytes);
        memory_give(*state, &block);
        assert_null(block.slab);
        memory_give(*state, &block); /* no block: the call has no effect */
    }
    assert_int_equal(stats_of(*state).block_count, 0);
}

static void small_blocks_share_a_slab_and_large_ones_do_not(void **state)
{
    struct memory_block a = {0};
    struct memory_block b = {0};
    struct memory_block large = {0};
    assert_int_equal(memory_take(*state, 100, &a, NULL), STATUS_OK);
    assert_int_equal(memory_take(*state, 60000, &b, NULL), STATUS_OK);
    assert_int_equal(memory_take(*state, 70000, &large, NULL), STATUS_OK);
    assert_ptr_equal(a.slab, b.slab);
    assert_ptr_not_equal(a.slab, large.slab);
    memory_give(*state, &a);
    memory_give(*state, &b);
    memory_give(*state, &large);
}

static void a_large_slab_is_used_again_and_given_back_later(void **state)
{
    struct memory *memory = *state;
    struct memory_block block = {0};
    assert_int_equal(memory_take(memory, 5000000, &block, NULL), STATUS_OK);
    struct slab *slab = block.slab;
    uint64_t held = stats_of(memory).slab_bytes;
    memory_give(memory, &block);
    assert_int_equal(stats_of(memory).slab_bytes, held);
    assert_int_equal(memory_take(memory, 4900000, &block, NULL), STATUS_OK);
    assert_ptr_equal(block.slab, slab);
    memory_give(memory, &block);
    memory_trim(memory, clock_now_ns());
    assert_int_equal(stats_of(memory).slab_bytes, held); /* too early */
    memory_trim(memory, clock_now_ns() + 11 * NS_PER_MS);
    assert_int_equal(stats_of(memory).slab_bytes, 0);
}

/* Return whether the page of a usable byte is resident. */
static bool has_page(const struct memory_block *block, size_t at)
{
    unsigned char there = 0;
    const uintptr_t byte = (uintptr_t)bytes_of(block) + at;
    assert_int_equal(mincore((void *)(byte - byte % slab_page_bytes()), 1, &there), 0);
    return (there & 1) != 0;
}

static void
the_pages_of_a_large_block_are_made_when_asked_for_and_kept_for_the_next(void **state)
{
    struct memory *memory = *state;
    struct memory_block block;
    assert_int_equal(memory_take(memory, 16 << 20, &block, NULL), STATUS_OK);
    assert_int_equal(block.touched, 0);
    assert_false(has_page(&block, 4 << 20));
    memory_touch(&block, 0, 3 << 20);
    memset(bytes_of(&block), 7, 3 << 20);
    memory_touch(&block, 3 << 20, 5 << 20);
    block.touched = 5 << 20;
    for (size_t at = 0; at < block.touched; at += SLAB_ALIGN) {
        assert_true(has_page(&block, at));
        assert_int_equal(bytes_of(&block)[at], at < 3 << 20 ? 7 : 0);
    }
    assert_false(has_page(&block, 15 << 20));
    memory_give(memory, &block);
    assert_int_equal(memory_take(memory, 16 << 20, &block, NULL), STATUS_OK);
    assert_int_equal(block.touched, 5 << 20);
    memory_give(memory, &block);
}

static void pages_of_any_size_are_given_back_and_nothing_beside_them(void **state)
{
    enum {
        BYTES = 1 << 20
    };
    static const size_t sizes[] = {4 << 10, 16 << 10, 64 << 10};
    struct memory_block block;
    assert_int_equal(memory_take(*state, BYTES, &block, NULL), STATUS_OK);
    for (size_t i = 0; i < ARRAY_COUNT(sizes) && sizes[i] >= (size_t)sysconf(_SC_PAGESIZE);
         i++) {
        large_page = sizes[i];
        /* At every position within a page: */
        for (size_t from = 1; from < 2 * large_page; from += 2048) {
            const size_t end = from + BYTES / 2;
            memset(bytes_of(&block), 'x', BYTES);
            const size_t given = memory_untouch(&block, from, end);
            assert_true(given > end - from - 2 * large_page);
            assert_null(memchr(bytes_of(&block), 0, from));
            assert_null(memchr(bytes_of(&block) + end, 0, BYTES - end));
        }
        large_page = 0;
    }
    memory_give(*state, &block);
}

static void idle_slabs_make_room_for_new_ones_within_the_budget(void **state)
{
    struct memory *memory = *state;
    for (size_t bytes = 1 << 20; bytes <= 32 << 20; bytes += bytes / 2) {
        struct memory_block block = {0};
        assert_int_equal(memory_take(memory, bytes, &block, NULL), STATUS_OK);
        memory_give(memory, &block);
        assert_true(stats_of(memory).slab_bytes <= small_options.budget_bytes);
    }
}

static void shared_slabs_but_the_first_are_given_back(void **state)
{
    struct memory *memory = *state;
    enum {
        COUNT = 100
    };
    struct memory_block blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = (struct memory_block){0};
        assert_int_equal(memory_take(memory, 60000, &blocks[i], NULL), STATUS_OK);
    }
    assert_true(stats_of(memory).slab_bytes >= 6 << 20);
    for (int i = 0; i < COUNT; i++) {
        memory_give(memory, &blocks[i]);
    }
    memory_trim(memory, clock_now_ns() + NS_PER_S);
    assert_int_equal(stats_of(memory).slab_bytes, 1 << 20);
    assert_int_equal(stats_of(memory).block_count, 0);
}

static void a_shared_slab_is_kept_for_a_while_after_its_last_use(void **state)
{
    struct memory *memory = *state;
    struct memory_block blocks[40];
    for (int i = 0; i < 40; i++) {
        blocks[i] = (struct memory_block){0};
        assert_int_equal(memory_take(memory, 60000, &blocks[i], NULL), STATUS_OK);
    }
    const uint64_t whole = stats_of(memory).slab_bytes;
    (void)nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL); /* twice keep_ms */
    const uint64_t used_ns = clock_now_ns();
    for (int i = 0; i < 40; i++) {
        memory_give(memory, &blocks[i]);
    }
    memory_trim(memory, used_ns + 5 * NS_PER_MS);
    assert_int_equal(stats_of(memory).slab_bytes, whole);
}

static void freed_halves_join_again(void **state)
{
    (void)state;
    enum {
        BLOCKS = 64
    };
    struct buddy *buddy = buddy_create(BLOCKS * BUDDY_MIN_BYTES);
    size_t offsets[BLOCKS];
    size_t whole;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            assert_true(buddy_take(buddy, BUDDY_MIN_BYTES, &offsets[i]));
        }
        assert_false(buddy_take(buddy, 1, &whole));
        for (int i = 0; i < BLOCKS; i++) { /* in an order in which neighbours merge late */
            buddy_give(buddy, offsets[(i * 37 + round) % BLOCKS]);
        }
        assert_true(buddy_unused(buddy));
        assert_true(buddy_take(buddy, BLOCKS * BUDDY_MIN_BYTES, &whole));
        assert_int_equal(whole, 0);
        assert_false(buddy_take(buddy, BUDDY_MIN_BYTES, &whole));
        buddy_give(buddy, 0);
        assert_false(buddy_take(buddy, BLOCKS * BUDDY_MIN_BYTES + 1, &whole));
    }
    buddy_destroy(buddy);
}

enum {
    THREADS = 4,
    ROUNDS = 4000,
    HELD = 16
};

/* Fill every block with a mark of the thread, and check that it is unchanged later. */
static void *take_and_give(void *argument)
{
    struct memory *memory = argument;
    struct memory_block held[HELD] = {{0}};
    size_t marks[HELD] = {0};
    unsigned seed = (unsigned)(uintptr_t)&held;
    uintptr_t failed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        seed = seed * 1664525 + 1013904223;
        size_t slot = seed >> 28;
        if (held[slot].slab != NULL) {
            const size_t *first = (const size_t *)bytes_of(&held[slot]);
            failed |= first[0] != marks[slot];
            memory_release(memory, held[slot].bytes);
            memory_give(memory, &held[slot]);
        }
        size_t bytes = 8 + (seed >> 8) % (round % 64 == 0 ? 300000 : 20000);
        struct memory_block block = {0};
        failed |= memory_take(memory, bytes, &block, NULL) != STATUS_OK;
        failed |= memory_reserve(memory, 0, block.bytes, NULL) != STATUS_OK;
        marks[slot] = (size_t)seed ^ (uintptr_t)&held;
        ((size_t *)bytes_of(&block))[0] = marks[slot];
        held[slot] = block;
        if (round % 500 == 0) {
            memory_trim(memory, clock_now_ns());
        }
    }
    for (size_t slot = 0; slot < HELD; slot++) {
        memory_release(memory, held[slot].bytes);
        memory_give(memory, &held[slot]);
    }
    return (void *)failed;
}

static void threads_never_share_a_block(void **state)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, *state), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(stats_of(*state).block_count, 0);
    assert_int_equal(stats_of(*state).reserved_bytes, 0);
}

/* The linker passes memory.c's calls of these functions to the wrappers. */
void __real_slab_destroy(struct slab *slab);
void __wrap_slab_destroy(struct slab *slab);
bool __real_slab_extend(struct slab *slab, size_t bytes);
bool __wrap_slab_extend(struct slab *slab, size_t bytes);

static atomic_bool unmappings_count; /* whether unmappings are counted */
static pthread_t unmapper;
static atomic_int unmapper_id;
static sem_t unmapped;

void __wrap_slab_destroy(struct slab *slab)
{
    __real_slab_destroy(slab);
    if (slab != NULL && atomic_load(&unmappings_count)) {
        unmapper = pthread_self();
        atomic_store(&unmapper_id, (int)gettid());
        assert_int_equal(sem_post(&unmapped), 0);
    }
}

static void wait_until_unmapped(void)
{
    while (sem_wait(&unmapped) != 0) {
    }
    assert_false(pthread_equal(unmapper, pthread_self()));
}

/* Wait until the unmapper sleeps. */
static void wait_until_unmapper_sleeps(void)
{
    char path[64];
    char state = 'R';
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(&unmapper_id));
    while (state != 'S') {
        FILE *stat = fopen(path, "r");
        assert_non_null(stat);
        assert_int_equal(fscanf(stat, "%*d (%*[^)]) %c", &state), 1);
        (void)fclose(stat);
    }
}

static void slabs_are_unmapped_by_a_thread_of_their_own(void **state)
{
    struct memory *memory = *state;
    struct memory_block block = {0};
    assert_int_equal(sem_init(&unmapped, 0, 0), 0);
    atomic_store(&unmappings_count, true);

    assert_int_equal(memory_take(memory, 40 << 20, &block, NULL), STATUS_OK);
    memory_give(memory, &block);
    /* The first slab is unmapped, because the budget has no room for both. */
    assert_int_equal(memory_take(memory, 60 << 20, &block, NULL), STATUS_OK);
    wait_until_unmapped();
    wait_until_unmapper_sleeps();

    memory_give(memory, &block);
    memory_trim(memory, clock_now_ns() + NS_PER_S); /* after the keep time */
    wait_until_unmapped();
    assert_int_equal(stats_of(memory).slab_bytes, 0);
    atomic_store(&unmappings_count, false);
    assert_int_equal(sem_destroy(&unmapped), 0);
}

/* A GPU, and the number of slabs requested from it. */
static struct {
    atomic_bool open;
    atomic_bool refuses;
    atomic_uint asked;
    atomic_size_t bytes; /* pinned */
    struct slab *_Atomic pinned[4];
} gpu;

bool __wrap_slab_can_pin(void);
bool __wrap_slab_can_pin(void)
{
    return atomic_load(&gpu.open);
}

size_t __wrap_slab_pinned_bytes(void);
size_t __wrap_slab_pinned_bytes(void)
{
    return atomic_load(&gpu.bytes);
}

bool __wrap_slab_is_pinned(const struct slab *slab);
bool __wrap_slab_is_pinned(const struct slab *slab)
{
    for (size_t i = 0; i < ARRAY_COUNT(gpu.pinned); i++) {
        if (atomic_load(&gpu.pinned[i]) == slab) {
            return true;
        }
    }
    return false;
}

struct slab *__wrap_slab_create_pinned(size_t bytes);
struct slab *__wrap_slab_create_pinned(size_t bytes)
{
    const unsigned number = atomic_load(&gpu.asked);
    struct slab *slab = atomic_load(&gpu.refuses) ? NULL : slab_create(bytes);
    if (slab != NULL && number < ARRAY_COUNT(gpu.pinned)) {
        atomic_store(&gpu.pinned[number], slab);
        (void)atomic_fetch_add(&gpu.bytes, bytes);
    }
    (void)atomic_fetch_add(&gpu.asked, 1);
    return slab;
}

/* Wait until the GPU was asked `asked` times, and all slabs together have `slab_bytes`
 * bytes. */
static void await_asked(struct memory *memory, unsigned asked, uint64_t slab_bytes)
{
    const uint64_t until_ns = clock_now_ns() + 20 * NS_PER_S;
    while (atomic_load(&gpu.asked) != asked || stats_of(memory).slab_bytes != slab_bytes) {
        assert_true(clock_now_ns() < until_ns);
        (void)usleep(100);
    }
}

/* Take a block of this size and give it back. Returns its slab; *held: bytes of all slabs
 * meanwhile. */
static struct slab *use_block(struct memory *memory, size_t bytes, uint64_t *held)
{
    struct memory_block block = {0};
    assert_int_equal(memory_take(memory, bytes, &block, NULL), STATUS_OK);
    struct slab *slab = block.slab;
    *held = stats_of(memory).slab_bytes;
    memory_give(memory, &block);
    return slab;
}

static void with_a_gpu_a_slab_that_was_used_is_pinned_for_the_next_tensor(void **state)
{
    struct memory *memory = NULL;
    struct memory_block block = {0};
    uint64_t held = 0;
    uint64_t before = 0;
    (void)state;
    assert_int_equal(memory_create(&small_options, &memory, NULL), STATUS_OK);
    atomic_store(&gpu.open, true);
    assert_false(__wrap_slab_is_pinned(use_block(memory, 5 << 20, &held)));
    await_asked(memory, 1, held);
    assert_int_equal(memory_take(memory, 5 << 20, &block, NULL), STATUS_OK);
    assert_true(__wrap_slab_is_pinned(block.slab));
    assert_int_equal(stats_of(memory).slab_bytes, held);
    assert_true(block.touched >= 5 << 20);
    assert_int_equal(memory_untouch(&block, 0, 5 << 20), 0);
    memory_give(memory, &block);

    /* Half of the budget of 64 MiB stays unpinned. */
    (void)use_block(memory, 30 << 20, &held);
    (void)use_block(memory, 9 << 20, &held);
    await_asked(memory, 2, held);
    assert_true(__wrap_slab_is_pinned(use_block(memory, 9 << 20, &held)));
    assert_false(__wrap_slab_is_pinned(use_block(memory, 30 << 20, &held)));

    atomic_store(&gpu.refuses, true);
    before = held;
    (void)use_block(memory, 7 << 20, &held);
    await_asked(memory, 3, before); /* the slab was freed */
    atomic_store(&gpu.refuses, false);
    (void)use_block(memory, 7 << 20, &held);
    memory_destroy(memory);
    assert_int_equal(atomic_load(&gpu.asked),
                     3); /* a driver that has refused is not asked again */
    atomic_store(&gpu.open, false);
}

/* Write letters whose order depends on their position. */
static void write_text(struct text *text, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        text->bytes[i] = (char)('a' + i % 25);
    }
}

static void a_text_keeps_what_is_in_it_as_it_grows_from_the_heap_into_a_block(void **state)
{
    struct memory *memory = *state;
    struct text text = {.bytes = NULL};
    size_t used = 0;
    for (size_t capacity = 100; capacity <= 30 << 20; capacity = capacity * 3 / 2) {
        assert_true(text_grow(memory, &text, used, capacity));
        assert_int_equal(text.capacity, capacity);
        assert_int_equal(text.block.slab != NULL, capacity >= TEXT_LONG_BYTES);
        write_text(&text, used, capacity);
        used = capacity;
    }
    for (size_t i = 0; i < used; i++) {
        assert_int_equal(text.bytes[i], 'a' + (char)(i % 25));
    }
    assert_int_equal(stats_of(memory).block_count, 1);
    text_free(memory, &text);
    assert_null(text.bytes);
    assert_int_equal(stats_of(memory).block_count, 0);
    text_free(memory, &text); /* no text: the call has no effect */
}

static void a_text_that_cannot_grow_stays_as_it_is(void **state)
{
    struct memory *memory = *state;
    struct text text = {.bytes = NULL};
    assert_true(text_grow(memory, &text, 0, 2 << 20));
    write_text(&text, 0, 2 << 20);
    const char *before = text.bytes;
    assert_false(text_grow(memory, &text, 2 << 20, SIZE_MAX / 2));
    assert_ptr_equal(text.bytes, before);
    assert_int_equal(text.capacity, 2 << 20);
    assert_int_equal(text.bytes[(2 << 20) - 1], 'a' + ((2 << 20) - 1) % 25);
    text_free(memory, &text);
}

static void a_text_that_grows_where_it_is_counts_as_long_as_it_is(void **state)
{
    struct memory *memory = *state;
    struct text text = {.bytes = NULL};
    const uint64_t before = stats_of(memory).slab_bytes;
    assert_true(text_grow(memory, &text, 0, 2 << 20));
    assert_true(text_grow(memory, &text, 0, 9 << 20));
    assert_true(stats_of(memory).slab_bytes >= before + (9 << 20));
    text_free(memory, &text);
    memory_trim(memory, clock_now_ns() + NS_PER_S);
    assert_int_equal(stats_of(memory).slab_bytes, before);
}

static bool slabs_stay_as_they_are;

bool __wrap_slab_extend(struct slab *slab, size_t bytes)
{
    return !slabs_stay_as_they_are && __real_slab_extend(slab, bytes);
}

static void a_text_whose_slab_cannot_grow_is_copied_into_another(void **state)
{
    struct memory *memory = *state;
    struct text text = {.bytes = NULL};
    assert_true(text_grow(memory, &text, 0, 2 << 20));
    write_text(&text, 0, 2 << 20);
    const struct slab *before = text.block.slab;
    slabs_stay_as_they_are = true;
    assert_true(text_grow(memory, &text, 2 << 20, 9 << 20));
    slabs_stay_as_they_are = false;
    assert_ptr_not_equal(text.block.slab, before);
    assert_int_equal(text.bytes[(2 << 20) - 1], 'a' + ((2 << 20) - 1) % 25);
    text_free(memory, &text);
}

static void a_long_text_finds_the_pages_of_the_one_before(void **state)
{
    struct memory *memory = *state;
    struct text text = {.bytes = NULL};
    assert_true(text_grow(memory, &text, 0, 3 << 20));
    text_wrote(&text, 2 << 20);
    text_wrote(&text, 1);
    text_free(memory, &text);
    assert_true(text_grow(memory, &text, 0, 3 << 20));
    assert_int_equal(text.block.touched, 2 << 20);
    text_free(memory, &text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_budget_is_kept_to_the_byte, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refusal_for_want_of_free_memory_is_remembered, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_refusal_presses_no_more_when_its_bytes_are_free_or_were_had, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refused_request_presses_for_what_it_held_as_well,
                                        set_up, tear_down),
        cmocka_unit_test(without_a_first_slab_there_is_no_start),
        cmocka_unit_test_setup_teardown(
            the_first_slab_is_there_before_the_first_block_and_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(slabs_are_unmapped_by_a_thread_of_their_own, set_up,
                                        tear_down),
        cmocka_unit_test(with_a_gpu_a_slab_that_was_used_is_pinned_for_the_next_tensor),
        cmocka_unit_test_setup_teardown(a_request_that_can_never_fit_is_too_large, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            the_refusal_of_a_request_that_never_fits_names_the_part_for_small_requests, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(blocks_of_every_size_are_aligned_and_have_headroom,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(small_blocks_share_a_slab_and_large_ones_do_not, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_large_slab_is_used_again_and_given_back_later, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            the_pages_of_a_large_block_are_made_when_asked_for_and_kept_for_the_next, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            pages_of_any_size_are_given_back_and_nothing_beside_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(idle_slabs_make_room_for_new_ones_within_the_budget,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_shared_slab_is_kept_for_a_while_after_its_last_use,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_text_that_grows_where_it_is_counts_as_long_as_it_is,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(shared_slabs_but_the_first_are_given_back, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_text_keeps_what_is_in_it_as_it_grows_from_the_heap_into_a_block, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(a_text_that_cannot_grow_stays_as_it_is, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_text_whose_slab_cannot_grow_is_copied_into_another,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_long_text_finds_the_pages_of_the_one_before, set_up,
                                        tear_down),
        cmocka_unit_test(freed_halves_join_again),
        cmocka_unit_test_setup_teardown(threads_never_share_a_block, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
