/* Exact sums by the kernel for any layout (exact_lines.cl), on Tally's own device and on one
 * that compiles the source, and by the kernels for contiguous lines (exact_rows.cl), columns
 * (exact_columns.cl) and gathered tiles (tiles.cl). The oracle shares no code with them. The
 * inputs have many families, lengths, steps and numbers of lines. Lines are also cut into
 * pieces: one launch scans a piece and passes its sums on to the next launch. */
#include "kernels/opencl.h"
#include "kernels/variants.h"
#include "tests/lib/exact_oracle.h"
#include "tests/lib/float_inputs.h"
#include "tests/lib/ktest.h"
#include "tests/lib/scan_case.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The source for devices that compile; Tally's own driver has it precompiled. */
#define EMBED_SOURCE(name, file)            \
    __asm__(".section .rodata\n" name ":\n" \
            ".incbin \"" file "\"\n"        \
            ".byte 0\n"                     \
            ".previous\n")
EMBED_SOURCE("exact_source", "kernels/cl/exact.cl");
EMBED_SOURCE("exact_table_source", "kernels/cl/table.cl");
EMBED_SOURCE("exact_lines_source", "kernels/cl/exact_lines.cl");
EMBED_SOURCE("exact_launch_source", "kernels/cl/launch.cl");
extern const char exact_source[] __attribute__((visibility("hidden")));
extern const char exact_table_source[] __attribute__((visibility("hidden")));
extern const char exact_lines_source[] __attribute__((visibility("hidden")));
extern const char exact_launch_source[] __attribute__((visibility("hidden")));

enum {
    MOST = 2100,    /* most elements of a line */
    MOST_STEP = 3,  /* largest step between elements */
    LINES = 600,    /* most lines of a launch */
    STRIP = 512,    /* lines per work-item of exact_columns.cl */
    TILE = 64,      /* lines per tile of tiles.cl */
    PARTITIONS = 6, /* most partitions of a line */
    ROOM = 8 * MOST * 64,
    CARRY_WORDS = 36 /* words of the longest carry, that of float64 */
};

static const enum dtype types[] = {DTYPE_F16, DTYPE_BF16, DTYPE_F32, DTYPE_F64};

/* ---- the kernel ---- */

/* The table of a launch: one piece with one dimension, and the totals of its partitions. */
struct table {
    struct scan_entry entry;
    ulong dim[3];
    ulong totals[PARTITIONS * LINES * CARRY_WORDS];
};

static struct lab {
    struct opencl cl;
    enum way {
        WAY_ANY,
        WAY_ROWS,
        WAY_COLUMNS,
        WAY_TILES
    } way;
    size_t item_lines;
    bool in_place; /* the results overwrite the elements */
    bool cut;      /* lines are cut into partitions */
    cl_program programs[ARRAY_COUNT(types)];
    cl_kernel kernels[ARRAY_COUNT(types)];
    cl_kernel totals[ARRAY_COUNT(types)]; /* for totals; NULL: no partitions */
    cl_mem in;
    cl_mem out;
    cl_mem carry;
    cl_mem carry_after; /* written by launches of totals */
    cl_mem table;
} lab;

static cl_kernel find_kernel(cl_program program, const char *name)
{
    cl_int code = CL_SUCCESS;
    cl_kernel kernel = program != NULL ? clCreateKernel(program, name, &code) : NULL;
    (void)ktest_check(kernel != NULL && code == CL_SUCCESS, "the kernel is there");
    return kernel;
}

/* Find the program compiled ahead. */
static cl_program find_built_in(size_t type)
{
    static const char *const kernels[] = {"", "rows_", "columns_", "tiles_"};
    static const char *const suffixes[] = {"f16", "bf16", "f32", "f64"};
    char scan[64];
    char totals[64];
    char both[130];
    (void)snprintf(scan, sizeof scan, "scan_exact_%s%s", kernels[lab.way], suffixes[type]);
    (void)snprintf(totals, sizeof totals, "total_exact_%s%s", kernels[lab.way], suffixes[type]);
    (void)snprintf(both, sizeof both, lab.way == WAY_ANY ? "%s" : "%s;%s", scan, totals);
    cl_program program =
        clCreateProgramWithBuiltInKernels(lab.cl.context, 1, &lab.cl.id, both, NULL);
    lab.kernels[type] = find_kernel(program, scan);
    lab.totals[type] = lab.way == WAY_ANY ? NULL : find_kernel(program, totals);
    return program;
}

