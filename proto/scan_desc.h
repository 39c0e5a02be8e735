/* The cumulative sum that a client requests: tensor, axis, flags. Any dialect can fill this
 * plain description; only scan_plan_make() (kernels/plan.h) decides whether it is valid.
 * Thread: any, plain data. */
#ifndef TALLY_PROTO_SCAN_DESC_H
#define TALLY_PROTO_SCAN_DESC_H

#include "proto/dtype.h"
#include "proto/limits.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Position of a part in its tensor, in the order in which the axis is traversed. */
enum scan_part {
    SCAN_PART_WHOLE, /* the request has the whole tensor */
    SCAN_PART_FIRST,
    SCAN_PART_NEXT,
    SCAN_PART_LAST
};

/* Treatment of elements that are NaN. */
enum scan_nan {
    SCAN_NAN_PROPAGATE, /* all later sums of the line are NaN */
    SCAN_NAN_ZERO,      /* NaN counts as +0.0 */
    SCAN_NAN_SKIP       /* NaN counts as +0.0, and its own sum is NaN */
};

struct scan_desc {
    enum dtype dtype;            /* type of the sums, and of the elements unless `converts` */
    int rank;                    /* as the client gave it; 1..LIMIT_RANK is valid */
    int64_t sizes[LIMIT_RANK];   /* elements per dimension, outermost first */
    bool has_strides;            /* the client gave input strides; otherwise contiguous,
                                  * row-major */
    bool has_output_strides;     /* the client gave output strides; otherwise contiguous,
                                  * row-major */
    int64_t strides[LIMIT_RANK]; /* in elements; 0 repeats the element (broadcast) */
    int64_t output_strides[LIMIT_RANK]; /* in elements */
    int64_t axis;                       /* -rank..rank-1 is valid */
    bool exclusive;                     /* sum k does not include element k */
    bool reverse;                       /* traverse the axis from its last element */
    enum scan_part part;                /* position among the parts of the axis; plans ignore
                                           it */

    /* Fields for the work before and after the scan (proto/elements.h), which plans ignore. */
    bool converts;        /* the received elements have the type `input`, not `dtype` */
    enum dtype input;     /* valid if `converts`; DTYPE_BOOL is possible */
    enum scan_nan nan;    /* PROPAGATE unless dtype is a float */
    bool has_initial;     /* `initial` is added in front of each line */
    uint64_t initial;     /* bits of a value of type `dtype` */
    bool include_initial; /* each line, or each of its segments, has one additional sum at
                             its beginning, the sum before its first element. `sizes` are
                             those of the input */
    bool has_offsets;     /* the axis is divided into segments, which are separate lines */
    uint64_t segments;    /* number of segments; valid if has_offsets */
    const void *offsets;  /* segments + 1 int64 in non-decreasing order, from 0 to the size
                             of the axis, of any alignment: scan_offset() reads one.
                             Borrowed; NULL: not read yet */
};

/* Return the type of the received elements. */
static inline enum dtype scan_input_dtype(const struct scan_desc *desc)
{
    return desc->converts ? desc->input : desc->dtype;
}

/* Return the start of segment i, which is the end of segment i - 1. The offsets must have been
 * read. */
static inline int64_t scan_offset(const struct scan_desc *desc, uint64_t i)
{
    int64_t offset = 0;
    memcpy(&offset, (const char *)desc->offsets + i * sizeof offset, sizeof offset);
    return offset;
}

/* scan_desc_axis(): return the axis counted from the front. scan_desc_axis_size(): return its
 * size. The axis must be valid. */
static inline int scan_desc_axis(const struct scan_desc *desc)
{
    return (int)(desc->axis < 0 ? desc->axis + desc->rank : desc->axis);
}
static inline int64_t scan_desc_axis_size(const struct scan_desc *desc)
{
    return desc->sizes[scan_desc_axis(desc)];
}

/* Like scan_offset(); a tensor without offsets has one segment, 0. */
static inline uint64_t scan_segment_at(const struct scan_desc *desc, uint64_t i)
{
    return desc->has_offsets ? (uint64_t)scan_offset(desc, i)
           : i == 0          ? 0
                             : (uint64_t)scan_desc_axis_size(desc);
}

/* Return the description of the output in an answer: *room, with one additional element along
 * the axis for each segment, or `desc` itself if the output has the shape of the input. A
 * geometry that scan_plan_make() refuses may be unchanged. */
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
