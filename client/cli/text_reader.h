/* Numbers in text and CSV, line by line: a line is a row, its fields are the columns.
 *
 *     1 2.5 3        day,rain        2024-01-01;"12,60"
 *                    1,2.5
 *
 * One tokenizer (fields.h) cuts every line. Text and CSV differ in two rules: fields of text may
 * be separated by blanks, and a first line of text that can be one number, 1,5, is refused.
 * The first line gives the delimiter and the number of fields. A first line with letters is a
 * header. Empty lines are skipped.
 *
 * The type, unless it was asked for: int64 up to the first number that is not written as an
 * integer; float64 from that line on. The sums before that line are exact integers, so they are
 * right for either type.
 *
 * Possible failures: a line that cannot be read is EXIT_USAGE, after a complaint that names the
 * line. The rows before the line are returned first. Thread: one at a time. */
#ifndef TALLY_CLI_TEXT_READER_H
#define TALLY_CLI_TEXT_READER_H

#include "client/cli/fields.h"
#include "client/cli/options.h"
#include "client/cli/source.h"

/* Lines of text, each ended by a NUL. */
struct kept_lines {
    char *bytes; /* owned */
    size_t count;
    size_t room;
};

struct text_reader {
    struct source *bytes; /* borrowed: a stream */
    struct dialect dialect;
    enum tally_dtype dtype; /* of the numbers of the next line */
    bool undecided;         /* the type is int64 as long as the numbers are integers */
    bool csv;               /* blanks do not separate fields */
    bool missing;           /* --nan was given: a missing value is NaN */
    uint64_t fields;        /* of each line; 0: there is no line */
    uint64_t columns;       /* fields that are summed */
    bool *chosen;           /* owned: which fields are summed; NULL: all */
    char *header;           /* owned: the first line, NUL-terminated; NULL: none */
    uint64_t line;          /* line breaks before the next line */
    size_t at;              /* offset of the next line in the memory of the source */
    uint64_t rows;          /* rows read by the call in progress */
    size_t kept_most;       /* bytes of lines that a call keeps, and one line more */
};

/* Read the first lines, which give the dialect, the fields and the type. */
int text_reader_open(struct text_reader *reader, const struct settings *settings, bool csv,
                     struct source *source);
void text_reader_close(struct text_reader *reader);

/* Rows of one type. */
struct text_batch {
    char *numbers;           /* room for `most` rows */
    uint64_t most;           /* largest number of rows */
    struct kept_lines *kept; /* gets the lines; NULL: they are not needed */
    enum tally_dtype dtype;  /* of the numbers that were read */
    uint64_t count;          /* rows that were read */
};

/* Read the next rows. batch->count is 0 at the end. Returns early if no line arrives within gather_ms
 * (-1: no limit) after the first. */
int text_reader_read(struct text_reader *reader, struct text_batch *batch, int gather_ms);

#endif
