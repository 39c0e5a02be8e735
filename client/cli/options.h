/* The command line: one table row per option feeds the parser, --help and shell completion. */
#ifndef TALLY_CLI_OPTIONS_H
#define TALLY_CLI_OPTIONS_H

#include "client/tally.h"

#include <stdbool.h>
#include <stdio.h>

enum command_id {
    COMMAND_CUMSUM,
    COMMAND_DEVICES,
    COMMAND_HEALTH,
    COMMAND_VERSION,
    COMMAND_BENCH,
    COMMAND_COMPLETION,
    COMMAND_COUNT
};

/* "1,1,3,4" */
struct number_list {
    int count; /* 0: not given */
    int64_t numbers[TALLY_MAX_RANK];
};

/* Every option of every command, and what was left over. Texts are borrowed from argv. */
struct settings {
    const char *url;
    const char *token_file;
    const char *ca_file;
    bool insecure;
    double timeout_s;
    int64_t retries;
    bool quiet;
    bool help;
    bool json;

    const char *output;
    const char *format;
    const char *output_format;
    const char *dtype;
    struct number_list shape;
    struct number_list strides;
    struct number_list output_strides;
    int64_t axis;
    bool axis_given;
    bool exclusive;
    bool reverse;
    const char *precision;
    double deadline_s;

    int64_t connections;
    double duration_s;
    double warmup_s;
    double rate;
    bool poisson;

    const char *argument; /* the operand: input file, URL or shell; NULL if none */
};

/* Parse what follows the command. False: *message says what is wrong and how to mend it. */
bool options_parse(enum command_id command, int argc, char **argv, struct settings *settings,
                   char *message, size_t size);

void options_help(enum command_id command, FILE *to);
void options_overview(FILE *to);

const char *command_name(enum command_id command);
/* COMMAND_COUNT if there is none of this name. */
enum command_id command_find(const char *name);

/* Completion script for "bash" or "zsh" on stdout; false for another shell. */
bool options_completion(const char *shell, FILE *to);

#endif
