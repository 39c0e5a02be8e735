/* The steps of warm_up.h: which there are, in which state each is, when it is tried again.
 * Private to warm_up*.c. Thread: the worker's. */
#ifndef TALLY_SERVER_WARM_UP_STEPS_H
#define TALLY_SERVER_WARM_UP_STEPS_H

#include "server/log.h"
#include "server/warm_up.h"

enum step_state {
    UNASKED, /* no job has wanted it */
    UNKNOWN, /* whether the cache has it */
    MISSING,
    ASKED,
    DONE,
    PUT_OFF,
    FAILED
};

enum {
    TRIES_MAX = 2, /* children to lose over a kernel before it is put off */
    NO_STEP = WARM_UP_STEPS_MAX
};

/* List the steps of the device, which is open. */
void warm_up_list(struct worker *worker);

/* NO_STEP: there is none. */
size_t warm_up_find(const struct warm_up *warm, const struct scan_build *build);
size_t warm_up_first(const struct warm_up *warm, size_t from, size_t to, enum step_state state);

/* Can jobs not do without its kernel? */
bool warm_up_needed(const struct worker *worker, size_t step);

void warm_up_set(struct worker *worker, size_t step, enum step_state state);

/* It cannot be had now: try again later, after twice as long each time. */
void warm_up_put_off(struct worker *worker, size_t step, const char *why);

/* Steps that were put off long enough are to be done again; those that jobs can do without,
 * when one wants them. */
void warm_up_resume(struct worker *worker, uint64_t now_ns);

/* Log a step, and a failure for /v1/devices as well. */
void warm_up_note(struct worker *worker, enum log_level level, size_t step, const char *what);
void warm_up_note_failure(struct worker *worker, size_t step, const char *why);

#endif
