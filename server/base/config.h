/* The settings of a run: command line over environment over defaults, checked against the table
 * (config_table.h). Read once by main, constant afterwards. Thread: any, once parsed. */
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

/* What the user wants besides running the service. */
enum config_action {
    CONFIG_RUN,
    CONFIG_HELP,
    CONFIG_VERSION,
    CONFIG_PRINT_ENV,
    CONFIG_PRINT_MAN,
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

/* Parse environment and command line; fills in what depends on the machine (memory budget,
 * threads).
 * out   *config   config_deinit() is due whatever the result
 * err   INVALID_REQUEST, one sentence for the terminal */
MUST_CHECK enum status config_parse(int argc, const char *const *argv,
                                    const char *const *environment, struct config *config,
                                    struct error *err);
void config_deinit(struct config *config);

void config_print_help(FILE *out);
void config_print_env(FILE *out); /* deploy/tallyd.env.example */
void config_print_man(FILE *out); /* tallyd(8) */

/* What a client may do about a limit on sizes: the end of such a refusal. The flag before it is
 * "the server's": the reader is not the one who set it. */
#define CONFIG_LESS_ADVICE                                                            \
    "send less at once (a tensor may be cut along any axis, along the summed one in " \
    "parts), or ask the operator"

/* ---- the table as data: for config_text.c and tests ---- */

enum config_type {
    CONFIG_UINT,
    CONFIG_SIZE,
    CONFIG_BOOL,
    CONFIG_TEXT,
    CONFIG_CHOICE,
    CONFIG_LIST
};

struct config_row {
    const char *title; /* of a group that begins here; then the rest is empty */
    const char *field;
    size_t offset; /* in struct config */
    enum config_type type;
    const char *initial;
    uint64_t min;
    uint64_t max;
    const char *unit;
    const char *help;
};

extern const struct config_row config_rows[];
extern const size_t config_row_count;

/* A flag that does something else than run the service. */
struct config_action_row {
    const char *flag;
    const char *argument; /* the word it needs, "" for none */
    enum config_action action;
    const char *help;
};

extern const struct config_action_row config_actions[];
extern const size_t config_action_count;

/* The bounds of a setting, as they are written. */
enum {
    CONFIG_BOUND_BYTES = 32
};
void config_bounds(const struct config_row *row, char low[CONFIG_BOUND_BYTES],
                   char high[CONFIG_BOUND_BYTES]);

/* "max_rank" as "--max-rank" or "TALLY_MAX_RANK". */
void config_flag_name(const char *field, char *text, size_t room);
void config_variable_name(const char *field, char *text, size_t room);

#endif
