/* How far a job is, in a file: which lanes are done, and the carries of those under way, so
 * that a job that was stopped goes on where it was. It is written beside its name and moved
 * there, so that it is always whole.
 *
 *     [ TALLYJOB ][ stamp ][ bytes of the description ][ description ][ next lane ]
 *     [ lanes under way: their number; each: lane, steps done, bytes of the carry, carry ]
 *     [ CRC-32 ]
 *
 * The stamp is a random number, in which the result so far ends, too: that of another job, or
 * of another run of this one, is not gone on with.
 *
 * Possible failures: a file that is not one, damaged, or of another job, is EXIT_USAGE. Thread:
 * one at a time. */
#ifndef TALLY_CLI_CHECKPOINT_H
#define TALLY_CLI_CHECKPOINT_H

#include "client/tally.h"

#include <stdbool.h>
#include <stdio.h>

enum {
    CHECKPOINT_LANES = 2, /* most lanes under way */
    JOB_TEXT = 4096
};

struct lane_state {
    bool active;
    uint64_t lane;
    uint64_t step; /* of it done */
    void *carry;   /* owned; NULL: none */
    uint64_t carry_bytes;
};

struct checkpoint {
    uint64_t stamp;     /* of the result so far; 0: there is none */
    char job[JOB_TEXT]; /* what must be the same to go on */
    uint64_t next_lane; /* all before it are done, but for those under way */
    struct lane_state lanes[CHECKPOINT_LANES];
    FILE *held; /* owned: the file of that name, locked; NULL: there is none yet */
};

/* EXIT_DONE, or the status after complaining. */
int checkpoint_save(const char *name, struct checkpoint *checkpoint);
/* checkpoint->job says what is expected. */
int checkpoint_load(const char *name, struct checkpoint *checkpoint);

/* Refuse to write one where another file is, or where the result will be, or that another tally
 * writes. Takes over the stamp of the one that is there. */
int checkpoint_check(const char *name, const char *output, struct checkpoint *checkpoint);
/* All lanes are done, of so many. */
bool checkpoint_is_done(const struct checkpoint *checkpoint, uint64_t lanes);
void checkpoint_free(struct checkpoint *checkpoint);

/* So many steps of a lane are done; the carry is copied. */
int checkpoint_note(struct lane_state *state, uint64_t step, const void *carry,
                    uint64_t carry_bytes);

#endif
