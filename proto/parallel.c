/* Sequential work divided into steps; see parallel.h. */
#include "proto/parallel.h"

#include <string.h>

enum status parallel_given_up(struct error *err)
{
    return error_set(err, STATUS_CLIENT_GONE, "given up: nobody waits for the result");
}

enum status parallel_copy(const struct parallel *parallel, void *to, const void *from,
                          uint64_t bytes, struct error *err)
{
    /* Copy front to back: if `to` lies before `from`, each step overwrites only bytes that
     * were already copied. */
    for (uint64_t done = 0; done < bytes; done += PARALLEL_STEP_BYTES) {
        if (done > 0 && !parallel_step(parallel)) {
            return parallel_given_up(err);
        }
        memmove((char *)to + done, (const char *)from + done,
                smaller_of(bytes - done, PARALLEL_STEP_BYTES));
    }
    return STATUS_OK;
}

enum status parallel_zero(const struct parallel *parallel, void *to, uint64_t bytes,
                          struct error *err)
{
    for (uint64_t done = 0; done < bytes; done += PARALLEL_STEP_BYTES) {
        if (done > 0 && !parallel_step(parallel)) {
            return parallel_given_up(err);
        }
        memset((char *)to + done, 0, smaller_of(bytes - done, PARALLEL_STEP_BYTES));
    }
    return STATUS_OK;
}
