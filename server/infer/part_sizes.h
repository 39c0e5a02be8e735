/* What a part, or a request for totals, comes to: how its lines are cut, and the bytes of what
 * lies beside the tensors. The one place where that is counted: part.c and part_totals.c follow
 * it. Pure; thread: any; nothing but lengths beyond 63 bits can go wrong. */
#ifndef TALLY_SERVER_PART_SIZES_H
#define TALLY_SERVER_PART_SIZES_H

#include "server/sched/request.h"

/* Of totals, nothing comes and there is no output of its own. */
struct part_sizes {
    enum dtype dtype;
    bool is_float;
    bool totals;
    bool hands_on; /* a carry is answered */
    size_t element_bytes;
    size_t sum_bytes; /* of one sum, as kernels have it */
    uint64_t lines;
    uint64_t elements;        /* along the axis */
    uint64_t held;            /* of a line, that came */
    uint64_t head;            /* of a line, that go aside behind these */
    uint64_t block_elements;  /* in the whole blocks behind that, or in all that follows */
    uint64_t tail;            /* elements less than a block, from which nothing is handed on */
    uint64_t superblocks;     /* totals: whole ones */
    uint64_t totals_per_line; /* of these, and of what is left */
    uint64_t aside_bytes;     /* in the block */
    uint64_t sum_count;       /* of S, and of B */
    uint64_t both_sums_bytes;
    uint64_t carry_bytes; /* to answer */
    bool sums_apart;      /* the kernels' sums are in memory of their own, not in a carry */
    uint64_t carry_room_bytes; /* as it comes and goes, and CARRY_ROOM behind it */
};

/* False: more than can be addressed. */
MUST_CHECK bool part_sizes_of(const struct request *request, struct part_sizes *out);

#endif
