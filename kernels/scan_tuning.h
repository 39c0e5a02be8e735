/* The table of choices: which kernel runs a layout where several can, and from where on. What
 * is here depends on a machine and was measured (docs/performance.md, "The table of choices");
 * what a kernel needs to be right is not here. Every value within its bounds gives the same
 * bits.
 *
 * A row:
 *   name      field of struct scan_tuning, and its name in a file
 *   kind      NUMBER, or KERNEL: one of the words below
 *   value     the default, of every kind of device: rows of gpu_ are for the kernels for GPUs,
 *             the others for the vector kernels on CPUs
 *   min, max  bounds of a NUMBER, and what it is a multiple of
 *   unit, meaning */
#ifndef TALLY_KERNELS_SCAN_TUNING_H
#define TALLY_KERNELS_SCAN_TUNING_H

#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The vector kernels for CPUs, and the generic one. A layout that the wished one cannot run
 * goes by the usual one. */
#define SCAN_TUNING_KERNELS(X) \
    X(ROWS, "scan_rows")       \
    X(COLUMNS, "scan_columns") \
    X(ABREAST, "scan_abreast") \
    X(STRIDED, "scan_strided") \
    X(STEPS, "scan_steps")     \
    X(CROSSED, "scan_crossed") \
    X(SHORT, "scan_short")     \
    X(GENERIC, "scan_generic")

enum scan_tuning_kernel {
#define X(symbol, word) SCAN_BY_##symbol,
    SCAN_TUNING_KERNELS(X)
#undef X
    SCAN_BY_COUNT
};

#define SCAN_TUNING_TIB (UINT64_C(1) << 40)

/* clang-format off */
/* name               kind    value             min   max              multiple unit
 * meaning */
#define SCAN_TUNING_TABLE(X)                                                                        \
X(tiny_rows,          KERNEL, SCAN_BY_ABREAST,  0,    0,               1,   "kernel",               \
  "rows of 2 and 4 elements without gaps, abreast_lines of them or more")                           \
X(half_rows,          KERNEL, SCAN_BY_ABREAST,  0,    0,               1,   "kernel",               \
  "rows of 8 16-bit floats and more, up to half_row, abreast_lines of them or more")                \
X(short_rows,         KERNEL, SCAN_BY_SHORT,    0,    0,               1,   "kernel",               \
  "other rows up to short_row that are no multiple of 64")                                          \
X(rows,               KERNEL, SCAN_BY_ROWS,     0,    0,               1,   "kernel",               \
  "all other rows")                                                                                 \
X(narrow_columns,     KERNEL, SCAN_BY_SHORT,    0,    0,               1,   "kernel",               \
  "2 to 7 columns side by side, without gaps")                                                      \
X(columns,            KERNEL, SCAN_BY_COLUMNS,  0,    0,               1,   "kernel",               \
  "other columns: lines that follow each other in memory on both sides")                            \
X(crossed,            KERNEL, SCAN_BY_CROSSED,  0,    0,               1,   "kernel",               \
  "one dimension is contiguous on the input, another on the output, both crossed_side or longer")   \
X(few_strided,        KERNEL, SCAN_BY_STEPS,    0,    0,               1,   "kernel",               \
  "other layouts of fewer than strided_lines lines")                                                \
X(strided,            KERNEL, SCAN_BY_STRIDED,  0,    0,               1,   "kernel",               \
  "every other layout")                                                                             \
X(abreast_lines,      NUMBER, 64,               1,    SCAN_TUNING_TIB, 1,   "rows",                 \
  "of which tiny_rows and half_rows speak: fewer leave lanes empty")                                \
X(half_row,           NUMBER, 8191,             0,    1 << 20,         1,   "elements",             \
  "longest of half_rows; longer ones are walked one by one sooner")                                 \
X(short_row,          NUMBER, 128,              0,    1 << 20,         1,   "elements",             \
  "longest of short_rows; longer ones are walked one by one sooner")                                \
X(crossed_side,       NUMBER, 4,                1,    4096,            1,   "lines",                \
  "of both dimensions of crossed")                                                                  \
X(strided_lines,      NUMBER, 8,                0,    SCAN_TUNING_TIB, 1,   "lines",                \
  "of strided: fewer leave lanes empty")                                                            \
X(strip_columns,      NUMBER, 512,              64,   512,             64,  "columns",              \
  "of a strip of columns: their sums stay in a first-level cache; the last has up to twice as many") \
X(stream_bytes,       NUMBER, 16 << 20,         0,    SCAN_TUNING_TIB, 1,   "bytes",                \
  "outputs from here on are stored past the caches, for they stay in none")                         \
