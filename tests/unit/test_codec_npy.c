/* NPY: valid and invalid header literals, and the codec for them. */
#include "proto/npy_header.h"
#include "tests/lib/unit.h"
#include "tests/unit/codec_run.h"

enum {
    FILE_MAX = 4096
};

/* Write magic, version and dict as one head; returns its length. */
static size_t make_head(char *out, int major, const char *dict)
{
    size_t length = strlen(dict);
    size_t prefix = major == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (char)major;
    out[7] = 0;
    for (size_t i = 0; i < prefix - 8; i++) {
        out[8 + i] = (char)(length >> (8 * i) & 0xFF);
    }
    memcpy(out + prefix, dict, length);
    return prefix + length;
}

static enum status parse(const char *dict, struct npy_header *header, struct error *err)
{
    char text[FILE_MAX];
    size_t bytes = make_head(text, 1, dict);
    char *exact = run_copy(text, bytes);
    assert_non_null(exact);
    *err = (struct error)ERROR_INIT;
    enum status status = npy_header_parse((struct byte_view){exact, bytes}, header, err);
    free(exact);
    return status;
}

static const struct {
    const char *dict;
    enum dtype dtype;
    bool byte_swap;
    bool fortran_order;
    int rank;
    int64_t sizes[3];
} good[] = {
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }         \n",
     DTYPE_F32,
     false,
     false,
     2,
     {2, 3}},
    {"{'descr':'>f8','fortran_order':True,'shape':(2,3)}", DTYPE_F64, true, true, 2, {2, 3}},
    {"{\"shape\":(5,),\"descr\":\"|u1\",\"fortran_order\":False}\n",
     DTYPE_U8,
     false,
     false,
     1,
     {5}},
    {" { 'fortran_order' : True , 'shape' : ( 1 , 2 , 3 , ) , 'descr' : '=i8' , } \n",
     DTYPE_I64,
     false,
     true,
     3,
     {1, 2, 3}},
    {"{'descr': '>i1', 'fortran_order': False, 'shape': (0,)}", DTYPE_I8, false, false, 1, {0}},
    {"{'descr': '|i2', 'fortran_order': False, 'shape': ()}", DTYPE_I16, false, false, 0, {0}},
    {"{'descr': 'f2', 'fortran_order': False, 'shape': (3L, 4L)}",
     DTYPE_F16,
     false,
     false,
     2,
     {3, 4}},
    {"{'descr': '<u8', 'fortran_order': False, 'shape': (9223372036854775807,)}",
     DTYPE_U64,
     false,
     false,
     1,
     {INT64_MAX}},
};

static void headers_are_parsed_as_the_literals_they_are(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        struct npy_header header;
        struct error err;
        if (parse(good[i].dict, &header, &err) != STATUS_OK) {
            fail_msg("%s: %s", good[i].dict, err.detail);
        }
        assert_int_equal(header.dtype, good[i].dtype);
        assert_int_equal(header.byte_swap, good[i].byte_swap);
        assert_int_equal(header.fortran_order, good[i].fortran_order);
        assert_int_equal(header.rank, good[i].rank);
        assert_memory_equal(header.sizes, good[i].sizes,
                            (size_t)good[i].rank * sizeof *header.sizes);
    }
}

/* Spellings of one type, preceded by the byte order if it matters. */
static const struct {
    const char *descr;
    enum dtype dtype;
    bool byte_swap;
} spellings[] = {
    {"'float32'", DTYPE_F32, false}, {"'half'", DTYPE_F16, false},
    {"'e'", DTYPE_F16, false},       {"'>d'", DTYPE_F64, true},
    {"'float'", DTYPE_F64, false},   {"'<l'", DTYPE_I64, false},
    {"'>l'", DTYPE_I64, true},       {"'|L'", DTYPE_U64, false},
    {"'=q'", DTYPE_I64, false},      {"'i'", DTYPE_I32, false},
    {"'intp'", DTYPE_I64, false},    {"'>b'", DTYPE_I8, false},
    {"'uint16'", DTYPE_U16, false},  {"'ubyte'", DTYPE_U8, false},
    {"u'<f4'", DTYPE_F32, false},    {"u\">i2\"", DTYPE_I16, true},
    {"U'int8'", DTYPE_I8, false},
};

