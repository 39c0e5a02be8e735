/* Checks of elements, NaN, widening, and sums that the scan does not write; see elements.h. */
#include "proto/elements.h"

#include "proto/attribute_words.h"
#include "proto/little_endian.h"
#include "proto/macros.h"

#include <inttypes.h>
#include <string.h>

enum {
    CHUNK = 512,    /* elements widened at a time: the chunk stays in the first-level cache */
    MARK_BITS = 64, /* elements per word of marks */
    STEP_ROWS = 8 << 10 /* rows, or elements of one row, between two steps */
};

uint64_t elements_wide_bytes(const struct scan_desc *desc, uint64_t bytes)
{
    const uint64_t factor =
        dtype_info(desc->dtype)->bytes / dtype_info(scan_input_dtype(desc))->bytes;
    return bytes > (uint64_t)INT64_MAX / factor ? UINT64_MAX : bytes * factor;
}

uint64_t elements_marks_bytes(const struct scan_desc *desc, uint64_t count)
{
    return desc->nan == SCAN_NAN_SKIP ? (count / MARK_BITS + 1) * sizeof(uint64_t) : 0;
}

/* ---- before the scan ---- */

static enum status check_booleans(const unsigned char *bytes, uint64_t count,
                                  const struct parallel *parallel, struct error *err)
{
    for (uint64_t at = 0; at < count; at += PARALLEL_STEP_BYTES) {
        const uint64_t end = smaller_of(count, at + PARALLEL_STEP_BYTES);
        unsigned char found = 0;
        if (at > 0 && !parallel_step(parallel)) {
            return parallel_given_up(err);
        }
        for (uint64_t i = at; i < end; i++) {
            found |= bytes[i];
        }
        for (uint64_t i = at; found > 1 && i < end; i++) {
            if (bytes[i] > 1) {
                return error_set(err, STATUS_INVALID_DATA, WORDS_BOOL, i, bytes[i]);
            }
        }
    }
    return STATUS_OK;
}

uint64_t elements_nan_bits(enum dtype dtype)
{
    const struct dtype_info *info = dtype_info(dtype);
    const int fraction = 8 * (int)info->bytes - 1 - info->exponent_bits;
    return ((UINT64_C(2) << info->exponent_bits) - 1) << (fraction - 1);
}

/* Return the bits of +infinity, which are those of every infinity without its sign. */
static uint64_t infinity_bits(enum dtype dtype)
{
    const struct dtype_info *info = dtype_info(dtype);
    const int fraction = 8 * (int)info->bytes - 1 - info->exponent_bits;
    return ((UINT64_C(1) << info->exponent_bits) - 1) << fraction;
}

bool elements_is_nan(enum dtype dtype, uint64_t bits)
{
    const uint64_t sign = UINT64_C(1) << (8 * dtype_info(dtype)->bytes - 1);
    return (bits & (sign - 1)) > infinity_bits(dtype);
}

/* Replace each NaN among at most MARK_BITS elements by +0.0, and return the set of replaced
 * ones. */
#define ZERO_NANS(name, type)                                                    \
    static uint64_t name(unsigned char *elements, unsigned count, type infinity) \
    {                                                                            \
        const type magnitude = (type)((type) ~(type)0 >> 1);                     \
        type found[MARK_BITS];                                                   \
        uint64_t mask = 0;                                                       \
        bool any = false;                                                        \
        memcpy(found, elements, count * sizeof(type));                           \
        for (unsigned i = 0; i < count; i++) {                                   \
            any |= (type)(found[i] & magnitude) > infinity;                      \
        }                                                                        \
        for (unsigned i = 0; any && i < count; i++) {                            \
            const bool is_nan = (type)(found[i] & magnitude) > infinity;         \
            mask |= (uint64_t)is_nan << i;                                       \
            found[i] = is_nan ? 0 : found[i];                                    \
        }                                                                        \
        if (any) {                                                               \
            memcpy(elements, found, count * sizeof(type));                       \
        }                                                                        \
        return mask;                                                             \
    }
ZERO_NANS(zero_nans_16, uint16_t)
ZERO_NANS(zero_nans_32, uint32_t)
ZERO_NANS(zero_nans_64, uint64_t)

