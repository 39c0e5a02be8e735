/* The file or stream of the result.
 *
 *   destination_open -> place ... -> finish -> close
 *
 * A file is written beside its final name and moved there when it is complete, so a failed call
 * leaves an existing file alone and in.npy can be its own output.
 *
 * Failure: complained about here; EXIT_DONE, or the status after complaining. Thread: the main
 * one, but for destination_place(). */
#ifndef TALLY_CLI_DESTINATION_H
#define TALLY_CLI_DESTINATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PARTIAL ".partial" /* behind the name of a result: the result so far */

struct destination {
    int fd;
    const char *name; /* borrowed, NULL: standard output */
    char *temporary;  /* owned: its name until it is complete, NULL if written directly */
    bool stays;       /* under that name, if it is not completed */
    uint64_t due;     /* bytes of one that stays, when it is complete */
};

/* The name that an output's name leads to, in *place: where it is a link to a file, be it there
 * yet or not, that of the file, which is *path, the caller's, else NULL; of standard output (-,
 * and /dev/stdout where that is a file) NULL. Else the link itself would be replaced. */
int destination_follow(const char *name, const char **place, char **path);

/* name NULL: standard output. `binary`: the result is not for a terminal. */
int destination_open(const char *name, bool binary, struct destination *destination);
/* Refuse a file that another tally has locked so; till it is closed. */
int destination_lock(int fd, const char *name);
/* A file that stays as NAME.partial when the job is not done; `there`: it must be there
 * already. What it has stays until it is cleared. */
int destination_open_partial(const char *name, bool there, struct destination *destination);
/* Refuse a partial file that is not the one with this stamp (checkpoint.h). `begun`: there is
 * more of the job than an empty file, which does not stay; `done`: all, but to put the file in
 * its place. */
int destination_check_stamp(struct destination *destination, uint64_t stamp, bool begun,
                            bool done);
int destination_clear(const struct destination *destination);
/* What was placed is on the disk. */
int destination_sync(const struct destination *destination);
/* Discards what was not finished, unless it is to stay. */
void destination_close(struct destination *destination);

/* Parts of a result: bytes at a place of the file, or the next ones of a stream. Thread: any
 * for a file. */
int destination_place(const struct destination *destination, uint64_t offset, const void *bytes,
                      size_t count);

/* All is written: close it, and put the file in its place. */
int destination_finish(struct destination *destination);

#endif
