/* Files that are read whole, and again when they change: tokens, certificates, keys.
 *
 * They are looked at now and again. A file has changed if its device, inode, size, time of
 * modification or time of status change (ctime) has. A change counts when two looks in a row have
 * seen the same, so that a file is not read while somebody writes it, nor a key when its certificate
 * has not come yet.
 * What is read nevertheless in the middle of a change is read again: its stamp was taken before.
 *
 * At the start a pipe is read to its end, such as a shell makes of <(command), and whoever writes to
 * it may come later; but nobody waits for ever, nor keeps a signal waiting that asks the process to
 * end. It is not read again. One in the place of a file is a change, and is refused: whoever reads
 * it would wait. Thread: main. */
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

/* Files that belong together. */
struct file_watch {
    size_t count;
    const char *paths[FILE_WATCH_FILES]; /* borrowed; "": no file */
    const char *flags[FILE_WATCH_FILES]; /* static: which say so */
    struct stat seen[FILE_WATCH_FILES];  /* all 0: there is no such file; and of the next */
    struct stat taken[FILE_WATCH_FILES];
    uint64_t look_ns;  /* the next; 0: there was none, this is the start */
    uint64_t retry_ns; /* 0: what was taken is in use */
};

/* The files are about to be read. */
void file_watch_take(struct file_watch *watch);

struct file_text {
    char *bytes; /* owned; a 0 is behind them */
    size_t count;
};

/* Read one of them, or nothing where there is no file.
 * err   naming flag and path; INVALID_FIELD: it cannot be read, has more than `most` bytes, or is a
 *       pipe that did not come to its end in time, or that was not there at the start; DRAINING:
 *       SIGTERM or SIGINT, blocked, came meanwhile; OUT_OF_MEMORY */
MUST_CHECK enum status file_watch_read(const struct file_watch *watch, size_t file, size_t most,
                                       struct file_text *text, struct error *err);

/* Overwrite and free it: it may have been a key. */
void file_text_free(struct file_text *text);

/* Put flag and path in front of what is wrong with a file. */
void file_watch_blame(const struct file_watch *watch, size_t file, struct error *err);

/* What was taken could not be used: it is due again in a minute, if nothing changes before. */
void file_watch_failed(struct file_watch *watch, uint64_t now_ns);

/* Look at the files, some times a second: true if they are to be read, because one is not what was
 * taken any more, and all are what they were at the last look; or again, after a failure. */
bool file_watch_due(struct file_watch *watch, uint64_t now_ns);

#endif
