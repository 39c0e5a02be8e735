/* Parsing with getopt_long() by the rows of option_table.c, and --help. The first operand is
 * the command. Operands and options may have any order; "--" ends the options, "-" is an
 * operand. Options may precede the command, so the check that the command allows them is at the
 * end. */
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
    FIRST_ROW = 256, /* result of getopt_long() for row 0; smaller results are letters */
    ROWS_MAX = 64,
    LETTERS_TEXT = 2 * ROWS_MAX + 3,
    WORD_TEXT = 64,
    CHOICES_TEXT = 256
};

/* Set *command to the command of this name. Returns EXIT_DONE, or EXIT_USAGE after
 * complaining. */
static int find_command(const char *name, enum command_id *command)
{
    struct suggestion suggestion = suggestion_for(name);
    *command = command_named(name);
    if (*command != COMMAND_COUNT) {
        return EXIT_DONE;
    }
    for (int i = 0; i < COMMAND_COUNT; i++) {
        suggestion_consider(&suggestion, command_rows[i].name);
    }
    return access(name, F_OK) == 0
               ? complain(EXIT_USAGE, "'%s' is a file; did you mean tally cumsum %s?", name,
                          name)
               : complain(EXIT_USAGE, "there is no command '%s'%s `tally --help` lists them",
                          name, suggestion.text[0] != '\0' ? suggestion.text : ";");
}

/* ---- values ---- */

/* Return 1 + the index of `word` in `choices`. Returns 0 for another word; the suggestion is
 * then the most similar choice, or empty if several choices begin with `word`. */
static int find_choice(const char *choices, const char *word, struct suggestion *suggestion)
{
    int begun = 0;
    for (int index = 1; *choices != '\0'; index++) {
        char choice[WORD_TEXT];
        size_t length = strcspn(choices, " ");
        (void)snprintf(choice, sizeof choice, "%.*s", (int)length, choices);
        if (strcmp(choice, word) == 0) {
            return index;
        }
        suggestion_consider(suggestion, choice);
        begun += strncmp(choice, word, strlen(word)) == 0;
        choices += length;
        choices += strspn(choices, " ");
    }
    if (begun > 1) {
        suggestion->text[0] = '\0';
    }
    return 0;
}

/* Print choices as "npy, raw or json". */
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

/* Parse integers from 0 on that are separated by commas; if `open`, one of them may be -1.
 * Returns false for other text. */
static bool parse_list(const char *text, bool open, struct number_list *list)
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

/* Return the name of the type of which `word` is a spelling (f4: float32); `word` if there is
 * none. */
static const char *type_of_spelling(const char *word)
{
    enum dtype dtype = DTYPE_BOOL;
    return dtype_find(DTYPE_FAMILY_SPELLING, word, strlen(word), &dtype)
               ? dtype_info(dtype)->name
               : word;
}

/* Return advice for a word that is not the name of a type; NULL: suggest a similar name
 * instead. */
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

/* Print a bound in the unit of the option. */
static void bound_text(const struct option_row *row, double bound, char *text, size_t room)
{
    if (row->kind == OPTION_SIZE) {
        byte_size_text((uint64_t)bound, text, room);
    } else {
        (void)snprintf(text, room, "%.15g", bound);
    }
}

/* Parse and store the value of an option; value NULL: a flag. Returns EXIT_DONE, or EXIT_USAGE
 * after complaining. */
