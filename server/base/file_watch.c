/* Stamps of files; see file_watch.h. */
#include "server/base/file_watch.h"

#include <sys/stat.h>

static struct file_stamp stamp_of(const char *path)
{
    struct file_stamp stamp = {.bytes = 0};
    struct stat info;
    if (path[0] != '\0' && stat(path, &info) == 0) {
        stamp.device = info.st_dev;
        stamp.inode = info.st_ino;
        stamp.bytes = info.st_size;
        stamp.changed = info.st_mtim;
    }
    return stamp;
}

static bool same(const struct file_stamp *a, const struct file_stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
           a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

void file_watch_take(struct file_watch *files, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        files[i].taken = files[i].seen = stamp_of(files[i].path);
    }
}

bool file_watch_changed(struct file_watch *files, size_t count)
{
    bool changed = false;
    bool settled = true;
    for (size_t i = 0; i < count; i++) {
        struct file_stamp now = stamp_of(files[i].path);
        settled = settled && same(&now, &files[i].seen);
        changed = changed || !same(&now, &files[i].taken);
        files[i].seen = now;
    }
    return changed && settled;
}
