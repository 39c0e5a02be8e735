/* One array of an NPZ file, as numpy.savez and savez_compressed write them: a ZIP archive with
 * a member NAME.npy for each array. A stored member is a part of the file, and read as one; a
 * deflated one is a stream, whose CRC-32 is checked at its end.
 *
 * Possible failures: an archive without that array, or with several and none named (the names
 * are listed), damaged, encrypted or packed otherwise is EXIT_USAGE, a read that fails
 * EXIT_LOCAL. Thread: one at a time. */
#ifndef TALLY_CLI_NPZ_H
#define TALLY_CLI_NPZ_H

#include "client/cli/source.h"

/* Have the source, a file, be the array. name NULL: the only one. */
int npz_open(struct source *source, const char *name);

/* The next bytes of a deflated member; *got is 0 at its end. */
int npz_inflate(struct source *source, char *to, size_t room, size_t *got);

void npz_close(struct source *source);

#endif
