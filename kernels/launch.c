/* Chooses a kernel variant for each piece of a set, and launches each variant once for all of
 * its pieces. The kernels for GPUs process any number of pieces in one launch, and their
 * work-groups share lines. On a GPU a piece of integers runs by one of the first three variants,
 * a piece of floats by the last one:
 *
 *   LOOKBACK     long contiguous lines in one pass (gpu_lookback.cl): one launch
 *   GPU          reduce, then scan (gpu_scan.cl): the scan itself, after two launches for the sums
 *                before tiles if a line exceeds a tile or has a carry
 *   GENERIC      one work-item a line, for enough columns to fill the device
 *   EXACT_GPU    reduce, then scan (gpu_exact.cl), and the same again for the lines that these leave
 *
 * A table has an entry for each piece, then a row for each dimension of the pieces, then the
 * totals of partitions (partition.cl). Failures: launcher.h. Thread: that of the
 * device. */
#include "kernels/launcher.h"

#include "kernels/cl/gpu_tile.cl"
#include "proto/macros.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(SCAN_LOOKBACK_FALLBACK == TEST_FALLBACK && SCAN_LOOKBACK_DELAY == TEST_DELAY &&
                   SCAN_LOOKBACK_OMIT == TEST_OMIT,
               "tests ask for what gpu_lookback.cl does");

/* Work-items per work-group. The sizes are fixed, because PoCL recompiles a kernel during the
 * launch for each new size, and for launches of 65535 work-items or more. */
enum {
    LOCAL_SIZE_CPU = 4,
    LOCAL_SIZE_GPU = 64,      /* for kernels without tiles */
    GENERIC_ITEMS_CPU = 65000 /* approximate work-items of a launch of the generic kernel */
};

/* Limits of a launch that the built-in driver runs as one work-group, in the thread that waits
 * for the launch: waking another thread would cost more. Other drivers would recompile the
 * kernel for each size of work-group. */
enum {
    ONE_GROUP_BYTES = 64 << 10, /* some ten microseconds of work, about one thread wake-up */
    ONE_GROUP_ITEMS = 1 << 14
};

/* Sizes from which on a GPU variant is faster (docs/design/kernels.md). */
enum {
    LOOKBACK_FROM = 1 << 15, /* elements of a line */
    GENERIC_FROM = 1 << 15   /* columns or strided lines: one work-item each fills the device */
};

/* ---- room for tables ---- */

enum {
    TABLE_BYTES = 256 << 10, /* minimum size */
    TABLE_ALIGN = 4096,
    RANGE_ALIGN = 64
};

void launcher_drop_table(struct launcher *launcher)
{
    struct table *table = &launcher->table;
    opencl_release(&table->mem);
    free(table->host);
    *table = (struct table){.host = NULL};
}

/* Replace the table by one of twice the size, or of `bytes` bytes if that is more. The function
 * waits until the device no longer uses the old table; with steady work the table soon is large
 * enough. Fails with OUT_OF_MEMORY, or as the OpenCL calls do. */
static enum status table_grow(struct launcher *launcher, size_t bytes, struct error *err)
{
    const struct opencl *device = launcher->device;
    struct table *table = &launcher->table;
    const bool shared = device->info.host_memory;
    const size_t least = larger_of(larger_of(bytes, 2 * table->bytes), TABLE_BYTES);
    const size_t size = (least + TABLE_ALIGN - 1) / TABLE_ALIGN * TABLE_ALIGN;
    enum status status = STATUS_OK;
    if (table->mem != NULL) {
        TRY(opencl_finish(device, device->queue, err));
    }
    launcher_drop_table(launcher);
    table->host = aligned_alloc(TABLE_ALIGN, size);
    if (table->host == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a launch table of %zu bytes",
                         size);
    }
    CL_MAKE(status, err, table->mem, clCreateBuffer, device->context,
            CL_MEM_READ_WRITE | (shared ? CL_MEM_USE_HOST_PTR : 0), size,
            shared ? table->host : NULL);
    table->bytes = status == STATUS_OK ? size : 0;
    return status;
}

