/* The bytes of the input: a file, read at any offset; or a stream (a pipe, a terminal, a
 * device), read once from start to end.
 *
 * Functions that return int return EXIT_DONE, or an exit status after complaining. Possible
 * failures: a name that cannot be opened, or a folder, is EXIT_USAGE; a failed read, a file
 * that is written to while it is read, and lack of memory are EXIT_LOCAL. Thread: one at a
 * time; source_read() and source_check_unchanged() of a file: any. */
#ifndef TALLY_CLI_SOURCE_H
#define TALLY_CLI_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct source {
    int fd;               /* owned unless standard input; -1 once closed */
    char *memory;         /* owned: unconsumed bytes of a stream, or the loaded input; a NUL */
    size_t room;          /* bytes allocated at `memory` */
    uint64_t bytes;       /* bytes of the file, or bytes in memory without the NUL */
    uint64_t first_bytes; /* size of the file when it was opened; 0: empty or unknown */
    bool stream;          /* the input is read once, in order; false: a file, or loaded */
    bool ended;           /* the stream has ended */
    struct timespec changed; /* time of the last write to the file */
    int status;              /* exit status after a failed read of a stream */
    const char *name;        /* borrowed, for messages */
};

/* Open the input; name NULL or "-": standard input. */
int source_open(const char *name, struct source *source);
void source_close(struct source *source);

/* Read a stream until `count` bytes are in memory, or the stream ends. Does nothing for a
 * file. */
int source_peek(struct source *source, size_t count);

/* Copy the first `room` bytes of the input, fewer if the input is shorter, to `to`. They are
 * not consumed. Stores the number of copied bytes in *count. */
int source_start(struct source *source, char *to, size_t room, size_t *count);

/* Copy `count` bytes from `offset` of a file, or of the bytes in memory, to `to`. */
int source_read(struct source *source, uint64_t offset, void *to, size_t count);

/* Refuse a file that was modified since it was opened. */
int source_check_unchanged(const struct source *source);

/* Remove the first `count` bytes from memory; the others move to the start. */
void source_drop(struct source *source, size_t count);

/* Read the next bytes of a stream to `to`, and store their number in *taken. Returns after
 * `room` bytes, at the end of the stream, or gather_ms (-1: no limit) after the first `unit`
 * bytes. Before the end of the stream *taken is a multiple of `unit`; the other bytes stay in
 * memory. */
int source_read_next(struct source *source, char *to, size_t room, size_t unit, int gather_ms,
                     size_t *taken);

/* Append at most `count` bytes of a stream to the bytes in memory, by one read(). Sets *arrived
 * to false if wait_ms (-1: no limit) pass without a byte and without the end of the stream. */
int source_more(struct source *source, size_t count, int wait_ms, bool *arrived);

/* Return the milliseconds until gather_ms after the moment since_ns (now_ns()), at least 0; -1
 * if gather_ms is -1. The result is a wait_ms for source_more(). */
int source_wait_ms(int64_t since_ns, int gather_ms);

/* Read a file as a stream from now on, from its start. */
void source_as_stream(struct source *source);

/* Read the whole input to memory, and append a NUL, which source->bytes does not count. */
int source_load(struct source *source);

#endif
