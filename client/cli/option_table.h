/* The tables of commands and options, and struct settings, which has the values of the options.
 *
 * Each command and each option is a row. The parser and --help (options.c) and shell completion
 * (cmd_completion.c) read the rows. Thread: any; the tables are constant. */
#ifndef TALLY_CLI_OPTION_TABLE_H
#define TALLY_CLI_OPTION_TABLE_H

#include "client/tally.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum command_id {
    COMMAND_CUMSUM,
    COMMAND_DEVICES,
    COMMAND_HEALTH,
    COMMAND_VERSION,
    COMMAND_CONSOLE,
    COMMAND_TOKEN,
    COMMAND_COMPLETION,
    COMMAND_COUNT
};

enum {
    SHAPE_TEXT = TALLY_MAX_RANK * 20 + 1 /* longest text of a list */
};

/* "1,1,3,4" */
struct number_list {
    int count; /* 0: not given */
    int64_t numbers[TALLY_MAX_RANK];
};

/* The values of all options, and the operands. Texts are borrowed from argv. */
struct settings {
    enum command_id command; /* COMMAND_COUNT: none */
    const char *url;
    const char *token_file;
    const char *ca_file;
    const char *client_cert;
    const char *client_key;
    bool insecure;
    double timeout_s; /* 0: the library's default */
    int64_t retries;  /* -1: the library's default */
    bool quiet;
    bool help;
    bool version;
    bool json;

    const char *output;
    int format;        /* enum format; here and in the next choices 0 means: not given */
    int output_format; /* enum format */
    int dtype;         /* 1 + enum tally_dtype */
    int output_dtype;  /* 1 + enum tally_dtype */
    int nan;           /* 1 + enum tally_nan */
    int decimal;       /* 1: point, 2: comma */
    const char *initial;
    bool include_initial;
    const char *offsets_file;
    const int64_t *offsets; /* [offset_count], owned by cmd_cumsum.c; NULL: no --offsets */
    uint64_t offset_count;
    struct number_list shape;
    struct number_list strides;
    struct number_list output_strides;
    int64_t axis;
    bool axis_given;
    bool exclusive;
    bool reverse;
    double deadline_s;
    int64_t part_bytes;
    int64_t flush_ms;
    bool header;
    const char *delimiter;
    const char *columns;

    const char *scopes;

    const char *argument; /* first operand: input file, shell or `new`; NULL: none */
    const char *name;     /* second operand: name of a new token; NULL: none */
};

/* Return whether --strides or --output-strides was given. */
static inline bool settings_have_strides(const struct settings *settings)
{
    return settings->strides.count > 0 || settings->output_strides.count > 0;
}

static inline char settings_decimal(const struct settings *settings)
{
    return (char)(settings->decimal == 2 ? ',' : '.');
}

enum option_kind {
    OPTION_FLAG,    /* bool */
    OPTION_TEXT,    /* const char * */
    OPTION_FILE,    /* const char *, completed as a file name */
    OPTION_CHOICE,  /* int, 1 + the index in `choices` */
    OPTION_INTEGER, /* int64_t, from least to most */
    OPTION_SIZE,    /* int64_t: bytes, written with or without a unit, from least to most */
    OPTION_NUMBER,  /* double, from least to most */
    OPTION_LIST     /* struct number_list */
};

struct option_row {
    const char *name; /* without "--" */
    char letter;      /* or 0 */
    enum option_kind kind;
    const char *value;   /* name of the value in the help, NULL for flags */
    const char *choices; /* separated by spaces; NULL: not a choice */
    size_t offset;       /* offset of the value in struct settings */
    double least;        /* smallest number; least and most 0: no bounds */
    double most;
    unsigned commands; /* bit set of command_id */
    const char *help;
};

struct command_row {
    const char *name;
    const char *operand;         /* text of the usage line */
    const char *operand_choices; /* for completion; "<file>": names of files; NULL: none */
    const char *summary;         /* text of the overview */
    const char *details;         /* text after the options */
};

extern const struct option_row option_rows[];
extern const size_t option_row_count;
extern const struct command_row command_rows[COMMAND_COUNT];

/* Return the option whose name is the first `count` bytes of `name`; else the first option
 * whose name begins with them; NULL: none. */
const struct option_row *option_named(const char *name, size_t count);
/* Return the option with this letter; NULL: none. */
const struct option_row *option_lettered(char letter);
/* Return the command with this name; COMMAND_COUNT: none. */
enum command_id command_named(const char *name);

#endif
