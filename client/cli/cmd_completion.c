/* `tally completion SHELL`: completion scripts for bash, zsh and fish, printed from the tables
 * of options and commands, so that they are never out of date.
 *
 * Failure: only a shell that is not known. Thread: the main one. */
#include "client/cli/commands.h"
#include "client/cli/terminal.h"

#include <string.h>

/* The letters of flags, or of the options that take a value. */
static void write_letters(bool flags)
{
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (row->letter != 0 && (row->kind == OPTION_FLAG) == flags) {
            (void)putchar(row->letter);
        }
    }
}

/* A function that sets $option to the option of which the word that follows is the value. */
static void write_bash_option(void)
{
    (void)fputs("# bash completion for tally\n"
                "_tally_option() {\n"
                "    local name\n"
                "    option=''\n"
                "    if [[ $1 =~ ^-[",
                stdout);
    write_letters(true);
    (void)fputs("]*([", stdout);
    write_letters(false);
    (void)fputs("])$ ]]; then\n"
                "        option=-${BASH_REMATCH[1]}\n"
                "    elif [[ $1 == --?* ]]; then\n"
                "        for name in",
                stdout);
    for (size_t i = 0; i < option_row_count; i++) {
        if (option_rows[i].kind != OPTION_FLAG) {
            (void)printf(" --%s", option_rows[i].name);
        }
    }
    (void)puts(
        "; do\n"
        "            if [[ $name == \"$1\" || (-z $option && $name == \"$1\"*) ]]; then\n"
        "                option=$name\n"
        "            fi\n"
        "        done\n"
        "    fi\n"
        "}");
}

/* The case of a command, COMMAND_COUNT: of none yet. */
static void write_bash_words(enum command_id command)
{
    const bool none = command == COMMAND_COUNT;
    const char *operands = none ? NULL : command_rows[command].operand_choices;
    (void)printf("        '%s') words='", none ? "" : command_rows[command].name);
    for (size_t i = 0; i < option_row_count; i++) {
        if (none || option_is_on(&option_rows[i], command)) {
            (void)printf("--%s ", option_rows[i].name);
        }
    }
    (void)printf("%s' ;;\n", none                                     ? "--version"
                             : operands != NULL && operands[0] != '<' ? operands
                                                                      : "");
}

/* Bash cuts words at '=' and ':', and completes what is behind: they are put together first,
 * and what stands before is taken from the answers. Readline, which knows quotes,
 * completes files. */
