#include "client/cli/options.h"

#include "client/cli/option_table.h"
#include "proto/macros.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *command_name(enum command_id command)
{
    return command_rows[command].name;
}

enum command_id command_find(const char *name)
{
    enum command_id command = COMMAND_CUMSUM;
    while (command < COMMAND_COUNT && strcmp(command_rows[command].name, name) != 0) {
        command++;
    }
    return command;
}

/* The words left to parse, and where to complain. */
struct parser {
    enum command_id command;
    int argc;
    char **argv;
    int at;
    struct settings *settings;
    char *message;
    size_t size;
};

static bool wrong(const struct parser *parser, const char *format, ...) PRINTF_LIKE(2, 3);
static bool wrong(const struct parser *parser, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(parser->message, parser->size, format, args);
    va_end(args);
    return false;
}

/* Whether the argument names this option; *value: what follows '=' or the letter, NULL if
 * nothing. */
static bool names_row(const struct option_row *row, const char *argument, const char **value)
{
    size_t length = strlen(row->name);
    const char *rest = NULL;
    *value = NULL;
    if (strncmp(argument, "--", 2) == 0 && strncmp(argument + 2, row->name, length) == 0) {
        rest = argument + 2 + length;
        *value = *rest == '=' ? rest + 1 : NULL;
        return *rest == '=' || *rest == '\0';
    }
    if (row->letter == 0 || argument[1] != row->letter) {
        return false;
    }
    *value = argument[2] != '\0' ? argument + 2 : NULL;
    return true;
}

static const struct option_row *find_row(enum command_id command, const char *argument,
                                         const char **value)
{
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if ((row->commands & (1U << command)) != 0 && names_row(row, argument, value)) {
            return row;
        }
    }
    return NULL;
}

static bool parse_integer(const char *text, int64_t *number)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0') {
        return false;
    }
    *number = value;
    return true;
}

static bool parse_number(const char *text, double *number)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value)) {
        return false;
    }
    *number = value;
    return true;
}

static bool parse_list(const char *text, struct number_list *list)
{
    list->count = 0;
    for (;;) {
        char *end = NULL;
        errno = 0;
        long long value = strtoll(text, &end, 10);
        if (errno != 0 || end == text || value < 0 || list->count == TALLY_MAX_RANK) {
            return false;
        }
        list->numbers[list->count++] = value;
        if (*end == '\0') {
            return true;
        }
        if (*end != ',') {
            return false;
        }
        text = end + 1;
    }
}

/* Whether `word` is one of the words of `choices`. */
static bool is_choice(const char *choices, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = choices; *at != '\0'; at += strspn(at, " ")) {
        size_t extent = strcspn(at, " ");
        if (extent == length && strncmp(at, word, length) == 0) {
            return true;
        }
        at += extent;
    }
    return false;
}

static bool store(const struct option_row *row, const char *value, struct settings *settings)
{
    void *to = (char *)settings + row->offset;
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)to = true;
        return true;
    case OPTION_CHOICE:
    case OPTION_TEXT:
    case OPTION_FILE:
        *(const char **)to = value;
        return row->choices == NULL || is_choice(row->choices, value);
    case OPTION_INTEGER:
        return parse_integer(value, to);
    case OPTION_NUMBER:
        return parse_number(value, to);
    case OPTION_LIST:
        return parse_list(value, to);
    }
    return false;
}

static const char *expectation(const struct option_row *row)
{
    switch (row->kind) {
    case OPTION_INTEGER:
        return "an integer";
    case OPTION_NUMBER:
        return "a number";
    case OPTION_LIST:
        return "integers separated by commas, like 3,4";
    case OPTION_CHOICE:
        return row->choices;
    case OPTION_FLAG:
    case OPTION_TEXT:
    case OPTION_FILE:
        break;
    }
    return "a text";
}

/* Complains if the number that was just stored is out of the option's bounds. */
static bool check_bounds(const struct parser *parser, const struct option_row *row,
                         const char *value)
{
    const void *at = (const char *)parser->settings + row->offset;
    double number = row->kind == OPTION_INTEGER  ? (double)*(const int64_t *)at
                    : row->kind == OPTION_NUMBER ? *(const double *)at
                                                 : 0;
    for (size_t i = 0; i < option_bounds_count; i++) {
        const struct option_bounds *bounds = &option_bounds[i];
        if (bounds->offset == row->offset &&
            (number < bounds->least || number > bounds->most)) {
            return wrong(parser, "--%s %s: expected %s from %g to %g", row->name, value,
                         expectation(row), bounds->least, bounds->most);
        }
    }
    return true;
}

