/* libtally against the real server at TALLY_URL: every type, both flags, strides, in place,
 * submitted calls, and the DirectML API. The expected sums come from a plain loop. */
#include "tests/client/lib/support.h"

#include "client/tally_directml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tally *client;

static int open_client(void **state)
{
    struct tally_error err;
    (void)state;
    client = tally_open(NULL, NULL, &err);
    return client == NULL;
}

static int close_client(void **state)
{
    (void)state;
    tally_close(client);
    return 0;
}

/* Set element `index` to a small number, so that the sums fit every type. */
static void put_number(enum tally_dtype dtype, void *array, size_t index, int number)
{
    unsigned char *at = (unsigned char *)array + index * tally_dtype_bytes(dtype);
    float single = (float)number;
    double twice = number;
    uint32_t bits = 0;
    uint16_t half = 0;
    int64_t integer = number;
    memcpy(&bits, &single, 4);
    switch (dtype) {
    case TALLY_FLOAT16: /* exact: |number| < 2048 */
        if (number != 0)
            half =
                (uint16_t)(((bits >> 16) & 0x8000) |
                           ((((bits >> 23) & 0xFF) - 127 + 15) << 10) | ((bits >> 13) & 0x3FF));
        memcpy(at, &half, 2);
        break;
    case TALLY_BFLOAT16: /* exact: |number| < 256 */
        half = (uint16_t)(bits >> 16);
        memcpy(at, &half, 2);
        break;
    case TALLY_FLOAT32:
        memcpy(at, &single, 4);
        break;
    case TALLY_FLOAT64:
        memcpy(at, &twice, 8);
        break;
    case TALLY_INT8:
    case TALLY_INT16:
    case TALLY_INT32:
    case TALLY_INT64:
    case TALLY_UINT8:
    case TALLY_UINT16:
    case TALLY_UINT32:
    case TALLY_UINT64:
    case TALLY_BOOL:
        memcpy(at, &integer, tally_dtype_bytes(dtype));
        break;
    }
}

enum {
    ROWS = 3,
    COLUMNS = 5,
    CELLS = ROWS * COLUMNS
};

static int input_number(int row, int column)
{
    return (row * 3 + column * 2) % 5;
}

/* The expected sum of a cell, along columns (axis 0) or rows (axis 1). */
static int expected_number(int row, int column, int axis, int exclusive, int reverse)
{
    int length = axis == 0 ? ROWS : COLUMNS;
    int own = axis == 0 ? row : column;
    int sum = 0;
    for (int k = 0; k < length; k++) {
        int before = reverse ? k > own : k < own;
        if (before || (k == own && !exclusive))
            sum += axis == 0 ? input_number(k, column) : input_number(row, k);
    }
    return sum;
}

static void fill(enum tally_dtype dtype, void *input, void *expected,
                 const struct tally_scan *scan)
{
    for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < COLUMNS; column++) {
            size_t cell = (size_t)(row * COLUMNS + column);
            put_number(dtype, input, cell, input_number(row, column));
            put_number(
                dtype, expected, cell,
                expected_number(row, column, (int)scan->axis, scan->exclusive, scan->reverse));
        }
    }
}

static void every_type_axis_and_flag_is_right(void **state)
{
    (void)state;
    int64_t sizes[] = {ROWS, COLUMNS};
    for (int variant = 0; variant < 12 * 16; variant++) {
        unsigned char input[CELLS * 8];
        unsigned char output[CELLS * 8];
        unsigned char expected[CELLS * 8];
        struct tally_error err;
        struct tally_scan scan = {.struct_size = sizeof scan,
                                  .dtype = (enum tally_dtype)(variant / 16),
                                  .rank = 2,
                                  .sizes = sizes,
                                  .axis = variant & 1,
                                  .exclusive = variant >> 1 & 1,
                                  .reverse = variant >> 2 & 1};
        int in_place = variant >> 3 & 1;
        size_t bytes = CELLS * tally_dtype_bytes(scan.dtype);
        fill(scan.dtype, input, expected, &scan);
        void *to = in_place ? input : output;
        if (tally_cumsum(client, &scan, input, to, &err) != TALLY_OK)
            fail_msg("variant %d: %s", variant, err.message);
        assert_memory_equal(to, expected, bytes);
    }
}

