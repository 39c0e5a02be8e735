/* The offsets of --offsets: segments of the axis, each summed as a line of its own.
 *
 * The file is NPY with int64 in one dimension, or text with an integer on each line. libtally or the
 * service checks the values against the axis.
 *
 * Possible failures: a file of another type or shape is EXIT_USAGE; a failed read and lack of memory
 * are EXIT_LOCAL. Thread: the main one. */
#ifndef TALLY_CLI_OFFSETS_H
#define TALLY_CLI_OFFSETS_H

#include <stdint.h>

/* Read the file `name` ("-": standard input). The caller frees *offsets, which is never NULL; *count
 * may be 0. Returns EXIT_DONE, or an exit status after complaining; both are then untouched. */
int offsets_load(const char *name, int64_t **offsets, uint64_t *count);

#endif
