/* inflate.h: bodies decompressed piece by piece, hard limits, damaged streams. */
#include "tests/unit/pack.h"

#include <stdlib.h>
#include <string.h>

enum {
    TEXT_BYTES = 200000
};

struct sink {
    unsigned char *bytes;
    size_t count;
    enum status refuse;
    size_t most; /* largest number of bytes that the sink takes; 0: no limit */
    int refused;
};

static enum status collect(void *context, const void *bytes, size_t count, struct error *err)
{
    struct sink *sink = context;
    if (sink->refuse != STATUS_OK || (sink->most > 0 && sink->count + count > sink->most)) {
        sink->refused++;
        return error_set(err, sink->most > 0 ? STATUS_TOO_LARGE : sink->refuse,
                         "the sink refuses");
    }
    sink->bytes = realloc(sink->bytes, sink->count + count);
    memcpy(sink->bytes + sink->count, bytes, count);
    sink->count += count;
    return STATUS_OK;
}

/* Make a text whose first half is noise and whose second half is zeros. Pieces of it unpack to
 * different sizes, and output crosses pieces. */
static unsigned char *make_text(void)
{
    unsigned char *text = calloc(1, TEXT_BYTES);
    unsigned state = 1;
    for (size_t i = 0; i < TEXT_BYTES / 2; i++) {
        state = state * 1664525 + 1013904223;
        text[i] = (unsigned char)(state >> 24);
    }
    return text;
}

static enum status unpack(enum coding coding, const unsigned char *packed, size_t count,
                          size_t piece, struct sink *sink, struct error *err)
{
    struct inflate *unpack = NULL;
    enum status status = inflate_create(coding, &unpack, err);
    for (size_t at = 0; status == STATUS_OK && at < count; at += piece) {
        size_t take = count - at < piece ? count - at : piece;
        status = inflate_feed(unpack, packed + at, take, collect, sink, err);
    }
    if (status == STATUS_OK) {
        status = inflate_finish(unpack, err);
    }
    inflate_destroy(unpack);
    return status;
}

static void round_trip_in_pieces_of_any_size(void **state)
{
    static const size_t pieces[] = {1, 7, 4096, 1 << 20};
    static const enum coding codings[] = {CODING_GZIP, CODING_DEFLATE};
    unsigned char *text = make_text();
    (void)state;
    for (size_t k = 0; k < 8; k++) {
        unsigned char *packed = NULL;
        struct sink sink = {.refuse = STATUS_OK};
        struct error err = ERROR_INIT;
        size_t count = pack_text(codings[k % 2], text, TEXT_BYTES, &packed);
        assert_true(count > 0);
        assert_int_equal(unpack(codings[k % 2], packed, count, pieces[k / 2], &sink, &err),
                         STATUS_OK);
        assert_int_equal(sink.count, TEXT_BYTES);
        assert_memory_equal(sink.bytes, text, TEXT_BYTES);
        free(sink.bytes);
        free(packed);
    }
    free(text);
}

/* The decompression stops although the input that has been read would give more output. */
static void a_bomb_stops_where_its_sink_is_full(void **state)
{
    enum {
        ROOM = 1 << 20,
        PIECE_MOST = 64 << 10
    };
    size_t bytes = 64 << 20;
    void *zeros = calloc(1, bytes);
    unsigned char *packed = NULL;
    struct sink sink = {.most = ROOM};
    struct error err = ERROR_INIT;
    size_t count = pack_text(CODING_GZIP, zeros, bytes, &packed);
    (void)state;
    assert_true(count < bytes / 200);
    assert_int_equal(unpack(CODING_GZIP, packed, count, count, &sink, &err), STATUS_TOO_LARGE);
    assert_int_equal(sink.refused, 1);
    assert_true(sink.count <= ROOM && sink.count > ROOM - PIECE_MOST);
    free(sink.bytes);
    free(packed);
    free(zeros);
}

static void truncated_streams_are_refused(void **state)
{
    unsigned char *packed = NULL;
    size_t count = pack_text(CODING_GZIP, "hello, hello, hello", 19, &packed);
    (void)state;
    for (size_t cut = 0; cut < count; cut++) {
        struct sink sink = {.refuse = STATUS_OK};
        struct error err = ERROR_INIT;
        assert_int_equal(unpack(CODING_GZIP, packed, cut, 5, &sink, &err),
                         STATUS_INVALID_ENCODING);
        free(sink.bytes);
    }
    free(packed);
}

static void a_stream_may_end_where_a_piece_does(void **state)
{
    enum {
        PIECE = 32 << 10
    };
    static const size_t pieces[] = {1, 1000};
    void *zeros = calloc(1, 2 * PIECE + 2);
    (void)state;
    for (size_t k = 0; k < 16; k++) {
        const enum coding coding = k % 2 == 0 ? CODING_GZIP : CODING_DEFLATE;
        const size_t bytes = (k / 8 + 1) * PIECE - 1 + k / 2 % 4;
        unsigned char *packed = NULL;
        struct sink sink = {.refuse = STATUS_OK};
        struct error err = ERROR_INIT;
        size_t count = pack_text(coding, zeros, bytes, &packed);
        for (size_t i = 0; i < 2; i++) {
            sink.count = 0;
            assert_int_equal(unpack(coding, packed, count, pieces[i], &sink, &err), STATUS_OK);
            assert_int_equal(sink.count, bytes);
        }
        free(sink.bytes);
        free(packed);
    }
    free(zeros);
}

