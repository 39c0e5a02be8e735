/* A file is read by offset (pread), so a part of it can be read again. source->memory begins
 * with the bytes of a stream that were read but not consumed. */
#include "client/cli/source.h"

#include "client/cli/terminal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LOAD_FIRST = 65536
};

/* Enlarge the memory to at least `room` bytes and a NUL. */
static int reserve_memory(struct source *source, size_t room)
{
    if (room < source->room) {
        return EXIT_DONE;
    }
    room = larger_of(room, 2 * source->room);
    char *larger = realloc(source->memory, room + 1);
    if (larger == NULL) {
        return complain(EXIT_LOCAL, "%s: out of memory for %zu bytes", source->name, room);
    }
    source->memory = larger;
    source->room = room + 1;
    return EXIT_DONE;
}

/* Wait until bytes can be read. Returns false after `ms` (-1: no limit), or after an
 * interrupt. */
static bool wait_readable(struct source *source, int ms)
{
    struct pollfd about = {.fd = source->fd, .events = POLLIN};
    return poll(&about, 1, ms) > 0;
}

/* Call read() once, and store the number of bytes in *got: 0 at the end of the stream, or if
 * wait_ms (-1: no limit) pass. A failure is final: later calls return the same status. */
static int read_some(struct source *source, char *to, size_t room, int wait_ms, size_t *got)
{
    *got = 0;
    while (source->status == EXIT_DONE) {
        if (!wait_readable(source, wait_ms)) {
            if (interrupted()) {
                source->status = complain(EXIT_INTERRUPTED, "interrupted");
            } else if (wait_ms >= 0) {
                break;
            }
            continue;
        }
        ssize_t count = read(source->fd, to, room);
        if (count >= 0) {
            *got = (size_t)count;
            source->ended = count == 0;
            if (source->ended && source->first_bytes > 0) {
                source->status = source_check_unchanged(source);
            }
            break;
        }
        if (errno != EINTR) {
            source->status = complain_errno(EXIT_LOCAL, source->name);
        }
    }
    return source->status;
}

int source_more(struct source *source, size_t count, int wait_ms, bool *arrived)
{
    size_t got = 0;
    STEP(reserve_memory(source, source->bytes + count));
    STEP(read_some(source, source->memory + source->bytes, count, wait_ms, &got));
    source->bytes += got;
    source->memory[source->bytes] = '\0';
    *arrived = got > 0 || source->ended;
    return EXIT_DONE;
}

int source_peek(struct source *source, size_t count)
{
    bool arrived = true;
    while (source->stream && source->bytes < count && !source->ended) {
        STEP(source_more(source, count - source->bytes, -1, &arrived));
    }
    return EXIT_DONE;
}

void source_drop(struct source *source, size_t count)
{
    source->bytes -= count;
    memmove(source->memory, source->memory + count, (size_t)source->bytes + 1);
}

/* Consume bytes in memory; if the memory is empty, call read() once. */
static int copy_or_read(struct source *source, char *to, size_t room, int wait_ms, size_t *got)
{
    *got = source->bytes < room ? (size_t)source->bytes : room;
    if (*got > 0) {
        memcpy(to, source->memory, *got);
        source_drop(source, *got);
        return EXIT_DONE;
    }
    return source->ended ? EXIT_DONE : read_some(source, to, room, wait_ms, got);
}

int source_wait_ms(int64_t since_ns, int gather_ms)
{
    if (gather_ms < 0) {
        return -1;
    }
    int64_t left_ms = gather_ms - (now_ns() - since_ns) / 1000000;
    return left_ms > 0 ? (int)left_ms : 0;
}

void source_as_stream(struct source *source)
{
    if (!source->stream) {
        source->stream = true;
        source->bytes = 0;
    }
}

