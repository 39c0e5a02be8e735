/* The attributes of a scan in libtally: how a request states them, which part states them,
 * which answers are accepted, and which scans are refused before anything is sent. test_real.c
 * checks the sums. */
#include "tests/client/lib/support.h"

#include <math.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

/* Gives every request the same answer; keeps the head and the beginning of the body of the last
 * one. */
struct script {
    char head[16384];
    unsigned char body[256];
    size_t body_bytes;
    const char *dtype;
    const char *shape;
    uint64_t carry_bytes; /* bytes of the carry at the beginning of the answer's payload */
    unsigned char payload[256];
    size_t payload_bytes;
};

static void answer_and_keep(void *user, const struct fake_request *request,
                            struct fake_answer *answer)
{
    struct script *script = user;
    memcpy(script->head, request->head, sizeof script->head);
    script->body_bytes = request->body_bytes;
    memcpy(script->body, request->body,
           request->body_bytes < sizeof script->body ? request->body_bytes
                                                     : sizeof script->body);
    answer->text_bytes = (size_t)snprintf(
        answer->text, sizeof answer->text,
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %zu\r\n"
        "Tally-Dtype: %s\r\nTally-Shape: %s\r\n",
        script->payload_bytes, script->dtype, script->shape);
    if (script->carry_bytes > 0)
        answer->text_bytes += (size_t)snprintf(
            answer->text + answer->text_bytes, sizeof answer->text - answer->text_bytes,
            "Tally-Carry-Length: %d\r\n", (int)script->carry_bytes);
    answer->text_bytes += (size_t)snprintf(answer->text + answer->text_bytes, 3, "\r\n");
    answer->payload = script->payload;
    answer->payload_bytes = script->payload_bytes;
}

static struct tally_scan scan_of_type(enum tally_dtype dtype, const int64_t *size)
{
    return (struct tally_scan){
        .struct_size = sizeof(struct tally_scan), .dtype = dtype, .rank = 1, .sizes = size};
}

static void assert_query(const struct script *script, const char *text)
{
    if (strstr(script->head, text) == NULL)
        fail_msg("%s is not in %.200s", text, script->head);
}

static void a_request_has_the_attributes_that_are_set_and_no_other(void **state)
{
    (void)state;
    struct script script = {.dtype = "float64", .shape = "2", .payload_bytes = 16};
    struct fake_server *server = fake_server_start(answer_and_keep, &script, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), -1);
    const int64_t size = 2;
    const double ten = 10;
    double numbers[3] = {0};
    struct tally_error err;
    struct tally_scan scan = scan_of_type(TALLY_FLOAT64, &size);
    scan.output_dtype = TALLY_INT8; /* ignored, because has_output_dtype is 0 */
    assert_int_equal(tally_cumsum(client, &scan, numbers, numbers, &err), TALLY_OK);
    assert_query(&script, "POST /v1/cumsum?dtype=float64&shape=2&axis=0 HTTP");
    scan = scan_of_type(TALLY_FLOAT32, &size);
    scan.has_output_dtype = 1;
    scan.output_dtype = TALLY_FLOAT64;
    scan.nan = TALLY_NAN_SKIP;
    scan.initial = &ten;
    scan.include_initial = 1;
    script.shape = "3";
    script.payload_bytes = 24;
    assert_int_equal(tally_cumsum(client, &scan, numbers, numbers, &err), TALLY_OK);
    assert_query(&script, "?dtype=float32&shape=2&axis=0&output_dtype=float64&nan=skip"
                          "&initial=1.0000000000000000e01&include_initial=true HTTP");
    tally_close(client);
    fake_server_stop(server);
}

