/* What this process uses of the machine. Thread: any. */
#ifndef TALLY_SERVER_MACHINE_H
#define TALLY_SERVER_MACHINE_H

#include <stdint.h>

/* Whom a thread lets go first, in steps of nice(2). */
enum machine_steps {
    MACHINE_BEHIND_HTTP = 5,    /* HTTP threads, which begin what is short and end it */
    MACHINE_BEHIND_DEVICES = 10 /* device threads, too, which are behind these */
};

/* Let other threads of this process have the processor before the calling one (nice(2)), and
 * before those that it creates from now on. Each call adds to what was. Where the system does
 * not allow it nothing happens. */
void machine_step_back(enum machine_steps steps);

/* Figures for /metrics; 0 where the system does not tell. */
struct machine_usage {
    uint64_t resident_bytes;
    uint64_t virtual_bytes;
    uint64_t open_files;
    uint64_t max_files;
    uint64_t threads;
    double cpu_seconds;
    double start_time_seconds;   /* since the epoch */
    uint64_t memory_total_bytes; /* of the machine */
    uint64_t memory_used_bytes;
};
void machine_usage(struct machine_usage *out);

/* The same figures, at most MACHINE_SAMPLE_NS old: the system takes longer to tell them than a page
 * may take, and longer the more descriptors are open. */
#define MACHINE_SAMPLE_NS UINT64_C(1000000000)
void machine_usage_sampled(uint64_t now_ns, struct machine_usage *out);

#endif
