/* The cumulative sum as a client asked for it: tensor, axis, flags. A plain description that
 * any dialect can fill; whether it makes sense is decided by scan_plan_make()
 * (kernels/plan.h) and by nothing else. Thread: any, plain data. */
#ifndef TALLY_PROTO_SCAN_DESC_H
#define TALLY_PROTO_SCAN_DESC_H

#include "proto/dtype.h"
#include "proto/limits.h"

#include <stdbool.h>
#include <stdint.h>

/* A part's place in its tensor, in the order in which the axis is traversed. */
enum scan_part {
    SCAN_PART_WHOLE, /* no part: the tensor is all there */
    SCAN_PART_FIRST,
    SCAN_PART_NEXT,
    SCAN_PART_LAST
};

/* What becomes of elements that are NaN. */
enum scan_nan {
    SCAN_NAN_PROPAGATE, /* from there on every sum of the line is NaN */
    SCAN_NAN_ZERO,      /* they count as +0.0 */
    SCAN_NAN_SKIP       /* they count as +0.0, and the sums at their places are NaN */
};

struct scan_desc {
    enum dtype dtype;            /* of the sums, and of the elements unless they convert */
    int rank;                    /* as given; 1..LIMIT_RANK is valid */
    int64_t sizes[LIMIT_RANK];   /* elements per dimension, outermost first */
    bool has_strides;            /* input strides given, else packed row-major */
    bool has_output_strides;     /* output strides given, else packed row-major */
    int64_t strides[LIMIT_RANK]; /* elements; 0 repeats the element (broadcast) */
    int64_t output_strides[LIMIT_RANK]; /* elements */
    int64_t axis;                       /* -rank..rank-1 is valid */
    bool exclusive;                     /* output k leaves element k out */
    bool reverse;                       /* traverse the axis from its last element */
    enum scan_part part;                /* what other parts the axis has; not part of a plan */

    /* What is done before the scan and after it, and is not part of a plan (proto/elements.h). */
    bool converts;        /* the elements come in another type than the sums: in `input` */
    enum dtype input;     /* valid if they do; DTYPE_BOOL is possible */
    enum scan_nan nan;    /* PROPAGATE unless dtype is a float */
    bool has_initial;     /* each line begins with one element more, `initial` */
    uint64_t initial;     /* bits in dtype */
    bool include_initial; /* the axis of the output has one element more, at its beginning: the
                             sum before the first element. `sizes` are those of the input */
};

/* The type of the elements as they come. */
static inline enum dtype scan_input_dtype(const struct scan_desc *desc)
{
    return desc->converts ? desc->input : desc->dtype;
}

/* The output as an answer describes it: *room, with one element more along the axis, or `desc`
 * itself where the output has the shape of the input. A geometry that scan_plan_make() refuses may
 * stay as it is. */
static inline const struct scan_desc *scan_output_desc(const struct scan_desc *desc,
                                                       struct scan_desc *room)
{
    const int64_t axis = desc->axis < 0 ? desc->axis + desc->rank : desc->axis;
    if (!desc->include_initial || desc->rank > LIMIT_RANK || axis < 0 || axis >= desc->rank ||
        desc->sizes[axis] == INT64_MAX) {
        return desc;
    }
    *room = *desc;
    room->sizes[axis]++;
    room->has_strides = false;
    room->include_initial = false;
    return room;
}

#endif
