/* Files that may change while the service runs, looked at now and again: certificates, tokens. A
 * change counts when two looks in a row have seen the same, so that a file is not read while
 * somebody writes it, nor a key when its certificate has not come yet. What is read nevertheless
 * in the middle of a change is read again: its stamp was taken before. A pipe, say, that was
 * read at the start is not read again. One in the place of a file is a change, and whoever reads
 * it must not wait: it may take that place at any time.
 * Thread: one at a time for each watch. */
#ifndef TALLY_SERVER_FILE_WATCH_H
#define TALLY_SERVER_FILE_WATCH_H

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
    struct stat seen[FILE_WATCH_FILES];  /* all 0: there is no such file; and of the next */
    struct stat taken[FILE_WATCH_FILES];
    uint64_t look_ns;  /* the next */
    uint64_t retry_ns; /* 0: what was taken is in use */
};

/* The files are about to be read. */
void file_watch_take(struct file_watch *watch);

/* What was taken could not be used: it is due again in a minute, if nothing changes before. */
void file_watch_failed(struct file_watch *watch, uint64_t now_ns);

/* Look at the files, some times a second: true if they are to be read, because one is not what was
 * taken any more, and all are what they were at the last look; or again, after a failure. */
bool file_watch_due(struct file_watch *watch, uint64_t now_ns);

#endif
