/* Clients' shared memory mapped into the server, for zero copy: a slab over the pages of a
 * region. The client can take pages away at any time (truncate, or a full /dev/shm); whoever
 * touches such a page, be it a thread of an OpenCL driver, gets SIGBUS. Its handler puts pages
 * of zeroes in their place, from there to the end of the map, and marks the map broken: the
 * request that used it fails, and the process goes on. A SIGBUS anywhere else takes its usual
 * course. Thread: any. */
#ifndef TALLY_SERVER_SHM_MAP_H
#define TALLY_SERVER_SHM_MAP_H

#include "server/memory/memory.h"

#include <stdbool.h>
#include <stdint.h>

struct shm_map; /* opaque */

enum {
    SHM_MAPS_MAX = 1024 /* at a time, in the process */
};

/* Map bytes [offset, offset + bytes) of an open object for reading and writing. NULL: no room
 * (in the table of maps, or in SHM_MAP_BYTES_MAX of addresses), or the system refuses. */
struct shm_map *shm_map_create(int fd, uint64_t offset, uint64_t bytes);
void shm_map_destroy(struct shm_map *map); /* nobody uses it any more; NULL is fine */

struct tensor_place shm_map_place(const struct shm_map *map); /* of the first byte */
bool shm_map_broken(const struct shm_map *map); /* pages were missing: what it holds is lost */

#endif