static void strided_input_and_output_are_laid_out_right(void **state)
{
    (void)state;
    int64_t sizes[] = {2, 3};
    int64_t strides[] = {1, 2};        /* columns first */
    int64_t output_strides[] = {4, 1}; /* a gap after each row */
    int32_t input[] = {1, 10, 2, 20, 3, 30};
    int32_t output[7] = {-1, -1, -1, -1, -1, -1, -1};
    int32_t expected[7] = {1, 3, 6, 0, 10, 30, 60};
    uint64_t input_bytes = 0;
    uint64_t output_bytes = 0;
    struct tally_error err;
    struct tally_scan scan = {.struct_size = sizeof scan,
                              .dtype = TALLY_INT32,
                              .rank = 2,
                              .sizes = sizes,
                              .strides = strides,
                              .output_strides = output_strides,
                              .axis = 1,
                              .input_bytes = sizeof input,
                              .output_bytes = sizeof output};
    assert_int_equal(tally_scan_bytes(&scan, &input_bytes, &output_bytes, &err), TALLY_OK);
    assert_int_equal(input_bytes, sizeof input);
    assert_int_equal(output_bytes, sizeof output);
    if (tally_cumsum(client, &scan, input, output, &err) != TALLY_OK)
        fail_msg("%s", err.message);
    assert_memory_equal(output, expected, sizeof output);
}

static void a_large_tensor_in_place_is_right(void **state)
{
    (void)state;
    int64_t size = 3 << 20;
    int32_t *numbers = test_malloc((size_t)size * 4);
    struct tally_error err;
    struct tally_scan scan = scan_of(&size);
    for (int64_t i = 0; i < size; i++)
        numbers[i] = (int32_t)(i % 1000);
    assert_int_equal(tally_cumsum(client, &scan, numbers, numbers, &err), TALLY_OK);
    uint32_t sum = 0;
    for (int64_t i = 0; i < size; i++) {
        sum += (uint32_t)(i % 1000);
        assert_int_equal(numbers[i], (int32_t)sum);
    }
    test_free(numbers);
}

enum {
    LONG_AXIS = 1100,
    LINES = 3
};

/* Fill with numbers whose sums need rounding: another order of additions gives other bits. */
static void fill_uneven(float *numbers)
{
    for (int i = 0; i < LONG_AXIS * LINES; i++)
        numbers[i] = (float)((i * 2654435761U) % 100003) / 7.0F;
}

static void parts_have_the_bits_of_the_whole(void **state)
{
    (void)state;
    static const int64_t cuts[][5] = {
        {256, 512, 332}, {1, 254, 0, 3, 842}, {0, 1100}, {1099, 1}, {1100}};
    static float input[LONG_AXIS * LINES];
    static float whole[LONG_AXIS * LINES];
    static float output[LONG_AXIS * LINES];
    fill_uneven(input);
    for (int variant = 0; variant < 8 * 5; variant++) {
        int64_t sizes[] = {LONG_AXIS, LINES};
        int reverse = variant >> 1 & 1;
        int in_place = variant >> 2 & 1;
        struct tally_error err;
        struct tally_scan scan = {.struct_size = sizeof scan,
                                  .dtype = TALLY_FLOAT32,
                                  .rank = 2,
                                  .sizes = sizes,
                                  .axis = 0,
                                  .exclusive = variant & 1,
                                  .reverse = reverse};
        if (tally_cumsum(client, &scan, input, whole, &err) != TALLY_OK)
            fail_msg("%s", err.message);
        struct tally_parts *parts = tally_parts_open(client, &scan, &err);
        assert_non_null(parts);
        memcpy(output, input, sizeof output);
        for (int i = 0; i < 5; i++) {
            int64_t count = cuts[variant / 8][i];
            int64_t done = tally_parts_position(parts);
            int64_t at = (reverse ? LONG_AXIS - done - count : done) * LINES;
            if (tally_parts_next(parts, count, in_place ? output + at : input + at, output + at,
                                 &err) != TALLY_OK)
                fail_msg("variant %d: %s", variant, err.message);
        }
        assert_int_equal(tally_parts_position(parts), LONG_AXIS);
        assert_memory_equal(output, whole, sizeof whole);
        tally_parts_close(parts);
    }
}

