/* The commands of `tally`. Each returns the exit status, after complaining if that is not
 * EXIT_DONE. The client is main()'s, which closes it; NULL for `token` and `completion`.
 * Thread: the main one; `cumsum` starts and joins others. */
#ifndef TALLY_CLI_COMMANDS_H
#define TALLY_CLI_COMMANDS_H

#include "client/cli/format.h"
#include "client/cli/options.h"

int command_cumsum(const struct settings *settings, struct tally *client);
/* Its two ways, once the formats are known: part by part in constant memory, or as one request
 * (JSON, and raw input with strides). A failed call leaves the output as it was. */
int cumsum_parts(const struct settings *settings, struct tally *client, struct source *source,
                 enum format input, enum format output);
int cumsum_whole(const struct settings *settings, struct tally *client, struct source *source,
                 enum format input, enum format output);
int command_devices(const struct settings *settings, struct tally *client);
int command_health(const struct settings *settings, struct tally *client);
int command_version(const struct settings *settings, struct tally *client);
int command_console(const struct settings *settings, struct tally *client);
int command_token(const struct settings *settings, struct tally *client);
int command_completion(const struct settings *settings, struct tally *client);

/* What there may be in place of the last of these words behind `tally`: a line each, with a tab and
 * what it is about; or "<file>" alone. For completion scripts. */
void completion_offer(int count, char **words);

#endif
