/* Makes the kernel cache's directory and points PoCL to it. */
#include "server/kernel_cache.h"

#include "server/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int kernel_cache_prepare(const char *directory)
{
    if (directory[0] == '\0') {
        return 0;
    }
    char pocl[4096];
    int written = snprintf(pocl, sizeof pocl, "%s/pocl", directory);
    if (written < 0 || (size_t)written >= sizeof pocl) {
        return ENAMETOOLONG;
    }
    int failure = machine_make_directory(pocl);
    if (failure == 0) {
        (void)setenv("POCL_CACHE_DIR", pocl, 0); /* NOLINT(concurrency-mt-unsafe) */
    }
    return failure;
}
