/* A stream is written directly, a file under a temporary name until it is complete. */
#include "client/cli/destination.h"

#include "client/cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static mode_t current_umask(void)
{
    mode_t mask = umask(0);
    (void)umask(mask);
    return mask;
}

/* Create a temporary file in the folder of `name`. Returns its descriptor, and stores its name
 * in *temporary; -1 on failure. */
static int open_beside(const char *name, mode_t mode, char **temporary)
{
    char *path = NULL;
    if (asprintf(&path, "%s.XXXXXX", name) < 0) {
        return -1;
    }
    int fd = mkstemp(path);
    if (fd < 0) {
        free(path);
        return -1;
    }
    (void)fchmod(fd, mode);
    *temporary = path;
    return fd;
}

int destination_follow(const char *name, const char **target, char **path)
{
    struct stat link;
    struct stat about;
    struct stat standard;
    *target = name != NULL && strcmp(name, "-") == 0 ? NULL : name;
    *path = NULL;
    if (*target == NULL || lstat(name, &link) != 0 || !S_ISLNK(link.st_mode)) {
        return EXIT_DONE;
    }
    bool there = stat(name, &about) == 0;
    if (there && !S_ISREG(about.st_mode)) {
        return EXIT_DONE;
    }
    if (there && fstat(STDOUT_FILENO, &standard) == 0 && standard.st_dev == about.st_dev &&
        standard.st_ino == about.st_ino) {
        *target = NULL;
        return EXIT_DONE;
    }
    /* realpath() needs an existing file. */
    int fd = there ? -1 : open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    *path = realpath(name, NULL);
    *target = *path;
    if (fd >= 0 && *path != NULL) {
        (void)unlink(*path);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return *path != NULL ? EXIT_DONE : complain_errno(EXIT_LOCAL, name);
}

int destination_open(const char *name, bool binary, struct destination *destination)
{
    struct stat about;
    *destination = (struct destination){.fd = STDOUT_FILENO};
    if (name == NULL) {
        if (binary && isatty(STDOUT_FILENO) == 1) {
            return complain(EXIT_USAGE,
                            "the result is binary and standard output is a terminal: "
                            "use -o FILE, a pipe, or --output-format json");
        }
        return EXIT_DONE;
    }
    destination->name = name;
    bool exists = stat(name, &about) == 0;
    if (exists && !S_ISREG(about.st_mode)) {
        do { /* open() blocks until a pipe has a reader */
            destination->fd = open(name, O_WRONLY | O_CLOEXEC);
        } while (destination->fd < 0 && errno == EINTR && !interrupted());
    } else {
        destination->fd =
            open_beside(name, exists ? about.st_mode & 0777 : 0666 & ~current_umask(),
                        &destination->temporary);
    }
    if (destination->fd < 0) {
        bool beside = !exists || S_ISREG(about.st_mode);
        return interrupted() ? complain(EXIT_INTERRUPTED, "interrupted")
                             : complain(EXIT_LOCAL, "%s: %s%s", name,
                                        beside ? "no file can be made in its folder: " : "",
                                        errno_text());
    }
    return EXIT_DONE;
}

void destination_close(struct destination *destination)
{
    if (destination->fd > STDERR_FILENO) {
        (void)close(destination->fd);
    }
    if (destination->temporary != NULL) {
        (void)unlink(destination->temporary);
    }
    free(destination->temporary);
}

/* Return whether fd is standard output, also by another name such as /dev/stdout. */
static bool is_standard_output(int fd)
{
    struct stat about;
    struct stat standard;
    return fd == STDOUT_FILENO ||
           (fstat(fd, &about) == 0 && fstat(STDOUT_FILENO, &standard) == 0 &&
            about.st_dev == standard.st_dev && about.st_ino == standard.st_ino);
}

/* Complain about a failed write. */
static int refuse_write(const struct destination *destination)
{
    const int reason = errno;
    if (interrupted()) {
        return complain(EXIT_INTERRUPTED, "interrupted");
    }
    if (reason == EPIPE && is_standard_output(destination->fd)) {
        end_by_broken_pipe();
    }
    errno = reason;
    return complain_errno(EXIT_LOCAL,
                          destination->name == NULL ? "standard output" : destination->name);
}

int destination_write(const struct destination *destination, uint64_t offset, const void *bytes,
                      size_t count)
{
    const char *from = bytes;
    bool stream = destination->temporary == NULL;
    while (count > 0) {
        ssize_t done = stream ? write(destination->fd, from, count)
                              : pwrite(destination->fd, from, count, (off_t)offset);
        if (done < 0 && errno == EINTR && !(stream && interrupted())) {
            continue;
        }
        if (done < 0) {
            return refuse_write(destination);
        }
        from += done;
        offset += (uint64_t)done;
        count -= (size_t)done;
    }
    return EXIT_DONE;
}

int destination_finish(struct destination *destination)
{
    if (destination->fd != STDOUT_FILENO) {
        int closed = close(destination->fd);
        destination->fd = -1;
        if (closed != 0) {
            return complain_errno(EXIT_LOCAL, destination->name);
        }
    }
    if (destination->temporary == NULL) {
        return EXIT_DONE;
    }
    if (rename(destination->temporary, destination->name) != 0) {
        return complain_errno(EXIT_LOCAL, destination->name);
    }
    free(destination->temporary);
    destination->temporary = NULL;
    return EXIT_DONE;
}
