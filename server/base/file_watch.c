/* Stamps of files; see file_watch.h. */
#include "server/base/file_watch.h"

#include "server/base/clock.h"

#define LOOK_NS  (250 * NS_PER_MS)
#define RETRY_NS (60 * NS_PER_S)

static struct stat look_at(const char *path)
{
    struct stat info;
    return path[0] != '\0' && stat(path, &info) == 0 ? info : (struct stat){.st_size = 0};
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static bool is_pipe(const struct stat *info)
{
    const mode_t kind = info->st_mode & S_IFMT; /* 0: there is none */
    return kind != 0 && kind != S_IFREG && kind != S_IFDIR;
}

void file_watch_take(struct file_watch *watch)
{
    for (size_t i = 0; i < watch->count; i++) {
        watch->taken[i] = watch->seen[i] = look_at(watch->paths[i]);
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
    bool pipes = false; /* read at the start */
    if (now_ns < watch->look_ns) {
        return false;
    }
    for (size_t i = 0; i < watch->count; i++) {
        struct stat now = look_at(watch->paths[i]);
        settled = settled && is_same(&now, &watch->seen[i]);
        changed = changed || !is_same(&now, &watch->taken[i]);
        pipes = pipes || (watch->retry_ns == 0 && is_pipe(&watch->taken[i]) && is_pipe(&now));
        watch->seen[i] = now;
    }
    watch->look_ns = clock_now_ns() + LOOK_NS; /* a tick may come late */
    const bool again = watch->retry_ns != 0 && now_ns >= watch->retry_ns;
    return !pipes && ((changed && settled) || again);
}
