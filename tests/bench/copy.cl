/* The baseline of scans on processors: a copy with streaming stores by a few work-items. */
typedef float chunk_t __attribute__((ext_vector_type(16)));

__kernel void copy_cpu(__global const chunk_t *in, __global chunk_t *out, ulong count)
{
    ulong first = get_global_id(0) * count;
    for (ulong i = first; i < first + count; i++) {
        __builtin_nontemporal_store(in[i], out + i);
    }
}
