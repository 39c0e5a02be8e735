/* json/tensor.h: reading in pieces, of any size and in any order, gives the same result as
 * reading at once, with the same error messages. */
#include "proto/json/tensor.h"
#include "tests/lib/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- runners ---- */

static int pieces_run;
static int most_pieces; /* the runner gives up after this many pieces */

static bool run_in_order(const struct parallel *self, int count, parallel_piece piece,
                         void *context)
{
    (void)self;
    for (int i = 0; i < count; i++) {
        if (pieces_run == most_pieces) {
            return false;
        }
        pieces_run++;
        piece(context, i);
    }
    return true;
}

static bool run_from_the_last(const struct parallel *self, int count, parallel_piece piece,
                              void *context)
{
    (void)self;
    for (int i = count - 1; i >= 0; i--) {
        piece(context, i);
    }
    pieces_run += count;
    return true;
}

static bool run_every_second_first(const struct parallel *self, int count, parallel_piece piece,
                                   void *context)
{
    (void)self;
    for (int i = 0; i < count; i++) {
        const int evens = (count + 1) / 2;
        piece(context, i < evens ? 2 * i : 2 * (i - evens) + 1);
    }
    pieces_run += count;
    return true;
}

struct half {
    int from;
    int count;
    parallel_piece piece;
    void *context;
};

static void *run_half(void *argument)
{
    const struct half *half = argument;
    for (int i = half->from; i < half->count; i += 2) {
        half->piece(half->context, i);
    }
    return NULL;
}

static bool run_on_two_threads(const struct parallel *self, int count, parallel_piece piece,
                               void *context)
{
    (void)self;
    pthread_t thread;
    struct half halves[2] = {{0, count, piece, context}, {1, count, piece, context}};
    assert_int_equal(pthread_create(&thread, NULL, run_half, &halves[1]), 0);
    (void)run_half(&halves[0]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pieces_run += count;
    return true;
}

static const struct parallel runners[] = {
    {.grain = 8, .run = run_in_order},          {.grain = 12, .run = run_in_order},
    {.grain = 64, .run = run_in_order},         {.grain = 8, .run = run_from_the_last},
    {.grain = 33, .run = run_from_the_last},    {.grain = 16, .run = run_on_two_threads},
    {.grain = 8, .run = run_every_second_first}};

static int set_up(void **state)
{
    (void)state;
    pieces_run = 0;
    most_pieces = -1;
    return 0;
}

/* ---- reading ---- */

enum {
    NUMBERS_MAX = 512
};

struct outcome {
    enum status status;
    struct error err;
    double values[NUMBERS_MAX];
};

static void read_with(const struct parallel *parallel, const struct json_array *array,
                      struct outcome *out)
{
    const int64_t sizes[] = {4, INT64_MAX};
    const struct json_read read = {
        .dtype = DTYPE_F64, .field = "data", .rank = 2, .sizes = sizes, .parallel = parallel};
    memset(out, 0, sizeof *out);
    out->err = (struct error)ERROR_INIT;
    out->status = json_tensor_read(&read, array->cut, array->elements, out->values, &out->err);
}

/* Measure a text and read it both ways. Returns whether it was valid. */
static bool check_text(const char *text)
{
    static struct outcome whole;
    static struct outcome pieces;
    struct json_array array;
    struct error err = ERROR_INIT;
    if (json_tensor_measure(text, strlen(text), NULL, &array, &err) != STATUS_OK ||
        array.elements > NUMBERS_MAX) {
        return false;
    }
    read_with(NULL, &array, &whole);
    for (size_t i = 0; i < ARRAY_COUNT(runners); i++) {
        read_with(&runners[i], &array, &pieces);
        if (pieces.status != whole.status || strcmp(pieces.err.detail, whole.err.detail) != 0 ||
            strcmp(pieces.err.field, whole.err.field) != 0) {
            fail_msg("%s\nwhole:  %s\npieces: %s", text, whole.err.detail, pieces.err.detail);
        }
        if (whole.status == STATUS_OK) {
            assert_memory_equal(pieces.values, whole.values,
                                array.elements * sizeof *whole.values);
        }
    }
    return whole.status == STATUS_OK;
}

static void odd_texts_read_as_in_one_go(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool valid;
    } cases[] = {
        {"[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]", true},
        {"[[1,2,3,4],[5,6,7,8],[9,10,11,12],[13,14,15,16]]", true},
        {"[1,\"NaN\",3,\"Infinity\",5,\"-Infinity\",7,8,9,10,11]", true},
        {"[1,NaN,3,null,5,-Infinity,7,8,\"+inf\",10,11,Infinity]", true},
        {"[1,\"Na,N\",3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18]", false},
        {"[[],[1,2,3,4],[5,6,7,8,9,10,11],[]]", true},
        {"[[1,2,3,4] [5,6,7,8],[9,10,11,12]]", false},
        {"[[1,2,3] [4],\"a,b\",5,6,7,8,9,10,11,12,13,14]", false},
        {"[1,2,3,4,5,6,7,8,9,10,x,12,13,14,15,y,17,18,19,z]", false},
        {"[1,2,,4,5,6,7,8,9,10,11,12,13,14,15,16,17,,19,20]", false},
        {"[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,]", false},
        {"[1,2,3,[,5,6,7,8,9,10,11,12,13,14,15,16,17],18,19]", false},
        {"[1e999,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,1e999]", false},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        if (check_text(cases[i].text) != cases[i].valid) {
            fail_msg("%s", cases[i].text);
        }
    }
    assert_true(pieces_run > 100);
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* A valid text with a few changed bytes, ten thousand times. */
static void damaged_texts_read_as_in_one_go(void **state)
{
    (void)state;
    static const char bytes[] = "[]],,\"\" 0123.e-xN\n";
    uint64_t seed = 88172645463325252u;
    int valid = 0;
    int refused = 0;
    for (int round = 0; round < 10000; round++) {
        char text[1024] = "[";
        size_t used = 1;
        for (int i = 0; i < 40; i++) {
            const char *edge = i == 0 ? "" : round % 2 == 0 ? "," : i % 8 == 0 ? "],[" : ", ";
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%g", edge,
                                     i == 0 && round % 2 != 0 ? "[" : "",
                                     (double)(next_random(&seed) % 2000) / 8);
        }
        used += (size_t)snprintf(text + used, sizeof text - used, round % 2 != 0 ? "]]" : "]");
        for (uint64_t k = next_random(&seed) % 4; k > 0; k--) {
            text[1 + next_random(&seed) % (used - 2)] =
                bytes[next_random(&seed) % (sizeof bytes - 1)];
        }
        bool fine = check_text(text);
        valid += fine;
        refused += !fine;
    }
    assert_true(valid > 2000);
    assert_true(refused > 2000);
}

