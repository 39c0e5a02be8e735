/* Commands and options of `tally`. Rows end up in the parser, in --help and in completion. */
#ifndef TALLY_CLI_OPTION_TABLE_H
#define TALLY_CLI_OPTION_TABLE_H

#include "client/cli/options.h"

#include <stddef.h>

enum option_kind {
    OPTION_FLAG,    /* bool */
    OPTION_TEXT,    /* const char * */
    OPTION_FILE,    /* const char *, completed as a file name */
    OPTION_CHOICE,  /* const char *, one of `choices` */
    OPTION_INTEGER, /* int64_t */
    OPTION_NUMBER,  /* double */
    OPTION_LIST     /* struct number_list */
};

struct option_row {
    const char *name; /* without "--" */
    char letter;      /* or 0 */
    enum option_kind kind;
    const char *value;   /* its name in the help, NULL for flags */
    const char *choices; /* separated by spaces, NULL if open */
    size_t offset;       /* in struct settings */
    unsigned commands;   /* bit set of command_id */
    const char *help;
};

/* What the number of an option may be; the others may be any. */
struct option_bounds {
    size_t offset; /* in struct settings */
    double least;
    double most;
};

struct command_row {
    const char *name;
    const char *operand;         /* in the usage line */
    const char *operand_choices; /* for completion; "<file>" for file names, NULL if open */
    const char *summary;
    const char *details; /* after the options */
};

extern const struct option_row option_rows[];
extern const size_t option_row_count;
extern const struct option_bounds option_bounds[];
extern const size_t option_bounds_count;
extern const struct command_row command_rows[COMMAND_COUNT];

#endif
