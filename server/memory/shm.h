/* Clients' POSIX shared memory, behind --allow-client-shm: a client registers an object it
 * created, then names windows of it as input or output of a request.
 *
 * By default the server does not map the object: it copies windows in and out with pread and
 * pwrite, so that a client that shrinks the object gets an error instead of killing the server
 * with SIGBUS, and what is summed cannot change meanwhile. With zero copy the devices work in
 * the object's own pages (shm_map.h): one that shrinks then is an error, too, and one that
 * changes spoils its client's answer, no more.
 * The server never creates, truncates or unlinks an object, and opens only regular files of the
 * shared memory file system that belong to its own user: all clients see the same regions.
 * A region in use stays open after it is unregistered until its last user is done. One that is
 * large, or many at once, are closed in a thread of their own, for no longer than that takes.
 * Thread: any. */
#ifndef TALLY_SERVER_SHM_H
#define TALLY_SERVER_SHM_H

#include "proto/kserve_pages.h"
#include "proto/scan_call.h"
#include "proto/status.h"
#include "server/memory/memory.h"

#include <stdbool.h>

struct shm_registry; /* opaque */
struct shm_region;   /* opaque, counted */

/* The tensors of a request that may lie in shared memory. */
enum shm_use {
    SHM_INPUT,
    SHM_AXIS,
    SHM_OUTPUT,
    SHM_USES
};

/* Where one of them lies. */
struct shm_tensor {
    struct shm_region *region;  /* held; NULL: not in shared memory */
    struct tensor_place in_use; /* zero copy: the device works there; else it is copied */
};

struct shm_options {
    bool zero_copy;         /* --shm-zero-copy */
    size_t max_regions;     /* each holds a file descriptor */
    const char *key_prefix; /* of all keys; NULL or "": any. Outlives the registry */
};

MUST_CHECK enum status shm_create(const struct shm_options *options, struct shm_registry **out,
                                  struct error *err);
void shm_destroy(struct shm_registry *registry); /* NULL is fine; regions in use live on */

/* Open the object and remember [offset, offset + byte_size) of it under a name.
 * in    local   the client is on this machine
 * err   FORBIDDEN: the peer is remote, or the object belongs
 *       to another user; NOT_FOUND: no such object; SHM_ERROR: name taken, bad key, window
 *       outside the object, table full */
MUST_CHECK enum status shm_register(struct shm_registry *registry,
                                    const struct kserve_shm_region *region, bool local,
                                    struct error *err);

/* How much is, or was, registered. */
struct shm_amount {
    size_t regions;
    uint64_t bytes;
};

/* Forget the region, or all for NULL; unknown names are fine. Returns what was forgotten. */
struct shm_amount shm_unregister(struct shm_registry *registry, const char *name);

/* Hold the region that a window of a request names.
 * err   NOT_FOUND, SHM_ERROR (outside the region, or the object has shrunk) */
MUST_CHECK enum status shm_acquire(struct shm_registry *registry,
                                   const struct shm_window *window, struct shm_region **out,
                                   struct error *err);
void shm_release(struct shm_region *region); /* NULL is fine */
/* All of a request's, which has none then. */
void shm_release_all(struct shm_tensor shm[SHM_USES]);

/* Zero copy: where the window lies. Nowhere, if it has to be copied: zero copy is off, the
 * object could not be mapped or lost pages since, or the window does not begin at a multiple of
 * `align` in memory. */
struct tensor_place shm_place(const struct shm_region *region, const struct shm_window *window,
                              size_t align);

enum shm_overlap {
    SHM_APART,
    SHM_SAME, /* they begin with the same byte */
    SHM_OVERLAP
};

/* Zero copy: how the first `a_bytes` and `b_bytes` of two windows lie in the objects behind them,
 * which may be one object under two names. */
enum shm_overlap shm_overlap(const struct shm_region *a, const struct shm_window *a_window,
                             uint64_t a_bytes, const struct shm_region *b,
                             const struct shm_window *b_window, uint64_t b_bytes);

/* After a device worked there: the window was whole all the time.
 * err   SHM_ERROR: pages were missing, or the object has shrunk below the window */
MUST_CHECK enum status shm_verify(const struct shm_region *region,
                                  const struct shm_window *window, struct error *err);

/* Copy the window's first `bytes` out of or into shared memory; blocks for the time of a copy.
 * err   SHM_ERROR: the object has shrunk below the window */
MUST_CHECK enum status shm_read(const struct shm_region *region,
                                const struct shm_window *window, void *to, uint64_t bytes,
                                const struct parallel *parallel, struct error *err);
MUST_CHECK enum status shm_write(const struct shm_region *region,
                                 const struct shm_window *window, const void *from,
                                 uint64_t bytes, const struct parallel *parallel,
                                 struct error *err);

/* Up to `room` regions in order of registration; returns how many there are. `name` picks one,
 * NULL all. */
size_t shm_list(struct shm_registry *registry, const char *name, struct kserve_shm_region *out,
                size_t room);

#endif