static void an_initial_value_is_written_in_the_type_of_the_sums(void **state)
{
    (void)state;
    static const uint16_t half = 0x8001; /* the negative subnormal number nearest to zero */
    static const uint16_t brain = 0x3F80;
    static const int8_t small = -128;
    static const uint8_t byte = 255;
    static const int64_t least = INT64_MIN;
    static const uint64_t most = UINT64_MAX;
    static const float third = 1.0F / 3;
    static const double nan_bits = NAN;
    static const double minus = -INFINITY;
    static const double zero = -0.0;
    static const double tiny = 5e-324;
    static const struct {
        enum tally_dtype dtype;
        const void *initial;
        const char *text;
    } cases[] = {{TALLY_FLOAT16, &half, "-5.9604644775390625e-08"},
                 {TALLY_BFLOAT16, &brain, "1.0000000000000000e00"},
                 {TALLY_FLOAT32, &third, "3.3333334326744080e-01"},
                 {TALLY_FLOAT64, &nan_bits, "NaN"},
                 {TALLY_FLOAT64, &minus, "-Infinity"},
                 {TALLY_FLOAT64, &zero, "-0.0000000000000000e00"},
                 {TALLY_FLOAT64, &tiny, "4.9406564584124654e-324"},
                 {TALLY_INT8, &small, "-128"},
                 {TALLY_UINT8, &byte, "255"},
                 {TALLY_INT64, &least, "-9223372036854775808"},
                 {TALLY_UINT64, &most, "18446744073709551615"},
                 {TALLY_BOOL, &least, "-9223372036854775808"}}; /* the sums are int64 */
    struct script script = {.shape = "0"};
    struct fake_server *server = fake_server_start(answer_and_keep, &script, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), -1);
    const int64_t size = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tally_error err;
        char expected[64];
        struct tally_scan scan = scan_of_type(cases[i].dtype, &size);
        scan.initial = cases[i].initial;
        script.dtype =
            cases[i].dtype == TALLY_BOOL ? "int64" : tally_dtype_name(cases[i].dtype);
        if (tally_cumsum(client, &scan, NULL, NULL, &err) != TALLY_OK)
            fail_msg("case %zu: %s", i, err.message);
        (void)snprintf(expected, sizeof expected, "&initial=%s HTTP", cases[i].text);
        assert_query(&script, expected);
    }
    tally_close(client);
    fake_server_stop(server);
}

static void only_an_answer_of_the_wider_type_and_the_longer_shape_is_taken(void **state)
{
    (void)state;
    static const struct {
        const char *dtype, *shape;
        size_t bytes;
        enum tally_status status;
    } cases[] = {{"int64", "4", 32, TALLY_OK},
                 {"uint8", "4", 4, TALLY_BAD_ANSWER},
                 {"int64", "3", 24, TALLY_BAD_ANSWER},
                 {"int64", "4", 24, TALLY_BAD_ANSWER}};
    struct script script = {.shape = ""};
    struct fake_server *server = fake_server_start(answer_and_keep, &script, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), -1);
    const int64_t size = 3;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint8_t input[3] = {1, 1, 1};
        int64_t output[4];
        struct tally_error err;
        struct tally_scan scan = scan_of_type(TALLY_UINT8, &size);
        scan.has_output_dtype = 1;
        scan.output_dtype = TALLY_INT64;
        scan.include_initial = 1;
        script.dtype = cases[i].dtype;
        script.shape = cases[i].shape;
        script.payload_bytes = cases[i].bytes;
        assert_int_equal(tally_cumsum(client, &scan, input, output, &err), cases[i].status);
    }
    tally_close(client);
    fake_server_stop(server);
}

static void the_first_part_alone_has_the_initial_value(void **state)
{
    (void)state;
    struct script script = {.dtype = "int64", .shape = "3", .carry_bytes = 72};
    memcpy(script.payload, "TALLYSUM", 8);
    script.payload[32] = 3; /* position of the carry, which counts the initial value */
    script.payload_bytes = 72 + 3 * 8;
    struct fake_server *server = fake_server_start(answer_and_keep, &script, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), -1);
    const int64_t size = 0;
    int64_t ten = 10;
    const unsigned char input[2] = {1, 1};
    int64_t output[3];
    struct tally_error err;
    struct tally_scan scan = scan_of_type(TALLY_BOOL, &size);
    scan.initial = &ten;
    scan.include_initial = 1;
    struct tally_parts *parts = tally_parts_open(client, &scan, &err);
    assert_non_null(parts);
    ten = 11; /* the library has copied `ten` before */
    if (tally_parts_next(parts, 2, input, output, &err) != TALLY_OK)
        fail_msg("%s", err.message);
    assert_query(&script, "?dtype=bool&shape=2&axis=0&initial=10&include_initial=true"
                          "&part=first HTTP");
    assert_int_equal(tally_parts_position(parts), 2);
    script.shape = "2";
    script.payload_bytes = 72 + 2 * 8;
    assert_int_equal(tally_parts_next(parts, 2, input, output, &err), TALLY_OK);
    assert_query(&script, "?dtype=bool&shape=2&axis=0&part=next HTTP");
    tally_parts_close(parts);

    /* The position of a restored carry includes the initial value, but tally_parts_position()
     * counts only elements. */
    parts = tally_parts_open(client, &scan, &err);
    assert_int_equal(tally_parts_restore(parts, script.payload, 72, &err), TALLY_OK);
    assert_int_equal(tally_parts_position(parts), 2);
    script.payload[32] = 0;
    assert_int_equal(tally_parts_restore(parts, script.payload, 72, &err),
                     TALLY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "without an initial value"));
    tally_parts_close(parts);
    tally_close(client);
    fake_server_stop(server);
}

