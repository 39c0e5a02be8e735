/* The commands of `tally`. Each returns the exit status. */
#ifndef TALLY_CLI_COMMANDS_H
#define TALLY_CLI_COMMANDS_H

#include "client/cli/options.h"

int command_cumsum(const struct settings *settings);
int command_devices(const struct settings *settings);
int command_health(const struct settings *settings);
int command_version(const struct settings *settings);
int command_bench(const struct settings *given);

/* A client as the settings say; NULL after complaining, with *status set. */
struct tally *client_of(const struct settings *settings, const char *url, int *status);

#endif
