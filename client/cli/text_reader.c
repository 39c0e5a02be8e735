/* The reader finds lines in the memory of the source, and converts their fields without copying
 * them.
 *
 * A call that finds a bad line behind good rows returns the good rows alone. The next call
 * reads the bad line again, as its first line, and complains. So the good rows are summed
 * first. */
#include "client/cli/text_reader.h"

#include "client/cli/attributes.h"
#include "client/cli/terminal.h"
#include "proto/json/number_text.h"
#include "proto/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <regex.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    READ_BYTES = 1 << 20,   /* bytes of one read() */
    LINE_MOST = 128 << 20,  /* longest line, in bytes */
    QUOTED_MOST = 16 << 20, /* bytes after which an open quote is refused */
    NUMBER_BYTES = 8,       /* bytes of the largest element type */
    QUOTE_BYTES = 40,       /* bytes of a field that a complaint shows */
    ADVICE_TEXT = 256,
    COMPLAINT_TEXT = 512,
    LINE_IS_WIDER = -1 /* not an exit status: the type is int64, and the line needs float64 */
};

#define PLAIN_NUMBER "with a decimal point and without separators of thousands"

/* ---- complaints ---- */

/* Complain about the line that was read last. If this call has read good rows before the line,
 * the complaint is left to the next call. Returns EXIT_USAGE. */
PRINTF_LIKE(2, 3)
static int refuse_line(const struct text_reader *reader, const char *format, ...)
{
    char text[COMPLAINT_TEXT];
    va_list args;
    if (reader->rows > 0) {
        return EXIT_USAGE;
    }
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return complain(EXIT_USAGE, "%s: line %" PRIu64 " %s", reader->bytes->name, reader->line,
                    text);
}

/* Write advice for a number that does not fit the type: a wide type that holds the number.
 * Narrower types are not suggested, because their sums may wrap or lose digits. */
static void advise_type(const struct text_reader *reader, const struct field *field,
                        char advice[ADVICE_TEXT])
{
    static const enum tally_dtype wide[] = {TALLY_INT64, TALLY_UINT64, TALLY_FLOAT64};
    const bool integer = !dtype_is_float((enum dtype)reader->dtype);
    for (size_t i = integer ? 0 : 2; i < ARRAY_COUNT(wide); i++) {
        char number[NUMBER_BYTES];
        if (wide[i] != reader->dtype &&
            field_read(&reader->dialect, field, (enum dtype)wide[i], number) == FIELD_NUMBER) {
            (void)snprintf(advice, ADVICE_TEXT, "; give --dtype %s%s",
                           tally_dtype_name(wide[i]),
                           integer && wide[i] == TALLY_FLOAT64 && field_is_integer(field)
                               ? ", which rounds integers beyond 2^53"
                               : "");
            return;
        }
    }
}

/* Write advice for a field that is not a number. */
static void advise_word(const struct text_reader *reader, const struct field *field,
                        char advice[ADVICE_TEXT])
{
    const struct field content = field_content(field);
    const char decimal = reader->dialect.decimal;
    const char *other = decimal == ',' ? "." : ",";
    const char *delimiter = NULL;
    for (size_t i = 0; i < content.count && delimiter == NULL; i++) {
        const char c = content.at[i];
        delimiter = c != '\0' && c != decimal && c != *other ? strchr(";|\t ", c) : NULL;
    }
    const bool mark = memchr(content.at, *other, content.count) != NULL;
    const bool name = field_is_name(&reader->dialect, field);
    if (!name && delimiter != NULL && reader->dialect.delimiter != ' ') {
        (void)snprintf(advice, ADVICE_TEXT,
                       "; the first line separates fields by '%c': give another --delimiter%s",
                       reader->dialect.delimiter,
                       mark || reader->dialect.delimiter == ',' ? ", or --decimal ," : "");
    } else if (!name && mark) {
        (void)snprintf(advice, ADVICE_TEXT, "; %s",
                       decimal == ','
                           ? "--decimal , allows no point in a number"
                           : "give --decimal , for decimal commas, and write numbers "
                             "without separators of thousands");
        return;
    }
    if (reader->fields > 1 && reader->chosen == NULL) {
        text_append(advice, ADVICE_TEXT, "; --columns names the columns to sum");
    }
}

