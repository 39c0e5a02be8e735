/* The file or stream of the result.
 *
 *   destination_open -> write ... -> finish -> close
 *
 * A file is written under a temporary name, and renamed when it is complete. So a failed call
 * does not change an existing file, and a file can be both input and output.
 *
 * Functions that return int return EXIT_DONE, or an exit status after complaining. Thread: the
 * main one; destination_write(): any. */
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

/* Resolve the name of an output, so that renaming replaces a file and not a symbolic link to
 * the file.
 * in   name     may be a link to a file that does not exist yet
 * out  *target  name of the file; NULL: standard output
 *      *path    memory of *target, which the caller frees; NULL if `name` is no link */
int destination_follow(const char *name, const char **target, char **path);

/* Open a destination; name NULL: standard output. A terminal is refused for a `binary`
 * result. */
int destination_open(const char *name, bool binary, struct destination *destination);
/* Close the destination, and remove a temporary file that was not finished. */
void destination_close(struct destination *destination);

/* Write `count` bytes at an offset of a file, or as the next bytes of a stream. */
int destination_write(const struct destination *destination, uint64_t offset, const void *bytes,
                      size_t count);

/* Close the destination of a complete result, and rename the temporary file. */
int destination_finish(struct destination *destination);

#endif
