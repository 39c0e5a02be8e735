/* Receives and decompresses bodies; see body.h. */
#include "server/job/body.h"

#include "proto/byte_size.h"
#include "server/base/config.h"
#include "server/job/cursor.h"
#include "server/job/infer.h"
#include "server/job/infer_memory.h"
#include "server/job/inflate.h"
#include "server/sched/completion.h"
#include "server/sched/server.h"
#include "server/sched/work.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum {
    /* compressed bytes decompressed in a step: up to half a MiB of content */
    UNPACK_STEP_BYTES = 512,
    TOUCH_BYTES = 8 << 20, /* bytes whose pages are touched by one job */
    TOUCH_STEP = 2 << 20,  /* bytes that one thread touches at a time: a huge page */
    TOUCH_NS = 1 << 22,    /* estimated time of TOUCH_BYTES */
    /* up to this many bytes after the payload are counted, so that the codec reports their
     * number */
    EXCESS_BYTES = 1 << 20
};

static enum status refuse_too_large(const struct request *request, const char *what,
                                    struct error *err)
{
    char limit[32];
    byte_size_text(request->body.limit, limit, sizeof limit);
    return error_set(err, STATUS_TOO_LARGE, "the %s over %s, %s", what, limit,
                     request->arrival.codec == NULL
                         ? "the limit of this path"
                         : "the server's --max-body-bytes: " CONFIG_LESS_ADVICE);
}

/* Returns the final length of the head, so that its memory is allocated once; 0: not known. */
static size_t head_whole(const struct request *request, size_t want)
{
    const int64_t declared = request->arrival.codec_request.body_bytes;
    /* head_need grows step by step while a carry is read, so it is not the final length */
    const uint64_t carry = request->arrival.codec_request.carry_bytes;
    const uint64_t need = request->body.head_need;
    if (declared < 0) {
        return 0; /* no length in the head is trusted, because the client chooses it */
    }
    if (need == UINT64_MAX || request->body.spill) { /* the head may be the whole body */
        return (size_t)declared;
    }
    return carry > 0 && want > CARRY_HEADER_BYTES ? larger_of(need, carry + CARRY_ROOM) : need;
}

/* Returns the used bytes of the head's buffer: the head, its NUL and the payload buffered
 * behind it. */
static size_t head_end(const struct request *request)
{
    return request->body.head_bytes + (request->body.spill ? 1 + request->body.spilled : 0);
}

/* Ensure room for a head of `want` bytes and its NUL. */
static enum status reserve_head(struct request *request, size_t want, struct error *err)
{
    return infer_text_reserve(request, &request->body.head, head_end(request), want,
                              head_whole(request, want), err);
}

/* Returns true if the head is, or may be, the whole body. Such a head is decoded after the body
 * has ended. */
static bool head_is_whole_body(const struct request *request)
{
    return request->body.head_need == UINT64_MAX ||
           (request->body.head_bytes > 0 &&
            request->arrival.codec_request.body_bytes == (int64_t)request->body.head_bytes);
}

/* The head has reached the length that the codec last asked for. Ask the codec again, and
 * decode the head if it is complete. */
static enum status update_head_need(struct request *request, struct error *err)
{
    struct request_body *body = &request->body;
    if (request->arrival.codec == NULL) {
        body->head_need = body->unwanted ? 0 : UINT64_MAX;
        return STATUS_OK;
    }
    const struct byte_view head = {request->body.head.bytes, request->body.head_bytes};
    TRY(request->arrival.codec->head_need(&request->arrival.codec_request, head,
                                          &body->head_need, err));
    if (body->head_need != request->body.head_bytes || head_is_whole_body(request)) {
        return STATUS_OK;
    }
    /* A long text is decoded by a work thread. A carry and offsets are not text: the codec has
     * checked the carry step by step, and checks offsets when the body is complete. */
    const struct codec_request *codec = &request->arrival.codec_request;
    if (request->body.head_bytes > request->server->config->inline_json_bytes &&
        codec->carry_bytes == 0 && codec->offsets_bytes == 0) {
        body->spill = true;
        return STATUS_OK;
    }
    return infer_decode(request, err);
}

