/* Files that are read whole: tokens, certificates, keys. A pipe is read to its end, such as a
 * shell makes of <(command), and whoever writes to it may come later; but nobody waits for
 * ever, nor keeps a signal waiting that asks the process to end. Thread: main. */
#ifndef TALLY_SERVER_FILE_READ_H
#define TALLY_SERVER_FILE_READ_H

#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>

struct file_text {
    char *bytes; /* owned */
    size_t count;
};

/* may_wait   pipes and devices are read as well; else they are refused, however late they took
 *            the place of a file
 * err        INVALID_FIELD: it cannot be read, has more than `most` bytes, or is a pipe that did
 *            not come to its end in time; DRAINING: SIGTERM or SIGINT, blocked, came meanwhile;
 *            OUT_OF_MEMORY */
MUST_CHECK enum status file_read(const char *path, size_t most, bool may_wait,
                                 struct file_text *text, struct error *err);

/* Overwrite and free it: it may have been a key. */
void file_text_free(struct file_text *text);

#endif