static void a_saved_carry_goes_on_in_another_client(void **state)
{
    (void)state;
    static float input[LONG_AXIS * LINES];
    static float whole[LONG_AXIS * LINES];
    static float output[LONG_AXIS * LINES];
    int64_t sizes[] = {LINES, LONG_AXIS};
    int64_t strides[] = {1, LINES};
    unsigned char saved[64 + LINES * (4 + 6 * 8) + 8]; /* the largest size of a carry */
    uint64_t bytes = 1;
    struct tally_error err;
    struct tally_scan scan = {.struct_size = sizeof scan,
                              .dtype = TALLY_FLOAT32,
                              .rank = 2,
                              .sizes = sizes,
                              .strides = strides,
                              .axis = -1};
    fill_uneven(input);
    assert_int_equal(tally_cumsum(client, &scan, input, whole, &err), TALLY_OK);
    struct tally_parts *parts = tally_parts_open(client, &scan, &err);
    assert_null(tally_parts_carry(parts, &bytes));
    assert_int_equal(bytes, 0);
    if (tally_parts_next(parts, 300, input, output, &err) != TALLY_OK)
        fail_msg("%s", err.message);
    const void *carry = tally_parts_carry(parts, &bytes);
    assert_in_range(bytes, 64 + LINES * (4 + 8), sizeof saved);
    memcpy(saved, carry, bytes);
    tally_parts_close(parts);
    for (int line = 0; line < LINES; line++)
        assert_memory_equal(output + line * 300, whole + line * LONG_AXIS, 300 * sizeof(float));

    struct tally *other = tally_open(NULL, NULL, &err);
    parts = tally_parts_open(other, &scan, &err);
    assert_int_equal(tally_parts_restore(parts, saved, bytes, &err), TALLY_OK);
    assert_int_equal(tally_parts_position(parts), 300);
    if (tally_parts_next(parts, 800, input + 300 * LINES, output, &err) != TALLY_OK)
        fail_msg("%s", err.message);
    for (int line = 0; line < LINES; line++)
        assert_memory_equal(output + line * 800, whole + line * LONG_AXIS + 300,
                            800 * sizeof(float));
    tally_parts_close(parts);

    /* A carry of another scan and a damaged carry are refused; the position does not change. */
    scan.reverse = 1;
    parts = tally_parts_open(other, &scan, &err);
    assert_int_equal(tally_parts_restore(parts, saved, bytes, &err), TALLY_OK);
    assert_int_equal(tally_parts_next(parts, 1, input, output, &err), TALLY_REJECTED);
    assert_string_equal(err.field, "carry");
    assert_int_equal(tally_parts_position(parts), 300);
    saved[70] ^= 1;
    tally_parts_close(parts);
    scan.reverse = 0;
    parts = tally_parts_open(other, &scan, &err);
    assert_int_equal(tally_parts_restore(parts, saved, bytes, &err), TALLY_OK);
    assert_int_equal(tally_parts_next(parts, 1, input, output, &err), TALLY_REJECTED);
    assert_int_equal(tally_parts_restore(parts, saved, 63, &err), TALLY_INVALID_ARGUMENT);
    saved[0] ^= 1;
    assert_int_equal(tally_parts_restore(parts, saved, bytes, &err), TALLY_INVALID_ARGUMENT);
    tally_parts_close(parts);
    tally_close(other);
}

/* A scan of no elements returns the initial value with unchanged bits, for every type. */
static void an_initial_value_comes_back_as_it_went(void **state)
{
    (void)state;
    for (int variant = 0; variant <= TALLY_UINT64; variant++) {
        const enum tally_dtype dtype = (enum tally_dtype)variant;
        const size_t element = tally_dtype_bytes(dtype);
        const int64_t size = 0;
        for (int i = 0; i < 40; i++) {
            uint64_t initial = (uint64_t)(i + 1) * UINT64_C(0x9E3779B97F4A7C15);
            uint64_t output = 0;
            struct tally_error err;
            if (variant <= TALLY_FLOAT64) /* excludes NaN, whose payload is not kept */
                initial &= ~(UINT64_C(1) << (8 * element - 2));
            initial &= UINT64_MAX >> (64 - 8 * element);
            struct tally_scan scan = {.struct_size = sizeof scan,
                                      .dtype = dtype,
                                      .rank = 1,
                                      .sizes = &size,
                                      .include_initial = 1,
                                      .initial = &initial};
            if (tally_cumsum(client, &scan, NULL, &output, &err) != TALLY_OK)
                fail_msg("type %d, %d: %s", variant, i, err.message);
            assert_int_equal(output, initial);
        }
    }
}

