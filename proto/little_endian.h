/* Little-endian numbers of 1 to 8 bytes, as in headers of files and in carries, and byte
 * swapping of elements. Pure. */
#ifndef TALLY_PROTO_LITTLE_ENDIAN_H
#define TALLY_PROTO_LITTLE_ENDIAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* Reverse the byte order of each element (1, 2, 4 or 8 bytes); `bytes` is the size of all
 * elements. */
static inline void little_endian_swap(char *elements, uint64_t bytes, size_t element_bytes)
{
    uint16_t two = 0;
    uint32_t four = 0;
    uint64_t eight = 0;
    for (uint64_t at = 0; element_bytes == sizeof two && at < bytes; at += sizeof two) {
        memcpy(&two, elements + at, sizeof two);
        two = __builtin_bswap16(two);
        memcpy(elements + at, &two, sizeof two);
    }
    for (uint64_t at = 0; element_bytes == sizeof four && at < bytes; at += sizeof four) {
        memcpy(&four, elements + at, sizeof four);
        four = __builtin_bswap32(four);
        memcpy(elements + at, &four, sizeof four);
    }
    for (uint64_t at = 0; element_bytes == sizeof eight && at < bytes; at += sizeof eight) {
        memcpy(&eight, elements + at, sizeof eight);
        eight = __builtin_bswap64(eight);
        memcpy(elements + at, &eight, sizeof eight);
    }
}

#endif
