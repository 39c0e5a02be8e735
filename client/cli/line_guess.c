/* Words are compared with lists, lines with the shapes that numbers have. */
#include "client/cli/line_guess.h"

#include "proto/macros.h"

#include <ctype.h>
#include <string.h>

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    return at;
}

static const char *skip_digits(const char *at, const char *end)
{
    while (at < end && isdigit((unsigned char)*at) != 0) {
        at++;
    }
    return at;
}

static const char *skip_sign(const char *at, const char *end)
{
    return at < end && (*at == '-' || *at == '+') ? at + 1 : at;
}

/* ---- words ---- */

static bool is_listed(const char *const *list, size_t length, const char *text, size_t count)
{
    bool found = false;
    for (size_t i = 0; i < length && !found; i++) {
        found = strlen(list[i]) == count && memcmp(list[i], text, count) == 0;
    }
    return found;
}

/* Letters beyond ASCII are bytes from 0x80 on. */
static bool has_letter(const char *text, size_t count)
{
    bool found = false;
    for (size_t i = 0; i < count && !found; i++) {
        found = isalpha((unsigned char)text[i]) != 0 || (unsigned char)text[i] >= 0x80;
    }
    return found;
}

enum word_kind word_guess(const char *text, size_t count)
{
    /* Na, sodium, is a name. */
    static const char *const missing[] = {"NA",  "na",      "N/A",  "n/a",  "#N/A", "<NA>",
                                          "NaT", "NULL",    "null", "Null", "None", "none",
                                          "nil", "missing", "-",    "--",   "?",    "."};
    static const char *const truths[] = {"true", "false", "True", "False", "TRUE", "FALSE"};
    static const char *const numbers[] = {"nan", "NaN", "NAN", "inf", "Inf", "INF", "Infinity"};
    if (count >= 2 && (*text == '"' || *text == '\'') && text[count - 1] == *text) {
        text++;
        count -= 2;
    }
    if (is_listed(missing, ARRAY_COUNT(missing), text, count)) {
        return WORD_MISSING;
    }
    if (is_listed(truths, ARRAY_COUNT(truths), text, count)) {
        return WORD_TRUTH;
    }
    const char *end = text + count;
    const char *first = skip_sign(text, end);
    first += first < end && *first == '.' ? 1 : 0;
    if ((first < end && isdigit((unsigned char)*first) != 0) ||
        is_listed(numbers, ARRAY_COUNT(numbers), first, (size_t)(end - first))) {
        return WORD_NUMBER;
    }
    bool markup = count > 0 && strchr("[{<", *text) != NULL; /* JSON, HTML */
    return !markup && has_letter(text, count) ? WORD_NAME : WORD_OTHER;
}

/* ---- lines ---- */

/* Groups of three digits with the mark before each. */
static const char *skip_groups(const char *at, const char *end, char mark)
{
    while (at < end && *at == mark && skip_digits(at + 1, end) - at == 4) {
        at += 4;
    }
    return at;
}

/* An exponent, or nothing. */
static const char *skip_exponent(const char *at, const char *end)
{
    if (at == end || (*at != 'e' && *at != 'E')) {
        return at;
    }
    const char *digits = skip_sign(at + 1, end);
    const char *past = skip_digits(digits, end);
    return past > digits ? past : at;
}

bool line_may_be_one_number(const char *line, const char *end)
{
    const char *whole = skip_sign(skip_blanks(line, end), end);
    const char *behind = skip_digits(whole, end);
    while (end > behind && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    if (behind == whole) {
        return false;
    }
    if (*whole != '0' && behind - whole <= 3) { /* it may be the first of several groups */
        const char *past = skip_groups(behind, end, ',');
        const char *fraction = past < end && *past == '.' ? skip_digits(past + 1, end) : past;
        if (past > behind && fraction == end) {
            return true;
        }
        behind = skip_groups(behind, end, '.');
    }
    const char *decimals = behind + 1;
    const char *past = behind < end && *behind == ',' ? skip_digits(decimals, end) : behind;
    return past - decimals >= 2 && skip_exponent(past, end) == end;
}

bool line_has_names(const char *line, const char *end, char delimiter, bool strict)
{
    bool names = false;
    if (line < end && (unsigned char)*line >= 0xFE) { /* the byte order mark of UTF-16 */
        return false;
    }
    for (const char *at = line; at < end;) {
        const char *from = skip_blanks(at, end);
        const char *past = from;
        while (past < end && *past != delimiter &&
               (strict || (*past != ' ' && *past != '\t'))) {
            past++;
        }
        enum word_kind kind = word_guess(from, (size_t)(past - from));
        if (kind != WORD_NAME && kind != WORD_OTHER) {
            return false;
        }
        names = names || kind == WORD_NAME;
        at = past + 1;
    }
    return names;
}

bool line_has_truths(const char *line, const char *end, char delimiter)
{
    bool truths = false;
    for (const char *at = line; at < end;) {
        const char *past = at;
        while (past < end && *past != delimiter && *past != ' ' && *past != '\t') {
            past++;
        }
        if (past > at &&
            (*at == '"' || *at == '\'' || word_guess(at, (size_t)(past - at)) != WORD_TRUTH)) {
            return false;
        }
        truths = truths || past > at;
        at = past + 1;
    }
    return truths;
}

bool quotes_have_comma(const char *text, const char *end)
{
    const char quote = *text;
    const char *at = text + 1;
    while (at < end && *at != quote && *at != ',') {
        at++;
    }
    const char *closing = at < end && *at == ',' ? memchr(at, quote, (size_t)(end - at)) : NULL;
    return closing != NULL;
}