enum status body_begin(struct request *request, struct error *err)
{
    struct request_body *body = &request->body;
    bool packed = body->coding != CODING_IDENTITY;
    bool unknown = body->chunked || (packed && body->declared > 0);
    int64_t declared = body->declared < 0 ? 0 : body->declared;
    body->limit = BODY_PAGE_BYTES;
    if (request->arrival.codec != NULL) {
        body->limit = request->server->config->max_body_bytes;
        request->work = work_parallel(request->server->work, request);
        request->parallel = &request->work.parallel;
    }
    request->arrival.codec_request.body_bytes = unknown ? -1 : declared;
    if ((uint64_t)declared > body->limit) {
        char has[64];
        (void)snprintf(has, sizeof has, "body has %" PRId64 " bytes,", declared);
        return refuse_too_large(request, has, err);
    }
    if (packed && unknown && !body->unwanted) {
        TRY(inflate_create(body->coding, &body->inflate, err));
    }
    return update_head_need(request, err);
}

static enum status feed_head(struct request *request, const char *bytes, size_t count,
                             size_t *used, struct error *err)
{
    struct request_body *body = &request->body;
    size_t take = smaller_of(count, body->head_need - request->body.head_bytes);
    TRY(reserve_head(request, request->body.head_bytes + take, err));
    memcpy(request->body.head.bytes + request->body.head_bytes, bytes, take);
    request->body.head_bytes += take;
    request->body.head.bytes[request->body.head_bytes] = '\0';
    *used = take;
    return request->body.head_bytes == body->head_need ? update_head_need(request, err)
                                                       : STATUS_OK;
}

/* Buffer payload behind a long head. The work pool decodes the head after the body has
 * ended. */
static enum status feed_spill(struct request *request, const char *bytes, size_t count,
                              struct error *err)
{
    struct request_body *body = &request->body;
    TRY(reserve_head(request, head_end(request) + count, err));
    memcpy(request->body.head.bytes + head_end(request), bytes, count);
    body->spilled += count;
    return STATUS_OK;
}

/* Ensure that the block has room for `end` bytes of payload. */
static enum status reserve_payload(struct request *request, uint64_t end, struct error *err)
{
    const struct request_body *body = &request->body;
    if (end <= body->payload_room || body->payload_room >= request->scan.call.payload_max) {
        return STATUS_OK;
    }
    TRY(infer_grow(request, end, err));
    if (request->scan.cursor == NULL) {
        cursor_begin(request);
    }
    return STATUS_OK;
}

/* Ensure room for `more` bytes of a compressed body; --max-body-bytes bounds its length. */
static enum status reserve_packed(struct request *request, size_t more, struct error *err)
{
    struct packed_body *packed = &request->body.packed;
    const int64_t declared = request->body.declared;
    return infer_text_reserve(request, &packed->text, packed->count, packed->count + more,
                              declared < 0 ? 0 : (size_t)declared, err);
}

/* Ensure room for the next `count` bytes of the body, as sent. Returns false if there is no
 * room, or if the destination of the bytes is not known yet. Then body_feed() will fail, too,
 * and report the error. */
static bool reserve_landing(struct request *request, size_t count)
{
    const struct request_body *body = &request->body;
    const size_t head_left = body->head_need - body->head_bytes;
    struct error ignored = ERROR_INIT;
    const enum status status =
        body->inflate != NULL ? reserve_packed(request, count, &ignored)
        : head_left > 0
            ? reserve_head(request, body->head_bytes + smaller_of(count, head_left), &ignored)
        : body->spill ? reserve_head(request, head_end(request) + count, &ignored)
        : request->scan.decoded
            ? reserve_payload(request, body->payload_received + count, &ignored)
            : STATUS_LENGTH_MISMATCH;
    return status == STATUS_OK;
}

/* The destination of the next bytes of the body, as sent. */
struct landing {
    struct memory_block *block;
    uint64_t at;       /* offset of the next byte in the block */
    uint64_t most;     /* bytes of the block that the body may fill */
    uint64_t reserved; /* bytes at the start of the block that are reserved from the budget */
};