/* Each row has elements, sums, and the attributes of the scan. */
static void attributes_change_the_sums_as_they_say(void **state)
{
    (void)state;
    const double nan = 0.0 / 0.0;
    const int64_t size = 3;
    const unsigned char truths[3] = {1, 0, 1};
    const uint8_t bytes[3] = {200, 100, 1};
    const float floats[3] = {1.5F, (float)nan, 2};
    const double quarter = 0.25;
    const int64_t ten = 10;
    struct tally_scan base = {
        .struct_size = sizeof base, .dtype = TALLY_BOOL, .rank = 1, .sizes = &size};
    struct tally_error err;

    int64_t counts[4];
    const int64_t plain[3] = {1, 1, 2};
    struct tally_scan scan = base;
    assert_int_equal(tally_cumsum(client, &scan, truths, counts, &err), TALLY_OK);
    assert_memory_equal(counts, plain, sizeof plain);
    const int64_t from_ten[4] = {12, 11, 11, 10};
    scan.initial = &ten;
    scan.include_initial = 1;
    scan.reverse = 1;
    memcpy(counts, truths, sizeof truths); /* in place, as the buffer has room for the sums */
    assert_int_equal(tally_cumsum(client, &scan, counts, counts, &err), TALLY_OK);
    assert_memory_equal(counts, from_ten, sizeof from_ten);

    uint16_t wide[3];
    const uint16_t expected_wide[3] = {200, 300, 301};
    scan = base;
    scan.dtype = TALLY_UINT8;
    scan.has_output_dtype = 1;
    scan.output_dtype = TALLY_UINT16;
    assert_int_equal(tally_cumsum(client, &scan, bytes, wide, &err), TALLY_OK);
    assert_memory_equal(wide, expected_wide, sizeof wide);

    double sums[3];
    scan.dtype = TALLY_FLOAT32;
    scan.output_dtype = TALLY_FLOAT64;
    scan.nan = TALLY_NAN_ZERO;
    scan.initial = &quarter;
    assert_int_equal(tally_cumsum(client, &scan, floats, sums, &err), TALLY_OK);
    const double zeroed[3] = {1.75, 1.75, 3.75};
    assert_memory_equal(sums, zeroed, sizeof sums);
    scan.nan = TALLY_NAN_SKIP;
    assert_int_equal(tally_cumsum(client, &scan, floats, sums, &err), TALLY_OK);
    assert_true(sums[0] == 1.75 && sums[1] != sums[1] && sums[2] == 3.75);
}

static void parts_with_attributes_have_the_sums_of_the_whole(void **state)
{
    (void)state;
    static float input[LONG_AXIS * LINES];
    static double whole[(LONG_AXIS + 1) * LINES];
    static double output[(LONG_AXIS + 1) * LINES];
    const double initial = 1e-3;
    int64_t sizes[] = {LONG_AXIS, LINES};
    struct tally_error err;
    struct tally_scan scan = {.struct_size = sizeof scan,
                              .dtype = TALLY_FLOAT32,
                              .rank = 2,
                              .sizes = sizes,
                              .has_output_dtype = 1,
                              .output_dtype = TALLY_FLOAT64,
                              .nan = TALLY_NAN_SKIP,
                              .include_initial = 1,
                              .initial = &initial};
    fill_uneven(input);
    input[LINES * 5 + 1] = (float)(0.0 / 0.0);
    assert_int_equal(tally_cumsum(client, &scan, input, whole, &err), TALLY_OK);
    struct tally_parts *parts = tally_parts_open(client, &scan, &err);
    assert_int_equal(tally_parts_next(parts, 400, input, output, &err), TALLY_OK);
    assert_int_equal(tally_parts_position(parts), 400);
    if (tally_parts_next(parts, LONG_AXIS - 400, input + 400 * LINES, output + 401 * LINES,
                         &err) != TALLY_OK)
        fail_msg("%s", err.message);
    assert_memory_equal(output, whole, sizeof whole);
    tally_parts_close(parts);

    /* The second part continues from the totals of the first. */
    struct tally_carry total = {NULL, 0};
    sizes[0] = 400;
    scan.include_initial = 0;
    if (tally_totals(client, &scan, input, &total, &err) != TALLY_OK)
        fail_msg("%s", err.message);
    parts = tally_parts_open(client, &scan, &err);
    assert_int_equal(tally_parts_restore(parts, total.bytes, total.count, &err), TALLY_OK);
    assert_int_equal(tally_parts_position(parts), 400);
    memset(output, 0, sizeof output);
    if (tally_parts_next(parts, LONG_AXIS - 400, input + 400 * LINES, output, &err) != TALLY_OK)
        fail_msg("%s", err.message);
    assert_memory_equal(output, whole + 401 * LINES,
                        (size_t)(LONG_AXIS - 400) * LINES * sizeof *output);
    tally_parts_close(parts);
    tally_carry_free(&total);
}

/* Four pieces: each continues from the totals of the pieces before it. The totals are added in
 * an order other than that along the axis. */
