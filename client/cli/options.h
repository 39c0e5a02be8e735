/* The command line of `tally`: parsing by the tables (option_table.h), and --help.
 *
 * Possible failures: a command line that makes no sense is EXIT_USAGE, after a complaint that names
 * the nearest word that would make sense. Thread: the main one. */
#ifndef TALLY_CLI_OPTIONS_H
#define TALLY_CLI_OPTIONS_H

#include "client/cli/option_table.h"

/* Whether the command has the option. */
bool option_is_on(const struct option_row *row, enum command_id command);

/* Parse the command line. settings->command is COMMAND_COUNT if there is no command. Returns EXIT_DONE, or
 * EXIT_USAGE after complaining. */
int options_parse(int argc, char **argv, struct settings *settings);

void options_help(enum command_id command, FILE *to);
void options_overview(FILE *to);

#endif
