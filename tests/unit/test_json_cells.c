/* Cells of output buffers: which of them are sums, and their text, compared with a buffer that
 * holds all cells. */
#include "kernels/plan.h"
#include "proto/attributes.h"
#include "proto/json/cells.h"
#include "proto/json/tensor.h"
#include "proto/json/writer.h"
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

enum {
    CELLS_MAX = 4096
};

static const struct {
    int rank;
    int64_t sizes[4];
    int64_t strides[4];
    uint64_t tail; /* cells after the last sum */
} layouts[] = {
    {1, {1}, {5}, 0},
    {1, {1}, {0}, 3},
    {1, {7}, {1}, 0},
    {1, {7}, {1}, 9},
    {1, {5}, {13}, 0},
    {1, {2}, {4000}, 1},
    {2, {3, 4}, {100, 7}, 0},
    {2, {3, 4}, {40, 1}, 2},
    {2, {3, 4}, {1, 40}, 0},
    {2, {3, 4}, {4, 1}, 0},
    {2, {3, 4}, {1, 3}, 5},
    {3, {2, 3, 5}, {1, 2, 6}, 0},
    {3, {4, 1, 6}, {60, 0, 3}, 0},
    {3, {2, 3, 4}, {5, 100, 12}, 7},
    {4, {2, 2, 2, 3}, {24, 3, 12, 1}, 0},
    {4, {2, 2, 2, 2}, {900, 300, 70, 30}, 0},
};

static struct scan_desc desc_of(size_t i)
{
    struct scan_desc desc = {
        .dtype = DTYPE_I16, .rank = layouts[i].rank, .has_output_strides = true};
    memcpy(desc.sizes, layouts[i].sizes, sizeof layouts[i].sizes);
    memcpy(desc.output_strides, layouts[i].strides, sizeof layouts[i].strides);
    return desc;
}

/* Write sum n as n + 1 to its address; returns the number of sums. */
static uint64_t lay_out(const struct scan_desc *desc, int16_t *buffer)
{
    uint64_t sums = 1;
    for (int d = 0; d < desc->rank; d++) {
        sums *= (uint64_t)desc->sizes[d];
    }
    for (uint64_t n = 0; n < sums; n++) {
        uint64_t rest = n;
        int64_t cell = 0;
        for (int d = desc->rank - 1; d >= 0; d--) {
            cell += (int64_t)(rest % (uint64_t)desc->sizes[d]) * desc->output_strides[d];
            rest /= (uint64_t)desc->sizes[d];
        }
        assert_in_range(cell, 0, CELLS_MAX - 1);
        assert_int_equal(buffer[cell], 0);
        buffer[cell] = (int16_t)(n + 1);
    }
    return sums;
}

static void cells_are_those_of_the_buffer(void **state)
{
    static int16_t sums[CELLS_MAX];
    (void)state;
    for (int i = 0; i < CELLS_MAX; i++) {
        sums[i] = (int16_t)(i + 1);
    }
    for (size_t i = 0; i < ARRAY_COUNT(layouts); i++) {
        static int16_t buffer[CELLS_MAX];
        const struct scan_desc desc = desc_of(i);
        struct json_cells cells;
        memset(buffer, 0, sizeof buffer);
        assert_true(json_cells_strided(&desc, &cells));
        assert_int_equal(cells.sums, lay_out(&desc, buffer));
        uint64_t reach = 0;
        assert_true(output_reach(&desc, &reach));
        assert_int_equal(cells.count, reach);
        cells.count += layouts[i].tail;
        uint64_t before = 0;
        for (uint64_t cell = 0; cell <= cells.count; cell++) {
            assert_int_equal(json_cells_sums_before(&cells, cell), before);
            before += cell < cells.count && buffer[cell] != 0;
        }
        assert_int_equal(before, cells.sums);
        struct json_cells_text text;
        json_cells_text_init(DTYPE_I16, sums, &text);
        const number_writer print = number_writer_of(DTYPE_I16);
        for (uint64_t first = 0; first < cells.count; first += 1 + first / 40) {
            for (uint64_t count = 1; first + count <= cells.count; count += 1 + count / 4) {
                static char found[CELLS_MAX * 8 + NUMBER_ROOM];
                static char expected[CELLS_MAX * 8 + NUMBER_ROOM];
                const size_t bytes =
                    (size_t)(json_cells_print(&cells, &text, first, count, found) - found);
                assert_int_equal(bytes, print(buffer + first, count, expected) - expected);
                assert_memory_equal(found, expected, bytes);
            }
        }
    }
}