static int refuse_field(const struct text_reader *reader, const struct field *field,
                        enum dtype dtype, enum field_kind kind)
{
    char quote[QUOTE_BYTES + 1] = "";
    char advice[ADVICE_TEXT] = "";
    const struct field content = field_content(field);
    for (size_t i = 0; i < content.count && i < QUOTE_BYTES; i++) {
        quote[i] = isprint((unsigned char)content.at[i]) != 0 ? content.at[i] : '?';
    }
    if (kind == FIELD_MISSING) {
        const bool none = content.count == 0;
        return refuse_line(
            reader, "has %s%s%s: %s", none ? "an empty field" : "the missing value '",
            none ? "" : quote, none ? "" : "'",
            reader->missing ? "an integer type has no NaN; leave out --dtype"
                            : "give --nan zero to count it as 0, or --nan skip or propagate");
    }
    if (kind == FIELD_WORD) {
        advise_word(reader, field, advice);
    } else {
        advise_type(reader, field, advice);
    }
    return refuse_line(reader, "has '%s', which is not a number of type %s%s", quote,
                       tally_dtype_name((enum tally_dtype)dtype), advice);
}

/* ---- rows ---- */

/* Convert a field of a line whose line break is at `end`. Most fields are numbers in the
 * grammar of JSON: `read` converts them without a copy; NULL: the type has no such reader.
 * Returns EXIT_DONE, EXIT_USAGE, or LINE_IS_WIDER if the type is undecided and the field needs
 * float64. */
static int read_field(const struct text_reader *reader, number_reader read, const char *end,
                      const struct field *field, char *out)
{
    enum dtype dtype = (enum dtype)reader->dtype;
    enum number_result result = NUMBER_OK;
    const bool integer = !reader->undecided || field_is_integer(field);
    if (integer && read != NULL && reader->dialect.decimal == '.' &&
        read(field->at, end + 1, out, &result) == field->at + field->count) {
        return EXIT_DONE;
    }
    if (!integer) {
        const enum field_kind wider = field_read(&reader->dialect, field, DTYPE_F64, out);
        return wider == FIELD_NUMBER || (wider == FIELD_MISSING && reader->missing)
                   ? LINE_IS_WIDER
                   : refuse_field(reader, field, DTYPE_F64, wider);
    }
    const enum field_kind kind = field_read(&reader->dialect, field, dtype, out);
    const bool nan = kind == FIELD_MISSING && reader->missing && dtype_is_float(dtype) &&
                     number_special(dtype, "NaN", strlen("NaN"), out);
    return kind == FIELD_NUMBER || nan ? EXIT_DONE : refuse_field(reader, field, dtype, kind);
}

/* Refuse a line whose number of fields differs from that of the first line. An empty line, with
 * 0 fields, is valid. */
static int check_count(const struct text_reader *reader, uint64_t fields)
{
    const char delimiter = reader->dialect.delimiter;
    const char *name = delimiter == ' '    ? "blanks"
                       : delimiter == '\t' ? "tabs"
                       : delimiter == ','  ? "commas; give --decimal , for decimal commas"
                       : delimiter == ';'  ? "semicolons"
                                           : "--delimiter";
    if (fields == 0 || fields == reader->fields) {
        return EXIT_DONE;
    }
    return refuse_line(
        reader, "has %" PRIu64 " field%s, and the first line has %" PRIu64 " (separated by %s)",
        fields, fields == 1 ? "" : "s", reader->fields, name);
}

/* Convert the chosen fields of a line, and store reader->columns numbers at `out`. Stores the
 * number of all fields in *fields, 0 for an empty line. Returns EXIT_DONE, LINE_IS_WIDER, or
 * EXIT_USAGE. */
static int read_row(const struct text_reader *reader, const char *line, const char *end,
                    char *out, uint64_t *fields)
{
    const size_t element = tally_dtype_bytes(reader->dtype);
    const bool is_bool = reader->dtype == TALLY_BOOL;
    const number_reader read = is_bool ? NULL : number_reader_of((enum dtype)reader->dtype);
    struct field_cursor cursor = {line, end, false};
    struct field field;
    for (*fields = 0; field_next(&reader->dialect, &cursor, &field); ++*fields) {
        if (*fields < reader->fields && (reader->chosen == NULL || reader->chosen[*fields])) {
            STEP(read_field(reader, read, end, &field, out));
            out += element;
        }
    }
    return check_count(reader, *fields);
}

/* ---- lines ---- */

/* Append bytes of the source to the memory, by one read(). Sets *arrived to false if wait_ms
 * (-1: no limit) pass without a byte. Refuses a line longer than LINE_MOST. */