static void attributes_that_do_not_go_together_are_refused_before_sending(void **state)
{
    (void)state;
    const int64_t size = 1;
    const int64_t endless[2] = {INT64_MAX, 0};
    struct tally_error err;
    char buffer[16] = "";
    struct tally_scan base = scan_of_type(TALLY_UINT16, &size);
    struct {
        struct tally_scan scan;
        const char *field;
        const char *text;
    } cases[8];
    for (size_t i = 0; i < 8; i++)
        cases[i].scan = base;
    cases[0].scan.has_output_dtype = 1;
    cases[0].scan.output_dtype = TALLY_INT16;
    cases[0].field = "output_dtype";
    cases[0].text = "output_dtype is int16, but elements of uint16 have sums of int32, int64, "
                    "uint16, uint32, uint64: the output's type must hold every element exactly";
    cases[1].scan.has_output_dtype = 1;
    cases[1].scan.output_dtype = TALLY_FLOAT64;
    cases[1].field = "output_dtype";
    cases[1].text = "output_dtype is float64, but elements of uint16";
    cases[2].scan.dtype = TALLY_BOOL;
    cases[2].scan.has_output_dtype = 1;
    cases[2].scan.output_dtype = TALLY_BOOL;
    cases[2].field = "output_dtype";
    cases[2].text = "output_dtype is 'bool', expected one of float16, bfloat16,";
    cases[3].scan.has_output_dtype = 1;
    cases[3].scan.output_dtype = (enum tally_dtype)99;
    cases[3].field = "output_dtype";
    cases[3].text = "output_dtype is '99', expected one of float16";
    cases[4].scan.nan = (enum tally_nan)3;
    cases[4].field = "nan";
    cases[4].text = "nan is '3', expected propagate, zero (NaN counts as 0) or skip";
    cases[5].scan.include_initial = 1;
    cases[5].scan.exclusive = 1;
    cases[5].field = "include_initial";
    cases[5].text = "include_initial and exclusive are both true";
    cases[6].scan.include_initial = 1;
    cases[6].scan.rank = 2;
    cases[6].scan.sizes = endless;
    cases[6].field = "";
    cases[6].text = "include_initial makes 1 more: expected at most 2^63 - 1 together";
    cases[7].scan.dtype = (enum tally_dtype)13;
    cases[7].field = "";
    cases[7].text = "no element type 13";
    struct tally *client = tally_open("h:1", NULL, NULL);
    for (size_t i = 0; i < 8; i++) {
        const struct tally_scan *scan = &cases[i].scan;
        assert_int_equal(tally_cumsum(client, scan, buffer, buffer, &err),
                         TALLY_INVALID_ARGUMENT);
        assert_string_equal(err.field, cases[i].field);
        if (strstr(err.message, cases[i].text) == NULL)
            fail_msg("case %zu: %s", i, err.message);
        assert_int_equal(tally_scan_bytes(scan, NULL, NULL, NULL), TALLY_INVALID_ARGUMENT);
        assert_null(tally_parts_open(client, scan, NULL));
    }
    struct tally_carry total = {NULL, 0};
    base.include_initial = 1;
    assert_int_equal(tally_totals(client, &base, buffer, &total, &err), TALLY_INVALID_ARGUMENT);
    assert_string_equal(err.message,
                        "totals have no sums before them: leave include_initial out");
    tally_close(client);
}

