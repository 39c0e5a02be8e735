/* libFuzzer target: whole requests over sockets, against the service in this process. Inputs
 * are scripts in the format of wire_script.h; the mutator understands their records. */
#include "tests/fuzz/wire_script.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

enum {
    HEAD_BYTES = 3,
    MOST_NEW_BYTES = 24,
    SCRATCH_BYTES = 1 << 16
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    wire_script_run(data, size);
    return 0;
}

/* A record in a script. */
struct span {
    size_t at;
    size_t bytes; /* including its head */
};

static size_t record_bytes(const uint8_t *data, size_t size, size_t at)
{
    size_t length = HEAD_BYTES;
    if (at + HEAD_BYTES <= size) {
        length += (size_t)data[at + 1] | (size_t)data[at + 2] << 8;
    }
    return length < size - at ? length : size - at;
}

/* Choose a random record, or the empty one behind the last record. */
static struct span choose(const uint8_t *data, size_t size, unsigned *seed)
{
    size_t count = 1;
    for (size_t at = 0; at < size; at += record_bytes(data, size, at)) {
        count++;
    }
    size_t at = 0;
    for (size_t k = (size_t)rand_r(seed) % count; k > 0; k--) {
        at += record_bytes(data, size, at);
    }
    return (struct span){at, at < size ? record_bytes(data, size, at) : 0};
}

/* Replace the bytes of the span. Returns the new size; nothing changes if there is not enough
 * room. */
static size_t replace(uint8_t *data, size_t size, size_t room, struct span span,
                      const uint8_t *bytes, size_t count)
{
    if (size - span.bytes + count > room) {
        return size;
    }
    memmove(data + span.at + count, data + span.at + span.bytes, size - span.at - span.bytes);
    if (count > 0) {
        memcpy(data + span.at, bytes, count);
    }
    return size - span.bytes + count;
}

/* Make a random record. Most are requests, few of which are cut, late or edited. */
static size_t make_record(uint8_t *out, unsigned *seed)
{
    static const uint8_t usual[] = {0, 0, 0, 0, 0, 0, WIRE_OP_AWAIT, WIRE_OP_AWAIT};
    unsigned chance = (unsigned)rand_r(seed);
    uint8_t op =
        chance % 3 != 0 ? usual[chance / 3 % sizeof usual] : (uint8_t)(chance / 3 % 16);
    uint8_t length = op < WIRE_OP_BYTES ? MOST_NEW_BYTES : 2;
    for (int i = 0; i < MOST_NEW_BYTES; i++) {
        out[HEAD_BYTES + i] = (uint8_t)(rand_r(seed) >> 8);
    }
    if (rand_r(seed) % 4 != 0) {
        out[HEAD_BYTES + 7] = (uint8_t)(out[HEAD_BYTES + 7] % 200);
        out[HEAD_BYTES + 8] = 0;
        out[HEAD_BYTES + 9] = 0;
    }
    out[0] = (uint8_t)(op | (rand_r(seed) >> 8) % 4 << 4);
    out[1] = length;
    out[2] = 0;
    return HEAD_BYTES + (size_t)length;
}

/* Let libFuzzer mutate the content of a record. */
static size_t change_record(uint8_t *data, size_t size, size_t room, unsigned *seed)
{
    static uint8_t bytes[SCRATCH_BYTES];
    struct span span = choose(data, size, seed);
    if (span.bytes < HEAD_BYTES || span.bytes > SCRATCH_BYTES / 2) {
        return size;
    }
    size_t most = span.bytes - HEAD_BYTES + 64;
    memcpy(bytes, data + span.at, span.bytes);
    size_t length = LLVMFuzzerMutate(bytes + HEAD_BYTES, span.bytes - HEAD_BYTES, most);
    bytes[1] = (uint8_t)length;
    bytes[2] = (uint8_t)(length >> 8);
    return replace(data, size, room, span, bytes, HEAD_BYTES + length);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    static uint8_t bytes[SCRATCH_BYTES];
    struct span span = choose(data, size, &seed);
    struct span other = choose(data, size, &seed);
    size_t count = 0;
    switch (rand_r(&seed) % 8) {
    case 0:
    case 1: /* insert a random record */
        count = make_record(bytes, &seed);
        span.bytes = 0;
        return replace(data, size, room, span, bytes, count);
    case 2: /* delete a record */
        return size <= span.bytes ? size : replace(data, size, room, span, NULL, 0);
    case 3: /* copy a record to another place */
        if (other.bytes > SCRATCH_BYTES) {
            return size;
        }
        memcpy(bytes, data + other.at, other.bytes);
        span.bytes = 0;
        return replace(data, size, room, span, bytes, other.bytes);
    case 4: /* change the client of a record */
        if (span.bytes > 0) {
            data[span.at] ^= (uint8_t)((1 + rand_r(&seed) % 3) << 4);
        }
        return size;
    case 5: /* replace a record */
        count = make_record(bytes, &seed);
        return replace(data, size, room, span, bytes, count);
    default:
        return change_record(data, size, room, &seed);
    }
}