static cl_program compile(size_t type)
{
    static const char *const elements[] = {"F16", "BF16", "F32", "F64"};
    const char *text[] = {exact_source, exact_table_source, exact_lines_source,
                          exact_launch_source};
    char options[64];
    (void)snprintf(options, sizeof options, "-cl-std=CL1.2 -DELEM_%s -DINDEX=ulong",
                   elements[type]);
    cl_program program =
        clCreateProgramWithSource(lab.cl.context, ARRAY_COUNT(text), text, NULL, NULL);
    (void)ktest_check(clBuildProgram(program, 1, &lab.cl.id, options, NULL, NULL) == CL_SUCCESS,
                      "the source compiles");
    lab.kernels[type] = find_kernel(program, "scan_exact");
    lab.totals[type] = NULL;
    return program;
}

static void lab_open(size_t number, enum way way)
{
    struct error err = ERROR_INIT;
    lab.way = way;
    lab.item_lines = way == WAY_ANY ? 1 : way == WAY_TILES ? TILE : STRIP;
    lab.in_place = false;
    lab.cut = false;
    if (!ktest_check(opencl_find(number, SCAN_LOOKBACK_OFF, &lab.cl, &err) == STATUS_OK &&
                         opencl_start(&lab.cl, NULL, &err) == STATUS_OK,
                     err.detail)) {
        return;
    }
    for (size_t type = 0; type < ARRAY_COUNT(types); type++) {
        lab.programs[type] = lab.cl.info.built_in ? find_built_in(type) : compile(type);
    }
    cl_int code = CL_SUCCESS;
    lab.in = clCreateBuffer(lab.cl.context, CL_MEM_READ_WRITE, ROOM, NULL, &code);
    lab.out = clCreateBuffer(lab.cl.context, CL_MEM_READ_WRITE, ROOM, NULL, &code);
    lab.carry = clCreateBuffer(lab.cl.context, CL_MEM_READ_WRITE,
                               (size_t)LINES * CARRY_WORDS * 8, NULL, &code);
    lab.carry_after = clCreateBuffer(lab.cl.context, CL_MEM_READ_WRITE,
                                     (size_t)LINES * CARRY_WORDS * 8, NULL, &code);
    lab.table =
        clCreateBuffer(lab.cl.context, CL_MEM_READ_WRITE, sizeof(struct table), NULL, &code);
    (void)ktest_check(code == CL_SUCCESS, "there is memory");
}

static void lab_close(void)
{
    for (size_t type = 0; type < ARRAY_COUNT(types); type++) {
        (void)clReleaseKernel(lab.kernels[type]);
        if (lab.totals[type] != NULL) {
            (void)clReleaseKernel(lab.totals[type]);
        }
        (void)clReleaseProgram(lab.programs[type]);
    }
    opencl_release(&lab.in);
    opencl_release(&lab.out);
    opencl_release(&lab.carry);
    opencl_release(&lab.carry_after);
    opencl_release(&lab.table);
    opencl_close(&lab.cl);
}

/* Lines of equal length. Element k of line c is at k * step + c * pitch. */
struct run {
    size_t type;
    size_t length;
    ulong flags;
    size_t step;
    size_t lines;
    size_t pitch;
};

/* Return the number of elements from the first to the last. */
static size_t span_of(const struct run *run)
{
    return (run->length - 1) * run->step + (run->lines - 1) * run->pitch + 1;
}

/* Cut the lines of an entry into partitions of a random length; the last one has the rest. */
static void cut_entry(struct scan_entry *entry)
{
    const size_t most = entry->length < PARTITIONS ? entry->length : PARTITIONS;
    if (lab.cut && most > 1) {
        entry->partitions = 2 + scan_draw((uint32_t)most - 1);
        entry->partition_length = 1 + scan_draw((uint32_t)(entry->length / entry->partitions));
        entry->item_lines = lab.way == WAY_ROWS ? 1 + scan_draw(20) : entry->item_lines;
    }
}