/* ---- life ---- */

void launcher_deinit(struct launcher *launcher)
{
    opencl_release(&launcher->records.mem);
    opencl_release(&launcher->left.mem);
    opencl_release(&launcher->lookback.mem);
    programs_deinit(&launcher->programs);
    launcher_drop_table(launcher);
    free(launcher->entries);
}

enum status launcher_build(struct launcher *launcher, enum scan_variant_id variant,
                           enum dtype dtype, struct error *err)
{
    const cl_kernel *kernels = NULL;
    struct scan_type type = {dtype, SCAN_INDEX_64};
    TRY(programs_find(&launcher->programs, launcher->device, variant, type, &kernels, err));
    type.index = SCAN_INDEX_32;
    return program_wide_only(launcher->device)
               ? STATUS_OK
               : programs_find(&launcher->programs, launcher->device, variant, type, &kernels,
                               err);
}

/* ---- the table of a launch ---- */

/* Return the entry of a piece, without the members that the variant's divide() sets. */
static struct scan_entry make_entry(const struct scan_piece *piece)
{
    const struct scan_plan *plan = piece->plan;
    uint64_t flags = 0;
    flags |= plan->exclusive ? ENTRY_EXCLUSIVE : 0;
    flags |= plan->reverse ? ENTRY_REVERSE : 0;
    flags |= piece->carry_in ? ENTRY_CARRY_IN : 0;
    flags |= piece->carry_out ? ENTRY_CARRY_OUT : 0;
    flags |= piece->totals ? ENTRY_TOTALS : 0;
    return (struct scan_entry){.in_first = piece->in_first,
                               .out_first = piece->out_first,
                               .length = plan->axis.size,
                               .axis_in = plan->axis.in_stride,
                               .axis_out = plan->axis.out_stride,
                               .flags = flags,
                               .carry = piece->carry_line,
                               .dims = (uint64_t)plan->dims,
                               .lines = plan->lines,
                               .partitions = 1};
}

/* Location and size of a launch's table in launcher->table.mem, as passed to the kernels. */
struct launch_table {
    cl_ulong entry_at; /* offset of the first entry, in 64-bit words */
    cl_uint entry_count;
    cl_ulong items;     /* work items of all pieces */
    cl_ulong totals_at; /* offset of the totals of partitions, in words; 0: no line is cut */
    cl_ulong parts;     /* tiles of all lines */
    cl_ulong records;   /* tiles of the pieces with ENTRY_SPINE */
    cl_ulong reduces;   /* work-groups of gpu_reduce for them */
    cl_ulong spines;    /* likewise of gpu_spine */
    /* look-back */
    cl_ulong blocks;
    cl_ulong superblocks;
};

/* Set the numbers of an entry's first work item, line and so on to the counts in *table, and add
 * those of the entry to the counts. */
static void number_entry(struct scan_entry *entry, uint64_t items, struct launch_table *table)
{
    entry->first[BY_ITEM] = table->items;
    entry->first[BY_REDUCE] = table->reduces;
    entry->first[BY_SPINE] = table->spines;
    entry->first[BY_PART] = table->parts;
    entry->record_at = table->records;
    entry->superblock_at = table->superblocks;
    entry->block_at = table->blocks;
    table->items += items;
    table->parts += entry->lines * entry->tiles;
    table->blocks += entry->lines * entry->blocks;
    table->superblocks += entry->lines * entry->superblocks;
    if ((entry->flags & ENTRY_SPINE) != 0) {
        table->records += entry->lines * entry->tiles;
        table->reduces += scan_ceil_div(entry->lines, entry->tile_lines) * entry->tiles;
        table->spines += scan_ceil_div(entry->lines, LANES / entry->spine_lanes);
    }
}

/* Allocate room for the table of a division's pieces, write the table, and make it visible to
 * the launches that follow. Fails as table_grow() or the OpenCL calls do. */
