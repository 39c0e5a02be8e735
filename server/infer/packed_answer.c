/* A zlib stream into one buffer that doubles; see packed_answer.h. */
#include "server/infer/packed_answer.h"

#include "server/infer/inflate.h"
#include "server/infer/land.h"
#include "server/sched/server.h"

#include <stdlib.h>
#include <string.h>

enum {
    FIRST_BYTES = 4096,
    STEP_BYTES = 64 << 10 /* packed between two steps: about a millisecond of numbers */
};

struct growing {
    struct request *request;
    char *bytes;
    size_t count;
    size_t capacity; /* reserved, too */
};

static void give_back(const struct growing *packed, size_t bytes)
{
    memory_release(packed->request->server->memory, bytes);
    packed->request->reserved_bytes -= bytes;
}

/* inflate_sink */
static enum status append(void *context, const void *bytes, size_t count, struct error *err)
{
    struct growing *packed = context;
    size_t need = packed->count + count;
    if (need > packed->capacity) {
        size_t capacity = packed->capacity > 0 ? 2 * packed->capacity : FIRST_BYTES;
        capacity = capacity < need ? need : capacity;
        size_t more = capacity - packed->capacity;
        enum status status = land_reserve(packed->request, more, err);
        if (status != STATUS_OK) {
            return status;
        }
        char *grown = realloc(packed->bytes, capacity);
        if (grown == NULL) {
            give_back(packed, more);
            return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the packed answer");
        }
        packed->bytes = grown;
        packed->capacity = capacity;
    }
    memcpy(packed->bytes + packed->count, bytes, count);
    packed->count = need;
    return STATUS_OK;
}

static enum status pack_view(struct deflate *pack, struct byte_view view,
                             const struct parallel *parallel, struct growing *packed,
                             struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t at = 0; status == STATUS_OK && at < view.count; at += STEP_BYTES) {
        size_t left = view.count - at;
        status = deflate_feed(pack, (const char *)view.bytes + at,
                              left < STEP_BYTES ? left : STEP_BYTES, append, packed, err);
        if (status == STATUS_OK && !parallel_step(parallel)) {
            status = parallel_given_up(err);
        }
    }
    return status;
}

enum status packed_answer_make(struct request *request, enum coding coding,
                               const struct byte_view views[2], const struct parallel *parallel,
                               struct packed_answer *out, struct error *err)
{
    struct growing packed = {.request = request};
    struct deflate *pack = NULL;
    enum status status = deflate_create(coding, &pack, err);
    for (int i = 0; i < 2 && status == STATUS_OK; i++) {
        status = pack_view(pack, views[i], parallel, &packed, err);
    }
    if (status == STATUS_OK) {
        status = deflate_finish(pack, append, &packed, err);
    }
    deflate_destroy(pack);
    if (status != STATUS_OK) {
        free(packed.bytes);
        give_back(&packed, packed.capacity);
        return status;
    }
    char *fitted = realloc(packed.bytes, packed.count);
    if (fitted != NULL) {
        give_back(&packed, packed.capacity - packed.count);
        packed.bytes = fitted;
    }
    *out = (struct packed_answer){packed.bytes, packed.count};
    return STATUS_OK;
}