static void pieces_behind_totals_are_summed_as_the_whole(void **state)
{
    (void)state;
    enum {
        PIECES = 4,
        LENGTH = 1100
    };
    static const int64_t edges[PIECES + 1] = {0, 1, 300, 813, LENGTH};
    static char input[LENGTH * sizeof(uint64_t)];
    static char whole[sizeof input];
    static char piece[sizeof input];
    for (int variant = 0; variant < 2 * (TALLY_UINT64 + 1); variant++) {
        const enum tally_dtype dtype = (enum tally_dtype)(variant / 2);
        const size_t element = tally_dtype_bytes(dtype);
        int64_t size = LENGTH;
        struct tally_error err;
        struct tally_scan scan = {.struct_size = sizeof scan,
                                  .dtype = dtype,
                                  .rank = 1,
                                  .sizes = &size,
                                  .exclusive = variant & 1};
        for (size_t i = 0; i < sizeof input; i++)
            input[i] = (char)((i * 2654435761U) >> 13 & 0x3B); /* excludes infinities and NaN */
        struct tally_carry totals[PIECES] = {{NULL, 0}};
        assert_int_equal(tally_cumsum(client, &scan, input, whole, &err), TALLY_OK);
        for (int p = 0; p < PIECES; p++) {
            const char *from = input + (size_t)edges[p] * element;
            size = edges[p + 1] - edges[p];
            if (tally_totals(client, &scan, from, &totals[p], &err) != TALLY_OK)
                fail_msg("variant %d: %s", variant, err.message);
        }
        for (int p = 1; p < PIECES; p++) {
            struct tally_carry before = {NULL, 0};
            for (int i = p; i > 0; i--)
                assert_int_equal(tally_carry_add(&before, &totals[i - 1], &err), TALLY_OK);
            struct tally_parts *parts = tally_parts_open(client, &scan, &err);
            assert_int_equal(tally_parts_restore(parts, before.bytes, before.count, &err),
                             TALLY_OK);
            assert_int_equal(tally_parts_position(parts), edges[p]);
            const size_t at = (size_t)edges[p] * element;
            const int64_t count = edges[p + 1] - edges[p];
            assert_int_equal(tally_parts_next(parts, count, input + at, piece, &err), TALLY_OK);
            assert_memory_equal(piece, whole + at, (size_t)count * element);
            uint64_t bytes = 0;
            const void *carry = tally_parts_carry(parts, &bytes);
            assert_int_equal(tally_carry_add(&before, &totals[p], &err), TALLY_OK);
            assert_int_equal(bytes, before.count);
            assert_memory_equal(carry, before.bytes, bytes);
            tally_parts_close(parts);
            tally_carry_free(&before);
        }
        for (int p = 0; p < PIECES; p++)
            tally_carry_free(&totals[p]);
    }
}

static void the_server_s_sentence_is_passed_on(void **state)
{
    (void)state;
    int64_t sizes[] = {2, 3};
    int64_t overlapping[] = {1, 1};
    int32_t input[6] = {0};
    int32_t output[6];
    struct tally_error err;
    struct tally_scan scan = {.struct_size = sizeof scan,
                              .dtype = TALLY_INT32,
                              .rank = 2,
                              .sizes = sizes,
                              .output_strides = overlapping,
                              .axis = 1};
    assert_int_equal(tally_cumsum(client, &scan, input, output, &err), TALLY_REJECTED);
    assert_int_equal(err.http_status, 400);
    assert_string_equal(err.code, "invalid_strides");
    assert_string_equal(err.field, "output_strides");
    assert_true(strlen(err.message) > 20);
    assert_true(err.request_id[0] != '\0');
}

static void the_server_tells_of_itself(void **state)
{
    (void)state;
    struct tally_error err;
    struct tally_device devices[4];
    char version[32] = "";
    int count = 0;
    int health = 0;
    assert_int_equal(tally_health(client, &health, &err), TALLY_OK);
    assert_int_equal(health, TALLY_ALIVE | TALLY_READY);
    assert_int_equal(tally_server_version(client, version, sizeof version, &err), TALLY_OK);
    assert_string_equal(version, tally_library_version());
    assert_int_equal(tally_devices(client, devices, 4, &count, &err), TALLY_OK);
    assert_true(count >= 1);
    assert_true(devices[0].name[0] != '\0');
    assert_string_equal(devices[0].state, "ready");
    assert_true(devices[0].requests > 0);
    assert_true(devices[0].memory_bytes > 0);
}