static enum status fill_table(struct launcher *launcher, const struct scan_division *division,
                              scan_divide *divide, struct launch_table *table,
                              struct error *err)
{
    const struct opencl *device = launcher->device;
    const struct scan_set *set = division->set;
    struct scan_entry *entries = launcher->entries;
    struct table *room = &launcher->table;
    uint64_t totals = 0; /* 64-bit words of the totals of partitions */
    size_t dims = 0;
    *table = (struct launch_table){.entry_count = (cl_uint)set->count};
    for (size_t i = 0; i < set->count; i++) {
        entries[i] = make_entry(&set->pieces[i]);
        const uint64_t items = divide(&set->pieces[i], division, &entries[i]);
        number_entry(&entries[i], items, table);
        entries[i].totals_at = totals;
        totals += entries[i].partitions > 1 ? items * entries[i].totals_words : 0;
        dims += entries[i].dims;
    }
    const size_t dim_at = set->count * sizeof(struct scan_entry);
    const size_t totals_at = dim_at + dims * sizeof(struct scan_dim);
    const size_t totals_bytes = totals * sizeof(uint64_t);
    const size_t bytes = totals_at + totals_bytes;
    size_t at = dim_at;
    if (room->bytes - room->used < bytes) {
        TRY(table_grow(launcher, bytes, err));
    }
    const size_t from = room->used;
    unsigned char *host = room->host + from;
    /* No overflow: the size of the table is a multiple of RANGE_ALIGN, too. */
    room->used += (bytes + RANGE_ALIGN - 1) / RANGE_ALIGN * RANGE_ALIGN;
    for (size_t i = 0; i < set->count; i++) {
        const size_t dim_bytes = entries[i].dims * sizeof(struct scan_dim);
        entries[i].dim_at = (at - i * sizeof *entries) / sizeof(ulong);
        memcpy(host + at, set->pieces[i].plan->dim, dim_bytes);
        at += dim_bytes;
    }
    memcpy(host, entries, dim_at);
    memset(host + totals_at, 0, totals_bytes);
    table->entry_at = from / sizeof(cl_ulong);
    table->totals_at = totals > 0 ? (from + totals_at) / sizeof(cl_ulong) : 0;
    return device->info.host_memory
               ? STATUS_OK
               : CL_CALL(err, clEnqueueWriteBuffer, device->queue, room->mem, CL_FALSE, from,
                         bytes, host, 0, NULL, NULL);
}

/* ---- the kernels for GPUs ---- */

/* Grow scratch memory to at least `bytes` bytes; the content is undefined. */
static enum status grow_scratch(const struct opencl *device, struct opencl_buffer *scratch,
                                uint64_t bytes, struct error *err)
{
    TRY(opencl_buffer_grow(device, scratch, bytes, err));
    return opencl_poison(device, scratch->mem, (size_t)scratch->bytes, err);
}

/* Enqueue the launches of gpu_scan.cl or gpu_exact.cl: if a piece needs sums from outside its tiles,
 * the totals of tiles and the sums before them; then the scan; for floats the same again for the lines
 * that the scan leaves. */
