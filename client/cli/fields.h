/* The fields of a line of text, and the spellings of numbers.
 *
 * A line has the fields of RFC 4180: "Fields containing line breaks (CRLF), double quotes, and
 * commas should be enclosed in double-quotes", and "a double-quote appearing inside a field
 * must be escaped by preceding it with another double quote". Blanks around a field are not
 * part of the field. The delimiter is one character, or any number of blanks.
 *
 * Numbers have the grammar of JSON, and also +1, .5, 1., 007, and NaN and Inf in any case. true
 * is 1, false is 0. The decimal sign may be a comma.
 *
 * Possible failures: an enum field_kind; no function prints a message. Thread: any. */
#ifndef TALLY_CLI_FIELDS_H
#define TALLY_CLI_FIELDS_H

#include "proto/dtype.h"

#include <stdbool.h>
#include <stddef.h>

struct dialect {
    char delimiter; /* ' ': any number of spaces and tabs */
    char decimal;   /* '.' or ',' */
};

struct field {
    const char *at; /* borrowed: first byte in the line */
    size_t count;   /* bytes, quotes included */
    bool quoted;    /* the field is enclosed in quotes */
};

/* A position between the fields of a line. */
struct field_cursor {
    const char *at;
    const char *end; /* end of the line, at its line break */
    bool due;        /* `at` is behind a delimiter: a field follows, which may be empty */
};

enum field_kind {
    FIELD_NUMBER,
    FIELD_FRACTION, /* a number that is not whole, for an integer type */
    FIELD_RANGE,    /* a number that the type cannot hold */
    FIELD_MISSING,  /* an empty field, NA, null, ... */
    FIELD_WORD      /* not a number */
};

/* Return the delimiter of a first line: the first of , ; tab | that occurs outside of quotes,
 * else `otherwise`. The decimal sign is not considered. */
char delimiter_of_line(const char *line, const char *end, char decimal, char otherwise);

/* Store the next field in *field, and advance the cursor. Returns false at the end of the line.
 * A line of blanks has no field. */
bool field_next(const struct dialect *dialect, struct field_cursor *cursor,
                struct field *field);

/* Return the field without the quotes that enclose it. */
struct field field_content(const struct field *field);

/* Convert a field to a number of the type. If the result is FIELD_NUMBER, *out has the number;
 * `out` has room for 8 bytes. */
enum field_kind field_read(const struct dialect *dialect, const struct field *field,
                           enum dtype dtype, void *out);

/* Return whether the field is written as an integer: digits with or without a sign, true or
 * false. */
bool field_is_integer(const struct field *field);

/* Return whether the field can be the name of a column: it has a letter, and is not a number, a
 * boolean or a missing value. */
bool field_is_name(const struct dialect *dialect, const struct field *field);

/* Return the length of the record at `line`, without the '\n' that ends the record; SIZE_MAX if
 * there is no such '\n' before `end`. A '\n' inside quotes does not end a record; *lines is the
 * number of those. delimiter '\0': any of , ; tab | */
size_t record_bytes(char delimiter, const char *line, const char *end, uint64_t *lines);

#endif
