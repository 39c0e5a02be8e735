/* Reads without blocking; see file_read.h. A pipe that nobody has opened for writing yet says
 * that it is at its end, like one that was written to and closed, so the end of a pipe counts
 * only behind a byte, or where poll() saw a writer go. */
#include "server/base/file_read.h"

#include "proto/byte_size.h"
#include "server/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WAIT_S = 30,
    LOOK_MS = 50 /* how often, whether a signal came */
};

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

/* Read to the end. err as file_read(), without what opening it says */
static enum status read_to_end(int fd, bool is_pipe, size_t most, struct file_text *text,
                               struct error *err)
{
    const uint64_t until_ns = clock_now_ns() + WAIT_S * NS_PER_S;
    bool closed = false; /* who wrote to the pipe has gone */
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
        closed = poll(&look, 1, LOOK_MS) > 0 && (look.revents & POLLHUP) != 0;
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

enum status file_read(const char *path, size_t most, bool may_wait, struct file_text *text,
                      struct error *err)
{
    struct file_text found = {.bytes = malloc(most + 1)};
    struct stat info;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    enum status status = STATUS_OK;
    if (found.bytes == NULL) {
        status = error_set(err, STATUS_OUT_OF_MEMORY, "no memory to read it");
    } else if (fd < 0 || fstat(fd, &info) != 0) {
        status = failed(err, errno);
    } else if (!may_wait && !S_ISREG(info.st_mode)) {
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
        return status;
    }
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
