/* Receives bodies; see body.h. */
#include "server/http/body.h"

#include "server/base/config.h"
#include "server/infer/infer.h"
#include "server/infer/infer_memory.h"
#include "server/infer/slices.h"
#include "server/sched/server.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    FIRST_HEAD_BYTES = 4096,
    FORGET_BYTES = 1 << 20,
    EXCESS_BYTES = 1 << 20 /* that are counted for the codec to complain about, before we do */
};

enum status body_reserve(struct request *request, uint64_t bytes, struct error *err)
{
    uint64_t whole = 0;
    if (__builtin_add_overflow(request->reserved_bytes, bytes, &whole)) {
        whole = UINT64_MAX;
    }
    if (whole > memory_budget(request->server->memory)) {
        bytes = whole; /* which is refused for good: trying again would not help */
    }
    uint64_t *promised = &request->admission.promised_bytes;
    uint64_t beyond = bytes > *promised ? bytes - *promised : 0;
    uint64_t drawn = bytes - beyond;
    enum status status = memory_reserve(request->server->memory, beyond, err); /* 0 is fine */
    if (status == STATUS_OK) {
        memory_draw(request->server->memory, drawn);
        *promised -= drawn;
        request->reserved_bytes += bytes;
    }
    return status;
}

static enum status too_large(const struct exchange *x, uint64_t bytes, const char *what,
                             struct error *err)
{
    char limit[32];
    char has[64] = "is longer than it may be";
    config_size_text(x->body_limit, limit, sizeof limit);
    if (bytes > 0) {
        (void)snprintf(has, sizeof has, "has %" PRIu64 " bytes", bytes);
    }
    return error_set(err, STATUS_TOO_LARGE, "the %s %s, over %s, %s", what, has, limit,
                     x->request.codec == NULL
                         ? "the limit of this path"
                         : "the server's --max-body-bytes: " CONFIG_LESS_ADVICE);
}

/* Capacity to give the head so that it can hold `want` bytes. */
static size_t head_capacity_for(const struct exchange *x, size_t want)
{
    int64_t declared = x->request.codec_request.body_bytes;
    uint64_t most = x->head_need;
    if (most == UINT64_MAX && declared >= 0) {
        return (size_t)declared < want ? want : (size_t)declared; /* all of it, at once */
    }
    size_t capacity = FIRST_HEAD_BYTES;
    while (capacity < want) {
        capacity *= 2; /* bounded by twice --max-body-bytes */
    }
    return most < capacity ? (size_t)most : capacity;
}

/* Make room for a head of `want` bytes and its NUL. */
static enum status ensure_head(struct exchange *x, size_t want, struct error *err)
{
    struct request *request = &x->request;
    if (want > 0 && want <= x->head_reserved && want < request->head_capacity) {
        return STATUS_OK;
    }
    size_t capacity = head_capacity_for(x, want);
    uint64_t charged = 2 * x->head_reserved > want ? 2 * x->head_reserved : want;
    charged = charged > FIRST_HEAD_BYTES ? charged : FIRST_HEAD_BYTES;
    charged = charged < capacity ? charged : capacity;
    if (charged > x->head_reserved) {
        enum status status = body_reserve(request, charged - x->head_reserved, err);
        if (status != STATUS_OK) {
            return status;
        }
        x->head_reserved = charged;
    }
    if (capacity < request->head_capacity) {
        return STATUS_OK;
    }
    char *grown = realloc(request->head, capacity + 1);
    if (grown == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for %zu bytes of the body",
                         capacity);
    }
    request->head = grown;
    request->head_capacity = capacity + 1;
    return STATUS_OK;
}

/* Text may reach to the end of the body: then it is decoded when that has come, not before. */
static bool head_is_whole_body(const struct exchange *x)
{
    return x->head_need == UINT64_MAX ||
           (x->request.head_bytes > 0 &&
            x->request.codec_request.body_bytes == (int64_t)x->request.head_bytes);
}

