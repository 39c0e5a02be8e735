/* zlib streams; see inflate.h. */
#define ZLIB_CONST /* zlib promises not to write to its input */
#include "server/job/inflate.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

enum {
    WINDOW = 15,      /* largest window of zlib */
    GZIP_FORMAT = 16, /* added to WINDOW */
    PIECE = 32768     /* maximum number of bytes that the sink gets at a time */
};

struct inflate {
    z_stream stream;
    enum coding coding;
    bool ended;   /* the current member is complete */
    bool follows; /* the current gzip member is not the first one */
    unsigned char piece[PIECE];
};

int inflate_window_bits(enum coding coding)
{
    return coding == CODING_GZIP ? WINDOW + GZIP_FORMAT : WINDOW;
}

enum status inflate_create(enum coding coding, struct inflate **out, struct error *err)
{
    struct inflate *unpack = malloc(sizeof *unpack);
    if (unpack == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory to unpack the body");
    }
    unpack->stream = (z_stream){.zalloc = Z_NULL};
    unpack->coding = coding;
    unpack->ended = false;
    unpack->follows = false;
    if (inflateInit2(&unpack->stream, inflate_window_bits(coding)) != Z_OK) {
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

static enum status refuse_stream(const struct inflate *unpack, const char *what,
                                 struct error *err)
{
    return error_set_field(err, STATUS_INVALID_ENCODING, "Content-Encoding",
                           "the body is no valid %s stream: %s",
                           unpack->coding == CODING_GZIP ? "gzip" : "deflate (zlib)", what);
}

/* Refuse a corrupt or truncated member. If bytes after a gzip member have produced no content,
 * they are reported as garbage. */
static enum status refuse_member(const struct inflate *unpack, const char *what,
                                 struct error *err)
{
    const bool garbage = unpack->follows && unpack->stream.total_out == 0;
    return refuse_stream(
        unpack, garbage ? "the bytes that follow its end are no further one" : what, err);
}

/* Decompress until the piece is full or the input is consumed, and give the piece to the sink. */
static enum status unpack_piece(struct inflate *unpack, inflate_sink sink, void *context,
                                struct error *err)
{
    z_stream *stream = &unpack->stream;
    stream->next_out = unpack->piece;
    stream->avail_out = PIECE;
    int code = inflate(stream, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory to unpack the body");
    }
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
        return refuse_member(unpack, "it is corrupt", err);
    }
    unpack->ended = code == Z_STREAM_END;
    size_t count = PIECE - stream->avail_out;
    return count == 0 ? STATUS_OK : sink(context, unpack->piece, count, err);
}

enum status inflate_feed(struct inflate *unpack, const void *bytes, size_t count,
                         inflate_sink sink, void *context, struct error *err)
{
    z_stream *stream = &unpack->stream;
    assert(count <= UINT_MAX); /* pieces are short */
    stream->next_in = bytes;
    stream->avail_in = (uInt)count;
    do {
        /* another gzip member or garbage follows */
        if (unpack->ended && stream->avail_in > 0) {
            if (unpack->coding != CODING_GZIP) {
                return refuse_stream(unpack, "more bytes follow its end", err);
            }
            unpack->ended = false;
            unpack->follows = true;
            MUST(inflateReset(stream));
        }
        if (!unpack->ended) {
            TRY(unpack_piece(unpack, sink, context, err));
        }
        /* If the piece was full, zlib may have more output. */
    } while (stream->avail_in > 0 || (!unpack->ended && stream->avail_out == 0));
    return STATUS_OK;
}

enum status inflate_finish(struct inflate *unpack, struct error *err)
{
    return unpack->ended ? STATUS_OK : refuse_member(unpack, "it is cut short", err);
}
