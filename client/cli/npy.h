/* The head of an NPY file, as far as `tally` needs it: to know what the answer must be, and to
 * check that it is. Thread: any. */
#ifndef TALLY_CLI_NPY_H
#define TALLY_CLI_NPY_H

#include "client/cli/options.h"

enum {
    NPY_HEAD_MAX = 65536 + 12
};

struct npy_head {
    size_t bytes; /* where the data starts */
    enum tally_dtype dtype;
    bool plain; /* little-endian and C order */
    struct number_list shape;
};

enum npy_verdict {
    NPY_OK,
    NPY_MORE,
    NPY_BAD
};

/* Read a head from the first `count` bytes of a file. NPY_MORE: it is longer than that. */
enum npy_verdict npy_parse(const char *bytes, size_t count, struct npy_head *head);

/* Whether the bytes start like an NPY file. */
bool npy_is(const char *bytes, size_t count);

/* Elements of a shape times element size; false on overflow. */
bool shape_bytes(const struct number_list *shape, enum tally_dtype dtype, uint64_t *bytes);

#endif
