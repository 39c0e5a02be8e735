#include "proto/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* isalnum() would make the check of a header one and a half times as slow: it looks up the
 * locale at each call. */
static bool is_letter_or_digit(unsigned char c)
{
    return (c | 0x20U) - 'a' < 26 || c - (unsigned)'0' < 10;
}

size_t text_span(const char *text, size_t bytes, const char *others)
{
    size_t count = 0;
    while (count < bytes && (is_letter_or_digit((unsigned char)text[count]) ||
                             (text[count] != '\0' && strchr(others, text[count]) != NULL))) {
        count++;
    }
    return count;
}

bool text_is_line(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

bool text_is_token_name(const char *text, size_t bytes)
{
    return bytes > 0 && bytes <= TOKEN_NAME_MOST && text_span(text, bytes, "._-") == bytes;
}

void text_append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

void text_make_safe(char *text)
{
    char *to = text;
    for (const char *at = text; *at != '\0';) {
        const size_t control = text_control(at);
        *to++ = (char)(control > 0 ? '?' : *at);
        at += control > 0 ? control : 1;
    }
    *to = '\0';
}

void text_append_names(char *text, size_t size, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        text_append(text, size, "%s%s", i == 0 ? "" : ", ", names[i]);
    }
}

void text_append_list(char *text, size_t size, const int64_t *numbers, int count)
{
    for (int i = 0; i < count; i++) {
        text_append(text, size, "%s%" PRId64, i == 0 ? "" : ",", numbers[i]);
    }
}

/* Levenshtein distance, computed one row of the table at a time. */
size_t edit_distance(const char *a, const char *b)
{
    size_t row[EDIT_DISTANCE_MAX + 1];
    size_t b_length = strlen(b);
    assert(b_length <= EDIT_DISTANCE_MAX);
    for (size_t j = 0; j <= b_length; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b_length; j++) {
            size_t replace = diagonal + (a[i] != b[j]);
            size_t shift = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
            diagonal = row[j + 1];
            row[j + 1] = replace < shift ? replace : shift;
        }
    }
    return row[b_length];
}

struct suggestion suggestion_for(const char *word)
{
    size_t third = strlen(word) / 3;
    return (struct suggestion){.word = word, .limit = third < 3 ? third + 1 : 4};
}

void suggestion_consider(struct suggestion *suggestion, const char *name)
{
    const char *word = suggestion->word;
    size_t count = strlen(word);
    size_t distance = edit_distance(word, name);
    if (strcasecmp(word, name) == 0) {
        distance = 0;
    } else if (count > 4 && strncmp(word, name, count) == 0) { /* the word is a prefix of the
                                                                  name */
        distance = 1;
    }
    if (distance < suggestion->limit) {
        suggestion->limit = distance;
        (void)snprintf(suggestion->text, sizeof suggestion->text, "; did you mean %s?", name);
    }
}

const char *text_unknown_note(const char *name)
{
    return strcmp(name, "precision") == 0 ? "; sums are always exact, and none is chosen here"
                                          : "";
}