static enum status run_tiles(struct launcher *launcher, const struct scan_set *set,
                             const cl_kernel *kernels, const struct launch_table *table,
                             uint32_t *launches, struct error *err)
{
    const struct opencl *device = launcher->device;
    const enum dtype dtype = set->pieces[0].plan->dtype;
    const bool floats = dtype_is_float(dtype);
    if (floats) {
        TRY(grow_scratch(device, &launcher->left, table->parts, err));
    }
    if (table->spines > 0) {
        const uint64_t bytes = scan_carry_bytes(dtype) * table->records;
        TRY(grow_scratch(device, &launcher->records, bytes, err));
    }
    cl_mem mem = launcher->table.mem;
    const struct opencl_arg reduce[] = {
        OPENCL_ARG(set->in), OPENCL_ARG(mem), OPENCL_ARG(table->entry_at),
        OPENCL_ARG(table->entry_count), OPENCL_ARG(launcher->records.mem)};
    const struct opencl_arg spine[] = {OPENCL_ARG(mem),
                                       OPENCL_ARG(table->entry_at),
                                       OPENCL_ARG(table->entry_count),
                                       OPENCL_ARG(launcher->records.mem),
                                       OPENCL_ARG(set->carry),
                                       OPENCL_ARG(launcher->left.mem)};
    const struct opencl_arg scan[] = {OPENCL_ARG(set->in),
                                      OPENCL_ARG(set->out),
                                      OPENCL_ARG(mem),
                                      OPENCL_ARG(table->entry_at),
                                      OPENCL_ARG(table->entry_count),
                                      OPENCL_ARG(launcher->records.mem),
                                      OPENCL_ARG(launcher->left.mem)};
    const struct opencl_arg rest_reduce[] = {OPENCL_ARG(set->in),
                                             OPENCL_ARG(mem),
                                             OPENCL_ARG(table->entry_at),
                                             OPENCL_ARG(table->entry_count),
                                             OPENCL_ARG(table->parts),
                                             OPENCL_ARG(launcher->left.mem),
                                             OPENCL_ARG(launcher->records.mem)};
    const struct opencl_arg rest_spine[] = {OPENCL_ARG(mem),
                                            OPENCL_ARG(table->entry_at),
                                            OPENCL_ARG(table->entry_count),
                                            OPENCL_ARG(table->parts),
                                            OPENCL_ARG(launcher->left.mem),
                                            OPENCL_ARG(launcher->records.mem),
                                            OPENCL_ARG(set->carry)};
    const struct opencl_arg rest_scan[] = {OPENCL_ARG(set->in),
                                           OPENCL_ARG(set->out),
                                           OPENCL_ARG(mem),
                                           OPENCL_ARG(table->entry_at),
                                           OPENCL_ARG(table->entry_count),
                                           OPENCL_ARG(table->parts),
                                           OPENCL_ARG(launcher->left.mem),
                                           OPENCL_ARG(launcher->records.mem)};
    const uint64_t rest = table->spines > 0 ? table->parts : 0;
    const struct opencl_launch steps[] = {
        {kernels[SCAN_KERNEL_GPU_REDUCE], reduce, ARRAY_COUNT(reduce), table->reduces * LANES,
         LANES},
        {kernels[SCAN_KERNEL_GPU_SPINE], spine, ARRAY_COUNT(spine), table->spines * LANES,
         LANES},
        {kernels[SCAN_KERNEL_GPU_SCAN], scan, ARRAY_COUNT(scan), table->items * LANES, LANES},
        {kernels[SCAN_KERNEL_GPU_REST_REDUCE], rest_reduce, ARRAY_COUNT(rest_reduce), rest,
         LOCAL_SIZE_GPU},
        {kernels[SCAN_KERNEL_GPU_REST_SPINE], rest_spine, ARRAY_COUNT(rest_spine), rest,
         LOCAL_SIZE_GPU},
        {kernels[SCAN_KERNEL_GPU_REST_SCAN], rest_scan, ARRAY_COUNT(rest_scan), table->parts,
         LOCAL_SIZE_GPU},
    };
    for (size_t i = 0; i < (floats ? ARRAY_COUNT(steps) : SCAN_KERNEL_GPU_REST_REDUCE); i++) {
        if (steps[i].items > 0) {
            TRY(opencl_enqueue(device, &steps[i], launches, err));
        }
    }
    return STATUS_OK;
}