static int store_value(const struct option_row *row, const char *value,
                       struct settings *settings)
{
    const bool open = row->offset == offsetof(struct settings, shape);
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
        *(int *)to = find_choice(row->choices, value, &suggestion);
        right = *(int *)to > 0;
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
        right = parse_list(value, open, to);
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

/* Store an operand. `before`: the word before the operand, for complaints. */
static int store_operand(const char *word, const char *before, struct settings *settings)
{
    const enum command_id command = settings->command;
    if (word[0] == '\0') {
        return complain(EXIT_USAGE, "an argument is empty, '': leave it out, or set the "
                                    "variable that it was made of");
    }
    if (command == COMMAND_COUNT) {
        const bool help = strcmp(word, "help") == 0 && !settings->help;
        settings->help = settings->help || help;
        return help ? EXIT_DONE : find_command(word, &settings->command);
    }
    if (command == COMMAND_TOKEN && settings->argument != NULL && settings->name == NULL) {
        settings->name = word;
        return EXIT_DONE;
    }
    if (settings->argument == NULL && command_rows[command].operand[0] != '\0') {
        settings->argument = word;
        return EXIT_DONE;
    }
    const struct option_row *row =
        strncmp(before, "--", 2) == 0 ? option_named(before + 2, strlen(before + 2)) : NULL;
    if (row != NULL && row->kind == OPTION_FLAG) {
        return complain(EXIT_USAGE, "unexpected argument '%s': %s takes no value", word,
                        before);
    }
    return command == COMMAND_CUMSUM
               ? complain(EXIT_USAGE,
                          "unexpected argument '%s': %s is the input already; -o FILE names "
                          "the result",
                          word, settings->argument)
               : complain(EXIT_USAGE,
                          "unexpected argument '%s'; `tally %s --help` shows the usage", word,
                          command_rows[command].name);
}

/* Return whether a word such as -axis, parsed as the letter a with the value "xis", is the name
 * of an option. */
static bool is_misspelled(const char *word, const char *value)
{
    if (word[0] != '-' || value != word + 2) {
        return false;
    }
    const size_t length = strlen(word + 1);
    const struct option_row *row = option_named(word + 1, length);
    return row != NULL && row->name[length] == '\0';
}

/* Complain about an option that the command does not allow, or about an ambiguous
 * abbreviation. */
static int refuse_option(enum command_id command, const char *word)
{
    const int length = (int)strcspn(word, "=");
    char several[WORD_TEXT * 4] = "";
    int count = 0;
    bool known = false; /* another command has the option */
    struct suggestion suggestion = suggestion_for(word);
    for (size_t i = 0; i < option_row_count; i++) {
        char name[WORD_TEXT];
        (void)snprintf(name, sizeof name, "--%s", option_rows[i].name);
        if (command == COMMAND_COUNT || option_is_on(&option_rows[i], command)) {
            suggestion_consider(&suggestion, name);
        }
        known = known || strcmp(name, word) == 0;
        if (length > 2 && strncmp(name, word, (size_t)length) == 0) {
            text_append(several, sizeof several, "%s%s", count++ > 0 ? ", " : "", name);
        }
    }
    if (count > 1 && !known) {
        return complain(EXIT_USAGE, "%.*s is the beginning of %s: write more of it", length,
                        word, several);
    }
    const bool any = command == COMMAND_COUNT;
    return complain(EXIT_USAGE, "unknown option %s%s `tally %s%s--help` lists them", word,
                    suggestion.text[0] != '\0' ? suggestion.text : ";",
                    any ? "" : command_rows[command].name, any ? "" : " ");
}

/* Complain about a word for which getopt_long() has returned `found`: '?' or ':'. */
static int refuse_word(enum command_id command, int found, const char *word)
{
    const struct option_row *row =
        optopt >= FIRST_ROW ? &option_rows[optopt - FIRST_ROW] : option_lettered((char)optopt);
    const char letter[3] = {'-', (char)optopt, '\0'}; /* the word may have several letters */
    if (row == NULL) {
        return refuse_option(command, optopt != 0 ? letter : word);
    }
    return found == '?' ? complain(EXIT_USAGE, "option --%s takes no value", row->name)
                        : complain(EXIT_USAGE, "option --%s needs a value: --%s %s", row->name,
                                   row->name, row->value);
}

/* Fill the two lists of options for getopt_long(). Both must be empty. */
static void list_options(struct option *names, char *letters)
{
    assert(option_row_count <= ROWS_MAX);
    text_append(letters, LETTERS_TEXT,
                "-:"); /* report operands in order, missing values as ':' */
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        const bool flag = row->kind == OPTION_FLAG;
        names[i] = (struct option){row->name, flag ? no_argument : required_argument, NULL,
                                   FIRST_ROW + (int)i};
        if (row->letter != 0) {
            text_append(letters, LETTERS_TEXT, "%c%s", row->letter, flag ? "" : ":");
        }
    }
}

/* Store the operand or option for which getopt_long() has returned `found`. Marks the row of an
 * option in `given`. */
static int store_word(int found, char **argv, bool given[ROWS_MAX], struct settings *settings)
{
    const char *word = argv[optind - 1];
    if (found == 1) {
        return store_operand(optarg, argv[optind - 2], settings);
    }
    if (found == '?' || found == ':') {
        return refuse_word(settings->command, found, word);
    }
    const struct option_row *row =
        found >= FIRST_ROW ? &option_rows[found - FIRST_ROW] : option_lettered((char)found);
    if (is_misspelled(word, optarg)) {
        return complain(EXIT_USAGE, "%s: a name of several letters has two dashes, -%s", word,
                        word);
    }
    given[row - option_rows] = true;
    return store_value(row, optarg, settings);
}

int options_parse(int argc, char **argv, struct settings *settings)
{
    struct option names[ROWS_MAX + 1] = {{NULL, 0, NULL, 0}};
    char letters[LETTERS_TEXT] = "";
    bool given[ROWS_MAX] = {false};
    int found = 0;
    list_options(names, letters);
    opterr = 0;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): no thread runs yet */
    while ((found = getopt_long(argc, argv, letters, names, NULL)) != -1) {
        STEP(store_word(found, argv, given, settings));
    }
    for (; optind < argc; optind++) {
        STEP(store_operand(argv[optind], argv[optind - 1], settings));
    }
    const enum command_id command = settings->command;
    for (size_t i = 0; command != COMMAND_COUNT && i < option_row_count; i++) {
        if (given[i] && !option_is_on(&option_rows[i], command)) {
            char name[WORD_TEXT];
            (void)snprintf(name, sizeof name, "--%s", option_rows[i].name);
            return refuse_option(command, name);
        }
    }
    return EXIT_DONE;
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
