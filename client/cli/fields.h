/* Fields of a line of text, and numbers as people write them.
 *
 * A line has the fields of RFC 4180: "Fields containing line breaks (CRLF), double quotes, and
 * commas should be enclosed in double-quotes", and "a double-quote appearing inside a field must
 * be escaped by preceding it with another double quote". Blanks around a field do not belong to
 * the field. The delimiter is one character, or runs of blanks.
 *
 * A number is a number of JSON, or +1, .5, 1., 007, NaN and Inf in any case; true is 1 and false
 * is 0. The decimal sign may be a comma.
 *
 * Possible failures: results, never messages. Thread: any. */
#ifndef TALLY_CLI_FIELDS_H
#define TALLY_CLI_FIELDS_H

#include "proto/dtype.h"

#include <stdbool.h>
#include <stddef.h>

struct dialect {
    char delimiter; /* ' ': runs of spaces and tabs */
    char decimal;   /* '.' or ',' */
};

struct field {
    const char *at;
    size_t count; /* bytes, quotes included */
    bool quoted;  /* the field is enclosed in quotes */
};

/* A position between the fields of a line. */
struct field_cursor {
    const char *at;
    const char *end; /* of the line, without its line break */
    bool due;        /* a delimiter was read: a field follows, which may be empty */
};

enum field_kind {
    FIELD_NUMBER,
    FIELD_FRACTION, /* a number that is not whole, for an integer type */
    FIELD_RANGE,    /* a number that the type cannot hold */
    FIELD_MISSING,  /* an empty field, NA, null, ... */
    FIELD_WORD      /* not a number */
};

/* The delimiter that a first line shows: the first of , ; tab | that the line has outside of
 * quotes, else `otherwise`. A decimal comma is not a delimiter. */
char delimiter_of_line(const char *line, const char *end, char decimal, char otherwise);

/* Read the next field. Returns false at the end of the line; a line of blanks has no field. */
bool field_next(const struct dialect *dialect, struct field_cursor *cursor,
                struct field *field);

/* Return the field without the quotes that enclose it. */
struct field field_content(const struct field *field);

/* Read a field as a number of the type, to *out (8 bytes) if it is FIELD_NUMBER. */
enum field_kind field_read(const struct dialect *dialect, const struct field *field,
                           enum dtype dtype, void *out);

/* Whether the field is an integer as it is written: digits and a sign, true or false. */
bool field_is_integer(const struct field *field);

/* Whether the field has a letter and is no number, truth value or missing value. */
bool field_is_name(const struct dialect *dialect, const struct field *field);

/* Return the bytes of the record at `line` before the '\n' that ends the record, which may stand
 * behind others inside quotes; SIZE_MAX: the bytes up to `end` have no such '\n'. *lines counts
 * the line breaks inside the record. A delimiter of '\0' stands for every known one. */
size_t record_bytes(char delimiter, const char *line, const char *end, uint64_t *lines);

#endif
