/* Append-only JSON text: commas, escape sequences, replacement of invalid UTF-8, growth. The
 * only failure is lack of room; it is sticky, and all later calls have no effect. */
#include "proto/json/writer.h"

#include "proto/json/number_text.h"
#include "proto/text.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEFT_BYTES = 64 << 10 /* unused room that may stay in a finished text */
};

void json_writer_init(struct json_writer *w)
{
    *w = (struct json_writer){.growing = true};
}

void json_writer_init_sized(struct json_writer *w, uint64_t bytes)
{
    json_writer_init(w);
    if (bytes < JSON_WRITER_LEAST) {
        return; /* the first allocation has at least this size */
    }
    w->capacity = bytes < SIZE_MAX ? (size_t)bytes + 1 : 0;
    w->text = w->capacity > 0 ? malloc(w->capacity) : NULL;
    w->failed = w->text == NULL;
}

void json_writer_init_fixed(struct json_writer *w, char *buffer, size_t size)
{
    *w = (struct json_writer){.text = buffer, .capacity = size};
    if (size > 0) {
        buffer[0] = '\0';
    }
}

void json_writer_deinit(struct json_writer *w)
{
    if (w->growing) {
        free(w->text);
    }
    *w = (struct json_writer){.failed = true};
}

bool json_writer_ok(const struct json_writer *w)
{
    return !w->failed;
}

char *json_writer_take(struct json_writer *w, size_t *bytes)
{
    if (w->failed || json_writer_space(w, 0) == NULL) {
        return NULL;
    }
    w->text[w->bytes] = '\0';
    char *text = w->text;
    *bytes = w->bytes;
    if (w->growing && w->capacity - w->bytes > LEFT_BYTES) {
        char *shrunk = realloc(text, w->bytes + 1);
        if (shrunk != NULL) {
            text = shrunk;
        }
    }
    json_writer_init(w);
    return text;
}

/* Make room for `bytes` more bytes and a NUL. The capacity doubles, so appending has linear
 * cost. */
static bool grow_text(struct json_writer *w, size_t bytes)
{
    size_t need = 0;
    if (!w->growing || __builtin_add_overflow(w->bytes, bytes, &need) ||
        __builtin_add_overflow(need, 1, &need)) {
        return false;
    }
    size_t capacity = w->capacity > 0 ? w->capacity : JSON_WRITER_LEAST;
    while (capacity < need) {
        if (__builtin_mul_overflow(capacity, 2, &capacity)) {
            return false;
        }
    }
    char *text = realloc(w->text, capacity);
    if (text == NULL) {
        return false;
    }
    w->text = text;
    w->capacity = capacity;
    return true;
}

char *json_writer_space(struct json_writer *w, size_t bytes)
{
    if (w->failed) {
        return NULL;
    }
    if (w->capacity <= w->bytes || w->capacity - w->bytes - 1 < bytes) {
        w->failed = !grow_text(w, bytes);
    }
    return w->failed ? NULL : w->text + w->bytes;
}

void json_writer_advance(struct json_writer *w, size_t bytes)
{
    if (!w->failed) {
        w->bytes += bytes;
        w->text[w->bytes] = '\0';
    }
}

static void put_bytes(struct json_writer *w, const char *text, size_t bytes)
{
    char *to = json_writer_space(w, bytes);
    if (to != NULL) {
        memcpy(to, text, bytes);
        json_writer_advance(w, bytes);
    }
}

void json_writer_begin_value(struct json_writer *w)
{
    if (w->need_comma) {
        put_bytes(w, ",", 1);
    }
    w->need_comma = true;
}

void json_writer_raw(struct json_writer *w, const char *text, size_t bytes)
{
    json_writer_begin_value(w);
    put_bytes(w, text, bytes);
}

static void open_bracket(struct json_writer *w, const char *bracket)
{
    json_writer_raw(w, bracket, 1);
    w->need_comma = false;
}

static void close_bracket(struct json_writer *w, const char *bracket)
{
    put_bytes(w, bracket, 1);
    w->need_comma = true;
}

void json_writer_begin_object(struct json_writer *w)
{
    open_bracket(w, "{");
}

void json_writer_end_object(struct json_writer *w)
{
    close_bracket(w, "}");
}

void json_writer_begin_array(struct json_writer *w)
{
    open_bracket(w, "[");
}

void json_writer_end_array(struct json_writer *w)
{
    close_bracket(w, "]");
}

