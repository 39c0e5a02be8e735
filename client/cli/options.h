/* Parsing of the command line by the tables (option_table.h), and the texts of --help.
 *
 * Possible failures: a wrong command line is EXIT_USAGE, after a complaint that suggests the
 * most similar valid word. Thread: the main one. */
#ifndef TALLY_CLI_OPTIONS_H
#define TALLY_CLI_OPTIONS_H

#include "client/cli/option_table.h"

/* Return whether an option is allowed for a command. */
bool option_is_on(const struct option_row *row, enum command_id command);

/* Parse the command line into *settings, which has the defaults on entry. settings->command is
 * COMMAND_COUNT if the command line has no command. Returns EXIT_DONE, or EXIT_USAGE after
 * complaining. */
int options_parse(int argc, char **argv, struct settings *settings);

/* Print the help of a command. */
void options_help(enum command_id command, FILE *to);

/* Print the usage of tally and the list of commands. */
void options_overview(FILE *to);

#endif
