/* Embeds in the binary the OpenCL C sources that devices compile, unchanged, and a table with
 * the name, begin and end of each source for program.c. Sources of vector kernels are not
 * embedded: they are only compiled ahead. */
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
    embed types, "kernels/cl/types.cl"
    embed exact, "kernels/cl/exact.cl"
    embed table, "kernels/cl/table.cl"
    embed gpu_tile, "kernels/cl/gpu_tile.cl"
    embed gpu_scan, "kernels/cl/gpu_scan.cl"
    embed gpu_wide, "kernels/cl/gpu_wide.cl"
    embed gpu_exact, "kernels/cl/gpu_exact.cl"
    embed gpu_lookback, "kernels/cl/gpu_lookback.cl"
    embed generic, "kernels/cl/generic.cl"
    embed exact_lines, "kernels/cl/exact_lines.cl"
    embed launch, "kernels/cl/launch.cl"
    .section .data.rel.ro, "aw", %progbits
    .global program_sources_end
program_sources_end:

    .section .note.GNU-stack, "", %progbits
