/* Compiler annotations and small macros shared by every layer. */
#ifndef TALLY_PROTO_MACROS_H
#define TALLY_PROTO_MACROS_H

#include <assert.h>
#include <stdint.h>

/* The result says whether the call worked: ignoring it is a bug. */
#define MUST_CHECK __attribute__((warn_unused_result))

/* printf-like function: position of the format and of its first argument. */
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))

#define ARRAY_COUNT(a) (sizeof(a) / sizeof(*(a)))

/* A file that is embedded when Tally is built: a string of that name, which other files have, too.
 * The path is relative to the top folder, where make runs. */
#define EMBED(name, file)                                                                      \
    __asm__(".pushsection .rodata\n" #name ":\n.incbin \"" file "\"\n.byte 0\n.popsection\n"); \
    extern const char name[] __attribute__((visibility("hidden")))

/* A call that gives 0 unless we have made a mistake: of a lock, a condition, a thread. */
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