static struct landing landing_of(struct request *request)
{
    struct request_body *body = &request->body;
    if (body->inflate != NULL) {
        struct text *text = &body->packed.text;
        return (struct landing){&text->block, body->packed.count, text->capacity,
                                text->charged};
    }
    if (body->head_need != request->body.head_bytes || body->spill) {
        return (struct landing){&request->body.head.block, head_end(request),
                                request->body.head.capacity, request->body.head.charged};
    }
    return (struct landing){&request->memory.block, request->body.payload_received,
                            request->scan.call.payload_max, body->payload_room};
}

/* The pages of one touch_job(). */
struct touching {
    const struct memory_block *block;
    uint64_t end;
};

static void touch_piece(void *context, int index)
{
    const struct touching *touching = context;
    const uint64_t from = touching->block->touched + (uint64_t)index * TOUCH_STEP;
    memory_touch(touching->block, from, smaller_of(from + TOUCH_STEP, touching->end));
}

/* Touch the next pages of the body's destination, in parallel: the host of a virtual machine
 * may need milliseconds for a huge page, but provides several pages at a time. Thread: of the
 * work pool. */
static void touch_job(struct request *request)
{
    struct completion *completion = request->completion;
    const struct work_parallel codecs = work_parallel(request->server->work, request);
    const struct landing landing = landing_of(request);
    struct memory_block *block = landing.block;
    /* Touch no more than the claim of the request: a slow client gets memory in steps. */
    const uint64_t most =
        smaller_of(landing.most, larger_of(request->admission.claim, landing.reserved));
    struct touching touching = {block, smaller_of(block->touched + TOUCH_BYTES, most)};
    const uint64_t lack = touching.end > block->touched ? touching.end - block->touched : 0;
    const int count = (int)((lack + TOUCH_STEP - 1) / TOUCH_STEP);
    if (codecs.parallel.run(&codecs.parallel, count, touch_piece, &touching)) {
        block->touched += lack;
    } else {
        (void)work_given_up(request);
    }
    completion_post(completion, request);
}

bool body_has_pages(struct request *request, size_t count)
{
    const int64_t declared = request->body.declared;
    const bool is_short = declared >= 0 && declared < ADMISSION_LARGE_BYTES;
    if (is_short || !reserve_landing(request, count)) {
        return true;
    }
    const struct landing landing = landing_of(request);
    const uint64_t end = smaller_of(landing.at + count, landing.reserved);
    if (landing.block->slab == NULL || landing.most < ADMISSION_LARGE_BYTES ||
        end <= landing.block->touched) {
        return true; /* the block is short, or its pages have been touched */
    }
    work_submit(request->server->work, request, TOUCH_NS, touch_job);
    return false;
}

void body_forget_pages(struct request *request)
{
    const struct landing landing = landing_of(request);
    const uint64_t end = smaller_of(landing.block->touched, landing.most);
    if (landing.block->slab != NULL && landing.most >= ADMISSION_LARGE_BYTES &&
        end > landing.reserved) {
        (void)memory_untouch(landing.block, (size_t)landing.reserved, (size_t)end);
    }
}

static enum status feed_payload(struct request *request, const char *bytes, size_t count,
                                struct error *err)
{
    struct request_body *body = &request->body;
    uint64_t end = request->body.payload_received + count;
    if (!request->scan.decoded || (end > request->scan.call.payload_max &&
                                   end - request->scan.call.payload_max > EXCESS_BYTES)) {
        return error_set(
            err, STATUS_LENGTH_MISMATCH,
            "the body goes on after the %" PRIu64 " bytes that the request describes",
            request->scan.decoded ? request->scan.call.payload_max : request->body.head_bytes);
    }
    TRY(reserve_payload(request, end, err));
    /* Bytes beyond the payload are counted, not stored: codec->complete() reports the error. */
    if (request->body.payload_received < body->payload_room) {
        size_t room = body->payload_room - (size_t)request->body.payload_received;
        char *input = request_block_at(request, request->memory.in_offset);
        memcpy(input + request->body.payload_received, bytes, smaller_of(count, room));
    }
    request->body.payload_received = end;
    return request->scan.cursor == NULL ? STATUS_OK : cursor_feed(request);
}

