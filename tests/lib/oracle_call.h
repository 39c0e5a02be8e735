/* The server's work on a call between complete() and encode(), with the oracle in place of the
 * device: elements are converted and scanned, and NaN and the sums before the first elements
 * are written (proto/elements.h). Initial values are not supported, because only tests of the
 * whole service use them. */
#ifndef TALLY_TESTS_LIB_ORACLE_CALL_H
#define TALLY_TESTS_LIB_ORACLE_CALL_H

#include "proto/elements.h"
#include "proto/macros.h"
#include "proto/scan_call.h"
#include "tests/lib/oracle.h"

#include <stdlib.h>
#include <string.h>

/* Return the bytes that the input buffer needs. */
__attribute__((unused)) static uint64_t oracle_call_room(const struct scan_call *call)
{
    return larger_of(elements_wide_bytes(&call->desc, call->input_bytes), call->payload_max);
}

/* Return the description that a device would scan; the output has strides unless it is
 * contiguous in the shape of the input. */
__attribute__((unused)) static struct scan_desc oracle_call_desc(const struct scan_call *call)
{
    struct scan_desc desc = call->desc;
    struct elements_layout layout;
    desc.has_output_strides = desc.has_output_strides && !call->packs_output;
    if (desc.include_initial) {
        elements_layout_make(&call->desc, call->packs_output, &layout);
        desc.has_output_strides = true;
        memcpy(desc.output_strides, layout.out_strides, sizeof desc.output_strides);
    }
    return desc;
}

/* Scan each segment of the axis as a separate line; without offsets the whole axis is one
 * segment. */
__attribute__((unused)) static void oracle_call_scan(const struct scan_call *call,
                                                     const char *input, char *output)
{
    const struct scan_desc *desc = &call->desc;
    const size_t bytes = dtype_info(desc->dtype)->bytes;
    const uint64_t segments = desc->has_offsets ? desc->segments : 1;
    struct scan_desc scan = *desc;
    struct elements_layout layout;
    elements_layout_make(desc, call->packs_output, &layout);
    scan.has_strides = scan.has_output_strides = true;
    memcpy(scan.strides, layout.in_strides, sizeof scan.strides);
    memcpy(scan.output_strides, layout.out_strides, sizeof scan.output_strides);
    for (uint64_t i = 0; i < segments; i++) {
        const uint64_t at = scan_segment_at(desc, i);
        const uint64_t in = at * layout.in_strides[layout.axis];
        const uint64_t out = elements_first_sum(desc, i) * layout.out_strides[layout.axis];
        scan.sizes[layout.axis] = (int64_t)(scan_segment_at(desc, i + 1) - at);
        if (scan.sizes[layout.axis] > 0) {
            oracle_scan(&scan, input + in * bytes, output + out * bytes);
        }
    }
}

/* Return the elements of the output buffer. The geometry must be valid. */
__attribute__((unused)) static uint64_t oracle_call_cells(const struct scan_call *call)
{
    struct scan_desc room;
    struct scan_desc output = *scan_output_desc(&call->desc, &room);
    struct scan_plan plan;
    output.has_output_strides = output.has_output_strides && !call->packs_output;
    output.has_strides = false;
    return scan_plan_make(&output, &plan, NULL) == STATUS_OK ? plan.out_elements : 0;
}

/* Run the call. input: oracle_call_room() bytes; output: oracle_call_cells() cells, zeroed.
 * err   INVALID_DATA, OUT_OF_MEMORY */
__attribute__((unused)) static enum status oracle_call(const struct scan_call *call,
                                                       uint64_t plan_elements, void *input,
                                                       void *output, struct error *err)
{
    const struct scan_desc *desc = &call->desc;
    const uint64_t count = call->input_bytes / dtype_info(scan_input_dtype(desc))->bytes;
    const uint64_t marks_bytes = elements_marks_bytes(desc, count);
    uint64_t *bits = malloc(marks_bytes + 1);
    struct elements_marks marks = {.bits = marks_bytes > 0 ? bits : NULL};
    if (bits == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "the test has no memory");
    }
    enum status status = elements_prepare(desc, input, count, NULL, &marks, err);
    if (status == STATUS_OK) {
        if (plan_elements > 0) {
            oracle_call_scan(call, input, output);
        }
        if (desc->include_initial) {
            status = elements_write_initial(desc, call->packs_output, NULL, output, err);
        }
    }
    if (status == STATUS_OK && marks_bytes > 0 && marks.any) {
        status = elements_write_nan(desc, call->packs_output, bits, NULL, output, err);
    }
    free(bits);
    return status;
}

#endif
