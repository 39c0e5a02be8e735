/* The command line of `tally`: parsing by the tables (option_table.h), and --help.
 *
 * Possible failures: a command line that makes no sense is EXIT_USAGE, after a complaint that names
 * the nearest word that would make sense. Thread: the main one. */
#ifndef TALLY_CLI_OPTIONS_H
#define TALLY_CLI_OPTIONS_H

#include "client/cli/option_table.h"

/* Parse non-negative numbers that commas separate; if `open`, one of them may be -1. Returns false for
 * other text. */
bool number_list_parse(const char *text, bool open, struct number_list *list);

/* Whether the command has the option. */
bool option_is_on(const struct option_row *row, enum command_id command);

/* Move the command in front of options that are before it, to argv[1]. */
void options_command_first(int argc, char **argv);

/* Return the command of this name; COMMAND_COUNT after complaining. */
enum command_id command_find(const char *name);

/* Parse the command line from the command's name on. Returns EXIT_DONE, or EXIT_USAGE after
 * complaining. */
int options_parse(enum command_id command, int argc, char **argv, struct settings *settings);

void options_help(enum command_id command, FILE *to);
void options_overview(FILE *to);

#endif