static enum status zero_nans(enum dtype dtype, unsigned char *elements, uint64_t count,
                             const struct parallel *parallel, struct elements_marks *marks,
                             struct error *err)
{
    const size_t size = dtype_info(dtype)->bytes;
    const uint64_t infinity = infinity_bits(dtype);
    const uint64_t step = PARALLEL_STEP_BYTES / size;
    uint64_t any = 0;
    for (uint64_t at = 0; at < count; at += MARK_BITS) {
        const unsigned some = (unsigned)smaller_of(count - at, MARK_BITS);
        unsigned char *first = elements + at * size;
        if (at > 0 && at % step == 0 && !parallel_step(parallel)) {
            return parallel_given_up(err);
        }
        const uint64_t mask = size == 2   ? zero_nans_16(first, some, (uint16_t)infinity)
                              : size == 4 ? zero_nans_32(first, some, (uint32_t)infinity)
                                          : zero_nans_64(first, some, infinity);
        any |= mask;
        if (marks->bits != NULL) {
            marks->bits[at / MARK_BITS] = mask;
        }
    }
    marks->any = any != 0;
    return STATUS_OK;
}

#define LOAD(type)                                               \
    for (size_t i = 0; i < count; i++) {                         \
        type element;                                            \
        memcpy(&element, from + i * sizeof(type), sizeof(type)); \
        to[i] = element;                                         \
    }

static void load_integers(enum dtype dtype, const unsigned char *from, size_t count,
                          int64_t *to)
{
    const bool has_sign = dtype_info(dtype)->kind == DTYPE_KIND_SIGNED;
    switch (dtype_info(dtype)->bytes) {
    case 1:
        for (size_t i = 0; i < count; i++) {
            to[i] = has_sign ? (int64_t)(from[i] ^ 0x80U) - 0x80 : from[i];
        }
        break;
    case 2:
        if (has_sign) {
            LOAD(int16_t)
        } else {
            LOAD(uint16_t)
        }
        break;
    default: /* 4 bytes: types of 8 bytes are never widened */
        if (has_sign) {
            LOAD(int32_t)
        } else {
            LOAD(uint32_t)
        }
        break;
    }
}

#define STORE(type)                                            \
    for (size_t i = 0; i < count; i++) {                       \
        const type element = (type)from[i];                    \
        memcpy(to + i * sizeof(type), &element, sizeof(type)); \
    }

static void store_integers(const int64_t *from, size_t count, size_t size, unsigned char *to)
{
    switch (size) {
    case 1:
        STORE(uint8_t)
        break;
    case 2:
        STORE(uint16_t)
        break;
    case 4:
        STORE(uint32_t)
        break;
    default:
        STORE(uint64_t)
        break;
    }
}

/* Convert a float16 to a float32. A multiplication adjusts the exponent: it is exact and also
 * normalizes subnormal numbers. */
static float float_of_half(uint16_t half)
{
    const uint32_t shifted = (uint32_t)(half & 0x7FFF) << 13;
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t bits = shifted | 0x7F800000; /* an infinity or a NaN */
    float value = 0;
    memcpy(&value, &shifted, sizeof value);
    value *= 0x1p112F;
    if ((half & 0x7C00) != 0x7C00) {
        memcpy(&bits, &value, sizeof bits);
    }
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void load_floats(enum dtype dtype, const unsigned char *from, size_t count, float *to)
{
    if (dtype == DTYPE_F32) {
        memcpy(to, from, count * sizeof *to);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t half = 0;
        memcpy(&half, from + i * sizeof half, sizeof half);
        const uint32_t bits = (uint32_t)half << 16;
        if (dtype == DTYPE_F16) {
            to[i] = float_of_half(half);
        } else {
            memcpy(&to[i], &bits, sizeof bits);
        }
    }
}

static void store_floats(const float *from, size_t count, enum dtype dtype, unsigned char *to)
{
    if (dtype == DTYPE_F32) {
        memcpy(to, from, count * sizeof *from);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const double wide = (double)from[i];
        memcpy(to + i * sizeof wide, &wide, sizeof wide);
    }
}

/* Widen from the last element to the first, so that each wide element overwrites only narrow
 * elements that were already read. */
static enum status widen(const struct scan_desc *desc, unsigned char *elements, uint64_t count,
                         const struct parallel *parallel, struct error *err)
{
    const size_t from = dtype_info(desc->input)->bytes;
    const size_t to = dtype_info(desc->dtype)->bytes;
    const bool floats = dtype_is_float(desc->dtype);
    union {
        int64_t integers[CHUNK];
        float floats[CHUNK];
    } held;
    uint64_t bytes = 0; /* bytes widened since the last step */
    for (uint64_t left = count; left > 0;) {
        const size_t some = smaller_of(left, CHUNK);
        left -= some;
        const unsigned char *narrow = elements + left * from;
        unsigned char *wide = elements + left * to;
        if (floats) {
            load_floats(desc->input, narrow, some, held.floats);
            store_floats(held.floats, some, desc->dtype, wide);
        } else {
            load_integers(desc->input, narrow, some, held.integers);
            store_integers(held.integers, some, to, wide);
        }
        bytes += some * to;
        if (bytes >= PARALLEL_STEP_BYTES && left > 0) {
            bytes = 0;
            if (!parallel_step(parallel)) {
                return parallel_given_up(err);
            }
        }
    }
    return STATUS_OK;
}

enum status elements_prepare(const struct scan_desc *desc, void *input, uint64_t count,
                             const struct parallel *parallel, struct elements_marks *marks,
                             struct error *err)
{
    const enum dtype came = scan_input_dtype(desc);
    marks->any = false;
    if (came == DTYPE_BOOL) {
        TRY(check_booleans(input, count, parallel, err));
    }
    if (desc->nan != SCAN_NAN_PROPAGATE) {
        TRY(zero_nans(came, input, count, parallel, marks, err));
    }
    return desc->converts ? widen(desc, input, count, parallel, err) : STATUS_OK;
}

/* ---- cells that the scan does not write ---- */

static void packed_strides(const int64_t *sizes, int rank, uint64_t *strides)
{
    uint64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= (uint64_t)sizes[d];
    }
}

