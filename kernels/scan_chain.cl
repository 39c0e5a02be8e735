/* Long lines shared by work-items, on a CPU: a line (or a strip of them, side by side) is cut into
 * parts, whole blocks each, small enough for a core's L2 cache. The unit of a part
 *
 *   1. adds up its blocks (reading memory), if a part follows it,
 *   2. waits for the sums of the line before it, adds its blocks' totals to them one after the
 *      other, as docs/numerics.md orders them, and publishes the sums after it,
 *   3. scans its blocks (reading the cache) from the sums before it.
 *
 * A unit's number is a ticket that its work-item takes when it runs, so the part it waits for is
 * held by one that runs already: no assumption about the order of work-groups. Its thread may be
 * put aside by the system all the same, for long: then whoever waits adds up the missing parts
 * himself. Their input is still there, for a part is overwritten, if in place, by its own unit,
 * and only after the sums after it were published: what was added up before they were is right.
 *
 * In the launch's table, zero when the launch starts: a row of words of which the first counts
 * tickets, then for each line or strip a slot for each part: whether the sums before it are
 * there, then these sums. They are written once, or again with the same bits. */

#define CHAIN_HEAD  8 /* words: slots do not share a cache line with the tickets */
#define CHAIN_SPINS 4096 /* tens of microseconds: some times what adding up a part takes */

/* A step that tests delay at random (tests/kernels/chain_delay.cl). */
#if !defined(CHAIN_STEP)
#define CHAIN_STEP(unit)
#endif

#if defined(__has_builtin)
#if __has_builtin(__builtin_ia32_pause)
#define CHAIN_PAUSE() __builtin_ia32_pause()
#endif
#endif
#if !defined(CHAIN_PAUSE)
#define CHAIN_PAUSE()
#endif

/* The unit for this work-item. */
INLINE ulong chain_ticket(__global ulong *chain, bool chained)
{
    if (!chained) {
        return get_global_id(0);
    }
    ulong unit = atomic_inc((volatile __global uint *)chain);
    CHAIN_STEP(unit)
    return unit;
}

/* Are the sums there? They are to be read as volatile then. */
INLINE bool chain_ready(__global const ulong *slot)
{
    uint ready = *(volatile __global const uint *)slot;
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    return ready != 0;
}

/* Sums, written as volatile, are there. */
INLINE void chain_publish(__global ulong *slot)
{
    CHAIN_STEP((ulong)slot)
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    (void)atomic_xchg((volatile __global uint *)slot, 1);
}

/* Wait for the sums before a part, for a while; returns the last part, up to this one, that has
 * them. The first always has. */
INLINE ulong chain_wait(__global const ulong *slots, ulong slot_words, ulong part)
{
    for (uint i = 0; i < CHAIN_SPINS && part > 0; i++) {
        if (chain_ready(slots + part * slot_words)) {
            return part;
        }
        CHAIN_PAUSE();
    }
    while (part > 0 && !chain_ready(slots + part * slot_words)) {
        part--;
    }
    CHAIN_STEP((ulong)slots + part)
    return part;
}