/* Parse the option at parser->at and move on to its last word. */
static bool parse_option(struct parser *parser)
{
    const char *argument = parser->argv[parser->at];
    const char *value = NULL;
    const struct option_row *row = find_row(parser->command, argument, &value);
    if (row == NULL) {
        return wrong(parser, "unknown option %s; `tally %s --help` lists them", argument,
                     command_name(parser->command));
    }
    if (row->kind == OPTION_FLAG && value != NULL) {
        return wrong(parser, "option --%s takes no value", row->name);
    }
    if (row->kind != OPTION_FLAG && value == NULL) {
        if (parser->at + 1 >= parser->argc) {
            return wrong(parser, "option --%s needs a value: --%s %s", row->name, row->name,
                         row->value);
        }
        value = parser->argv[++parser->at];
    }
    if (!store(row, value, parser->settings)) {
        return wrong(parser, "--%s %s: expected %s", row->name, value, expectation(row));
    }
    if (row->offset == offsetof(struct settings, axis)) {
        parser->settings->axis_given = true;
    }
    return check_bounds(parser, row, value);
}

bool options_parse(enum command_id command, int argc, char **argv, struct settings *settings,
                   char *message, size_t size) /* NOLINT(readability-non-const-parameter) */
{
    struct parser parser = {command, argc, argv, 0, settings, message, size};
    bool only_operands = false;
    bool right = true;
    for (; right && parser.at < argc; parser.at++) {
        const char *argument = argv[parser.at];
        if (!only_operands && strcmp(argument, "--") == 0) {
            only_operands = true;
        } else if (!only_operands && argument[0] == '-' && argument[1] != '\0') {
            right = parse_option(&parser);
        } else if (settings->argument != NULL || command_rows[command].operand[0] == '\0') {
            right =
                wrong(&parser, "unexpected argument \"%s\"; `tally %s --help` shows the usage",
                      argument, command_name(command));
        } else {
            settings->argument = argument;
        }
    }
    return right;
}

void options_overview(FILE *to)
{
    (void)fputs(
        "usage: tally COMMAND [OPTIONS]\n\nCumulative sums computed by a Tally server.\n\n",
        to);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        (void)fprintf(to, "  %-11s %s\n", command_rows[i].name, command_rows[i].summary);
    }
    (void)fputs(
        "\n`tally COMMAND --help` shows the options of a command.\n\n"
        "environment: TALLY_URL (server), TALLY_TOKEN (bearer token), NO_COLOR\n"
        "exit status: 0 done, 1 refused by the server, 2 wrong usage, 3 server not reached,\n"
        "  4 server busy or not ready, 5 timeout, 6 server failed, 7 local input or output,\n"
        "  130 interrupted\n",
        to);
}

static void help_row(const struct option_row *row, FILE *to)
{
    char left[64];
    char letter[5] = "    ";
    if (row->letter != 0) {
        (void)snprintf(letter, sizeof letter, "-%c, ", row->letter);
    }
    (void)snprintf(left, sizeof left, "%s--%s %s", letter, row->name,
                   row->value != NULL ? row->value : "");
    (void)fprintf(to, "  %-29s %s\n", left, row->help);
    if (row->kind == OPTION_CHOICE) {
        (void)fprintf(to, "  %-29s one of: %s\n", "", row->choices);
    }
}

void options_help(enum command_id command, FILE *to)
{
    const struct command_row *about = &command_rows[command];
    (void)fprintf(to, "usage: tally %s [OPTIONS] %s\n\n%s\n\n", about->name, about->operand,
                  about->summary);
    for (size_t i = 0; i < option_row_count; i++) {
        if ((option_rows[i].commands & (1U << command)) != 0) {
            help_row(&option_rows[i], to);
        }
    }
    if (about->details[0] != '\0') {
        (void)fprintf(to, "\n%s", about->details);
    }
}