static enum status run_lookback(struct launcher *launcher, const struct scan_set *set,
                                const cl_kernel *kernels, const struct launch_table *table,
                                uint32_t *launches, struct error *err)
{
    const struct opencl *device = launcher->device;
    /* The slots hold the totals of blocks, then S, then T of superblocks (gpu_lookback.cl). */
    const cl_ulong anchors_at = table->blocks;
    const cl_ulong totals_at = anchors_at + table->superblocks;
    const cl_ulong slots = totals_at + table->superblocks;
    const uint64_t bytes = (STATE_HEAD + slots * SLOT_WORDS) * sizeof(cl_uint);
    TRY(grow_scratch(device, &launcher->lookback, bytes, err));
    TRY(opencl_fill(device, launcher->lookback.mem, 0, 0, bytes, err));
    const struct opencl_arg args[] = {
        OPENCL_ARG(set->in),
        OPENCL_ARG(set->out),
        OPENCL_ARG(launcher->table.mem),
        OPENCL_ARG(table->entry_at),
        OPENCL_ARG(table->entry_count),
        OPENCL_ARG(anchors_at),
        OPENCL_ARG(totals_at),
        OPENCL_ARG(launcher->lookback.mem),
    };
    const struct opencl_launch launch = {kernels[0], args, ARRAY_COUNT(args),
                                         table->items * LANES, LANES};
    return opencl_enqueue(device, &launch, launches, err);
}

/* ---- one variant ---- */

/* Enqueue the launches of one variant's kernels for all pieces of the set. */
static enum status run_variant(struct launcher *launcher, const struct scan_set *set,
                               struct scan_type type, enum scan_variant_id variant,
                               uint32_t *launches, struct error *err)
{
    const struct opencl *device = launcher->device;
    const bool generic = variant == SCAN_VARIANT_GENERIC;
    const bool any = generic || variant == SCAN_VARIANT_EXACT_LINES;
    const cl_kernel *kernels = NULL;
    struct launch_table table;
    struct scan_division division = {.set = set,
                                     .threads = device->info.compute_units,
                                     .partition_bytes = AID(device, partition_bytes),
                                     .stream_bytes = AID(device, stream_bytes),
                                     .items_most = device->gpu_kernels ? UINT64_MAX
                                                   : set->count < GENERIC_ITEMS_CPU
                                                       ? GENERIC_ITEMS_CPU / set->count
                                                       : 1};
    for (size_t i = 0; i < set->count; i++) {
        const struct scan_plan *plan = set->pieces[i].plan;
        division.bytes += plan->elements * dtype_info(plan->dtype)->bytes;
        scan_variant_zero_gaps(variant, &set->pieces[i]);
    }
    TRY(programs_find(&launcher->programs, device, variant, type, &kernels, err));
    TRY(fill_table(launcher, &division, scan_variants[variant].divide, &table, err));
    if (variant == SCAN_VARIANT_GPU || variant == SCAN_VARIANT_EXACT_GPU) {
        return run_tiles(launcher, set, kernels, &table, launches, err);
    }
    if (variant == SCAN_VARIANT_LOOKBACK) {
        return run_lookback(launcher, set, kernels, &table, launches, err);
    }
    const struct opencl_arg args[] = {
        /* The generic kernel has no totals_at. */
        OPENCL_ARG(set->in),        OPENCL_ARG(set->out),
        OPENCL_ARG(set->carry),     OPENCL_ARG(launcher->table.mem),
        OPENCL_ARG(table.entry_at), OPENCL_ARG(table.entry_count),
        OPENCL_ARG(table.items),    OPENCL_ARG(table.totals_at)};
    const bool one_group = device->info.built_in && division.bytes <= ONE_GROUP_BYTES &&
                           table.items <= ONE_GROUP_ITEMS;
    struct opencl_launch launch = {kernels[0], args, ARRAY_COUNT(args) - (generic ? 1 : 0),
                                   table.items, one_group ? (size_t)table.items : 1};
    if (any && !one_group) {
        launch.local = device->gpu_kernels ? LOCAL_SIZE_GPU : LOCAL_SIZE_CPU;
    }
    if (table.totals_at > 0) {
        struct opencl_launch totals = launch;
        totals.kernel = kernels[SCAN_KERNEL_TOTALS];
        TRY(opencl_enqueue(device, &totals, launches, err));
    }
    return opencl_enqueue(device, &launch, launches, err);
}

/* ---- choosing ---- */

