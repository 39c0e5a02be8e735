/* Where the input comes from: a file, read as it is sent, or a pipe, read whole first, so that
 * a request can be repeated.
 *
 * Failure: what cannot be opened or is a directory is EXIT_USAGE; a read that fails, a file
 * that becomes shorter meanwhile and lack of memory are EXIT_LOCAL. Thread: the main one. */
#ifndef TALLY_CLI_SOURCE_H
#define TALLY_CLI_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source {
    int fd;       /* owned unless standard input; -1 once closed */
    char *memory; /* owned: contents of a pipe, NULL for a file */
    uint64_t bytes;
    const char *name; /* borrowed, for messages */
};

/* EXIT_DONE, or the exit status after complaining. name NULL or "-": standard input. */
int source_open(const char *name, struct source *source);
void source_close(struct source *source);

/* Copy `count` bytes from `offset`; 0, or -1 after complaining (the file has shrunk). */
int source_read(struct source *source, uint64_t offset, void *to, size_t count);

/* The whole of it in memory, NUL-terminated after source->bytes; false after complaining. */
bool source_load(struct source *source);

#endif
