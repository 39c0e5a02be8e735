/* Program binaries on disk, one file per key. The directory must be ours: a binary is code, so
 * files of other owners, or that others may write, are not read. Whatever is wrong with an
 * entry, it counts as absent; whatever prevents keeping one, the next start builds again.
 * Thread: any; also safe against other processes (temporary file, then rename). */
#ifndef TALLY_KERNELS_CL_CACHE_H
#define TALLY_KERNELS_CL_CACHE_H

#include "proto/macros.h"

#include <stdbool.h>
#include <stddef.h>

/* The binary kept for the key (any text); free() it. NULL if there is none that is whole. */
unsigned char *cl_cache_load(const char *dir, const char *key, size_t *bytes);

/* Keep a binary; makes the directory if its parent exists. */
void cl_cache_store(const char *dir, const char *key, const unsigned char *binary,
                    size_t bytes);

/* Forget the entry. */
void cl_cache_remove(const char *dir, const char *key);

#endif
