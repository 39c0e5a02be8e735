/* Clients' POSIX shared memory, behind --allow-client-shm: a client registers an object it
 * created, then names windows of it as input or output of a request.
 *
 * The server never maps the object: it copies windows in and out with pread and pwrite, so that
 * a client that shrinks the object gets an error instead of killing the server with SIGBUS, and
 * one that changes it while the request runs changes only its own answer. It never creates,
 * truncates or unlinks an object, and opens only regular files of the shared memory file system
 * that belong to its own user: all clients see the same regions.
 * A region in use stays open after it is unregistered until its last user is done.
 * Thread: any. */
#ifndef TALLY_SERVER_SHM_H
#define TALLY_SERVER_SHM_H

#include "proto/kserve_pages.h"
#include "proto/scan_call.h"
#include "proto/status.h"

#include <stdbool.h>

struct shm_registry; /* opaque */
struct shm_region;   /* opaque, counted */

struct shm_options {
    bool enabled;       /* --allow-client-shm */
    size_t max_regions; /* each holds a file descriptor */
    uint64_t max_bytes; /* sum of all regions */
    const char
        *key_prefix; /* keys must begin with it; NULL or "": any. Outlives the registry */
};

MUST_CHECK enum status shm_create(const struct shm_options *options, struct shm_registry **out,
                                  struct error *err);
void shm_destroy(struct shm_registry *registry); /* NULL is fine; regions in use live on */

bool shm_enabled(const struct shm_registry *registry);

/* Open the object and remember [offset, offset + byte_size) of it under a name.
 * in    local   the client is on this machine
 * err   UNSUPPORTED: shared memory is off; FORBIDDEN: the peer is remote, or the object belongs
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
 * err   UNSUPPORTED, NOT_FOUND, SHM_ERROR (outside the region, or the object has shrunk) */
MUST_CHECK enum status shm_acquire(struct shm_registry *registry,
                                   const struct shm_window *window, struct shm_region **out,
                                   struct error *err);
void shm_release(struct shm_region *region); /* NULL is fine */

/* Copy the window's first `bytes` out of or into shared memory; blocks for the time of a copy.
 * err   SHM_ERROR: the object has shrunk below the window */
MUST_CHECK enum status shm_read(const struct shm_region *region,
                                const struct shm_window *window, void *to, uint64_t bytes,
                                struct error *err);
MUST_CHECK enum status shm_write(const struct shm_region *region,
                                 const struct shm_window *window, const void *from,
                                 uint64_t bytes, struct error *err);

/* Up to `room` regions in order of registration; returns how many there are. `name` picks one,
 * NULL all. */
size_t shm_list(struct shm_registry *registry, const char *name, struct kserve_shm_region *out,
                size_t room);

#endif
