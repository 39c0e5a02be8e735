/* Medians of measured times; see pace.h. */
#include "server/sched/pace.h"

#include "proto/macros.h"

enum {
    /* A sample of one parameter is the measured time minus the estimated share of the other
     * parameter. That estimate may be too high, so the difference counts as at least
     * 1/LEAST_PART of the measured time. */
    LEAST_PART = 16
};

static void window_add(struct pace_window *window, double sample)
{
    double sorted[PACE_SAMPLES] = {0};
    unsigned count = 0;
    window->samples[window->next] = sample;
    window->next = (window->next + 1) % PACE_SAMPLES;
    window->count += window->count < PACE_SAMPLES;
    for (unsigned i = 0; i < window->count; i++) { /* insertion sort */
        unsigned at = count++;
        for (; at > 0 && sorted[at - 1] > window->samples[i]; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = window->samples[i];
    }
    window->median = sorted[count / 2];
}

/* Set all samples to the result of a trial, so that a single later batch does not replace
 * it. */
static void window_fill(struct pace_window *window, double sample)
{
    *window = (struct pace_window){.count = 0};
    for (int i = 0; i < PACE_SAMPLES; i++) {
        window_add(window, sample);
    }
}

static double remainder_ns(double took_ns, double other_ns)
{
    const double least = took_ns / LEAST_PART;
    return took_ns - other_ns > least ? took_ns - other_ns : least;
}

void pace_add_trial(struct pace *pace, enum pace_kind kind, const struct pace_trial *trial,
                    bool anew)
{
    struct pace_line *line = &pace->kinds[kind];
    const double slope = remainder_ns((double)trial->large_ns, (double)trial->small_ns) /
                         (double)(trial->large_cost_ns - trial->small_cost_ns);
    const double fixed_ns =
        remainder_ns((double)trial->small_ns, slope * (double)trial->small_cost_ns);
    void (*const add)(struct pace_window *, double) = anew ? window_fill : window_add;
    add(&line->slope, slope);
    add(&line->fixed_ns, fixed_ns);
}

void pace_add_batch(struct pace *pace, enum pace_kind kind, uint64_t cost_ns, uint64_t took_ns)
{
    struct pace_line *line = &pace->kinds[kind];
    const double fixed_ns = pace_fixed_ns(pace, kind);
    const double scan_ns = pace_slope(pace, kind) * (double)larger_of(cost_ns, 1);
    if (scan_ns < fixed_ns) {
        window_add(&line->fixed_ns, remainder_ns((double)took_ns, scan_ns));
    } else {
        window_add(&line->slope,
                   remainder_ns((double)took_ns, fixed_ns) / (double)larger_of(cost_ns, 1));
    }
}

bool pace_is_measured(const struct pace *pace, enum pace_kind kind)
{
    return pace->kinds[kind].slope.count > 0;
}

double pace_fixed_ns(const struct pace *pace, enum pace_kind kind)
{
    const struct pace_window *window = &pace->kinds[kind].fixed_ns;
    return window->count > 0 ? window->median : 0;
}

double pace_slope(const struct pace *pace, enum pace_kind kind)
{
    const struct pace_window *window = &pace->kinds[kind].slope;
    return window->count > 0 ? window->median : 1;
}

uint64_t pace_batch_ns(const struct pace *pace, enum pace_kind kind, uint64_t cost_ns)
{
    const double ns = pace_fixed_ns(pace, kind) + pace_slope(pace, kind) * (double)cost_ns;
    return ns < (double)(INT64_MAX / 2) ? (uint64_t)ns : INT64_MAX / 2;
}
