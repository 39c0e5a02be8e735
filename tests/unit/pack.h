/* Compressed bodies, as clients create them. */
#ifndef TALLY_TESTS_PACK_H
#define TALLY_TESTS_PACK_H

#include "server/job/inflate.h"
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <zlib.h>

/* returns the size of *packed, which the caller frees */
static inline size_t pack_text(enum coding coding, const void *text, size_t count,
                               unsigned char **packed)
{
    z_stream stream = {.next_in = (unsigned char *)(uintptr_t)text, .avail_in = (uInt)count};
    assert_int_equal(deflateInit2(&stream, 1, Z_DEFLATED, inflate_window_bits(coding), 8,
                                  Z_DEFAULT_STRATEGY),
                     Z_OK);
    stream.avail_out = (uInt)deflateBound(&stream, (uLong)count);
    *packed = malloc(stream.avail_out);
    stream.next_out = *packed;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    assert_int_equal(deflateEnd(&stream), Z_OK);
    return stream.total_out;
}

#endif
