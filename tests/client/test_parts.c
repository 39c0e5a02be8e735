/* The parts of the client that need no server: checks before a request, and the small parsers
 * of untrusted text. */
#include "tests/client/lib/support.h"

#include "client/cli/fields.h"
#include "client/cli/terminal.h"
#include "client/connection.h"
#include "client/cumsum_call.h"
#include "client/server_url.h"
#include "client/tally_directml.h"
#include "proto/carry.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- URLs ---- */

static void server_urls_are_understood(void **state)
{
    (void)state;
    static const struct {
        const char *url, *base, *socket;
    } cases[] = {
        {"http://h:1", "http://h:1", NULL},
        {"h:1", "http://h:1", NULL},
        {"http://h:1/", "http://h:1", NULL},
        {"http://h:1/a//", "http://h:1/a", NULL},
        {"https://h/a/b/", "https://h/a/b", NULL},
        {"http://[::1]:8000", "http://[::1]:8000", NULL},
        {"unix:/run/t.sock", "http://localhost", "/run/t.sock"},
        {"unix:///run/t.sock", "http://localhost", "/run/t.sock"},
        {"http+unix://%2Frun%2Ft.sock/p/", "http://localhost/p", "/run/t.sock"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tally client = {.base_url = NULL};
        struct tally_error err;
        if (server_url_parse(&client, cases[i].url, &err) != TALLY_OK)
            fail_msg("%s: %s", cases[i].url, err.message);
        /* libcurl appends a slash to a bare host; the client removes it. */
        assert_string_equal(client.base_url, cases[i].base);
        if (cases[i].socket == NULL)
            assert_null(client.socket_path);
        else
            assert_string_equal(client.socket_path, cases[i].socket);
        free(client.base_url);
        free(client.socket_path);
    }
}

static void useless_urls_are_refused_with_advice(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "ftp://h/",           "/run/tally.sock",      "http://",
        "unix:relative",      "http+unix://relative", "http://h/?a=b",
        "http://h/#x",        "http://h:99999",       "http://a b/",
        "file:///etc/passwd", "http+unix://%2Fa%00b", "unix:",
        "http://[::1",
    };
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct tally_error err;
        struct tally *client = tally_open(urls[i], NULL, &err);
        if (client != NULL)
            fail_msg("%s was accepted", urls[i]);
        assert_int_equal(err.status, TALLY_INVALID_ARGUMENT);
    }
    struct tally_error told;
    assert_null(tally_open("ftp://me:secret@h/", NULL, &told));
    assert_non_null(strstr(told.message, "'***@h/'"));
    assert_null(tally_open("ftp://me:se@cret@h/", NULL, &told));
    assert_non_null(strstr(told.message, "'***@h/'"));
    char path[5 + 109];
    memset(path, 'a', sizeof path);
    memcpy(path, "unix:/", 6);
    path[5 + 107] = '\0'; /* the longest path that fits in a socket address */
    struct tally *client = tally_open(path, NULL, &told);
    assert_non_null(client);
    tally_close(client);
    memcpy(path + 5 + 107, "a", 2);
    assert_null(tally_open(path, NULL, &told));
    assert_non_null(strstr(told.message, "at most 107 bytes"));
    char longer[4000];
    memset(longer, 'a', sizeof longer);
    memcpy(longer, "unix:/", 6);
    longer[sizeof longer - 1] = '\0';
    assert_null(tally_open(longer, NULL, NULL));
    memcpy(longer, "http:/", 6);
    assert_null(tally_open(longer, NULL, NULL));
    memcpy(longer, "http+unix://", 12);
    assert_null(tally_open(longer, NULL, NULL));
}

static void options_of_another_version_are_refused(void **state)
{
    (void)state;
    struct tally_error err;
    struct tally_options options = TALLY_OPTIONS_INIT;
    options.struct_size--;
    assert_null(tally_open("h:1", &options, &err));
    assert_int_equal(err.status, TALLY_INVALID_ARGUMENT);
}