static int read_more(struct text_reader *reader, int wait_ms, bool *arrived)
{
    struct source *bytes = reader->bytes;
    if (reader->at > 0) {
        source_drop(bytes, reader->at);
        reader->at = 0;
    }
    if (bytes->bytes > LINE_MOST) {
        reader->line++; /* number of this line, for the complaint */
        int status =
            refuse_line(reader, "has more than %" PRIu64 " bytes: is it text?", bytes->bytes);
        reader->line--;
        return status;
    }
    return source_more(bytes, READ_BYTES, wait_ms, arrived);
}

/* Find the next line in memory, and advance behind it. Sets *line to its start and *end to its
 * end, without the line break and CRs before it; *line is NULL if the line is not complete in
 * memory. A missing line break of the last line is added. */
static int next_line(struct text_reader *reader, char **line, char **end)
{
    struct source *bytes = reader->bytes;
    char *start = bytes->memory + reader->at;
    const size_t count = bytes->bytes - reader->at;
    uint64_t inner = 0; /* line breaks inside quotes */
    *line = NULL;
    if (count == 0) {
        return EXIT_DONE;
    }
    char *found = memchr(start, '\n', count);
    if (found == NULL && bytes->ended) {
        found = start + count; /* at the NUL; the memory has room for one byte more */
        memcpy(found, "\n", 2);
        bytes->bytes++;
    }
    if (found != NULL && memchr(start, '"', (size_t)(found - start)) != NULL) {
        const char delimiter = (char)(reader->fields > 0 ? reader->dialect.delimiter : '\0');
        const size_t record =
            record_bytes(delimiter, start, bytes->memory + bytes->bytes, &inner);
        if (record == SIZE_MAX && (bytes->ended || count > QUOTED_MOST)) {
            reader->line++;
            return refuse_line(reader, "has a quote that is not closed");
        }
        found = record != SIZE_MAX ? start + record : NULL;
    }
    if (found == NULL) {
        return EXIT_DONE;
    }
    reader->at += (size_t)(found + 1 - start);
    reader->line++;
    *line = start;
    *end = found;
    while (*end > start && (*end)[-1] == '\r') {
        --*end;
    }
    if (memchr(start, '\0', (size_t)(found - start)) != NULL) {
        return refuse_line(reader, "has a NUL byte%s",
                           (unsigned char)*start >= 0xFE
                               ? "; it is UTF-16 text: save it as UTF-8"
                               : ": is it text?");
    }
    if (inner == 0 && memchr(start, '\r', (size_t)(*end - start)) != NULL) {
        return refuse_line(reader, "has a carriage return in it: end lines by LF, or by CR LF "
                                   "(tr '\\r' '\\n')");
    }
    reader->line += inner;
    return EXIT_DONE;
}

/* Find the next line that is not empty, and read until it is complete. The reader stays before
 * the line. *line is NULL at the end of the source. */
static int peek_line(struct text_reader *reader, char **line, char **end)
{
    bool arrived = true;
    do {
        const uint64_t before = reader->line;
        STEP(next_line(reader, line, end));
        if (*line == NULL && reader->bytes->ended) {
            return EXIT_DONE;
        }
        if (*line == NULL) {
            STEP(read_more(reader, -1, &arrived));
        } else if (strspn(*line, " \t\r") < (size_t)(*end - *line)) {
            reader->at = (size_t)(*line - reader->bytes->memory);
            reader->line = before;
            return EXIT_DONE;
        }
    } while (true);
}

/* ---- the first lines ---- */

/* Refuse a first line that may be one number with a decimal comma, or with separators of
 * thousands. */
static int check_meaning(const struct text_reader *reader, const char *line, const char *end)
{
    char text[QUOTE_BYTES + 1];
    regex_t one_number;
    if (end - line > QUOTE_BYTES) {
        return EXIT_DONE;
    }
    (void)snprintf(text, sizeof text, "%.*s", (int)(end - line), line);
    if (regcomp(&one_number,
                "^[ \t]*[+-]?"
                "([0-9]+,[0-9]+"                           /* 12,60 */
                "|[1-9][0-9]{0,2}(,[0-9]{3})+([.][0-9]*)?" /* 1,234,567.5 */
                "|[1-9][0-9]{0,2}([.][0-9]{3})+,[0-9]+)"   /* 1.234,56 */
                "([eE][+-]?[0-9]+)?[ \t]*$",
                REG_EXTENDED | REG_NOSUB) != 0) {
        return complain_no_memory();
    }
    const bool found = regexec(&one_number, text, 0, NULL, 0) == 0;
    const size_t blanks = strspn(text, " \t");
    regfree(&one_number);
    return !found
               ? EXIT_DONE
               : refuse_line(reader,
                             "is '%.*s', which can be several numbers, or one with a decimal "
                             "comma or separators of thousands: give -f csv if commas separate "
                             "numbers here, --decimal , if they are decimal commas, else write "
                             "the number " PLAIN_NUMBER,
                             (int)strcspn(text + blanks, " \t"), text + blanks);
}

