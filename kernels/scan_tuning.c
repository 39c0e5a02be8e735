/* The table of choices as it is where nobody says otherwise, and as a file says it. A file is
 * read line by line into a copy, which counts when all of it was right. */
#include "kernels/scan_tuning.h"

#include "proto/edit_distance.h"
#include "proto/macros.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    FILE_BYTES = 16384, /* more is no table */
    WORD_BYTES = 48,    /* of a name or a value; longer ones are none */
    LIST_BYTES = 200,
    NEAR_NAMES = 3
};

const struct scan_tuning scan_tuning_default = {
#define X(name, kind, value, min, max, multiple, unit, meaning) .name = (value),
    SCAN_TUNING_TABLE(X)
#undef X
};

#define IS_KERNEL true
#define IS_NUMBER false
const struct scan_tuning_row scan_tuning_rows[SCAN_TUNING_ROWS] = {
#define X(name, kind, value, min, max, multiple, unit, meaning) \
    {#name, offsetof(struct scan_tuning, name), IS_##kind, min, max, multiple, unit, meaning},
    SCAN_TUNING_TABLE(X)
#undef X
};
_Static_assert(sizeof(struct scan_tuning) == SCAN_TUNING_ROWS * sizeof(uint64_t),
               "a field without a row");

const char *const scan_tuning_words[SCAN_BY_COUNT] = {
#define X(symbol, word) word,
    SCAN_TUNING_KERNELS(X)
#undef X
};

const struct scan_tuning_row *scan_tuning_find(const char *name)
{
    for (size_t i = 0; i < SCAN_TUNING_ROWS; i++) {
        if (strcmp(scan_tuning_rows[i].name, name) == 0) {
            return &scan_tuning_rows[i];
        }
    }
    return NULL;
}

uint64_t scan_tuning_get(const struct scan_tuning *tuning, const struct scan_tuning_row *row)
{
    uint64_t value = 0;
    memcpy(&value, (const char *)tuning + row->offset, sizeof value);
    return value;
}

void scan_tuning_put(struct scan_tuning *tuning, const struct scan_tuning_row *row,
                     uint64_t value)
{
    memcpy((char *)tuning + row->offset, &value, sizeof value);
}

void scan_tuning_line(const struct scan_tuning_row *row, uint64_t value, char *text,
                      size_t room)
{
    if (row->kernel) {
        (void)snprintf(text, room, "%s %s", row->name, scan_tuning_words[value]);
    } else {
        (void)snprintf(text, room, "%s %llu", row->name, (unsigned long long)value);
    }
}

/* A line while it is read. */
struct line {
    size_t number;
    const char *at;
    const char *end;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static char printable(char c)
{
    if (c > ' ' && c <= '~') {
        return c;
    }
    return '?';
}

/* The next word of a line, "" at its end or a comment; other than printable characters become
 * question marks, what is too long is cut off. */
static void take_word(struct line *line, char word[WORD_BYTES])
{
    size_t length = 0;
    while (line->at < line->end && is_blank(*line->at)) {
        line->at++;
    }
    for (; line->at < line->end && !is_blank(*line->at) && *line->at != '#'; line->at++) {
        if (length < WORD_BYTES - 1) {
            word[length++] = printable(*line->at);
        }
    }
    word[length] = '\0';
}

static void append(char *list, const char *separator, const char *word)
{
    size_t length = strlen(list);
    (void)snprintf(list + length, LIST_BYTES - length, "%s%s", length > 0 ? separator : "",
                   word);
}

/* Put rows that are so far from the name on a list that has `found`; returns what it has then.
 */
static size_t append_near(char *near, const char *name, size_t distance, size_t found)
{
    for (size_t i = 0; i < SCAN_TUNING_ROWS && found < NEAR_NAMES; i++) {
        if (edit_distance(name, scan_tuning_rows[i].name) == distance) {
            append(near, ", ", scan_tuning_rows[i].name);
            found++;
        }
    }
    return found;
}

static enum status unknown_name(const struct line *line, const char *name, struct error *err)
{
    char near[LIST_BYTES] = "";
    size_t found = 0;
    for (size_t distance = 0; distance < EDIT_DISTANCE_MAX && found < NEAR_NAMES; distance++) {
        found = append_near(near, name, distance, found);
    }
    return error_set(err, STATUS_INVALID_REQUEST,
                     "line %zu: there is no \"%s\"; the nearest are %s", line->number, name,
                     near);
}

/* A decimal number, a unit of memory behind it where the row counts bytes. */
static bool parse_number(const char *word, bool bytes, uint64_t *number)
{
    static const struct {
        const char *unit;
        uint64_t factor;
    } units[] = {{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
    uint64_t value = 0;
    const char *c = word;
    for (; *c >= '0' && *c <= '9'; c++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*c - '0'), &value)) {
            return false;
        }
    }
    bool known = c != word && *c == '\0';
    for (size_t i = 0; i < ARRAY_COUNT(units) && bytes && c != word && !known; i++) {
        known = strcmp(c, units[i].unit) == 0 &&
                !__builtin_mul_overflow(value, units[i].factor, &value);
    }
    *number = value;
    return known;
}

static enum status parse_kernel(const struct line *line, const struct scan_tuning_row *row,
                                const char *word, uint64_t *value, struct error *err)
{
    char words[LIST_BYTES] = "";
    for (size_t i = 0; i < SCAN_BY_COUNT; i++) {
        if (strcmp(scan_tuning_words[i], word) == 0) {
            *value = i;
            return STATUS_OK;
        }
        append(words, ", ", scan_tuning_words[i]);
    }
    return error_set(err, STATUS_INVALID_REQUEST, "line %zu: %s \"%s\": expected one of %s",
                     line->number, row->name, word, words);
}

static enum status parse_value(const struct line *line, const struct scan_tuning_row *row,
                               const char *word, uint64_t *value, struct error *err)
{
    if (row->kernel) {
        return parse_kernel(line, row, word, value, err);
    }
    uint64_t number = 0;
    if (!parse_number(word, strcmp(row->unit, "bytes") == 0, &number) || number < row->min ||
        number > row->max || number % row->multiple != 0) {
        char step[48] = "";
        if (row->multiple > 1) {
            (void)snprintf(step, sizeof step, ", a multiple of %llu",
                           (unsigned long long)row->multiple);
        }
        return error_set(err, STATUS_INVALID_REQUEST,
                         "line %zu: %s \"%s\": expected %llu to %llu %s%s", line->number,
                         row->name, word, (unsigned long long)row->min,
                         (unsigned long long)row->max, row->unit, step);
    }
    *value = number;
    return STATUS_OK;
}

/* lines: where each row was said, 0: nowhere yet. */
static enum status parse_line(struct line *line, size_t lines[SCAN_TUNING_ROWS],
                              struct scan_tuning *tuning, struct error *err)
{
    char name[WORD_BYTES];
    char word[WORD_BYTES];
    char more[WORD_BYTES];
    uint64_t value = 0;
    take_word(line, name);
    take_word(line, word);
    take_word(line, more);
    if (name[0] == '\0') {
        return STATUS_OK;
    }
    const struct scan_tuning_row *row = scan_tuning_find(name);
    if (row == NULL) {
        return unknown_name(line, name, err);
    }
    size_t *said = &lines[row - scan_tuning_rows];
    if (*said > 0) {
        return error_set(err, STATUS_INVALID_REQUEST, "line %zu: %s is on line %zu already",
                         line->number, name, *said);
    }
    if (more[0] != '\0') {
        return error_set(err, STATUS_INVALID_REQUEST,
                         "line %zu: %s: \"%s\" after its value; a line is a name and a value",
                         line->number, name, more);
    }
    enum status status = parse_value(line, row, word, &value, err);
    if (status == STATUS_OK) {
        scan_tuning_put(tuning, row, value);
        *said = line->number;
    }
    return status;
}

enum status scan_tuning_parse(const char *text, size_t length, struct scan_tuning *tuning,
                              struct error *err)
{
    struct scan_tuning parsed = *tuning;
    size_t lines[SCAN_TUNING_ROWS] = {0};
    const char *const end = text + length;
    struct line line = {.at = text};
    enum status status = STATUS_OK;
    while (line.at < end && status == STATUS_OK) {
        const char *next = memchr(line.at, '\n', (size_t)(end - line.at));
        line.end = next != NULL ? next : end;
        line.number++;
        status = parse_line(&line, lines, &parsed, err);
        line.at = next != NULL ? next + 1 : end;
    }
    if (status == STATUS_OK) {
        *tuning = parsed;
    }
    return status;
}

enum status scan_tuning_read(const char *path, struct scan_tuning *tuning, struct error *err)
{
    static const char what[] = "the table of choices";
    char text[FILE_BYTES + 1];
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return error_set(err, STATUS_INVALID_REQUEST, "%s %s cannot be opened: %s", what, path,
                         strerrordesc_np(errno));
    }
    size_t length = fread(text, 1, sizeof text, file);
    bool failed = ferror(file) != 0;
    (void)fclose(file);
    if (failed) {
        return error_set(err, STATUS_INVALID_REQUEST, "%s %s cannot be read", what, path);
    }
    if (length > FILE_BYTES) {
        return error_set(err, STATUS_INVALID_REQUEST, "%s %s has more than %d bytes", what,
                         path, FILE_BYTES);
    }
    enum status status = scan_tuning_parse(text, length, tuning, err);
    if (status != STATUS_OK) {
        error_prefix(err, path);
    }
    return status;
}
