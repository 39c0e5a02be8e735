/* The commands of `tally`. Each returns the exit status, after complaining if that is not
 * EXIT_DONE. The client is main()'s, which closes it; NULL for `token` and `completion`. */
#ifndef TALLY_CLI_COMMANDS_H
#define TALLY_CLI_COMMANDS_H

#include "client/cli/options.h"

int command_cumsum(const struct settings *settings, struct tally *client);
int command_devices(const struct settings *settings, struct tally *client);
int command_health(const struct settings *settings, struct tally *client);
int command_version(const struct settings *settings, struct tally *client);
int command_console(const struct settings *settings, struct tally *client);
int command_bench(const struct settings *settings, struct tally *client);
int command_token(const struct settings *settings, struct tally *client);
int command_completion(const struct settings *settings, struct tally *client);

#endif