static cl_int enqueue(cl_kernel kernel, const struct opencl_arg *args, cl_uint count,
                      size_t items)
{
    const size_t one = 1;
    cl_int code = CL_SUCCESS;
    for (cl_uint i = 0; i < count && code == CL_SUCCESS; i++) {
        code = clSetKernelArg(kernel, i, args[i].bytes, args[i].value);
    }
    return code == CL_SUCCESS ? clEnqueueNDRangeKernel(lab.cl.queue, kernel, 1, NULL, &items,
                                                       &one, 0, NULL, NULL)
                              : code;
}

/* Scan elements first..first + length - 1 of the lines in lab.in, in memory order. */
static bool launch(const struct run *run, size_t first, size_t length, ulong flags)
{
    static struct table table;
    table.entry = (struct scan_entry){.in_first = first * run->step,
                                      .out_first = first * run->step,
                                      .length = length,
                                      .axis_in = run->step,
                                      .axis_out = run->step,
                                      .flags = flags,
                                      .dims = 1,
                                      .dim_at = sizeof table.entry / sizeof(ulong),
                                      .lines = run->lines,
                                      .item_lines = lab.item_lines,
                                      .partitions = 1,
                                      .near_lines = TILE,
                                      .far = 1, /* no second dimension */
                                      .far_lines = 1};
    table.dim[0] = run->lines;
    table.dim[1] = run->pitch;
    table.dim[2] = run->pitch;
    cut_entry(&table.entry);
    const bool cut = table.entry.partitions > 1;
    const cl_ulong entry_at = 0;
    const cl_uint entry_count = 1;
    const cl_ulong totals_at = cut ? offsetof(struct table, totals) / sizeof(ulong) : 0;
    const cl_ulong items = (run->lines + table.entry.item_lines - 1) / table.entry.item_lines *
                           table.entry.partitions;
    /* For WAY_TILES the unit of item_lines is a tile. */
    table.entry.item_lines = lab.way == WAY_TILES ? 1 : table.entry.item_lines;
    const cl_mem *out = lab.in_place ? &lab.in : &lab.out;
    const struct opencl_arg args[] = {OPENCL_ARG(lab.in),    OPENCL_ARG(*out),
                                      OPENCL_ARG(lab.carry), OPENCL_ARG(lab.table),
                                      OPENCL_ARG(entry_at),  OPENCL_ARG(entry_count),
                                      OPENCL_ARG(items),     OPENCL_ARG(totals_at)};
    cl_int code = clEnqueueWriteBuffer(lab.cl.queue, lab.table, CL_TRUE, 0,
                                       cut ? sizeof table : offsetof(struct table, totals),
                                       &table, 0, NULL, NULL);
    if (cut && code == CL_SUCCESS) {
        code = enqueue(lab.totals[run->type], args, ARRAY_COUNT(args), items);
    }
    if (code == CL_SUCCESS) {
        code = enqueue(lab.kernels[run->type], args, ARRAY_COUNT(args), items);
    }
    return ktest_check(code == CL_SUCCESS && clFinish(lab.cl.queue) == CL_SUCCESS,
                       "the kernel runs");
}

/* Store the sums after a piece in lab.carry_after by a launch that writes no results. */
static bool launch_totals(const struct run *run, size_t first, size_t length, ulong flags)
{
    static ulong sums[LINES * CARRY_WORDS];
    const cl_mem carry = lab.carry;
    const cl_command_queue queue = lab.cl.queue;
    const cl_int code =
        clEnqueueReadBuffer(queue, carry, CL_TRUE, 0, sizeof sums, sums, 0, NULL, NULL) |
        clEnqueueWriteBuffer(queue, lab.carry_after, CL_TRUE, 0, sizeof sums, sums, 0, NULL,
                             NULL);
    lab.carry = lab.carry_after;
    const bool launched = launch(run, first, length, flags | ENTRY_CARRY_OUT | ENTRY_TOTALS);
    lab.carry = carry;
    return ktest_check(code == CL_SUCCESS, "the sums are copied") && launched;
}

/* Scan the lines in lab.in, cut into pieces of random lengths. The sums after a piece are
 * stored by its scan, or by a launch of totals before it. */
