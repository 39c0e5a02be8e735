/* The table of registered regions and the copies from and to regions; see shm.h. registry->lock
 * guards the table. A region is immutable except for its count of users. */
#include "server/memory/shm.h"

#include "server/base/machine.h"
#include "server/base/thread.h"
#include "server/memory/shm_map.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    COPY_AT_ONCE = 1 << 20, /* bytes copied between two steps */
    FREE_AT_ONCE = 8 << 20  /* maximum bytes of objects that the calling thread frees; 2 ms */
};

struct shm_region {
    atomic_uint users; /* number of references; the table holds one of them */
    int fd;            /* owned */
    dev_t device;      /* with inode: identity of the object; only set for zero copy */
    ino_t inode;
    struct shm_map *map; /* owned; NULL: windows are copied */
    struct kserve_shm_region info;
    struct shm_region *next; /* link of a list of regions to free */
};

struct shm_registry {
    struct shm_options options;
    pthread_mutex_t lock;         /* guards the fields below */
    size_t count;                 /* number of regions */
    struct shm_region *regions[]; /* max_regions entries; the table has a reference to each */
};

enum status shm_create(const struct shm_options *options, struct shm_registry **out,
                       struct error *err)
{
    struct shm_registry *registry =
        calloc(1, sizeof *registry + options->max_regions * sizeof(struct shm_region *));
    if (registry == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the shared memory table");
    }
    MUST(pthread_mutex_init(&registry->lock, NULL));
    registry->options = *options;
    *out = registry;
    return STATUS_OK;
}

void shm_destroy(struct shm_registry *registry)
{
    if (registry == NULL) {
        return;
    }
    (void)shm_unregister(registry, NULL);
    MUST(pthread_mutex_destroy(&registry->lock));
    free(registry);
}

/* A key matches ^/?[A-Za-z0-9._-]{1,254}$. It must not name a dot file (so "." and ".." are
 * excluded) or a semaphore. */
static enum status check_key(const struct shm_registry *registry, const char *key,
                             struct error *err)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const char *name = key[0] == '/' ? key + 1 : key;
    size_t length = strlen(name);
    if (length == 0 || length > 254 || strspn(name, allowed) != length || name[0] == '.' ||
        strncmp(name, "sem.", 4) == 0) {
        return error_set_field(
            err, STATUS_SHM_ERROR, "key",
            "not the name of a shared memory object: expected 1 to 254 of "
            "A-Z a-z 0-9 . _ - after an optional slash, not beginning with a "
            "dot or with \"sem.\"");
    }
    const char *prefix = registry->options.key_prefix;
    if (prefix != NULL && strncmp(name, prefix, strlen(prefix)) != 0) {
        return error_set_field(err, STATUS_FORBIDDEN, "key",
                               "this server takes only keys that begin with its "
                               "--shm-key-prefix: ask the operator for it");
    }
    return STATUS_OK;
}

static enum status open_error(int code, struct error *err)
{
    switch (code) {
    case ENOENT:
        return error_set_field(
            err, STATUS_NOT_FOUND, "key",
            "no shared memory object of that name is visible to the server; "
            "in a container, share the IPC namespace (--ipc=host) or /dev/shm");
    case EACCES:
    case EPERM:
    case ELOOP:
        return error_set_field(err, STATUS_FORBIDDEN, "key",
                               "the server may not open that shared memory object for reading "
                               "and writing: run client and server as one user");
    case EMFILE:
    case ENFILE:
        return error_set(err, STATUS_OUT_OF_MEMORY,
                         "the server has no file descriptor left for another region");
    default:
        return error_set_field(err, STATUS_SHM_ERROR, "key",
                               "the shared memory object cannot be opened");
    }
}

