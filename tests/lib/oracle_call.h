/* What the server does with a call between complete() and encode(), with the oracle in the device's
 * place: elements are converted, scanned, and NaN and the sums before the first elements are written
 * (proto/elements.h). Lines begin with nothing: initial values are what the whole service is tested
 * with. */
#ifndef TALLY_TESTS_LIB_ORACLE_CALL_H
#define TALLY_TESTS_LIB_ORACLE_CALL_H

#include "proto/elements.h"
#include "proto/macros.h"
#include "proto/scan_call.h"
#include "tests/lib/oracle.h"

#include <stdlib.h>
#include <string.h>

/* Bytes that the input buffer needs. */
__attribute__((unused)) static uint64_t oracle_call_room(const struct scan_call *call)
{
    return larger_of(elements_wide_bytes(&call->desc, call->input_bytes), call->payload_max);
}

/* The scan as a device has it, with strides of the output where that is not packed as the input's
 * shape has it. *first: elements before its first sum. */
__attribute__((unused)) static struct scan_desc oracle_call_desc(const struct scan_call *call,
                                                                 uint64_t *first)
{
    struct scan_desc desc = call->desc;
    struct elements_layout layout;
    desc.has_output_strides = desc.has_output_strides && !call->packs_output;
    *first = 0;
    if (desc.include_initial) {
        elements_layout_make(&call->desc, call->packs_output, &layout);
        desc.has_output_strides = true;
        memcpy(desc.output_strides, layout.out_strides, sizeof desc.output_strides);
        *first = elements_first_sum(&call->desc, 0) * layout.out_strides[layout.axis];
    }
    return desc;
}

/* Elements of the output buffer, of a geometry that has a plan. */
__attribute__((unused)) static uint64_t oracle_call_cells(const struct scan_call *call)
{
    struct scan_desc room;
    struct scan_desc output = *scan_output_desc(&call->desc, &room);
    struct scan_plan plan;
    output.has_output_strides = output.has_output_strides && !call->packs_output;
    output.has_strides = false;
    return scan_plan_make(&output, &plan, NULL) == STATUS_OK ? plan.out_elements : 0;
}

/* input: oracle_call_room() bytes; output: oracle_call_cells(), zeroed.
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
    uint64_t first = 0;
    if (bits == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "the test has no memory");
    }
    enum status status = elements_prepare(desc, input, count, NULL, &marks, err);
    if (status == STATUS_OK) {
        const struct scan_desc scan = oracle_call_desc(call, &first);
        if (plan_elements > 0) {
            oracle_scan(&scan, input, (char *)output + first * dtype_info(desc->dtype)->bytes);
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
