/* The maps and the SIGBUS handler; see shm_map.h. The handler may run at any time in any
 * thread, also while other threads create and destroy maps. The handler reads a fixed table
 * without a lock. When a thread faults in a map, the table entry of this map cannot change,
 * because the thread uses the map. */
#include "server/memory/shm_map.h"

#include "server/base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Maximum size of the address ranges of all maps together, in bytes: far more than the memory,
 * far less than the address space. */
#define SHM_MAP_BYTES_MAX (UINT64_C(16) << 40)

/* The record of a map for the handler. begin is set last and cleared first; writers hold the
 * lock. */
struct entry {
    atomic_uintptr_t begin; /* 0: free */
    atomic_size_t bytes;
    atomic_bool broken;
};

struct shm_map {
    struct entry *entry; /* entry of the table; only this map uses it */
    struct slab *slab;   /* owned: slab over the pages */
    unsigned char *pages;
    size_t bytes;
    size_t offset;
};

static struct entry table[SHM_MAPS_MAX];
static struct sigaction previous;
static const struct sigaction by_default = {.sa_handler = SIG_DFL};
/* the previous handler was called: use the default handler next */
static atomic_bool passed_on;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards writes to the table */
static uint64_t mapped_bytes; /* bytes of all maps in the table; guarded by the lock */

/* ---- the handler: only atomics, sysconf, mmap, sigaction and raise ---- */

/* Returns the end of the map that contains the address; 0: no map contains it. */
static uintptr_t end_of_map(uintptr_t address, struct entry **found)
{
    for (size_t i = 0; i < SHM_MAPS_MAX; i++) {
        uintptr_t begin = atomic_load(&table[i].begin);
        size_t bytes = atomic_load(&table[i].bytes);
        /* The map that the thread uses cannot change. So if an entry changed between the two
         * loads, it is the entry of another map. */
        if (begin != 0 && address >= begin && address - begin < bytes &&
            atomic_load(&table[i].begin) == begin) {
            *found = &table[i];
            return begin + bytes;
        }
    }
    return 0;
}

/* Map zero pages from the page of the address to the end of its map. Returns false if no map
 * contains the address. */
static bool map_zeroes(uintptr_t address)
{
    struct entry *entry = NULL;
    uintptr_t end = end_of_map(address, &entry);
    if (end == 0) {
        return false;
    }
    atomic_store(&entry->broken, true);
    uintptr_t page = address - address % slab_page_bytes();
    return mmap((void *)page, end - page, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    int saved = errno;
    bool missing = info->si_code == BUS_ADRERR;
    if (!missing || !map_zeroes((uintptr_t)info->si_addr)) {
        (void)sigaction(number, atomic_exchange(&passed_on, true) ? &by_default : &previous,
                        NULL);
        if (info->si_code <= 0) {
            /* another process has sent the signal, so no fault will repeat it */
            (void)raise(number);
        }
    }
    errno = saved;
}

/* Install the handler if it is not installed. A driver may have replaced it since the last map
 * was made. Thread: a holder of the lock. */
static void install_handler(void)
{
    struct sigaction action;
    if (sigaction(SIGBUS, NULL, &action) == 0 && action.sa_sigaction == on_bus_error) {
        return;
    }
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGBUS, &action, &previous);
}

/* ---- maps ---- */

/* Add the map to the table. Returns false if there is no room. */
static bool add_to_table(struct shm_map *map)
{
    HOLD_LOCK(&lock);
    install_handler();
    bool fits = map->bytes <= SHM_MAP_BYTES_MAX - mapped_bytes;
    for (size_t i = 0; fits && map->entry == NULL && i < SHM_MAPS_MAX; i++) {
        if (atomic_load(&table[i].begin) == 0) {
            map->entry = &table[i];
            mapped_bytes += map->bytes;
            atomic_store(&table[i].broken, false);
            atomic_store(&table[i].bytes, map->bytes);
            atomic_store(&table[i].begin, (uintptr_t)map->pages);
        }
    }
    return map->entry != NULL;
}

struct shm_map *shm_map_create(int fd, uint64_t offset, uint64_t bytes)
{
    const size_t page = slab_page_bytes();
    uint64_t before = offset % page;
    if (bytes == 0 || bytes > SHM_MAP_BYTES_MAX) {
        return NULL;
    }
    size_t whole = (size_t)((before + bytes + page - 1) / page * page);
    struct shm_map *map = calloc(1, sizeof *map);
    if (map == NULL) {
        return NULL;
    }
    map->bytes = whole;
    map->offset = (size_t)before;
    map->pages =
        mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(offset - before));
    map->slab = map->pages == MAP_FAILED ? NULL : slab_adopt(map->pages, whole);
    if (map->slab == NULL || !add_to_table(map)) {
        shm_map_destroy(map);
        return NULL;
    }
    return map;
}

void shm_map_destroy(struct shm_map *map)
{
    if (map == NULL) {
        return;
    }
    slab_destroy(map->slab);
    if (map->entry != NULL) {
        MUST(pthread_mutex_lock(&lock));
        atomic_store(&map->entry->begin, 0);
        mapped_bytes -= map->bytes;
        MUST(pthread_mutex_unlock(&lock));
    }
    if (map->pages != MAP_FAILED) {
        (void)munmap(map->pages, map->bytes);
    }
    free(map);
}

struct tensor_place shm_map_place(const struct shm_map *map)
{
    return (struct tensor_place){map->slab, map->offset};
}

bool shm_map_broken(const struct shm_map *map)
{
    return atomic_load(&map->entry->broken);
}
