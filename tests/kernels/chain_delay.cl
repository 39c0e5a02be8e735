/* Appended to types.cl in tests/kernels/test_scan_chain.c: work items of cut lines stop at
 * their steps at random, most not at all, some for about as long as others wait for them, a few
 * for far longer. The first of a launch stops longest, before it takes the sums before its line:
 * long enough for others to finish a short line. */
static inline void chain_delay(ulong step)
{
    ulong random = step;
    random = (random ^ (random >> 31)) * 0xBF58476D1CE4E5B9UL;
    random = (random ^ (random >> 27)) * 0x94D049BB133111EBUL;
    random ^= random >> 32;
    uint turns = 0;
    if (step == 0) {
        turns = 400000;
    } else if (random % 32 == 0) {
        turns = 60000;
    } else if (random % 8 == 0) {
        turns = (uint)(random >> 8) % 20000u;
    }
    for (volatile uint turn = 0; turn < turns; turn++) {
    }
}
#define CHAIN_TEST_DELAY(step) chain_delay(step);
#define CHAIN_SPINS 256 /* so that some of them are waited for in vain */
