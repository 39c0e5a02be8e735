/* The kernels for GPUs: any number of pieces at once, work-groups sharing their lines. A piece
 * goes one of three ways:
 *
 *   LOOKBACK  long contiguous lines in one pass (gpu_lookback.cl): one launch
 *   GPU       reduce, then scan (gpu_reduce.cl): three launches for the sums of blocks, of
 *             superblocks and of lines that are more than a tile, or carry, and the scan itself
 *   GENERIC   so many columns that a work-item each is enough
 *
 * Failures: launcher.h. Thread: that of the device. */
#include "kernels/launcher.h"

#include "kernels/cl/gpu_tile.cl"
#include "proto/macros.h"

enum {
    SPINE_LOCAL_SIZE = 64
};
_Static_assert(SCAN_LOOKBACK_FALLBACK == TEST_FALLBACK && SCAN_LOOKBACK_DELAY == TEST_DELAY &&
                   SCAN_LOOKBACK_OMIT == TEST_OMIT,
               "tests ask for what gpu_lookback.cl does");

/* From where on a way pays (docs/design/kernels.md). */
enum {
    LOOKBACK_FROM = 1 << 15, /* elements of a line: shorter ones are done sooner without */
    GENERIC_FROM = 1 << 15   /* columns or strided lines: a work-item each fills the device */
};

/* ---- tables ---- */

/* Deal the lanes: neighbours along the line where it is contiguous, across lines where not. */
static void deal_lanes(const struct scan_plan *plan, struct scan_entry *entry)
{
    uint64_t groups = scan_ceil_div(plan->axis.size, GROUP);
    bool along = plan->axis.in_stride == 1;
    uint64_t beside = 1; /* lines side by side in a tile that does not hold whole lines */
    if (!along && plan->dims > 0) {
        uint64_t inner = plan->dim[plan->dims - 1].size;
        while (beside < LANES / GROUPS_PER_BLOCK && beside * 2 <= inner) {
            beside *= 2;
        }
    }
    if (groups <= LANES / beside) { /* whole lines, as many as fit */
        entry->tile_groups = groups;
        entry->tile_lines = LANES / groups;
    } else {
        entry->tile_groups = LANES / beside;
        entry->tile_lines = beside;
    }
    entry->tiles = scan_ceil_div(groups, entry->tile_groups);
    entry->line_divisor = along ? entry->tile_groups : 1;
    entry->group_divisor = along ? 1 : entry->tile_lines;
}

static bool carries(const struct scan_piece *piece)
{
    return piece->carry_in || piece->carry_out;
}

/* What follows from the tiles; work-groups of the piece. */
static uint64_t settle_tiles(const struct scan_piece *piece, struct scan_entry *entry)
{
    entry->blocks = scan_ceil_div(entry->length, SCAN_BLOCK);
    entry->superblocks =
        scan_ceil_div(entry->block + entry->blocks, SCAN_SUPERBLOCK / SCAN_BLOCK);
    entry->flags |= entry->tiles > 1 || carries(piece) ? ENTRY_SPINE : 0;
    return scan_ceil_div(entry->lines, entry->tile_lines) * entry->tiles;
}

static uint64_t divide_tiles(const struct scan_piece *piece,
                             const struct scan_division *division, struct scan_entry *entry)
{
    (void)division;
    deal_lanes(piece->plan, entry);
    return settle_tiles(piece, entry);
}

/* Tiles of one contiguous line each, as gpu_lookback.cl has them. */
static uint64_t divide_lookback(const struct scan_piece *piece,
                                const struct scan_division *division, struct scan_entry *entry)
{
    const size_t lane_groups = LANE_GROUPS(dtype_info(piece->plan->dtype)->bytes);
    (void)division;
    entry->tile_groups = lane_groups * LANES;
    entry->tile_lines = 1;
    entry->tiles = scan_ceil_div(scan_ceil_div(entry->length, GROUP), entry->tile_groups);
    return settle_tiles(piece, entry);
}

/* A launch, and what the pieces with a spine, which come first, have together. */
struct spines {
    struct launch_table table;
    cl_uint pieces;
    uint64_t work_groups;
    uint64_t blocks;
    uint64_t superblocks;
    uint64_t lines;
    uint64_t block_bytes; /* of sums in scratch memory */
    uint64_t superblock_bytes;
};

