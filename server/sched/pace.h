/* The pace of a device: the measured time of its batches, transfers included.
 *
 *     time of a batch = fixed + slope * cost
 *
 * `cost` is the estimated time of the batch on one thread (line.h), so a slope of 0.25 means
 * that the device is four times as fast as the estimate. `fixed` is the time of a launch and of
 * its smallest transfers. Integers and floats have separate parameters, because exact sums of
 * floats take several times as long on a processor, and this ratio differs between devices.
 *
 * Each parameter is the median of its last PACE_SAMPLES measurements, so two outliers among
 * five measurements (the process was stopped, a thread got no processor) do not change the
 * estimate, and a lasting change is detected after three batches. A batch whose estimate is
 * mostly `fixed` measures `fixed`, any other batch measures the slope.
 *
 * Until a device is measured, the estimated time of a batch is its cost.
 * Failure: none. Thread: a holder of the lock of the queue, which guards every record. */
#ifndef TALLY_SERVER_PACE_H
#define TALLY_SERVER_PACE_H

#include "proto/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PACE_SAMPLES = 5
};

enum pace_kind {
    PACE_INTEGERS,
    PACE_FLOATS,
    PACE_KINDS
};

struct pace_window {
    double samples[PACE_SAMPLES]; /* a ring */
    unsigned count;               /* number of samples */
    unsigned next;                /* index of the oldest sample, once the ring is full */
    double median;                /* valid if count > 0 */
};

/* All fields zero: not measured. */
struct pace {
    struct pace_line {
        struct pace_window fixed_ns;
        struct pace_window slope; /* measured nanoseconds per estimated nanosecond */
    } kinds[PACE_KINDS];
};

static inline enum pace_kind pace_kind_of(enum dtype dtype)
{
    return dtype_is_float(dtype) ? PACE_FLOATS : PACE_INTEGERS;
}

/* Two measured scans of the device, a small one and a large one. */
struct pace_trial {
    uint64_t small_cost_ns; /* estimated */
    uint64_t small_ns;      /* measured */
    uint64_t large_cost_ns; /* more than small_cost_ns */
    uint64_t large_ns;
};

/* Add a trial as one sample of each parameter. anew: forget all earlier measurements. */
void pace_add_trial(struct pace *pace, enum pace_kind kind, const struct pace_trial *trial,
                    bool anew);

/* Add a batch of this cost that took took_ns. */
void pace_add_batch(struct pace *pace, enum pace_kind kind, uint64_t cost_ns, uint64_t took_ns);

bool pace_is_measured(const struct pace *pace, enum pace_kind kind);

/* Return the parameters: 0 and 1 until they are measured. */
double pace_fixed_ns(const struct pace *pace, enum pace_kind kind);
double pace_slope(const struct pace *pace, enum pace_kind kind);

/* Returns the estimated time of a batch. */
uint64_t pace_batch_ns(const struct pace *pace, enum pace_kind kind, uint64_t cost_ns);

#endif
