/* The settings of a run, checked against the table (config_table.h). A flag overrides its
 * variable, and a variable overrides the default. main reads the settings once; after that they
 * are constant. Thread: any, once parsed. */
#ifndef TALLY_SERVER_CONFIG_H
#define TALLY_SERVER_CONFIG_H

#include "proto/limits.h"
#include "proto/status.h"
#include "server/base/config_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    CONFIG_LIST_MAX = 16
};

struct config_list {
    size_t count;
    char *items[CONFIG_LIST_MAX]; /* owned */
};

/* The action of tallyd: run the service, or print a text and exit. */
enum config_action {
    CONFIG_RUN,
    CONFIG_HELP,
    CONFIG_VERSION,
    CONFIG_PRINT_ENV,
    CONFIG_LIST_DEVICES
};

#define CONFIG_CTYPE_UINT   uint64_t
#define CONFIG_CTYPE_SIZE   uint64_t
#define CONFIG_CTYPE_BOOL   bool
#define CONFIG_CTYPE_TEXT   char * /* owned, never NULL */
#define CONFIG_CTYPE_CHOICE int
#define CONFIG_CTYPE_LIST   struct config_list

struct config {
    enum config_action action;
#define CONFIG_NO_GROUP(title)
#define X(field, type, initial, min, max, unit, help) CONFIG_CTYPE_##type field;
    CONFIG_TABLE(CONFIG_NO_GROUP, X)
#undef X
};

/* Parse environment and command line, and fill in the values that depend on the machine (memory
 * budget, threads). Before the service runs, an unknown variable TALLY_... is an error, unless
 * --allow-unknown-env is set.
 * out   *config   the caller calls config_deinit(), even after an error
 * err   INVALID_REQUEST, one sentence for the terminal */
MUST_CHECK enum status config_parse(int argc, const char *const *argv,
                                    const char *const *environment, struct config *config,
                                    struct error *err);
void config_deinit(struct config *config);

void config_print_help(FILE *out);
void config_print_env(FILE *out); /* prints deploy/tallyd.env.example */

/* The end of an error message about a size limit: advice for the client. The message before it
 * names the flag as "the server's --FLAG", because the client did not set the flag. */
#define CONFIG_LESS_ADVICE                                                            \
    "send less at once (a tensor may be cut along any axis, along the summed one in " \
    "parts), or ask the operator"

/* ---- the table as data: for config_text.c, make_manual.c and tests ---- */

enum config_type {
    CONFIG_UINT,
    CONFIG_SIZE,
    CONFIG_BOOL,
    CONFIG_TEXT,
    CONFIG_CHOICE,
    CONFIG_LIST
};

struct config_row {
    const char *title; /* title of a group that begins here; the other fields are empty then */
    const char *field;
    size_t offset; /* offset of the field in struct config */
    enum config_type type;
    const char *initial;
    uint64_t min;
    uint64_t max;
    const char *unit;
    const char *help;
};

extern const struct config_row config_rows[];
extern const size_t config_row_count;

/* A flag that prints a text instead of running the service. */
struct config_action_row {
    const char *flag;
    const char *argument; /* the word that must follow, "": none */
    enum config_action action;
    const char *help;
};

extern const struct config_action_row config_actions[];
extern const size_t config_action_count;

/* Variables TALLY_... that other programs define. tallyd ignores them. */
struct config_foreign_row {
    const char *names; /* patterns of fnmatch(3), separated by blanks */
    const char *value; /* pattern of the value, NULL: any */
    const char *owner; /* one sentence for tallyd(8) */
};

extern const struct config_foreign_row config_foreign[];
extern const size_t config_foreign_count;

/* Print the bounds of a setting. */
enum {
    CONFIG_BOUND_BYTES = 32
};
void config_bounds(const struct config_row *row, char low[CONFIG_BOUND_BYTES],
                   char high[CONFIG_BOUND_BYTES]);

/* Print the flag or the variable of a field: for "max_rank", "--max-rank" or
 * "TALLY_MAX_RANK". */
void config_flag_name(const char *field, char *text, size_t room);
void config_variable_name(const char *field, char *text, size_t room);

#endif