/* The rows are those of RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
size_t utf8_sequence(const unsigned char *s, size_t left)
{
    static const struct {
        unsigned char first;
        unsigned char last; /* upper bound of the lead byte */
        unsigned char low;
        unsigned char high; /* bounds of the second byte */
        unsigned char length;
    } rows[] = {
        {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3}, {0xE1, 0xEC, 0x80, 0xBF, 3},
        {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3}, {0xF0, 0xF0, 0x90, 0xBF, 4},
        {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    size_t row = 0;
    if (s[0] < 0x80) {
        return 1;
    }
    while (row < ARRAY_COUNT(rows) && s[0] > rows[row].last) {
        row++;
    }
    if (row == ARRAY_COUNT(rows) || s[0] < rows[row].first || left < rows[row].length ||
        s[1] < rows[row].low || s[1] > rows[row].high) {
        return 0;
    }
    for (size_t i = 2; i < rows[row].length; i++) {
        if ((s[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return rows[row].length;
}

/* Write a valid sequence of `length` bytes, at most three, as an escape sequence. */
static void put_escaped(struct json_writer *w, const unsigned char *s, size_t length)
{
    static const char hex[] = "0123456789abcdef";
    static const char short_ones[] = "\"\\\b\f\n\r\t";
    static const char letters[] = "\"\\bfnrt";
    const char *found = s[0] != '\0' ? strchr(short_ones, s[0]) : NULL;
    unsigned code = length == 1 ? s[0] : s[0] & (0x7FU >> length);
    for (size_t i = 1; i < length; i++) {
        code = code << 6 | (s[i] & 0x3F);
    }
    if (found != NULL) {
        put_bytes(w, (const char[]){'\\', letters[found - short_ones]}, 2);
    } else {
        put_bytes(w,
                  (const char[]){'\\', 'u', hex[code >> 12], hex[code >> 8 & 15],
                                 hex[code >> 4 & 15], hex[code & 15]},
                  6);
    }
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
}

void json_writer_string_n(struct json_writer *w, const char *text, size_t bytes)
{
    const unsigned char *s = (const unsigned char *)text;
    json_writer_raw(w, "\"", 1);
    for (size_t i = 0; i < bytes;) {
        size_t run = i;
        while (run < bytes && is_plain(s[run])) {
            run++;
        }
        put_bytes(w, text + i, run - i);
        i = run;
        if (i == bytes) {
            break;
        }
        size_t length = utf8_sequence(s + i, bytes - i);
        if (length == 0) {
            put_bytes(w, "\xEF\xBF\xBD", 3);
        } else if (length == 1 || text_control(text + i) > 0) {
            put_escaped(w, s + i, length);
        } else {
            put_bytes(w, text + i, length);
        }
        i += length > 0 ? length : 1;
    }
    put_bytes(w, "\"", 1);
}

void json_writer_string(struct json_writer *w, const char *text)
{
    json_writer_string_n(w, text, strlen(text));
}

void json_writer_key(struct json_writer *w, const char *name)
{
    json_writer_string(w, name);
    put_bytes(w, ":", 1);
    w->need_comma = false;
}

static void put_number(struct json_writer *w, enum dtype dtype, const void *value)
{
    char text[NUMBER_ROOM];
    const char *stop = number_print(dtype, value, text);
    json_writer_raw(w, text, (size_t)(stop - text));
}

void json_writer_int(struct json_writer *w, int64_t value)
{
    put_number(w, DTYPE_I64, &value);
}

void json_writer_uint(struct json_writer *w, uint64_t value)
{
    put_number(w, DTYPE_U64, &value);
}

void json_writer_bool(struct json_writer *w, bool value)
{
    json_writer_raw(w, value ? "true" : "false", value ? 4 : 5);
}

void json_writer_member_string(struct json_writer *w, const char *key, const char *text)
{
    json_writer_key(w, key);
    json_writer_string(w, text);
}

void json_writer_member_uint(struct json_writer *w, const char *key, uint64_t value)
{
    json_writer_key(w, key);
    json_writer_uint(w, value);
}

void json_writer_member_bool(struct json_writer *w, const char *key, bool value)
{
    json_writer_key(w, key);
    json_writer_bool(w, value);
}

void json_writer_member_int_list(struct json_writer *w, const char *key, const int64_t *values,
                                 int count)
{
    json_writer_member_array(w, key);
    for (int i = 0; i < count; i++) {
        json_writer_int(w, values[i]);
    }
    json_writer_end_array(w);
}

void json_writer_member_object(struct json_writer *w, const char *key)
{
    json_writer_key(w, key);
    json_writer_begin_object(w);
}

void json_writer_member_array(struct json_writer *w, const char *key)
{
    json_writer_key(w, key);
    json_writer_begin_array(w);
}
