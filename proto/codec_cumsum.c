/* The codecs of POST /v1/cumsum, one for each format of the request, and the answer, whose
 * format the client chooses independently. Possible failure of an answer: OUT_OF_MEMORY, also
 * if the work was given up. */
#include "proto/codec_cumsum.h"

#include "proto/attributes.h"
#include "proto/cumsum_request.h"

#include <stdio.h>

/* Compute the number of elements of the answer: the cells of the output buffer, with the gaps
 * that output_strides leave. */
static enum status output_elements(const struct scan_call *call, uint64_t output_bytes,
                                   uint64_t *elements, struct error *err)
{
    struct scan_desc room;
    const struct scan_desc *desc = scan_output_desc(&call->desc, &room);
    uint64_t found = 0;
    uint64_t held = 0;
    const bool packed = !desc->has_output_strides || call->packs_output;
    if (!output_reach(desc, &found) ||
        !buffer_reach(desc, packed ? NULL : desc->output_strides, &held) ||
        held > output_bytes / dtype_info(desc->dtype)->bytes) {
        return error_set(err, STATUS_INTERNAL, "the output buffer is smaller than the answer");
    }
    *elements = found;
    return STATUS_OK;
}

static enum status cumsum_encode(const struct scan_call *call, const void *output,
                                 uint64_t output_bytes, struct answer *answer,
                                 struct error *err)
{
    uint64_t elements = 0;
    TRY(output_elements(call, output_bytes, &elements, err));
    if (call->answer_format == CODEC_FORMAT_JSON) {
        return answer_json(call, output, elements, answer, err);
    }
    if (answer->head_bytes > 0) {
        struct answer_header *header = &answer->headers[answer->header_count++];
        header->name = "Tally-Carry-Length";
        (void)snprintf(header->value, sizeof header->value, "%zu", answer->head_bytes);
    }
    if (call->answer_format == CODEC_FORMAT_NPY && !call->totals) {
        return answer_npy(call, elements, answer, err);
    }
    answer_raw(call, call->totals ? 0 : elements, answer);
    return STATUS_OK;
}

static uint64_t cumsum_head_max(const struct scan_call *call)
{
    struct scan_desc room;
    uint64_t elements = 0;
    return output_reach(scan_output_desc(&call->desc, &room), &elements)
               ? answer_json_max(call, call->totals ? 0 : elements)
               : UINT64_MAX;
}

const struct codec *codec_cumsum(enum codec_format format)
{
    static const struct codec codecs[] = {
        [CODEC_FORMAT_JSON] = {.name = "json",
                               .head_need = codec_json_head_need,
                               .decode = codec_json_decode,
                               .complete = codec_json_complete,
                               .encode = cumsum_encode,
                               .head_max = cumsum_head_max},
        [CODEC_FORMAT_RAW] = {.name = "raw",
                              .head_need = codec_raw_head_need,
                              .decode = codec_raw_decode,
                              .complete = codec_raw_complete,
                              .encode = cumsum_encode,
                              .head_max = cumsum_head_max},
        [CODEC_FORMAT_NPY] = {.name = "npy",
                              .head_need = codec_npy_head_need,
                              .decode = codec_npy_decode,
                              .complete = cumsum_complete_payload,
                              .encode = cumsum_encode,
                              .head_max = cumsum_head_max},
    };
    return &codecs[format];
}