static void the_answer_to_head_has_no_body_to_wait_for(void **state)
{
    (void)state;
    struct tally_error err;
    struct tally_request request = {
        .struct_size = sizeof request, .method = "HEAD", .path = "/version"};
    const int64_t sizes[] = {2};
    int32_t numbers[] = {1, 2};
    struct tally_scan scan = {
        .struct_size = sizeof scan, .dtype = TALLY_INT32, .rank = 1, .sizes = sizes};
    assert_int_equal(tally_exchange(client, &request, &err), TALLY_OK);
    assert_int_equal(tally_cumsum(client, &scan, numbers, numbers, &err), TALLY_OK);
    assert_int_equal(numbers[1], 3);
}

static void times_without_end_are_long(void **state)
{
    (void)state;
    struct tally_error err;
    struct tally_options options = TALLY_OPTIONS_INIT;
    int health = 0;
    options.timeout_ms = options.connect_timeout_ms = INT64_MAX;
    options.backoff_base_ms = options.backoff_max_ms = INT64_MAX;
    struct tally *patient = tally_open(NULL, &options, &err);
    assert_int_equal(tally_health(patient, &health, &err), TALLY_OK);
    tally_close(patient);
}

static void count_done(void *user, const struct tally_error *result)
{
    int *done = user;
    *done += result->status == TALLY_OK;
}

/* Test inclusive, exclusive and initial sums, in both directions and along both axes. */
static void every_segment_is_a_line_of_its_own(void **state)
{
    (void)state;
    static const int64_t sizes[] = {ROWS, COLUMNS};
    static const int64_t offsets[2][5] = {{0, 0, 2, ROWS}, {0, 1, 1, 4, COLUMNS}};
    for (int variant = 0; variant < 2 * 2 * 3; variant++) {
        const int axis = variant % 2;
        const int reverse = variant / 2 % 2;
        const int include = variant / 4 == 1;
        const int exclusive = variant / 4 == 2;
        const int segments = axis == 0 ? 3 : 4;
        const int columns = COLUMNS + include * (axis == 1 ? segments : 0);
        const int64_t ten = 10;
        int64_t input[CELLS];
        int64_t output[2 * CELLS];
        int64_t expected[2 * CELLS];
        for (int cell = 0; cell < CELLS; cell++)
            input[cell] = input_number(cell / COLUMNS, cell % COLUMNS);
        for (int line = 0; line < (axis == 0 ? COLUMNS : ROWS); line++) {
            int place = 0; /* position along the axis of the output */
            for (int k = 0; k < segments; k++) {
                const int begin = (int)offsets[axis][k];
                const int count = (int)offsets[axis][k + 1] - begin;
                int64_t sum = ten;
                for (int i = 0; i < count + include; i++) {
                    const int own = i - include; /* in summing order; -1: the initial sum */
                    const int at = begin + (reverse ? count - 1 - own : own);
                    const int to = place + (reverse ? count + include - 1 - i : i);
                    const int64_t element =
                        own < 0 ? 0
                                : input[axis == 0 ? at * COLUMNS + line : line * COLUMNS + at];
                    expected[axis == 0 ? to * columns + line : line * columns + to] =
                        exclusive ? sum : sum + element;
                    sum += element;
                }
                place += count + include;
            }
        }
        struct tally_error err;
        struct tally_scan scan = {.struct_size = sizeof scan,
                                  .dtype = TALLY_INT64,
                                  .rank = 2,
                                  .sizes = sizes,
                                  .axis = axis,
                                  .exclusive = exclusive,
                                  .reverse = reverse,
                                  .initial = &ten,
                                  .include_initial = include,
                                  .offsets = offsets[axis],
                                  .offset_count = (uint64_t)segments + 1};
        uint64_t bytes = 0;
        assert_int_equal(tally_scan_bytes(&scan, NULL, &bytes, &err), TALLY_OK);
        if (tally_cumsum(client, &scan, input, output, &err) != TALLY_OK)
            fail_msg("%s", err.message);
        assert_memory_equal(output, expected, bytes);
    }
}

static void submitted_calls_are_right(void **state)
{
    (void)state;
    enum {
        CALLS = 100
    };
    static int32_t numbers[CALLS][7];
    int64_t size = 7;
    int done = 0;
    for (int i = 0; i < CALLS; i++) {
        struct tally_error err;
        struct tally_scan scan = scan_of(&size);
        for (int k = 0; k < 7; k++)
            numbers[i][k] = i;
        assert_int_equal(tally_submit(client, &scan, numbers[i], numbers[i],
                                      (struct tally_done){count_done, &done}, &err),
                         TALLY_OK);
    }
    assert_int_equal(tally_wait(client, -1), TALLY_OK);
    assert_int_equal(done, CALLS);
    for (int i = 0; i < CALLS; i++) {
        for (int k = 0; k < 7; k++)
            assert_int_equal(numbers[i][k], i * (k + 1));
    }
}

