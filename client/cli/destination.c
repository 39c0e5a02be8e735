/* What is written, and when: a stream as it comes, a file as it comes but under another name, a
 * JSON answer at the end, the head of an NPY answer when it has been understood. What has been
 * written to a file is thrown away when another attempt begins. */
#include "client/cli/destination.h"

#include "client/cli/terminal.h"
#include "client/json_text.h"
#include "client/media_type.h"
#include "proto/npy_header.h"
#include "proto/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SHAPE_TEXT = TALLY_MAX_RANK * 20 + 1
};

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
    char *path = NULL;
    if (asprintf(&path, "%s.XXXXXX", name) < 0) {
        return -1;
    }
    int fd = mkstemp(path);
    if (fd < 0) {
        free(path);
        return -1;
    }
    (void)fchmod(fd, mode);
    *temporary = path;
    return fd;
}

int destination_follow(const char *name, const char **place, char **path)
{
    struct stat link;
    struct stat about;
    struct stat standard;
    *place = name;
    *path = NULL;
    if (name == NULL || strcmp(name, "-") == 0 || lstat(name, &link) != 0 ||
        !S_ISLNK(link.st_mode)) {
        return EXIT_DONE;
    }
    bool there = stat(name, &about) == 0;
    if (there && !S_ISREG(about.st_mode)) {
        return EXIT_DONE;
    }
    if (there && fstat(STDOUT_FILENO, &standard) == 0 && standard.st_dev == about.st_dev &&
        standard.st_ino == about.st_ino) {
        *place = NULL;
        return EXIT_DONE;
    }
    /* What a link leads to has a name once it is there. */
    int fd = there ? -1 : open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    *path = realpath(name, NULL);
    *place = *path;
    if (fd >= 0 && *path != NULL) {
        (void)unlink(*path);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return *path != NULL ? EXIT_DONE : complain(EXIT_LOCAL, "%s: %s", name, errno_text());
}

int destination_open(const char *name, const struct expectation *expected,
                     struct destination *destination)
{
    struct stat about;
    *destination =
        (struct destination){.expected = *expected, .fd = STDOUT_FILENO, .due = UINT64_MAX};
    if (name == NULL || strcmp(name, "-") == 0) {
        bool binary = expected->format == FORMAT_NPY || expected->format == FORMAT_RAW;
        if (binary && isatty(STDOUT_FILENO) == 1) {
            return complain(EXIT_USAGE,
                            "the result is binary and standard output is a terminal: "
                            "use -o FILE, a pipe, or --output-format json");
        }
        return EXIT_DONE;
    }
    destination->name = name;
    bool exists = stat(name, &about) == 0;
    if (exists && !S_ISREG(about.st_mode)) {
        do { /* a pipe's reader may have to be waited for */
            destination->fd = open(name, O_WRONLY | O_CLOEXEC);
        } while (destination->fd < 0 && errno == EINTR && !interrupted());
    } else {
        destination->fd =
            open_beside(name, exists ? about.st_mode & 0777 : 0666 & ~current_umask(),
                        &destination->temporary);
    }
    if (destination->fd < 0) {
        bool beside = !exists || S_ISREG(about.st_mode);
        return interrupted()
                   ? complain(EXIT_INTERRUPTED, "interrupted")
                   : complain(EXIT_LOCAL, "%s%s: %s",
                              beside ? "no file can be made beside " : "", name, errno_text());
    }
    return EXIT_DONE;
}

int destination_open_partial(const char *name, bool there, struct destination *destination)
{
    char *path = NULL;
    if (asprintf(&path, "%s" PARTIAL, name) < 0) {
        return complain_no_memory();
    }
    *destination =
        (struct destination){.name = name, .temporary = path, .stays = true, .due = UINT64_MAX};
    destination->fd = open(path, O_RDWR | O_CLOEXEC | (there ? 0 : O_CREAT), 0666);
    if (destination->fd >= 0 && flock(destination->fd, LOCK_EX | LOCK_NB) != 0 &&
        errno == EWOULDBLOCK) {
        return complain(EXIT_LOCAL, "%s: another tally is writing it", path);
    }
    return destination->fd >= 0 ? EXIT_DONE
                                : complain(EXIT_LOCAL, "%s: %s", path, errno_text());
}

int destination_check_stamp(const struct destination *destination, uint64_t stamp, bool begun,
                            bool done)
{
    uint64_t found = 0;
    const off_t size = lseek(destination->fd, 0, SEEK_END);
    const off_t at = size - (off_t)sizeof found;
    bool stamped = stamp != 0 && at >= 0 &&
                   pread(destination->fd, &found, sizeof found, at) == sizeof found &&
                   found == stamp;
    return stamped || (size == 0 && !begun) || (done && (uint64_t)size == destination->due)
               ? EXIT_DONE
               : complain(EXIT_USAGE,
                          "%s is the result so far of a job with another checkpoint: go on "
                          "with that one by --resume, or remove the file",
                          destination->temporary);
}

int destination_clear(const struct destination *destination)
{
    return ftruncate(destination->fd, 0) == 0
               ? EXIT_DONE
               : complain(EXIT_LOCAL, "%s: %s", destination->temporary, errno_text());
}

int destination_sync(const struct destination *destination)
{
    return fdatasync(destination->fd) == 0
               ? EXIT_DONE
               : complain(EXIT_LOCAL, "%s: %s", destination->temporary, errno_text());
}

void destination_close(struct destination *destination)
{
    if (destination->fd > STDERR_FILENO) {
        (void)close(destination->fd);
    }
    if (destination->temporary != NULL && !destination->stays) {
        (void)unlink(destination->temporary);
    }
    free(destination->temporary);
    free(destination->kept);
}

bool destination_is_stream(const struct destination *destination)
{
    return destination->temporary == NULL && destination->expected.format != FORMAT_JSON;
}

/* ---- what can go wrong ---- */

/* The answer is wrong. */
static int refuse_answer(struct destination *destination, const char *format, ...)
    PRINTF_LIKE(2, 3);
static int refuse_answer(struct destination *destination, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(destination->trouble, sizeof destination->trouble, format, args);
    va_end(args);
    return -1;
}

static int refuse_length(struct destination *destination, uint64_t most)
{
    return refuse_answer(destination, "the answer is longer than %" PRIu64 " bytes", most);
}

int destination_complain(const struct destination *destination)
{
    return interrupted() ? complain(EXIT_INTERRUPTED, "interrupted")
                         : complain(destination->local ? EXIT_LOCAL : EXIT_SERVER, "%s",
                                    destination->trouble);
}

/* The answer may be right, but its place cannot take it. */
static int fail_here(struct destination *destination, const char *why)
{
    destination->local = true;
    return refuse_answer(destination, "%s: %s",
                         destination->name == NULL ? "standard output" : destination->name,
                         why);
}

/* ---- the answer ---- */

static int write_all(struct destination *destination, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t done = write(destination->fd, bytes, count);
        if (done < 0 && errno == EINTR && !interrupted()) {
            continue;
        }
        if (done < 0) {
            return fail_here(destination, errno_text());
        }
        bytes += done;
        count -= (size_t)done;
    }
    return 0;
}