void elements_layout_make(const struct scan_desc *desc, bool packed,
                          struct elements_layout *layout)
{
    struct scan_desc room;
    const struct scan_desc *output = scan_output_desc(desc, &room);
    layout->rank = desc->rank;
    layout->axis = scan_desc_axis(desc);
    memcpy(layout->sizes, desc->sizes, sizeof layout->sizes);
    packed_strides(desc->sizes, desc->rank, layout->in_strides);
    packed_strides(output->sizes, desc->rank, layout->out_strides);
    for (int d = 0; d < desc->rank; d++) {
        if (desc->has_strides) {
            layout->in_strides[d] = (uint64_t)desc->strides[d];
        }
        if (desc->has_output_strides && !packed) {
            layout->out_strides[d] = (uint64_t)desc->output_strides[d];
        }
    }
}

static uint64_t segment_count(const struct scan_desc *desc)
{
    return desc->has_offsets ? desc->segments : 1;
}

/* An iterator over the rows along the last dimension. */
struct rows {
    const struct elements_layout *layout;
    uint64_t index[LIMIT_RANK];
    uint64_t in;  /* first cell of the row in the input */
    uint64_t out; /* first cell of the row in the output */
};

static bool rows_next(struct rows *rows)
{
    const struct elements_layout *layout = rows->layout;
    for (int d = layout->rank - 2; d >= 0; d--) {
        const uint64_t size = (uint64_t)layout->sizes[d];
        if (++rows->index[d] < size) {
            rows->in += layout->in_strides[d];
            rows->out += layout->out_strides[d];
            return true;
        }
        rows->index[d] = 0;
        rows->in -= (size - 1) * layout->in_strides[d];
        rows->out -= (size - 1) * layout->out_strides[d];
    }
    return false;
}

/* Count the work for `elements` elements of one row, and call parallel_step() when enough work
 * is done. Returns false if the work is given up. */
static bool rows_step(const struct parallel *parallel, uint64_t *done, uint64_t elements)
{
    *done += 1 + elements / MARK_BITS;
    if (*done < STEP_ROWS) {
        return true;
    }
    *done = 0;
    return parallel_step(parallel);
}

/* Remove inner dimensions of one element. */
static void drop_inner(struct elements_layout *layout)
{
    while (layout->rank > 1 && layout->sizes[layout->rank - 1] == 1) {
        layout->rank--;
    }
}

static bool is_empty(const struct elements_layout *layout)
{
    bool empty = false;
    for (int d = 0; d < layout->rank; d++) {
        empty = empty || layout->sizes[d] == 0;
    }
    return empty;
}

/* An output and the state of writing to it in steps. */
struct writing {
    const struct parallel *parallel;
    uint64_t done; /* elements since the last step, counted by rows_step() */
    unsigned char *output;
    size_t size; /* bytes per cell */
};

/* Write the value to every cell of all rows; the first row starts at cell `first` of the
 * output. Returns false if the work is given up. */
static bool write_rows(struct writing *writing, const struct elements_layout *layout,
                       uint64_t first, uint64_t value)
{
    const size_t size = writing->size;
    struct rows rows = {.layout = layout, .out = first};
    const int last = layout->rank - 1;
    const uint64_t step = layout->out_strides[last];
    do {
        unsigned char *cell = writing->output + rows.out * size;
        for (int64_t left = layout->sizes[last]; left > 0;) {
            const int64_t some = left < STEP_ROWS ? left : STEP_ROWS;
            for (int64_t i = 0; i < some; i++, cell += step * size) {
                little_endian_store(cell, size, value);
            }
            left -= some;
            if (!rows_step(writing->parallel, &writing->done, (uint64_t)some * MARK_BITS / 8)) {
                return false;
            }
        }
    } while (rows_next(&rows));
    return true;
}

