/* Chooses the kernels of a set of pieces, and launches the generic kernel and the vector kernels
 * for CPUs, once for all pieces that a variant runs. Those for GPUs are in launch_gpu.c.
 *
 * A table has an entry for each piece, then a row for each of their dimensions, then what work
 * items of cut lines hand on (chain.cl), zero. Failures: launcher.h. Thread: the device's. */
#include "kernels/launcher.h"

#include "kernels/split.h"
#include "proto/macros.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Work-items per work-group: fixed, because PoCL compiles a kernel anew for each size, and for
 * launches of 65535 work-items or more, in the middle of the launch. */
enum {
    LOCAL_SIZE_CPU = 4,
    LOCAL_SIZE_GPU = 64,
    GENERIC_ITEMS_CPU = 65000 /* work-items of a launch of the generic kernel, about */
};

/* Our own driver runs a launch that is too small to be worth a second thread as one work-group,
 * in the thread that waits for it. Others would compile the kernel anew for each size. */
enum {
    ONE_GROUP_BYTES = 64 << 10, /* some ten microseconds: what waking a thread takes */
    ONE_GROUP_ITEMS = 1 << 14
};

/* ---- room for tables ---- */

enum {
    TABLE_BYTES = 256 << 10, /* at least */
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

/* Make the table twice as large, or large enough for so many bytes, once the device is done
 * with what is in it. A queue with steady work soon has a table that is large enough, and waits
 * no more. */
static enum status table_grow(struct launcher *launcher, size_t bytes, struct error *err)
{
    const struct opencl *device = launcher->device;
    struct table *table = &launcher->table;
    const bool shared = device->info.host_memory;
    const size_t least = larger_of(larger_of(bytes, 2 * table->bytes), TABLE_BYTES);
    const size_t size = (least + TABLE_ALIGN - 1) / TABLE_ALIGN * TABLE_ALIGN;
    enum status status = STATUS_OK;
    if (table->mem != NULL) {
        TRY(opencl_finish(device, err));
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
    opencl_release(&launcher->blocks.mem);
    opencl_release(&launcher->superblocks.mem);
    opencl_release(&launcher->lookback.mem);
    programs_deinit(&launcher->programs);
    launcher_drop_table(launcher);
    free(launcher->entries);
}

void launcher_recycle(struct launcher *launcher)
{
    launcher->table.used = 0;
}

/* The programs of a variant for offsets of any width. */
static enum status find_variant(struct launcher *launcher, enum scan_variant_id variant,
                                struct scan_kind kind, struct error *err)
{
    const cl_kernel *kernels = NULL;
    struct scan_type type = {kind.dtype, kind.precision, SCAN_INDEX_64};
    TRY(programs_find(&launcher->programs, launcher->device, variant, type, &kernels, err));
    type.index = SCAN_INDEX_32;
    return program_wide_only(launcher->device)
               ? STATUS_OK
               : programs_find(&launcher->programs, launcher->device, variant, type, &kernels,
                               err);
}

enum status launcher_prepare(struct launcher *launcher, struct scan_kind kind,
                             struct error *err)
{
    const struct opencl *device = launcher->device;
    TRY(find_variant(launcher, SCAN_VARIANT_GENERIC, kind, err));
    if (program_suits(device, SCAN_VARIANT_GPU)) {
        TRY(find_variant(launcher, SCAN_VARIANT_GPU, kind, err));
    }
    return device->lookback == SCAN_LOOKBACK_ON
               ? find_variant(launcher, SCAN_VARIANT_LOOKBACK, kind, err)
               : STATUS_OK;
}

enum status launcher_use_lookback(struct launcher *launcher, struct scan_kind kind,
                                  struct error *err)
{
    TRY(find_variant(launcher, SCAN_VARIANT_LOOKBACK, kind, err));
    launcher->looks_back[kind.dtype][kind.precision == PRECISION_NATIVE] = true;
    return STATUS_OK;
}

void launcher_drop_lookback(struct launcher *launcher)
{
    memset(launcher->looks_back, 0, sizeof launcher->looks_back);
}

/* ---- the table of a launch ---- */

/* What a piece's row says whoever divides it. */
static struct scan_entry make_entry(const struct scan_set *set, const struct scan_piece *piece)
{
    const struct scan_plan *plan = piece->plan;
    uint64_t flags = 0;
    flags |= plan->exclusive ? ENTRY_EXCLUSIVE : 0;
    flags |= plan->reverse ? ENTRY_REVERSE : 0;
    flags |= piece->carry_in ? ENTRY_CARRY_IN : 0;
    flags |= piece->carry_out ? ENTRY_CARRY_OUT : 0;
    return (struct scan_entry){.in_first = piece->in_first,
                               .out_first = piece->out_first,
                               .length = plan->axis.size,
                               .axis_in = plan->axis.in_stride,
                               .axis_out = plan->axis.out_stride,
                               .flags = flags,
                               .block = piece->position / SCAN_BLOCK %
                                        (SCAN_SUPERBLOCK / SCAN_BLOCK),
                               .carry = piece->carry_line,
                               .carry_lines = set->carry_lines,
                               .dims = (uint64_t)plan->dims,
                               .lines = plan->lines,
                               .partitions = 1,
                               .lookahead_every = 1};
}

enum status launcher_fill_table(struct launcher *launcher, const struct scan_division *division,
                                scan_divide *divide, struct launch_table *table,
                                struct error *err)
{
    const struct scan_set *set = division->set;
    struct scan_entry *entries = launcher->entries;
    uint64_t first_item = 0;
    uint64_t states = 0; /* words */
    size_t dims = 0;
    for (size_t i = 0; i < set->count; i++) {
        entries[i] = make_entry(set, &set->pieces[i]);
        const uint64_t items = divide(&set->pieces[i], division, &entries[i]);
        entries[i].first[BY_ITEM] = first_item;
        entries[i].state = states;
        first_item += items;
        states += entries[i].partitions > 1 ? items * entries[i].state_words : 0;
        dims += entries[i].dims;
    }
    const size_t dim_at = set->count * sizeof(struct scan_entry);
    const size_t chain_at = dim_at + dims * sizeof(struct scan_dim);
    const size_t chain_bytes = states > 0 ? (CHAIN_HEAD + states) * sizeof(uint64_t) : 0;
    const size_t bytes = chain_at + chain_bytes;
    struct table *room = &launcher->table;
    size_t at = dim_at;
    if (room->bytes - room->used < bytes) {
        TRY(table_grow(launcher, bytes, err));
    }
    const size_t from = room->used;
    unsigned char *host = room->host + from;
    /* the table's size is a multiple, so is what is left */
    room->used += (bytes + RANGE_ALIGN - 1) / RANGE_ALIGN * RANGE_ALIGN;
    for (size_t i = 0; i < set->count; i++) {
        const size_t dim_bytes = entries[i].dims * sizeof(struct scan_dim);
        entries[i].dim_at = (at - i * sizeof *entries) / sizeof(ulong);
        memcpy(host + at, set->pieces[i].plan->dim, dim_bytes);
        at += dim_bytes;
    }
    memcpy(host, entries, dim_at);
    memset(host + chain_at, 0, chain_bytes);
    *table = (struct launch_table){.entries = (struct scan_entry *)(void *)host,
                                   .bytes = bytes,
                                   .entry_at = from / sizeof(cl_ulong),
                                   .entry_count = (cl_uint)set->count,
                                   .items = first_item,
                                   .chain_at =
                                       states > 0 ? (from + chain_at) / sizeof(cl_ulong) : 0};
    return STATUS_OK;
}

enum status launcher_publish_table(struct launcher *launcher, const struct launch_table *table,
                                   struct error *err)
{
    const struct opencl *device = launcher->device;
    if (device->info.host_memory) {
        return STATUS_OK;
    }
    return CL_CALL(err, clEnqueueWriteBuffer, device->queue, launcher->table.mem, CL_FALSE,
                   table->entry_at * sizeof(cl_ulong), table->bytes, table->entries, 0, NULL,
                   NULL);
}

/* One launch of a variant's kernel, generic or of the vector kernels, for all pieces. */
static enum status run_variant(struct launcher *launcher, const struct scan_set *set,
                               struct scan_type type, enum scan_variant_id variant,
                               uint32_t *launches, struct error *err)
{
    const struct opencl *device = launcher->device;
    const bool generic = variant == SCAN_VARIANT_GENERIC;
    assert(set->count > 0);
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
    }
    TRY(programs_find(&launcher->programs, launcher->device, variant, type, &kernels, err));
    TRY(launcher_fill_table(launcher, &division, scan_variants[variant].divide, &table, err));
    TRY(launcher_publish_table(launcher, &table, err));
    const struct opencl_arg args[] = {
        /* the last one: of the vector kernels only */
        OPENCL_ARG(set->in),        OPENCL_ARG(set->out),
        OPENCL_ARG(set->carry),     OPENCL_ARG(launcher->table.mem),
        OPENCL_ARG(table.entry_at), OPENCL_ARG(table.entry_count),
        OPENCL_ARG(table.items),    OPENCL_ARG(table.chain_at)};
    const bool one_group = device->info.built_in && division.bytes <= ONE_GROUP_BYTES &&
                           table.items <= ONE_GROUP_ITEMS;
    struct opencl_launch launch = {kernels[0], args, ARRAY_COUNT(args) - (generic ? 1 : 0),
                                   table.items, one_group ? (size_t)table.items : 1};
    if (generic) {
        launch.local = device->gpu_kernels ? LOCAL_SIZE_GPU : LOCAL_SIZE_CPU;
    }
    return opencl_enqueue(device, &launch, launches, err);
}

/* ---- choosing ---- */

/* Offsets up to the piece's last cell fit signed 32-bit indices. */
static bool fits_32(const struct scan_piece *piece)
{
    const uint64_t most = INT32_MAX;
    const struct scan_plan *plan = piece->plan;
    return piece->in_first <= most && plan->in_elements <= most - piece->in_first &&
           piece->out_first <= most && plan->out_elements <= most - piece->out_first &&
           plan->axis.size <= most;
}

static enum status make_room(struct launcher *launcher, size_t pieces, struct error *err)
{
    if (pieces <= launcher->room) {
        return STATUS_OK;
    }
    struct scan_entry *entries =
        reallocarray(launcher->entries, pieces,
                     sizeof *entries + sizeof *launcher->sorted + sizeof *launcher->variants);
    if (entries == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for a batch of %zu", pieces);
    }
    launcher->entries = entries;
    launcher->sorted = (struct scan_piece *)(entries + pieces);
    launcher->variants = (unsigned char *)(launcher->sorted + pieces);
    launcher->room = pieces;
    return STATUS_OK;
}

static struct scan_type find_type(const struct opencl *device, const struct scan_set *set)
{
    const struct scan_plan *first = set->pieces[0].plan;
    bool narrow = !program_wide_only(device) && !device->wide_index;
    for (size_t i = 0; i < set->count && narrow; i++) {
        narrow = fits_32(&set->pieces[i]);
    }
    return (struct scan_type){first->dtype, first->precision,
                              narrow ? SCAN_INDEX_32 : SCAN_INDEX_64};
}

/* All pieces of the set that go by this variant. */
static enum status run_pieces(struct launcher *launcher, const struct scan_set *set,
                              struct scan_type type, enum scan_variant_id variant,
                              uint32_t *launches, struct error *err)
{
    struct scan_set few = *set;
    few.pieces = launcher->sorted;
    few.count = 0;
    for (size_t i = 0; i < set->count; i++) {
        if (launcher->variants[i] == variant) {
            scan_variant_zero_gaps(variant, &set->pieces[i]);
            launcher->sorted[few.count++] = set->pieces[i];
        }
    }
    if (variant == SCAN_VARIANT_GPU) {
        return launcher_run_tiles(launcher, &few, type, launches, err);
    }
    if (variant == SCAN_VARIANT_LOOKBACK) {
        return launcher_run_lookback(launcher, &few, type, launches, err);
    }
    return run_variant(launcher, &few, type, variant, launches, err);
}

/* Pieces that go the same way share their launches: of the vector kernel that suits them best, of
 * the kernels for GPUs, or of the one that runs everything. */
enum status launcher_run(struct launcher *launcher, const struct scan_set *set,
                         uint32_t *launches, struct error *err)
{
    const struct opencl *device = launcher->device;
    const bool by_tiles = program_suits(device, SCAN_VARIANT_GPU);
    const bool vectors = device->info.built_in && program_suits(device, SCAN_VARIANT_ROWS);
    const struct scan_type type = find_type(device, set);
    bool wanted[SCAN_VARIANT_COUNT] = {false};
    TRY(make_room(launcher, set->count, err));
    for (size_t i = 0; i < set->count; i++) {
        const struct scan_piece *piece = &set->pieces[i];
        int variant = by_tiles  ? (int)launcher_choose_for_gpu(launcher, piece)
                      : vectors ? (int)scan_variant_choose(piece)
                                : SCAN_VARIANT_GENERIC;
        TRY(IN_TESTS(scan_aids_choose(device, piece, &variant, err), STATUS_OK));
        launcher->variants[i] = (unsigned char)variant;
        wanted[variant] = true;
    }
    for (int i = 0; i < SCAN_VARIANT_COUNT; i++) {
        if (wanted[i]) {
            TRY(run_pieces(launcher, set, type, (enum scan_variant_id)i, launches, err));
        }
    }
    return STATUS_OK;
}