int destination_place(struct destination *destination, uint64_t offset, const void *bytes,
                      size_t count)
{
    const char *from = bytes;
    if (destination->temporary == NULL) {
        return write_all(destination, from, count);
    }
    while (count > 0) {
        ssize_t done = pwrite(destination->fd, from, count, (off_t)offset);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done < 0) {
            return fail_here(destination, errno_text());
        }
        from += done;
        offset += (uint64_t)done;
        count -= (size_t)done;
    }
    return 0;
}

static int keep_bytes(struct destination *destination, const void *bytes, size_t count)
{
    if (destination->kept_bytes + count > destination->kept_room) {
        size_t room = (destination->kept_bytes + count) * 2;
        char *larger = realloc(destination->kept, room);
        if (larger == NULL) {
            return fail_here(destination, "out of memory");
        }
        destination->kept = larger;
        destination->kept_room = room;
    }
    memcpy(destination->kept + destination->kept_bytes, bytes, count);
    destination->kept_bytes += count;
    return 0;
}

/* Type and shape of the answer are those that were expected, and say how many bytes it has. */
static int check_tensor(struct destination *destination, const char *dtype, const char *shape)
{
    const struct expectation *expected = &destination->expected;
    char wanted[SHAPE_TEXT] = "";
    struct number_list sizes = {.count = 0};
    struct tally_scan scan = {.struct_size = sizeof scan};
    text_append_list(wanted, sizeof wanted, expected->shape.numbers, expected->shape.count);
    bool other = (expected->dtype != NULL && strcmp(dtype, expected->dtype) != 0) ||
                 (expected->shape.count > 0 && strcmp(shape, wanted) != 0);
    bool told =
        tally_dtype_find(dtype, &scan.dtype) == 0 && number_list_parse(shape, false, &sizes);
    scan.rank = sizes.count;
    scan.sizes = sizes.numbers;
    if (expected->format == FORMAT_RAW && expected->strides.count == sizes.count) {
        scan.output_strides = expected->strides.numbers;
    }
    if (other || !told || tally_scan_bytes(&scan, NULL, &destination->due, NULL) != TALLY_OK) {
        return refuse_answer(destination,
                             "the answer is \"%.20s\" \"%.60s\", expected %s %.60s", dtype,
                             shape, expected->dtype != NULL ? expected->dtype : "a type",
                             wanted[0] != '\0' ? wanted : "and a shape");
    }
    return 0;
}