static void a_tail_follows_sums_side_by_side(void **state)
{
    struct json_cells cells;
    (void)state;
    for (uint64_t sums = 1; sums < 4; sums++) {
        json_cells_tailed(sums, 6, &cells);
        assert_int_equal(cells.count, 6);
        for (uint64_t cell = 0; cell <= 6; cell++) {
            assert_int_equal(json_cells_sums_before(&cells, cell), cell < sums ? cell : sums);
        }
    }
    json_cells_tailed(4, 2, &cells);
    assert_int_equal(cells.count, 4);
}

static void other_layouts_are_not_printed_by_cells(void **state)
{
    static const struct {
        int64_t sizes[2];
        int64_t strides[2];
    } others[] = {
        {{2, 3}, {3, 2}},           /* interleaved */
        {{2, 3}, {3000, 2000}},     /* interleaved and far apart */
        {{2, 2}, {1, 1}},           /* two sums at one address */
        {{2, 2}, {0, 1}},           /* two sums at one address, by stride 0 */
        {{2, 0}, {1, 1}},           /* no element */
        {{2, 2}, {-1, 5}},          /* before the first cell */
        {{2, 3}, {INT64_MAX, 100}}, /* just within 64 bits */
        {{INT64_MAX, 3}, {INT64_MAX, 1}},
        {{INT64_MAX, INT64_MAX}, {1, 1}},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        struct scan_desc desc = {.dtype = DTYPE_I64, .rank = 2, .has_output_strides = true};
        struct json_cells cells;
        memcpy(desc.sizes, others[i].sizes, sizeof others[i].sizes);
        memcpy(desc.output_strides, others[i].strides, sizeof others[i].strides);
        const bool strided = json_cells_strided(&desc, &cells);
        assert_int_equal(strided, i == 6);
        assert_int_equal(json_cells_are_sparse(&desc), i == 6);
    }
    const struct scan_desc packed = {.dtype = DTYPE_I64, .rank = 1, .sizes = {2}};
    assert_false(json_cells_are_sparse(&packed));
}

static void a_buffer_with_few_gaps_is_held(void **state)
{
    struct scan_desc desc = {
        .dtype = DTYPE_I64, .rank = 1, .sizes = {100}, .has_output_strides = true};
    (void)state;
    for (int64_t stride = 1; stride < 20; stride++) {
        desc.output_strides[0] = stride;
        assert_int_equal(json_cells_are_sparse(&desc), 99 * stride + 1 >= 800);
    }
}

/* The room reserved for a text of zeros is exactly its length. */
static void zeros_are_reserved_by_their_own_length(void **state)
{
    static const struct {
        enum dtype dtype;
        uint64_t zero_bytes;
    } types[] = {{DTYPE_F32, 4}, {DTYPE_BF16, 4}, {DTYPE_U64, 2}, {DTYPE_I8, 2}};
    const uint64_t one = 1;
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
        struct json_cells cells;
        json_cells_tailed(1, 1000000, &cells);
        const struct json_print print = {
            .dtype = types[i].dtype, .data = &one, .elements = 1, .cells = &cells};
        const uint64_t zeros = types[i].zero_bytes * 999999;
        const uint64_t most = json_tensor_write_max(&print, 0);
        assert_in_range(most, zeros, zeros + 64 * 100);
        struct json_writer w;
        json_writer_init_sized(&w, most);
        json_tensor_write(&print, &w);
        assert_true(json_writer_ok(&w));
        assert_in_range(w.bytes, zeros, most);
        assert_int_equal(w.text[w.bytes - 1], ']');
        assert_true(w.capacity == most + 1); /* the buffer did not grow */
        json_writer_deinit(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_are_those_of_the_buffer),
        cmocka_unit_test(a_tail_follows_sums_side_by_side),
        cmocka_unit_test(other_layouts_are_not_printed_by_cells),
        cmocka_unit_test(a_buffer_with_few_gaps_is_held),
        cmocka_unit_test(zeros_are_reserved_by_their_own_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
