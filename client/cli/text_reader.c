/* Lines are converted straight from what was read to elements: the service's own reader takes a
 * number (proto/json/number_text.h), and what it does not take is spelled as JSON and read
 * again. */
#include "client/cli/text_reader.h"

#include "client/cli/terminal.h"
#include "proto/json/number_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    READ_BYTES = 1 << 20,  /* at a time */
    LINE_MOST = 128 << 20, /* a longer line is no line of numbers */
    ELEMENT_MOST = 8,
    QUOTE_BYTES = 40, /* of a number in a complaint */
    SPELLED_BYTES = 512,
    TAKERS_TEXT = 128 /* names of all types */
};

/* ---- numbers ---- */

/* Between numbers, and not the end of a line. A tab that was asked for as the delimiter is
 * none: two of them have a missing number between them. */
static bool is_blank(const struct text_reader *reader, char c)
{
    return c == ' ' || (c == '\t' && reader->delimiter != '\t');
}

static const char *after_blanks(const struct text_reader *reader, const char *text)
{
    while (is_blank(reader, *text)) {
        text++;
    }
    return text;
}

static bool ends_number(const struct text_reader *reader, char c)
{
    return is_blank(reader, c) || c == '\r' || c == '\n' || c == reader->delimiter;
}

/* A number that JSON spells otherwise: +1, .5, 1., 007, inf. */
static bool read_odd_number(const struct text_reader *reader, const char *text, size_t count,
                            char *out)
{
    static const struct {
        const char *found;
        const char *means;
    } words[] = {{"nan", "NaN"},        {"inf", "Infinity"},        {"infinity", "Infinity"},
                 {"-inf", "-Infinity"}, {"-infinity", "-Infinity"}, {"-nan", "NaN"}};
    char spelled[SPELLED_BYTES + NUMBER_ROOM] = "";
    char *at = spelled;
    const char *end = text + count;
    enum number_result result = NUMBER_OK;
    bool plus = count > 1 && *text == '+';
    text += plus;
    if ((size_t)(end - text) > SPELLED_BYTES / 2 || (plus && *text == '-')) {
        return false;
    }
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        if (strlen(words[i].found) == (size_t)(end - text) &&
            strncasecmp(words[i].found, text, (size_t)(end - text)) == 0) {
            return number_special((enum dtype)reader->dtype, words[i].means,
                                  strlen(words[i].means), out);
        }
    }
    if (text < end && *text == '-') {
        *at++ = *text++;
    }
    while (end - text > 1 && *text == '0' && isdigit((unsigned char)text[1]) != 0) {
        text++;
    }
    if (text < end && *text == '.') {
        if (end - text == 1 || isdigit((unsigned char)text[1]) == 0) {
            return false; /* some write a missing value as a point */
        }
        *at++ = '0';
    }
    while (text < end) {
        bool bare_point =
            *text == '.' && (end - text == 1 || isdigit((unsigned char)text[1]) == 0);
        *at++ = *text++;
        if (bare_point) {
            *at++ = '0';
        }
    }
    const char *past = number_reader_of((enum dtype)reader->dtype)(
        spelled, spelled + sizeof spelled, out, &result);
    return past == at;
}

/* Where the CRs at the end of a line begin; the line's end if there are none. */
static const char *before_returns(const char *text, const char *end)
{
    while (end > text && end[-1] == '\r') {
        end--;
    }
    return end;
}

/* Where lines end in CR alone, all of them would be one. */
static int refuse_return(const struct text_reader *reader)
{
    return complain(EXIT_USAGE,
                    "%s: line %" PRIu64 " has a carriage return in it: end lines by LF, or by "
                    "CR LF (tr '\\r' '\\n')",
                    reader->bytes->name, reader->line);
}

/* The types that take what the one that was asked for does not, or ""; where the first line
 * made it that, the one to ask for: what uint64 holds it sums exactly. */
static void takers_text(const struct text_reader *reader, const char *text, size_t count,
                        char takers[TAKERS_TEXT])
{
    struct text_reader other = *reader;
    unsigned set = 0;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        char stored[ELEMENT_MOST];
        other.dtype = (enum tally_dtype)i;
        set |= (unsigned)read_odd_number(&other, text, count, stored) << i;
    }
    unsigned wider = set & (1U << DTYPE_U64 | 1U << DTYPE_F64);
    if (!reader->typed && reader->dtype == TALLY_INT64 && wider != 0) {
        (void)snprintf(takers, TAKERS_TEXT, ", which the first line made it; give --dtype %s",
                       (wider >> DTYPE_U64 & 1U) != 0 ? "uint64" : "float64");
        return;
    }
    dtype_takers((enum dtype)reader->dtype, set, takers, TAKERS_TEXT);
}

