/* The OpenCL C sources, as they are in the tree, inside the binary: kernel_<file>_begin/_end. */
    .section .rodata
    .macro embed name, file
    .global kernel_\name\()_begin
    .global kernel_\name\()_end
kernel_\name\()_begin:
    .incbin "\file"
kernel_\name\()_end:
    .byte 0
    .endm

    embed scan_types, "kernels/cl/scan_types.cl"
    embed soft_f64, "kernels/cl/soft_f64.cl"
    embed scan_table, "kernels/cl/scan_table.cl"
    embed scan_group, "kernels/cl/scan_group.cl"
    embed chain, "kernels/cl/chain.cl"
    embed line, "kernels/cl/line.cl"
    embed narrow, "kernels/cl/narrow.cl"
    embed tile, "kernels/cl/tile.cl"
    embed launch, "kernels/cl/launch.cl"
    embed scan_gpu_tile, "kernels/cl/scan_gpu_tile.cl"
    embed scan_gpu, "kernels/cl/scan_gpu.cl"
    embed scan_lookback, "kernels/cl/scan_lookback.cl"
    embed scan_generic, "kernels/cl/scan_generic.cl"

    .section .note.GNU-stack, "", @progbits
