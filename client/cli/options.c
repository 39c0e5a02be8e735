/* Parsing with getopt_long(), by the rows of option_table.c, and --help. Operands and options may
 * have any order; "--" ends the options, "-" is an operand. */
#include "client/cli/options.h"

#include "client/cli/terminal.h"
#include "proto/byte_size.h"
#include "proto/dtype.h"
#include "proto/macros.h"
#include "proto/text.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FIRST_ROW = 256, /* what getopt_long() returns for row 0; letters are below */
    ROWS_MAX = 64,
    LETTERS_TEXT = 2 * ROWS_MAX + 3,
    WORD_TEXT = 64,
    CHOICES_TEXT = 256
};

enum command_id command_find(const char *name)
{
    struct suggestion suggestion = suggestion_for(name);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(command_rows[i].name, name) == 0) {
            return (enum command_id)i;
        }
        suggestion_consider(&suggestion, command_rows[i].name);
    }
    if (access(name, F_OK) == 0) {
        (void)complain(EXIT_USAGE, "\"%s\" is a file; did you mean tally cumsum %s?", name,
                       name);
    } else {
        (void)complain(EXIT_USAGE, "there is no command \"%s\"%s `tally --help` lists them",
                       name, suggestion.text[0] != '\0' ? suggestion.text : ";");
    }
    return COMMAND_COUNT;
}

/* ---- values ---- */

/* Whether `word` is one of `choices`. Otherwise suggests the nearest one, unless `word` is the
 * beginning of several. */
static bool is_choice(const char *choices, const char *word, struct suggestion *suggestion)
{
    int begun = 0;
    while (*choices != '\0') {
        char choice[WORD_TEXT];
        size_t length = strcspn(choices, " ");
        (void)snprintf(choice, sizeof choice, "%.*s", (int)length, choices);
        if (strcmp(choice, word) == 0) {
            return true;
        }
        suggestion_consider(suggestion, choice);
        begun += strncmp(choice, word, strlen(word)) == 0;
        choices += length;
        choices += strspn(choices, " ");
    }
    if (begun > 1) {
        suggestion->text[0] = '\0';
    }
    return false;
}

/* "npy, raw or json" */
static void choices_text(const char *choices, char *text, size_t room)
{
    const char *last = strrchr(choices, ' ');
    text[0] = '\0';
    for (; *choices != '\0'; choices++) {
        const char *blank = choices == last ? " or " : ", ";
        text_append(text, room, "%.*s", *choices == ' ' ? (int)strlen(blank) : 1,
                    *choices == ' ' ? blank : choices);
    }
}

static bool in_bounds(const struct option_row *row, double number)
{
    return row->least >= row->most || (number >= row->least && number <= row->most);
}

static bool parse_integer(const struct option_row *row, const char *text, int64_t *number)
{
    char *end = NULL;
    errno = 0;
    *number = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && in_bounds(row, (double)*number);
}

static bool parse_size(const struct option_row *row, const char *text, int64_t *number)
{
    uint64_t bytes = 0;
    if (!byte_size_read(text, &bytes) || !in_bounds(row, (double)bytes)) {
        return false;
    }
    *number = (int64_t)bytes; /* every size has a bound */
    return true;
}

static bool parse_number(const struct option_row *row, const char *text, double *number)
{
    char *end = NULL;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*number) && in_bounds(row, *number);
}

