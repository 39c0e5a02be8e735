/* Locks, checks, seals. */
#include "server/kernel_cache.h"

#include "server/cache_seal.h"
#include "server/clock.h"
#include "server/machine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOOK_EVERY_NS  (5 * NS_PER_S)
#define SWEEP_EVERY_NS (600 * NS_PER_S)

enum {
    KEPT_BYTES = 64 << 10, /* a small kernel */
    DEAD_SECONDS = 1800    /* no compiler works on a file for so long */
};

static const char pocl_temporary[] = "tempfile_";

/* Remove temporary files that compilers of PoCL have left, who ended before they were done: on
 * a full disk there are some with each attempt. Only those that nobody has changed for so long.
 */
static void sweep(const char *directory, time_t seconds)
{
    DIR *stream = opendir(directory);
    if (stream == NULL) {
        return;
    }
    time_t now = time(NULL);
    const struct dirent *entry;
    while ((entry = readdir(stream)) != NULL) { /* NOLINT(concurrency-mt-unsafe): our own */
        struct stat info;
        if (strncmp(entry->d_name, pocl_temporary, strlen(pocl_temporary)) == 0 &&
            fstatat(dirfd(stream), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode) && now - info.st_mtime >= seconds) {
            (void)unlinkat(dirfd(stream), entry->d_name, 0);
        }
    }
    (void)closedir(stream);
}

/* Take the lock that users of the directory share. Whoever is alone checks the seal first. */
static void lock_and_verify(struct kernel_cache *cache, const char *directory)
{
    char path[4200];
    (void)snprintf(path, sizeof path, "%s/lock", directory);
    cache->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (cache->lock >= 0 && flock(cache->lock, LOCK_EX | LOCK_NB) == 0) {
        cache->removed = cache_seal_verify(cache->pocl);
        sweep(cache->pocl, 0);
    }
    if (cache->lock >= 0) {
        (void)flock(cache->lock, LOCK_SH);
    }
}

bool kernel_cache_is_full(int failure)
{
    return failure == ENOSPC || failure == EDQUOT || failure == EFBIG;
}

int kernel_cache_room(const char *directory, size_t bytes)
{
    char path[4200];
    if (directory[0] == '\0') {
        return 0;
    }
    (void)snprintf(path, sizeof path, "%s/room-XXXXXX", directory);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    (void)unlink(path);
    int failure = posix_fallocate(fd, 0, (off_t)bytes);
    (void)close(fd);
    return failure;
}

/* Where PoCL keeps its cache by itself; false: there is no home. */
static bool usual_directory(char *path, size_t room)
{
    const char *cache = getenv("XDG_CACHE_HOME"); /* NOLINT(concurrency-mt-unsafe) */
    const char *home = getenv("HOME");            /* NOLINT(concurrency-mt-unsafe) */
    if (cache != NULL && cache[0] == '/') {
        return snprintf(path, room, "%s/pocl/kcache", cache) < (int)room;
    }
    return home != NULL && home[0] == '/' &&
           snprintf(path, room, "%s/.cache/pocl/kcache", home) < (int)room;
}

/* Our directory for PoCL: see the header. False: there is none, or its name is too long. */
static bool pocl_directory(const char *directory, char *home, size_t room)
{
    const char *theirs = getenv("POCL_CACHE_DIR"); /* NOLINT(concurrency-mt-unsafe) */
    char usual[4000];
    if (theirs == NULL && directory[0] != '\0') {
        return snprintf(home, room, "%s", directory) < (int)room;
    }
    if (theirs == NULL && usual_directory(usual, sizeof usual)) {
        theirs = usual;
    }
    return theirs != NULL && theirs[0] != '\0' &&
           snprintf(home, room, "%s/tally", theirs) < (int)room;
}

/* PoCL's cache in `home`. Without room it may still load what is there, or get it later. */
static void use_pocl_directory(struct kernel_cache *cache, const char *home)
{
    char path[sizeof cache->pocl];
    if (snprintf(path, sizeof path, "%s/pocl", home) >= (int)sizeof path) {
        return;
    }
    int failure = machine_make_directory(path);
    if (failure != 0 && !kernel_cache_is_full(failure)) {
        return;
    }
    (void)snprintf(cache->pocl, sizeof cache->pocl, "%s", path);
    lock_and_verify(cache, home);
    (void)machine_make_directory(path);      /* the check may have removed it */
    (void)setenv("POCL_CACHE_DIR", path, 1); /* NOLINT(concurrency-mt-unsafe) */
}

int kernel_cache_open(struct kernel_cache *cache, const char *directory)
{
    *cache = (struct kernel_cache){.lock = -1};
    char home[sizeof cache->pocl];
    int failure = directory[0] == '\0' ? 0 : machine_make_directory(directory);
    if (failure == 0) {
        failure = kernel_cache_room(directory, KEPT_BYTES);
    }
    bool usable = failure == 0 || kernel_cache_is_full(failure);
    if (pocl_directory(usable ? directory : "", home, sizeof home)) {
        use_pocl_directory(cache, home);
    }
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
    if (cache->pocl[0] != '\0' && now_ns >= cache->sweep_ns) {
        sweep(cache->pocl, DEAD_SECONDS);
        cache->sweep_ns = now_ns + SWEEP_EVERY_NS;
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
