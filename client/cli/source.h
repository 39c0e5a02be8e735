/* The bytes of the input: a file, read at any offset; or a stream (a pipe, a terminal, a device),
 * read once from start to end.
 *
 * Functions that return int return EXIT_DONE, or an exit status after complaining. Possible
 * failures: a name that cannot be opened, or a folder, is EXIT_USAGE; a failed read, a file that is
 * written to while it is read, and lack of memory are EXIT_LOCAL. Thread: one at a time;
 * source_read() and source_check_unchanged() of a file: any. */
#ifndef TALLY_CLI_SOURCE_H
#define TALLY_CLI_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct source {
    int fd; /* owned unless standard input; -1 once closed */
    char *
        memory; /* owned: bytes read ahead of a stream, or the loaded file, and a NUL; else NULL */
    size_t room;
    uint64_t bytes;          /* of the file, or in memory */
    uint64_t first_bytes;    /* size of the file when it was opened; 0: empty or unknown */
    bool stream;             /* the bytes in memory are not all */
    bool ended;              /* the stream has ended */
    struct timespec changed; /* time of the last write to the file */
    int status;              /* exit status after a failed read of a stream */
    const char *name;        /* borrowed, for messages */
};

/* Open the input; name NULL or "-": standard input. */
int source_open(const char *name, struct source *source);
void source_close(struct source *source);

/* Read a stream until `count` bytes, or all, are in memory. Does nothing for a file. */
int source_peek(struct source *source, size_t count);

/* Copy the first `room` bytes, or all, without consuming them. */
int source_start(struct source *source, char *to, size_t room, size_t *count);

/* Copy `count` bytes at `offset` of a file, or of the bytes in memory. */
int source_read(struct source *source, uint64_t offset, void *to, size_t count);

/* Refuse a file that was written to since it was opened. */
int source_check_unchanged(const struct source *source);

/* Drop the first bytes in memory. */
void source_drop(struct source *source, size_t count);

/* Read the next bytes of a stream to `to`: `room` bytes; fewer at the end of the stream; or a multiple
 * of `unit` if no bytes arrive within gather_ms (-1: no limit) after the first `unit`. */
int source_read_next(struct source *source, char *to, size_t room, size_t unit, int gather_ms,
                     size_t *taken);

/* Read a stream once, at most `count` bytes, to the end of the bytes in memory. *came is false if no
 * bytes arrive within wait_ms (-1: no limit). */
int source_more(struct source *source, size_t count, int wait_ms, bool *came);

/* Return the rest of gather_ms (-1: no limit) that began at since_ns, for source_more(). */
int source_wait_ms(int64_t since_ns, int gather_ms);

/* Make a stream of a file, from its start. */
void source_as_stream(struct source *source);

/* Read the whole input to memory, with a NUL behind it. */
int source_load(struct source *source);

#endif