bool number_list_parse(const char *text, bool open, struct number_list *list)
{
    list->count = 0;
    for (;;) {
        char *end = NULL;
        errno = 0;
        long long value = strtoll(text, &end, 10);
        if (errno != 0 || end == text || value < (open ? -1 : 0) ||
            list->count == TALLY_MAX_RANK) {
            return false;
        }
        open = open && value >= 0;
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

/* Return the name of a type for any spelling of the type; other words unchanged. */
static const char *type_of_spelling(const char *word)
{
    enum dtype dtype = DTYPE_BOOL;
    return dtype_find(DTYPE_FAMILY_SPELLING, word, strlen(word), &dtype)
               ? dtype_info(dtype)->name
               : word;
}

/* Return advice for an unknown type that is better than the nearest name; NULL: none. */
static const char *type_advice(const struct option_row *row, const char *word)
{
    if (word[0] == '>') {
        return "; raw numbers are little-endian, only an NPY file may have the other order";
    }
    return row->offset == offsetof(struct settings, output_dtype) &&
                   strcmp(type_of_spelling(word), "bool") == 0
               ? "; sums of booleans are integers, int64 unless another type is given"
               : NULL;
}

/* Print a bound as a user would write it. */
static void bound_text(const struct option_row *row, double bound, char *text, size_t room)
{
    if (row->kind == OPTION_SIZE) {
        byte_size_text((uint64_t)bound, text, room);
    } else {
        (void)snprintf(text, room, "%.15g", bound);
    }
}

/* Store the value of an option, NULL for a flag. Returns EXIT_DONE, or EXIT_USAGE after complaining. */
static int store_value(enum command_id command, const struct option_row *row, const char *value,
                       struct settings *settings)
{
    bool open = command == COMMAND_CUMSUM && row->offset == offsetof(struct settings, shape);
    void *to = (char *)settings + row->offset;
    const char *expected = "";
    const char *advice = NULL;
    char choices[CHOICES_TEXT];
    bool right = true;
    if (value == NULL) {
        *(bool *)to = true;
        return EXIT_DONE;
    }
    if (row->offset == offsetof(struct settings, dtype) ||
        row->offset == offsetof(struct settings, output_dtype)) {
        advice = type_advice(row, value);
        value = type_of_spelling(value);
    }
    struct suggestion suggestion = suggestion_for(value);
    switch (row->kind) {
    case OPTION_CHOICE:
        choices_text(row->choices, choices, sizeof choices);
        expected = choices;
        right = is_choice(row->choices, value, &suggestion);
        *(const char **)to = value;
        break;
    case OPTION_FILE:
        expected = "the name of a file";
        right = value[0] != '\0';
        *(const char **)to = value;
        break;
    case OPTION_FLAG:
    case OPTION_TEXT:
        *(const char **)to = value;
        break;
    case OPTION_INTEGER:
        expected = "an integer";
        right = parse_integer(row, value, to);
        break;
    case OPTION_SIZE:
        expected = "a size (65536, 64KiB, 64Mi, 64MB)";
        right = parse_size(row, value, to);
        break;
    case OPTION_NUMBER:
        expected = "a number";
        right = parse_number(row, value, to);
        break;
    case OPTION_LIST:
        expected = open ? "integers separated by commas, like 3,4, of which one may be -1"
                        : "integers from 0 on separated by commas, like 3,4";
        right = number_list_parse(value, open, to);
        break;
    }
    if (row->offset == offsetof(struct settings, axis)) {
        settings->axis_given = true;
    }
    if (right) {
        return EXIT_DONE;
    }
    if (row->least < row->most) {
        char least[WORD_TEXT];
        char most[WORD_TEXT];
        bound_text(row, row->least, least, sizeof least);
        bound_text(row, row->most, most, sizeof most);
        return complain(EXIT_USAGE, "--%s %s: expected %s from %s to %s", row->name, value,
                        expected, least, most);
    }
    return complain(EXIT_USAGE, "--%s %s: expected %s%s", row->name,
                    value[0] != '\0' ? value : "''", expected,
                    advice != NULL ? advice : suggestion.text);
}

/* ---- the command line ---- */

bool option_is_on(const struct option_row *row, enum command_id command)
{
    return (row->commands & (1U << command)) != 0;
}

/* Return the row of a result of getopt_long(); NULL: none. */
static const struct option_row *row_of(enum command_id command, int found)
{
    if (found >= FIRST_ROW) {
        return &option_rows[found - FIRST_ROW];
    }
    for (size_t i = 0; i < option_row_count; i++) {
        if (found != 0 && option_rows[i].letter == found &&
            option_is_on(&option_rows[i], command)) {
            return &option_rows[i];
        }
    }
    return NULL;
}

/* Return the row of the option with this name; NULL: none. */
static const struct option_row *row_named(const char *name)
{
    for (size_t i = 0; i < option_row_count; i++) {
        if (strcmp(option_rows[i].name, name) == 0) {
            return &option_rows[i];
        }
    }
    return NULL;
}

/* Store an operand; `before` is the word before it. */
static int store_operand(enum command_id command, const char *word, const char *before,
                         struct settings *settings)
{
    if (word[0] == '\0') {
        return complain(EXIT_USAGE, "an argument is empty, '': leave it out, or set the "
                                    "variable that it was made of");
    }
    if (command == COMMAND_TOKEN && settings->argument != NULL && settings->name == NULL) {
        settings->name = word;
        return EXIT_DONE;
    }
    if (settings->argument != NULL || command_rows[command].operand[0] == '\0') {
        const struct option_row *row =
            strncmp(before, "--", 2) == 0 ? row_named(before + 2) : NULL;
        if (row != NULL && row->kind == OPTION_FLAG) {
            return complain(EXIT_USAGE, "unexpected argument \"%s\": %s takes no value", word,
                            before);
        }
        if (command == COMMAND_CUMSUM) {
            return complain(
                EXIT_USAGE,
                "unexpected argument \"%s\": %s is the input already; -o FILE names "
                "the result",
                word, settings->argument);
        }
        return complain(EXIT_USAGE,
                        "unexpected argument \"%s\"; `tally %s --help` shows the usage", word,
                        command_rows[command].name);
    }
    settings->argument = word;
    return EXIT_DONE;
}

/* Whether a letter and its value, such as -axis, are together the name of an option. */
static bool is_misspelled(const char *word, const char *value)
{
    return word[0] == '-' && word[1] != '-' && value == word + 2 && row_named(word + 1) != NULL;
}

/* Complain about an unknown option, or an unknown letter in `word`. */
static int refuse_option(enum command_id command, const char *word)
{
    char letter[3] = {'-', (char)optopt, '\0'}; /* one of several letters behind a dash */
    char several[WORD_TEXT * 4] = "";
    int count = 0;
    if (optopt != 0) {
        word = letter;
    }
    struct suggestion suggestion = suggestion_for(word);
    for (size_t i = 0; i < option_row_count; i++) {
        if (option_is_on(&option_rows[i], command)) {
            char name[WORD_TEXT];
            (void)snprintf(name, sizeof name, "--%s", option_rows[i].name);
            suggestion_consider(&suggestion, name);
            if (optopt == 0 && strncmp(name, word, strcspn(word, "=")) == 0) {
                text_append(several, sizeof several, "%s%s", count++ > 0 ? ", " : "", name);
            }
        }
    }
    if (count > 1) {
        return complain(EXIT_USAGE, "%.*s is the beginning of %s: write more of it",
                        (int)strcspn(word, "="), word, several);
    }
    return complain(EXIT_USAGE, "unknown option %s%s `tally %s --help` lists them", word,
                    suggestion.text[0] != '\0' ? suggestion.text : ";",
                    command_rows[command].name);
}

/* List the options of a command for getopt_long(); COMMAND_COUNT: of all commands. Both arrays must be
 * empty. */
static void list_options(enum command_id command, struct option *names, char *letters)
{
    size_t used = 0;
    assert(option_row_count <= ROWS_MAX);
    text_append(letters, LETTERS_TEXT,
                "-:"); /* report operands in order, missing values as ':' */
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (command != COMMAND_COUNT && !option_is_on(row, command)) {
            continue;
        }
        bool flag = row->kind == OPTION_FLAG;
        names[used++] = (struct option){row->name, flag ? no_argument : required_argument, NULL,
                                        FIRST_ROW + (int)i};
        if (row->letter != 0) {
            text_append(letters, LETTERS_TEXT, "%c%s", row->letter, flag ? "" : ":");
        }
    }
}

void options_command_first(int argc, char **argv)
{
    struct option names[ROWS_MAX + 1] = {{NULL, 0, NULL, 0}};
    char letters[LETTERS_TEXT] = "";
    int found = 0;
    list_options(COMMAND_COUNT, names, letters);
    opterr = 0;
    do {
        found =
            getopt_long(argc, argv, letters, names, NULL); /* NOLINT(concurrency-mt-unsafe) */
    } while (found != -1 && found != 1);
    int at = found == 1 ? optind - 1 : optind;
    optind = 0; /* options_parse() starts over */
    if (at > 1 && at < argc) {
        char *command = argv[at];
        memmove(&argv[2], &argv[1], (size_t)(at - 1) * sizeof *argv);
        argv[1] = command;
    }
}

int options_parse(enum command_id command, int argc, char **argv, struct settings *settings)
{
    struct option names[ROWS_MAX + 1] = {{NULL, 0, NULL, 0}};
    char letters[LETTERS_TEXT] = "";
    int status = EXIT_DONE;
    list_options(command, names, letters);
    while (status == EXIT_DONE) {
        int found =
            getopt_long(argc, argv, letters, names, NULL); /* NOLINT(concurrency-mt-unsafe) */
        if (found == -1) {
            break;
        }
        bool refused = found == '?' || found == ':';
        const struct option_row *row = row_of(command, refused ? optopt : found);
        if (found == 1) {
            status = store_operand(command, optarg, argv[optind - 2], settings);
        } else if (row == NULL) {
            status = refuse_option(command, argv[optind - 1]);
        } else if (found == '?') {
            status = complain(EXIT_USAGE, "option --%s takes no value", row->name);
        } else if (found == ':') {
            status = complain(EXIT_USAGE, "option --%s needs a value: --%s %s", row->name,
                              row->name, row->value);
        } else if (is_misspelled(argv[optind - 1], optarg)) {
            status = complain(EXIT_USAGE, "%s: a name of several letters has two dashes, -%s",
                              argv[optind - 1], argv[optind - 1]);
        } else {
            status = store_value(command, row, optarg, settings);
        }
    }
    while (status == EXIT_DONE && optind < argc) {
        status = store_operand(command, argv[optind], argv[optind - 1], settings);
        optind++;
    }
    return status;
}

/* ---- help ---- */

void options_overview(FILE *to)
{
    (void)fputs(
        "usage: tally COMMAND [OPTIONS]\n\nCumulative sums computed by a Tally server.\n\n",
        to);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        (void)fprintf(to, "  %-11s %s\n", command_rows[i].name, command_rows[i].summary);
    }
    (void)fputs(
        "\n`tally help COMMAND` shows the options of a command, `tally -V` the version.\n\n"
        "environment: TALLY_URL (server), TALLY_TOKEN (bearer token), NO_COLOR\n"
        "exit status: 0 done, 1 refused by the server, 2 wrong usage or input,\n"
        "  3 server not reached, 4 server busy or not ready, 5 timeout, 6 server failed,\n"
        "  7 local input or output failed, 130 interrupted; ended by SIGPIPE if the reader\n"
        "  of standard output has closed it\n",
        to);
}

void options_help(enum command_id command, FILE *to)
{
    const struct command_row *about = &command_rows[command];
    (void)fprintf(to, "usage: tally %s [OPTIONS]%s%s\n\n%s\n\n", about->name,
                  about->operand[0] != '\0' ? " " : "", about->operand, about->summary);
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (!option_is_on(row, command)) {
            continue;
        }
        char left[WORD_TEXT] = "    ";
        if (row->letter != 0) {
            (void)snprintf(left, sizeof left, "-%c, ", row->letter);
        }
        text_append(left, sizeof left, "--%s %s", row->name,
                    row->value != NULL ? row->value : "");
        (void)fprintf(to, "  %-29s %s\n", left, row->help);
        if (row->kind == OPTION_CHOICE) {
            (void)fprintf(to, "  %-29s one of: %s\n", "", row->choices);
        }
    }
    if (about->details[0] != '\0') {
        (void)fprintf(to, "\n%s", about->details);
    }
}
