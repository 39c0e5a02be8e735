/* The file or stream of the result, and of a whole request the check that it is the result that
 * was asked for.
 *
 *   destination_open -> check the head -> write its bytes -> ... -> commit -> close
 *                    |      ^ again in each attempt                  ^
 *                    +-> place bytes that are right ... -----------> finish
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

#define PARTIAL ".partial" /* behind the name of a result: the result so far */

/* What the answer must be. */
struct expectation {
    enum format format;
    const char *dtype;          /* NULL: what the answer says; likewise */
    struct number_list shape;   /* with a count of 0 */
    struct number_list strides; /* of raw numbers, where they do not lie packed */
    const char *member;         /* that JSON has */
    uint64_t json_most; /* of JSON, which is kept in memory: what is longer is no answer */
};

struct destination {
    struct expectation expected;
    int fd;
    const char *name; /* borrowed, NULL: standard output */
    char *temporary;  /* owned: its name until it is complete, NULL if written directly */
    bool stays;       /* under that name, if it is not completed */
    char *kept;       /* owned: a JSON answer whole, or the head of an NPY answer */
    size_t kept_bytes;
    size_t kept_room;
    uint64_t written;
    uint64_t due; /* bytes the answer must have; UINT64_MAX: of NPY, until its head is there */
    char trouble[256]; /* what was wrong, "" if nothing */
    bool local;        /* and that it was wrong here, not with the answer */
};

/* The name that an output's name leads to, in *place: where it is a link to a file, be it there
 * yet or not, that of the file, which is *path, the caller's, else NULL; where that file is
 * standard output already (/dev/stdout), NULL. Else the link would be replaced, not the file.
 * EXIT_DONE, or the status after complaining. */
int destination_follow(const char *name, const char **place, char **path);

/* name NULL or "-": standard output. EXIT_DONE, or the status after complaining. */
int destination_open(const char *name, const struct expectation *expected,
                     struct destination *destination);
/* A file that stays as NAME.partial when the job is not done; `there`: it must be there already.
 * What it has stays until it is cleared. */
int destination_open_partial(const char *name, bool there, struct destination *destination);
/* Refuse a partial file that is not the one with this stamp (checkpoint.h). `begun`: there is more
 * of the job than an empty file; `done`: all, but that the file was not put in its place. */
int destination_check_stamp(const struct destination *destination, uint64_t stamp, bool begun,
                            bool done);
int destination_clear(const struct destination *destination);
/* What was placed is on the disk: EXIT_DONE, or the status after complaining. */
int destination_sync(const struct destination *destination);
/* Discards what was not committed, unless it is to stay. */
void destination_close(struct destination *destination);

/* The head of an answer, again in each attempt, then its bytes in their order; 0, or -1. */
int destination_check(struct destination *destination, const struct tally_answer *answer);
int destination_write(struct destination *destination, const void *bytes, size_t count);

/* The answer is complete: check its length, put it in place. bare: print of JSON the member alone. */
int destination_commit(struct destination *destination, bool bare);

/* Say what went wrong when a function here gave -1: the exit status. */
int destination_complain(const struct destination *destination);

/* Parts of a result: bytes at a place of the file, or the next ones of a stream. 0, or -1. Thread:
 * any for a file; `trouble` is written by who fails. */
int destination_place(struct destination *destination, uint64_t offset, const void *bytes,
                      size_t count);

/* All is written: close it, and put the file in its place. */
int destination_finish(struct destination *destination);

/* Bytes cannot be taken back: standard output, devices. */
bool destination_is_stream(const struct destination *destination);

#endif