static bool scan_pieces(const struct run *run, size_t pieces)
{
    const bool reverse = (run->flags & ENTRY_REVERSE) != 0;
    size_t done = 0;
    for (size_t i = 0; i < pieces; i++) {
        const bool last = i + 1 == pieces;
        const size_t rest = run->length - done;
        const size_t length = last ? rest : scan_draw((uint32_t)rest + 1);
        const size_t first = reverse ? rest - length : done;
        const bool totals = !last && scan_draw(2) == 0;
        const ulong flags = run->flags | (i > 0 ? ENTRY_CARRY_IN : 0);
        if (totals && !launch_totals(run, first, length, flags)) {
            return false;
        }
        if (!launch(run, first, length, flags | (last || totals ? 0 : ENTRY_CARRY_OUT))) {
            return false;
        }
        if (totals) {
            const cl_mem before = lab.carry;
            lab.carry = lab.carry_after;
            lab.carry_after = before;
        }
        done += length;
    }
    return true;
}

/* Draw lines of the family and of others, scan them in pieces, and compare with the oracle. */
static void check(const struct run *run, enum float_family family, size_t pieces)
{
    static unsigned char line[ROOM];
    static unsigned char cells[ROOM];
    static unsigned char got[ROOM];
    static unsigned char want[ROOM];
    const enum dtype dtype = types[run->type];
    const size_t bytes = dtype_info(dtype)->bytes;
    const size_t behind = 16; /* guard elements that no kernel may touch */
    const size_t span = (span_of(run) + behind) * bytes;
    const bool reverse = (run->flags & ENTRY_REVERSE) != 0;
    const ptrdiff_t step = reverse ? -(ptrdiff_t)run->step : (ptrdiff_t)run->step;
    const bool mixed = run->lines > 1 && scan_draw(4) == 0;
    memset(cells, 0x5A, span);
    lab.in_place = scan_draw(2) == 0;
    memset(want, lab.in_place ? 0x5A : 0xA5, span);
    for (size_t c = 0; c < run->lines; c++) {
        const size_t begin =
            ((reverse ? run->length - 1 : 0) * run->step + c * run->pitch) * bytes;
        float_line_draw(dtype, mixed ? float_family_draw(true) : family, line, 1, run->length);
        for (size_t k = 0; k < run->length; k++) {
            const size_t at = reverse ? run->length - 1 - k : k;
            memcpy(cells + (at * run->step + c * run->pitch) * bytes, line + k * bytes, bytes);
        }
        exact_oracle_line(dtype, cells + begin, step, want + begin, step, run->length,
                          (run->flags & ENTRY_EXCLUSIVE) != 0);
    }
    memset(got, 0xA5, span);
    cl_command_queue queue = lab.cl.queue;
    cl_int code = clEnqueueWriteBuffer(queue, lab.in, CL_TRUE, 0, span, cells, 0, NULL, NULL) |
                  clEnqueueWriteBuffer(queue, lab.out, CL_TRUE, 0, span, got, 0, NULL, NULL);
    if (scan_pieces(run, pieces)) {
        char what[128];
        code |= clEnqueueReadBuffer(queue, lab.in_place ? lab.in : lab.out, CL_TRUE, 0, span,
                                    got, 0, NULL, NULL);
        (void)snprintf(
            what, sizeof what,
            "%s, %s, %zu lines of %zu, step %zu, pitch %zu, flags %u, %zu pieces%s%s",
            dtype_info(dtype)->name, mixed ? "mixed" : float_family_name(family), run->lines,
            run->length, run->step, run->pitch, (unsigned)run->flags, pieces,
            lab.in_place ? ", in place" : "", lab.cut ? ", in partitions" : "");
        (void)ktest_same_bytes(got, want, span_of(run) + behind, bytes, what);
    }
    (void)ktest_check(code == CL_SUCCESS, "the lines are copied");
}

/* Draw lines and steps that the tested kernel supports, with at most `cells` elements. */
static struct run draw_run(size_t type, size_t length, ulong flags, size_t cells)
{
    struct run run = {type, length, flags, 1, 1, 1};
    if (lab.way == WAY_ANY) {
        run.step = 1 + scan_draw(MOST_STEP);
    } else {
        const size_t most = cells / length < LINES ? cells / length : LINES;
        run.lines = 1 + scan_draw((uint32_t)most);
        const bool both = lab.way == WAY_TILES || lab.way == WAY_ROWS;
        const bool columns = lab.way == WAY_COLUMNS || (both && scan_draw(3) == 0);
        const size_t apart = /* distance of elements or lines */
            lab.way == WAY_TILES || (both && scan_draw(3) == 0) ? 1 + scan_draw(3) : 1;
        run.step = columns ? apart * run.lines + scan_draw(2) : apart;
        run.pitch = columns ? apart : apart * length + (scan_draw(4) == 0);
    }
    return run;
}