/* Choose a field for summing, by its number from 1 or by its name in the header; NULL: no
 * header. Returns false if there is no such field. */
static bool choose_field(struct text_reader *reader, const char *word, size_t count,
                         const char *header)
{
    uint64_t number = 0;
    bool found = false;
    if (count < 10 && strspn(word, "0123456789") >= count) {
        number = strtoull(word, NULL, 10);
        found = number > 0 && number <= reader->fields;
        if (found) {
            reader->chosen[number - 1] = true;
        }
        return found;
    }
    struct field_cursor cursor = {header, header + (header != NULL ? strlen(header) : 0),
                                  false};
    struct field field;
    for (; header != NULL && field_next(&reader->dialect, &cursor, &field); number++) {
        const struct field name = field_content(&field);
        if (name.count == count && memcmp(name.at, word, count) == 0) {
            reader->chosen[number] = true;
            found = true;
        }
    }
    return found;
}

/* Choose the fields that --columns lists. `line` is the first line; named: its fields are names. */
static int choose_fields(struct text_reader *reader, const char *list, const char *line,
                         bool named)
{
    reader->chosen = calloc(reader->fields, sizeof *reader->chosen);
    if (reader->chosen == NULL) {
        return complain_no_memory();
    }
    for (;;) {
        const size_t count = strcspn(list, ",");
        if (!choose_field(reader, list, count, named ? line : NULL)) {
            return complain(EXIT_USAGE,
                            "--columns: %s has no column '%.*s': the first line has %" PRIu64
                            " field%s: %.200s",
                            reader->bytes->name, (int)count, list, reader->fields,
                            reader->fields == 1 ? "" : "s", line);
        }
        if (list[count] == '\0') {
            break;
        }
        list += count + 1;
    }
    reader->columns = 0;
    for (uint64_t i = 0; i < reader->fields; i++) {
        reader->columns += reader->chosen[i];
    }
    return EXIT_DONE;
}

/* Return whether --columns has a word that is not the number of a field. */
static bool names_columns(const char *list)
{
    return list != NULL && list[strspn(list, "0123456789,")] != '\0';
}

/* Determine the dialect and the number of fields from the first line, and whether the line is a
 * header. A header is consumed and kept. */
static int read_first_line(struct text_reader *reader, const struct settings *settings)
{
    char *line = NULL;
    char *end = NULL;
    struct field field;
    bool named = settings->header || names_columns(settings->columns);
    STEP(peek_line(reader, &line, &end));
    if (line != NULL && end - line >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0) {
        reader->at += 3; /* the byte order mark that spreadsheets write before UTF-8 */
        STEP(peek_line(reader, &line, &end));
    }
    if (line == NULL) {
        return EXIT_DONE;
    }
    struct dialect *dialect = &reader->dialect;
    if (dialect->delimiter == '\0') {
        const char otherwise = (char)(!reader->csv ? ' ' : dialect->decimal == ',' ? ';' : ',');
        dialect->delimiter = delimiter_of_line(line, end, dialect->decimal, otherwise);
    }
    struct field_cursor cursor = {line, end, false};
    while (field_next(dialect, &cursor, &field)) {
        reader->fields++;
    }
    reader->columns = reader->fields;
    char *text = strndup(line, (size_t)(end - line));
    if (text == NULL) {
        return complain_no_memory();
    }
    int status = settings->columns == NULL
                     ? EXIT_DONE
                     : choose_fields(reader, settings->columns, text, named);
    cursor = (struct field_cursor){line, end, false};
    for (uint64_t i = 0; status == EXIT_DONE && !named && i < reader->fields; i++) {
        (void)field_next(dialect, &cursor, &field);
        named = (reader->chosen == NULL || reader->chosen[i]) && field_is_name(dialect, &field);
    }
    if (status != EXIT_DONE || !named) {
        free(text);
        return status;
    }
    reader->header = text;
    return next_line(reader, &line, &end);
}

