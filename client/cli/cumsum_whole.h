/* The way of `tally cumsum` for what is one request: JSON, and raw input with strides.
 *
 * Failure: what is wrong with the input is said before it is sent; a failed call leaves the
 * output as it was. Thread: the main one. */
#ifndef TALLY_CLI_CUMSUM_WHOLE_H
#define TALLY_CLI_CUMSUM_WHOLE_H

#include "client/cli/format.h"
#include "client/cli/options.h"

int cumsum_whole(const struct settings *settings, struct tally *client, struct source *source,
                 enum format input, enum format output);

#endif
