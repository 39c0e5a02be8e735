/* Reading and writing the header of an NPY file (numpy.lib.format, versions 1.0 to 3.0).
 * Private to proto/codec_npy.c, its tests, and the command tally. Thread: any. */
#ifndef TALLY_PROTO_NPY_HEADER_H
#define TALLY_PROTO_NPY_HEADER_H

#include "proto/codec.h"

struct npy_header {
    enum dtype dtype;
    bool byte_swap; /* big-endian, and elements have more than one byte */
    bool fortran_order;
    int rank;
    int64_t sizes[LIMIT_RANK];
};

/* Compute the bytes of magic, version and header, as far as `head` determines them. The caller
 * reads that many bytes and calls again until *need does not exceed head.count.
 * err   INVALID_NPY: no magic, unknown version, longer than LIMIT_NPY_HEADER */
MUST_CHECK enum status npy_header_need(struct byte_view head, uint64_t *need,
                                       struct error *err);

/* Parse a complete header: a Python dict literal with exactly the keys descr, fortran_order,
 * shape.
 * err   INVALID_NPY, INVALID_DTYPE, INVALID_SHAPE; *out is untouched */
MUST_CHECK enum status npy_header_parse(struct byte_view head, struct npy_header *out,
                                        struct error *err);

enum {
    NPY_PREFIX_BYTES = 10, /* bytes of magic, version and length; every file is longer */
    NPY_HEADER_MAX = 1600  /* enough for rank 64 and sizes of 19 digits */
};

/* Write a header of version 1.0, little-endian, padded to at least `least` bytes and so that
 * the data behind it are aligned to 64 bytes. dtype must have an NPY name. Returns the
 * header's length. */
size_t npy_header_print(enum dtype dtype, bool fortran_order, const int64_t *sizes, int rank,
                        size_t least, char text[NPY_HEADER_MAX]);

#endif
