/* One buffer, as long as the declared length or doubled. */
#include "server/infer/packed_body.h"

#include "server/base/config.h"
#include "server/http/body.h"
#include "server/sched/codec_pool.h"
#include "server/sched/server.h"

#include <stdlib.h>
#include <string.h>

enum {
    FIRST_BYTES = 4096,
    STEP_BYTES = 512 /* unpacked in a step: up to half a MiB comes out */
};

static enum status ensure(struct exchange *x, size_t want, struct error *err)
{
    struct packed_body *packed = &x->packed_body;
    int64_t declared = x->door.content_length;
    if (want <= packed->capacity) {
        return STATUS_OK;
    }
    size_t capacity = packed->capacity > 0 ? 2 * packed->capacity : FIRST_BYTES;
    if (declared >= 0 && (uint64_t)declared >= want) {
        capacity = (size_t)declared;
    }
    capacity = capacity < want ? want : capacity; /* bounded by --max-body-bytes */
    enum status status = body_reserve(&x->request, capacity - packed->capacity, err);
    if (status != STATUS_OK) {
        return status;
    }
    uint64_t reserved = capacity - packed->capacity;
    char *grown = realloc(packed->bytes, capacity);
    if (grown == NULL) {
        memory_release(x->request.server->memory, reserved);
        x->request.reserved_bytes -= reserved;
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for %zu bytes of the body",
                         capacity);
    }
    packed->bytes = grown;
    packed->capacity = capacity;
    return STATUS_OK;
}

enum status packed_body_keep(struct exchange *x, const void *bytes, size_t count,
                             struct error *err)
{
    struct packed_body *packed = &x->packed_body;
    if (count > x->body_limit - packed->count) {
        char limit[32];
        config_size_text(x->body_limit, limit, sizeof limit);
        return error_set(
            err, STATUS_TOO_LARGE,
            "the packed body is over %s, the server's --max-body-bytes: " CONFIG_LESS_ADVICE,
            limit);
    }
    enum status status = ensure(x, packed->count + count, err);
    if (status == STATUS_OK) {
        memcpy(packed->bytes + packed->count, bytes, count);
        packed->count += count;
    }
    return status;
}

enum status packed_body_unpack(struct exchange *x, inflate_sink sink, uint64_t most,
                               const struct parallel *parallel, struct error *err)
{
    struct packed_body *packed = &x->packed_body;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && packed->at < packed->count) {
        size_t left = packed->count - packed->at;
        size_t count = left < STEP_BYTES ? left : STEP_BYTES;
        if (!parallel_step(parallel)) {
            return parallel_given_up(err);
        }
        if (x->body_unpacked >= most) {
            return STATUS_OK;
        }
        status = inflate_feed(x->inflate, packed->bytes + packed->at, count, sink, x, err);
        packed->at += count;
    }
    if (status == STATUS_OK) {
        status = inflate_finish(x->inflate, err);
    }
    packed_body_free(x);
    inflate_destroy(x->inflate);
    x->inflate = NULL;
    return status;
}

void packed_body_free(struct exchange *x)
{
    struct request *request = &x->request;
    const struct packed_body *packed = &x->packed_body;
    if (packed->bytes != NULL) {
        request->reserved_bytes -= packed->capacity;
        codec_pool_discard(
            request->server->codecs, request->server->memory,
            (struct codec_discard){packed->bytes, packed->capacity, packed->capacity});
    }
    x->packed_body = (struct packed_body){.bytes = NULL};
}