/* Open the object, which must be a regular file of the server's user and contain the region. */
static enum status open_object(const struct shm_registry *registry, struct shm_region *entry,
                               struct error *err)
{
    const struct kserve_shm_region *region = &entry->info;
    struct stat info;
    /* shm_open() itself adds O_NOFOLLOW and O_CLOEXEC; with O_NONBLOCK it never waits for a
     * FIFO. */
    entry->fd = shm_open(region->key, O_RDWR | O_NONBLOCK, 0);
    if (entry->fd < 0) {
        return open_error(errno, err);
    }
    if (fstat(entry->fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        return error_set_field(err, STATUS_SHM_ERROR, "key", "not a shared memory object");
    }
    if (info.st_uid != geteuid()) {
        return error_set_field(err, STATUS_FORBIDDEN, "key",
                               "the shared memory object belongs to another user");
    }
    uint64_t size = info.st_size > 0 ? (uint64_t)info.st_size : 0;
    if (region->offset > size || region->byte_size > size - region->offset) {
        return error_set_field(err, STATUS_SHM_ERROR, "byte_size",
                               "offset %" PRIu64 " and byte_size %" PRIu64
                               " reach beyond the object, which has %" PRIu64 " bytes",
                               region->offset, region->byte_size, size);
    }
    if (registry->options.zero_copy) {
        entry->device = info.st_dev;
        entry->inode = info.st_ino;
        entry->map = shm_map_create(entry->fd, region->offset, region->byte_size);
    }
    return STATUS_OK;
}

/* Returns the index of the name, or count. Thread: a holder of the lock. */
static size_t find_region(const struct shm_registry *registry, const char *name)
{
    size_t i = 0;
    while (i < registry->count && strcmp(registry->regions[i]->info.name, name) != 0) {
        i++;
    }
    return i;
}

static enum status insert_region(struct shm_registry *registry, struct shm_region *region,
                                 struct error *err)
{
    HOLD_LOCK(&registry->lock);
    if (find_region(registry, region->info.name) < registry->count) {
        return error_set(err, STATUS_SHM_ERROR,
                         "a region of that name is already registered: unregister it first");
    }
    if (registry->count >= registry->options.max_regions) {
        return error_set(err, STATUS_SHM_ERROR,
                         "%zu regions are registered, the most this server keeps: unregister "
                         "some first",
                         registry->count);
    }
    registry->regions[registry->count++] = region;
    return STATUS_OK;
}

enum status shm_register(struct shm_registry *registry, const struct kserve_shm_region *region,
                         bool local, struct error *err)
{
    if (!local) {
        return error_set(err, STATUS_FORBIDDEN,
                         "shared memory is registered from this machine only: over loopback or "
                         "a Unix socket, and by no page in a browser");
    }
    TRY(check_key(registry, region->key, err));
    if (region->byte_size == 0) {
        return error_set_field(err, STATUS_SHM_ERROR, "byte_size",
                               "a region must have at least one byte");
    }
    struct shm_region *entry = calloc(1, sizeof *entry);
    if (entry == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for another region");
    }
    atomic_init(&entry->users, 1);
    entry->info = *region;
    enum status status = open_object(registry, entry, err);
    if (status == STATUS_OK) {
        status = insert_region(registry, entry, err);
    }
    if (status != STATUS_OK) {
        shm_release(entry);
    }
    return status;
}

/* ---- freeing regions ---- */

/* Free a list of regions without references. */
static void free_regions(struct shm_region *first)
{
    while (first != NULL) {
        struct shm_region *next = first->next;
        shm_map_destroy(first->map);
        if (first->fd >= 0) {
            (void)close(first->fd);
        }
        free(first);
        first = next;
    }
}

static void *free_thread(void *arg)
{
    (void)pthread_setname_np(pthread_self(), "tally-shm");
    machine_step_back(MACHINE_BEHIND_HTTP);
    free_regions(arg);
    return NULL;
}

/* The last close of an unlinked object frees its pages, which takes a quarter of a second for
 * each GiB; an unmap takes a tenth of this time. Returns true if an HTTP thread must not wait
 * for this. */
static bool take_long_to_free(const struct shm_region *first)
{
    uint64_t blocks = 0;
    for (; first != NULL; first = first->next) {
        struct stat info;
        if (fstat(first->fd, &info) == 0 && (info.st_nlink == 0 || first->map != NULL)) {
            blocks += (uint64_t)info.st_blocks;
        }
    }
    return blocks > FREE_AT_ONCE / S_BLKSIZE;
}

/* Free a list of regions, in the calling thread, or in a temporary thread if this takes long.
 * NULL is fine. */
static void free_or_defer(struct shm_region *first)
{
    struct error ignored = ERROR_INIT;
    pthread_t thread;
    if (take_long_to_free(first) &&
        thread_start(&thread, free_thread, first, "shared memory", &ignored) == STATUS_OK) {
        MUST(pthread_detach(thread));
    } else {
        free_regions(first);
    }
}

/* Release a reference. Returns true if it was the last one. */
static bool drop_reference(struct shm_region *region)
{
    return atomic_fetch_sub(&region->users, 1) == 1;
}

void shm_release(struct shm_region *region)
{
    if (region != NULL && drop_reference(region)) {
        free_or_defer(region);
    }
}

struct shm_amount shm_unregister(struct shm_registry *registry, const char *name)
{
    struct shm_amount amount = {.regions = 0};
    struct shm_region *unused = NULL;
    MUST(pthread_mutex_lock(&registry->lock));
    size_t row = name == NULL ? 0 : find_region(registry, name);
    while (row < registry->count) {
        struct shm_region *region = registry->regions[row];
        registry->count--;
        memmove(&registry->regions[row], &registry->regions[row + 1],
                (registry->count - row) * sizeof(struct shm_region *));
        amount.regions++;
        amount.bytes += region->info.byte_size;
        if (drop_reference(region)) {
            region->next = unused;
            unused = region;
        }
        row = name == NULL ? 0 : registry->count;
    }
    MUST(pthread_mutex_unlock(&registry->lock));
    free_or_defer(unused);
    return amount;
}

/* Check that the region contains the window, and that the object still has the bytes of the
 * window. */
static enum status check_window(const struct shm_region *region,
                                const struct shm_window *window, struct error *err)
{
    uint64_t size = region->info.byte_size;
    if (window->offset >= size || window->bytes > size - window->offset) {
        return error_set_field(err, STATUS_SHM_ERROR, "shared_memory_byte_size",
                               "shared memory offset %" PRIu64 " and byte size %" PRIu64
                               " reach beyond the registered region, which has %" PRIu64
                               " bytes",
                               window->offset, window->bytes, size);
    }
    struct stat info;
    uint64_t end = region->info.offset + window->offset + window->bytes;
    if (fstat(region->fd, &info) != 0 || info.st_size < 0 || (uint64_t)info.st_size < end) {
        return error_set_field(err, STATUS_SHM_ERROR, "shared_memory_region",
                               "the shared memory object has become smaller than the region "
                               "that was registered");
    }
    return STATUS_OK;
}

enum status shm_acquire(struct shm_registry *registry, const struct shm_window *window,
                        struct shm_region **out, struct error *err)
{
    struct shm_region *region = NULL;
    MUST(pthread_mutex_lock(&registry->lock));
    size_t row = find_region(registry, window->region);
    if (row < registry->count) {
        region = registry->regions[row];
        atomic_fetch_add(&region->users, 1);
    }
    MUST(pthread_mutex_unlock(&registry->lock));
    if (region == NULL) {
        return error_set_field(err, STATUS_NOT_FOUND, "shared_memory_region",
                               "no shared memory region of that name is registered");
    }
    enum status status = check_window(region, window, err);
    if (status != STATUS_OK) {
        shm_release(region);
        return status;
    }
    *out = region;
    return STATUS_OK;
}

void shm_release_all(struct shm_tensor shm[SHM_USES])
{
    for (int i = 0; i < SHM_USES; i++) {
        shm_release(shm[i].region);
        shm[i] = (struct shm_tensor){.region = NULL};
    }
}

struct tensor_place shm_place(const struct shm_region *region, const struct shm_window *window,
                              size_t align)
{
    const struct tensor_place nowhere = {.slab = NULL};
    if (region->map == NULL || shm_map_broken(region->map)) {
        return nowhere;
    }
    struct tensor_place place = shm_map_place(region->map);
    place.offset += (size_t)window->offset;
    return place.offset % align == 0 ? place : nowhere;
}

enum shm_overlap shm_overlap(const struct shm_region *a, const struct shm_window *a_window,
                             uint64_t a_bytes, const struct shm_region *b,
                             const struct shm_window *b_window, uint64_t b_bytes)
{
    /* no overflow: both sums were checked against the size of the object */
    uint64_t a_begin = a->info.offset + a_window->offset;
    uint64_t b_begin = b->info.offset + b_window->offset;
    if (a->device != b->device || a->inode != b->inode || a_begin + a_bytes <= b_begin ||
        b_begin + b_bytes <= a_begin) {
        return SHM_APART;
    }
    return a_begin == b_begin ? SHM_SAME : SHM_OVERLAP;
}

enum status shm_verify(const struct shm_region *region, const struct shm_window *window,
                       struct error *err)
{
    if (region->map != NULL && shm_map_broken(region->map)) {
        return error_set(err, STATUS_SHM_ERROR,
                         "pages of the shared memory object were missing while a device worked "
                         "on it: it became smaller, or /dev/shm is full; register it again");
    }
    return check_window(region, window, err);
}

/* A copy from the window to `to`, or from `from` to the window; the other pointer is NULL. */
struct transfer {
    char *to;
    const char *from;
    uint64_t bytes;
};

static enum status copy_window(const struct shm_region *region, const struct shm_window *window,
                               const struct transfer *transfer, const struct parallel *parallel,
                               struct error *err)
{
    const uint64_t begin = region->info.offset + window->offset;
    uint64_t done = 0;
    if (transfer->bytes > window->bytes) {
        return error_set(err, STATUS_SHM_ERROR,
                         "%" PRIu64 " bytes do not fit into a shared memory window of "
                         "%" PRIu64 " bytes: make the output region larger",
                         transfer->bytes, window->bytes);
    }
    TRY(check_window(region, window, err)); /* pwrite would extend a shrunk object */
    while (done < transfer->bytes) {
        if (done > 0 && !parallel_step(parallel)) {
            return parallel_given_up(err);
        }
        const size_t some = smaller_of(transfer->bytes - done, COPY_AT_ONCE);
        const off_t at = (off_t)(begin + done);
        ssize_t moved = transfer->to != NULL
                            ? pread(region->fd, transfer->to + done, some, at)
                            : pwrite(region->fd, transfer->from + done, some, at);
        if (moved < 0 && errno == EINTR) {
            continue;
        }
        if (moved <= 0) {
            const char *why = moved == 0        ? "has it become smaller?"
                              : errno == ENOSPC ? "/dev/shm is full; make room there"
                                                : strerrordesc_np(errno);
            return error_set(err, STATUS_SHM_ERROR,
                             "the shared memory object could not be %s beyond byte %" PRIu64
                             " of the window: %s",
                             transfer->to != NULL ? "read" : "written", done, why);
        }
        done += (uint64_t)moved;
    }
    return STATUS_OK;
}

enum status shm_read(const struct shm_region *region, const struct shm_window *window, void *to,
                     uint64_t bytes, const struct parallel *parallel, struct error *err)
{
    const struct transfer transfer = {.to = to, .bytes = bytes};
    return copy_window(region, window, &transfer, parallel, err);
}

enum status shm_write(const struct shm_region *region, const struct shm_window *window,
                      const void *from, uint64_t bytes, const struct parallel *parallel,
                      struct error *err)
{
    const struct transfer transfer = {.from = from, .bytes = bytes};
    return copy_window(region, window, &transfer, parallel, err);
}

size_t shm_list(struct shm_registry *registry, const char *name, struct kserve_shm_region *out,
                size_t room)
{
    size_t found = 0;
    HOLD_LOCK(&registry->lock);
    for (size_t i = 0; i < registry->count; i++) {
        const struct kserve_shm_region *info = &registry->regions[i]->info;
        if (name != NULL && strcmp(info->name, name) != 0) {
            continue;
        }
        if (found < room) {
            out[found] = *info;
        }
        found++;
    }
    return found;
}
