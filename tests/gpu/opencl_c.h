/* The built-in functions of OpenCL C that the kernels for GPUs use, as the drivers of AMD and
 * NVIDIA define them, so that clang compiles these kernels without a driver (programs.py). A
 * kernel that uses another function does not compile; add the function here.
 *
 * Scopes are essential: mem_fence() and barrier() order memory for the work-group only, as
 * section 6.15.12.5 of OpenCL 3.0 allows, and as ROCm's library and NVIDIA's driver do. */
#define OVERLOADED static inline __attribute__((overloadable, always_inline))

#if defined(__NVPTX__)
#define get_local_id(d)  ((size_t)__nvvm_read_ptx_sreg_tid_x())
#define get_group_id(d)  ((size_t)__nvvm_read_ptx_sreg_ctaid_x())
#define GROUP_SIZE       ((size_t)__nvvm_read_ptx_sreg_ntid_x())
#define barrier(flags)   __syncthreads()
#define mem_fence(flags) __nvvm_membar_cta()
#elif defined(__AMDGCN__)
#define get_local_id(d) ((size_t)__builtin_amdgcn_workitem_id_x())
#define get_group_id(d) ((size_t)__builtin_amdgcn_workgroup_id_x())
#define GROUP_SIZE      ((size_t)__builtin_amdgcn_workgroup_size_x())
#define barrier(flags)                                         \
    do {                                                       \
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); \
        __builtin_amdgcn_s_barrier();                          \
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); \
    } while (0)
#define mem_fence(flags) __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "workgroup")
#else
#error "no GPU that is known here"
#endif
#define get_global_id(d) (get_group_id(0) * GROUP_SIZE + get_local_id(0))

/* The atomics of OpenCL 1.2: relaxed, for the whole device. */
#define atomic_inc(p) __scoped_atomic_fetch_add(p, 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE)
#define atomic_xchg(p, v) \
    __scoped_atomic_exchange_n(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE)

#define ATOMIC_OF_GROUP(name, builtin, type)                                                   \
    OVERLOADED type atomic_##name(volatile __local type *p, type v)                            \
    {                                                                                          \
        return __scoped_atomic_fetch_##builtin(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_WRKGRP); \
    }
ATOMIC_OF_GROUP(max, max, int)
ATOMIC_OF_GROUP(max, max, uint)
ATOMIC_OF_GROUP(min, min, int)
ATOMIC_OF_GROUP(or, or, uint)

OVERLOADED uint atomic_cmpxchg(volatile __global uint *p, uint expected, uint desired)
{
    (void)__scoped_atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_RELAXED,
                                             __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    return expected;
}

#define LEAST_AND_MOST(type)            \
    OVERLOADED type min(type a, type b) \
    {                                   \
        return b < a ? b : a;           \
    }                                   \
    OVERLOADED type max(type a, type b) \
    {                                   \
        return a < b ? b : a;           \
    }
LEAST_AND_MOST(int)
LEAST_AND_MOST(uint)
LEAST_AND_MOST(ulong)

#define convert_long_rtz(x)  ((long)(x))
#define convert_float_rte(n) ((float)(n))
#define convert_double(n)    ((double)(n))

OVERLOADED ulong clz(ulong x)
{
    return x != 0 ? (ulong)__builtin_clzl(x) : 64;
}