X(stream_apart_bytes, NUMBER, 16 << 20,         0,    SCAN_TUNING_TIB, 1,   "bytes",                \
  "the same of strided and crossed, whose cache lines the hardware does not foresee")               \
X(units,              NUMBER, 32,               1,    4096,            1,   "units",                \
  "of work in a launch that is large enough, so that threads end together")                         \
X(unit_bytes,         NUMBER, 1 << 17,          4096, 1 << 30,         1,   "bytes",                \
  "of elements in a unit, at most")                                                                 \
X(unit_bytes_min,     NUMBER, 1 << 14,          1024, 1 << 30,         1,   "bytes",                \
  "of elements in a unit: smaller is not worth starting")                                           \
X(strided_units,      NUMBER, 8,                1,    4096,            1,   "units",                \
  "as units, of strided: its bundles are wide")                                                     \
X(cut_bytes,          NUMBER, 1 << 19,          0,    SCAN_TUNING_TIB, 1,   "bytes",                \
  "lines from here on are cut into parts for several threads; shorter ones end before another wakes") \
X(parts,              NUMBER, 8,                1,    4096,            1,   "parts",                \
  "of a cut line for each thread, about")                                                           \
X(part_bytes,         NUMBER, 1 << 18,          4096, 1 << 18,         1,   "bytes",                \
  "of a part, at most: half a second-level cache or less; kernels have room for no more")           \
X(part_bytes_min,     NUMBER, 1 << 15,          4096, 1 << 18,         1,   "bytes",                \
  "of a part: smaller ones cost more in handing sums on")                                           \
X(lead_percent,       NUMBER, 130,              100,  200,             1,   "%",                    \
  "of a part's length, of the one in a round of as many as there are threads that is not added up")  \
X(busy_percent,       NUMBER, 70,               0,    100,             1,   "%",                    \
  "of the threads' time that whole lines must keep them busy for not to be cut")                    \
X(busy_light_percent, NUMBER, 45,               0,    100,             1,   "%",                    \
  "the same of elements of 8 bytes, as fast as memory with one thread, and of strips but for 16-bit floats")      \
X(gap_step,           NUMBER, 8,                0,    8,               1,   "elements",             \
  "longest step between outputs whose gaps are zeroed with the results; of longer ones by the host") \
X(gpu_lookback_from,  NUMBER, 1 << 15,          1,    SCAN_TUNING_TIB, 1,   "elements",             \
  "contiguous lines of this length go by look-back on GPUs; shorter ones are done sooner without")  \
X(gpu_generic_from,   NUMBER, 1 << 15,          1,    SCAN_TUNING_TIB, 1,   "lines",                \
  "columns or strided lines, so many, get a work-item each on GPUs: they fill it")
/* clang-format on */

struct scan_tuning {
#define X(name, kind, value, min, max, multiple, unit, meaning) uint64_t name;
    SCAN_TUNING_TABLE(X)
#undef X
};

extern const struct scan_tuning scan_tuning_default;

/* The rows, for whoever goes through them. */
struct scan_tuning_row {
    const char *name;
    size_t offset; /* of a uint64_t in struct scan_tuning */
    bool kernel;   /* the value is an enum scan_tuning_kernel */
    uint64_t min;
    uint64_t max;
    uint64_t multiple;
    const char *unit;
    const char *meaning;
};
enum {
#define X(name, kind, value, min, max, multiple, unit, meaning) SCAN_TUNING_##name,
    SCAN_TUNING_TABLE(X)
#undef X
    SCAN_TUNING_ROWS
};
extern const struct scan_tuning_row scan_tuning_rows[SCAN_TUNING_ROWS];
extern const char *const scan_tuning_words[SCAN_BY_COUNT];

/* The row of that name; NULL: there is none. */
const struct scan_tuning_row *scan_tuning_find(const char *name);

uint64_t scan_tuning_get(const struct scan_tuning *tuning, const struct scan_tuning_row *row);

/* The value is one that the row allows. */
void scan_tuning_put(struct scan_tuning *tuning, const struct scan_tuning_row *row,
                     uint64_t value);

/* "name value", as in a file. */
void scan_tuning_line(const struct scan_tuning_row *row, uint64_t value, char *text,
                      size_t room);

/* Take what a text says: lines of a name and a value (a number, also with KiB, MiB or GiB
 * behind it, or a kernel); # begins a comment; what is not named stays as it is.
 * err   INVALID_REQUEST: with the line, the name and what is allowed; *tuning is untouched */
MUST_CHECK enum status scan_tuning_parse(const char *text, size_t length,
                                         struct scan_tuning *tuning, struct error *err);

/* The same from a file. err INVALID_REQUEST: also that it cannot be read */
MUST_CHECK enum status scan_tuning_read(const char *path, struct scan_tuning *tuning,
                                        struct error *err);

#endif
