/* Drives a codec with arbitrary bytes as the server does, but without a device: head_need,
 * decode, complete, elements_prepare, plan, encode. Used by the fuzz_<codec>.c files.
 *
 * The first three bytes of an input choose the request; the rest is its body:
 *   byte 0    bit 0: Inference-Header-Content-Length is given; bit 1: the length of the body is
 *             unknown; bits 4-7: model (v2)
 *   byte 1-2  Inference-Header-Content-Length, little-endian */
#ifndef TALLY_TESTS_FUZZ_CODEC_DRIVER_H
#define TALLY_TESTS_FUZZ_CODEC_DRIVER_H

#include "kernels/plan.h"
#include "proto/codec.h"
#include "proto/elements.h"
#include "proto/models.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    DRIVER_ROOM = 1 << 20,
    DRIVER_PREFIX = 3
};

/* Encode an answer from a computed output buffer. */
static inline void drive_answer(const struct codec *codec, const struct scan_call *call,
                                struct error *err)
{
    struct scan_plan plan;
    struct scan_desc room;
    const struct scan_desc *shown = scan_output_desc(&call->desc, &room);
    if (scan_plan_make(&call->desc, &plan, err) != STATUS_OK ||
        scan_plan_make(shown, &plan, err) != STATUS_OK) {
        assert(codec->plan_field == NULL || codec->plan_field(call, err->field) != NULL);
        return;
    }
    uint64_t bytes = plan.out_elements * dtype_info(call->desc.dtype)->bytes;
    bytes = bytes > call->output_bytes ? bytes : call->output_bytes;
    if (bytes > DRIVER_ROOM) {
        return;
    }
    char *output = malloc(bytes > 0 ? bytes : 1);
    struct answer answer = {.head = NULL};
    memset(output, 0x3C, bytes > 0 ? bytes : 1);
    if (codec->encode(call, output, bytes, &answer, err) == STATUS_OK) {
        assert(answer.payload_bytes <= bytes);
        answer_deinit(&answer);
    }
    free(output);
}

/* Convert the received elements in the input buffer to the elements that are scanned. */
static inline enum status drive_elements(const struct scan_call *call, void *input,
                                         struct error *err)
{
    const struct scan_desc *desc = &call->desc;
    const size_t size = dtype_info(scan_input_dtype(desc))->bytes;
    const uint64_t count = call->input_bytes / size;
    struct elements_marks marks = {.bits = malloc(elements_marks_bytes(desc, count) + 1)};
    struct scan_plan plan;
    if (scan_plan_make(desc, &plan, err) == STATUS_OK) {
        assert(plan.in_elements * size <= call->input_bytes);
    }
    if (elements_marks_bytes(desc, count) == 0) {
        free(marks.bits);
        marks.bits = NULL;
    }
    const enum status status = elements_prepare(desc, input, count, NULL, &marks, err);
    free(marks.bits);
    return status;
}

static inline void drive_payload(const struct codec *codec, struct scan_call *call,
                                 const uint8_t *payload, size_t bytes, struct error *err)
{
    const uint64_t wide = elements_wide_bytes(&call->desc, call->input_bytes);
    const uint64_t room = wide > call->payload_max ? wide : call->payload_max;
    if (room > DRIVER_ROOM) {
        return;
    }
    char *input = malloc(room > 0 ? room : 1); /* exactly the promised size */
    if (bytes > 0) {
        memcpy(input, payload, bytes < room ? bytes : room);
    }
    memset(call->axis_bytes, 0, sizeof call->axis_bytes);
    if (codec->complete(call, input, bytes, err) == STATUS_OK &&
        drive_elements(call, input, err) == STATUS_OK) {
        drive_answer(codec, call, err);
    }
    free(input);
}

static inline int drive(const struct codec *codec, const uint8_t *data, size_t size)
{
    if (size < DRIVER_PREFIX) {
        return 0;
    }
    const uint8_t *body = data + DRIVER_PREFIX;
    size_t body_bytes = size - DRIVER_PREFIX;
    struct codec_request request = {.param_count = 0};
    request.head_bytes = (data[0] & 1) != 0 ? data[1] | data[2] << 8 : -1;
    request.body_bytes = (data[0] & 2) != 0 ? -1 : (int64_t)body_bytes;
    request.model = model_at((size_t)(data[0] >> 4) % model_count())->name;
    struct error err = ERROR_INIT;
    struct byte_view head = {"", 0};
    uint64_t need = 0;
    if (codec->head_need(&request, head, &need, &err) != STATUS_OK) {
        return 0;
    }
    if (need != UINT64_MAX && need > body_bytes) {
        return 0; /* the server refuses the request: the body ends before its head */
    }
    size_t head_bytes = need == UINT64_MAX ? body_bytes : (size_t)need;
    char *copy = malloc(head_bytes + 1); /* so that a read past the end is detected */
    memcpy(copy, body, head_bytes);
    copy[head_bytes] = '\0';
    struct scan_call call = {.dialect = NULL};
    head = (struct byte_view){copy, head_bytes};
    if (codec_decode(codec, &request, head, &call, &err) == STATUS_OK) {
        drive_payload(codec, &call, body + head_bytes, body_bytes - head_bytes, &err);
        codec_release(&call);
    } else {
        assert(err.status != STATUS_OK && err.detail[0] != '\0');
    }
    free(copy);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
