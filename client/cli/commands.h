/* The commands of `tally`. Each function returns EXIT_DONE, or an exit status after
 * complaining. The client is owned by main(), and NULL for `token` and `completion`. Thread:
 * the main one. */
#ifndef TALLY_CLI_COMMANDS_H
#define TALLY_CLI_COMMANDS_H

#include "client/cli/format.h"
#include "client/cli/options.h"

int command_cumsum(const struct settings *settings, struct tally *client);
/* Sum the tensor in `source`, part by part, and write the result to settings->output. */
int cumsum_parts(const struct settings *settings, struct tally *client, struct source *source,
                 enum format input, enum format output);
int command_devices(const struct settings *settings, struct tally *client);
int command_health(const struct settings *settings, struct tally *client);
int command_version(const struct settings *settings, struct tally *client);
int command_console(const struct settings *settings, struct tally *client);
int command_token(const struct settings *settings, struct tally *client);
int command_completion(const struct settings *settings, struct tally *client);

/* Print the possible completions of the last word of a command line, for completion scripts.
 * The words do not include `tally`. A line is WORD, a tab and a description. The single line
 * "<file>" stands for the names of files. */
void completion_offer(int count, char **words);

#endif
