/* Tensors of requests, their sums, and both as text. Thread: any. */
#ifndef TALLY_TESTS_FUZZ_WIRE_TENSOR_H
#define TALLY_TESTS_FUZZ_WIRE_TENSOR_H

#include "proto/dtype.h"
#include "tests/fuzz/wire_text.h"

#include <stdbool.h>

enum {
    WIRE_RANK = 4 /* at most */
};

struct wire_tensor {
    enum dtype dtype;
    int rank;
    uint64_t sizes[WIRE_RANK];
    int axis;
    bool negative_axis;
    bool exclusive;
    bool reverse;
    size_t elements;
    unsigned char *bytes; /* owned */
};

/* Type, shape, axis and flags, of parameters 1 to 5. At most so many elements; none at all only
 * where that may be. */
void wire_tensor_read(struct wire_tensor *tensor, struct wire_reader *params, size_t most,
                      bool empty);
/* Numbers that no tensor of another seed has. */
void wire_tensor_fill(struct wire_tensor *tensor, uint64_t seed);
/* Owned by the caller (free). As the devices of wire_server.c sum: numbers of every type are
 * bits to be added. */
unsigned char *wire_tensor_sums(const struct wire_tensor *tensor);

int64_t wire_tensor_shown_axis(const struct wire_tensor *tensor); /* maybe from the end */
void wire_tensor_print_sizes(struct wire_text *text, const struct wire_tensor *tensor);
void wire_tensor_print_flags(struct wire_text *text, const struct wire_tensor *tensor);
/* A flat array; floats, whose text nobody compares, as small numbers. */
void wire_tensor_print_numbers(struct wire_text *text, const struct wire_tensor *tensor);

#endif
