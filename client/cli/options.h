/* The command line of `tally`: parsing by the tables (option_table.h), and --help.
 *
 * Possible failures: a command line that makes no sense is EXIT_USAGE, after a complaint that names
 * the nearest word that would make sense. Thread: the main one. */
#ifndef TALLY_CLI_OPTIONS_H
#define TALLY_CLI_OPTIONS_H

#include "client/cli/option_table.h"

/* Numbers separated by commas, none negative, or one of them -1 if `open`; else false. */
bool number_list_parse(const char *text, bool open, struct number_list *list);

/* Whether the command has the option. */
bool option_is_on(const struct option_row *row, enum command_id command);

/* Options may come before the command: put it in front of them, at argv[1]. */
void options_command_first(int argc, char **argv);

/* COMMAND_COUNT, after complaining, if there is none of this name. */
enum command_id command_find(const char *name);

/* Parse the command line from the command's name on: EXIT_DONE, or EXIT_USAGE after complaining
 * what is wrong and how to mend it. */
int options_parse(enum command_id command, int argc, char **argv, struct settings *settings);

void options_help(enum command_id command, FILE *to);
void options_overview(FILE *to);

#endif