static void buffers_have_the_bytes_of_what_they_hold(void **state)
{
    (void)state;
    static const struct {
        int64_t sizes[2];
        enum tally_dtype dtype;
        int has_output, include;
        uint64_t input, output;
    } cases[] = {{{2, 3}, TALLY_BOOL, 0, 0, 6, 48},  {{2, 3}, TALLY_UINT8, 1, 0, 6, 24},
                 {{2, 3}, TALLY_UINT8, 1, 1, 6, 36}, {{0, 3}, TALLY_UINT8, 1, 1, 0, 12},
                 {{2, 0}, TALLY_UINT8, 1, 1, 0, 0},  {{2, 3}, TALLY_FLOAT16, 0, 1, 12, 18}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t input = 77;
        uint64_t output = 77;
        struct tally_scan scan = {.struct_size = sizeof scan,
                                  .dtype = cases[i].dtype,
                                  .rank = 2,
                                  .sizes = cases[i].sizes,
                                  .has_output_dtype = cases[i].has_output,
                                  .output_dtype = TALLY_UINT32,
                                  .include_initial = cases[i].include};
        assert_int_equal(tally_scan_bytes(&scan, &input, &output, NULL), TALLY_OK);
        assert_int_equal(input, cases[i].input);
        assert_int_equal(output, cases[i].output);
    }
    assert_string_equal(tally_dtype_name(TALLY_BOOL), "bool");
    assert_int_equal(tally_dtype_bytes(TALLY_BOOL), 1);
    assert_null(tally_dtype_name((enum tally_dtype)13));
    enum tally_dtype found = TALLY_INT8;
    assert_int_equal(tally_dtype_find("bool", &found), 0);
    assert_int_equal(found, TALLY_BOOL);
}

static void a_scan_of_a_program_built_before_attributes_is_taken(void **state)
{
    (void)state;
    const int64_t size = 3;
    uint64_t output = 0;
    struct tally_scan scan;
    /* The members that the older structure lacks contain garbage. */
    memset(&scan, 0xFF, sizeof scan);
    const size_t older = offsetof(struct tally_scan, has_output_dtype);
    const struct tally_scan whole = scan_of(&size);
    memcpy(&scan, &whole, older);
    scan.struct_size = older;
    assert_int_equal(tally_scan_bytes(&scan, NULL, &output, NULL), TALLY_OK);
    assert_int_equal(output, 12);
    struct tally *client = tally_open("h:1", NULL, NULL);
    struct tally_parts *parts = tally_parts_open(client, &scan, NULL);
    assert_non_null(parts);
    tally_parts_close(parts);
    tally_close(client);
    scan.struct_size = older + 4;
    assert_int_equal(tally_scan_bytes(&scan, NULL, NULL, NULL), TALLY_INVALID_ARGUMENT);
}

/* ---- offsets ---- */

static const int64_t FIVE = 5;
static const int64_t OFFSETS[] = {0, 2, 2, 5};

static struct tally_scan scan_of_segments(void)
{
    struct tally_scan scan = scan_of(&FIVE);
    scan.offsets = OFFSETS;
    scan.offset_count = 4;
    return scan;
}

/* A callback that blocks until the test releases it. */
struct held {
    sem_t begun;
    sem_t go_on;
};

static void hold(void *user, const struct tally_error *result)
{
    struct held *held = user;
    (void)result;
    (void)sem_post(&held->begun);
    while (sem_wait(&held->go_on) != 0) {
    }
}

static void offsets_are_sent_before_the_tensor(void **state)
{
    (void)state;
    const int32_t input[5] = {1, 2, 3, 4, 5};
    int32_t output[8];
    struct tally_error err;
    struct script script = {.dtype = "int32", .shape = "5", .payload_bytes = 20};
    struct fake_server *server = fake_server_start(answer_and_keep, &script, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), -1);
    struct tally_scan scan = scan_of_segments();
    assert_int_equal(tally_cumsum(client, &scan, input, output, &err), TALLY_OK);
    assert_query(&script, "?dtype=int32&shape=5&axis=0 HTTP");
    assert_query(&script, "\r\nTally-Offsets-Length: 32\r\n");
    assert_int_equal(script.body_bytes, 32 + 20);
    assert_memory_equal(script.body, OFFSETS, 32);
    assert_memory_equal(script.body + 32, input, 20);

    /* With include_initial each of the three segments has one more sum; an answer of any other
     * shape is refused. */
    scan.include_initial = 1;
    assert_int_equal(tally_cumsum(client, &scan, input, output, &err), TALLY_BAD_ANSWER);
    script.shape = "8";
    script.payload_bytes = 32;
    assert_int_equal(tally_cumsum(client, &scan, input, output, &err), TALLY_OK);
    tally_close(client);
    fake_server_stop(server);
}

