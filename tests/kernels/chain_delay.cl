/* Appended to scan_types.cl in tests/kernels/test_scan_chain.c: units of cut lines stop at their steps
 * at random, most not at all, some for about as long as others wait for them, a few for far
 * longer. */
static inline void chain_delay(ulong step)
{
    ulong random = step;
#if defined(__has_builtin)
#if __has_builtin(__builtin_readcyclecounter)
    random += __builtin_readcyclecounter();
#endif
#endif
    random = (random ^ (random >> 31)) * 0xBF58476D1CE4E5B9UL;
    random = (random ^ (random >> 27)) * 0x94D049BB133111EBUL;
    random ^= random >> 32;
    uint turns = random % 32 == 0 ? 60000 : random % 8 == 0 ? (uint)(random >> 40) % 20000 : 0;
    for (volatile uint i = 0; i < turns; i++) {
    }
}
#define CHAIN_STEP(step) chain_delay(step);
