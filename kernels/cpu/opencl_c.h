/* The built-in functions of OpenCL C that Tally's kernels use, for kernels that are compiled
 * ahead for the processor. A kernel that uses another function does not link; add the function
 * here. The types and as_*() are the compiler's (opencl-c-base.h).
 *
 * A kernel asks once which work-item runs on its thread (item.h). */
#define OVERLOADED static inline __attribute__((overloadable, always_inline))

#include "item.h"

/* The driver calls a kernel as an ordinary function. Functions that clang knows as kernels
 * have a separate calling convention, for which clang has no code on arm64. Kernels for GPUs
 * must stay kernels because of their local memory: tests compile them for x86-64. */
#if !defined(__x86_64__)
#define __kernel
#endif

void cpu_barrier(void);

/* Work-items have one dimension. */
#define get_global_id(d) (cpu_item()->global_id)
#define get_local_id(d)  (cpu_item()->local_id)
#define get_group_id(d)  (cpu_item()->group_id)
#define barrier(fence)   cpu_barrier()
#define mem_fence(fence) __atomic_thread_fence(__ATOMIC_SEQ_CST)

#define atomic_inc(p)     __atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST)
#define atomic_xchg(p, v) __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST)

OVERLOADED uint atomic_cmpxchg(volatile __global uint *p, uint expected, uint desired)
{
    (void)__atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST);
    return expected;
}

#define ATOMIC_OF_GROUP(name, type)                                 \
    OVERLOADED type atomic_##name(volatile __local type *p, type v) \
    {                                                               \
        return __atomic_fetch_##name(p, v, __ATOMIC_SEQ_CST);       \
    }
ATOMIC_OF_GROUP(max, int)
ATOMIC_OF_GROUP(max, uint)
ATOMIC_OF_GROUP(min, int)
ATOMIC_OF_GROUP(or, uint)

#define LEAST_AND_MOST(type)            \
    OVERLOADED type min(type a, type b) \
    {                                   \
        return b < a ? b : a;           \
    }                                   \
    OVERLOADED type max(type a, type b) \
    {                                   \
        return a < b ? b : a;           \
    }
LEAST_AND_MOST(uint)
LEAST_AND_MOST(ulong)
LEAST_AND_MOST(int)

OVERLOADED uint clz(uint x)
{
    return x != 0 ? (uint)__builtin_clz(x) : 32;
}

OVERLOADED ulong clz(ulong x)
{
    return x != 0 ? (ulong)__builtin_clzl(x) : 64;
}

OVERLOADED ulong abs(long x)
{
    return x < 0 ? 0 - (ulong)x : (ulong)x;
}

#define isnan(x)             ((x) != (x))
#define convert_long_rtz(x)  ((long)(x))
#define convert_float_rte(n) ((float)(n))
#define convert_double(n)    ((double)(n))