int source_read_next(struct source *source, char *to, size_t room, size_t unit, int gather_ms,
                     size_t *taken)
{
    size_t have = 0;
    size_t got = 1;
    int64_t since_ns = 0;
    assert(unit > 0);
    while (have < room && got > 0) {
        int wait_ms = have < unit ? -1 : source_wait_ms(since_ns, gather_ms);
        STEP(copy_or_read(source, to + have, room - have, wait_ms, &got));
        if (have < unit && have + got >= unit) {
            since_ns = now_ns();
        }
        have += got;
    }
    size_t rest = source->ended ? 0 : have % unit;
    if (rest > 0) { /* read() was called for these bytes, so the memory is empty */
        STEP(reserve_memory(source, rest));
        memcpy(source->memory, to + have - rest, rest);
        source->memory[rest] = '\0';
        source->bytes = rest;
    }
    *taken = have - rest;
    return EXIT_DONE;
}

int source_open(const char *name, struct source *source)
{
    struct stat about;
    bool standard = name == NULL || strcmp(name, "-") == 0;
    *source = (struct source){.fd = STDIN_FILENO, .name = standard ? "standard input" : name};
    if (!standard) { /* do not wait for the writer of a pipe in open() */
        source->fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    if (source->fd < 0 || fstat(source->fd, &about) != 0) {
        return complain_errno(EXIT_USAGE, source->name);
    }
    if (S_ISDIR(about.st_mode)) {
        return complain(EXIT_USAGE, "%s is a directory; give a file", source->name);
    }
    if (!standard) {
        (void)fcntl(source->fd, F_SETFL, O_RDONLY);
    }
    /* Files in /proc report the size 0 although they have bytes. */
    char byte;
    bool file =
        S_ISREG(about.st_mode) && (about.st_size > 0 || pread(source->fd, &byte, 1, 0) != 1);
    if (file && (!standard || lseek(source->fd, 0, SEEK_CUR) == 0)) {
        source->bytes = (uint64_t)about.st_size;
        source->first_bytes = source->bytes;
        source->changed = about.st_mtim;
        return EXIT_DONE;
    }
    source->stream = true;
    if (standard && isatty(STDIN_FILENO) == 1) {
        (void)fputs("tally: reading numbers from the terminal; end with Ctrl-D\n", stderr);
    }
    return EXIT_DONE;
}

void source_close(struct source *source)
{
    if (source->fd > STDIN_FILENO) {
        (void)close(source->fd);
    }
    source->fd = -1;
    free(source->memory);
    source->memory = NULL;
}

int source_start(struct source *source, char *to, size_t room, size_t *count)
{
    STEP(source_peek(source, room));
    *count = smaller_of(source->bytes, room);
    return source_read(source, 0, to, *count);
}

static int complain_changed(const struct source *source)
{
    return complain(
        EXIT_LOCAL,
        "%s was written to while it was read, and its sums would be of both: give it "
        "again when it is complete",
        source->name);
}

int source_read(struct source *source, uint64_t offset, void *to, size_t count)
{
    size_t done = 0;
    if (source->memory != NULL) {
        memcpy(to, source->memory + offset, count);
        return EXIT_DONE;
    }
    while (done < count) {
        ssize_t got =
            pread(source->fd, (char *)to + done, count - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got == 0 ? complain_changed(source)
                            : complain_errno(EXIT_LOCAL, source->name);
        }
        done += (size_t)got;
    }
    return EXIT_DONE;
}

int source_check_unchanged(const struct source *source)
{
    struct stat about;
    bool same = fstat(source->fd, &about) == 0 &&
                (uint64_t)about.st_size == source->first_bytes &&
                about.st_mtim.tv_sec == source->changed.tv_sec &&
                about.st_mtim.tv_nsec == source->changed.tv_nsec;
    return same ? EXIT_DONE : complain_changed(source);
}

int source_load(struct source *source)
{
    if (source->stream) {
        for (size_t room = LOAD_FIRST; !source->ended; room *= 2) {
            STEP(source_peek(source, room));
        }
        source->stream = false;
        STEP(reserve_memory(source, source->bytes));
    } else if (source->memory == NULL) {
        char *memory = malloc(source->bytes + 1);
        if (memory == NULL) {
            return complain(EXIT_LOCAL, "%s: out of memory for %" PRIu64 " bytes", source->name,
                            source->bytes);
        }
        int status = source_read(source, 0, memory, source->bytes);
        source->memory = memory;
        STEP(status);
        STEP(source_check_unchanged(source));
    }
    assert(source->memory != NULL);
    source->memory[source->bytes] = '\0';
    return EXIT_DONE;
}
