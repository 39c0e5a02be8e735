/* The priority of threads, and the resource usage of this process. Thread: any. */
#ifndef TALLY_SERVER_MACHINE_H
#define TALLY_SERVER_MACHINE_H

#include <stdint.h>

/* Steps of nice(2) for threads with lower priority. */
enum machine_steps {
    MACHINE_BEHIND_HTTP = 5,    /* lower than HTTP threads, whose work is short */
    MACHINE_BEHIND_DEVICES = 10 /* lower than HTTP threads and device threads */
};

/* Lower the priority of the calling thread, and of threads that it creates later (nice(2)). The
 * steps of several calls add up. Does nothing if the system does not allow it. */
void machine_step_back(enum machine_steps steps);

/* Figures for /metrics; 0: the system does not report the figure. */
struct machine_usage {
    uint64_t resident_bytes;
    uint64_t virtual_bytes;
    uint64_t open_files;
    uint64_t max_files;
    uint64_t threads;
    double cpu_seconds;
    double start_time_seconds;   /* start of the process, since the epoch */
    uint64_t memory_total_bytes; /* memory of the machine */
    uint64_t memory_used_bytes;  /* memory of the machine in use */
};
void machine_usage(struct machine_usage *out);

/* Return figures that are at most MACHINE_SAMPLE_NS old. Reading the figures may take longer
 * than a page should take, because the time grows with the number of open descriptors. */
#define MACHINE_SAMPLE_NS UINT64_C(1000000000)
void machine_usage_sampled(uint64_t now_ns, struct machine_usage *out);

#endif