/* ---- DirectML ---- */

static const float SEED[12] = {2, 1, 3, 5, 3, 8, 7, 3, 9, 6, 2, 4};
static const UINT SEED_SIZES[4] = {1, 1, 3, 4};

static DML_BUFFER_TENSOR_DESC seed_tensor(void)
{
    return (DML_BUFFER_TENSOR_DESC){.DataType = DML_TENSOR_DATA_TYPE_FLOAT32,
                                    .DimensionCount = 4,
                                    .Sizes = SEED_SIZES,
                                    .TotalTensorSizeInBytes = 48};
}

static enum tally_status execute(const DML_BUFFER_TENSOR_DESC *input,
                                 const DML_BUFFER_TENSOR_DESC *output,
                                 const DML_CUMULATIVE_SUMMATION_OPERATOR_DESC *how, int level,
                                 struct tally_dml_binding from, struct tally_dml_binding to,
                                 struct tally_error *err)
{
    DML_TENSOR_DESC input_desc = {DML_TENSOR_TYPE_BUFFER, input};
    DML_TENSOR_DESC output_desc = {DML_TENSOR_TYPE_BUFFER, output};
    DML_CUMULATIVE_SUMMATION_OPERATOR_DESC desc = *how;
    desc.InputTensor = &input_desc;
    desc.OutputTensor = &output_desc;
    return tally_dml_cumulative_summation(client, &desc, level, &from, &to, err);
}

static void the_seed_s_examples_come_out(void **state)
{
    (void)state;
    struct {
        DML_CUMULATIVE_SUMMATION_OPERATOR_DESC how;
        float expected[12];
    } cases[] = {
        {{.Axis = 3}, {2, 3, 6, 11, 3, 11, 18, 21, 9, 15, 17, 21}},
        {{.Axis = 3, .HasExclusiveSum = 7}, {0, 2, 3, 6, 0, 3, 11, 18, 0, 9, 15, 17}},
        {{.Axis = 3, .AxisDirection = DML_AXIS_DIRECTION_DECREASING},
         {11, 9, 8, 5, 21, 18, 10, 3, 21, 12, 6, 4}},
        {{.Axis = 2}, {2, 1, 3, 5, 5, 9, 10, 8, 14, 15, 12, 12}},
    };
    DML_BUFFER_TENSOR_DESC tensor = seed_tensor();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            float buffer[2][16];
            struct tally_error err;
            memcpy(buffer[0], SEED, sizeof SEED);
            struct tally_dml_binding from = {buffer[0], 0, 48};
            struct tally_dml_binding to = {buffer[in_place ? 0 : 1], 0, 48};
            if (execute(&tensor, &tensor, &cases[i].how, DML_FEATURE_LEVEL_2_1, from, to,
                        &err) != TALLY_OK)
                fail_msg("example %zu: %s", i + 1, err.message);
            assert_memory_equal(buffer[in_place ? 0 : 1], cases[i].expected, 48);
        }
    }
}

static void padded_and_strided_tensors_keep_their_surroundings(void **state)
{
    (void)state;
    static const UINT sizes[2] = {2, 3};
    static const UINT strides[2] = {8, 1};
    float buffer[32];
    float output[32];
    struct tally_error err;
    DML_BUFFER_TENSOR_DESC input = {.DataType = DML_TENSOR_DATA_TYPE_FLOAT32,
                                    .DimensionCount = 2,
                                    .Sizes = sizes,
                                    .Strides = strides,
                                    .TotalTensorSizeInBytes = 44};
    DML_BUFFER_TENSOR_DESC packed = {.DataType = DML_TENSOR_DATA_TYPE_FLOAT32,
                                     .DimensionCount = 2,
                                     .Sizes = sizes,
                                     .TotalTensorSizeInBytes = 28,
                                     .GuaranteedBaseOffsetAlignment = 16};
    DML_CUMULATIVE_SUMMATION_OPERATOR_DESC how = {.Axis = 1};
    for (int i = 0; i < 32; i++) {
        buffer[i] = (float)i;
        output[i] = -1;
    }
    assert_int_equal(execute(&input, &packed, &how, 0,
                             (struct tally_dml_binding){buffer, 16, 48},
                             (struct tally_dml_binding){output, 32, 64}, &err),
                     TALLY_OK);
    float expected[6] = {4, 9, 15, 12, 25, 39};
    assert_memory_equal(output + 8, expected, sizeof expected);
    assert_true(output[7] == -1);  /* the bytes before the output's offset */
    assert_true(output[15] == -1); /* beyond TotalTensorSizeInBytes */
}

