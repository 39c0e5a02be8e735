/* The cumulative sum as a client asked for it: tensor, axis, flags. A plain description that
 * any dialect can fill; whether it makes sense is decided by scan_plan_make()
 * (kernels/plan.h) and by nothing else. Thread: any, plain data. */
#ifndef TALLY_PROTO_SCAN_DESC_H
#define TALLY_PROTO_SCAN_DESC_H

#include "proto/dtype.h"
#include "proto/limits.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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
    bool include_initial; /* each line, or each of its segments, has one sum more, at its
                             beginning: that before its first element. `sizes` are those of the
                             input */
    bool has_offsets;     /* the axis is cut into segments, lines of their own */
    uint64_t segments;    /* how many; valid if it is */
    const void *offsets;  /* segments + 1 int64 from 0 to the size of the axis, which do not
                             decrease, of any alignment: scan_offset() reads one. Borrowed; NULL:
                             not read yet */
};

/* The type of the elements as they come. */
static inline enum dtype scan_input_dtype(const struct scan_desc *desc)
{
    return desc->converts ? desc->input : desc->dtype;
}

/* Where segment i begins, and segment i - 1 ends. The offsets have been read. */
static inline int64_t scan_offset(const struct scan_desc *desc, uint64_t i)
{
    int64_t offset = 0;
    memcpy(&offset, (const char *)desc->offsets + i * sizeof offset, sizeof offset);
    return offset;
}

/* The axis counted from the front, and its size. The axis is valid. */
static inline int scan_desc_axis(const struct scan_desc *desc)
{
    return (int)(desc->axis < 0 ? desc->axis + desc->rank : desc->axis);
}
static inline int64_t scan_desc_axis_size(const struct scan_desc *desc)
{
    return desc->sizes[scan_desc_axis(desc)];
}

/* The same where a tensor without offsets is segment 0. */
static inline uint64_t scan_segment_at(const struct scan_desc *desc, uint64_t i)
{
    return desc->has_offsets ? (uint64_t)scan_offset(desc, i)
           : i == 0          ? 0
                             : (uint64_t)scan_desc_axis_size(desc);
}

/* The output as an answer describes it: *room, with one element more along the axis for each segment,
 * or `desc` itself where the output has the shape of the input. A geometry that scan_plan_make()
 * refuses may stay as it is. */
static inline const struct scan_desc *scan_output_desc(const struct scan_desc *desc,
                                                       struct scan_desc *room)
{
    const int64_t axis = desc->axis < 0 ? desc->axis + desc->rank : desc->axis;
    const uint64_t more = desc->has_offsets ? desc->segments : 1;
    int64_t size = 0;
    if (!desc->include_initial || desc->rank > LIMIT_RANK || axis < 0 || axis >= desc->rank ||
        __builtin_add_overflow(desc->sizes[axis], more, &size)) {
        return desc;
    }
    *room = *desc;
    room->sizes[axis] = size;
    room->has_strides = false;
    room->include_initial = false;
    return room;
}

#endif
