/* Reading of the file of --offsets, which divides the axis into segments; each segment is
 * summed as a separate line.
 *
 * The file is NPY with int64 in one dimension, or text with an integer on each line. libtally
 * compares the values to the axis.
 *
 * Possible failures: a file of another type or shape is EXIT_USAGE; a failed read and lack of
 * memory are EXIT_LOCAL. Thread: the main one. */
#ifndef TALLY_CLI_OFFSETS_H
#define TALLY_CLI_OFFSETS_H

#include <stdint.h>

/* Read the file `name`; "-": standard input.
 * out  *offsets  [*count], owned by the caller, never NULL
 * Returns EXIT_DONE, or an exit status after complaining; the outputs are then untouched. */
int offsets_load(const char *name, int64_t **offsets, uint64_t *count);

#endif
