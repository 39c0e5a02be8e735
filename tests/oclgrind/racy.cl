/* Faults that tests/oclgrind/run.sh must see reported before it trusts other runs: a race
 * between work-items, a branch on unwritten memory, a store beyond the end. */
__kernel void racy(__global int *out)
{
    int unwritten[2];
    out[get_local_id(0) / 2] = (int)get_local_id(0);
    if (unwritten[get_local_id(0) % 2] > 0) {
        out[2] = 1;
    }
    out[get_local_id(0) + 4] = 1;
}
