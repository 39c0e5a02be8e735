/* Long texts: measured, read and moved in steps that can be cancelled, and printed into exactly
 * the memory that was computed before. */
#include "proto/cumsum_request.h"
#include "proto/json/tensor.h"
#include "proto/json/writer.h"
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

static int steps;
static int steps_allowed;

static bool count_steps(const struct parallel *parallel)
{
    (void)parallel;
    return ++steps <= steps_allowed;
}

/* Texts of 3 MiB with different content. There must be a step about every 256 KiB, and the work
 * must end if the step returns false. */
static void long_texts_are_measured_and_read_in_steps(void **state)
{
    (void)state;
    enum {
        BYTES = 3 << 20,
        STEPS = 12
    };
    static const struct {
        const char *first;
        const char *fill;
        const char *last;
        uint64_t elements;
        enum status read;
    } texts[] = {
        {"[1", " ", "]", 1, STATUS_OK},
        {"[ ", " ", "]", 0, STATUS_OK},
        {"[", "[1],", "[1]]", BYTES / 4 + 1, STATUS_OK},
        {"[", "[ ],", "[1]]", 1, STATUS_OK},
        {"[", "1, ,", "1]", BYTES / 2 + 1, STATUS_INVALID_DATA},
        {"[\"", "xy\\\"", "\"]", 1, STATUS_INVALID_DATA},
    };
    const struct parallel parallel = {.grain = 1 << 30, .step = count_steps};
    char *text = malloc(BYTES + 64);
    static double out[BYTES / 2 + 2];
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct json_array array;
        struct error err = ERROR_INIT;
        char *to = stpcpy(text, texts[i].first);
        for (size_t n = 0; n < BYTES / strlen(texts[i].fill); n++) {
            to = stpcpy(to, texts[i].fill);
        }
        size_t bytes = (size_t)(stpcpy(to, texts[i].last) - text);
        steps = 0;
        steps_allowed = INT32_MAX;
        assert_int_equal(json_tensor_measure(text, bytes, &parallel, &array, &err), STATUS_OK);
        assert_int_equal(array.elements, texts[i].elements);
        /* Blanks are read a second time when their array ends. */
        assert_true(steps >= (array.elements == 0 ? 3 * STEPS : STEPS));
        const int last = steps - 1;
        steps = 0;
        steps_allowed = last;
        assert_int_equal(json_tensor_measure(text, bytes, &parallel, &array, &err),
                         STATUS_CLIENT_GONE);
        err = (struct error)ERROR_INIT;
        steps = 0;
        steps_allowed = 5;
        assert_int_equal(json_tensor_measure(text, bytes, &parallel, &array, &err),
                         STATUS_CLIENT_GONE);
        assert_int_equal(steps, 6);
        const struct json_read read = {
            .dtype = DTYPE_F64, .field = "data", .parallel = &parallel};
        for (int give_up = 0; give_up < 2; give_up++) {
            err = (struct error)ERROR_INIT;
            steps = 0;
            steps_allowed = give_up ? 5 : INT32_MAX;
            bool wrong = texts[i].read != STATUS_OK; /* found before the first step */
            assert_int_equal(json_tensor_read(&read, array.cut, array.elements, out, &err),
                             wrong     ? texts[i].read
                             : give_up ? STATUS_CLIENT_GONE
                                       : STATUS_OK);
            assert_true(wrong || (give_up ? steps == 6 : steps >= STEPS));
        }
    }
    free(text);
}

static bool run_all(const struct parallel *parallel, int count, parallel_piece piece,
                    void *context)
{
    (void)parallel;
    for (int i = 0; i < count; i++) {
        piece(context, i);
    }
    return true;
}

/* Arrays with the longest numbers of every type, flat and nested, and empty arrays. */
static void writing_takes_no_more_memory_than_it_says(void **state)
{
    (void)state;
    enum {
        COUNT = 300000,
        AROUND = 10
    };
    static const struct {
        uint64_t elements;
        int rank;
        int64_t sizes[4];
    } shapes[] = {
        {COUNT, 1, {COUNT}},     {COUNT, 2, {COUNT, 1}},   {COUNT, 4, {2, 3, 1, COUNT / 6}},
        {8192, 1, {8192}},       {12300, 3, {1, 3, 4100}}, {4096, 2, {4096, 1}},
        {100, 2, {10, 10}},      {1, 4, {1, 1, 1, 1}},     {0, 1, {0}},
        {0, 4, {100, 3, 20, 0}}, {0, 2, {20000, 0}},
    };
    const struct parallel parallel = {.grain = 64 << 10, .run = run_all};
    static char data[COUNT * 8];
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        /* -9.007199254740992e15 as a float, and numbers of about that length for other types */
        static const uint64_t longest[] = {[1] = 0x80, [2] = 0x8000, [4] = 0xda000000u};
        size_t size = dtype_info((enum dtype)dtype)->bytes;
        uint64_t value = size < 8 ? longest[size] : UINT64_C(0x80123456789abcde);
        for (size_t i = 0; i < COUNT; i++) {
            memcpy(data + i * size, &value, size);
        }
        for (size_t k = 0; k < 2 * ARRAY_COUNT(shapes); k++) {
            const struct json_print print = {.dtype = (enum dtype)dtype,
                                             .data = data,
                                             .elements = shapes[k / 2].elements,
                                             .rank = shapes[k / 2].rank,
                                             .sizes = shapes[k / 2].sizes,
                                             .parallel = k % 2 == 0 ? NULL : &parallel};
            uint64_t most = json_tensor_write_max(&print, AROUND);
            struct json_writer w;
            json_writer_init_sized(&w, most);
            json_writer_begin_array(&w);
            json_tensor_write(&print, &w);
            json_writer_end_array(&w);
            assert_true(json_writer_ok(&w));
            size_t least = most < JSON_WRITER_LEAST ? JSON_WRITER_LEAST : most + 1;
            assert_int_equal(w.capacity, least);
            json_writer_deinit(&w);
        }
    }
}