/* Check the first row, and determine the type of the first sums. The row is not consumed. */
static int look_at_first_row(struct text_reader *reader, bool ambiguous)
{
    char *line = NULL;
    char *end = NULL;
    uint64_t fields = 0;
    STEP(peek_line(reader, &line, &end));
    if (line == NULL) {
        return EXIT_DONE;
    }
    reader->line++; /* the number of this row, for complaints */
    if (ambiguous) {
        STEP(check_meaning(reader, line, end));
    }
    char *numbers = malloc(reader->columns * NUMBER_BYTES);
    if (numbers == NULL) {
        return complain_no_memory();
    }
    int status = read_row(reader, line, end, numbers, &fields);
    if (status == LINE_IS_WIDER) {
        reader->dtype = TALLY_FLOAT64;
        reader->undecided = false;
        status = read_row(reader, line, end, numbers, &fields);
    }
    free(numbers);
    reader->line--;
    return status;
}

int text_reader_open(struct text_reader *reader, const struct settings *settings, bool csv,
                     struct source *source)
{
    *reader = (struct text_reader){
        .bytes = source,
        .dialect = {.delimiter =
                        (char)(settings->delimiter != NULL ? settings->delimiter[0] : '\0'),
                    .decimal = settings_decimal(settings)},
        .dtype = settings->dtype > 0               ? (enum tally_dtype)(settings->dtype - 1)
                 : attributes_need_float(settings) ? TALLY_FLOAT64
                                                   : TALLY_INT64,
        .undecided = settings->dtype == 0 && !attributes_need_float(settings),
        .csv = csv,
        .missing = settings->nan > 0,
        .kept_most = (size_t)settings->part_bytes};
    STEP(read_first_line(reader, settings));
    return look_at_first_row(reader, !csv && reader->header == NULL &&
                                         settings->delimiter == NULL && settings->decimal == 0);
}

void text_reader_close(struct text_reader *reader)
{
    free(reader->header);
    free(reader->chosen);
}

/* ---- rows for a part ---- */

/* Append a line and a NUL to the kept lines. */
static int store_line(struct kept_lines *kept, const char *line, const char *end)
{
    const size_t count = (size_t)(end - line);
    if (kept->room - kept->count <= count) {
        const size_t room = 2 * (kept->count + count + 1);
        char *larger = realloc(kept->bytes, room);
        if (larger == NULL) {
            return complain_no_memory();
        }
        kept->bytes = larger;
        kept->room = room;
    }
    memcpy(kept->bytes + kept->count, line, count);
    kept->bytes[kept->count + count] = '\0';
    kept->count += count + 1;
    return EXIT_DONE;
}

/* Read the next line to the batch. Sets *complete to false if the memory has no complete line.
 * The reader stays before a line that cannot be read, and before a line that needs another type
 * than the rows of this call. */
static int read_next_row(struct text_reader *reader, struct text_batch *batch, bool *complete)
{
    const size_t at = reader->at;
    const uint64_t before = reader->line;
    const size_t row_bytes = reader->columns * tally_dtype_bytes(reader->dtype);
    char *row = batch->numbers + reader->rows * row_bytes;
    uint64_t fields = 0;
    char *line = NULL;
    char *end = NULL;
    int status = next_line(reader, &line, &end);
    *complete = line != NULL;
    if (status == EXIT_DONE && line != NULL) {
        status = read_row(reader, line, end, row, &fields);
        if (status == LINE_IS_WIDER && reader->rows == 0) {
            reader->dtype = TALLY_FLOAT64;
            reader->undecided = false;
            status = read_row(reader, line, end, row, &fields);
        }
    }
    if (status != EXIT_DONE) {
        reader->at = at;
        reader->line = before;
        return status;
    }
    reader->rows += fields > 0;
    return fields > 0 && batch->kept != NULL ? store_line(batch->kept, line, end) : EXIT_DONE;
}

int text_reader_read(struct text_reader *reader, struct text_batch *batch, int gather_ms)
{
    int64_t since_ns = 0; /* time of the first row */
    int status = EXIT_DONE;
    bool arrived = true;
    reader->rows = 0;
    while (status == EXIT_DONE && arrived && reader->rows < batch->most &&
           (batch->kept == NULL || batch->kept->count <= reader->kept_most)) {
        bool complete = false;
        status = read_next_row(reader, batch, &complete);
        since_ns = since_ns == 0 && reader->rows > 0 ? now_ns() : since_ns;
        if (status == EXIT_DONE && !complete) {
            const int wait_ms = reader->rows == 0 ? -1 : source_wait_ms(since_ns, gather_ms);
            if (reader->bytes->ended) {
                break;
            }
            status = read_more(reader, wait_ms, &arrived);
        }
    }
    batch->count = reader->rows;
    batch->dtype = reader->dtype;
    const bool later = status == EXIT_USAGE || status == LINE_IS_WIDER;
    return reader->rows > 0 && later ? EXIT_DONE : status;
}
