/* The file or stream of the result.
 *
 *   destination_open -> write ... -> finish -> close
 *
 * A file is written under a temporary name, and renamed when it is complete. So a failed call does
 * not change an existing file, and in.npy can be both input and output.
 *
 * Functions that return int return EXIT_DONE, or an exit status after complaining. Thread: the main
 * one; destination_write(): any. */
#ifndef TALLY_CLI_DESTINATION_H
#define TALLY_CLI_DESTINATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct destination {
    int fd;
    const char *name; /* borrowed, NULL: standard output */
    char *temporary;  /* owned: temporary name; NULL: a stream, which is written directly */
};

/* Resolve the name of an output to *target, so that renaming replaces the file and not a link to it.
 * The target of a link, which may not exist yet, is *path, which the caller frees; NULL otherwise.
 * The target of standard output (-, and /dev/stdout if that is a file) is NULL. */
int destination_follow(const char *name, const char **target, char **path);

/* Open a destination; name NULL: standard output. A `binary` result is refused for a terminal. */
int destination_open(const char *name, bool binary, struct destination *destination);
/* Close the destination, and remove a temporary file that was not finished. */
void destination_close(struct destination *destination);

/* Write bytes at an offset of a file, or the next bytes of a stream. Thread: any for a file. */
int destination_write(const struct destination *destination, uint64_t offset, const void *bytes,
                      size_t count);

/* Close the complete result, and rename a file to its name. */
int destination_finish(struct destination *destination);

#endif
