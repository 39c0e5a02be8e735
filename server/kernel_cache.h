/* The directory of --kernel-cache: our own entries (kernels/cl_cache.h), which carry their
 * checksums, and PoCL's cache below it, which is sealed (cache_seal.h) because it does not.
 * Processes may share the directory: only one that is alone checks the seal. Thread: main. */
#ifndef TALLY_SERVER_KERNEL_CACHE_H
#define TALLY_SERVER_KERNEL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kernel_cache {
    char pocl[4096];  /* PoCL's directory, "" if it is not ours to look after */
    int lock;         /* held as long as PoCL may use the directory, -1: none */
    uint64_t stamp;   /* of what was sealed last */
    uint64_t look_ns; /* when to look again whether something was added */
    size_t removed;   /* damaged or unknown entries found at the start */
};

/* Make the directory ("" for none), remove damaged entries, and have PoCL keep its cache there
 * unless POCL_CACHE_DIR says otherwise. Before any other thread starts: it changes the
 * environment. Returns 0 or an errno; kernel_cache_close() is due either way. */
int kernel_cache_open(struct kernel_cache *cache, const char *directory);

/* Seal what was added; call every now and then, looks every few seconds. */
void kernel_cache_tick(struct kernel_cache *cache, uint64_t now_ns);

void kernel_cache_close(struct kernel_cache *cache);

#endif
