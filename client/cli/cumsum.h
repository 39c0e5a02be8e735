/* The two ways of `tally cumsum`, once the formats are known: part by part in constant memory
 * (cumsum_parts.c), or as one request (cumsum_whole.c): JSON, and raw input with strides.
 *
 * Failure: complained about; a failed call leaves the output as it was, or a result that is not
 * complete stays for --resume. Thread: the main one; cumsum_parts() starts and joins others. */
#ifndef TALLY_CLI_CUMSUM_H
#define TALLY_CLI_CUMSUM_H

#include "client/cli/format.h"
#include "client/cli/options.h"

int cumsum_parts(const struct settings *settings, struct tally *client, struct source *source,
                 enum format input, enum format output);
int cumsum_whole(const struct settings *settings, struct tally *client, struct source *source,
                 enum format input, enum format output);

#endif
