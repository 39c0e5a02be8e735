/* Lines are converted straight from what was read to elements: the service's own reader takes a
 * number (proto/json/number_text.h), and what it does not take is spelled as JSON and read
 * again. */
#include "client/cli/text_reader.h"

#include "client/cli/line_guess.h"
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
    ADVICE_TEXT = 192
};

/* A line of numbers. */
struct row {
    uint64_t count; /* numbers; 0 for an empty line */
    bool commas;    /* the delimiter stands between some numbers */
    bool blanks;    /* blanks alone stand between some numbers */
};

/* A word that is refused, and the line that has it. */
struct word {
    const char *text;
    size_t count;
    const char *line;
    const char *end; /* of the line, without its LF and the CRs before it */
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

/* A boolean: true or false in any case, 1 or 0. */
static bool read_boolean(const char *text, size_t count, char *out)
{
    const bool on =
        (count == 4 && strncasecmp(text, "true", count) == 0) || (count == 1 && *text == '1');
    const bool off =
        (count == 5 && strncasecmp(text, "false", count) == 0) || (count == 1 && *text == '0');
    *out = (char)on;
    return on || off;
}

/* A number that JSON spells otherwise: +1, .5, 1., 007, inf. Of the type bool all values. */
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
    if (reader->dtype == TALLY_BOOL) {
        return read_boolean(text, count, out);
    }
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

/* The text "; give --dtype float64", or "" if no such type takes the number. The advice names
 * the widest type alone: sums of a narrower type would wrap, or would be rounded more. */
static void advise_type(const struct text_reader *reader, const struct word *word,
                        char advice[ADVICE_TEXT])
{
    static const enum tally_dtype wide[] = {TALLY_INT64, TALLY_UINT64, TALLY_FLOAT64};
    struct text_reader other = *reader;
    bool integer = !dtype_is_float((enum dtype)reader->dtype);
    bool whole = strspn(word->text, "+-0123456789") >= word->count;
    bool taken = false;
    bool numbers = reader->dtype != TALLY_BOOL; /* no other type reads its words */
    for (size_t i = integer ? 0 : 2; numbers && i < ARRAY_COUNT(wide) && !taken; i++) {
        char stored[ELEMENT_MOST];
        other.dtype = wide[i];
        taken = wide[i] != reader->dtype &&
                read_odd_number(&other, word->text, word->count, stored);
    }
    advice[0] = '\0';
    if (taken) {
        (void)snprintf(advice, ADVICE_TEXT, "%s; give --dtype %s%s",
                       reader->typed ? "" : ", which the first line made it",
                       tally_dtype_name(other.dtype),
                       integer && whole && other.dtype == TALLY_FLOAT64
                           ? ", which rounds integers beyond 2^53"
                           : "");
    }
}

/* Store what to do about a word that is not a number. */
static void advise_word(const struct text_reader *reader, const struct word *word,
                        char advice[ADVICE_TEXT])
{
    const char *delimiter = NULL;
    const char *told = "";
    for (size_t i = 0; i < word->count && delimiter == NULL; i++) {
        delimiter = word->text[i] != '\0' ? strchr(",;|", word->text[i]) : NULL;
    }
    enum word_kind kind = word_guess(word->text, word->count);
    if ((unsigned char)*word->text >= 0xFE) {
        told = "; it is UTF-16 text: save it as UTF-8";
    } else if (kind == WORD_MISSING) {
        told = dtype_is_float((enum dtype)reader->dtype)
                   ? "; write NaN or 0 for a value that is missing"
                   : "; write 0 for a value that is missing, or NaN and --dtype float64";
    } else if (reader->dtype == TALLY_BOOL) {
        told = ", which is true, false, 1 or 0";
    } else if (kind == WORD_TRUTH) {
        told = "; write 1 for true and 0 for false";
    } else if (*word->text == '"' || *word->text == '\'') {
        told = quotes_have_comma(word->text, word->end)
                   ? "; write it without quotes, " PLAIN_NUMBER
                   : "; write it without quotes";
    } else if (delimiter != NULL && *delimiter == ',') {
        told = "; write it " PLAIN_NUMBER;
    } else if (delimiter != NULL) {
        bool commas = memchr(word->line, ',', (size_t)(word->end - word->line)) != NULL;
        (void)snprintf(advice, ADVICE_TEXT, "; give --delimiter '%c'%s", *delimiter,
                       commas ? ", and write numbers " PLAIN_NUMBER : "");
        return;
    }
    (void)snprintf(advice, ADVICE_TEXT, "%s", told);
}

static int refuse_number(const struct text_reader *reader, const struct word *word)
{
    char quote[QUOTE_BYTES + 1] = "";
    char advice[ADVICE_TEXT] = "";
    bool first = reader->columns == 0 && reader->header == NULL;
    bool names =
        first && line_has_names(word->line, word->end, reader->delimiter, reader->strict);
    if (word->count == 0 && !names) {
        return complain(EXIT_USAGE,
                        "%s: line %" PRIu64 ": a number is missing between two delimiters, or "
                        "behind the last: write 0 or NaN there, or take the delimiter away",
                        reader->bytes->name, reader->line);
    }
    for (size_t i = 0; i < word->count && i < QUOTE_BYTES; i++) {
        quote[i] = isprint((unsigned char)word->text[i]) != 0 ? word->text[i] : '?';
    }
    advise_type(reader, word, advice);
    if (names) {
        (void)snprintf(advice, sizeof advice,
                       "; if the line has the names of columns, give --header");
    } else if (advice[0] == '\0') {
        advise_word(reader, word, advice);
    }
    return complain(EXIT_USAGE, "%s: line %" PRIu64 ": '%s' is not a number of type %s%s",
                    reader->bytes->name, reader->line, quote, tally_dtype_name(reader->dtype),
                    advice);
}

/* `found`: what the line has between its numbers. */
static int refuse_mixture(const struct text_reader *reader, const char *found)
{
    return complain(
        EXIT_USAGE,
        "%s: line %" PRIu64 " has %s: write numbers " PLAIN_NUMBER ", and the same "
        "between all of them (tr , ' ' makes blanks of commas that separate numbers)",
        reader->bytes->name, reader->line, found);
}

/* Between the numbers of all lines stand commas, or blanks alone. A decimal comma in a line with
 * blanks would be taken for a delimiter. */
static int check_separators(const struct text_reader *reader, const struct row *row)
{
    if (row->commas && row->blanks) {
        return refuse_mixture(reader,
                              "commas between some of its numbers and blanks between others");
    }
    if (reader->columns < 2 || row->count < 2 || row->commas == reader->commas) {
        return EXIT_DONE;
    }
    return refuse_mixture(
        reader, row->commas ? "commas between its numbers, and the lines before it have blanks"
                            : "blanks between its numbers, and the lines before it have "
                              "commas");
}

/* Read a number as the service reads it, and return where it ends. NULL: the text has none, or `read`
 * is NULL. */
static const char *read_plain(const struct text_reader *reader, number_reader read,
                              const char *text, const char *end, char *out)
{
    enum number_result result = NUMBER_OK;
    const char *past = read != NULL ? read(text, end, out, &result) : NULL;
    return past != NULL && ends_number(reader, *past) ? past : NULL;
}

/* Read the numbers of a line that ends at end[0] == '\n', perhaps with CR before, to room for
 * reader->columns, and describe the line in *row. */
static int read_line(const struct text_reader *reader, const char *text, const char *end,
                     char *out, struct row *row)
{
    const char *line = text;
    number_reader read =
        reader->dtype == TALLY_BOOL ? NULL : number_reader_of((enum dtype)reader->dtype);
    size_t element = tally_dtype_bytes(reader->dtype);
    bool comma = false; /* the last thing was a delimiter: a number must follow */
    *row = (struct row){.count = 0};
    end = before_returns(text, end);
    for (;;) {
        text = after_blanks(reader, text);
        if (text == end && (row->count == 0 || !comma)) {
            break;
        }
        const char *start = text;
        char stored[ELEMENT_MOST];
        text = read_plain(reader, read, start, end + 1, stored);
        if (*start == '\r' && start < end) {
            return refuse_return(reader);
        }
        if (text == NULL) {
            text = start;
            while (!ends_number(reader, *text)) {
                text++;
            }
            if (!read_odd_number(reader, start, (size_t)(text - start), stored)) {
                return refuse_number(reader,
                                     &(struct word){start, (size_t)(text - start), line, end});
            }
        }
        if (row->count < reader->columns) {
            memcpy(out + row->count * element, stored, element);
        }
        row->count++;
        text = after_blanks(reader, text);
        comma = text < end && *text == reader->delimiter;
        bool blank = !comma && text < end && *text != '\r';
        if (blank && reader->strict) {
            return complain(EXIT_USAGE,
                            "%s: line %" PRIu64 " has a blank inside a number, or between two: "
                            "with --delimiter it does not part them",
                            reader->bytes->name, reader->line);
        }
        row->commas = row->commas || comma;
        row->blanks = row->blanks || blank;
        text += comma;
    }
    return check_separators(reader, row);
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

/* Commas in quotes are part of a name. */
static uint64_t count_commas(const char *at, const char *end)
{
    uint64_t count = 0;
    bool quoted = false;
    for (; at < end; at++) {
        quoted = quoted != (*at == '"');
        count += *at == ',' && !quoted;
    }
    return count;
}

/* Refuse a first line that can be read in two ways. --delimiter says which is meant, and so does
 * a header with as many commas. */
static int check_meaning(const struct text_reader *reader, const char *line, const char *end)
{
    end = before_returns(line, end);
    const char *header = reader->header;
    bool named = header != NULL &&
                 count_commas(header, header + reader->header_bytes) == count_commas(line, end);
    if (reader->delimiter_given || named || !line_may_be_one_number(line, end)) {
        return EXIT_DONE;
    }
    line = after_blanks(reader, line);
    size_t count = smaller_of(strcspn(line, " \t\r\n"), QUOTE_BYTES);
    return complain(EXIT_USAGE,
                    "%s: line %" PRIu64 " is '%.*s', which can be several numbers, or one with "
                    "a decimal comma or separators of thousands: give --delimiter , if commas "
                    "separate numbers here, else write the number " PLAIN_NUMBER,
                    reader->bytes->name, reader->line, (int)count, line);
}

/* The first line that is not empty says how many columns there are, what separates them, and
 * the type. */
static int look_at_first_line(struct text_reader *reader)
{
    char *line = NULL;
    char *end = NULL;
    struct row row = {.count = 0};
    do {
        STEP(first_line(reader, &line, &end));
        if (line == NULL) {
            return EXIT_DONE;
        }
        if (!reader->typed) {
            char integers[] = "+-0123456789 \t\r?";
            integers[sizeof integers - 2] = reader->delimiter;
            const bool truths =
                line_has_truths(line, before_returns(line, end), reader->delimiter);
            reader->dtype = line + strspn(line, integers) == end ? TALLY_INT64
                            : truths                             ? TALLY_BOOL
                                                                 : TALLY_FLOAT64;
        }
        STEP(check_meaning(reader, line, end));
        STEP(read_line(reader, line, end, NULL, &row));
    } while (row.count == 0);
    reader->columns = row.count;
    reader->commas = row.commas;
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
        reader->delimiter_given = true;
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
    size_t row_bytes = reader->columns * tally_dtype_bytes(reader->dtype);
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
        struct row row;
        status = read_line(reader, line, end, to + *count * row_bytes, &row);
        if (status == EXIT_DONE && row.count != 0 && row.count != reader->columns) {
            bool commas = row.commas || reader->commas;
            return complain(EXIT_USAGE,
                            "%s: line %" PRIu64 " has %" PRIu64 " number%s, and the lines "
                            "before it have %" PRIu64 ": each line needs as many%s",
                            reader->bytes->name, reader->line, row.count,
                            row.count == 1 ? "" : "s", reader->columns,
                            commas && reader->delimiter == ','
                                ? " (commas separate numbers here: write numbers " PLAIN_NUMBER
                                  ")"
                                : "");
        }
        if (*count == 0) {
            since_ns = now_ns();
        }
        *count += row.count > 0;
    }
    return status;
}