static void options_have_defaults_and_negative_ones_are_none(void **state)
{
    (void)state;
    static const int64_t given[] = {0, -1, INT64_MAX};
    static const int64_t timeouts[] = {600000, 0, INT64_C(1000000000000)};
    static const int32_t counts[][3] = {{4, 4, 1024}, {0, 1, 1}, {7, 7, 7}};
    for (int i = 0; i < 3; i++) {
        struct tally_options options = TALLY_OPTIONS_INIT;
        const int32_t count = i < 2 ? (int32_t)given[i] : 7;
        options.timeout_ms = given[i];
        options.retries = count;
        options.async_connections = count;
        options.async_queue = count;
        struct tally *client = tally_open("h:1", &options, NULL);
        assert_true(client->options.timeout_ms == timeouts[i]);
        assert_int_equal(client->options.retries, counts[i][0]);
        assert_int_equal(client->options.async_connections, counts[i][1]);
        assert_int_equal(client->options.async_queue, counts[i][2]);
        tally_close(client);
    }
}

static void so_many_connections_are_kept_and_no_more(void **state)
{
    (void)state;
    struct tally_options options = TALLY_OPTIONS_INIT;
    CURL *easy[4];
    options.idle_connections = 2;
    struct tally *client = tally_open("h:1", &options, NULL);
    for (int i = 0; i < 4; i++)
        easy[i] = connection_acquire(client);
    for (int i = 0; i < 4; i++)
        connection_release(client, easy[i]);
    assert_int_equal(client->idle_count, 2);
    assert_ptr_equal(connection_acquire(client), easy[1]);
    connection_release(client, easy[1]);
    tally_close(client);
}

static void a_token_with_line_breaks_is_refused(void **state)
{
    (void)state;
    struct tally_error err;
    struct tally_options options = TALLY_OPTIONS_INIT;
    options.token = "secret\r\nX: y";
    assert_null(tally_open("h:1", &options, &err));
    assert_int_equal(err.status, TALLY_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "options.token"));
    assert_null(strstr(err.message, "secret"));
}

/* ---- descriptors ---- */

static void impossible_scans_are_refused_before_sending(void **state)
{
    (void)state;
    static const int64_t good[2] = {2, 3};
    static const int64_t negative[2] = {2, -3};
    static const int64_t single[2] = {2, 1};
    static const int64_t huge[2] = {INT64_MAX, 3};
    static const int64_t wide_strides[2] = {INT64_MAX, 1};
    const struct tally_scan base = {
        .struct_size = sizeof base, .dtype = TALLY_FLOAT32, .rank = 2, .sizes = good};
    static const int64_t many[TALLY_MAX_RANK + 1];
    struct tally_scan cases[12];
    for (size_t i = 0; i < 12; i++)
        cases[i] = base;
    cases[0].struct_size = 1;
    cases[1].dtype = (enum tally_dtype)13;
    cases[2].rank = 0;
    cases[3].rank = TALLY_MAX_RANK + 1;
    cases[3].sizes = many;
    cases[4].sizes = NULL;
    cases[5].sizes = negative;
    cases[6].sizes = huge;
    cases[7].strides = negative;
    cases[8].strides = wide_strides;
    cases[9].axis = 2;
    cases[10].axis = -3;
    cases[11].sizes = single;
    cases[11].strides = negative;
    struct tally *client = tally_open("h:1", NULL, NULL);
    for (size_t i = 0; i < 12; i++) {
        struct tally_error err;
        float buffer[6] = {0};
        if (tally_cumsum(client, &cases[i], buffer, buffer, &err) != TALLY_INVALID_ARGUMENT)
            fail_msg("case %zu was accepted", i);
        assert_true(err.message[0] != '\0');
        assert_int_equal(tally_submit(client, &cases[i], buffer, buffer,
                                      (struct tally_done){NULL, NULL}, &err),
                         TALLY_INVALID_ARGUMENT);
    }
    tally_close(client);
}

