/* The OpenCL C sources, as they are in the tree, inside the binary: a table of name, begin and
 * end for program.c. */
    .macro embed name, file
    .section .rodata
1:  .asciz "\name"
2:  .incbin "\file"
3:  .byte 0
    .section .data.rel.ro, "aw", %progbits
    .quad 1b, 2b, 3b
    .endm

    .section .data.rel.ro, "aw", %progbits
    .balign 8
    .global program_sources
program_sources:
    embed scan_types, "kernels/cl/scan_types.cl"
    embed soft_f64, "kernels/cl/soft_f64.cl"
    embed scan_table, "kernels/cl/scan_table.cl"
    embed scan_group, "kernels/cl/scan_group.cl"
    embed scan_lanes, "kernels/cl/scan_lanes.cl"
    embed scan_quads, "kernels/cl/scan_quads.cl"
    embed scan_chain, "kernels/cl/scan_chain.cl"
    embed scan_rows, "kernels/cl/scan_rows.cl"
    embed scan_columns, "kernels/cl/scan_columns.cl"
    embed scan_square, "kernels/cl/scan_square.cl"
    embed scan_abreast, "kernels/cl/scan_abreast.cl"
    embed scan_strided, "kernels/cl/scan_strided.cl"
    embed scan_crossed, "kernels/cl/scan_crossed.cl"
    embed scan_bundle, "kernels/cl/scan_bundle.cl"
    embed scan_short, "kernels/cl/scan_short.cl"
    embed scan_gpu_tile, "kernels/cl/scan_gpu_tile.cl"
    embed scan_gpu, "kernels/cl/scan_gpu.cl"
    embed scan_lookback, "kernels/cl/scan_lookback.cl"
    embed scan_generic, "kernels/cl/scan_generic.cl"
    .section .data.rel.ro, "aw", %progbits
    .global program_sources_end
program_sources_end:

    .section .note.GNU-stack, "", %progbits