/* ---- tests ---- */

static const ulong flag_sets[] = {0, ENTRY_EXCLUSIVE, ENTRY_REVERSE,
                                  ENTRY_EXCLUSIVE | ENTRY_REVERSE};

static void every_family(const void *context)
{
    (void)context;
    for (size_t type = 0; type < ARRAY_COUNT(types); type++) {
        for (int family = 0; family < FAMILY_COUNT; family++) {
            for (size_t f = 0; f < ARRAY_COUNT(flag_sets); f++) {
                const struct run run = draw_run(type, 1 + scan_draw(MOST), flag_sets[f], MOST);
                check(&run, (enum float_family)family, 1);
            }
        }
    }
}

static void every_short_length(const void *context)
{
    (void)context;
    for (size_t length = 1; length <= 130; length++) {
        const struct run run = draw_run(length % ARRAY_COUNT(types), length,
                                        flag_sets[length / 4 % ARRAY_COUNT(flag_sets)], MOST);
        check(&run, float_family_draw(true), 1);
    }
}

static void random_cuts(const void *context)
{
    (void)context;
    for (int i = 0; i < 200; i++) {
        const struct run run = draw_run((size_t)i % ARRAY_COUNT(types), 1 + scan_draw(300),
                                        flag_sets[i / 4 % (int)ARRAY_COUNT(flag_sets)], MOST);
        check(&run, float_family_draw(true), 2 + scan_draw(6));
    }
}

/* A launch chooses its method of addition by the sums that it continues. These sums also decide
 * how a result halfway between two numbers is rounded. */
static void tails_of_halfway_cases(const void *context)
{
    (void)context;
    for (int i = 0; i < 800; i++) {
        const struct run run = draw_run((size_t)i % ARRAY_COUNT(types), 3 + scan_draw(100),
                                        flag_sets[i / 4 % (int)ARRAY_COUNT(flag_sets)], MOST);
        check(&run, FAMILY_HALFWAY_BEFORE, 2 + scan_draw(3));
    }
}

static void partitions(const void *context)
{
    (void)context;
    lab.cut = true;
    for (size_t i = 0; i < (size_t)FAMILY_COUNT * ARRAY_COUNT(types); i++) {
        for (int n = 0; n < 6; n++) {
            const size_t length = 1 + scan_draw(n % 3 == 0 ? MOST : 60);
            const struct run run = draw_run(i % ARRAY_COUNT(types), length,
                                            flag_sets[scan_draw(ARRAY_COUNT(flag_sets))], MOST);
            check(&run, (enum float_family)(i / ARRAY_COUNT(types)), 1 + scan_draw(3));
        }
    }
    lab.cut = false;
}

/* float64 numbers with sums that are known without an oracle. */
static void known_sums(const void *context)
{
    static const struct {
        double in[8];
        double want[8];
    } rows[] = {
        {{0.9, 0.5, 0.7, 0, 0, 0, 0, 0}, {0.9, 1.4, 2.1, 2.1, 2.1, 2.1, 2.1, 2.1}},
        {{DBL_MAX, 6e291, 6e291, 0, -6e291, -6e291, -DBL_MAX, 1},
         {DBL_MAX, DBL_MAX, (double)INFINITY, (double)INFINITY, DBL_MAX, DBL_MAX, 0, 1}},
        {{1, 0x1p-53, 0x1p-1074, -0x1p-1074, 0, -0x1p-53, -1, -0.0},
         {1, 1, 1 + 0x1p-52, 1, 1, 1, 0, 0}},
        {{-0.0, -0.0, -0.0, 0.0, -0.0, -0.0, -0.0, -0.0}, {-0.0, -0.0, -0.0, 0, 0, 0, 0, 0}},
        {{(double)INFINITY, -1, 5, (double)INFINITY, -(double)INFINITY, 1, 2, 3},
         {(double)INFINITY, (double)INFINITY, (double)INFINITY, (double)INFINITY, (double)NAN,
          (double)NAN, (double)NAN, (double)NAN}},
    };
    (void)context;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const struct run run = {3, 8, 0, 1, 1, 1};
        double got[8];
        (void)clEnqueueWriteBuffer(lab.cl.queue, lab.in, CL_TRUE, 0, sizeof rows[i].in,
                                   rows[i].in, 0, NULL, NULL);
        if (launch(&run, 0, 8, 0)) {
            (void)clEnqueueReadBuffer(lab.cl.queue, lab.out, CL_TRUE, 0, sizeof got, got, 0,
                                      NULL, NULL);
            (void)ktest_same_bytes(got, rows[i].want, 8, sizeof *got, "known sums");
        }
    }
}