enum status elements_write_initial(const struct scan_desc *desc, bool packed,
                                   const struct parallel *parallel, void *output,
                                   struct error *err)
{
    struct writing writing = {
        .parallel = parallel, .output = output, .size = dtype_info(desc->dtype)->bytes};
    const uint64_t value = desc->has_initial ? desc->initial : 0;
    struct elements_layout layout;
    elements_layout_make(desc, packed, &layout);
    const uint64_t step = layout.out_strides[layout.axis];
    layout.sizes[layout.axis] = 1;
    drop_inner(&layout);
    for (uint64_t i = 0; i < segment_count(desc) && !is_empty(&layout); i++) {
        if (!write_rows(&writing, &layout, elements_initial_sum(desc, i) * step, value)) {
            return parallel_given_up(err);
        }
    }
    return STATUS_OK;
}

/* Write NaN to the sums of the marked elements of one row of `count` elements. in: index of its
 * first element in the input; cells: address of the sum of that element. */
static void write_row(const struct elements_layout *layout, enum dtype dtype,
                      const uint64_t *marks, uint64_t in, unsigned char *cells, uint64_t count)
{
    const size_t size = dtype_info(dtype)->bytes;
    const uint64_t nan = elements_nan_bits(dtype);
    const uint64_t in_step = layout->in_strides[layout->rank - 1];
    const uint64_t out_step = layout->out_strides[layout->rank - 1];
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t at = in + i * in_step;
        const uint64_t rest = marks[at / MARK_BITS] >> at % MARK_BITS;
        if (in_step == 1 && (rest & 1) == 0) { /* continue at the next marked element, or
                                                  behind this word of marks */
            const uint64_t left = MARK_BITS - at % MARK_BITS;
            i += (rest == 0 ? left : (uint64_t)__builtin_ctzll(rest)) - 1;
        } else if ((rest & 1) != 0) {
            little_endian_store(cells + i * out_step * size, size, nan);
        }
    }
}

/* Write NaN to the sums of the marked elements of all rows, which start at cell `in` of the
 * input and at cell `out` of the output. Returns false if the work is given up. */
static bool write_nan_rows(struct writing *writing, const struct elements_layout *layout,
                           enum dtype dtype, const uint64_t *marks, uint64_t in, uint64_t out)
{
    struct rows rows = {.layout = layout, .in = in, .out = out};
    const int last = layout->rank - 1;
    do {
        const uint64_t count = (uint64_t)layout->sizes[last];
        for (uint64_t at = 0; at < count; at += STEP_ROWS) {
            const uint64_t some = smaller_of(count - at, STEP_ROWS);
            const uint64_t cell = rows.out + at * layout->out_strides[last];
            write_row(layout, dtype, marks, rows.in + at * layout->in_strides[last],
                      writing->output + cell * writing->size, some);
            if (!rows_step(writing->parallel, &writing->done, some)) {
                return false;
            }
        }
    } while (rows_next(&rows));
    return true;
}

enum status elements_write_nan(const struct scan_desc *desc, bool packed, const uint64_t *marks,
                               const struct parallel *parallel, void *output, struct error *err)
{
    struct writing writing = {
        .parallel = parallel, .output = output, .size = dtype_info(desc->dtype)->bytes};
    struct elements_layout layout;
    elements_layout_make(desc, packed, &layout);
    const bool empty = is_empty(&layout);
    const int axis = layout.axis;
    /* Without sums between the segments, the cells of all segments are contiguous along the
     * axis. */
    const uint64_t count = desc->include_initial ? segment_count(desc) : 1;
    drop_inner(&layout);
    for (uint64_t i = 0; i < count && !empty; i++) {
        const uint64_t at = scan_segment_at(desc, i);
        const uint64_t end = desc->include_initial ? scan_segment_at(desc, i + 1)
                                                   : (uint64_t)scan_desc_axis_size(desc);
        layout.sizes[axis] = (int64_t)(end - at);
        if (end > at &&
            !write_nan_rows(&writing, &layout, desc->dtype, marks, at * layout.in_strides[axis],
                            elements_first_sum(desc, i) * layout.out_strides[axis])) {
            return parallel_given_up(err);
        }
    }
    return STATUS_OK;
}