static void buffers_are_checked(void **state)
{
    (void)state;
    int64_t size = 4;
    int32_t numbers[8] = {0};
    struct tally_error err;
    struct tally *client = tally_open("h:1", NULL, NULL);
    struct tally_scan scan = scan_of(&size);
    assert_int_equal(tally_cumsum(client, &scan, NULL, numbers, &err), TALLY_INVALID_ARGUMENT);
    assert_int_equal(tally_cumsum(client, &scan, numbers, NULL, &err), TALLY_INVALID_ARGUMENT);
    assert_int_equal(tally_cumsum(client, &scan, numbers, numbers + 1, &err),
                     TALLY_INVALID_ARGUMENT);
    assert_int_equal(tally_cumsum(client, &scan, numbers + 3, numbers, &err),
                     TALLY_INVALID_ARGUMENT);
    scan.input_bytes = 15;
    assert_int_equal(tally_cumsum(client, &scan, numbers, numbers + 4, &err),
                     TALLY_INVALID_ARGUMENT);
    scan.input_bytes = 0;
    scan.output_bytes = 15;
    assert_int_equal(tally_cumsum(client, &scan, numbers, numbers + 4, &err),
                     TALLY_INVALID_ARGUMENT);
    assert_int_equal(tally_cumsum(NULL, &scan, numbers, numbers + 4, NULL),
                     TALLY_INVALID_ARGUMENT);
    uint64_t bytes = 1;
    assert_null(tally_parts_carry(NULL, &bytes));
    assert_int_equal(bytes, 0);
    assert_int_equal(tally_parts_position(NULL), 0);
    scan.output_bytes = 0;
    struct tally_parts *parts = tally_parts_open(client, &scan, &err);
    assert_null(tally_parts_carry(parts, NULL));
    assert_int_equal(tally_parts_next(parts, -1, numbers, numbers, &err),
                     TALLY_INVALID_ARGUMENT);
    assert_int_equal(tally_parts_next(NULL, 1, numbers, numbers, &err), TALLY_INVALID_ARGUMENT);
    assert_int_equal(tally_parts_restore(parts, NULL, 64, &err), TALLY_INVALID_ARGUMENT);
    unsigned char carry[CARRY_HEADER_BYTES] = CARRY_MAGIC;
    memset(carry + CARRY_AT_POSITION, 0xFF, 8); /* 2^63 - 1 */
    carry[CARRY_AT_POSITION + 7] = 0x7F;
    assert_int_equal(tally_parts_restore(parts, carry, sizeof carry - 1, &err),
                     TALLY_INVALID_ARGUMENT);
    assert_int_equal(tally_parts_restore(parts, carry, sizeof carry, &err), TALLY_OK);
    assert_true(tally_parts_position(parts) == INT64_MAX);
    assert_int_equal(tally_parts_next(parts, 1, numbers, numbers, &err),
                     TALLY_INVALID_ARGUMENT);
    carry[0] = 't';
    assert_int_equal(tally_parts_restore(parts, carry, sizeof carry, &err),
                     TALLY_INVALID_ARGUMENT);
    tally_parts_close(parts);
    scan.output_strides = &size;
    assert_null(tally_parts_open(client, &scan, &err));
    assert_int_equal(err.status, TALLY_INVALID_ARGUMENT);
    assert_null(tally_parts_open(NULL, &scan, &err));
    tally_close(client);
    tally_close(NULL);
}

static void buffers_may_be_the_same_or_beside_each_other(void **state)
{
    (void)state;
    static const struct {
        int input;
        int input_bytes;
        int output;
        int output_bytes;
        bool allowed;
        bool in_place;
    } cases[] = {{0, 8, 8, 8, true, false},  {8, 8, 0, 8, true, false},
                 {0, 9, 8, 8, false, true},  {8, 8, 0, 9, false, true},
                 {4, 8, 4, 8, true, true},   {4, 8, 4, 16, true, true},
                 {4, 0, 0, 16, true, false}, {0, 16, 4, 0, true, false}};
    char bytes[16];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool in_place = !cases[i].in_place;
        assert_int_equal(ranges_allowed(bytes + cases[i].input, (uint64_t)cases[i].input_bytes,
                                        bytes + cases[i].output,
                                        (uint64_t)cases[i].output_bytes, &in_place),
                         cases[i].allowed);
        assert_int_equal(in_place, cases[i].in_place);
    }
}