static void a_submitted_call_has_offsets_of_its_own(void **state)
{
    (void)state;
    const int32_t input[5] = {1, 2, 3, 4, 5};
    int32_t output[5];
    int64_t offsets[4];
    struct held held;
    struct tally_error err;
    struct script script = {.dtype = "int32", .shape = "5", .payload_bytes = 20};
    struct fake_server *server = fake_server_start(answer_and_keep, &script, SIZE_MAX, NULL);
    struct tally *client = quick_client(fake_server_url(server), -1);
    struct tally_scan scan = scan_of(&FIVE);
    assert_int_equal(sem_init(&held.begun, 0, 0) | sem_init(&held.go_on, 0, 0), 0);
    /* This callback blocks the sending thread until the caller has changed the offsets. */
    assert_int_equal(
        tally_submit(client, &scan, input, output, (struct tally_done){hold, &held}, &err),
        TALLY_OK);
    while (sem_wait(&held.begun) != 0) {
    }
    memcpy(offsets, OFFSETS, sizeof offsets);
    scan = scan_of_segments();
    scan.offsets = offsets;
    assert_int_equal(
        tally_submit(client, &scan, input, output, (struct tally_done){NULL, NULL}, &err),
        TALLY_OK);
    memset(offsets, 0xFF, sizeof offsets);
    assert_int_equal(sem_post(&held.go_on), 0);
    assert_int_equal(tally_wait(client, -1), TALLY_OK);
    assert_query(&script, "\r\nTally-Offsets-Length: 32\r\n");
    assert_memory_equal(script.body, OFFSETS, 32);
    tally_close(client);
    fake_server_stop(server);
    assert_int_equal(sem_destroy(&held.begun) | sem_destroy(&held.go_on), 0);
}

static void assert_refused(enum tally_status status, const struct tally_error *err,
                           const char *text)
{
    assert_int_equal(status, TALLY_INVALID_ARGUMENT);
    assert_string_equal(err->field, "offsets");
    if (strstr(err->message, text) == NULL)
        fail_msg("%s is not in %s", text, err->message);
}

static void offsets_that_are_none_are_refused_before_sending(void **state)
{
    (void)state;
    static const struct {
        int64_t offsets[4];
        uint64_t count;
        const char *text;
    } cases[] = {
        {{0}, 0, "offsets is empty, expected the beginning of each segment"},
        {{1, 5}, 2, "offsets[0] is 1, expected 0"},
        {{-1, 5}, 2, "offsets[0] is -1, expected 0"},
        {{0, 3, 2, 5}, 4, "offsets[2] is 2, less than the offset before it, 3"},
        {{0, INT64_MIN, 5}, 3, "less than the offset before it, 0"},
        {{0, 6, 5}, 3, "offsets[1] is 6, beyond the axis, which has the size 5"},
        {{0, INT64_MAX}, 2, "beyond the axis"},
        {{0, 4}, 2, "offsets[1], the last one, is 4, expected the size of the axis, 5"},
        {{0}, 1, "offsets[0], the last one, is 0, expected the size of the axis, 5"},
    };
    struct tally *client = tally_open("h:1", NULL, NULL);
    int32_t buffer[5] = {0};
    struct tally_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tally_scan scan = scan_of(&FIVE);
        scan.offsets = cases[i].offsets;
        scan.offset_count = cases[i].count;
        assert_refused(tally_cumsum(client, &scan, buffer, buffer, &err), &err, cases[i].text);
        assert_refused(tally_scan_bytes(&scan, NULL, NULL, &err), &err, cases[i].text);
    }
    struct tally_scan scan = scan_of(&FIVE);
    scan.offset_count = 2;
    assert_refused(tally_cumsum(client, &scan, buffer, buffer, &err), &err,
                   "offsets is NULL, but offset_count is 2");
    tally_close(client);
}