static void reading_that_is_given_up_says_so(void **state)
{
    (void)state;
    static struct outcome out;
    const char *text = "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]";
    struct json_array array;
    struct error err = ERROR_INIT;
    const struct parallel parallel = {.grain = 8, .run = run_in_order};
    assert_int_equal(json_tensor_measure(text, strlen(text), NULL, &array, &err), STATUS_OK);
    most_pieces = 2;
    read_with(&parallel, &array, &out);
    assert_int_equal(out.status, STATUS_CLIENT_GONE);
    assert_int_equal(pieces_run, 2);
}

static void short_texts_are_not_cut(void **state)
{
    (void)state;
    static struct outcome out;
    const char *text = "[1,2,3,4,5,6,7,8,9,10]";
    struct json_array array;
    struct error err = ERROR_INIT;
    const struct parallel parallel = {.grain = 12, .run = run_in_order};
    assert_int_equal(json_tensor_measure(text, strlen(text), NULL, &array, &err), STATUS_OK);
    read_with(&parallel, &array, &out);
    assert_int_equal(out.status, STATUS_OK);
    assert_int_equal(pieces_run, 0);
}

/* ---- printing ---- */

static void print_with(const struct parallel *parallel, const struct json_print *like,
                       struct json_writer *w)
{
    struct json_print print = *like;
    print.parallel = parallel;
    json_writer_init(w);
    json_writer_begin_array(w);
    json_tensor_write(&print, w);
    json_tensor_write(&print, w);
    json_writer_end_array(w);
}

