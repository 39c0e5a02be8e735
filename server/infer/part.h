/* A tensor that is summed in parts along its axis: between the carry that comes, the kernels,
 * and the carry that goes; and the totals of a tensor's superblocks, which are the carry of each.
 *
 * Lines are cut between blocks only (docs/design/numerics.md). A part that begins inside a block
 * has the elements of that block with its carry: they are copied together with the block's rest
 * ("aside"), scanned once more, and what belongs to the part is copied to its output. The whole
 * blocks behind them are scanned where they are, and so is what is left, from which no sums but
 * the elements themselves are handed on:
 *
 *      carry: held | part:  rest of the block | whole blocks ............ | less than a block
 *      [ aside, sums in, sums out           ] [ sums in, sums out       ] [ sums in ]
 *                                                                         [ held of the answer ]
 *
 * Of integers any sum can be handed on anywhere: it is the last output, or that and the last
 * element where sums are exclusive.
 *
 * These are phases, one after the other; slices.c runs them. What goes wrong: there is no memory
 * (OUT_OF_MEMORY, TOO_LARGE). Thread: the owner of the request. */
#ifndef TALLY_SERVER_PART_H
#define TALLY_SERVER_PART_H

#include "kernels/split.h"
#include "server/sched/request.h"

/* How the lines are cut, and the bytes of what lies beside the tensors: what is measured is what is
 * taken. Of totals, nothing comes and there is no output of its own. */
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

/* A run along the axis that is scanned with sums of its lines, in or out. */
struct part_phase {
    struct scan_slicing slicing; /* of a plan of the request, or of struct part */
    size_t in_offset;            /* in the block's slab, of the cell of all indices 0 */
    size_t out_offset;
    uint64_t position; /* as in struct scan_job, of its first elements; 0: no sums come in */
    bool more;         /* sums of its last elements go out */
    unsigned char *sums;
    uint64_t sum_lines;
};

enum {
    PART_PHASES = 3
};

struct part {
    struct part_sizes sizes;
    struct part_phase phases[PART_PHASES];
    int phase_count;
    int phase; /* that is under way */
    struct scan_plan aside;
    struct scan_plan superblocks; /* of totals */
    unsigned char *sums;          /* of the kernels: those of `carry`, or own_sums */
    struct text own_sums;         /* owned: of integers and totals */
    struct text carry;            /* owned: what is to be answered; of floats with their sums */
};

static inline bool part_is_one(const struct request *request)
{
    return request->call.desc.part != SCAN_PART_WHOLE || request->call.totals;
}

/* Memory besides tensors: `aside` of the block, and sums and carries of their own. The request is
 * planned.
 * err   TOO_LARGE */
MUST_CHECK enum status part_measure(const struct request *request, uint64_t *aside,
                                    uint64_t *memory, struct error *err);

/* The input is complete: make the phases, and copy what the scan would overwrite. The memory
 * was reserved.
 * err   OUT_OF_MEMORY, CLIENT_GONE: given up */
MUST_CHECK enum status part_prepare(struct request *request, struct error *err);

/* The part is scanned: complete its output, and make the carry the head of the answer. err
 * CLIENT_GONE: given up */
MUST_CHECK enum status part_finish(struct request *request, struct error *err);

void part_destroy(struct part *part, struct memory *memory); /* NULL is fine */

/* Make `count` sums of `bytes` bytes what a carry has. Hardware disagrees about the sign and
 * payload of a NaN: they are not kept. Here for tests, as all below. */
void part_sums_settle(void *sums, size_t bytes, uint64_t count);

/* `bytes` bytes, little-endian. */
uint64_t part_load(const void *at, size_t bytes);

#endif
