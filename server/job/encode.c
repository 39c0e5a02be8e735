/* Makes the answer of a computed output. The output is copied to the client's shared memory or
 * encoded, and then compressed if the client accepts compression. The work is done in pieces,
 * so that it can be stopped.
 *
 * Possible failures: without memory for compression the answer is sent uncompressed. The
 * request ends with an error if there is no memory for the text or if the work stops. Thread:
 * the owner. */
#define ZLIB_CONST /* zlib promises not to write to its input */
#include "server/job/infer.h"

#include "proto/elements.h"
#include "server/base/clock.h"
#include "server/job/infer_memory.h"
#include "server/job/infer_shm.h"
#include "server/job/inflate.h"
#include "server/job/part.h"
#include "server/job/segments.h"
#include "server/sched/server.h"
#include "server/sched/work.h"

#include <assert.h>
#include <limits.h>
#include <string.h>
#include <zlib.h>

enum {
    PACK_LEVEL = 1, /* the fastest level; higher levels gain little on tensors */
    PACK_MEMORY = 8,
    /* minimum unused memory for which the memory of a printed text is reduced to the length of
     * the text */
    SPARE_TEXT_BYTES = 64 << 10,
    STEP_BYTES = 64 << 10 /* bytes compressed between two steps; about 1 ms */
};

struct infer_bytes infer_answer_bytes(struct request *request)
{
    struct answer *answer = &request->reply.answer;
    struct infer_bytes bytes = {.head = {answer->head, answer->head_bytes}};
    if (answer->payload_bytes == 0) {
        return bytes;
    }
    char *payload = request_block_at(request, request->memory.out_offset);
    size_t room = request->memory.out_offset - request->memory.block.offset + MEMORY_HEADROOM;
    if (answer->head_bytes > room) {
        bytes.payload = (struct byte_view){payload, (size_t)answer->payload_bytes};
        return bytes;
    }
    /* Copy the head to the bytes before the payload, so that one call sends both. */
    if (answer->head_bytes > 0) {
        memcpy(payload - answer->head_bytes, answer->head, answer->head_bytes);
    }
    bytes.head = (struct byte_view){payload - answer->head_bytes,
                                    answer->head_bytes + (size_t)answer->payload_bytes};
    return bytes;
}

/* ---- packing ---- */

/* Compress the stream's input, and with Z_FINISH end the stream, into a text that grows with
 * the output. Every byte of the text is reserved from the budget before it is used. The text is
 * not reserved at its greatest length, because it may be a thousandth of the input. */
static enum status pack_input(struct request *request, z_stream *stream, int flush,
                              struct text *text, struct error *err)
{
    int code = Z_OK;
    do { /* if the text was full, zlib may have more output */
        const size_t used = stream->total_out;
        TRY(infer_text_reserve(request, text, used, used + 1, 0, err));
        stream->next_out = (unsigned char *)text->bytes + used;
        stream->avail_out = (uInt)smaller_of(text->charged - used, UINT_MAX);
        code = deflate(stream, flush);
        assert(code != Z_STREAM_ERROR); /* deflate() has no other error */
    } while (flush == Z_FINISH ? code != Z_STREAM_END : stream->avail_out == 0);
    return STATUS_OK;
}

static enum status pack_view(struct request *request, z_stream *stream, struct byte_view view,
                             struct text *text, struct error *err)
{
    for (size_t at = 0; at < view.count; at += STEP_BYTES) {
        stream->next_in = (const unsigned char *)view.bytes + at;
        stream->avail_in = (uInt)smaller_of(view.count - at, STEP_BYTES);
        TRY(pack_input(request, stream, Z_NO_FLUSH, text, err));
        if (!parallel_step(request->parallel)) {
            return parallel_given_up(err);
        }
    }
    return STATUS_OK;
}

/* ---- encoding ---- */

/* Compress the answer. Without memory the answer remains uncompressed.
 * err   CLIENT_GONE: the work was given up */
