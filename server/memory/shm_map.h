/* Clients' shared memory mapped into the server, for zero copy: a slab over the pages of a
 * region. Pages can be missing at any time (the client truncates the object, or /dev/shm is
 * full); any thread that accesses a missing page, also a thread of an OpenCL driver, gets
 * SIGBUS. The SIGBUS handler maps zero pages from the missing page to the end of the map and
 * marks the map as broken. Then the request that uses the map fails, and the process continues.
 * The previous handler gets every other SIGBUS. Thread: any. */
#ifndef TALLY_SERVER_SHM_MAP_H
#define TALLY_SERVER_SHM_MAP_H

#include "server/memory/memory.h"

#include <stdbool.h>
#include <stdint.h>

struct shm_map; /* opaque */

enum {
    SHM_MAPS_MAX = 1024 /* maximum number of maps of the process */
};

/* Map bytes [offset, offset + bytes) of an open object for reading and writing. Returns NULL if
 * there is no room (in the table of maps, or in SHM_MAP_BYTES_MAX of addresses), or if the
 * system refuses. */
struct shm_map *shm_map_create(int fd, uint64_t offset, uint64_t bytes);
void shm_map_destroy(struct shm_map *map); /* no thread uses the map; NULL is fine */

struct tensor_place shm_map_place(const struct shm_map *map); /* location of the first byte */
bool shm_map_broken(const struct shm_map *map); /* pages were missing, so the content is lost */

#endif
