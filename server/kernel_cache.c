/* Locks, checks, seals. */
#include "server/kernel_cache.h"

#include "server/cache_seal.h"
#include "server/clock.h"
#include "server/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#define LOOK_EVERY_NS (5 * NS_PER_S)

/* Take the lock that users of the directory share. Whoever is alone checks the seal first. */
static void lock_and_verify(struct kernel_cache *cache, const char *directory)
{
    char path[4200];
    (void)snprintf(path, sizeof path, "%s/lock", directory);
    cache->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (cache->lock >= 0 && flock(cache->lock, LOCK_EX | LOCK_NB) == 0) {
        cache->removed = cache_seal_verify(cache->pocl);
    }
    if (cache->lock >= 0) {
        (void)flock(cache->lock, LOCK_SH);
    }
}

int kernel_cache_open(struct kernel_cache *cache, const char *directory)
{
    *cache = (struct kernel_cache){.lock = -1};
    const char *theirs = getenv("POCL_CACHE_DIR"); /* NOLINT(concurrency-mt-unsafe) */
    if (directory[0] == '\0') {
        return 0;
    }
    if (theirs != NULL) {
        return machine_make_directory(directory);
    }
    char path[sizeof cache->pocl];
    int written = snprintf(path, sizeof path, "%s/pocl", directory);
    if (written < 0 || (size_t)written >= sizeof path) {
        return ENAMETOOLONG;
    }
    int failure = machine_make_directory(path);
    if (failure != 0) {
        return failure;
    }
    (void)snprintf(cache->pocl, sizeof cache->pocl, "%s", path);
    lock_and_verify(cache, directory);
    failure = machine_make_directory(path);  /* the check may have removed it */
    (void)setenv("POCL_CACHE_DIR", path, 0); /* NOLINT(concurrency-mt-unsafe) */
    return failure;
}

static void seal_if_changed(struct kernel_cache *cache)
{
    if (cache->pocl[0] == '\0') {
        return;
    }
    uint64_t stamp = cache_seal_stamp(cache->pocl);
    if (stamp != cache->stamp && cache_seal_write(cache->pocl)) {
        cache->stamp = stamp;
    }
}

void kernel_cache_tick(struct kernel_cache *cache, uint64_t now_ns)
{
    if (now_ns >= cache->look_ns) {
        seal_if_changed(cache);
        cache->look_ns = now_ns + LOOK_EVERY_NS;
    }
}

void kernel_cache_close(struct kernel_cache *cache)
{
    seal_if_changed(cache);
    if (cache->lock >= 0) {
        (void)close(cache->lock);
        cache->lock = -1;
    }
}
