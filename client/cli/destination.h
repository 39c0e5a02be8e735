/* Where the result goes, and the check that it is the result that was asked for.
 *
 *   destination_open -> check the head -> write its bytes -> ... -> commit -> close
 *                           ^ again in each attempt
 *
 * A file is written beside its final name and moved there when it is complete, so a failed call
 * leaves an existing file alone and in.npy can be its own output. A JSON answer is kept whole
 * and written at the end.
 *
 * Failure: the callbacks return -1 and leave in `trouble` what was wrong; the others complain.
 * Thread: the main one. */
#ifndef TALLY_CLI_DESTINATION_H
#define TALLY_CLI_DESTINATION_H

#include "client/cli/format.h"
#include "client/cli/options.h"

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
    char *temporary;  /* owned: its name until it is complete, NULL if written directly */
    char *kept;       /* owned: a JSON answer whole, or the head of an NPY answer */
    size_t kept_bytes;
    size_t kept_room;
    bool npy_parsed; /* the head of the NPY answer is complete, and right */
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

/* The head of an answer, again in each attempt, then its bytes in their order; 0, or -1. */
int destination_check(struct destination *destination, const struct tally_answer *answer);
int destination_write(struct destination *destination, const void *bytes, size_t count);

/* The answer is complete: check its length, put it in place. bare: print only JSON's "data". */
int destination_commit(struct destination *destination, bool bare);

/* Bytes cannot be taken back: standard output, devices. */
bool destination_is_stream(const struct destination *destination);

/* Elements of a shape times element size; false on overflow. */
bool shape_bytes(const struct number_list *shape, enum tally_dtype dtype, uint64_t *bytes);

#endif
