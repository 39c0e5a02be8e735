/* Memory and cores that the machine and its control groups allow this process. No function
 * fails: a limit that cannot be read counts as no limit. Thread: any. */
#ifndef TALLY_KERNELS_MACHINE_H
#define TALLY_KERNELS_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `root` is a prefix of every path that a function reads: "" in the product. */

/* Returns the memory limit of the process: the machine's memory, or the least limit of its
 * control groups. */
uint64_t machine_memory_bytes(void);

/* Returns the memory of the machine, without regard to limits. */
uint64_t machine_total_bytes(void);

/* Returns the memory that programs may still allocate: the system's estimate in /proc/meminfo.
 * Without that file it is the memory of the nodes in /sys that is free or caches files, and
 * without nodes the free memory. */
uint64_t machine_free_bytes(const char *root);

/* Returns the memory that this process may still allocate: the lesser of machine_free_bytes()
 * and machine_group_bytes_left(). */
uint64_t machine_available_bytes(void);

/* Returns the least memory left in the control groups (v1 or v2), cached files counted as free;
 * UINT64_MAX if no group has a limit. */
uint64_t machine_group_bytes_left(const char *root);

/* Returns the number of cores that this process can keep busy, at least 1: the lesser of its
 * affinity and machine_quota_cores(). The result is the default of --cpus; all other code uses
 * the value of --cpus. */
size_t machine_cores(void);

/* Returns the least CPU quota of the control groups (v1 or v2) and their parents, in cores,
 * rounded up; 0 if no group has a limit. */
size_t machine_quota_cores(const char *root);

/* Read a whole number that is alone in a file (key: NULL), or follows `key` at the start of a
 * line. Returns false, and does not change *value, if the file has no such number. */
bool machine_read_number(const char *path, const char *key, uint64_t *value);

#endif