static void check_print(enum dtype dtype, uint64_t elements, int rank, const int64_t *sizes)
{
    enum {
        BYTES = 8 * 1201
    };
    static unsigned char data[BYTES];
    uint64_t seed = 88172645463325252u;
    for (int i = 0; i < BYTES; i++) {
        data[i] = (unsigned char)next_random(&seed);
    }
    const struct json_print print = {
        .dtype = dtype, .data = data, .elements = elements, .rank = rank, .sizes = sizes};
    struct json_writer whole;
    print_with(NULL, &print, &whole);
    assert_true(json_writer_ok(&whole));
    for (size_t i = 0; i < ARRAY_COUNT(runners); i++) {
        struct json_writer pieces;
        print_with(&runners[i], &print, &pieces);
        assert_true(json_writer_ok(&pieces));
        assert_string_equal(pieces.text, whole.text);
        assert_int_equal(pieces.bytes, whole.bytes);
        json_writer_deinit(&pieces);
    }
    json_writer_deinit(&whole);
}

static void every_length_prints_as_in_one_go(void **state)
{
    (void)state;
    for (uint64_t elements = 0; elements <= 150; elements++) {
        check_print(DTYPE_F32, elements, 1, (const int64_t[]){(int64_t)elements});
    }
    check_print(DTYPE_F64, 1200, 0, NULL);
    check_print(DTYPE_F64, 1201, 1, (const int64_t[]){1201});
    check_print(DTYPE_I8, 1200, 3, (const int64_t[]){10, 12, 10});
    check_print(DTYPE_U64, 1200, 4, (const int64_t[]){1, 1200, 1, 1});
    check_print(DTYPE_BF16, 1200, 2, (const int64_t[]){3, 400});
    assert_true(pieces_run > 1000);
}

static void check_cells(const struct json_cells *cells)
{
    int64_t sums[40];
    for (size_t i = 0; i < ARRAY_COUNT(sums); i++) {
        sums[i] = (int64_t)(i * i * i * 1000003);
    }
    const struct json_print print = {
        .dtype = DTYPE_I64, .data = sums, .elements = cells->count, .cells = cells};
    struct json_writer whole;
    print_with(NULL, &print, &whole);
    for (size_t i = 0; i < ARRAY_COUNT(runners); i++) {
        struct json_writer pieces;
        print_with(&runners[i], &print, &pieces);
        assert_true(json_writer_ok(&pieces));
        assert_string_equal(pieces.text, whole.text);
        json_writer_deinit(&pieces);
    }
    json_writer_deinit(&whole);
}

static void zeros_between_and_behind_sums_print_as_in_one_go(void **state)
{
    struct scan_desc desc = {.dtype = DTYPE_I64,
                             .rank = 2,
                             .sizes = {5, 8},
                             .has_output_strides = true,
                             .output_strides = {120, 1}};
    struct json_cells cells;
    (void)state;
    assert_true(json_cells_strided(&desc, &cells));
    check_cells(&cells);
    cells.count += 333;
    check_cells(&cells);
    desc.output_strides[1] = 13;
    assert_true(json_cells_strided(&desc, &cells));
    check_cells(&cells);
    json_cells_tailed(40, 1000, &cells);
    check_cells(&cells);
}

static void printing_that_is_given_up_fails(void **state)
{
    (void)state;
    int64_t data[400] = {0};
    const struct parallel parallel = {.grain = 16, .run = run_in_order};
    const struct json_print print = {.dtype = DTYPE_I64, .data = data, .elements = 400};
    struct json_writer w;
    most_pieces = 10;
    print_with(&parallel, &print, &w);
    assert_false(json_writer_ok(&w));
    assert_int_equal(pieces_run, 10);
    json_writer_deinit(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(odd_texts_read_as_in_one_go, set_up),
        cmocka_unit_test_setup(damaged_texts_read_as_in_one_go, set_up),
        cmocka_unit_test_setup(reading_that_is_given_up_says_so, set_up),
        cmocka_unit_test_setup(short_texts_are_not_cut, set_up),
        cmocka_unit_test_setup(every_length_prints_as_in_one_go, set_up),
        cmocka_unit_test_setup(zeros_between_and_behind_sums_print_as_in_one_go, set_up),
        cmocka_unit_test_setup(printing_that_is_given_up_fails, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