static void sizes_of_buffers_follow_from_the_scan(void **state)
{
    (void)state;
    int64_t sizes[3] = {2, 1, 3};
    int64_t strides[3] = {10, 99, 2};
    int64_t zeros[3] = {0, 5, INT64_MAX};
    uint64_t input = 1;
    uint64_t output = 1;
    struct tally_scan scan = {.struct_size = sizeof scan,
                              .dtype = TALLY_FLOAT16,
                              .rank = 3,
                              .sizes = sizes,
                              .strides = strides};
    assert_int_equal(tally_scan_bytes(&scan, &input, &output, NULL), TALLY_OK);
    assert_int_equal(input, (10 + 4 + 1) * 2);
    assert_int_equal(output, 12);
    scan.axis = -3;
    assert_int_equal(tally_scan_bytes(&scan, NULL, NULL, NULL), TALLY_OK);
    scan.sizes = zeros;
    assert_int_equal(tally_scan_bytes(&scan, &input, &output, NULL), TALLY_OK);
    assert_int_equal(input, 0);
    assert_int_equal(output, 0);
}

static void names_of_types_are_the_service_s(void **state)
{
    (void)state;
    enum tally_dtype dtype = TALLY_INT8;
    for (int i = TALLY_FLOAT16; i <= TALLY_UINT64; i++) {
        assert_int_equal(tally_dtype_find(tally_dtype_name((enum tally_dtype)i), &dtype), 0);
        assert_int_equal((int)dtype, i);
    }
    assert_string_equal(tally_dtype_name(TALLY_UINT16), "uint16");
    assert_int_equal(tally_dtype_bytes(TALLY_BFLOAT16), 2);
    assert_null(tally_dtype_name((enum tally_dtype)13));
    assert_int_equal(tally_dtype_find("float", &dtype), -1);
    assert_int_equal(tally_dtype_find(NULL, &dtype), -1);
    for (int i = TALLY_OK; i <= TALLY_LOCAL_IO; i++)
        assert_non_null(tally_status_name((enum tally_status)i));
    assert_null(tally_status_name((enum tally_status)99));
}

static void requests_with_line_breaks_are_refused(void **state)
{
    (void)state;
    struct tally *client = tally_open("h:1", NULL, NULL);
    struct tally_request request = {.struct_size = sizeof request, .path = "/v1\r\nX: y"};
    assert_int_equal(tally_exchange(client, &request, NULL), TALLY_INVALID_ARGUMENT);
    request.path = "v1";
    assert_int_equal(tally_exchange(client, &request, NULL), TALLY_INVALID_ARGUMENT);
    request.path = "/v1/\xC3\xA9"; /* not ASCII: refused also if char is signed */
    assert_int_equal(tally_exchange(client, &request, NULL), TALLY_INVALID_ARGUMENT);
    request.path = "/v1/\x7f";
    assert_int_equal(tally_exchange(client, &request, NULL), TALLY_INVALID_ARGUMENT);
    request.path = "/v1";
    request.content_type = "a/b\r\nX: y";
    assert_int_equal(tally_exchange(client, &request, NULL), TALLY_INVALID_ARGUMENT);
    char longer[401 + 1];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    request.content_type = longer;
    assert_int_equal(tally_exchange(client, &request, NULL), TALLY_INVALID_ARGUMENT);
    request.content_type = NULL;
    request.body_bytes = 3;
    assert_int_equal(tally_exchange(client, &request, NULL), TALLY_INVALID_ARGUMENT);
    request.body = "abc";
    request.body_bytes = (uint64_t)INT64_MAX + 1;
    assert_int_equal(tally_exchange(client, &request, NULL), TALLY_INVALID_ARGUMENT);
    request.struct_size = 1;
    assert_int_equal(tally_exchange(client, &request, NULL), TALLY_INVALID_ARGUMENT);
    tally_close(client);
}

/* ---- DirectML's binding rules ---- */

