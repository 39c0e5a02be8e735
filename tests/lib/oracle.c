/* Sums of integers wrap; those of floats are exact (exact_oracle.h). */
#include "tests/lib/oracle.h"

#include <string.h>

/* The location of one line: element k of the traversal is at first + k * step (elements). */
struct oracle_line {
    ptrdiff_t first;
    ptrdiff_t step;
};

/* ---- one line ---------------------------------------------------------------------------- */

/* Sum integers of `bytes` bytes each (hosts are little-endian): sums wrap when they are
 * stored. */
static void integer_line(size_t bytes, const unsigned char *in, ptrdiff_t in_step,
                         unsigned char *out, ptrdiff_t out_step, uint64_t length,
                         bool exclusive)
{
    uint64_t sum = 0;
    for (uint64_t k = 0; k < length; k++) {
        const ptrdiff_t at = (ptrdiff_t)k;
        uint64_t element = 0;
        memcpy(&element, in + at * in_step * (ptrdiff_t)bytes, bytes);
        const uint64_t with = sum + element;
        memcpy(out + at * out_step * (ptrdiff_t)bytes, exclusive ? &sum : &with, bytes);
        sum = with;
    }
}

static void scan_line(const struct scan_desc *desc, const void *in, struct oracle_line from,
                      void *out, struct oracle_line to)
{
    const size_t bytes = dtype_info(desc->dtype)->bytes;
    const uint64_t length =
        (uint64_t)desc->sizes[desc->axis < 0 ? desc->axis + desc->rank : desc->axis];
    const unsigned char *first_in = (const unsigned char *)in + from.first * (ptrdiff_t)bytes;
    unsigned char *first_out = (unsigned char *)out + to.first * (ptrdiff_t)bytes;
    if (dtype_is_float(desc->dtype)) {
        exact_oracle_line(desc->dtype, first_in, from.step, first_out, to.step, length,
                          desc->exclusive);
    } else {
        integer_line(bytes, first_in, from.step, first_out, to.step, length, desc->exclusive);
    }
}

/* ---- the tensor -------------------------------------------------------------------------- */

static void packed_strides(const struct scan_desc *desc, int64_t strides[LIMIT_RANK])
{
    int64_t step = 1;
    for (int d = desc->rank - 1; d >= 0; d--) {
        strides[d] = step;
        step *= desc->sizes[d] > 0 ? desc->sizes[d] : 1;
    }
}

static void strides_of(const struct scan_desc *desc, bool output, int64_t strides[LIMIT_RANK])
{
    packed_strides(desc, strides);
    if (output ? desc->has_output_strides : desc->has_strides) {
        memcpy(strides, output ? desc->output_strides : desc->strides,
               (size_t)desc->rank * sizeof *strides);
    }
}

static uint64_t reach(const struct scan_desc *desc, bool output)
{
    int64_t strides[LIMIT_RANK];
    uint64_t last = 0;
    strides_of(desc, output, strides);
    for (int d = 0; d < desc->rank; d++) {
        if (desc->sizes[d] == 0) {
            return 0;
        }
        last += (uint64_t)(desc->sizes[d] - 1) * (uint64_t)strides[d];
    }
    return last + 1;
}

uint64_t oracle_in_elements(const struct scan_desc *desc)
{
    return reach(desc, false);
}

uint64_t oracle_out_elements(const struct scan_desc *desc)
{
    return reach(desc, true);
}

static struct oracle_line line_at(const struct scan_desc *desc, const int64_t *strides,
                                  int axis, const int64_t *index)
{
    struct oracle_line line = {.first = 0, .step = (ptrdiff_t)strides[axis]};
    for (int d = 0; d < desc->rank; d++) {
        line.first += d == axis ? 0 : (ptrdiff_t)(index[d] * strides[d]);
    }
    if (desc->reverse) {
        line.first += (ptrdiff_t)(desc->sizes[axis] - 1) * line.step;
        line.step = -line.step;
    }
    return line;
}

void oracle_scan(const struct scan_desc *desc, const void *in, void *out)
{
    int axis = (int)(desc->axis < 0 ? desc->axis + desc->rank : desc->axis);
    int64_t in_strides[LIMIT_RANK];
    int64_t out_strides[LIMIT_RANK];
    int64_t index[LIMIT_RANK] = {0};
    strides_of(desc, false, in_strides);
    strides_of(desc, true, out_strides);
    if (oracle_in_elements(desc) == 0) {
        return;
    }
    for (;;) {
        scan_line(desc, in, line_at(desc, in_strides, axis, index), out,
                  line_at(desc, out_strides, axis, index));
        int d = desc->rank - 1;
        while (d >= 0 && (d == axis || ++index[d] == desc->sizes[d])) {
            index[d] = 0;
            d--;
        }
        if (d < 0) {
            return;
        }
    }
}
