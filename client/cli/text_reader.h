/* Reader of numbers in text and CSV, line by line. A line is a row; its fields are the columns.
 *
 *     1 2.5 3        day,rain        2024-01-01;"12,60"
 *                    1,2.5
 *
 * Text and CSV have the same fields (fields.h), but for two rules: fields of text may be
 * separated by blanks, and text is refused if its first line may be one number, such as 1,5.
 * The first line determines the delimiter and the number of fields. A first line with letters
 * is a header. Empty lines are skipped.
 *
 * The type of the numbers is that of --dtype. Without --dtype the type is int64 until the first
 * line with a number that is not an integer, and float64 from that line on. The sums before
 * that line are exact integers, which both types represent alike.
 *
 * Possible failures: a line that cannot be read is EXIT_USAGE, after a complaint with the
 * number of the line. The rows before the line are returned first. Thread: one at a time. */
#ifndef TALLY_CLI_TEXT_READER_H
#define TALLY_CLI_TEXT_READER_H

#include "client/cli/fields.h"
#include "client/cli/options.h"
#include "client/cli/source.h"

/* Lines of text, each ended by a NUL. */
struct kept_lines {
    char *bytes;  /* owned */
    size_t count; /* bytes in use */
    size_t room;  /* bytes allocated */
};

struct text_reader {
    struct source *bytes; /* borrowed: a stream */
    struct dialect dialect;
    enum tally_dtype dtype; /* type of the numbers of the next line */
    bool undecided;         /* the type is int64, and may change to float64 */
    bool csv;               /* blanks do not separate fields */
    bool missing;           /* --nan was given: a missing value is NaN */
    uint64_t fields;        /* number of fields in each line; 0: the text has no line */
    uint64_t columns;       /* number of fields that are summed */
    bool *chosen;           /* owned, [fields]: whether a field is summed; NULL: all are */
    char *header;           /* owned: the first line, NUL-terminated; NULL: none */
    uint64_t line;          /* line breaks before the next line */
    size_t at;              /* offset of the next line in the memory of the source */
    uint64_t rows;          /* rows read by the call in progress */
    size_t kept_most;       /* a call returns once it has kept more bytes of lines than this */
};

/* Open a reader of a stream: read the first lines, and determine the dialect, the fields and
 * the type. The caller closes the reader also after a failure. Returns EXIT_DONE or an exit
 * status. */
int text_reader_open(struct text_reader *reader, const struct settings *settings, bool csv,
                     struct source *source);
void text_reader_close(struct text_reader *reader);

/* Rows of one type, filled by text_reader_read(). */
struct text_batch {
    char *numbers;           /* in: borrowed, room for `most` rows */
    uint64_t most;           /* in: largest number of rows */
    struct kept_lines *kept; /* in: lines of the rows are appended here; NULL: not kept */
    enum tally_dtype dtype;  /* out: type of the numbers */
    uint64_t count;          /* out: number of rows; 0 at the end of the text */
};

/* Read the next rows. Returns when the batch is full, at the end of the text, before a line
 * that has another type or cannot be read, or gather_ms (-1: no limit) after the first row.
 * Returns EXIT_DONE or an exit status. */
int text_reader_read(struct text_reader *reader, struct text_batch *batch, int gather_ms);

#endif