static void parts_and_totals_have_no_offsets(void **state)
{
    (void)state;
    static const char text[] = "a part ends where a segment ends, or is carried: leave offsets "
                               "out";
    const int64_t open = 0; /* axis size of a scan in parts */
    struct tally *client = tally_open("h:1", NULL, NULL);
    int32_t buffer[5] = {0};
    struct tally_carry total = {NULL, 0};
    struct tally_error err;
    struct tally_scan scan = scan_of_segments();
    assert_refused(tally_totals(client, &scan, buffer, &total, &err), &err, text);
    scan.sizes = &open;
    assert_null(tally_parts_open(client, &scan, &err));
    assert_refused(err.status, &err, text);
    tally_close(client);
}

static void offsets_do_not_lie_in_the_output(void **state)
{
    (void)state;
    struct tally *client = tally_open("h:1", NULL, NULL);
    struct tally_error err;
    int64_t offsets[4];
    memcpy(offsets, OFFSETS, sizeof offsets);
    const int32_t input[5] = {0};
    struct tally_scan scan = scan_of_segments();
    scan.offsets = offsets;
    assert_int_equal(tally_cumsum(client, &scan, input, &offsets[3], &err),
                     TALLY_INVALID_ARGUMENT);
    assert_string_equal(err.message, "offsets and output overlap; they must be disjoint");
    tally_close(client);
}

static void each_segment_has_room_for_its_initial_sum(void **state)
{
    (void)state;
    static const int64_t none[] = {0, 0, 0};
    const int64_t sizes[2] = {3, 5};
    const int64_t empty[2] = {3, 0};
    const int64_t endless[2] = {0, INT64_MAX - 2};
    const int64_t far[] = {0, 0, 0, INT64_MAX - 2};
    uint64_t output = 77;
    struct tally_error err;
    struct tally_scan scan = scan_of_segments();
    scan.rank = 2;
    scan.axis = -1;
    scan.sizes = sizes;
    assert_int_equal(tally_scan_bytes(&scan, NULL, &output, &err), TALLY_OK);
    assert_int_equal(output, 3 * 5 * 4);
    scan.include_initial = 1;
    assert_int_equal(tally_scan_bytes(&scan, NULL, &output, &err), TALLY_OK);
    assert_int_equal(output, 3 * 8 * 4);
    scan.sizes = empty;
    scan.offsets = none;
    scan.offset_count = 3;
    assert_int_equal(tally_scan_bytes(&scan, NULL, &output, &err), TALLY_OK);
    assert_int_equal(output, 3 * 2 * 4);
    scan.offset_count = 1; /* no segment */
    assert_int_equal(tally_scan_bytes(&scan, NULL, &output, &err), TALLY_OK);
    assert_int_equal(output, 0);
    scan.sizes = endless;
    scan.offsets = far;
    scan.offset_count = 4;
    assert_int_equal(tally_scan_bytes(&scan, NULL, &output, &err), TALLY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "include_initial makes 3 more"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_has_the_attributes_that_are_set_and_no_other),
        cmocka_unit_test(an_initial_value_is_written_in_the_type_of_the_sums),
        cmocka_unit_test(only_an_answer_of_the_wider_type_and_the_longer_shape_is_taken),
        cmocka_unit_test(the_first_part_alone_has_the_initial_value),
        cmocka_unit_test(attributes_that_do_not_go_together_are_refused_before_sending),
        cmocka_unit_test(buffers_have_the_bytes_of_what_they_hold),
        cmocka_unit_test(a_scan_of_a_program_built_before_attributes_is_taken),
        cmocka_unit_test(offsets_are_sent_before_the_tensor),
        cmocka_unit_test(a_submitted_call_has_offsets_of_its_own),
        cmocka_unit_test(offsets_that_are_none_are_refused_before_sending),
        cmocka_unit_test(parts_and_totals_have_no_offsets),
        cmocka_unit_test(offsets_do_not_lie_in_the_output),
        cmocka_unit_test(each_segment_has_room_for_its_initial_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
