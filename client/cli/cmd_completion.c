/* `tally completion SHELL` prints the completion script for bash, zsh or fish (completion.*).
 * When the user types a Tab, the script executes `tally --complete WORD...`, which prints the
 * completions of the last word. The tables of options and commands have the completions.
 *
 * Possible failures: an unknown shell is EXIT_USAGE. Thread: the main one. */
#include "client/cli/commands.h"
#include "client/cli/terminal.h"

#include <string.h>

EMBED(completion_bash, "client/cli/completion.bash");
EMBED(completion_zsh, "client/cli/completion.zsh");
EMBED(completion_fish, "client/cli/completion.fish");

/* Return the option in a word (--name or -abc) if its value is the next word; else NULL. */
static const struct option_row *option_without_value(const char *word)
{
    const struct option_row *row = NULL;
    if (word[1] == '-') {
        bool whole = word[2] == '\0' || strchr(word, '=') != NULL;
        row = whole ? NULL : option_named(word + 2, strlen(word + 2));
        return row != NULL && row->kind != OPTION_FLAG ? row : NULL;
    }
    for (word++; *word != '\0'; word++) {
        row = option_lettered(*word);
        if (row == NULL || row->kind != OPTION_FLAG) {
            return word[1] == '\0' ? row : NULL;
        }
    }
    return NULL;
}

/* Print words that are separated by blanks, each with a prefix: the first `count` bytes of
 * `before`. */
static void offer_words(const char *words, const char *before, size_t count)
{
    while (*words != '\0') {
        int length = (int)strcspn(words, " ");
        (void)printf("%.*s%.*s\t\n", (int)count, before, length, words);
        words += length;
        words += strspn(words, " ");
    }
}

/* Print the values of an option with a prefix; row NULL: print nothing. */
static void offer_value(const struct option_row *row, const char *before, size_t count)
{
    if (row != NULL && row->kind == OPTION_CHOICE) {
        offer_words(row->choices, before, count);
    } else if (row != NULL && row->kind == OPTION_FILE) {
        (void)puts("<file>");
    }
}

/* Print the options of a command; COMMAND_COUNT: of all commands. */
static void offer_options(enum command_id command)
{
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (command == COMMAND_COUNT || option_is_on(row, command)) {
            (void)printf("--%s\t%s\n", row->name, row->help);
            if (row->letter != 0) {
                (void)printf("-%c\t%s\n", row->letter, row->help);
            }
        }
    }
}

void completion_offer(int count, char **words)
{
    const char *last = count > 0 ? words[count - 1] : "";
    const char *equals = strncmp(last, "--", 2) == 0 ? strchr(last, '=') : NULL;
    enum command_id command = COMMAND_COUNT;
    const struct option_row *pending = NULL;
    for (int i = 0; i + 1 < count; i++) {
        if (pending != NULL) {
            pending = NULL;
        } else if (words[i][0] == '-' && words[i][1] != '\0') {
            pending = option_without_value(words[i]);
        } else if (command == COMMAND_COUNT && strcmp(words[i], "help") != 0) {
            command = command_named(words[i]);
            if (command == COMMAND_COUNT) {
                return;
            }
        }
    }
    const char *operands =
        command != COMMAND_COUNT ? command_rows[command].operand_choices : NULL;
    if (pending != NULL) {
        offer_value(pending, "", 0);
    } else if (equals != NULL) {
        offer_value(option_named(last + 2, (size_t)(equals - last - 2)), last,
                    (size_t)(equals + 1 - last));
    } else if (command == COMMAND_COUNT && last[0] != '-') {
        for (int i = 0; i < COMMAND_COUNT; i++) {
            (void)printf("%s\t%s\n", command_rows[i].name, command_rows[i].summary);
        }
    } else if (operands != NULL && operands[0] == '<' && last[0] != '-') {
        (void)puts(operands);
    } else {
        offer_options(command);
        offer_words(operands != NULL && operands[0] != '<' ? operands : "", "", 0);
    }
}

int command_completion(const struct settings *settings, struct tally *client)
{
    static const struct {
        const char *shell;
        const char *script;
    } scripts[] = {
        {"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}};
    (void)client;
    for (size_t i = 0; settings->argument != NULL && i < ARRAY_COUNT(scripts); i++) {
        if (strcmp(settings->argument, scripts[i].shell) == 0) {
            (void)fputs(scripts[i].script, stdout);
            return EXIT_DONE;
        }
    }
    return complain(EXIT_USAGE, "give a shell: tally completion bash, zsh or fish");
}