int destination_check(struct destination *destination, const struct tally_answer *answer)
{
    const char *wanted = format_content_type(destination->expected.format);
    if (!media_type_is(answer->content_type, wanted)) {
        return refuse_answer(
            destination,
            "the answer's Content-Type is \"%s\", expected %s; is this a Tally server?",
            answer->content_type, wanted);
    }
    if (destination->temporary != NULL && destination->written > 0 &&
        (lseek(destination->fd, 0, SEEK_SET) != 0 || ftruncate(destination->fd, 0) != 0)) {
        return fail_here(destination, errno_text());
    }
    if (destination->expected.format == FORMAT_JSON &&
        answer->content_length > (int64_t)destination->expected.json_most) {
        return refuse_length(destination, destination->expected.json_most);
    }
    destination->written = 0;
    destination->kept_bytes = 0;
    destination->due = UINT64_MAX;
    return destination->expected.format == FORMAT_RAW
               ? check_tensor(destination, answer->dtype, answer->shape)
               : 0;
}

/* Gather the head of an NPY answer; nothing is written before it is understood. */
static int take_npy_head(struct destination *destination, const char **bytes, size_t *count)
{
    struct error err = ERROR_INIT;
    struct npy_header head;
    uint64_t need = 0;
    for (;;) {
        struct byte_view have = {destination->kept, destination->kept_bytes};
        if (npy_header_need(have, &need, &err) != STATUS_OK) {
            return refuse_answer(destination, "the answer is not an NPY file");
        }
        if (need <= have.count) {
            break;
        }
        if (*count == 0) {
            return 0; /* more of it is to come */
        }
        size_t missing = (size_t)need - have.count;
        size_t taken = *count < missing ? *count : missing;
        if (keep_bytes(destination, *bytes, taken) != 0) {
            return -1;
        }
        *bytes += taken;
        *count -= taken;
    }
    struct byte_view whole = {destination->kept, destination->kept_bytes};
    if (npy_header_parse(whole, &head, &err) != STATUS_OK || head.byte_swap ||
        head.fortran_order) {
        return refuse_answer(destination,
                             "the answer is not an NPY file in C order, little-endian");
    }
    char shape[SHAPE_TEXT] = "";
    text_append_list(shape, sizeof shape, head.sizes, head.rank);
    if (check_tensor(destination, tally_dtype_name((enum tally_dtype)head.dtype), shape) != 0) {
        return -1;
    }
    destination->due += whole.count;
    return write_all(destination, whole.bytes, whole.count);
}

int destination_write(struct destination *destination, const void *bytes, size_t count)
{
    const char *from = bytes;
    destination->written += count;
    if (destination->expected.format == FORMAT_NPY && destination->due == UINT64_MAX &&
        take_npy_head(destination, &from, &count) != 0) {
        return -1;
    }
    bool json = destination->expected.format == FORMAT_JSON;
    uint64_t most = json ? destination->expected.json_most : destination->due;
    if (destination->written > most) {
        return refuse_length(destination, most);
    }
    return json ? keep_bytes(destination, from, count) : write_all(destination, from, count);
}

/* ---- the end ---- */

static int write_json(struct destination *destination, bool bare)
{
    struct json_text body = {destination->kept, destination->kept_bytes};
    struct json_text data = {"", 0};
    const char *member = destination->expected.member;
    if (!json_text_is_whole(body) || !json_text_member(body, member, &data)) {
        return refuse_answer(destination, "the answer is not a whole JSON object with \"%s\"",
                             member);
    }
    if (bare) {
        body = data;
    }
    if (write_all(destination, body.at, body.count) != 0) {
        return -1;
    }
    return body.at[body.count - 1] == '\n' ? 0 : write_all(destination, "\n", 1);
}

int destination_commit(struct destination *destination, bool bare)
{
    if (destination->expected.format == FORMAT_JSON) {
        if (write_json(destination, bare) != 0) {
            return destination_complain(destination);
        }
    } else if (destination->written != destination->due) {
        return complain(EXIT_SERVER, "the answer ended after %" PRIu64 " bytes; try again",
                        destination->written);
    }
    return destination_finish(destination);
}

int destination_finish(struct destination *destination)
{
    if (destination->stays && ftruncate(destination->fd, (off_t)destination->due) != 0) {
        return complain(EXIT_LOCAL, "%s: %s", destination->temporary, errno_text());
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
