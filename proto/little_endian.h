/* Numbers of so many bytes, the lowest first, as headers of files and carries have them. Pure. */
#ifndef TALLY_PROTO_LITTLE_ENDIAN_H
#define TALLY_PROTO_LITTLE_ENDIAN_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t little_endian_load(const void *from, size_t count)
{
    const unsigned char *bytes = from;
    uint64_t value = 0;
    for (size_t i = count; i > 0; i--) {
        value = value << 8 | bytes[i - 1];
    }
    return value;
}

static inline void little_endian_store(void *to, size_t count, uint64_t value)
{
    unsigned char *bytes = to;
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (unsigned char)(value >> 8 * i);
    }
}

#endif
