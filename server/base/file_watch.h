/* Files that are read whole, and read again when they change: tokens, certificates, keys.
 *
 * The files are polled. A file has changed if its device, inode, size, modification time or
 * status change time (ctime) has changed. A change is complete when two consecutive polls see
 * the same stamps of all files. So a file is not read while it is written, and a new key is not
 * read before the new certificate exists. If a file is nevertheless read in the middle of a
 * change, it is read again, because its stamp was recorded before the read.
 *
 * At the start, a pipe (such as <(command) of a shell) is read to its end. The writer may open
 * the pipe later, but the wait has a deadline, and SIGTERM and SIGINT end the wait. A pipe is
 * not read again. A pipe that replaces a file is refused, because reading it could block.
 * Thread: main. */
#ifndef TALLY_SERVER_FILE_WATCH_H
#define TALLY_SERVER_FILE_WATCH_H

#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum {
    FILE_WATCH_FILES = 3
};

/* A set of files that change together. */
struct file_watch {
    size_t count;
    const char *paths[FILE_WATCH_FILES]; /* borrowed; "": no file */
    const char *flags[FILE_WATCH_FILES]; /* static: command line options that name the files */
    /* stamps at the last poll; all 0: the file does not exist */
    struct stat seen[FILE_WATCH_FILES];
    struct stat taken[FILE_WATCH_FILES]; /* stamps before the last read */
    uint64_t look_ns;                    /* time of the next poll; 0: before the first poll */
    uint64_t retry_ns; /* time of the next read after a failure; 0: the last read succeeded */
};

/* Record the stamps of the files; the caller then reads them. */
void file_watch_take(struct file_watch *watch);

struct file_text {
    char *bytes;  /* owned; a NUL follows the bytes */
    size_t count; /* number of bytes without the NUL */
};

/* Read one of the files; do nothing if its path is "".
 * err   names option and path; INVALID_FIELD: the file cannot be read, has more than `most`
 *       bytes, is a pipe whose end did not arrive in time, or has become a pipe since the
 *       start; DRAINING: SIGTERM or SIGINT, which are blocked, is pending; OUT_OF_MEMORY */
MUST_CHECK enum status file_watch_read(const struct file_watch *watch, size_t file, size_t most,
                                       struct file_text *text, struct error *err);

/* Overwrite and free the text, which may be a key. */
void file_text_free(struct file_text *text);

/* Prepend the option and the path of a file to an error message. */
void file_watch_blame(const struct file_watch *watch, size_t file, struct error *err);

/* Report that the files could not be used. The files must be read again in a minute, or after a
 * change. */
void file_watch_failed(struct file_watch *watch, uint64_t now_ns);

/* Poll the files; call this a few times per second. Returns true if the files must be read: a
 * retry is due, or a file has changed since file_watch_take() and none has changed since the
 * last poll. */
bool file_watch_due(struct file_watch *watch, uint64_t now_ns);

#endif