static void binding_rules_are_checked(void **state)
{
    (void)state;
    static const UINT sizes[2] = {2, 4};
    static const UINT zero[2] = {2, 0};
    static const UINT huge[2] = {0xFFFFFFFF, 0xFFFFFFFF};
    static _Alignas(64) unsigned char memory[256];
    const DML_BUFFER_TENSOR_DESC good = {.DataType = DML_TENSOR_DATA_TYPE_FLOAT32,
                                         .DimensionCount = 2,
                                         .Sizes = sizes,
                                         .TotalTensorSizeInBytes = 32};
    struct {
        const char *what;
        DML_BUFFER_TENSOR_DESC tensor;
        struct tally_dml_binding input, output;
    } cases[] = {
        {"unknown type", good, {memory, 0, 32}, {memory, 64, 32}},
        {"4-bit type", good, {memory, 0, 32}, {memory, 64, 32}},
        {"no dimension", good, {memory, 0, 32}, {memory, 64, 32}},
        {"9 dimensions", good, {memory, 0, 32}, {memory, 64, 32}},
        {"a zero size", good, {memory, 0, 32}, {memory, 64, 32}},
        {"too large", good, {memory, 0, 32}, {memory, 64, 32}},
        {"total too small", good, {memory, 0, 32}, {memory, 64, 32}},
        {"unknown flags", good, {memory, 0, 32}, {memory, 64, 32}},
        {"odd alignment", good, {memory, 0, 32}, {memory, 48, 32}},
        {"alignment below the element", good, {memory, 0, 32}, {memory, 64, 32}},
        {"guarantee broken", good, {memory, 16, 32}, {memory, 64, 32}},
        {"offset not of 16", good, {memory, 8, 32}, {memory, 64, 32}},
        {"range too short", good, {memory, 0, 28}, {memory, 64, 32}},
        {"range not of 4", good, {memory, 0, 34}, {memory, 64, 32}},
        {"nothing bound", good, {NULL, 0, 32}, {memory, 64, 32}},
        {"partial overlap", good, {memory, 0, 32}, {memory, 16, 32}},
        {"same start, other length", good, {memory, 0, 32}, {memory, 0, 64}},
    };
    cases[0].tensor.DataType = DML_TENSOR_DATA_TYPE_UNKNOWN;
    cases[1].tensor.DataType = DML_TENSOR_DATA_TYPE_UINT4;
    cases[2].tensor.DimensionCount = 0;
    cases[3].tensor.DimensionCount = 9;
    cases[4].tensor.Sizes = zero;
    cases[5].tensor.Sizes = huge;
    cases[6].tensor.TotalTensorSizeInBytes = 31;
    cases[7].tensor.Flags = (DML_TENSOR_FLAGS)2;
    cases[8].tensor.GuaranteedBaseOffsetAlignment = 24;
    cases[9].tensor.GuaranteedBaseOffsetAlignment = 2;
    cases[10].tensor.GuaranteedBaseOffsetAlignment = 64;
    struct tally *client = tally_open("http://127.0.0.1:1", NULL, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tally_error err;
        DML_TENSOR_DESC tensor = {DML_TENSOR_TYPE_BUFFER, &cases[i].tensor};
        DML_CUMULATIVE_SUMMATION_OPERATOR_DESC desc = {&tensor, &tensor, 1, 0, 0};
        if (tally_dml_cumulative_summation(client, &desc, 0, &cases[i].input, &cases[i].output,
                                           &err) != TALLY_INVALID_ARGUMENT)
            fail_msg("%s: %s", cases[i].what, err.message);
        assert_true(err.field[0] != '\0');
    }
    struct tally_error err;
    DML_TENSOR_DESC tensor = {DML_TENSOR_TYPE_BUFFER, &good};
    DML_TENSOR_DESC invalid = {DML_TENSOR_TYPE_INVALID, &good};
    DML_CUMULATIVE_SUMMATION_OPERATOR_DESC desc = {&tensor, &tensor, 1, (DML_AXIS_DIRECTION)2,
                                                   0};
    struct tally_dml_binding bound = {memory, 0, 32};
    assert_int_equal(tally_dml_cumulative_summation(client, &desc, 0, &bound, &bound, &err),
                     TALLY_INVALID_ARGUMENT);
    desc.AxisDirection = DML_AXIS_DIRECTION_DECREASING;
    desc.InputTensor = &invalid;
    assert_int_equal(tally_dml_cumulative_summation(client, &desc, 0, &bound, &bound, &err),
                     TALLY_INVALID_ARGUMENT);
    /* In place is allowed: the call fails only because no server listens. */
    desc.InputTensor = &tensor;
    assert_int_equal(tally_dml_cumulative_summation(client, &desc, 0, &bound, &bound, &err),
                     TALLY_CONNECT);
    tally_close(client);
}

