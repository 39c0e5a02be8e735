/* zlib streams; see inflate.h. */
#define ZLIB_CONST /* zlib promises not to write to its input */
#include "server/inflate.h"

#include "server/config.h"

#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

enum {
    WINDOW = 15,      /* zlib's largest */
    GZIP_FORMAT = 16, /* added to WINDOW */
    PACK_LEVEL = 1,   /* tensors pack badly: do not spend time on them */
    PACK_MEMORY = 8,
    PIECE = 32768 /* unpacked bytes handed on at a time */
};

struct inflate {
    z_stream stream;
    enum door_coding coding;
    bool ended; /* a whole stream was seen */
    uint64_t max_bytes;
    uint64_t produced;
    unsigned char piece[PIECE];
};

static int window_bits(enum door_coding coding)
{
    return coding == DOOR_GZIP ? WINDOW + GZIP_FORMAT : WINDOW;
}

static const char *coding_name(enum door_coding coding)
{
    return coding == DOOR_GZIP ? "gzip" : "deflate (zlib)";
}

enum status inflate_create(enum door_coding coding, uint64_t max_bytes, struct inflate **out,
                           struct error *err)
{
    struct inflate *unpack = malloc(sizeof *unpack);
    if (unpack == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory to unpack the body");
    }
    unpack->stream = (z_stream){.zalloc = Z_NULL};
    unpack->coding = coding;
    unpack->ended = false;
    unpack->max_bytes = max_bytes;
    unpack->produced = 0;
    if (inflateInit2(&unpack->stream, window_bits(coding)) != Z_OK) {
        free(unpack);
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory to unpack the body");
    }
    *out = unpack;
    return STATUS_OK;
}

void inflate_destroy(struct inflate *unpack)
{
    if (unpack != NULL) {
        (void)inflateEnd(&unpack->stream);
        free(unpack);
    }
}

static enum status corrupt(const struct inflate *unpack, const char *what, struct error *err)
{
    return error_set_field(err, STATUS_INVALID_ENCODING, "Content-Encoding",
                           "the body is no valid %s stream: %s", coding_name(unpack->coding),
                           what);
}

/* Bytes came after the end of a stream: another gzip member, or garbage. */
static enum status begin_next_member(struct inflate *unpack, struct error *err)
{
    if (unpack->coding != DOOR_GZIP) {
        return corrupt(unpack, "more bytes follow its end", err);
    }
    unpack->ended = false;
    if (inflateReset(&unpack->stream) != Z_OK) {
        return error_set(err, STATUS_INTERNAL, "zlib cannot be reset");
    }
    return STATUS_OK;
}

/* Unpack until the piece is full or the input used up, and hand the piece on. */
static enum status unpack_piece(struct inflate *unpack, inflate_sink sink, void *context,
                                struct error *err)
{
    z_stream *stream = &unpack->stream;
    uint64_t left = unpack->max_bytes - unpack->produced;
    /* One byte more than allowed tells "exactly full" from "too much". */
    size_t room = left < PIECE ? (size_t)left + 1 : PIECE;
    stream->next_out = unpack->piece;
    stream->avail_out = (uInt)room;
    int code = inflate(stream, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory to unpack the body");
    }
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
        return corrupt(unpack, "it is corrupt", err);
    }
    unpack->ended = code == Z_STREAM_END;
    size_t count = room - stream->avail_out;
    if (count > left) {
        char limit[32];
        config_size_text(unpack->max_bytes, limit, sizeof limit);
        return error_set(
            err, STATUS_TOO_LARGE,
            "the unpacked body is over %s, the server's --max-body-bytes: " CONFIG_LESS_ADVICE,
            limit);
    }
    unpack->produced += count;
    return count == 0 ? STATUS_OK : sink(context, unpack->piece, count, err);
}

enum status inflate_feed(struct inflate *unpack, const void *bytes, size_t count,
                         inflate_sink sink, void *context, struct error *err)
{
    z_stream *stream = &unpack->stream;
    if (count > UINT_MAX) {
        return error_set(err, STATUS_INTERNAL, "a piece of %zu bytes to unpack", count);
    }
    stream->next_in = bytes;
    stream->avail_in = (uInt)count;
    do {
        enum status status = STATUS_OK;
        if (unpack->ended && stream->avail_in > 0) {
            status = begin_next_member(unpack, err);
        }
        if (status == STATUS_OK && !unpack->ended) {
            status = unpack_piece(unpack, sink, context, err);
        }
        if (status != STATUS_OK) {
            return status;
        }
        /* A full piece may have left unpacked bytes inside zlib. */
    } while (stream->avail_in > 0 || (!unpack->ended && stream->avail_out == 0));
    return STATUS_OK;
}

enum status inflate_finish(struct inflate *unpack, struct error *err)
{
    return unpack->ended ? STATUS_OK : corrupt(unpack, "it is cut short", err);
}

size_t deflate_bound(size_t count)
{
    return compressBound((uLong)count) + 64; /* the gzip frame is a little larger than zlib's */
}

/* Push one view through, in steps zlib can count; false when out of room. */
static bool pack_view(z_stream *stream, struct byte_view view, size_t *room, int flush)
{
    const unsigned char *next =
        view.count > 0 ? view.bytes : (const unsigned char *)""; /* no arithmetic on NULL */
    size_t left = view.count;
    int code = Z_OK;
    do {
        size_t in = left < UINT_MAX ? left : UINT_MAX;
        size_t out = *room < UINT_MAX ? *room : UINT_MAX;
        stream->next_in = next;
        stream->avail_in = (uInt)in;
        stream->avail_out = (uInt)out;
        code = deflate(stream, in == left ? flush : Z_NO_FLUSH);
        next += in - stream->avail_in;
        left -= in - stream->avail_in;
        *room -= out - stream->avail_out;
        if (code == Z_STREAM_ERROR || *room == 0) {
            return code == Z_STREAM_END;
        }
    } while (left > 0 || (flush == Z_FINISH && code != Z_STREAM_END));
    return true;
}

size_t deflate_pack(enum door_coding coding, struct byte_view first, struct byte_view second,
                    void *out, size_t room)
{
    z_stream stream = {.zalloc = Z_NULL};
    size_t left = room;
    if (deflateInit2(&stream, PACK_LEVEL, Z_DEFLATED, window_bits(coding), PACK_MEMORY,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        return 0;
    }
    stream.next_out = out;
    bool packed = pack_view(&stream, first, &left, Z_NO_FLUSH) &&
                  pack_view(&stream, second, &left, Z_FINISH);
    (void)deflateEnd(&stream);
    return packed ? room - left : 0;
}