/* What to do about a word that is no number. */
static const char *advice_about(const struct text_reader *reader, const char *text,
                                size_t count)
{
    const char *delimiter = NULL;
    for (size_t i = 0; i < count && delimiter == NULL; i++) {
        delimiter = strchr(",;|", text[i]);
    }
    if ((unsigned char)*text >= 0xFE) {
        return "; it is UTF-16 text: save it as UTF-8";
    }
    if (*text == '"' || *text == '\'') {
        return "; write it without quotes";
    }
    if (delimiter != NULL && *delimiter != '\0') {
        return *delimiter == ','   ? "; write a point in a number, not a comma"
               : *delimiter == ';' ? "; give --delimiter ';'"
                                   : "; give --delimiter '|'";
    }
    bool first = reader->columns == 0 && reader->header == NULL;
    return first ? "; if the line is none of numbers, give --header" : "";
}

static int refuse_number(const struct text_reader *reader, const char *text, size_t count)
{
    char quote[QUOTE_BYTES + 1] = "";
    if (count == 0) {
        return complain(EXIT_USAGE,
                        "%s: line %" PRIu64 ": a number is missing between two delimiters, or "
                        "behind the last: write 0 or NaN there, or take the delimiter away",
                        reader->bytes->name, reader->line);
    }
    for (size_t i = 0; i < count && i < QUOTE_BYTES; i++) {
        quote[i] = isprint((unsigned char)text[i]) != 0 ? text[i] : '?';
    }
    char takers[TAKERS_TEXT];
    takers_text(reader, text, count, takers);
    return complain(EXIT_USAGE, "%s: line %" PRIu64 ": '%s' is not a number of type %s%s",
                    reader->bytes->name, reader->line, quote, tally_dtype_name(reader->dtype),
                    takers[0] != '\0' ? takers : advice_about(reader, text, count));
}

/* The numbers of a line that ends at end[0] == '\n', perhaps with CR before, to room for
 * reader->columns; *count is how many there are, 0 for an empty line. */
static int read_line(const struct text_reader *reader, const char *text, const char *end,
                     char *out, uint64_t *count)
{
    number_reader read = number_reader_of((enum dtype)reader->dtype);
    size_t element = tally_dtype_bytes(reader->dtype);
    uint64_t found = 0;
    bool comma = false; /* the last thing was a delimiter: a number must follow */
    end = before_returns(text, end);
    for (;;) {
        text = after_blanks(reader, text);
        if (text == end && (found == 0 || !comma)) {
            break;
        }
        enum number_result result = NUMBER_OK;
        const char *start = text;
        char stored[ELEMENT_MOST];
        text = read(start, end + 1, stored, &result);
        if (*start == '\r' && start < end) {
            return refuse_return(reader);
        }
        if (text == NULL || !ends_number(reader, *text)) {
            text = start;
            while (!ends_number(reader, *text)) {
                text++;
            }
            if (!read_odd_number(reader, start, (size_t)(text - start), stored)) {
                return refuse_number(reader, start, (size_t)(text - start));
            }
        }
        if (found < reader->columns) {
            memcpy(out + found * element, stored, element);
        }
        found++;
        text = after_blanks(reader, text);
        comma = text < end && *text == reader->delimiter;
        if (!comma && text < end && *text != '\r' && reader->strict) {
            return complain(EXIT_USAGE,
                            "%s: line %" PRIu64 " has a blank inside a number, or between two: "
                            "with --delimiter it does not part them",
                            reader->bytes->name, reader->line);
        }
        text += comma;
    }
    *count = found;
    return EXIT_DONE;
}

/* ---- lines ---- */

/* The next line that has come whole; NULL: there is none. The last line of all may lack its
 * end, which it gets here. */
static char *next_line(struct text_reader *reader, char **end)
{
    struct source *bytes = reader->bytes;
    size_t count = bytes->bytes - reader->at;
    char *start = bytes->memory + reader->at;
    char *found = count == 0 ? NULL : memchr(start, '\n', count);
    if (found == NULL && count > 0 && bytes->ended) {
        found = start + count; /* there is room for a NUL */
        *found = '\n';
        bytes->bytes++;
    }
    if (found == NULL) {
        return NULL;
    }
    *end = found;
    reader->at += (size_t)(found + 1 - start);
    reader->line++;
    return start;
}

/* Forget the lines that were read, and read on, once; *came is false if nothing came for
 * wait_ms (-1: wait). */
static int read_more(struct text_reader *reader, int wait_ms, bool *came)
{
    struct source *bytes = reader->bytes;
    if (reader->at > 0) {
        source_drop(bytes, reader->at);
        reader->at = 0;
    }
    return bytes->bytes > LINE_MOST
               ? complain(EXIT_USAGE,
                          "%s: line %" PRIu64 " has more than %" PRIu64 " bytes: is it text?",
                          bytes->name, reader->line + 1, bytes->bytes)
               : source_more(bytes, READ_BYTES, wait_ms, came);
}