static void directml_sizes_are_computed_in_64_bits(void **state)
{
    (void)state;
    static const UINT a[2] = {2, 3};
    static const UINT a_strides[2] = {8, 1};
    static const UINT b[3] = {3, 2, 5};
    static const UINT b_strides[3] = {0, 0, 1};
    static const UINT big[2] = {65536, 65536};
    assert_int_equal(
        tally_dml_buffer_tensor_size(DML_TENSOR_DATA_TYPE_FLOAT32, 2, a, a_strides), 44);
    assert_int_equal(
        tally_dml_buffer_tensor_size(DML_TENSOR_DATA_TYPE_FLOAT32, 3, b, b_strides), 20);
    assert_int_equal(tally_dml_buffer_tensor_size(DML_TENSOR_DATA_TYPE_UINT8, 2, a, NULL), 8);
    assert_true(tally_dml_buffer_tensor_size(DML_TENSOR_DATA_TYPE_INT64, 2, big, NULL) ==
                UINT64_C(1) << 35);
}

/* ---- complaints ---- */

/* Two parts may fail at the same time, each on its own thread. */
static void a_command_complains_once(void **state)
{
    (void)state;
    char said[256] = "";
    const struct tally_error err = {
        .status = TALLY_BUSY, .http_status = 503, .message = "third"};
    FILE *to = tmpfile();
    int kept = dup(STDERR_FILENO);
    assert_true(dup2(fileno(to), STDERR_FILENO) >= 0);
    int first = complain(EXIT_LOCAL, "%s", "first");
    int second = complain(EXIT_USAGE, "%s", "second");
    int third = complain_error(&err);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    (void)close(kept);
    rewind(to);
    said[fread(said, 1, sizeof said - 1, to)] = '\0';
    (void)fclose(to);
    assert_string_equal(said, "tally: error: first\n");
    assert_int_equal(first, EXIT_LOCAL);
    assert_int_equal(second, EXIT_USAGE);
    assert_int_equal(third, EXIT_BUSY);
}

/* ---- hostile text ---- */

static void texts_of_answers_are_cut_and_made_safe_for_terminals(void **state)
{
    (void)state;
    char out[64] = "as before";
    char tiny[4];
    json_t *object = json_loads(
        "{\"a\":\"y\\u00e9\\n\\u001b[31m\\u202e\\\\\\/\",\"b\":1,\"c\":\"abcdef\"}", 0, NULL);
    assert_non_null(object);
    assert_false(json_member_text(object, "b", out, sizeof out));
    assert_false(json_member_text(object, "d", out, sizeof out));
    assert_false(json_member_text(NULL, "a", out, sizeof out));
    assert_string_equal(out, "as before");
    assert_true(json_member_text(object, "a", out, sizeof out));
    assert_string_equal(out, "y\xc3\xa9??[31m?\\/");
    assert_true(json_member_text(object, "c", tiny, sizeof tiny));
    assert_string_equal(tiny, "abc");
    json_decref(object);
}

