/* Guesses about lines of text: whether a line can be read in two ways, and what a word that is
 * not a number probably is. The guesses decide about refusals and their advice; they change no
 * number. Every line ends at `end`, which excludes the line's LF and the CRs before it.
 *
 * Possible failures: none. Thread: any. */
#ifndef TALLY_CLI_LINE_GUESS_H
#define TALLY_CLI_LINE_GUESS_H

#include <stdbool.h>
#include <stddef.h>

/* How the text of a refusal says that a number is to be written. */
#define PLAIN_NUMBER "with a decimal point and without separators of thousands"

enum word_kind {
    WORD_OTHER,
    WORD_NUMBER, /* it begins as numbers and dates do */
    WORD_MISSING,
    WORD_TRUTH,
    WORD_NAME /* it has a letter */
};

/* `text`: a word without blanks, perhaps in quotes. */
enum word_kind word_guess(const char *text, size_t count);

/* True if the whole line can be one number with a decimal comma or with separators of
 * thousands, as well as several numbers with commas between them: 12,60; 1,234,567.5; 1.234,56.
 * False if a single digit follows the only comma, or a blank stands in the line. */
bool line_may_be_one_number(const char *line, const char *end);

/* True if the line has the names of columns: a word among its fields has a letter, and no field
 * is a number, a missing value or a truth value. The delimiter separates fields, and unless the
 * reading is strict, blanks do. */
bool line_has_names(const char *line, const char *end, char delimiter, bool strict);

/* True if the line has words, and all are truth values without quotes. The delimiter and blanks
 * separate words. */
bool line_has_truths(const char *line, const char *end, char delimiter);

/* True if a comma stands inside the quotes that begin at `text`. */
bool quotes_have_comma(const char *text, const char *end);

#endif