/* Return the variant by which a GPU runs the piece. */
static enum scan_variant_id choose_for_gpu(const struct launcher *launcher,
                                           const struct scan_piece *piece)
{
    const struct opencl *device = launcher->device;
    const struct scan_plan *plan = piece->plan;
    const bool floats = dtype_is_float(plan->dtype);
    const bool tried = launcher->looks_back[plan->dtype];
    const uint64_t lookback_from = device->lookback == SCAN_LOOKBACK_ON ? LANES * GROUP + 1
                                   : tried ? (uint64_t)LOOKBACK_FROM
                                           : UINT64_MAX;
    const bool contiguous = scan_dim_is_unit(&plan->axis);
    const bool rows = contiguous && plan->dims <= 1;
    const bool carries = piece->carry_in || piece->carry_out;
    /* A test that names a variant of the kernels for GPUs gets it for every piece. */
    if (floats) {
        return SCAN_VARIANT_EXACT_GPU;
    }
    if (!rows && plan->lines >= GENERIC_FROM && AID(device, variant) == NULL) {
        return SCAN_VARIANT_GENERIC;
    }
    return contiguous && plan->axis.size >= lookback_from && !carries ? SCAN_VARIANT_LOOKBACK
                                                                      : SCAN_VARIANT_GPU;
}

/* True if the offset of the piece's last cell fits a signed 32-bit index. */
static bool fits_32(const struct scan_piece *piece)
{
    const uint64_t most = INT32_MAX;
    const struct scan_plan *plan = piece->plan;
    return piece->in_first <= most && plan->in_elements <= most - piece->in_first &&
           piece->out_first <= most && plan->out_elements <= most - piece->out_first;
}

static struct scan_type find_type(const struct opencl *device, const struct scan_set *set)
{
    const struct scan_plan *first = set->pieces[0].plan;
    bool narrow = !program_wide_only(device) && !device->wide_index;
    for (size_t i = 0; i < set->count && narrow; i++) {
        narrow = fits_32(&set->pieces[i]);
    }
    return (struct scan_type){first->dtype, narrow ? SCAN_INDEX_32 : SCAN_INDEX_64};
}

/* Pieces of the same variant share their launches. The variant is one of the kernels for GPUs,
 * the vector kernel that suits the piece best, or else the kernel for any layout. */
enum status launcher_run(struct launcher *launcher, const struct scan_set *set,
                         uint32_t *launches, struct error *err)
{
    const struct opencl *device = launcher->device;
    const bool by_tiles = program_suits(device, SCAN_VARIANT_GPU);
    const bool vectors = device->info.built_in && program_suits(device, SCAN_VARIANT_ROWS);
    const struct scan_type type = find_type(device, set);
    const enum scan_variant_id any =
        dtype_is_float(type.dtype) ? SCAN_VARIANT_EXACT_LINES : SCAN_VARIANT_GENERIC;
    struct scan_piece *pieces = set->pieces;
    if (set->count > launcher->room) {
        void *entries = reallocarray(launcher->entries, set->count, sizeof *launcher->entries);
        if (entries == NULL) {
            return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a batch of %zu",
                             set->count);
        }
        launcher->entries = entries;
        launcher->room = set->count;
    }
    for (size_t i = 0; i < set->count; i++) {
        pieces[i].variant = by_tiles  ? (int)choose_for_gpu(launcher, &pieces[i])
                            : vectors ? (int)scan_variant_choose(&pieces[i])
                                      : (int)any;
        TRY(IN_TESTS(scan_aids_choose(device, &pieces[i], &pieces[i].variant, err), STATUS_OK));
    }
    struct scan_set few = *set;
    for (int variant = 0; variant < SCAN_VARIANT_COUNT; variant++) {
        few.count = 0;
        for (size_t i = 0; few.pieces + i < pieces + set->count; i++) {
            if (few.pieces[i].variant == variant) { /* swap to the front part */
                const struct scan_piece piece = few.pieces[i];
                few.pieces[i] = few.pieces[few.count];
                few.pieces[few.count++] = piece;
            }
        }
        if (few.count > 0) {
            TRY(run_variant(launcher, &few, type, (enum scan_variant_id)variant, launches,
                            err));
        }
        few.pieces += few.count;
    }
    return STATUS_OK;
}