static void a_type_is_read_in_every_spelling_of_numpys(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(spellings); i++) {
        char dict[200];
        struct npy_header header;
        struct error err;
        (void)snprintf(dict, sizeof dict,
                       "{u'descr': %s, 'fortran_order': False, u\"shape\": (2,)}",
                       spellings[i].descr);
        if (parse(dict, &header, &err) != STATUS_OK) {
            fail_msg("%s: %s", dict, err.detail);
        }
        assert_int_equal(header.dtype, spellings[i].dtype);
        assert_int_equal(header.byte_swap, spellings[i].byte_swap);
    }
}

#define REST "'fortran_order': False, 'shape': (2,)}"
static const struct {
    const char *dict;
    enum status status;
    const char *says;
} bad[] = {
    {"", STATUS_INVALID_NPY, "'{'"},
    {"{", STATUS_INVALID_NPY, "a key"},
    {"{}", STATUS_INVALID_NPY, "lacks the key 'descr'"},
    {"{'descr': '<f4', 'shape': (2,)}", STATUS_INVALID_NPY, "lacks the key 'fortran_order'"},
    {"{'descr': '<f4', 'fortran_order': False}", STATUS_INVALID_NPY, "lacks the key 'shape'"},
    {"{'descr': '<f4', " REST " x", STATUS_INVALID_NPY, "the end of the header"},
    {"{'descr': '<f4', " REST "{}", STATUS_INVALID_NPY, "the end of the header"},
    {"{'descr': '<f4', 'descr': '<f4', " REST, STATUS_INVALID_NPY, "a second key 'descr'"},
    {"{'descr': '<f4', 'order': 1, " REST, STATUS_INVALID_NPY, "an unknown key 'order'"},
    {"{'descr': '<f4' " REST, STATUS_INVALID_NPY, "',' or '}'"},
    {"{'descr' '<f4', " REST, STATUS_INVALID_NPY, "':'"},
    {"{descr: '<f4', " REST, STATUS_INVALID_NPY, "a key in quotes"},
    {"{'descr': <f4, " REST, STATUS_INVALID_NPY, "a string"},
    {"{'descr': '<f4, " REST, STATUS_INVALID_DTYPE, "<f4, "},
    {"{'descr': \"<f4', " REST, STATUS_INVALID_NPY, "a string"},
    {"{'descr': '<f\\x34', " REST, STATUS_INVALID_NPY, "a string"},
    {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", STATUS_INVALID_NPY,
     "True or False"},
    {"{'descr': '<f4', 'fortran_order': false, 'shape': (2,)}", STATUS_INVALID_NPY,
     "True or False"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': [2]}", STATUS_INVALID_NPY, "a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2)}", STATUS_INVALID_NPY, "a comma"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", STATUS_INVALID_NPY, "a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,,3)}", STATUS_INVALID_NPY,
     "a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", STATUS_INVALID_NPY, "a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", STATUS_INVALID_NPY, "a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2.0,)}", STATUS_INVALID_NPY,
     "a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}",
     STATUS_INVALID_NPY, "a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,", STATUS_INVALID_NPY, "a tuple"},
    {"{'descr': '<c8', " REST, STATUS_INVALID_DTYPE, "send x.real and x.imag"},
    {"{'descr': '>c16', " REST, STATUS_INVALID_DTYPE, "send x.real and x.imag as two arrays"},
    {"{'descr': '|O', " REST, STATUS_INVALID_DTYPE, "unpickled"},
    {"{'descr': '|S5', " REST, STATUS_INVALID_DTYPE, "text"},
    {"{'descr': '<U5', " REST, STATUS_INVALID_DTYPE, "'float64'), which rounds to 53 bits"},
    {"{'descr': '<M8[ns]', " REST, STATUS_INVALID_DTYPE, "points in time have no sum"},
    {"{'descr': '<M8[ns]', " REST, STATUS_INVALID_DTYPE, "numpy.diff(x).astype('int64')"},
    {"{'descr': '>m8[ns]', " REST, STATUS_INVALID_DTYPE, "send x.astype('int64') without NaT"},
    {"{'descr': '|V2', " REST, STATUS_INVALID_DTYPE,
     "does not say which type of 2 bytes this is; bfloat16 is one"},
    {"{'descr': '|V2', " REST, STATUS_INVALID_DTYPE, "if the array was bfloat16 before"},
    {"{'descr': '<V2', " REST, STATUS_INVALID_DTYPE, "x.tobytes()"},
    {"{'descr': '|V1', " REST, STATUS_INVALID_DTYPE, "does not say which type of one byte"},
    {"{'descr': '<V1', " REST, STATUS_INVALID_DTYPE,
     "x.astype('float32') if its type is a float, x.astype('int64') if it is an integer"},
    {"{'descr': '<f1', " REST, STATUS_INVALID_DTYPE, "float8"},
    {"{'descr': '|V16', " REST, STATUS_INVALID_DTYPE, "does not say of which type"},
    {"{'descr': 'bfloat16', " REST, STATUS_INVALID_DTYPE, "with dtype=bfloat16"},
    {"{'descr': '<f16', " REST, STATUS_INVALID_DTYPE, "rounds every element"},
    {"{'descr': '<f12', " REST, STATUS_INVALID_DTYPE, "rounds every element"},
    {"{'descr': '<f3', " REST, STATUS_INVALID_DTYPE, "expected f2"},
    {"{'descr': 'bogus', " REST, STATUS_INVALID_DTYPE, "expected f2"},
    {"{'descr': '<i3', " REST, STATUS_INVALID_DTYPE, "expected f2"},
    {"{'descr': '', " REST, STATUS_INVALID_DTYPE, "expected f2"},
    {"{'descr': '<', " REST, STATUS_INVALID_DTYPE, "expected f2"},
    {"{'descr': '<<f4', " REST, STATUS_INVALID_DTYPE, "expected f2"},
    {"{'descr': '<float32', " REST, STATUS_INVALID_DTYPE, "the name of such a type"},
    {"{'descr': 'Float32', " REST, STATUS_INVALID_DTYPE, "expected f2"},
    {"{'descr': 'l8', " REST, STATUS_INVALID_DTYPE, "expected f2"},
    {"{'descr': '<g', " REST, STATUS_INVALID_DTYPE, "rounds every element"},
    {"{'descr': 'D', " REST, STATUS_INVALID_DTYPE, "send x.real and x.imag"},
    {"{'descr': 'c', " REST, STATUS_INVALID_DTYPE, "text has no sum"},
    {"{'descr': b'<f4', " REST, STATUS_INVALID_NPY, "a string"},
    {"{'descr': u<f4, " REST, STATUS_INVALID_NPY, "a string"},
    {"{'descr': u", STATUS_INVALID_NPY, "a string"},
    {"{'descr': [('a', '<f4')], " REST, STATUS_INVALID_DTYPE, "structured"},
    {"{'descr': ('<f4', (2,)), " REST, STATUS_INVALID_DTYPE, "structured"},
};

