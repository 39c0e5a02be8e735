/* Cells in the order of their addresses. Each stride is at least the reach of the dimensions
 * behind it, so cells with ascending addresses have ascending indices, and the indices of a
 * cell are found by dividing by the strides, longest first. Printing divides only for the
 * first cell and increments the indices afterwards. No function fails. */
#include "proto/json/cells.h"

#include "proto/macros.h"

#include <assert.h>
#include <string.h>

enum {
    SPARSE = 8,       /* minimum cells per sum for json_cells_are_sparse() */
    COPY_BYTES = 4096 /* maximum bytes of zeros copied at once */
};

_Static_assert(COPY_BYTES % JSON_CELLS_ZERO == 0, "whole zeros are copied");

/* Insert a dimension so that dims[] stays in descending order of strides. */
static void insert_dim(struct json_cells *cells, struct json_cells_dim dim)
{
    int at = cells->rank++;
    for (; at > 0 && cells->dims[at - 1].stride < dim.stride; at--) {
        cells->dims[at] = cells->dims[at - 1];
    }
    cells->dims[at] = dim;
}

bool json_cells_strided(const struct scan_desc *desc, struct json_cells *cells)
{
    uint64_t packed = 1;
    uint64_t reach = 1;
    cells->rank = 0;
    for (int d = desc->rank - 1; d >= 0; d--) {
        const int64_t size = desc->sizes[d];
        const int64_t stride = desc->output_strides[d];
        if (size <= 0 || stride < 0 || !desc->has_output_strides) {
            return false;
        }
        if (size > 1) {
            insert_dim(cells,
                       (struct json_cells_dim){(uint64_t)size, (uint64_t)stride, packed});
        }
        if (__builtin_mul_overflow(packed, (uint64_t)size, &packed)) {
            return false;
        }
    }
    for (int d = cells->rank - 1; d >= 0; d--) {
        const struct json_cells_dim *dim = &cells->dims[d];
        uint64_t farther = 0;
        if (dim->stride < reach ||
            __builtin_mul_overflow(dim->size - 1, dim->stride, &farther) ||
            __builtin_add_overflow(reach, farther, &reach)) {
            return false;
        }
    }
    cells->count = reach;
    cells->sums = packed;
    return desc->rank > 0;
}

void json_cells_tailed(uint64_t sums, uint64_t count, struct json_cells *cells)
{
    cells->count = larger_of(sums, count);
    cells->sums = sums;
    cells->rank = sums > 1;
    cells->dims[0] = (struct json_cells_dim){sums, 1, 1};
}

bool json_cells_are_sparse(const struct scan_desc *desc)
{
    struct json_cells cells;
    return desc->has_output_strides && json_cells_strided(desc, &cells) &&
           cells.count / SPARSE >= cells.sums;
}

uint64_t json_cells_sums_before(const struct json_cells *cells, uint64_t cell)
{
    uint64_t before = 0; /* number of sums, counted in the order of the cells */
    uint64_t each = cells->sums;
    uint64_t rest = cell;
    for (int d = 0; d < cells->rank; d++) {
        const struct json_cells_dim *dim = &cells->dims[d];
        const uint64_t index = smaller_of(rest / dim->stride, dim->size - 1);
        each /= dim->size;
        before += index * each;
        rest -= index * dim->stride;
    }
    return before + (rest > 0);
}

/* The position of a sum. */
struct place {
    uint64_t cell;
    uint64_t sum; /* its index in the contiguous sums */
    uint64_t index[LIMIT_RANK];
};

/* Move to the next sum. Returns false behind the last sum. */
static bool place_advance(const struct json_cells *cells, struct place *place)
{
    for (int d = cells->rank - 1; d >= 0; d--) {
        const struct json_cells_dim *dim = &cells->dims[d];
        if (place->index[d] + 1 < dim->size) {
            place->index[d]++;
            place->cell += dim->stride;
            place->sum += dim->packed;
            return true;
        }
        place->cell -= place->index[d] * dim->stride;
        place->sum -= place->index[d] * dim->packed;
        place->index[d] = 0;
    }
    return false;
}

/* Find the first sum whose cell is `cell` or a later one. Returns false if there is none. */
static bool place_find(const struct json_cells *cells, uint64_t cell, struct place *place)
{
    uint64_t rest = cell;
    place->sum = 0;
    for (int d = 0; d < cells->rank; d++) {
        const struct json_cells_dim *dim = &cells->dims[d];
        const uint64_t index = smaller_of(rest / dim->stride, dim->size - 1);
        place->index[d] = index;
        place->sum += index * dim->packed;
        rest -= index * dim->stride;
    }
    place->cell = cell - rest;
    return rest == 0 || place_advance(cells, place);
}

void json_cells_text_init(enum dtype dtype, const void *sums, struct json_cells_text *text)
{
    const uint64_t zero = 0; /* 0 has the same bits in every type */
    char room[NUMBER_ROOM];
    text->sums = sums;
    text->sum_bytes = dtype_info(dtype)->bytes;
    text->print_run = number_writer_of(dtype);
    text->zero_bytes = (size_t)(text->print_run(&zero, 1, room) - room);
    memcpy(text->zero, room, text->zero_bytes);
}

/* Print zeros: copy the first zero behind itself, then both behind both, and so on, up to a
 * few KiB at once. */
static char *put_zeros(const struct json_cells_text *text, uint64_t count, char *out)
{
    const size_t bytes = (size_t)count * text->zero_bytes;
    size_t done = smaller_of(bytes, text->zero_bytes);
    memcpy(out, text->zero, done);
    while (done < bytes) {
        const size_t more = smaller_of(smaller_of(done, COPY_BYTES), bytes - done);
        memcpy(out + done, out, more);
        done += more;
    }
    return out + bytes;
}

char *json_cells_print(const struct json_cells *cells, const struct json_cells_text *text,
                       uint64_t first, uint64_t count, char *out)
{
    const uint64_t end = first + count;
    const int last = cells->rank - 1;
    const bool in_rows =
        last >= 0 && cells->dims[last].stride == 1 && cells->dims[last].packed == 1;
    struct place place;
    assert(last < LIMIT_RANK);
    bool found = place_find(cells, first, &place);
    for (uint64_t at = first; at < end;) {
        const uint64_t next = found ? smaller_of(place.cell, end) : end;
        out = put_zeros(text, next - at, out);
        at = next;
        if (at == end) {
            break;
        }
        const uint64_t left = in_rows ? cells->dims[last].size - place.index[last] : 1;
        const uint64_t run = smaller_of(left, end - at);
        out = text->print_run(text->sums + place.sum * text->sum_bytes, run, out);
        at += run;
        if (run > 1) { /* move to the last sum of the run */
            place.index[last] += run - 1;
            place.cell += run - 1;
            place.sum += run - 1;
        }
        found = place_advance(cells, &place);
    }
    return out;
}
