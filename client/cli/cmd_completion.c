/* `tally completion SHELL`: completion scripts for bash, zsh and fish, printed from the tables of
 * options and commands, so that they are never out of date.
 *
 * Failure: only a shell that is not known. Thread: the main one. */
#include "client/cli/commands.h"
#include "client/cli/terminal.h"

#include <string.h>

enum {
    NAME_TEXT = 64
};

/* Words and names of files may have blanks and stars in them: they are taken line by line. */
static void write_bash(void)
{
    (void)puts("# bash completion for tally\n"
               "_tally() {\n"
               "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
               "    local words=''\n"
               "    COMPREPLY=()");
    (void)printf("    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                 "        mapfile -t COMPREPLY < <(compgen -W '");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        (void)printf("%s ", command_rows[i].name);
    }
    (void)puts("--help --version' -- \"$cur\")\n"
               "        return\n"
               "    fi\n"
               "    case $prev in");
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (row->kind == OPTION_FLAG) {
            continue;
        }
        (void)printf("    --%s", row->name); /* "    --output|-o) " */
        if (row->letter != 0) {
            (void)printf("|-%c", row->letter);
        }
        (void)fputs(") ", stdout);
        if (row->kind == OPTION_CHOICE) {
            (void)printf("mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$cur\"); ",
                         row->choices);
        } else if (row->kind == OPTION_FILE) {
            (void)fputs("mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); ", stdout);
        }
        (void)puts("return ;;");
    }
    (void)puts("    esac\n"
               "    case ${COMP_WORDS[1]} in");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        const char *operands = command_rows[i].operand_choices;
        (void)printf("    %s) words='", command_rows[i].name);
        for (size_t k = 0; k < option_row_count; k++) {
            if (option_is_on(&option_rows[k], (enum command_id)i)) {
                (void)printf("--%s ", option_rows[k].name);
            }
        }
        (void)printf("%s' ;;\n", operands != NULL && operands[0] != '<' ? operands : "");
    }
    (void)puts("    esac\n"
               "    mapfile -t COMPREPLY < <(\n"
               "        compgen -W \"$words\" -- \"$cur\"\n"
               "        case $cur in -*) ;; *)\n"
               "            [ \"${COMP_WORDS[1]}\" != cumsum ] || compgen -f -- \"$cur\" ;;\n"
               "        esac\n"
               "    )\n"
               "}\n"
               "complete -o filenames -F _tally tally");
}

/* Of an option, as it is `spelled`: "--output", "-o". */
static void write_zsh_option(const struct option_row *row, const char *spelled)
{
    (void)printf(" \\\n            '%s[", spelled);
    for (const char *at = row->help; *at != '\0'; at++) {
        if (strchr("[]:'\"$`\\", *at) == NULL) { /* they would end the description */
            (void)putchar(*at);
        }
    }
    (void)putchar(']');
    if (row->kind == OPTION_CHOICE) {
        (void)printf(":%s:(%s)", row->value, row->choices);
    } else if (row->kind == OPTION_FILE) {
        (void)printf(":%s:_files", row->value);
    } else if (row->kind != OPTION_FLAG) {
        (void)printf(":%s: ", row->value);
    }
    (void)putchar('\'');
}

static void write_zsh_options(const struct option_row *row)
{
    char name[NAME_TEXT];
    (void)snprintf(name, sizeof name, "--%s", row->name);
    write_zsh_option(row, name);
    if (row->letter != 0) {
        (void)snprintf(name, sizeof name, "-%c", row->letter);
        write_zsh_option(row, name);
    }
}

static void write_zsh(void)
{
    (void)printf("#compdef tally\n"
                 "_tally() {\n"
                 "    local state line\n"
                 "    _arguments -C '1:command:->command' '*::argument:->argument'\n"
                 "    case $state in\n"
                 "    command)\n"
                 "        local -a commands=(");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        (void)printf("\n            '%s:%s'", command_rows[i].name, command_rows[i].summary);
    }
    (void)puts("\n        )\n"
               "        _describe command commands\n"
               "        ;;\n"
               "    argument)\n"
               "        case $line[1] in");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        const char *operands = command_rows[i].operand_choices;
        (void)printf("        %s)\n            _arguments", command_rows[i].name);
        for (size_t k = 0; k < option_row_count; k++) {
            if (option_is_on(&option_rows[k], (enum command_id)i)) {
                write_zsh_options(&option_rows[k]);
            }
        }
        if (operands != NULL && operands[0] == '<') {
            (void)printf(" \\\n            ':input:_files'");
        } else if (operands != NULL) {
            (void)printf(" \\\n            ':operand:(%s)'", operands);
        }
        (void)puts("\n            ;;");
    }
    (void)puts(
        "        esac\n"
        "        ;;\n"
        "    esac\n"
        "}\n"
        "if [ \"$funcstack[1]\" = _tally ]; then _tally \"$@\"; else compdef _tally tally; "
        "fi");
}

/* In single quotes. */
static void write_fish_text(const char *text)
{
    (void)putchar('\'');
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '\'' || *at == '\\') {
            (void)putchar('\\');
        }
        (void)putchar(*at);
    }
    (void)putchar('\'');
}

static void write_fish(void)
{
    (void)puts("complete -c tally -f");
    (void)printf("set -l none 'not __fish_seen_subcommand_from");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        (void)printf(" %s", command_rows[i].name);
    }
    (void)puts("'\n"
               "complete -c tally -n \"$none\" -l help\n"
               "complete -c tally -n \"$none\" -l version");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        const struct command_row *command = &command_rows[i];
        const char *operands = command->operand_choices;
        (void)printf("complete -c tally -n \"$none\" -a %s -d ", command->name);
        write_fish_text(command->summary);
        (void)putchar('\n');
        if (operands != NULL) {
            (void)printf("complete -c tally -n '__fish_seen_subcommand_from %s' ",
                         command->name);
            if (operands[0] == '<') {
                (void)puts("-F");
            } else {
                (void)printf("-a '%s'\n", operands);
            }
        }
        for (size_t k = 0; k < option_row_count; k++) {
            const struct option_row *row = &option_rows[k];
            if (!option_is_on(row, (enum command_id)i)) {
                continue;
            }
            (void)printf("complete -c tally -n '__fish_seen_subcommand_from %s' -l %s",
                         command->name, row->name);
            if (row->letter != 0) {
                (void)printf(" -s %c", row->letter);
            }
            if (row->kind == OPTION_CHOICE) {
                (void)printf(" -x -a '%s'", row->choices);
            } else if (row->kind != OPTION_FLAG) {
                (void)fputs(row->kind == OPTION_FILE ? " -r -F" : " -x", stdout);
            }
            (void)fputs(" -d ", stdout);
            write_fish_text(row->help);
            (void)putchar('\n');
        }
    }
}

int command_completion(const struct settings *settings, struct tally *client)
{
    const char *shell = settings->argument == NULL ? "" : settings->argument;
    (void)client;
    if (strcmp(shell, "bash") == 0) {
        write_bash();
    } else if (strcmp(shell, "zsh") == 0) {
        write_zsh();
    } else if (strcmp(shell, "fish") == 0) {
        write_fish();
    } else {
        return complain(EXIT_USAGE, "give a shell: tally completion bash, zsh or fish");
    }
    return EXIT_DONE;
}
