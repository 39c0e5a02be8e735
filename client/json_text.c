/* A scanner that moves only forward: split_value() finds the end of a value by its first character,
 * and the end of a nested value by counting brackets outside of strings. Strings are decoded on
 * request. */
#include "client/json_text.h"

#include "proto/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Whether c is one of the characters of `set`; false for the zero byte. */
static bool is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

static void skip_chars(struct json_text *text, size_t count)
{
    text->at += count;
    text->count -= count;
}

static void skip_space(struct json_text *text)
{
    while (text->count > 0 && text_is_space(*text->at)) {
        skip_chars(text, 1);
    }
}

/* Return the bytes of the string literal at the start of text, quotes included; 0 if the literal does
 * not end. */
static size_t string_extent(struct json_text text)
{
    for (size_t i = 1; i < text.count; i++) {
        if (text.at[i] == '\\') {
            i++;
        } else if (text.at[i] == '"') {
            return i + 1;
        }
    }
    return 0;
}

/* Return the bytes of an object or array. Brackets are counted; their kinds are not compared. */
static size_t nest_extent(struct json_text text)
{
    size_t depth = 0;
    size_t i = 0;
    do {
        size_t step = 1;
        if (text.at[i] == '"') {
            step = string_extent((struct json_text){text.at + i, text.count - i});
        } else if (is_one_of(text.at[i], "{[")) {
            depth++;
        } else if (is_one_of(text.at[i], "}]")) {
            depth--;
        }
        if (step == 0) {
            return 0;
        }
        i += step;
    } while (depth > 0 && i < text.count);
    return depth == 0 ? i : 0;
}

/* Split one value off the start of text. */
static bool split_value(struct json_text *text, struct json_text *value)
{
    skip_space(text);
    if (text->count == 0) {
        return false;
    }
    size_t extent = 0;
    if (*text->at == '"') {
        extent = string_extent(*text);
    } else if (*text->at == '{' || *text->at == '[') {
        extent = nest_extent(*text);
    } else {
        while (extent < text->count && !is_one_of(text->at[extent], ",]} \t\r\n:")) {
            extent++;
        }
    }
    if (extent == 0) {
        return false;
    }
    *value = (struct json_text){text->at, extent};
    skip_chars(text, extent);
    return true;
}

bool json_text_is_whole(struct json_text text)
{
    struct json_text value = {"", 0};
    bool found = split_value(&text, &value);
    skip_space(&text);
    return found && text.count == 0;
}

bool json_text_next(struct json_text *rest, struct json_text *key, struct json_text *value)
{
    skip_space(rest);
    if (rest->count == 0 || !is_one_of(*rest->at, "{[,")) {
        return false;
    }
    skip_chars(rest, 1);
    *key = (struct json_text){"", 0};
    if (!split_value(rest, value)) {
        return false;
    }
    skip_space(rest);
    if (rest->count == 0 || *rest->at != ':') {
        return true;
    }
    skip_chars(rest, 1);
    *key = *value;
    return split_value(rest, value);
}

bool json_text_member(struct json_text object, const char *key, struct json_text *value)
{
    size_t length = strlen(key);
    struct json_text name = {"", 0};
    struct json_text found = {"", 0};
    skip_space(&object);
    if (object.count == 0 || *object.at != '{') {
        return false;
    }
    while (json_text_next(&object, &name, &found)) {
        if (name.count == length + 2 && memcmp(name.at + 1, key, length) == 0) {
            *value = found;
            return true;
        }
    }
    return false;
}

/* Return the character of an escape behind its backslash: a blank for \n, \t and the like, '?' for
 * \uXXXX. tallyd escapes only control characters so. */
static char take_escape(struct json_text *text)
{
    char c = *text->at;
    skip_chars(text, 1);
    if (c == 'u') {
        skip_chars(text, smaller_of(text->count, 4));
        return '?';
    }
    return (char)(is_one_of(c, "\"\\/") ? c : ' ');
}

bool json_text_string(struct json_text value, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    if (value.count < 2 || *value.at != '"') {
        return false;
    }
    struct json_text rest = {value.at + 1, value.count - 2};
    while (rest.count > 0 && used + 1 < size) {
        char c = *rest.at;
        skip_chars(&rest, 1);
        if (c == '\\' && rest.count > 0) {
            c = take_escape(&rest);
        }
        out[used++] = (char)(c == '\0' ? '?' : c);
    }
    out[used] = '\0';
    text_make_safe(out);
    return true;
}

bool json_text_member_string(struct json_text object, const char *key, char *out, size_t size)
{
    struct json_text value = {"", 0};
    return json_text_member(object, key, &value) && json_text_string(value, out, size);
}

int64_t json_text_integer(struct json_text value, int64_t fallback)
{
    char digits[24];
    if (value.count == 0 || value.count >= sizeof digits) {
        return fallback;
    }
    memcpy(digits, value.at, value.count);
    digits[value.count] = '\0';
    char *end = NULL;
    errno = 0;
    long long number = strtoll(digits, &end, 10);
    return errno != 0 || *end != '\0' || end == digits ? fallback : (int64_t)number;
}
