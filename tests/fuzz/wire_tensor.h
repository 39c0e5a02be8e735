/* Tensors of requests and their sums, and the text of both. Thread: any. */
#ifndef TALLY_TESTS_FUZZ_WIRE_TENSOR_H
#define TALLY_TESTS_FUZZ_WIRE_TENSOR_H

#include "proto/dtype.h"
#include "tests/fuzz/wire_text.h"

#include <stdbool.h>

enum {
    WIRE_RANK = 4 /* largest number of dimensions */
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

/* Read type, shape, axis and flags from parameters 1 to 5. The tensor has at most `most`
 * elements; it may have none if `empty`. */
void wire_tensor_read(struct wire_tensor *tensor, struct wire_reader *params, size_t most,
                      bool empty);
/* Fill with numbers that differ for every seed. */
void wire_tensor_fill(struct wire_tensor *tensor, uint64_t seed);
/* Compute the sums like the devices of wire_server.c: numbers of every type are added as
 * unsigned integers. Owned by the caller (free). */
unsigned char *wire_tensor_sums(const struct wire_tensor *tensor);

int64_t wire_tensor_shown_axis(const struct wire_tensor *tensor); /* may be negative */
void wire_tensor_print_sizes(struct wire_text *text, const struct wire_tensor *tensor);
void wire_tensor_print_flags(struct wire_text *text, const struct wire_tensor *tensor);
/* Print a flat array. Floats are printed as small numbers; their text is not compared. */
void wire_tensor_print_numbers(struct wire_text *text, const struct wire_tensor *tensor);

#endif
