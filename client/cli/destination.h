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

struct destination {
    int fd;
    const char *name; /* borrowed, NULL: standard output */
    char *temporary;  /* owned: its name until it is complete, NULL if written directly */
};

/* The name that an output's name leads to, in *place: where it is a link to a file, be it there
 * yet or not, that of the file, which is *path, the caller's, else NULL; of standard output (-,
 * and /dev/stdout where that is a file) NULL. Else the link itself would be replaced. */
int destination_follow(const char *name, const char **place, char **path);

/* name NULL: standard output. `binary`: the result is not for a terminal. */
int destination_open(const char *name, bool binary, struct destination *destination);
/* Empty a temporary file. */
int destination_clear(const struct destination *destination);
/* Close the destination, and remove a temporary file that was not finished. */
void destination_close(struct destination *destination);

/* Parts of a result: bytes at a place of the file, or the next ones of a stream. Thread: any
 * for a file. */
int destination_place(const struct destination *destination, uint64_t offset, const void *bytes,
                      size_t count);

/* All is written: close it, and put the file in its place. */
int destination_finish(struct destination *destination);

#endif