/* The table of a launch, with the places of `pieces` of them in scratch memory. */
static enum status fill_spines(struct launcher *launcher, const struct scan_set *set,
                               scan_divide *divide, size_t pieces, struct spines *spines,
                               struct error *err)
{
    const struct scan_division division = {.set = set};
    struct launch_table *table = &spines->table;
    *spines = (struct spines){.pieces = (cl_uint)pieces};
    TRY(launcher_fill_table(launcher, &division, divide, table, err));
    for (size_t i = 0; i < pieces; i++) {
        struct scan_entry *entry = &table->entries[i];
        entry->first[BY_SUPERBLOCK] = spines->superblocks;
        entry->first[BY_LINE] = spines->lines;
        entry->superblock_at = spines->superblocks;
        entry->block_at = spines->blocks;
        spines->blocks += entry->lines * entry->blocks;
        spines->superblocks += entry->lines * entry->superblocks;
        spines->lines += entry->lines;
    }
    spines->work_groups =
        pieces < set->count ? table->entries[pieces].first[BY_ITEM] : table->items;
    const struct scan_plan *plan = set->pieces[0].plan;
    const size_t sum_bytes = scan_accumulator_bytes(plan->dtype, plan->precision);
    spines->block_bytes = sum_bytes * spines->blocks;
    spines->superblock_bytes = sum_bytes * spines->superblocks;
    return launcher_publish_table(launcher, table, err);
}

/* Let scratch memory hold so many bytes of anything. */
static enum status grow_scratch(const struct opencl *device, struct opencl_buffer *scratch,
                                uint64_t bytes, struct error *err)
{
    TRY(opencl_buffer_grow(device, scratch, bytes, err));
    return opencl_poison(device, scratch->mem, (size_t)scratch->bytes, err);
}

/* ---- reduce, then scan ---- */

/* The sums that lines get from outside their tile: of blocks, of superblocks, of lines. */
static enum status enqueue_spines(struct launcher *launcher, const struct scan_set *set,
                                  const cl_kernel *kernels, const struct spines *spines,
                                  uint32_t *launches, struct error *err)
{
    const struct opencl *device = launcher->device;
    const struct launch_table *table = &spines->table;
    TRY(grow_scratch(device, &launcher->blocks, spines->block_bytes, err));
    TRY(grow_scratch(device, &launcher->superblocks, spines->superblock_bytes, err));
    const struct opencl_arg reduce[] = {OPENCL_ARG(set->in), OPENCL_ARG(launcher->table.mem),
                                        OPENCL_ARG(table->entry_at), OPENCL_ARG(spines->pieces),
                                        OPENCL_ARG(launcher->blocks.mem)};
    const struct opencl_arg superblocks[] = {OPENCL_ARG(launcher->table.mem),
                                             OPENCL_ARG(table->entry_at),
                                             OPENCL_ARG(spines->pieces),
                                             OPENCL_ARG(spines->superblocks),
                                             OPENCL_ARG(launcher->blocks.mem),
                                             OPENCL_ARG(launcher->superblocks.mem),
                                             OPENCL_ARG(set->carry)};
    const struct opencl_arg lines[] = {OPENCL_ARG(launcher->table.mem),
                                       OPENCL_ARG(table->entry_at),
                                       OPENCL_ARG(spines->pieces),
                                       OPENCL_ARG(spines->lines),
                                       OPENCL_ARG(launcher->superblocks.mem),
                                       OPENCL_ARG(set->carry)};
    const struct opencl_launch steps[] = {
        {kernels[SCAN_KERNEL_GPU_REDUCE], reduce, ARRAY_COUNT(reduce),
         spines->work_groups * LANES, LANES},
        {kernels[SCAN_KERNEL_GPU_SUPERBLOCKS], superblocks, ARRAY_COUNT(superblocks),
         spines->superblocks, SPINE_LOCAL_SIZE},
        {kernels[SCAN_KERNEL_GPU_LINES], lines, ARRAY_COUNT(lines), spines->lines,
         SPINE_LOCAL_SIZE},
    };
    for (size_t i = 0; i < ARRAY_COUNT(steps); i++) {
        TRY(opencl_enqueue(device, &steps[i], launches, err));
    }
    return STATUS_OK;
}

/* Do sums come from outside its tiles, or leave them? */
static bool has_spine(const struct scan_piece *piece)
{
    struct scan_entry tiling;
    deal_lanes(piece->plan, &tiling);
    return tiling.tiles > 1 || carries(piece);
}

