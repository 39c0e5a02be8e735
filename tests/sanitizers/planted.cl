/* One fault of each kind that tests/sanitizers/kernels.sh must see reported before it trusts
 * other runs. The buffer has four words; the last one is unwritten. */
__kernel void read_beyond(__global int *data)
{
    data[0] = data[4];
}

__kernel void write_before(__global int *data)
{
    data[-1] = 1;
}

__kernel void index_too_far(__global int *data)
{
    int own[2] = {1, 2};
    data[0] = own[data[1]];
}

__kernel void overflow(__global int *data)
{
    data[0] = data[2] + 1;
}

__kernel void misaligned(__global int *data)
{
    *(__global int *)((__global char *)data + 1) = 1;
}

__kernel void decide_by_unwritten(__global int *data)
{
    if (data[3] > 0) {
        data[0] = 1;
    }
}

__kernel void result_of_unwritten(__global int *data)
{
    data[0] = data[3] + 1;
}

__kernel void skip_a_barrier(__global int *data)
{
    if (get_local_id(0) > 0) {
        barrier(CLK_GLOBAL_MEM_FENCE);
    }
    data[0] = 1;
}
