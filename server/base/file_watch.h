/* Files that may change while the service runs, looked at now and again: certificates, tokens. A
 * change counts when two looks in a row have seen the same, so that a file is not read while
 * somebody writes it, nor a key when its certificate has not come yet. What is read nevertheless
 * in the middle of a change is read again: its stamp was taken before.
 * Thread: one at a time for each array. */
#ifndef TALLY_SERVER_FILE_WATCH_H
#define TALLY_SERVER_FILE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

enum {
    FILE_WATCH_MS = 250 /* between looks */
};

struct file_stamp { /* all 0: there is no such file */
    dev_t device;
    ino_t inode;
    off_t bytes;
    struct timespec changed;
};

struct file_watch {
    const char *path; /* borrowed; "": no file */
    struct file_stamp seen;
    struct file_stamp taken;
};

/* The files are about to be read. */
void file_watch_take(struct file_watch *files, size_t count);

/* Look at files that belong together: true if one is not what was taken any more, and all are what
 * they were at the last look. */
bool file_watch_changed(struct file_watch *files, size_t count);

#endif
