/* What the machine, its container included, offers this process. Thread: any. */
#ifndef TALLY_SERVER_MACHINE_H
#define TALLY_SERVER_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* Memory this process could still take: the least of what the system has available and of what
 * its control groups (v1 or v2) leave. */
uint64_t machine_available_bytes(void);

/* Cores that this process can keep busy, at least 1: those it may run on (affinity), or what
 * its control groups (v1 or v2) and all above them give it of their time, rounded up, if that
 * is less. Everything else reads --cpus, for which this is the default. */
size_t machine_cores(void);

/* The second part: 0 if no group has a limit. root: "" but in tests, in front of every path. */
size_t machine_quota_cores(const char *root);

/* Raise the limit of open files to what `files` need, as far as allowed; returns the limit. */
uint64_t machine_raise_open_files(uint64_t files);

/* Make a directory and those above it, private to the user; 0 or an errno. */
int machine_make_directory(const char *path);

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

#endif
