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

struct scan_desc {
    enum dtype dtype;
    int rank;                           /* as given; 1..LIMIT_RANK is valid */
    int64_t sizes[LIMIT_RANK];          /* elements per dimension, outermost first */
    bool has_strides;                   /* input strides given, else packed row-major */
    bool has_output_strides;            /* output strides given, else packed row-major */
    int64_t strides[LIMIT_RANK];        /* elements; 0 repeats the element (broadcast) */
    int64_t output_strides[LIMIT_RANK]; /* elements */
    int64_t axis;                       /* -rank..rank-1 is valid */
    bool exclusive;                     /* output k leaves element k out */
    bool reverse;                       /* traverse the axis from its last element */
    enum scan_part part;                /* what other parts the axis has; not part of a plan */
};

#endif
