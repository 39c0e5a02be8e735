/* Memory and cores that the machine, its container included, offers this process. Nothing can
 * fail: what cannot be read has no limit. Thread: any. */
#ifndef TALLY_KERNELS_MACHINE_H
#define TALLY_KERNELS_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory that the process could have if it were alone: what the machine has, or the least limit
 * of its control groups. */
uint64_t machine_memory_bytes(void);

/* Memory of the machine, whatever limits there are. */
uint64_t machine_total_bytes(void);

/* Memory that programs may still take: the system's own estimate in /proc/meminfo. Without that file
 * it is the memory of the nodes in /sys that is free or holds copies of files, and without nodes the
 * memory that is free. root: "" but in tests, in front of every path. */
uint64_t machine_free_bytes(const char *root);

/* Memory this process could still take: the least of what the system has available and of what
 * its control groups (v1 or v2) leave. Copies of files that the system keeps count as free. */
uint64_t machine_available_bytes(void);

/* The second part: UINT64_MAX if no group has a limit. root: "" but in tests, in front of every
 * path. */
uint64_t machine_group_bytes_left(const char *root);

/* Cores that this process can keep busy, at least 1: those it may run on (affinity), or what
 * its control groups (v1 or v2) and all above them give it of their time, rounded up, if that
 * is less. Everything else reads --cpus, for which this is the default. */
size_t machine_cores(void);

/* The second part: 0 if no group has a limit. root: "" but in tests, in front of every path. */
size_t machine_quota_cores(const char *root);

/* A whole number on its own in a file (key: NULL), or after `key` at the start of a line.
 * False: there is none, and *value is as it was. */
bool machine_read_number(const char *path, const char *key, uint64_t *value);

#endif
