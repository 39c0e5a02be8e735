/* `tally completion SHELL`: completion scripts for bash and zsh, printed from the tables of
 * options and commands, so that they are never out of date.
 *
 * Failure: only a shell that is not known. Thread: the main one. */
#include "client/cli/commands.h"
#include "client/cli/terminal.h"

#include <string.h>

static void bash_values(const struct option_row *row, FILE *to)
{
    if (row->choices != NULL) {
        (void)fprintf(to, "    --%s) COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n",
                      row->name, row->choices);
    } else if (row->kind == OPTION_FILE) {
        (void)fprintf(to, "    --%s) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n",
                      row->name);
    } else if (row->kind != OPTION_FLAG) {
        (void)fprintf(to, "    --%s) return ;;\n", row->name);
    }
}

static void bash_command(int command, FILE *to)
{
    const struct command_row *about = &command_rows[command];
    (void)fprintf(to, "    %s) words='", about->name);
    for (size_t i = 0; i < option_row_count; i++) {
        if ((option_rows[i].commands & (1U << command)) != 0) {
            (void)fprintf(to, "--%s ", option_rows[i].name);
        }
    }
    if (about->operand_choices != NULL && about->operand_choices[0] != '<') {
        (void)fprintf(to, "%s", about->operand_choices);
    }
    (void)fprintf(to, "' ;;\n");
}

static void write_bash(FILE *to)
{
    (void)fputs(
        "# bash completion for tally\n"
        "_tally() {\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=''\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "        COMPREPLY=($(compgen -W '",
        to);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        (void)fprintf(to, "%s ", command_rows[i].name);
    }
    (void)fputs("--help --version' -- \"$cur\"))\n"
                "        return\n"
                "    fi\n"
                "    case $prev in\n"
                "    -o) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n",
                to);
    for (size_t i = 0; i < option_row_count; i++) {
        bash_values(&option_rows[i], to);
    }
    (void)fputs("    esac\n"
                "    case ${COMP_WORDS[1]} in\n",
                to);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        bash_command(i, to);
    }
    (void)fputs("    esac\n"
                "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                "    case $cur in -*) ;; *)\n"
                "        [ \"${COMP_WORDS[1]}\" != cumsum ] || COMPREPLY+=($(compgen -f -- "
                "\"$cur\")) ;;\n"
                "    esac\n"
                "}\n"
                "complete -o filenames -F _tally tally\n",
                to);
}

/* An option's help as a zsh description: brackets and quotes would end it. */
static void zsh_text(const char *text, FILE *to)
{
    for (; *text != '\0'; text++) {
        if (strchr("[]:'\"$`\\", *text) == NULL) {
            (void)fputc(*text, to);
        }
    }
}

static void zsh_option(const struct option_row *row, FILE *to)
{
    (void)fprintf(to, " \\\n            '--%s[", row->name);
    zsh_text(row->help, to);
    (void)fputc(']', to);
    if (row->choices != NULL) {
        (void)fprintf(to, ":%s:(%s)", row->value, row->choices);
    } else if (row->kind == OPTION_FILE) {
        (void)fprintf(to, ":%s:_files", row->value);
    } else if (row->kind != OPTION_FLAG) {
        (void)fprintf(to, ":%s: ", row->value);
    }
    (void)fputc('\'', to);
}

static void zsh_command(int command, FILE *to)
{
    const struct command_row *about = &command_rows[command];
    (void)fprintf(to, "        %s)\n            _arguments", about->name);
    for (size_t i = 0; i < option_row_count; i++) {
        if ((option_rows[i].commands & (1U << command)) != 0) {
            zsh_option(&option_rows[i], to);
        }
    }
    if (about->operand_choices != NULL && about->operand_choices[0] == '<') {
        (void)fputs(" \\\n            ':input:_files'", to);
    } else if (about->operand_choices != NULL) {
        (void)fprintf(to, " \\\n            ':operand:(%s)'", about->operand_choices);
    }
    (void)fputs("\n            ;;\n", to);
}

static void write_zsh(FILE *to)
{
    (void)fputs("#compdef tally\n"
                "_tally() {\n"
                "    local state line\n"
                "    _arguments -C '1:command:->command' '*::argument:->argument'\n"
                "    case $state in\n"
                "    command)\n"
                "        local -a commands=(",
                to);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        (void)fprintf(to, "\n            '%s:%s'", command_rows[i].name,
                      command_rows[i].summary);
    }
    (void)fputs("\n        )\n"
                "        _describe command commands\n"
                "        ;;\n"
                "    argument)\n"
                "        case $line[1] in\n",
                to);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        zsh_command(i, to);
    }
    (void)fputs("        esac\n"
                "        ;;\n"
                "    esac\n"
                "}\n"
                "if [ \"$funcstack[1]\" = _tally ]; then _tally \"$@\"; else compdef _tally "
                "tally; fi\n",
                to);
}

int command_completion(const struct settings *settings, struct tally *client)
{
    const char *shell = settings->argument == NULL ? "" : settings->argument;
    (void)client;
    if (strcmp(shell, "bash") == 0) {
        write_bash(stdout);
    } else if (strcmp(shell, "zsh") == 0) {
        write_zsh(stdout);
    } else {
        return complain(EXIT_USAGE,
                        "give a shell: tally completion bash, or tally completion zsh");
    }
    return EXIT_DONE;
}