static enum status compress_answer(struct request *request, struct error *err)
{
    struct answer *answer = &request->reply.answer;
    struct text packed = {.bytes = NULL};
    struct error trouble = ERROR_INIT;
    z_stream stream = {.zalloc = Z_NULL};
    const struct infer_bytes bytes = infer_answer_bytes(request);
    if (deflateInit2(&stream, PACK_LEVEL, Z_DEFLATED,
                     inflate_window_bits(request->arrival.accept_coding), PACK_MEMORY,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        return STATUS_OK;
    }
    enum status status = pack_view(request, &stream, bytes.head, &packed, &trouble);
    if (status == STATUS_OK) {
        status = pack_view(request, &stream, bytes.payload, &packed, &trouble);
    }
    if (status == STATUS_OK) {
        status = pack_input(request, &stream, Z_FINISH, &packed, &trouble);
    }
    (void)deflateEnd(&stream);
    /* the uncompressed head is not needed */
    if (status == STATUS_OK || status == STATUS_CLIENT_GONE) {
        infer_discharge(request, infer_text_bytes(request) > 0 ? answer->head_bytes : 0);
        answer_deinit(answer);
        text_free(request->server->memory, &request->reply.answer_text);
    }
    if (status != STATUS_OK) {
        infer_text_free(request, &packed);
        return status == STATUS_CLIENT_GONE ? parallel_given_up(err) : STATUS_OK;
    }
    text_wrote(&packed, stream.total_out);
    request->reply.answer_text = packed;
    request->reply.answer_coding = request->arrival.accept_coding;
    answer->room = packed.bytes;
    answer->head = answer->room;
    answer->head_bytes = stream.total_out;
    answer->payload_bytes = 0;
    return STATUS_OK;
}

/* Encode the answer. A long text is printed to reply.answer_text. If the text is much shorter
 * than its reservation, the rest of the reservation is released. */
static enum status print_answer(struct request *request, struct error *err)
{
    struct answer *answer = &request->reply.answer;
    struct text *text = &request->reply.answer_text;
    /* no overflow below: these bytes are reserved from the budget, so far fewer than 2^64 */
    const uint64_t most = infer_text_bytes(request);
    if (most >= TEXT_LONG_BYTES &&
        !text_grow(request->server->memory, text, 0, (size_t)most + 1)) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the text of the answer");
    }
    answer->room = text->bytes;
    answer->room_bytes = text->capacity;
    TRY(request->arrival.codec->encode(&request->scan.call, request_output_bytes(request),
                                       request->memory.out_bytes, answer, err));
    if (answer->head == answer->room) {
        text_wrote(text, answer->head_bytes);
    }
    if (most > answer->head_bytes && most - answer->head_bytes >= SPARE_TEXT_BYTES) {
        infer_discharge(request, most - answer->head_bytes);
    }
    return STATUS_OK;
}

/* Make the carry after a part the head of the answer, and correct the memory charged for the
 * text of the answer. The charge was made for a carry of ordinary data.
 * err   CLIENT_GONE: the work was given up; OUT_OF_MEMORY, THROTTLED, TOO_LARGE: the text of an
 *       unusually long carry exceeds the reservation, and the difference cannot be charged */
static enum status finish_part(struct request *request, struct error *err)
{
    const uint64_t reserved = infer_text_bytes(request);
    TRY(part_finish(request, err));
    const uint64_t needed = infer_text_bytes(request);
    if (needed > reserved) {
        return infer_charge(request, needed - reserved, err);
    }
    infer_discharge(request, reserved - needed);
    return STATUS_OK;
}

static enum status make_answer(struct request *request, struct error *err)
{
    if (part_is_one(request)) {
        TRY(finish_part(request, err));
    }
    if (request->scan.segments != NULL) {
        TRY(segments_scatter(request->scan.segments,
                             request_block_at(request, request->memory.gathered_offset),
                             request_output_bytes(request), err));
    }
    if (request->scan.marked && infer_marks_bytes(request) > 0) {
        const struct scan_call *call = &request->scan.call;
        const void *marks = request_block_at(request, request->memory.marks_offset);
        TRY(elements_write_nan(&call->desc, call->packs_output, marks, request->parallel,
                               request_output_bytes(request), err));
    }
    if (infer_shm_used(request)) {
        TRY(infer_shm_write_output(request, err));
    }
    TRY(print_answer(request, err));
    return request->arrival.accept_coding == CODING_IDENTITY ? STATUS_OK
                                                             : compress_answer(request, err);
}

void infer_encode(struct request *request)
{
    struct answer *answer = &request->reply.answer;
    answer->content_type = NULL;
    answer->header_count = 0; /* the old headers become invalid */
    answer->payload_bytes = 0;
    if (make_answer(request, &request->error) != STATUS_OK) {
        /* If the work was stopped, the codec has reported another error: replace it. */
        (void)work_given_up(request);
    }
    request->times.finished = clock_now_ns();
}
