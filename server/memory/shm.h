/* Clients' POSIX shared memory, enabled by --allow-client-shm. A client creates an object and
 * registers a region of the object. Then the client's requests name windows of the region as
 * input or output.
 *
 * By default the server does not map the object, but copies windows with pread and pwrite. So
 * if a client shrinks the object, the client gets an error, and no SIGBUS ends the server. A
 * tensor cannot change during its scan. With zero copy the devices work in the pages of the
 * object (shm_map.h). A client that shrinks the object gets an error in this case, too. A
 * client that changes the object during the scan only makes its own answer wrong.
 *
 * The server never creates, truncates or unlinks an object, and opens only regular files of the
 * shared memory file system that belong to its own user. All clients share the same regions. If
 * a region is unregistered while requests use it, it is closed after the last of these
 * requests. If closing a region takes long, a temporary thread closes it. Thread: any. */
#ifndef TALLY_SERVER_SHM_H
#define TALLY_SERVER_SHM_H

#include "proto/kserve_pages.h"
#include "proto/scan_call.h"
#include "proto/status.h"
#include "server/memory/memory.h"

#include <stdbool.h>

struct shm_registry; /* opaque */
struct shm_region;   /* opaque; reference-counted */

/* The tensors of a request that may be in shared memory. */
enum shm_use {
    SHM_INPUT,
    SHM_AXIS,
    SHM_OUTPUT,
    SHM_USES
};

struct shm_tensor {
    struct shm_region *region; /* owned reference; NULL: not in shared memory */
    /* zero copy: the memory in which the device works; no slab: the window is copied */
    struct tensor_place in_use;
};

struct shm_options {
    bool zero_copy;         /* --shm-zero-copy */
    size_t max_regions;     /* maximum number of regions; each has an open file descriptor */
    const char *key_prefix; /* borrowed: prefix of all keys; NULL or "": any */
};

MUST_CHECK enum status shm_create(const struct shm_options *options, struct shm_registry **out,
                                  struct error *err);
void shm_destroy(struct shm_registry *registry); /* NULL is fine; acquired regions stay valid */

/* Open the object and register its bytes [offset, offset + byte_size) under a name.
 * in    local   the client is on this machine
 * err   FORBIDDEN: the client is remote, or the object belongs to another user; NOT_FOUND: no
 *       such object; SHM_ERROR: the name is registered, the key is invalid, the region exceeds
 *       the object, or the table is full */
MUST_CHECK enum status shm_register(struct shm_registry *registry,
                                    const struct kserve_shm_region *region, bool local,
                                    struct error *err);

/* Number and bytes of regions. */
struct shm_amount {
    size_t regions;
    uint64_t bytes;
};

/* Unregister the region, or all regions for NULL; unknown names are fine. Returns the amount
 * that was removed. */
struct shm_amount shm_unregister(struct shm_registry *registry, const char *name);

/* Get a reference to the region that a window of a request names.
 * err   NOT_FOUND, SHM_ERROR (the window exceeds the region, or the object has shrunk) */
MUST_CHECK enum status shm_acquire(struct shm_registry *registry,
                                   const struct shm_window *window, struct shm_region **out,
                                   struct error *err);
void shm_release(struct shm_region *region); /* NULL is fine */
/* Release and clear all regions of a request. */
void shm_release_all(struct shm_tensor shm[SHM_USES]);

/* Returns the location of the window for zero copy. Returns a NULL slab if the window must be
 * copied: zero copy is off, the object could not be mapped or has lost pages, or the window
 * does not begin at a multiple of `align` in memory. */
struct tensor_place shm_place(const struct shm_region *region, const struct shm_window *window,
                              size_t align);

enum shm_overlap {
    SHM_APART,
    SHM_SAME, /* both windows begin at the same byte */
    SHM_OVERLAP
};

/* Zero copy: compare the first `a_bytes` and `b_bytes` of two windows. Two regions may belong
 * to the same object. */
enum shm_overlap shm_overlap(const struct shm_region *a, const struct shm_window *a_window,
                             uint64_t a_bytes, const struct shm_region *b,
                             const struct shm_window *b_window, uint64_t b_bytes);

/* After a device has worked in the window, check that no page was missing.
 * err   SHM_ERROR: pages were missing, or the object has shrunk below the window */
MUST_CHECK enum status shm_verify(const struct shm_region *region,
                                  const struct shm_window *window, struct error *err);

/* Copy the first `bytes` bytes of the window from or to shared memory. Blocks for the time of
 * the copy.
 * err   SHM_ERROR: the object has shrunk below the window */
MUST_CHECK enum status shm_read(const struct shm_region *region,
                                const struct shm_window *window, void *to, uint64_t bytes,
                                const struct parallel *parallel, struct error *err);
MUST_CHECK enum status shm_write(const struct shm_region *region,
                                 const struct shm_window *window, const void *from,
                                 uint64_t bytes, const struct parallel *parallel,
                                 struct error *err);

/* List the region `name`, or all regions for NULL: up to `room` regions, in the order of
 * registration. Returns the number of regions that match. */
size_t shm_list(struct shm_registry *registry, const char *name, struct kserve_shm_region *out,
                size_t room);

#endif