/* Slightly more than 1 MiB is moved by a few bytes to the front. */
static void bytes_are_moved_and_zeroed_in_steps(void **state)
{
    (void)state;
    enum {
        BYTES = (1 << 20) + 100,
        SHIFT = 24
    };
    const struct parallel parallel = {.grain = 1, .step = count_steps};
    struct error err = ERROR_INIT;
    unsigned char *bytes = malloc(BYTES + SHIFT);
    for (size_t i = 0; i < BYTES + SHIFT; i++) {
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    }
    steps = 0;
    steps_allowed = INT32_MAX;
    assert_int_equal(parallel_copy(&parallel, bytes, bytes + SHIFT, BYTES, &err), STATUS_OK);
    assert_int_equal(steps, BYTES / PARALLEL_STEP_BYTES);
    for (size_t i = 0; i < BYTES; i++) {
        size_t from = i + SHIFT;
        assert_int_equal(bytes[i], (unsigned char)(from * 7 + from / 251));
    }
    assert_int_equal(parallel_zero(&parallel, bytes, BYTES, &err), STATUS_OK);
    for (size_t i = 0; i < BYTES; i++) {
        assert_int_equal(bytes[i], 0);
    }
    assert_true(bytes[BYTES + 1] != 0);
    steps = 0;
    steps_allowed = 2;
    assert_int_equal(parallel_copy(&parallel, bytes, bytes + SHIFT, BYTES, &err),
                     STATUS_CLIENT_GONE);
    assert_int_equal(steps, 3);
    assert_int_equal(parallel_zero(&parallel, bytes, BYTES, &err), STATUS_CLIENT_GONE);
    struct scan_call call = {.desc.dtype = DTYPE_F32,
                             .input_bytes = BYTES,
                             .byte_swap = true,
                             .parallel = &parallel};
    assert_int_equal(cumsum_complete_payload(&call, bytes, BYTES, &err), STATUS_CLIENT_GONE);
    free(bytes);
}

static bool run_counted(const struct parallel *parallel, int count, parallel_piece piece,
                        void *context)
{
    for (int i = 0; i < count; i++) {
        if (!count_steps(parallel)) {
            return false;
        }
        piece(context, i);
    }
    return true;
}

/* The carry of 64 Ki lines, a MiB in the answer: as base64, as numbers, as bytes. */
static void a_carry_is_answered_in_steps(void **state)
{
    (void)state;
    enum {
        MIB = 1 << 20,
        STEPS = 7
    };
#define FIRST_PART                                                                 \
    "{\"parameters\":{\"axis\":1,\"part\":\"first\"},\"inputs\":[{\"name\":\"x\"," \
    "\"shape\":[65536,0],\"datatype\":\"FP64\",\"data\":[]}]"
    const struct {
        const struct codec *codec;
        const char *text;
    } asked[] = {
        {codec_cumsum(CODEC_FORMAT_JSON),
         "{\"data\":[],\"shape\":[65536,0],\"axis\":1,\"dtype\":\"float64\","
         "\"part\":\"first\"}"},
        {&codec_kserve, FIRST_PART "}"},
        {&codec_kserve, FIRST_PART ",\"outputs\":[{\"name\":\"carry\",\"parameters\":{"
                                   "\"binary_data\":true}}]}"},
    };
    const struct parallel parallel = {
        .grain = 64 << 10, .run = run_counted, .step = count_steps};
    const struct codec_request request = {
        .body_bytes = -1, .head_bytes = -1, .model = "cumsum"};
    for (size_t i = 0; i < 2 * ARRAY_COUNT(asked); i++) {
        const bool give_up = i % 2 == 1;
        const struct codec *codec = asked[i / 2].codec;
        const struct byte_view head = {asked[i / 2].text, strlen(asked[i / 2].text)};
        struct scan_call call;
        struct answer answer = {.head = NULL};
        struct error err = ERROR_INIT;
        assert_int_equal(codec_decode(codec, &request, head, &call, &err), STATUS_OK);
        call.parallel = &parallel;
        answer.head_bytes = carry_answer_most(&call.desc, false);
        assert_true(answer.head_bytes > MIB);
        answer.head_bytes = MIB;
        answer.head = calloc(1, answer.head_bytes);
        steps = 0;
        steps_allowed = give_up ? 0 : INT32_MAX;
        const enum status status = codec->encode(&call, "", 0, &answer, &err);
        if (give_up) {
            assert_int_not_equal(status, STATUS_OK);
            assert_int_equal(steps, 1);
        } else {
            assert_int_equal(status, STATUS_OK);
            assert_true(steps >= STEPS);
        }
        answer_deinit(&answer);
        codec_release(&call);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_carry_is_answered_in_steps),
        cmocka_unit_test(long_texts_are_measured_and_read_in_steps),
        cmocka_unit_test(writing_takes_no_more_memory_than_it_says),
        cmocka_unit_test(bytes_are_moved_and_zeroed_in_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
