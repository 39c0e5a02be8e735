/* How far apart two names are: for "did you mean". Pure; thread: any. */
#ifndef TALLY_PROTO_EDIT_DISTANCE_H
#define TALLY_PROTO_EDIT_DISTANCE_H

#include <stddef.h>

enum {
    EDIT_DISTANCE_MAX = 64 /* what is further apart is so far */
};

/* Number of single-character edits that turn a into b; EDIT_DISTANCE_MAX if b is longer than
 * that. */
size_t edit_distance(const char *a, const char *b);

#endif
