/* The protocol by which work-groups of gpu_lookback.cl share the total of a block, for the model
 * checker Spin: lookback.sh runs it.
 *
 * One work-group owns the block. Its lane A sums the block, publishes the total, and passes FENCE();
 * behind the barrier of the work-group, lane B overwrites the input, as a scan in place does.
 * READERS other work-groups look for the total LOOKS times. A reader that looked in vain sums the
 * block from the input, passes FENCE(), looks for the last time, and publishes its own sum if the
 * total is still missing. The claim: every reader ends with the right total.
 *
 * Memory order. A lane performs its accesses of memory in any order that the protocol does not forbid.
 * It forbids
 *
 *   - to perform an access before the value that it stores is known (data),
 *   - to perform a store or an atomic operation before its lane has decided to (control); a load may
 *     be performed before that decision, or have been answered by a cache,
 *   - to perform a later load or atomic operation of a word before an earlier one (coherence),
 *   - to pass a fence: what is before it is performed before what is behind it,
 *   - to pass the barrier, for lanes of one work-group: lane B knows that lane A has arrived. That alone
 *     does not say that the memory has the stores of lane A.
 *
 * An access is performed for all work-groups at once. Where it is not, as a plain store that reaches
 * some caches later, a reader sees the input for longer, and the input is right.
 *
 *   WRITER_FENCE, READER_FENCE   1: the fence is there; 0: it is not
 *
 * A sum has two words here, four bits of the sum in each; in the kernel four words, with sixteen bits. */

#define FLAG     256
#define INPUT    17 /* of each of two elements */
#define TOTAL    (2 * INPUT)
#define OUTPUT   112
#define WORD(sum, i)    (FLAG | (((sum) >> (4 * (i))) & 15))
#define FOUND(a, b)     (((a) & (b) & FLAG) != 0)
#define UNPACK(a, b)    (((a) & 15) | (((b) & 15) << 4))

int input[2] = INPUT;
int slot[2];
bool arrived; /* lane A, at the barrier */

active proctype lane_a()
{
    int sum;
    bool published_0, published_1, fenced;
    d_step {
        sum = TOTAL; /* of the input, which nobody overwrites before lane A arrives */
    }
    do
    :: !published_0 -> d_step { slot[0] = WORD(sum, 0); published_0 = true }
    :: !published_1 -> d_step { slot[1] = WORD(sum, 1); published_1 = true }
    :: !fenced && (!WRITER_FENCE || (published_0 && published_1)) ->
        d_step { fenced = true; arrived = true }
    :: published_0 && published_1 && fenced -> break
    od
}

active proctype lane_b()
{
    bool stored_0, stored_1;
    arrived;
    do
    :: !stored_0 -> d_step { input[0] = OUTPUT; stored_0 = true }
    :: !stored_1 -> d_step { input[1] = OUTPUT; stored_1 = true }
    :: stored_0 && stored_1 -> break
    od
}

/* The total that the reader ends with. */
#define END_WITH(total) assert((total) == TOTAL)

active [READERS] proctype reader()
{
    int looked_0, looked_1, element_0, element_1, last_0, last_1;
    byte looks; /* looks in vain */
    bool seen_0, seen_1, loaded_0, loaded_1, last_seen_0, last_seen_1, published_0, published_1;
    do
    :: looks < LOOKS && !seen_0 -> d_step { looked_0 = slot[0]; seen_0 = true }
    :: looks < LOOKS && !seen_1 -> d_step { looked_1 = slot[1]; seen_1 = true }
    :: seen_0 && seen_1 && FOUND(looked_0, looked_1) ->
        END_WITH(UNPACK(looked_0, looked_1));
        goto end_found
    :: seen_0 && seen_1 && !FOUND(looked_0, looked_1) ->
        d_step { looks++; seen_0 = false; seen_1 = false }
    :: !loaded_0 -> d_step { element_0 = input[0]; loaded_0 = true }
    :: !loaded_1 -> d_step { element_1 = input[1]; loaded_1 = true }
    :: looks == LOOKS && !last_seen_0 && (!READER_FENCE || (loaded_0 && loaded_1)) ->
        d_step { last_0 = slot[0]; last_seen_0 = true }
    :: looks == LOOKS && !last_seen_1 && (!READER_FENCE || (loaded_0 && loaded_1)) ->
        d_step { last_1 = slot[1]; last_seen_1 = true }
    :: last_seen_0 && last_seen_1 && FOUND(last_0, last_1) ->
        END_WITH(UNPACK(last_0, last_1));
        goto end_found
    :: last_seen_0 && last_seen_1 && !FOUND(last_0, last_1) && loaded_0 && loaded_1 -> break
    od
    END_WITH(element_0 + element_1);
    do
    :: !published_0 ->
        d_step { slot[0] = WORD(element_0 + element_1, 0); published_0 = true }
    :: !published_1 ->
        d_step { slot[1] = WORD(element_0 + element_1, 1); published_1 = true }
    :: published_0 && published_1 -> break
    od
end_found:
    skip
}