/* Store the next bytes of the decompressed body. */
static enum status store_bytes(void *context, const void *data, size_t count, struct error *err)
{
    struct request *request = context;
    struct request_body *body = &request->body;
    const char *bytes = data;
    body->unpacked += count;
    if (body->unpacked > body->limit) {
        return refuse_too_large(request,
                                body->inflate != NULL ? "decompressed body is"
                                                      : "body is longer than it may be,",
                                err);
    }
    while (count > 0 && !body->unwanted) {
        size_t used = count;
        bool to_head = body->head_need != request->body.head_bytes;
        TRY(to_head       ? feed_head(request, bytes, count, &used, err)
            : body->spill ? feed_spill(request, bytes, count, err)
                          : feed_payload(request, bytes, count, err));
        bytes += used;
        count -= used;
    }
    return STATUS_OK;
}

enum status body_feed(struct request *request, const void *bytes, size_t count,
                      struct error *err)
{
    struct request_body *body = &request->body;
    struct packed_body *packed = &body->packed;
    if (body->inflate == NULL) {
        return store_bytes(request, bytes, count, err);
    }
    if (count > body->limit - packed->count) {
        return refuse_too_large(request, "compressed body is", err);
    }
    TRY(reserve_packed(request, count, err));
    memcpy(packed->text.bytes + packed->count, bytes, count);
    packed->count += count;
    return STATUS_OK;
}

enum status body_receive(struct request *request, const void *bytes, size_t count,
                         struct error *err)
{
    if (!infer_admit(request, count) || !body_has_pages(request, count)) {
        return STATUS_OK; /* another thread owns the request */
    }
    request->body.received += count;
    return body_feed(request, bytes, count, err);
}

/* Check a body that has ended. If the head is not complete, ask the codec once more with the
 * length of the body, so that the codec reports the same error as for a declared length. */
static enum status check_head_is_whole(struct request *request, struct error *err)
{
    struct request_body *body = &request->body;
    if (request->scan.decoded || body->head_need == UINT64_MAX ||
        body->head_need == request->body.head_bytes) {
        return STATUS_OK;
    }
    request->arrival.codec_request.body_bytes = (int64_t)request->body.head_bytes;
    const struct byte_view head = {request->body.head.bytes, request->body.head_bytes};
    TRY(request->arrival.codec->head_need(&request->arrival.codec_request, head,
                                          &body->head_need, err));
    /* the codec knows the length of the body */
    assert(body->head_need == request->body.head_bytes);
    return STATUS_OK;
}

void body_release(struct request *request)
{
    struct request_body *body = &request->body;
    struct packed_body *packed = &body->packed;
    infer_text_free(request, &packed->text);
    *packed = (struct packed_body){.count = 0};
    inflate_destroy(body->inflate);
    body->inflate = NULL;
}

enum status body_unpack(struct request *request, uint64_t most, struct error *err)
{
    struct request_body *body = &request->body;
    struct packed_body *packed = &body->packed;
    enum status status = STATUS_OK;
    if (body->inflate == NULL) {
        return STATUS_OK;
    }
    while (status == STATUS_OK && packed->at < packed->count) { /* steps of a millisecond */
        size_t count = smaller_of(packed->count - packed->at, UNPACK_STEP_BYTES);
        if (!parallel_step(request->parallel)) {
            return parallel_given_up(err);
        }
        if (body->unpacked >= most) {
            return STATUS_OK;
        }
        status = inflate_feed(body->inflate, packed->text.bytes + packed->at, count,
                              store_bytes, request, err);
        packed->at += count;
    }
    if (status == STATUS_OK) {
        status = inflate_finish(body->inflate, err);
    }
    body_release(request);
    return status == STATUS_OK ? check_head_is_whole(request, err) : status;
}

enum status body_finish(struct request *request, struct error *err)
{
    if (request->body.inflate == NULL) {
        return check_head_is_whole(request, err);
    }
    return request->arrival.codec == NULL ? body_unpack(request, UINT64_MAX, err) : STATUS_OK;
}