/* Put the pieces with a spine first; gives their number. */
static size_t order_by_spine(struct scan_piece *pieces, size_t count)
{
    size_t spined = 0;
    for (size_t i = 0; i < count; i++) {
        if (has_spine(&pieces[i])) {
            const struct scan_piece piece = pieces[i];
            pieces[i] = pieces[spined];
            pieces[spined++] = piece;
        }
    }
    return spined;
}

enum status launcher_run_tiles(struct launcher *launcher, const struct scan_set *set,
                               struct scan_type type, uint32_t *launches, struct error *err)
{
    const size_t spined = order_by_spine(launcher->sorted, set->count);
    const cl_kernel *kernels = NULL;
    struct spines spines;
    TRY(programs_find(&launcher->programs, launcher->device, SCAN_VARIANT_GPU, type, &kernels,
                      err));
    TRY(fill_spines(launcher, set, divide_tiles, spined, &spines, err));
    if (spined > 0) {
        TRY(enqueue_spines(launcher, set, kernels, &spines, launches, err));
    }
    const struct opencl_arg args[] = {
        OPENCL_ARG(set->in),
        OPENCL_ARG(set->out),
        OPENCL_ARG(launcher->table.mem),
        OPENCL_ARG(spines.table.entry_at),
        OPENCL_ARG(spines.table.entry_count),
        OPENCL_ARG(launcher->blocks.mem),
        OPENCL_ARG(launcher->superblocks.mem),
    };
    const struct opencl_launch launch = {kernels[SCAN_KERNEL_GPU_SCAN], args, ARRAY_COUNT(args),
                                         spines.table.items * LANES, LANES};
    return opencl_enqueue(launcher->device, &launch, launches, err);
}

/* ---- look-back ---- */

enum status launcher_run_lookback(struct launcher *launcher, const struct scan_set *set,
                                  struct scan_type type, uint32_t *launches, struct error *err)
{
    const struct opencl *device = launcher->device;
    const cl_kernel *kernels = NULL;
    struct spines spines;
    TRY(programs_find(&launcher->programs, launcher->device, SCAN_VARIANT_LOOKBACK, type,
                      &kernels, err));
    TRY(fill_spines(launcher, set, divide_lookback, set->count, &spines, err));
    /* slots for the totals of blocks, then for the S, then for the T of superblocks */
    const cl_ulong anchors_at = spines.blocks;
    const cl_ulong totals_at = anchors_at + spines.superblocks;
    const cl_ulong slots = totals_at + spines.superblocks;
    const uint64_t bytes = (STATE_HEAD + slots * SLOT_WORDS) * sizeof(cl_uint);
    TRY(grow_scratch(device, &launcher->lookback, bytes, err));
    TRY(opencl_fill(device, launcher->lookback.mem, 0, 0, bytes, err));
    const struct opencl_arg args[] = {
        OPENCL_ARG(set->in),
        OPENCL_ARG(set->out),
        OPENCL_ARG(launcher->table.mem),
        OPENCL_ARG(spines.table.entry_at),
        OPENCL_ARG(spines.table.entry_count),
        OPENCL_ARG(anchors_at),
        OPENCL_ARG(totals_at),
        OPENCL_ARG(launcher->lookback.mem),
    };
    const struct opencl_launch launch = {kernels[0], args, ARRAY_COUNT(args),
                                         spines.table.items * LANES, LANES};
    return opencl_enqueue(device, &launch, launches, err);
}

/* ---- choosing ---- */

enum scan_variant_id launcher_choose_for_gpu(const struct launcher *launcher,
                                             const struct scan_piece *piece)
{
    const struct opencl *device = launcher->device;
    const struct scan_plan *plan = piece->plan;
    const bool tried = launcher->looks_back[plan->dtype][plan->precision == PRECISION_NATIVE];
    const uint64_t lookback_from = device->lookback == SCAN_LOOKBACK_ON ? 1
                                   : tried ? (uint64_t)LOOKBACK_FROM
                                           : UINT64_MAX;
    const bool contiguous = scan_dim_is_unit(&plan->axis);
    const bool rows = contiguous && plan->dims <= 1;
    /* a test that asks for the kernels for GPUs by name gets them for every piece */
    if (!rows && plan->lines >= GENERIC_FROM && AID(device, variant) == NULL) {
        return SCAN_VARIANT_GENERIC;
    }
    const bool long_line = contiguous && has_spine(piece) && plan->axis.size >= lookback_from;
    return long_line && !carries(piece) ? SCAN_VARIANT_LOOKBACK : SCAN_VARIANT_GPU;
}
