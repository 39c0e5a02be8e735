/* Where the result goes, and the check that it is the result that was asked for.
 *
 * A file is written beside its final name and moved there when it is complete, so a failed call
 * leaves an existing file alone and in.npy can be its own output. */
#ifndef TALLY_CLI_DESTINATION_H
#define TALLY_CLI_DESTINATION_H

#include "client/cli/npy.h"

enum format {
    FORMAT_NONE,
    FORMAT_NPY,
    FORMAT_RAW,
    FORMAT_JSON
};

/* What the answer must be. */
struct expectation {
    enum format format;
    bool known; /* dtype and shape were known beforehand */
    enum tally_dtype dtype;
    struct number_list shape;
    bool padded; /* output strides: the length is the server's to say */
};

struct destination {
    struct expectation expected;
    int fd;
    const char *name; /* borrowed, NULL: standard output */
    char
        *temporary; /* owned: its name until the result is complete, NULL if written directly */
    char *text;     /* owned: a JSON answer, kept whole */
    size_t text_bytes;
    size_t text_room;
    char *head; /* owned: start of an NPY answer, [NPY_HEAD_MAX] */
    size_t head_bytes;
    struct npy_head npy; /* once parsed: bytes > 0 */
    uint64_t written;
    uint64_t due;      /* bytes the answer must have; UINT64_MAX: unknown */
    char trouble[256]; /* what was wrong, "" if nothing */
    bool local;        /* and that it was wrong here, not with the answer */
};

/* name NULL or "-": standard output. EXIT_DONE, or the status after complaining. */
int destination_open(const char *name, const struct expectation *expected,
                     struct destination *destination);
/* Discards what was not committed. */
void destination_close(struct destination *destination);

/* The callbacks of struct tally_request. */
int destination_check(struct destination *destination, const struct tally_answer *answer);
int destination_write(struct destination *destination, uint64_t offset, const void *bytes,
                      size_t count);

/* The answer is complete: check its length, put it in place. bare: print only JSON's "data". */
int destination_commit(struct destination *destination, bool bare);

/* Bytes cannot be taken back: standard output, devices. */
bool destination_is_stream(const struct destination *destination);

const char *format_content_type(enum format format);

#endif
