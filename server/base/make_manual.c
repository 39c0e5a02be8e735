/* Prints the manual page tallyd(8) during the build. The page is tallyd.8, with two lists from
 * the table of settings inserted at its marks: the options, and the variables of other
 * programs.
 *
 * The program runs on the build machine, so `make install` needs no emulator after a build for
 * another processor.
 *
 * Possible failures (exit status 1): tallyd.8 lacks a mark; standard output cannot be
 * written. */
#include "proto/macros.h"
#include "server/base/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Print text for roff, with a backslash in front of each hyphen. A backslash in the text, or a
 * point or quote at its start, would need more escapes; no row contains these
 * (tests/unit/test_config.c). */
static void put_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        (void)fputs(*text == '-' ? "\\" : "", out);
        (void)fputc(*text, out);
    }
}

static void put_line(FILE *out, const char *text)
{
    put_text(out, text);
    (void)fputc('\n', out);
}

static void put_tag(FILE *out, const char *name, const char *value)
{
    (void)fputs(".TP\n\\fB", out);
    put_text(out, name);
    (void)fputs("\\fR", out);
    if (value[0] != '\0') {
        (void)fputs(" \\fI", out);
        put_text(out, value);
        (void)fputs("\\fR", out);
    }
    (void)fputc('\n', out);
}

/* Print the bounds of a number, or the most entries of a list. */
static void print_bounds(FILE *out, const struct config_row *row)
{
    char low[CONFIG_BOUND_BYTES];
    char high[CONFIG_BOUND_BYTES];
    config_bounds(row, low, high);
    if (row->type == CONFIG_SIZE || row->type == CONFIG_UINT) {
        (void)fprintf(out, "From %s to %s.\n", low, high);
    } else if (row->type == CONFIG_LIST) {
        (void)fprintf(out, "At most %s.\n", high);
    }
}

static void print_option(FILE *out, const struct config_row *row)
{
    char flag[64];
    char variable[64];
    config_flag_name(row->field, flag, sizeof flag);
    config_variable_name(row->field, variable, sizeof variable);
    put_tag(out, flag, row->type == CONFIG_BOOL ? "" : row->unit);
    put_line(out, row->help);
    (void)fputs(row->initial[0] == '\0' ? "Default: empty" : "Default: ", out);
    put_text(out, row->initial);
    (void)fputs(".\n", out);
    print_bounds(out, row);
    (void)fputs("Variable: \\fB", out);
    put_text(out, variable);
    (void)fputs("\\fR.\n", out);
}

static void print_options(FILE *out)
{
    for (size_t i = 0; i < config_row_count; i++) {
        const struct config_row *row = &config_rows[i];
        if (row->title != NULL) {
            (void)fprintf(out, ".SS %s\n", row->title);
        } else {
            print_option(out, row);
        }
    }
    (void)fputs(".SS Instead of serving\n", out);
    for (size_t i = 0; i < config_action_count; i++) {
        put_tag(out, config_actions[i].flag, config_actions[i].argument);
        put_line(out, config_actions[i].help);
    }
}

static void print_foreign(FILE *out)
{
    for (size_t i = 0; i < config_foreign_count; i++) {
        put_tag(out, config_foreign[i].names, "");
        put_line(out, config_foreign[i].owner);
    }
}

/* The page without its head, its options and the variables of other programs. Comments mark the
 * places of the options and of the variables. */
EMBED(config_manual, "server/base/tallyd.8");

/* Print the page from `from` to the mark. Returns the text behind the mark. */
static const char *print_to_mark(FILE *out, const char *from, const char *mark)
{
    const char *at = strstr(from, mark);
    if (at == NULL) {
        (void)fprintf(stderr, "make_manual: tallyd.8 lacks the mark %s", mark);
        exit(1); /* NOLINT(concurrency-mt-unsafe) */
    }
    (void)fwrite(from, 1, (size_t)(at - from), out);
    return at + strlen(mark);
}

static void print_page(FILE *out)
{
    const char *rest = config_manual;
    (void)fputs(".\\\" Generated from server/base/tallyd.8 and config_table.h.\n"
                ".TH TALLYD 8 \"\" \"tallyd " TALLY_VERSION
                "\" \"System Administration\"\n.nh\n",
                out);
    rest = print_to_mark(out, rest, ".\\\" OPTIONS\n");
    print_options(out);
    rest = print_to_mark(out, rest, ".\\\" FOREIGN\n");
    print_foreign(out);
    (void)fputs(rest, out);
}

int main(void)
{
    print_page(stdout);
    return fflush(stdout) == 0 && ferror(stdout) == 0 ? 0 : 1;
}
