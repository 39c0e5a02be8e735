/* The values and scans of kernel_bench --tune: for a threshold, scans on both sides of it. */
#include "tests/bench/bench_trials.h"

#include "kernels/scan_tuning.h"

/* clang-format off */
#define MIB(n) ((size_t)(n) << 20)
#define KIB(n) ((size_t)(n) << 10)
#define PLAIN         {NULL, 0, 0, NULL}
#define ROWS(n, lines)    {"rows of " #n, 2, {lines, n}, 1, PLAIN, PLAIN, NULL, NULL}
#define ROW               {"one row", 1, {-1}, 0, PLAIN, PLAIN, NULL, NULL}
#define SOME_ROWS         {"rows, one more than threads", 2, {TRIAL_THREADS_AND_ONE, -1}, 1, PLAIN, PLAIN, NULL, NULL}
#define COLUMNS(n)        {"columns of " #n, 2, {-1, n}, 0, PLAIN, PLAIN, NULL, NULL}
#define TURNED(n)         {"transposed rows of " #n, 2, {-1, n}, 1, {"10", 0, 0, NULL}, PLAIN, NULL, NULL}
#define STEPPED(n)        {"every element " #n " apart", 2, {-1, 1024}, 1, {NULL, n, 0, NULL}, {NULL, n, 0, NULL}, NULL, NULL}
#define FEW(lines)        {#lines " lines, every third element, packed", 2, {lines, -1}, 1, {NULL, 3, 0, NULL}, PLAIN, NULL, NULL}
#define FEW_ONCE(lines)   {#lines " lines of one number each", 2, {lines, -1}, 1, {NULL, 0, 0, "1"}, PLAIN, NULL, NULL}
#define AROUND(a, b)      {"transposed around the axis, " #a " by " #b, 3, {a, -1, b}, 1, {"210", 0, 0, NULL}, PLAIN, NULL, NULL}
#define WIDE(layout, bytes)   {layout, DTYPE_F32, PRECISION_WIDE, bytes, false}
#define NATIVE(layout, bytes) {layout, DTYPE_F32, PRECISION_NATIVE, bytes, false}
#define APART(layout, bytes)  {layout, DTYPE_F32, PRECISION_NATIVE, bytes, true}
#define HALF(layout, bytes)   {layout, DTYPE_F16, PRECISION_WIDE, bytes, false}
#define BRAIN(layout, bytes)  {layout, DTYPE_BF16, PRECISION_WIDE, bytes, false}
#define BYTES(layout, bytes)  {layout, DTYPE_I8, PRECISION_WIDE, bytes, false}
#define V(...) sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), {__VA_ARGS__}
#define S(...) {__VA_ARGS__}
const struct trial bench_trials[] = {
{"tiny_rows",      V(SCAN_BY_SHORT, SCAN_BY_ROWS), S(WIDE(ROWS(4, -1), MIB(16)), NATIVE(ROWS(2, -1), MIB(16)), BYTES(ROWS(4, -1), MIB(8))), 0},
{"half_rows",      V(SCAN_BY_SHORT, SCAN_BY_ROWS), S(HALF(ROWS(12, -1), MIB(8)), HALF(ROWS(64, -1), MIB(8)), HALF(ROWS(100, -1), MIB(8))), 0},
{"short_rows",     V(SCAN_BY_ROWS, SCAN_BY_ABREAST), S(WIDE(ROWS(9, -1), MIB(16)), NATIVE(ROWS(25, -1), MIB(16)), WIDE(ROWS(100, -1), MIB(16)), BYTES(ROWS(40, -1), MIB(8))), 0},
{"rows",           V(SCAN_BY_SHORT, SCAN_BY_ABREAST), S(WIDE(ROWS(64, -1), MIB(16)), WIDE(ROWS(1001, -1), MIB(16)), NATIVE(ROWS(1024, -1), MIB(16))), 0},
{"narrow_columns", V(SCAN_BY_COLUMNS), S(WIDE(COLUMNS(3), MIB(16)), NATIVE(COLUMNS(7), MIB(16)), BYTES(COLUMNS(2), MIB(8))), 0},
{"columns",        V(SCAN_BY_STRIDED), S(WIDE(COLUMNS(31), MIB(16)), NATIVE(COLUMNS(1024), MIB(16)), BYTES(COLUMNS(100), MIB(8))), 0},
{"crossed",        V(SCAN_BY_STRIDED), S(WIDE(AROUND(64, 256), MIB(16)), NATIVE(AROUND(100, 100), MIB(16))), 0},
{"few_strided",    V(SCAN_BY_STRIDED), S(WIDE(FEW(1), MIB(8)), NATIVE(FEW(3), MIB(8)), BYTES(FEW_ONCE(2), MIB(8))), 0},
{"strided",        V(SCAN_BY_GENERIC), S(WIDE(TURNED(4096), MIB(8)), NATIVE(STEPPED(2), MIB(8))), 0},
{"abreast_lines",  V(16, 32, 256), S(HALF(ROWS(100, 24), KIB(8)), HALF(ROWS(100, 48), KIB(16)), HALF(ROWS(100, 192), KIB(40))), 0},
{"half_row",       V(511, 1023, 4095, 8191), S(HALF(ROWS(700, -1), MIB(8)), BRAIN(ROWS(1500, -1), MIB(8)), HALF(ROWS(3000, -1), MIB(8)), HALF(ROWS(6000, -1), MIB(8))), 0},
{"short_row",      V(64, 128, 256, 512), S(WIDE(ROWS(100, -1), MIB(16)), WIDE(ROWS(200, -1), MIB(16)), WIDE(ROWS(400, -1), MIB(16)), NATIVE(ROWS(200, -1), MIB(16))), 0},
{"crossed_side",   V(2, 16), S(WIDE(AROUND(3, 1024), MIB(8)), WIDE(AROUND(8, 1024), MIB(8)), BYTES(AROUND(12, 1024), MIB(8))), 0},
{"strided_lines",  V(2, 4, 16), S(WIDE(FEW(3), MIB(8)), WIDE(FEW_ONCE(6), MIB(8)), NATIVE(FEW(12), MIB(8)), BYTES(FEW(10), MIB(8))), 0},
{"strip_columns",  V(128, 256), S(WIDE(COLUMNS(1024), MIB(16)), NATIVE(COLUMNS(1000), MIB(16)), NATIVE(COLUMNS(65536), MIB(16))), 0},
{"stream_bytes",   V(MIB(4), MIB(8), MIB(16), MIB(32)), S(APART(ROWS(16384, -1), MIB(6)), APART(COLUMNS(1000), MIB(6)), APART(ROWS(16384, -1), MIB(20)), APART(COLUMNS(1000), MIB(20))), TRIAL_READS},
{"stream_apart_bytes", V(MIB(4), MIB(8), MIB(16), MIB(64)), S(NATIVE(TURNED(4096), MIB(8)), NATIVE(TURNED(4096), MIB(32)), NATIVE(AROUND(64, 256), MIB(32))), TRIAL_READS},
{"units",          V(8, 16, 64), S(WIDE(ROWS(1024, -1), MIB(1)), WIDE(ROWS(1024, -1), MIB(3)), NATIVE(COLUMNS(3), MIB(2))), TRIAL_WAITS},
{"unit_bytes",     V(KIB(64), KIB(256), KIB(512)), S(WIDE(ROWS(1024, -1), MIB(32)), NATIVE(ROWS(100, -1), MIB(16))), 0},
{"unit_bytes_min", V(KIB(4), KIB(64)), S(WIDE(ROWS(1024, -1), KIB(64)), WIDE(ROWS(1024, -1), KIB(256)), NATIVE(ROWS(16, -1), KIB(128))), TRIAL_WAITS},
{"strided_units",  V(4, 16, 32), S(WIDE(TURNED(1024), MIB(4)), NATIVE(TURNED(4096), MIB(16))), TRIAL_WAITS},
{"cut_bytes",      V(KIB(256), KIB(512), MIB(2), MIB(4)), S(WIDE(ROW, KIB(400)), WIDE(ROW, KIB(900)), WIDE(ROW, KIB(1800)), WIDE(ROW, KIB(3600))), TRIAL_WAITS},
{"parts",          V(4, 16), S(WIDE(ROW, MIB(1)), WIDE(ROW, MIB(4))), TRIAL_WAITS},
{"part_bytes",     V(KIB(64), KIB(128)), S(WIDE(ROW, MIB(32)), WIDE(COLUMNS(3), MIB(32))), TRIAL_WAITS},
{"part_bytes_min", V(KIB(16), KIB(64)), S(WIDE(ROW, KIB(600)), WIDE(ROW, MIB(1))), TRIAL_WAITS},
{"busy_percent",   V(45, 90), S(WIDE(ROW, MIB(16)), WIDE(SOME_ROWS, MIB(24)), WIDE(COLUMNS(3), MIB(16))), TRIAL_WAITS},
{"busy_light_percent", V(30, 60, 90), S(NATIVE(ROW, MIB(16)), NATIVE(SOME_ROWS, MIB(24)), NATIVE(COLUMNS(64), MIB(16))), TRIAL_WAITS},
{"gap_step",       V(1, 4), S(WIDE(STEPPED(2), MIB(16)), WIDE(STEPPED(3), MIB(16)), WIDE(STEPPED(6), MIB(16))), 0},
{"gpu_lookback_from", V(4096, 8192, 1 << 17), S(WIDE(ROWS(6000, -1), MIB(64)), WIDE(ROWS(16384, -1), MIB(64)), WIDE(ROWS(65536, -1), MIB(64))), 0},
{"gpu_generic_from", V(1 << 13, 1 << 17), S(WIDE(COLUMNS(4096), MIB(64)), WIDE(COLUMNS(16384), MIB(64)), WIDE(COLUMNS(65536), MIB(64))), 0},
};
/* clang-format on */
const size_t bench_trial_count = sizeof bench_trials / sizeof *bench_trials;