static void bytes_that_are_no_compressed_stream_are_corrupt(void **state)
{
    struct sink sink = {.refuse = STATUS_OK};
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(unpack(CODING_GZIP, (const unsigned char *)"[1,2]", 5, 5, &sink, &err),
                     STATUS_INVALID_ENCODING);
    assert_non_null(strstr(err.detail, "it is corrupt"));
}

static void damage_is_noticed(void **state)
{
    unsigned char *packed = NULL;
    size_t count = pack_text(CODING_DEFLATE, "hello, hello, hello", 19, &packed);
    struct sink sink = {.refuse = STATUS_OK};
    struct error err = ERROR_INIT;
    (void)state;
    packed[count - 1] ^= 1; /* damage the checksum */
    assert_int_equal(unpack(CODING_DEFLATE, packed, count, 100, &sink, &err),
                     STATUS_INVALID_ENCODING);
    free(sink.bytes);
    free(packed);
}

static void bytes_after_the_end_are_refused(void **state)
{
    static const enum coding codings[] = {CODING_GZIP, CODING_DEFLATE};
    (void)state;
    for (int k = 0; k < 4; k++) {
        for (size_t more = 1; more < 20; more++) {
            unsigned char *packed = NULL;
            struct sink sink = {.refuse = STATUS_OK};
            struct error err = ERROR_INIT;
            size_t count = pack_text(codings[k % 2], "hello", 5, &packed);
            packed = realloc(packed, count + more);
            memset(packed + count, 'x', more);
            assert_int_equal(
                unpack(codings[k % 2], packed, count + more, k < 2 ? count : 1000, &sink, &err),
                STATUS_INVALID_ENCODING);
            assert_non_null(strstr(err.detail, "follow its end"));
            free(sink.bytes);
            free(packed);
        }
    }
}

static void gzip_members_follow_each_other(void **state)
{
    unsigned char *packed = NULL;
    struct sink sink = {.refuse = STATUS_OK};
    struct error err = ERROR_INIT;
    size_t count = pack_text(CODING_GZIP, "hello", 5, &packed);
    (void)state;
    packed = realloc(packed, 2 * count);
    memcpy(packed + count, packed, count);
    assert_int_equal(unpack(CODING_GZIP, packed, 2 * count, 1000, &sink, &err), STATUS_OK);
    assert_int_equal(sink.count, 10);
    assert_memory_equal(sink.bytes, "hellohello", 10);
    for (size_t cut = count + 1; cut < 2 * count; cut++) {
        struct error cut_err = ERROR_INIT;
        sink.count = 0;
        assert_int_equal(unpack(CODING_GZIP, packed, cut, 7, &sink, &cut_err),
                         STATUS_INVALID_ENCODING);
        assert_int_equal(strstr(cut_err.detail, "it is cut short") != NULL, sink.count > 5);
    }
    free(sink.bytes);
    free(packed);
}

static void a_refusing_sink_ends_the_unpacking(void **state)
{
    unsigned char *packed = NULL;
    struct sink sink = {.refuse = STATUS_INVALID_DATA};
    struct error err = ERROR_INIT;
    size_t count = pack_text(CODING_GZIP, "hello", 5, &packed);
    (void)state;
    assert_int_equal(unpack(CODING_GZIP, packed, count, 1000, &sink, &err),
                     STATUS_INVALID_DATA);
    free(packed);
}

static void an_empty_stream_gives_nothing(void **state)
{
    unsigned char *packed = NULL;
    struct sink sink = {.refuse = STATUS_OK};
    struct error err = ERROR_INIT;
    size_t count = pack_text(CODING_GZIP, "", 0, &packed);
    (void)state;
    assert_int_equal(unpack(CODING_GZIP, packed, count, 1000, &sink, &err), STATUS_OK);
    assert_int_equal(sink.count, 0);
    free(packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip_in_pieces_of_any_size),
        cmocka_unit_test(a_bomb_stops_where_its_sink_is_full),
        cmocka_unit_test(truncated_streams_are_refused),
        cmocka_unit_test(a_stream_may_end_where_a_piece_does),
        cmocka_unit_test(bytes_that_are_no_compressed_stream_are_corrupt),
        cmocka_unit_test(damage_is_noticed),
        cmocka_unit_test(bytes_after_the_end_are_refused),
        cmocka_unit_test(gzip_members_follow_each_other),
        cmocka_unit_test(a_refusing_sink_ends_the_unpacking),
        cmocka_unit_test(an_empty_stream_gives_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