static void write_bash(void)
{
    write_bash_option();
    (void)puts("_tally() {\n"
               "    local line=${COMP_LINE:0:COMP_POINT} option='' command='' prefix='' "
               "head='' words=''\n"
               "    local cur piece i\n"
               "    local -a whole=()\n"
               "    COMPREPLY=()\n"
               "    for piece in \"${COMP_WORDS[@]:0:COMP_CWORD+1}\"; do\n"
               "        if [[ ${#whole[@]} -eq 0 || $line == [[:blank:]]* ]]; then\n"
               "            line=${line#\"${line%%[![:blank:]]*}\"}\n"
               "            whole+=('')\n"
               "        fi\n"
               "        piece=${piece:0:${#line}}\n"
               "        line=${line#\"$piece\"}\n"
               "        head=${whole[${#whole[@]}-1]}\n"
               "        whole[${#whole[@]}-1]+=$piece\n"
               "    done\n"
               "    cur=${whole[${#whole[@]}-1]}\n"
               "    [[ $piece != [=:]* ]] || head=$cur\n"
               "    for ((i = 1; i < ${#whole[@]} - 1; i++)); do\n"
               "        if [[ -n $option ]]; then\n"
               "            option=''\n"
               "        elif [[ ${whole[i]} == -?* ]]; then\n"
               "            _tally_option \"${whole[i]}\"\n"
               "        elif [[ -z $command ]]; then\n"
               "            command=${whole[i]}\n"
               "        fi\n"
               "    done\n"
               "    if [[ -z $option && $cur == --*=* ]]; then\n"
               "        prefix=${cur%%=*}=\n"
               "        cur=${cur#*=}\n"
               "        _tally_option \"${prefix%=}\"\n"
               "        option=${option:-flag}\n"
               "    fi\n"
               "    case $option in\n"
               "    '')\n"
               "        case $command in");
    for (int i = 0; i <= COMMAND_COUNT; i++) {
        write_bash_words((enum command_id)i);
    }
    (void)fputs("        esac\n"
                "        if [[ $command == cumsum && $cur != -* ]]; then\n"
                "            compopt -o default\n"
                "            return\n"
                "        fi\n"
                "        [[ -n $command || $cur == -* ]] || words='",
                stdout);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        (void)printf("%s ", command_rows[i].name);
    }
    (void)puts("'\n"
               "        ;;");
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (row->kind != OPTION_CHOICE && row->kind != OPTION_FILE) {
            continue;
        }
        (void)printf("    --%s", row->name); /* "    --output|-o) " */
        if (row->letter != 0) {
            (void)printf("|-%c", row->letter);
        }
        if (row->kind == OPTION_CHOICE) {
            (void)printf(") words='%s' ;;\n", row->choices);
        } else {
            (void)puts(") compopt -o default ;;");
        }
    }
    (void)puts("    esac\n"
               "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
               "    for i in \"${!COMPREPLY[@]}\"; do\n"
               "        piece=$prefix${COMPREPLY[i]}\n"
               "        COMPREPLY[i]=${piece#\"$head\"}\n"
               "    done\n"
               "}\n"
               "complete -F _tally tally");
}

/* An option by its name, and by its letter if it has one. */
static void write_zsh_option(const struct option_row *row)
{
    bool flag = row->kind == OPTION_FLAG;
    for (int i = 0; i < (row->letter != 0 ? 2 : 1); i++) {
        if (i == 0) {
            (void)printf(" \\\n            '--%s%s[", row->name, flag ? "" : "=");
        } else {
            (void)printf(" \\\n            '-%c%s[", row->letter, flag ? "" : "+");
        }
        for (const char *at = row->help; *at != '\0'; at++) {
            if (strchr("[]:'\"$`\\", *at) == NULL) { /* they would end the description */
                (void)putchar(*at);
            }
        }
        (void)putchar(']');
        if (row->kind == OPTION_CHOICE) {
            (void)printf(":%s:(%s)", row->value, row->choices);
        } else if (!flag) {
            (void)printf(":%s:%s", row->value, row->kind == OPTION_FILE ? "_files" : " ");
        }
        (void)putchar('\'');
    }
}

static void write_zsh(void)
{
    (void)fputs("#compdef tally\n"
                "_tally() {\n"
                "    local state line\n"
                "    _arguments -s -S -C -A '-*' '--version[print the version]'",
                stdout);
    for (size_t i = 0; i < option_row_count; i++) {
        write_zsh_option(&option_rows[i]);
    }
    (void)printf(" \\\n            '1:command:->command' '*::argument:->argument'\n"
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
        (void)printf("        %s)\n            _arguments -s -S", command_rows[i].name);
        for (size_t k = 0; k < option_row_count; k++) {
            if (option_is_on(&option_rows[k], (enum command_id)i)) {
                write_zsh_option(&option_rows[k]);
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

static void write_fish_option(const struct option_row *row)
{
    (void)fputs("complete -c tally -n \"$none; or __fish_seen_subcommand_from", stdout);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (option_is_on(row, (enum command_id)i)) {
            (void)printf(" %s", command_rows[i].name);
        }
    }
    (void)printf("\" -l %s", row->name);
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

static void write_fish(void)
{
    (void)puts("complete -c tally -f");
    (void)printf("set -l none 'not __fish_seen_subcommand_from");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        (void)printf(" %s", command_rows[i].name);
    }
    (void)puts("'\n"
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
    }
    for (size_t i = 0; i < option_row_count; i++) {
        write_fish_option(&option_rows[i]);
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