/* Give the last line again. */
static void step_back(struct text_reader *reader, const char *line)
{
    reader->at = (size_t)(line - reader->bytes->memory);
    reader->line--;
}

/* Wait for a line and give it without passing over it; NULL at the end. */
static int first_line(struct text_reader *reader, char **line, char **end)
{
    bool came = true;
    while ((*line = next_line(reader, end)) == NULL && !reader->bytes->ended) {
        STEP(read_more(reader, -1, &came));
    }
    return EXIT_DONE;
}

/* Spreadsheets begin their CSV in UTF-8 with one. */
static int skip_byte_order_mark(struct text_reader *reader)
{
    static const char mark[] = {'\xEF', '\xBB', '\xBF'};
    char *line = NULL;
    char *end = NULL;
    int status = first_line(reader, &line, &end);
    if (line != NULL) {
        bool marked =
            end - line >= (ptrdiff_t)sizeof mark && memcmp(line, mark, sizeof mark) == 0;
        step_back(reader, line + (marked ? sizeof mark : 0));
    }
    return status;
}

static int keep_header(struct text_reader *reader)
{
    char *line = NULL;
    char *end = NULL;
    STEP(first_line(reader, &line, &end));
    if (line == NULL) {
        return EXIT_DONE;
    }
    if (memchr(line, '\r', (size_t)(before_returns(line, end) - line)) != NULL) {
        return refuse_return(reader);
    }
    reader->header_bytes = (size_t)(end + 1 - line);
    reader->header = malloc(reader->header_bytes);
    if (reader->header == NULL) {
        return complain(EXIT_LOCAL, "%s: out of memory", reader->bytes->name);
    }
    memcpy(reader->header, line, reader->header_bytes);
    return EXIT_DONE;
}

/* Columns and type, by the first line that is not empty. */
static int look_at_first_line(struct text_reader *reader)
{
    char *line = NULL;
    char *end = NULL;
    do {
        STEP(first_line(reader, &line, &end));
        if (line == NULL) {
            return EXIT_DONE;
        }
        if (!reader->typed) {
            char integers[] = "+-0123456789 \t\r?";
            integers[sizeof integers - 2] = reader->delimiter;
            reader->dtype = line + strspn(line, integers) == end ? TALLY_INT64 : TALLY_FLOAT64;
        }
        STEP(read_line(reader, line, end, NULL, &reader->columns));
    } while (reader->columns == 0);
    step_back(reader, line); /* there is room for its numbers then */
    return EXIT_DONE;
}

int text_reader_open(struct text_reader *reader, const struct settings *settings,
                     struct source *source)
{
    *reader = (struct text_reader){.bytes = source,
                                   .dtype = TALLY_FLOAT64,
                                   .delimiter = ',',
                                   .typed = settings->dtype != NULL};
    if (settings->delimiter != NULL) {
        reader->delimiter = settings->delimiter[0];
        reader->strict = reader->delimiter != ' ';
    }
    if (reader->typed) {
        (void)tally_dtype_find(settings->dtype, &reader->dtype); /* it is one of the choices */
    }
    STEP(skip_byte_order_mark(reader));
    if (settings->header) {
        STEP(keep_header(reader));
    }
    return look_at_first_line(reader);
}

void text_reader_close(struct text_reader *reader)
{
    free(reader->header);
}

int text_reader_take(struct text_reader *reader, char *to, uint64_t lines, int gather_ms,
                     uint64_t *count)
{
    size_t row = reader->columns * tally_dtype_bytes(reader->dtype);
    int64_t since_ns = 0; /* when there was a first line */
    int status = EXIT_DONE;
    *count = 0;
    while (status == EXIT_DONE && *count < lines) {
        char *end = NULL;
        char *line = next_line(reader, &end);
        if (line == NULL) {
            bool came = true;
            if (reader->bytes->ended) {
                break;
            }
            status =
                read_more(reader, *count > 0 ? source_wait_ms(since_ns, gather_ms) : -1, &came);
            if (!came) {
                break;
            }
            continue;
        }
        uint64_t columns = 0;
        status = read_line(reader, line, end, to + *count * row, &columns);
        if (status == EXIT_DONE && columns != 0 && columns != reader->columns) {
            return complain(EXIT_USAGE,
                            "%s: line %" PRIu64 " has %" PRIu64 " number%s, and the lines "
                            "before it have %" PRIu64 ": each line needs as many",
                            reader->bytes->name, reader->line, columns, columns == 1 ? "" : "s",
                            reader->columns);
        }
        if (*count == 0) {
            since_ns = now_ns();
        }
        *count += columns > 0;
    }
    return status;
}