static void headers_that_are_anything_else_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct npy_header header = {.rank = 77};
        struct error err;
        if (parse(bad[i].dict, &header, &err) != bad[i].status ||
            strstr(err.detail, bad[i].says) == NULL) {
            fail_msg("%s: %s: %s", bad[i].dict, status_slug(err.status), err.detail);
        }
        assert_int_equal(header.rank, 77);
    }
}

/* The advice must not name conversions that NumPy does silently and that change sums: a byte
 * cannot hold a count of 300, a view of a big-endian array swaps its bytes, a real part drops
 * the imaginary part. */
static void no_advice_names_a_step_that_makes_sums_wrong(void **state)
{
    static const char *const types[] = {"<c8", "<c16",    "<c32",   "|O",   "|S5",
                                        "<U5", "<m8[ns]", ">m8[D]", "<M8",  "|V1",
                                        "|V2", "|V8",     "<f1",    "<f16", "bfloat16"};
    static const char *const steps[] = {"'uint8'",   "'int8'", "'int32'",
                                        "'float16'", "view(",  "abs("};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
        char dict[200];
        struct npy_header header;
        struct error err;
        (void)snprintf(dict, sizeof dict, "{'descr': '%s', " REST, types[i]);
        assert_int_equal(parse(dict, &header, &err), STATUS_INVALID_DTYPE);
        for (size_t k = 0; k < ARRAY_COUNT(steps); k++) {
            if (strstr(err.detail, steps[k]) != NULL) {
                fail_msg("%s: %s", types[i], err.detail);
            }
        }
        assert_true(strlen(err.detail) < sizeof err.detail - 1); /* not cut */
        assert_true((strstr(err.detail, "x.real") == NULL) ==
                    (strstr(err.detail, "x.imag") == NULL));
        assert_true(strstr(types[i], "V1") == NULL || strstr(err.detail, "bfloat16") == NULL);
    }
}

