/* The bytes of the input: a file, read anywhere as it is needed; or a stream (a pipe, a
 * terminal, a device), read once from front to end, of which only what was asked for is held.
 *
 * Failure: what cannot be opened or is a directory is EXIT_USAGE; a read that fails, a file
 * that becomes shorter or is written to meanwhile and lack of memory are EXIT_LOCAL. Thread:
 * one at a time, but for source_read() and source_check_unchanged() of a file, for any. */
#ifndef TALLY_CLI_SOURCE_H
#define TALLY_CLI_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct source {
    int fd;       /* owned unless standard input; -1 once closed */
    char *memory; /* owned: read ahead of a stream; all of what was loaded; else NULL */
    size_t room;
    uint64_t bytes;          /* of the file, or in memory */
    uint64_t first_bytes;    /* of the file, when it was opened; 0: none, or it does not say */
    bool stream;             /* more may come behind what is in memory */
    bool ended;              /* no more comes */
    struct timespec changed; /* of a file: when it was written to last */
    int status;              /* of a stream: the exit status after a read that failed */
    const char *name;        /* borrowed, for messages */
};

/* name NULL or "-": standard input. Functions that can fail give EXIT_DONE, or the exit status
 * after complaining. */
int source_open(const char *name, struct source *source);
void source_close(struct source *source);

/* Have `count` bytes of a stream in memory, or all there are; nothing to do for a file. */
int source_peek(struct source *source, size_t count);

/* Copy the first `room` bytes, or all there are; they are not taken. */
int source_start(struct source *source, char *to, size_t room, size_t *count);

/* Copy `count` bytes from `offset` of a file or of what is in memory. */
int source_read(struct source *source, uint64_t offset, void *to, size_t count);

/* Refuse a file that was written to since it was opened: what was read may be of both. */
int source_check_unchanged(const struct source *source);

/* Forget bytes that are in memory. */
void source_drop(struct source *source, size_t count);

/* Take the next bytes of a stream: `room` of them, fewer at its end, or when there is nothing
 * to read gather_ms (-1: wait) after the first `unit` of them came: then a multiple of that. */
int source_take(struct source *source, char *to, size_t room, size_t unit, int gather_ms,
                size_t *taken);

/* Read a stream once, at most `count` bytes, to behind what is in memory. *came is false if
 * nothing came for wait_ms (-1: wait). */
int source_more(struct source *source, size_t count, int wait_ms, bool *came);

/* How long source_more() may wait, for what came at since_ns to be gathered for gather_ms:
 * however often something comes, the time runs from the first of it. */
int source_wait_ms(int64_t since_ns, int gather_ms);

/* Read a file like a stream, from its start. */
void source_as_stream(struct source *source);

/* Bring the whole of it into memory, NUL-terminated after source->bytes. */
int source_load(struct source *source);

#endif