static void odd_float16_counts_are_rounded_up(void **state)
{
    (void)state;
    static const UINT sizes[1] = {3};
    uint16_t numbers[4] = {0x3C00, 0x4000, 0x4200, 0x7777}; /* 1 2 3, padding */
    uint16_t expected[3] = {0x3C00, 0x4200, 0x4600};        /* 1 3 6 */
    struct tally_error err;
    assert_int_equal(tally_dml_buffer_tensor_size(DML_TENSOR_DATA_TYPE_FLOAT16, 1, sizes, NULL),
                     8);
    DML_BUFFER_TENSOR_DESC tensor = {.DataType = DML_TENSOR_DATA_TYPE_FLOAT16,
                                     .DimensionCount = 1,
                                     .Sizes = sizes,
                                     .TotalTensorSizeInBytes = 8};
    DML_CUMULATIVE_SUMMATION_OPERATOR_DESC how = {.Axis = 0};
    struct tally_dml_binding bound = {numbers, 0, 8};
    if (execute(&tensor, &tensor, &how, 0, bound, bound, &err) != TALLY_OK)
        fail_msg("%s", err.message);
    assert_memory_equal(numbers, expected, 6);
}

static void feature_levels_are_the_server_s_to_judge(void **state)
{
    (void)state;
    static const UINT sizes[1] = {4};
    int64_t numbers[4] = {1, 2, 3, 4};
    struct tally_error err;
    DML_BUFFER_TENSOR_DESC tensor = {.DataType = DML_TENSOR_DATA_TYPE_INT64,
                                     .DimensionCount = 1,
                                     .Sizes = sizes,
                                     .TotalTensorSizeInBytes = 32};
    DML_CUMULATIVE_SUMMATION_OPERATOR_DESC how = {.Axis = 0};
    struct tally_dml_binding bound = {numbers, 0, 32};
    assert_int_equal(execute(&tensor, &tensor, &how, DML_FEATURE_LEVEL_4_0, bound, bound, &err),
                     TALLY_REJECTED);
    assert_int_equal(execute(&tensor, &tensor, &how, 0x2000, bound, bound, &err),
                     TALLY_REJECTED);
    how.Axis = 1;
    assert_int_equal(execute(&tensor, &tensor, &how, DML_FEATURE_LEVEL_5_0, bound, bound, &err),
                     TALLY_REJECTED);
    assert_int_equal(numbers[3], 4);
    how.Axis = 0;
    assert_int_equal(execute(&tensor, &tensor, &how, DML_FEATURE_LEVEL_6_4, bound, bound, &err),
                     TALLY_OK);
    assert_int_equal(numbers[3], 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_axis_and_flag_is_right),
        cmocka_unit_test(strided_input_and_output_are_laid_out_right),
        cmocka_unit_test(a_large_tensor_in_place_is_right),
        cmocka_unit_test(parts_have_the_bits_of_the_whole),
        cmocka_unit_test(a_saved_carry_goes_on_in_another_client),
        cmocka_unit_test(an_initial_value_comes_back_as_it_went),
        cmocka_unit_test(attributes_change_the_sums_as_they_say),
        cmocka_unit_test(parts_with_attributes_have_the_sums_of_the_whole),
        cmocka_unit_test(pieces_behind_totals_are_summed_as_the_whole),
        cmocka_unit_test(the_server_s_sentence_is_passed_on),
        cmocka_unit_test(the_server_tells_of_itself),
        cmocka_unit_test(the_answer_to_head_has_no_body_to_wait_for),
        cmocka_unit_test(times_without_end_are_long),
        cmocka_unit_test(every_segment_is_a_line_of_its_own),
        cmocka_unit_test(submitted_calls_are_right),
        cmocka_unit_test(the_seed_s_examples_come_out),
        cmocka_unit_test(padded_and_strided_tensors_keep_their_surroundings),
        cmocka_unit_test(odd_float16_counts_are_rounded_up),
        cmocka_unit_test(feature_levels_are_the_server_s_to_judge),
    };
    return cmocka_run_group_tests(tests, open_client, close_client);
}
