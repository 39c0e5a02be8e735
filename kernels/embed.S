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

    embed scan_types, "kernels/scan_types.cl"
    embed soft_f64, "kernels/soft_f64.cl"
    embed scan_table, "kernels/scan_table.cl"
    embed scan_group, "kernels/scan_group.cl"
    embed scan_lanes, "kernels/scan_lanes.cl"
    embed scan_quads, "kernels/scan_quads.cl"
    embed scan_chain, "kernels/scan_chain.cl"
    embed scan_rows, "kernels/scan_rows.cl"
    embed scan_columns, "kernels/scan_columns.cl"
    embed scan_square, "kernels/scan_square.cl"
    embed scan_abreast, "kernels/scan_abreast.cl"
    embed scan_strided, "kernels/scan_strided.cl"
    embed scan_crossed, "kernels/scan_crossed.cl"
    embed scan_bundle, "kernels/scan_bundle.cl"
    embed scan_short, "kernels/scan_short.cl"
    embed scan_gpu_tile, "kernels/scan_gpu_tile.cl"
    embed scan_gpu, "kernels/scan_gpu.cl"
    embed scan_lookback, "kernels/scan_lookback.cl"
    embed scan_generic, "kernels/scan_generic.cl"

    .section .note.GNU-stack, "", @progbits
