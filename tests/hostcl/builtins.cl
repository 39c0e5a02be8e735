/* The built-in functions that Tally's kernels use, for hostcl_program.c to put before them. A kernel
 * that uses another one is not linked: add it here. */
size_t hostcl_global_id(void);
size_t hostcl_local_id(void);
size_t hostcl_group_id(void);
void hostcl_barrier(void);

#define ONE_DIMENSION(name)                                  \
    size_t __attribute__((overloadable)) get_##name(uint d)  \
    {                                                        \
        return d == 0 ? hostcl_##name() : 0;                 \
    }
ONE_DIMENSION(global_id)
ONE_DIMENSION(local_id)
ONE_DIMENSION(group_id)

void __attribute__((overloadable)) barrier(cl_mem_fence_flags flags)
{
    (void)flags;
    hostcl_barrier();
}

void __attribute__((overloadable)) mem_fence(cl_mem_fence_flags flags)
{
    (void)flags;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

uint __attribute__((overloadable)) atomic_inc(volatile __global uint *p)
{
    return __atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST);
}

uint __attribute__((overloadable)) atomic_xchg(volatile __global uint *p, uint value)
{
    return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);
}

uint __attribute__((overloadable)) atomic_or(volatile __global uint *p, uint value)
{
    return __atomic_fetch_or(p, value, __ATOMIC_SEQ_CST);
}

#define LEAST_AND_MOST(type)                                        \
    type __attribute__((overloadable)) min(type a, type b)          \
    {                                                               \
        return b < a ? b : a;                                       \
    }                                                               \
    type __attribute__((overloadable)) max(type a, type b)          \
    {                                                               \
        return a < b ? b : a;                                       \
    }
LEAST_AND_MOST(int)
LEAST_AND_MOST(uint)
LEAST_AND_MOST(long)
LEAST_AND_MOST(ulong)

uint __attribute__((overloadable)) clz(uint x)
{
    return x != 0 ? (uint)__builtin_clz(x) : 32;
}

ulong __attribute__((overloadable)) clz(ulong x)
{
    return x != 0 ? (ulong)__builtin_clzl(x) : 64;
}

ulong __attribute__((overloadable)) abs(long x)
{
    return x < 0 ? 0 - (ulong)x : (ulong)x;
}

ulong __attribute__((overloadable)) abs_diff(long a, long b)
{
    return a < b ? (ulong)b - (ulong)a : (ulong)a - (ulong)b;
}

int __attribute__((overloadable)) isnan(float x)
{
    return x != x;
}

int __attribute__((overloadable)) isnan(double x)
{
    return x != x;
}
