/* The header of an NPY file (numpy.lib.format, versions 1.0 to 3.0), both ways. Private to
 * proto/codec_npy.c, its tests, and the command tally. Thread: any. */
#ifndef TALLY_PROTO_NPY_HEADER_H
#define TALLY_PROTO_NPY_HEADER_H

#include "proto/codec.h"

struct npy_header {
    enum dtype dtype;
    bool byte_swap; /* big-endian, elements of more than one byte */
    bool fortran_order;
    int rank;
    int64_t sizes[LIMIT_RANK];
};

/* How many bytes magic, version and header have, as far as head tells; ask again with that many
 * until it says no more than head has.
 * err   INVALID_NPY: no magic, unknown version, longer than LIMIT_NPY_HEADER */
MUST_CHECK enum status npy_header_need(struct byte_view head, uint64_t *need,
                                       struct error *err);

/* Parse a whole header: a Python dict literal with exactly the keys descr, fortran_order,
 * shape.
 * err   INVALID_NPY, INVALID_DTYPE, INVALID_SHAPE; *out untouched */
MUST_CHECK enum status npy_header_parse(struct byte_view head, struct npy_header *out,
                                        struct error *err);

enum {
    NPY_PREFIX_BYTES = 10, /* the shortest file has more: magic, version and length alone */
    NPY_HEADER_MAX = 1600  /* of rank 64, sizes of 19 digits */
};

/* Write a version 1.0 header, little-endian, padded so that the data after it is aligned to 64
 * bytes, and to `least` bytes. dtype has an NPY name. Returns its length. */
size_t npy_header_print(enum dtype dtype, bool fortran_order, const int64_t *sizes, int rank,
                        size_t least, char text[NPY_HEADER_MAX]);

#endif