static void more_than_64_dimensions_are_refused(void **state)
{
    (void)state;
    char dict[512] = "{'descr': '<f4', 'fortran_order': False, 'shape': (1";
    for (int i = 1; i < LIMIT_RANK; i++) {
        strcat(dict, ",1");
    }
    size_t length = strlen(dict);
    struct npy_header header;
    struct error err;
    strcat(dict, ")}");
    assert_int_equal(parse(dict, &header, &err), STATUS_OK);
    assert_int_equal(header.rank, LIMIT_RANK);
    strcpy(dict + length, ",1)}");
    assert_int_equal(parse(dict, &header, &err), STATUS_INVALID_SHAPE);
}

static void a_header_of_ours_is_read_back_as_it_was_meant(void **state)
{
    (void)state;
    for (int rank = 0; rank <= LIMIT_RANK; rank++) {
        char text[NPY_HEADER_MAX];
        int64_t sizes[LIMIT_RANK];
        for (int d = 0; d < LIMIT_RANK; d++) {
            sizes[d] = d % 2 ? INT64_MAX - d : d;
        }
        size_t bytes = npy_header_print(DTYPE_I16, false, sizes, rank, 0, text);
        assert_int_equal(bytes % 64, 0);
        struct npy_header header;
        struct error err = ERROR_INIT;
        assert_int_equal(npy_header_parse((struct byte_view){text, bytes}, &header, &err),
                         STATUS_OK);
        assert_int_equal(header.dtype, DTYPE_I16);
        assert_int_equal(header.rank, rank);
        assert_memory_equal(header.sizes, sizes, (size_t)rank * sizeof *sizes);
    }
}

static const char dict_2x3[] = "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n";

static size_t make_file(char *out, int major, const char *dict, const void *data, size_t bytes)
{
    size_t head = make_head(out, major, dict);
    memcpy(out + head, data, bytes);
    return head + bytes;
}

static void post(const char *query, const char *file, size_t bytes, struct run *run)
{
    run_request(codec_cumsum(CODEC_FORMAT_NPY), query, CODEC_FORMAT_JSON,
                (struct byte_view){file, bytes}, run);
}

static void every_version_is_read_and_only_those(void **state)
{
    (void)state;
    const int32_t data[] = {1, 2, 3, 4, 5, 6};
    for (int major = 0; major < 5; major++) {
        char file[FILE_MAX];
        size_t bytes = make_file(file, major, dict_2x3, data, sizeof data);
        struct run run;
        post("axis=1", file, bytes, &run);
        assert_int_equal(run.status, major >= 1 && major <= 3 ? STATUS_OK : STATUS_INVALID_NPY);
        if (run.status == STATUS_OK) {
            assert_string_equal(
                run.body, "{\"dtype\":\"int32\",\"shape\":[2,3],\"data\":[1,3,6,4,9,15]}");
        }
        run_deinit(&run);
        file[7] = 1;
        post("axis=1", file, bytes, &run);
        assert_int_equal(run.status, STATUS_INVALID_NPY);
    }
}

static void every_cut_of_a_file_is_refused(void **state)
{
    (void)state;
    const int32_t data[] = {1, 2, 3, 4, 5, 6};
    for (int major = 1; major <= 2; major++) {
        char file[FILE_MAX];
        size_t head = make_head(file, major, dict_2x3);
        size_t bytes = make_file(file, major, dict_2x3, data, sizeof data);
        for (size_t length = 0; length < bytes; length++) {
            struct run run;
            post("axis=1", file, length, &run);
            assert_int_equal(run.status,
                             length < head ? STATUS_INVALID_NPY : STATUS_LENGTH_MISMATCH);
            run_deinit(&run);
        }
    }
}

static void a_cut_file_of_unknown_length_is_refused_by_decode(void **state)
{
    (void)state;
    const struct codec *codec = codec_cumsum(CODEC_FORMAT_NPY);
    const struct codec_request request = {.body_bytes = -1, .head_bytes = -1};
    char file[FILE_MAX];
    size_t head = make_head(file, 1, dict_2x3);
    for (size_t length = 0; length <= head + 1; length++) {
        struct error err = ERROR_INIT;
        struct scan_call call;
        char *exact = run_copy(file, length);
        enum status status =
            codec_decode(codec, &request, (struct byte_view){exact, length}, &call, &err);
        assert_int_equal(status, length == head ? STATUS_OK : STATUS_INVALID_NPY);
        free(exact);
    }
}

