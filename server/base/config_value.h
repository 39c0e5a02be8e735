/* Private to config*.c: rows of the table as data, and the texts of single values. */
#ifndef TALLY_SERVER_CONFIG_VALUE_H
#define TALLY_SERVER_CONFIG_VALUE_H

#include "server/base/config.h"

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

/* "max_rank" as "--max-rank" or "TALLY_MAX_RANK". */
void config_flag_name(const char *field, char *text, size_t room);
void config_variable_name(const char *field, char *text, size_t room);

/* Set the row's field from a text; `source` names it in errors ("--max-rank",
 * "TALLY_MAX_RANK"). A list is extended, everything else replaced. */
MUST_CHECK enum status config_set(struct config *config, const struct config_row *row,
                                  const char *source, const char *text, struct error *err);

/* Free what the row's field owns and leave it empty. */
void config_clear(struct config *config, const struct config_row *row);

#endif
