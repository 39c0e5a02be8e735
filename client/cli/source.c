/* Reading by offset (pread) where there is a file, so that an attempt can begin again anywhere;
 * from memory where there was a pipe. */
#include "client/cli/source.h"

#include "client/cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Read `fd` to its end into source->memory. */
static int read_all(struct source *source)
{
    size_t room = 0;
    ssize_t got = 1;
    while (got != 0) {
        if (source->bytes + 1 >= room) {
            room = room == 0 ? 65536 : room * 2;
            char *larger = realloc(source->memory, room);
            if (larger == NULL) {
                return complain(EXIT_LOCAL,
                                "%s: out of memory after %" PRIu64 " bytes; give a file, which "
                                "is not held in memory",
                                source->name, source->bytes);
            }
            source->memory = larger;
        }
        got = read(source->fd, source->memory + source->bytes, room - source->bytes - 1);
        if (got < 0 && interrupted()) {
            return complain(EXIT_INTERRUPTED, "interrupted");
        }
        if (got < 0 && errno != EINTR) {
            return complain(EXIT_LOCAL, "%s: %s", source->name, errno_text());
        }
        source->bytes += got > 0 ? (uint64_t)got : 0;
    }
    source->memory[source->bytes] = '\0';
    return EXIT_DONE;
}

int source_open(const char *name, struct source *source)
{
    struct stat about;
    bool standard = name == NULL || strcmp(name, "-") == 0;
    *source = (struct source){.fd = STDIN_FILENO, .name = standard ? "standard input" : name};
    if (!standard) {
        source->fd = open(name, O_RDONLY | O_CLOEXEC);
    }
    if (source->fd < 0 || fstat(source->fd, &about) != 0) {
        return complain(EXIT_USAGE, "%s: %s", source->name, errno_text());
    }
    if (S_ISDIR(about.st_mode)) {
        return complain(EXIT_USAGE, "%s is a directory; give a file", source->name);
    }
    if (S_ISREG(about.st_mode) && (!standard || lseek(source->fd, 0, SEEK_CUR) == 0)) {
        source->bytes = (uint64_t)about.st_size;
        return EXIT_DONE;
    }
    if (standard && isatty(STDIN_FILENO) == 1) {
        (void)fputs("tally: reading JSON numbers from the terminal; end with Ctrl-D\n", stderr);
    }
    return read_all(source);
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

int source_read(struct source *source, uint64_t offset, void *to, size_t count)
{
    size_t done = 0;
    if (source->memory != NULL) {
        memcpy(to, source->memory + offset, count);
        return 0;
    }
    while (done < count) {
        ssize_t got =
            pread(source->fd, (char *)to + done, count - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            (void)complain(EXIT_LOCAL, "%s: %s", source->name,
                           got == 0 ? "the file became shorter while it was read"
                                    : errno_text());
            return -1;
        }
        done += (size_t)got;
    }
    return 0;
}

bool source_load(struct source *source)
{
    if (source->memory != NULL) {
        return true;
    }
    char *memory = malloc(source->bytes + 1);
    if (memory == NULL) {
        (void)complain(EXIT_LOCAL, "%s: out of memory", source->name);
        return false;
    }
    if (source_read(source, 0, memory, source->bytes) != 0) {
        free(memory);
        return false;
    }
    memory[source->bytes] = '\0';
    source->memory = memory;
    return true;
}