static void oversized_headers_are_refused_before_they_are_read(void **state)
{
    (void)state;
    char head[12] = "\x93NUMPY\x02\x00\xff\xff\xff";
    head[11] = '\xff';
    uint64_t need = 77;
    struct error err = ERROR_INIT;
    assert_int_equal(npy_header_need((struct byte_view){head, 12}, &need, &err),
                     STATUS_INVALID_NPY);
    assert_int_equal(need, 77);
    assert_non_null(strstr(err.detail, "4294967295 bytes, at most 65536"));
    assert_int_equal(npy_header_need((struct byte_view){head, 10}, &need, NULL), STATUS_OK);
    assert_int_equal(need, 12);
    assert_int_equal(npy_header_need((struct byte_view){NULL, 0}, &need, NULL), STATUS_OK);
    assert_int_equal(need, 10);
}

static void column_major_files_are_read_through_strides(void **state)
{
    (void)state;
    const int32_t data[] = {1, 4, 2, 5, 3, 6};
    char file[FILE_MAX];
    size_t bytes = make_file(
        file, 1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3)}", data, sizeof data);
    struct run run;
    post("axis=1", file, bytes, &run);
    assert_int_equal(run.status, STATUS_OK);
    assert_true(run.call.desc.has_strides);
    assert_int_equal(run.call.desc.strides[1], 2);
    assert_string_equal(run.body,
                        "{\"dtype\":\"int32\",\"shape\":[2,3],\"data\":[1,3,6,4,9,15]}");
    run_deinit(&run);
    bytes =
        make_file(file, 1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 0)}", data, 0);
    post("axis=1", file, bytes, &run);
    assert_int_equal(run.status, STATUS_OK);
    run_deinit(&run);
    bytes = make_file(file, 1,
                      "{'descr': '<i4', 'fortran_order': True, 'shape': "
                      "(9223372036854775807, 9223372036854775807, 2)}",
                      data, 24);
    post("axis=1", file, bytes, &run);
    assert_int_equal(run.status, STATUS_INVALID_SHAPE);
}

static void attributes_come_from_the_query(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        enum status status;
        const char *field;
    } cases[] = {
        {"axis=1&exclusive=1&reverse=true", STATUS_OK, ""},
        {"axis=1&output_strides=3,1", STATUS_OK, ""},
        {"axis=1&output_strides=3", STATUS_INVALID_STRIDES, "output_strides"},
        {"dtype=int32", STATUS_UNKNOWN_FIELD, "dtype"},
        {"shape=2,3", STATUS_UNKNOWN_FIELD, "shape"},
        {"strides=3,1", STATUS_UNKNOWN_FIELD, "strides"},
        {"precision=wide", STATUS_UNKNOWN_FIELD, "precision"},
        {"axis=2", STATUS_INVALID_AXIS, "axis"},
        {"axis=1&axis=1", STATUS_INVALID_FIELD, "axis"},
    };
    const int32_t data[] = {1, 2, 3, 4, 5, 6};
    char file[FILE_MAX];
    size_t bytes = make_file(file, 1, dict_2x3, data, sizeof data);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct run run;
        post(cases[i].query, file, bytes, &run);
        assert_int_equal(run.status, cases[i].status);
        assert_string_equal(run.err.field, cases[i].field);
        run_deinit(&run);
    }
}

static void a_scalar_is_refused_in_so_many_words(void **state)
{
    (void)state;
    char file[FILE_MAX];
    size_t bytes = make_file(file, 1, "{'descr': '<i4', 'fortran_order': False, 'shape': ()}",
                             "\1\0\0\0", 4);
    struct run run;
    post("", file, bytes, &run);
    assert_int_equal(run.status, STATUS_INVALID_SHAPE);
    assert_string_equal(run.err.field, "shape");
    assert_non_null(strstr(run.err.detail, "scalar"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_are_parsed_as_the_literals_they_are),
        cmocka_unit_test(a_type_is_read_in_every_spelling_of_numpys),
        cmocka_unit_test(headers_that_are_anything_else_are_refused),
        cmocka_unit_test(no_advice_names_a_step_that_makes_sums_wrong),
        cmocka_unit_test(more_than_64_dimensions_are_refused),
        cmocka_unit_test(a_header_of_ours_is_read_back_as_it_was_meant),
        cmocka_unit_test(every_version_is_read_and_only_those),
        cmocka_unit_test(every_cut_of_a_file_is_refused),
        cmocka_unit_test(a_cut_file_of_unknown_length_is_refused_by_decode),
        cmocka_unit_test(oversized_headers_are_refused_before_they_are_read),
        cmocka_unit_test(column_major_files_are_read_through_strides),
        cmocka_unit_test(attributes_come_from_the_query),
        cmocka_unit_test(a_scalar_is_refused_in_so_many_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
