/* The way of `tally cumsum` for tensors of any size: part by part, in constant memory.
 *
 * The formats are known; the input is not JSON and has no strides. Failure: complained about. A
 * result that is not complete is discarded, or stays for --resume. Thread: the main one; it
 * starts and joins the others. */
#ifndef TALLY_CLI_CUMSUM_PARTS_H
#define TALLY_CLI_CUMSUM_PARTS_H

#include "client/cli/format.h"
#include "client/cli/options.h"

int cumsum_parts(const struct settings *settings, struct tally *client, struct source *source,
                 enum format input, enum format output);

#endif
