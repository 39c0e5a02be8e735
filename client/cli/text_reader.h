/* Numbers in text, line by line as they come: a line is a row, its numbers are the columns.
 *
 *     1 2.5 3        1,2.5,3        -1e-7;nan
 *
 * A line ends in LF or CR LF. Between numbers stand blanks or a comma, in all lines the same, or
 * the delimiter that was asked for alone; empty lines are skipped. The first line says how many
 * columns there are, and, unless a type was asked for, the type: int64 if all its numbers are
 * integers, bool if all are true or false, else float64. A number is what JSON takes, and what people write besides: +1, .5,
 * 1., NaN and inf in any case. A first line that can as well be one number, 12,60, is refused
 * unless the delimiter was asked for (line_guess.h).
 *
 * Possible failures: a line with another number of columns, or with what is no number of the
 * type, is EXIT_USAGE and says where. Thread: one at a time. */
#ifndef TALLY_CLI_TEXT_READER_H
#define TALLY_CLI_TEXT_READER_H

#include "client/cli/options.h"
#include "client/cli/source.h"

struct text_reader {
    struct source *bytes; /* borrowed: a stream */
    enum tally_dtype dtype;
    char delimiter; /* stands between numbers, besides blanks or instead of them */
    uint64_t columns;
    uint64_t line;        /* lines that were read */
    bool typed;           /* the type was asked for */
    bool delimiter_given; /* the delimiter was asked for */
    bool strict;          /* no blank separates numbers: the delimiter is another one */
    bool commas;          /* the delimiter stands between the numbers of the first line */
    size_t at;            /* where the next line begins in the source's memory */
    char *header;         /* owned: the first line, with its end; NULL: none */
    size_t header_bytes;
};

/* Read the first lines, which say columns (0: there is none) and type. */
int text_reader_open(struct text_reader *reader, const struct settings *settings,
                     struct source *source);
void text_reader_close(struct text_reader *reader);

/* The numbers of the next whole lines, at most `lines` of them: *count lines, fewer when there
 * is nothing to read gather_ms (-1: wait) after the first of them; 0 lines at the end. */
int text_reader_take(struct text_reader *reader, char *to, uint64_t lines, int gather_ms,
                     uint64_t *count);

#endif
