/* Stamps of files; see file_watch.h. */
#include "server/base/file_watch.h"

#include "server/base/clock.h"

#include <sys/stat.h>

#define LOOK_NS  (250 * NS_PER_MS)
#define RETRY_NS (60 * NS_PER_S)

static struct file_stamp stamp_of(const char *path)
{
    struct file_stamp stamp = {.bytes = 0};
    struct stat info;
    if (path[0] != '\0' && stat(path, &info) == 0) {
        stamp.device = info.st_dev;
        stamp.inode = info.st_ino;
        stamp.bytes = info.st_size;
        stamp.changed = info.st_mtim;
        stamp.is_pipe = !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
    }
    return stamp;
}

static bool stamps_equal(const struct file_stamp *a, const struct file_stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
           a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

void file_watch_take(struct file_watch *watch)
{
    for (size_t i = 0; i < watch->count; i++) {
        watch->taken[i] = watch->seen[i] = stamp_of(watch->paths[i]);
    }
    watch->retry_ns = 0;
}

void file_watch_failed(struct file_watch *watch, uint64_t now_ns)
{
    watch->retry_ns = now_ns + RETRY_NS;
}

bool file_watch_due(struct file_watch *watch, uint64_t now_ns)
{
    bool changed = false;
    bool settled = true;
    bool pipes = false;
    if (now_ns < watch->look_ns) {
        return false;
    }
    for (size_t i = 0; i < watch->count; i++) {
        struct file_stamp now = stamp_of(watch->paths[i]);
        settled = settled && stamps_equal(&now, &watch->seen[i]);
        changed = changed || !stamps_equal(&now, &watch->taken[i]);
        pipes = pipes || now.is_pipe;
        watch->seen[i] = now;
    }
    watch->look_ns = clock_now_ns() + LOOK_NS; /* a tick may come late */
    const bool again = watch->retry_ns != 0 && now_ns >= watch->retry_ns;
    return !pipes && ((changed && settled) || again);
}
