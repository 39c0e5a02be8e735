/* The directory of --kernel-cache: our own entries (kernels/cl_cache.h), which carry their
 * checksums, and PoCL's cache below it, which is sealed (cache_seal.h) because it does not.
 * PoCL always works in a directory of our own: where the operator has set POCL_CACHE_DIR that
 * is `tally` below it, and without a kernel cache the same below the directory that PoCL would
 * use. What other programs keep there is neither trusted nor touched.
 *
 * Processes may share the directory: only one that is alone checks the seal. Thread: main, but
 * for kernel_cache_room(). */
#ifndef TALLY_SERVER_KERNEL_CACHE_H
#define TALLY_SERVER_KERNEL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kernel_cache {
    char pocl[4096];   /* PoCL's directory, "" if it has none of our own */
    int lock;          /* held as long as PoCL may use the directory, -1: none */
    uint64_t stamp;    /* of what was sealed last */
    uint64_t look_ns;  /* when to look again whether something was added */
    uint64_t sweep_ns; /* when to remove again what dead compilers left */
    size_t removed;    /* damaged or unknown entries found at the start */
};

/* Make the directory ("" for none) and PoCL's, remove damaged entries, and tell PoCL where to
 * keep its cache. Before any other thread starts: it changes the environment.
 * returns 0 or an errno: why nothing can be kept in the directory, for now (see
 * kernel_cache_is_full()) or at all; kernel_cache_close() is due either way */
int kernel_cache_open(struct kernel_cache *cache, const char *directory);

/* An errno that there is no room, which may change: a full disk, a quota, a limit. */
bool kernel_cache_is_full(int failure);

/* Could a file of so many bytes be written in the directory now? Tries it, for tens of
 * microseconds. Returns 0 or an errno; 0 for "". Thread: any. */
int kernel_cache_room(const char *directory, size_t bytes);

/* Seal what was added; call every now and then, looks every few seconds. */
void kernel_cache_tick(struct kernel_cache *cache, uint64_t now_ns);

void kernel_cache_close(struct kernel_cache *cache);

#endif
