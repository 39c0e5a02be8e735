/* Compares stamps of files, and reads files without blocking. read() reports the end of a
 * pipe both before a writer has opened it and after the writer has closed it. So the end of a
 * pipe is trusted only after a byte, or after poll() has reported POLLHUP. */
#include "server/base/file_watch.h"

#include "proto/byte_size.h"
#include "server/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WAIT_S = 30,
    SIGNAL_MS = 50 /* interval of checks for pending signals */
};

#define LOOK_NS  (250 * NS_PER_MS)
#define RETRY_NS (60 * NS_PER_S)

/* ---- reading ---- */

static enum status failed(struct error *err, int code)
{
    return error_set(err, STATUS_INVALID_FIELD, "%s", strerrordesc_np(code));
}

static enum status too_long(struct error *err, size_t most)
{
    char size[32];
    byte_size_text(most, size, sizeof size);
    return error_set(err, STATUS_INVALID_FIELD, "it has more than %s", size);
}

static bool is_stopped(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

static enum status read_to_end(int fd, bool is_pipe, size_t most, struct file_text *text,
                               struct error *err)
{
    const uint64_t until_ns = clock_now_ns() + WAIT_S * NS_PER_S;
    bool closed = false; /* the writer of the pipe has closed it */
    for (;;) {
        ssize_t got = read(fd, text->bytes + text->count, most + 1 - text->count);
        if (got > 0) {
            text->count += (size_t)got;
            if (text->count > most) {
                return too_long(err, most);
            }
            continue;
        }
        if (got < 0 && errno != EAGAIN && errno != EINTR) {
            return failed(err, errno);
        }
        if (got == 0 && (!is_pipe || closed || text->count > 0)) {
            return STATUS_OK;
        }
        struct pollfd look = {.fd = fd, .events = POLLIN};
        closed = poll(&look, 1, SIGNAL_MS) > 0 && (look.revents & POLLHUP) != 0;
        if (is_stopped()) {
            return error_set(err, STATUS_DRAINING, "told to stop before its end came");
        }
        if (clock_now_ns() >= until_ns) {
            return error_set(
                err, STATUS_INVALID_FIELD,
                "its end did not come within %d s: a pipe needs somebody who writes "
                "to it and closes it; name a file, or start that one first",
                WAIT_S);
        }
    }
}

enum status file_watch_read(const struct file_watch *watch, size_t file, size_t most,
                            struct file_text *text, struct error *err)
{
    if (watch->paths[file][0] == '\0') {
        return STATUS_OK;
    }
    struct file_text found = {.bytes = malloc(most + 1)};
    struct stat info;
    int fd = open(watch->paths[file], O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    enum status status = STATUS_OK;
    if (found.bytes == NULL) {
        status = error_set(err, STATUS_OUT_OF_MEMORY, "no memory to read it");
    } else if (fd < 0 || fstat(fd, &info) != 0) {
        status = failed(err, errno);
    } else if (watch->look_ns != 0 && !S_ISREG(info.st_mode)) {
        status =
            error_set(err, STATUS_INVALID_FIELD,
                      "it is no file any more: put one there; a pipe or a device is read at "
                      "the start alone");
    } else if (S_ISREG(info.st_mode) && (uint64_t)info.st_size > most) {
        status = too_long(err, most);
    } else {
        status = read_to_end(fd, S_ISFIFO(info.st_mode), most, &found, err);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (status != STATUS_OK) {
        file_text_free(&found);
        file_watch_blame(watch, file, err);
        return status;
    }
    found.bytes[found.count] = '\0';
    *text = found;
    return STATUS_OK;
}

void file_text_free(struct file_text *text)
{
    if (text->bytes != NULL) {
        explicit_bzero(text->bytes, text->count);
    }
    free(text->bytes);
    *text = (struct file_text){0};
}

void file_watch_blame(const struct file_watch *watch, size_t file, struct error *err)
{
    char context[512];
    (void)snprintf(context, sizeof context, "%s %.400s", watch->flags[file],
                   watch->paths[file]);
    error_prefix(err, context);
}

/* ---- changes ---- */

static struct stat read_stamp(const char *path)
{
    struct stat info;
    return path[0] != '\0' && stat(path, &info) == 0 ? info : (struct stat){.st_size = 0};
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Returns true if two stamps are equal. The ctime is compared because no program can set it: a
 * file that is written in place may keep its size and its modification time. */
static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           is_same_time(&a->st_mtim, &b->st_mtim) && is_same_time(&a->st_ctim, &b->st_ctim);
}

static bool is_pipe(const struct stat *info)
{
    const mode_t kind = info->st_mode & S_IFMT; /* 0: the file does not exist */
    return kind != 0 && kind != S_IFREG && kind != S_IFDIR;
}

void file_watch_take(struct file_watch *watch)
{
    for (size_t i = 0; i < watch->count; i++) {
        watch->taken[i] = watch->seen[i] = read_stamp(watch->paths[i]);
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
    bool stable = true;
    bool pipes = false; /* one of the files is a pipe, which was read at the start */
    if (now_ns < watch->look_ns) {
        return false;
    }
    for (size_t i = 0; i < watch->count; i++) {
        struct stat now = read_stamp(watch->paths[i]);
        stable = stable && is_same(&now, &watch->seen[i]);
        changed = changed || !is_same(&now, &watch->taken[i]);
        pipes = pipes || (watch->retry_ns == 0 && is_pipe(&watch->taken[i]) && is_pipe(&now));
        watch->seen[i] = now;
    }
    /* clock_now_ns() instead of now_ns, because a tick may be late */
    watch->look_ns = clock_now_ns() + LOOK_NS;
    const bool again = watch->retry_ns != 0 && now_ns >= watch->retry_ns;
    return !pipes && ((changed && stable) || again);
}