static void lines_of_noise_are_never_overread(void **state)
{
    (void)state;
    static const char characters[] = "0123456789,,,.;+-eE \t\"\"NAtrue\xc3\xff[{\n";
    static const char delimiters[] = ",; \t";
    static const char *const cut[] = {"na", "+.in", "-.",  "N/",  "tru",
                                      "1,", ".",    "\"1", "\"\""};
    unsigned seed = 12345;
    for (size_t round = 0; round < 20000; round++) {
        bool is_cut = round < sizeof cut / sizeof *cut;
        size_t count = is_cut ? strlen(cut[round]) : round % 14;
        const struct dialect dialect = {delimiters[round % 4], round % 3 == 0 ? ',' : '.'};
        char *line = malloc(count + (count == 0));
        uint64_t lines = 0;
        for (size_t i = 0; i < count; i++) {
            seed = seed * 1103515245 + 12345;
            line[i] = is_cut ? cut[round][i] : characters[(seed >> 16) % sizeof characters];
        }
        (void)delimiter_of_line(line, line + count, dialect.decimal, ' ');
        const size_t record = record_bytes(dialect.delimiter, line, line + count, &lines);
        assert_true(record == SIZE_MAX || (record < count && line[record] == '\n'));
        struct field_cursor cursor = {line, line + count, false};
        struct field field;
        while (field_next(&dialect, &cursor, &field)) {
            char number[8];
            assert_true(field.at >= line && field.at + field.count <= line + count);
            (void)field_is_integer(&field);
            (void)field_is_name(&dialect, &field);
            (void)field_read(&dialect, &field, DTYPE_F64, number);
            (void)field_read(&dialect, &field, DTYPE_I8, number);
        }
        free(line);
    }
}

static void fields_are_those_of_rfc_4180(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        char delimiter;
        const char *fields[5];
    } cases[] = {
        {"aaa,bbb,ccc", ',', {"aaa", "bbb", "ccc"}},
        {"\"aaa\",\"b,b\",ccc", ',', {"\"aaa\"", "\"b,b\"", "ccc"}},
        {"\"b\"\"bb\"", ',', {"\"b\"\"bb\""}},
        {"\"b\nbb\",c", ',', {"\"b\nbb\"", "c"}},
        {",a,", ',', {"", "a", ""}},
        {" a b , c ", ',', {"a b", "c"}},
        {"a\"b,c", ',', {"a\"b", "c"}},
        {"\"a\"b,c", ',', {"\"a\"b", "c"}},
        {" 1  2\t3 ", ' ', {"1", "2", "3"}},
        {"1\t\t3", '\t', {"1", "", "3"}},
        {"   ", ',', {NULL}},
        {"", ',', {NULL}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct dialect dialect = {cases[i].delimiter, '.'};
        const char *line = cases[i].line;
        struct field_cursor cursor = {line, line + strlen(line), false};
        struct field field;
        size_t count = 0;
        for (; field_next(&dialect, &cursor, &field); count++) {
            assert_non_null(cases[i].fields[count]);
            assert_int_equal(field.count, strlen(cases[i].fields[count]));
            assert_memory_equal(field.at, cases[i].fields[count], field.count);
        }
        assert_null(cases[i].fields[count]);
    }
}

static void media_types_are_compared_without_parameters(void **state)
{
    (void)state;
    assert_true(media_type_is("application/JSON; charset=utf-8", "application/json"));
    assert_true(media_type_is("application/json", "application/json"));
    assert_false(media_type_is("application/jsonx", "application/json"));
    assert_false(media_type_is("", "application/json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(server_urls_are_understood),
        cmocka_unit_test(useless_urls_are_refused_with_advice),
        cmocka_unit_test(options_of_another_version_are_refused),
        cmocka_unit_test(options_have_defaults_and_negative_ones_are_none),
        cmocka_unit_test(so_many_connections_are_kept_and_no_more),
        cmocka_unit_test(a_token_with_line_breaks_is_refused),
        cmocka_unit_test(impossible_scans_are_refused_before_sending),
        cmocka_unit_test(buffers_are_checked),
        cmocka_unit_test(buffers_may_be_the_same_or_beside_each_other),
        cmocka_unit_test(sizes_of_buffers_follow_from_the_scan),
        cmocka_unit_test(names_of_types_are_the_service_s),
        cmocka_unit_test(requests_with_line_breaks_are_refused),
        cmocka_unit_test(binding_rules_are_checked),
        cmocka_unit_test(directml_sizes_are_computed_in_64_bits),
        cmocka_unit_test(a_command_complains_once),
        cmocka_unit_test(texts_of_answers_are_cut_and_made_safe_for_terminals),
        cmocka_unit_test(lines_of_noise_are_never_overread),
        cmocka_unit_test(fields_are_those_of_rfc_4180),
        cmocka_unit_test(media_types_are_compared_without_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