/* The head holds what was last asked for: ask again; decode it if it is complete. */
static enum status head_step(struct exchange *x, struct error *err)
{
    struct request *request = &x->request;
    if (request->codec == NULL) {
        x->head_need = UINT64_MAX;
        return STATUS_OK;
    }
    const struct byte_view head = {request->head, request->head_bytes};
    enum status status =
        request->codec->head_need(&request->codec_request, head, &x->head_need, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (x->head_need != request->head_bytes) {
        return STATUS_OK; /* its memory is taken when it comes */
    }
    if (head_is_whole_body(x)) {
        return STATUS_OK;
    }
    if (request->head_bytes > request->server->config->inline_json_bytes) {
        x->spill = true;
        return STATUS_OK;
    }
    return infer_decode(x, err);
}

enum status body_begin(struct exchange *x, struct error *err)
{
    const struct door *door = &x->door;
    struct request *request = &x->request;
    bool packed = door->coding != DOOR_IDENTITY;
    bool unknown = door->chunked || (packed && door->content_length > 0);
    int64_t declared = door->content_length < 0 ? 0 : door->content_length;
    x->body_limit =
        request->codec == NULL ? PAGE_BODY_BYTES : request->server->config->max_body_bytes;
    request->codec_request.body_bytes = unknown ? -1 : declared;
    if ((uint64_t)declared > x->body_limit) {
        return too_large(x, (uint64_t)declared, "body", err);
    }
    if (packed && unknown) {
        enum status status = inflate_create(door->coding, x->body_limit, &x->inflate, err);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return head_step(x, err);
}

void body_forget_text(struct exchange *x, struct json_cut text)
{
    struct request *request = &x->request;
    const uintptr_t page = SLAB_ALIGN;
    uintptr_t from = ((uintptr_t)text.text + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)text.text + text.bytes) / page * page;
    if (text.bytes < FORGET_BYTES || to - from > x->head_reserved) {
        return;
    }
    /* Of memory from malloc(), but of whole pages that only this text is on: they read as
     * zeroes afterwards, which is as good as any other leftovers. */
    if (madvise(request->head + (from - (uintptr_t)request->head), to - from, MADV_DONTNEED) ==
        0) {
        memory_release(request->server->memory, to - from);
        request->reserved_bytes -= to - from;
        x->head_reserved -= to - from;
    }
}

static enum status feed_head(struct exchange *x, const char *bytes, size_t count, size_t *used,
                             struct error *err)
{
    struct request *request = &x->request;
    uint64_t wanted = x->head_need - request->head_bytes;
    size_t take = count < wanted ? count : (size_t)wanted;
    enum status status = ensure_head(x, request->head_bytes + take, err);
    if (status != STATUS_OK) {
        return status;
    }
    memcpy(request->head + request->head_bytes, bytes, take);
    request->head_bytes += take;
    request->head[request->head_bytes] = '\0';
    *used = take;
    return request->head_bytes == x->head_need ? head_step(x, err) : STATUS_OK;
}

/* Payload whose place is not known yet: the head is long, and decoded only in the codec pool.
 */
static enum status feed_spill(struct exchange *x, const char *bytes, size_t count,
                              struct error *err)
{
    struct request *request = &x->request;
    size_t end = request->head_bytes + 1 + x->spilled;
    x->head_need = UINT64_MAX; /* the buffer grows as if this were text */
    enum status status = ensure_head(x, end + count, err);
    x->head_need = request->head_bytes;
    if (status == STATUS_OK) {
        memcpy(request->head + end, bytes, count);
        x->spilled += count;
    }
    return status;
}

static enum status feed_payload(struct exchange *x, const char *bytes, size_t count,
                                struct error *err)
{
    struct request *request = &x->request;
    uint64_t end = request->payload_received + count;
    if (!request->decoded ||
        (end > request->call.payload_max && end - request->call.payload_max > EXCESS_BYTES)) {
        return error_set(err, STATUS_LENGTH_MISMATCH,
                         "the body goes on after the %" PRIu64
                         " bytes that the request describes",
                         request->decoded ? request->call.payload_max : request->head_bytes);
    }
    if (end > x->payload_room && x->payload_room < request->call.payload_max) {
        enum status status = infer_grow(x, end, err);
        if (status != STATUS_OK) {
            return status;
        }
        slices_begin(x);
    }
    /* What the codec cannot want is counted, not kept: complete() says what is wrong. */
    if (request->payload_received < x->payload_room) {
        size_t room = x->payload_room - (size_t)request->payload_received;
        char *input = (char *)slab_data(request->block.slab) + request->in_offset;
        memcpy(input + request->payload_received, bytes, count < room ? count : room);
    }
    request->payload_received = end;
    slices_feed(x);
    return STATUS_OK;
}

/* Unpacked bytes, in order. */
static enum status land(void *context, const void *data, size_t count, struct error *err)
{
    struct exchange *x = context;
    const char *bytes = data;
    x->body_unpacked += count;
    if (x->body_unpacked > x->body_limit) {
        return too_large(x, 0, "body", err);
    }
    while (count > 0) {
        size_t used = count;
        bool to_head = x->head_need != x->request.head_bytes;
        enum status status = to_head    ? feed_head(x, bytes, count, &used, err)
                             : x->spill ? feed_spill(x, bytes, count, err)
                                        : feed_payload(x, bytes, count, err);
        if (status != STATUS_OK) {
            return status;
        }
        bytes += used;
        count -= used;
    }
    return STATUS_OK;
}

enum status body_feed(struct exchange *x, const void *bytes, size_t count, struct error *err)
{
    if (x->inflate != NULL) {
        return packed_body_keep(x, bytes, count, err);
    }
    return land(x, bytes, count, err);
}

static enum status check_head(const struct exchange *x, struct error *err)
{
    const struct request *request = &x->request;
    if (!request->decoded && x->head_need != UINT64_MAX &&
        x->head_need != request->head_bytes) {
        return error_set(
            err, STATUS_LENGTH_MISMATCH,
            "the body ends after %zu bytes, in the middle of its header, which has "
            "at least %" PRIu64,
            request->head_bytes, x->head_need);
    }
    return STATUS_OK;
}

enum status body_unpack(struct exchange *x, uint64_t most, const struct parallel *parallel,
                        struct error *err)
{
    if (x->inflate == NULL) {
        return STATUS_OK;
    }
    enum status status = packed_body_unpack(x, land, most, parallel, err);
    return status == STATUS_OK && x->inflate == NULL ? check_head(x, err) : status;
}

enum status body_finish(struct exchange *x, struct error *err)
{
    if (x->inflate == NULL) {
        return check_head(x, err);
    }
    return x->request.codec == NULL ? body_unpack(x, UINT64_MAX, NULL, err) : STATUS_OK;
}
