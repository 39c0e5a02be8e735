#include "client/cli/destination.h"

#include "client/cli/terminal.h"
#include "client/json_text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

const char *format_content_type(enum format format)
{
    static const char *const types[] = {
        [FORMAT_NONE] = NULL,
        [FORMAT_NPY] = "application/x-npy",
        [FORMAT_RAW] = "application/octet-stream",
        [FORMAT_JSON] = "application/json",
    };
    return types[format];
}

/* ---- the file ---- */

static mode_t current_umask(void)
{
    mode_t mask = umask(0);
    (void)umask(mask);
    return mask;
}

/* A new file in the directory of `name`. */
static int open_beside(const char *name, mode_t mode, char **temporary)
{
    size_t size = strlen(name) + sizeof ".XXXXXX";
    char *path = malloc(size);
    if (path == NULL) {
        return -1;
    }
    (void)snprintf(path, size, "%s.XXXXXX", name);
    int fd = mkstemp(path);
    if (fd < 0) {
        free(path);
        return -1;
    }
    (void)fchmod(fd, mode);
    *temporary = path;
    return fd;
}

int destination_open(const char *name, const struct expectation *expected,
                     struct destination *destination)
{
    struct stat about;
    *destination =
        (struct destination){.expected = *expected, .fd = STDOUT_FILENO, .due = UINT64_MAX};
    if (name == NULL || strcmp(name, "-") == 0) {
        if (expected->format != FORMAT_JSON && isatty(STDOUT_FILENO) == 1) {
            return complain(EXIT_USAGE,
                            "the result is binary and standard output is a terminal: "
                            "use -o FILE, a pipe, or --output-format json");
        }
        return EXIT_DONE;
    }
    destination->name = name;
    bool exists = stat(name, &about) == 0;
    if (exists && !S_ISREG(about.st_mode)) {
        destination->fd = open(name, O_WRONLY | O_CLOEXEC);
    } else {
        destination->fd =
            open_beside(name, exists ? about.st_mode & 0777 : 0666 & ~current_umask(),
                        &destination->temporary);
    }
    if (destination->fd < 0) {
        return complain(EXIT_LOCAL, "%s: %s", name, errno_text());
    }
    return EXIT_DONE;
}

void destination_close(struct destination *destination)
{
    if (destination->fd > STDERR_FILENO) {
        (void)close(destination->fd);
    }
    if (destination->temporary != NULL) {
        (void)unlink(destination->temporary);
    }
    free(destination->temporary);
    free(destination->text);
    free(destination->head);
}

bool destination_is_stream(const struct destination *destination)
{
    return destination->temporary == NULL && destination->expected.format != FORMAT_JSON;
}

static int put(struct destination *destination, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t done = write(destination->fd, bytes, count);
        if (done < 0 && errno == EINTR && !interrupted()) {
            continue;
        }
        if (done < 0) {
            destination->local = true;
            (void)snprintf(destination->trouble, sizeof destination->trouble, "%s: %s",
                           destination->name == NULL ? "standard output" : destination->name,
                           errno_text());
            return -1;
        }
        bytes += done;
        count -= (size_t)done;
    }
    return 0;
}

/* ---- the answer ---- */

static int refuse(struct destination *destination, const char *format, ...) PRINTF_LIKE(2, 3);
static int refuse(struct destination *destination, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(destination->trouble, sizeof destination->trouble, format, args);
    va_end(args);
    return -1;
}

static void shape_text(const struct number_list *shape, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < shape->count && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, i == 0 ? "" : ",",
                                 shape->numbers[i]);
    }
}

/* Type and shape of the answer are those that were expected. */
static int check_tensor(struct destination *destination, const char *dtype, const char *shape)
{
    const struct expectation *expected = &destination->expected;
    char wanted[1600];
    if (!expected->known) {
        return 0;
    }
    shape_text(&expected->shape, wanted, sizeof wanted);
    if (strcmp(dtype, tally_dtype_name(expected->dtype)) != 0 || strcmp(shape, wanted) != 0) {
        return refuse(destination, "the answer is %.20s %.60s, expected %s %.60s", dtype, shape,
                      tally_dtype_name(expected->dtype), wanted);
    }
    if (!expected->padded && expected->format == FORMAT_RAW) {
        (void)shape_bytes(&expected->shape, expected->dtype, &destination->due);
    }
    return 0;
}

int destination_check(struct destination *destination, const struct tally_answer *answer)
{
    const char *wanted = format_content_type(destination->expected.format);
    size_t length = strcspn(answer->content_type, "; ");
    if (length != strlen(wanted) || strncasecmp(answer->content_type, wanted, length) != 0) {
        return refuse(
            destination,
            "the answer's Content-Type is \"%s\", expected %s; is this a Tally server?",
            answer->content_type, wanted);
    }
    if (destination->temporary != NULL && destination->written > 0 &&
        (lseek(destination->fd, 0, SEEK_SET) != 0 || ftruncate(destination->fd, 0) != 0)) {
        destination->local = true;
        return refuse(destination, "%s: %s", destination->name, errno_text());
    }
    destination->written = 0;
    destination->text_bytes = 0;
    destination->head_bytes = 0;
    destination->npy.bytes = 0;
    destination->due =
        answer->content_length < 0 ? UINT64_MAX : (uint64_t)answer->content_length;
    return destination->expected.format == FORMAT_RAW
               ? check_tensor(destination, answer->dtype, answer->shape)
               : 0;
}

