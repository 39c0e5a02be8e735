/* The commands of `tally`. Each returns EXIT_DONE, or an exit status after complaining. main() owns
 * the client, which is NULL for `token` and `completion`. Thread: the main one; `cumsum` starts and
 * joins others. */
#ifndef TALLY_CLI_COMMANDS_H
#define TALLY_CLI_COMMANDS_H

#include "client/cli/format.h"
#include "client/cli/options.h"

int command_cumsum(const struct settings *settings, struct tally *client);
/* Sum a tensor part by part. A failed call does not change the output. */
int cumsum_parts(const struct settings *settings, struct tally *client, struct source *source,
                 enum format input, enum format output);
int command_devices(const struct settings *settings, struct tally *client);
int command_health(const struct settings *settings, struct tally *client);
int command_version(const struct settings *settings, struct tally *client);
int command_console(const struct settings *settings, struct tally *client);
int command_token(const struct settings *settings, struct tally *client);
int command_completion(const struct settings *settings, struct tally *client);

/* Print the completions of the last of these words behind `tally`, for completion scripts: a line
 * each, with a tab and a description; or "<file>" alone. */
void completion_offer(int count, char **words);

#endif
