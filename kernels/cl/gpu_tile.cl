/* What the kernels for GPUs share: loading and storing of groups, the network of a group and
 * the chain of a block. The host includes it for the sizes.
 *
 * A lane holds one group of 8 elements in registers, does its Kogge-Stone
 * network there, and gives one total to local memory; one lane a block chains those 32 totals.
 *
 * Needs table.cl before it. Offsets are index_t. */

#define LANES            256
#define GROUP            8
#define GROUPS_PER_BLOCK 32
#define BLOCK (GROUP * GROUPS_PER_BLOCK) /* elements */
#define BLOCKS_PER_SUPERBLOCK 256

/* Of look-back (gpu_lookback.cl): groups of a lane, about 64 bytes of elements, so that enough
 * loads are under way; and its state, in words of 32 bits: the ticket counter in a line of its
 * own, then slots for the sums that work-groups publish. */
#define LANE_GROUPS(bytes) ((bytes) == 8 ? 2 : (bytes) == 4 ? 4 : 8)
#define STATE_HEAD         64
#define SLOT_WORDS         4
/* Bits of -DLOOKBACK_TEST (kernels/testing.h). */
#define TEST_FALLBACK      1 /* every look is in vain but the last */
#define TEST_DELAY         2 /* some tiles take their time before they publish */
#define TEST_OMIT          4 /* some tiles publish nothing, where that is safe: not in place */

#if defined(__OPENCL_C_VERSION__)
/* Place of a group's total in local memory: a gap after each block, so that the lanes that
 * chain blocks side by side use different banks. */
#define SLOT(group)   ((group) + (group) / GROUPS_PER_BLOCK)
#define SLOTS(groups) ((groups) + (groups) / GROUPS_PER_BLOCK)

/* Eight neighbours move in words of 16 bytes (8 for one-byte elements) where aligned. */
#if ELEM_BYTES == 1
typedef uint2 word_t;
#else
typedef uint4 word_t;
#endif
#define GROUP_WORDS (GROUP * ELEM_BYTES / (int)sizeof(word_t))
union group_bytes {
    word_t word[GROUP_WORDS];
    elem_t element[GROUP];
};

/* Offset of the k-th element of the traversal from the line's first. */
static index_t element_at(__global const struct scan_entry *entry, index_t k)
{
    return (entry->flags & ENTRY_REVERSE) != 0 ? (index_t)entry->length - 1 - k : k;
}

/* A whole group, next to each other in memory from `low`, in traversal order. */
static void load_words(__global const elem_t *in, index_t low, int reverse, elem_t e[GROUP])
{
    union group_bytes bytes;
    if (low * ELEM_BYTES % sizeof(word_t) == 0) {
        for (int i = 0; i < GROUP_WORDS; i++) {
            bytes.word[i] = ((__global const word_t *)(in + low))[i];
        }
    } else {
        for (int i = 0; i < GROUP; i++) {
            bytes.element[i] = in[low + (index_t)i];
        }
    }
    for (int i = 0; i < GROUP; i++) {
        e[i] = reverse ? bytes.element[GROUP - 1 - i] : bytes.element[i];
    }
}

static void store_words(__global elem_t *out, index_t low, int reverse, const elem_t e[GROUP])
{
    union group_bytes bytes;
    for (int i = 0; i < GROUP; i++) {
        bytes.element[i] = reverse ? e[GROUP - 1 - i] : e[i];
    }
    if (low * ELEM_BYTES % sizeof(word_t) == 0) {
        for (int i = 0; i < GROUP_WORDS; i++) {
            ((__global word_t *)(out + low))[i] = bytes.word[i];
        }
    } else {
        for (int i = 0; i < GROUP; i++) {
            out[low + (index_t)i] = bytes.element[i];
        }
    }
}

/* Elements first .. first + count of the traversal; what the group lacks is the identity. */
static void load_group(__global const elem_t *in, __global const struct scan_entry *entry,
                       index_t offset, index_t first, uint count, elem_t e[GROUP])
{
    int reverse = (entry->flags & ENTRY_REVERSE) != 0;
    if (count == GROUP && entry->axis_in == 1) { /* one address, known order: wide loads */
        load_words(in, offset + (reverse ? (index_t)entry->length - first - GROUP : first),
                   reverse, e);
        return;
    }
    for (uint i = 0; i < GROUP; i++) {
        e[i] = store_elem(ACC_ZERO);
        if (i < count) {
            e[i] = in[offset + element_at(entry, first + i) * (index_t)entry->axis_in];
        }
    }
}

/* The Kogge-Stone network of docs/design/numerics.md. */
static void group_sums(const elem_t e[GROUP], acc_t q[GROUP])
{
    for (uint i = 0; i < GROUP; i++) {
        q[i] = load_acc(e[i]);
    }
    for (uint d = 1; d < GROUP; d *= 2) {
        for (uint i = GROUP - 1; i >= d; i--) { /* downwards: q[i - d] is not yet added to */
            q[i] = acc_add(q[i - d], q[i]);
        }
    }
}

/* Chain the totals of `groups` groups of one block, the first of them number `first` in local
 * memory: c[g] takes the place of total g. Returns the block's total. */
static acc_t chain_block(__local acc_t *totals, uint first, uint groups)
{
    acc_t c = ACC_ZERO;
    for (uint g = first; g < first + groups; g++) {
        acc_t total = totals[SLOT(g)];
        totals[SLOT(g)] = c;
        c = acc_add(c, total);
    }
    return c;
}

/* B of each of some blocks takes the place of its total, from `b` on; returns their sum. */
static acc_t chain_tile(__local acc_t *totals, uint blocks, acc_t b)
{
    for (uint i = 0; i < blocks; i++) {
        acc_t total = totals[i];
        totals[i] = b;
        b = acc_add(b, total);
    }
    return b;
}

/* Outputs of one group: s and b are S and B of its superblock and block, c the chain before
 * it. */
static void write_group(__global elem_t *out, __global const struct scan_entry *entry,
                        index_t offset, index_t first, uint count, acc_t s, acc_t b, acc_t c,
                        const acc_t q[GROUP])
{
    acc_t base = acc_add(acc_add(s, b), c);
    /* E(k) for the group's first element and, after its last, for the next group's first. */
    acc_t sums[GROUP + 1];
    sums[0] = base;
    for (uint i = 1; i < GROUP; i++) {
        sums[i] = acc_add(base, q[i - 1]);
    }
    acc_t next = acc_add(c, q[GROUP - 1]);
    int block_ends = first / GROUP % GROUPS_PER_BLOCK == GROUPS_PER_BLOCK - 1;
    sums[GROUP] = block_ends ? acc_add(s, acc_add(b, next)) : acc_add(acc_add(s, b), next);
    elem_t e[GROUP];
    for (uint i = 0; i < GROUP; i++) {
        e[i] = store_elem((entry->flags & ENTRY_EXCLUSIVE) != 0 ? sums[i] : sums[i + 1]);
    }
    int reverse = (entry->flags & ENTRY_REVERSE) != 0;
    if (count == GROUP && entry->axis_out == 1) {
        store_words(out, offset + (reverse ? (index_t)entry->length - first - GROUP : first),
                    reverse, e);
        return;
    }
    for (uint i = 0; i < GROUP; i++) {
        if (i < count) {
            out[offset + element_at(entry, first + i) * (index_t)entry->axis_out] = e[i];
        }
    }
}
#endif
