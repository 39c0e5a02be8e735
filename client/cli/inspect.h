/* Whether the input is what it is taken for, before any byte of it is sent: then a complaint is
 * about the user's file, not about the request that `tally` makes of it. */
#ifndef TALLY_CLI_INSPECT_H
#define TALLY_CLI_INSPECT_H

#include "client/cli/destination.h"
#include "client/cli/source.h"

/* ": it looks like JSON; give --format json", or "" if it looks like what `format` is or like
 * nothing that is known. */
void inspect_hint(struct source *source, enum format format, char *text, size_t size);

/* JSON that is neither a whole request nor one array. EXIT_DONE, or the status after
 * complaining. The source is loaded. */
int inspect_array(const struct source *source);

#endif