static int keep_text(struct destination *destination, const void *bytes, size_t count)
{
    if (destination->text_bytes + count + 1 > destination->text_room) {
        size_t room = (destination->text_bytes + count + 1) * 2;
        char *larger = realloc(destination->text, room);
        if (larger == NULL) {
            destination->local = true;
            return refuse(destination, "out of memory");
        }
        destination->text = larger;
        destination->text_room = room;
    }
    memcpy(destination->text + destination->text_bytes, bytes, count);
    destination->text_bytes += count;
    return 0;
}

/* Gather the head of an NPY answer; nothing is written before it is understood. */
static int gather_head(struct destination *destination, const char **bytes, size_t *count)
{
    if (destination->head == NULL) {
        destination->head = malloc(NPY_HEAD_MAX);
    }
    if (destination->head == NULL) {
        destination->local = true;
        return refuse(destination, "out of memory");
    }
    size_t room = NPY_HEAD_MAX - destination->head_bytes;
    size_t taken = *count < room ? *count : room;
    memcpy(destination->head + destination->head_bytes, *bytes, taken);
    destination->head_bytes += taken;
    *bytes += taken;
    *count -= taken;
    enum npy_verdict verdict =
        npy_parse(destination->head, destination->head_bytes, &destination->npy);
    if (verdict == NPY_MORE && destination->head_bytes < NPY_HEAD_MAX) {
        return 0;
    }
    if (verdict != NPY_OK || !destination->npy.plain) {
        return refuse(destination, "the answer is not an NPY file in C order, little-endian");
    }
    char shape[1600];
    uint64_t data = 0;
    shape_text(&destination->npy.shape, shape, sizeof shape);
    if (check_tensor(destination, tally_dtype_name(destination->npy.dtype), shape) != 0) {
        return -1;
    }
    if (!shape_bytes(&destination->npy.shape, destination->npy.dtype, &data)) {
        return refuse(destination, "the answer's shape %.100s is too large", shape);
    }
    destination->due = destination->npy.bytes + data;
    return put(destination, destination->head, destination->head_bytes);
}

int destination_write(struct destination *destination, uint64_t offset, const void *bytes,
                      size_t count)
{
    const char *from = bytes;
    (void)offset; /* always where the last one ended: destination_check() starts over */
    destination->written += count;
    if (destination->written > destination->due) {
        return refuse(destination, "the answer is longer than %" PRIu64 " bytes",
                      destination->due);
    }
    if (destination->expected.format == FORMAT_JSON) {
        return keep_text(destination, bytes, count);
    }
    if (destination->expected.format == FORMAT_NPY && destination->npy.bytes == 0 &&
        gather_head(destination, &from, &count) != 0) {
        return -1;
    }
    if (destination->written > destination->due) {
        return refuse(destination, "the answer is longer than %" PRIu64 " bytes",
                      destination->due);
    }
    return put(destination, from, count);
}

static int commit_text(struct destination *destination, bool bare)
{
    struct json_text body = {destination->text, destination->text_bytes};
    struct json_text data = {"", 0};
    if (destination->text == NULL || !json_text_member(body, "data", &data)) {
        return refuse(destination, "the answer is not a JSON object with \"data\"");
    }
    if (bare) {
        body = data;
    }
    if (put(destination, body.at, body.count) != 0) {
        return -1;
    }
    return body.count > 0 && body.at[body.count - 1] == '\n' ? 0 : put(destination, "\n", 1);
}

int destination_commit(struct destination *destination, bool bare)
{
    if (destination->expected.format == FORMAT_JSON && commit_text(destination, bare) != 0) {
        return complain(destination->local ? EXIT_LOCAL : EXIT_SERVER, "%s",
                        destination->trouble);
    }
    bool headless = destination->expected.format == FORMAT_NPY && destination->npy.bytes == 0;
    if (headless ||
        (destination->due != UINT64_MAX && destination->written != destination->due)) {
        return complain(EXIT_SERVER, "the answer ended after %" PRIu64 " bytes; try again",
                        destination->written);
    }
    if (destination->fd != STDOUT_FILENO) {
        int closed = close(destination->fd);
        destination->fd = -1;
        if (closed != 0) {
            return complain(EXIT_LOCAL, "%s: %s", destination->name, errno_text());
        }
    }
    if (destination->temporary == NULL) {
        return EXIT_DONE;
    }
    if (rename(destination->temporary, destination->name) != 0) {
        return complain(EXIT_LOCAL, "%s: %s", destination->name, errno_text());
    }
    free(destination->temporary);
    destination->temporary = NULL;
    return EXIT_DONE;
}