/* Lengths around multiples of vectors and blocks. */
static void lengths_around_blocks(const void *context)
{
    static const size_t places[] = {8, 16, 32, 64, 128, 512, 1024, 2048};
    (void)context;
    for (size_t i = 0; i < ARRAY_COUNT(places) * 3 * ARRAY_COUNT(types); i++) {
        const size_t length = places[i / 3 % ARRAY_COUNT(places)] + i % 3 - 1;
        const struct run run = draw_run(i / 3 / ARRAY_COUNT(places), length,
                                        flag_sets[scan_draw(ARRAY_COUNT(flag_sets))], MOST);
        for (int n = 0; n < 3; n++) {
            check(&run, float_family_draw(true), 1 + scan_draw(2));
        }
    }
}

/* If no element is negative, exact sums never decrease, and a zero does not change the sum. */
static void sums_never_fall(const void *context)
{
    static const enum float_family families[] = {FAMILY_UNIFORM, FAMILY_PRICES, FAMILY_RAIN,
                                                 FAMILY_PROBABILITIES, FAMILY_WIDE_LOG_NORMAL};
    static double in[MOST];
    static double out[MOST];
    const struct run run = {3, MOST, 0, 1, 1, 1};
    (void)context;
    lab.in_place = false;
    for (size_t f = 0; f < ARRAY_COUNT(families); f++) {
        float_line_draw(DTYPE_F64, families[f], in, 1, MOST);
        (void)clEnqueueWriteBuffer(lab.cl.queue, lab.in, CL_TRUE, 0, sizeof in, in, 0, NULL,
                                   NULL);
        if (!launch(&run, 0, MOST, 0)) {
            return;
        }
        (void)clEnqueueReadBuffer(lab.cl.queue, lab.out, CL_TRUE, 0, sizeof out, out, 0, NULL,
                                  NULL);
        for (size_t k = 1; k < MOST; k++) {
            if (out[k] < out[k - 1] || (in[k] == 0 && out[k] != out[k - 1])) {
                ktest_fail("%s: sum %zu is %.17g after %.17g, element %.17g",
                           float_family_name(families[f]), k, out[k], out[k - 1], in[k]);
                return;
            }
        }
    }
}

int main(void)
{
    const struct {
        const char *name;
        size_t device;
        enum way way;
    } ways[] = {{"the kernel of any layout", 0, WAY_ANY},
                {"the kernel of contiguous lines", 0, WAY_ROWS},
                {"the kernel of columns", 0, WAY_COLUMNS},
                {"the kernel that gathers tiles", 0, WAY_TILES},
                {"a device that compiles the source", scan_case_compiler_number(), WAY_ANY}};
    static const struct {
        const char *name;
        ktest_function test;
    } tests[] = {
        {"known float64 numbers have the sums that they should have", known_sums},
        {"inputs of every kind have the sums of the oracle", every_family},
        {"every short length has the sums of the oracle", every_short_length},
        {"lengths around vectors and blocks have the sums of the oracle",
         lengths_around_blocks},
        {"a line in launches of random lengths has the sums of one launch", random_cuts},
        {"launches that begin with a halfway case round by the tail", tails_of_halfway_cases},
        {"sums of numbers that are not negative never fall, and a zero changes none",
         sums_never_fall},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        lab_open(ways[i].device, ways[i].way);
        for (size_t t = 0; t < ARRAY_COUNT(tests); t++) {
            char sentence[160];
            (void)snprintf(sentence, sizeof sentence, "%s, by %s", tests[t].name, ways[i].name);
            ktest_run(sentence, tests[t].test, NULL);
        }
        if (lab.totals[0] != NULL) {
            char sentence[160];
            (void)snprintf(sentence, sizeof sentence,
                           "lines cut into partitions have the sums of the oracle, by %s",
                           ways[i].name);
            ktest_run(sentence, partitions, NULL);
        }
        lab_close();
    }
    return ktest_finish();
}
