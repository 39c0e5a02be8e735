/* Compiler annotations and small macros, for all layers. */
#ifndef TALLY_PROTO_MACROS_H
#define TALLY_PROTO_MACROS_H

#include <assert.h>
#include <stdint.h>

/* The result reports failure: ignoring it is a bug. */
#define MUST_CHECK __attribute__((warn_unused_result))

/* printf-like function: position of the format and of its first argument. */
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))

#define ARRAY_COUNT(a) (sizeof(a) / sizeof(*(a)))

/* Declare a file that the build embeds: a string named `name`, which other files can declare,
 * too. The path is relative to the top folder, where make runs. */
#define EMBED(name, file)                                                                      \
    __asm__(".pushsection .rodata\n" #name ":\n.incbin \"" file "\"\n.byte 0\n.popsection\n"); \
    extern const char name[] __attribute__((visibility("hidden")))

/* A call for a lock, a condition variable or a thread, which returns 0 unless our code is
 * wrong. */
#define MUST(call) must_succeed(call)
static inline void must_succeed(int code)
{
    assert(code == 0);
    (void)code;
}

static inline uint64_t smaller_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t larger_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
