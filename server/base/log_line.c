/* Text:  2026-11-21T03:04:05.678Z info request id=7 path=/v1/cumsum detail="two words"
 * JSON:  {"time":"2026-11-21T03:04:05.678Z","level":"info","message":"request","id":"7",…}
 *
 * Whatever clients send goes through put_escaped(): a line feed cannot begin a line of its own
 * and an escape sequence cannot reach a terminal. */
#include "server/base/log_line.h"

#include "server/base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    RESERVE = 8
}; /* for closing quote, brace and newline */

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static bool room_for(const struct log_line *line, size_t bytes)
{
    return line->used + bytes + RESERVE <= LOG_LINE_BYTES;
}

static void put(struct log_line *line, const char *bytes, size_t count)
{
    if (room_for(line, count)) {
        memcpy(line->text + line->used, bytes, count);
        line->used += count;
    }
}

static void put_string(struct log_line *line, const char *text)
{
    put(line, text, strlen(text));
}

/* Length of the sequence that this byte begins; 0 if it begins none. */
static size_t sequence_length(unsigned char first)
{
    if (first < 0x80) {
        return 1;
    }
    if (first < 0xc2 || first > 0xf4) {
        return 0;
    }
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Two bytes that no text begins a character with: overlong forms, surrogates, what lies beyond
 * Unicode, and the controls U+0080 to U+009F, which terminals obey. */
static bool is_forbidden_start(unsigned char first, unsigned char second)
{
    switch (first) {
    case 0xc2:
    case 0xe0:
        return second < 0xa0;
    case 0xed:
        return second > 0x9f;
    case 0xf0:
        return second < 0x90;
    case 0xf4:
        return second > 0x8f;
    default:
        return false;
    }
}

/* Length of the well-formed, printable UTF-8 sequence at s; 0 if there is none. */
static size_t printable_length(const unsigned char *s)
{
    size_t length = sequence_length(s[0]);
    if (length <= 1) {
        return s[0] >= 0x20 && s[0] != 0x7f ? length : 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0; /* a NUL ends here too */
        }
    }
    return is_forbidden_start(s[0], s[1]) ? 0 : length;
}

/* In JSON a control character has its own escape; a stray byte is shown as text. */
static void put_byte_escape(struct log_line *line, unsigned char byte)
{
    static const char hex[] = "0123456789abcdef";
    put_string(line, !line->json ? "\\x" : byte < 0x80 ? "\\u00" : "\\\\x");
    put(line, (const char[]){hex[byte >> 4], hex[byte & 15]}, 2);
}

static void put_escaped(struct log_line *line, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    while (*s != '\0' && room_for(line, 16)) {
        size_t length = printable_length(s);
        if (length == 0) {
            put_byte_escape(line, *s++);
        } else if (*s == '"' || *s == '\\') {
            put(line, (const char[]){'\\', (char)*s++}, 2);
        } else {
            put(line, (const char *)s, length);
            s += length;
        }
    }
    if (*s != '\0') {
        put_string(line, "...");
    }
}

/* Text form: a value that reads well without quotes. */
static bool is_bare(const char *value)
{
    for (const unsigned char *s = (const unsigned char *)value; *s != '\0'; s++) {
        if (*s <= 0x20 || *s >= 0x7f || *s == '"' || *s == '\\' || *s == '=') {
            return false;
        }
    }
    return true;
}

static void put_key(struct log_line *line, const char *key)
{
    put_string(line, line->json ? ",\"" : " ");
    put_string(line, key);
    put_string(line, line->json ? "\":" : "=");
}

/* Keys never begin where their value would not fit at all: see RESERVE and the check here. */
static bool begin_field(struct log_line *line, const char *key)
{
    if (!room_for(line, strlen(key) + 32)) {
        return false;
    }
    put_key(line, key);
    return true;
}

void log_line_begin(struct log_line *line, bool json, enum log_level level, const char *message)
{
    line->json = json;
    line->used = 0;
    uint64_t now_ns = clock_ns(CLOCK_REALTIME);
    struct timespec now = clock_timespec(now_ns);
    struct tm parts = {0};
    (void)gmtime_r(&now.tv_sec, &parts);
    char stamp[64];
    size_t length = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(stamp + length, sizeof stamp - length, ".%03uZ",
                   (unsigned)(now_ns % NS_PER_S / NS_PER_MS));
    put_string(line, json ? "{\"time\":\"" : "");
    put_string(line, stamp);
    put_string(line, json ? "\",\"level\":\"" : " ");
    put_string(line, level_names[level]);
    put_string(line, json ? "\",\"message\":\"" : " ");
    put_escaped(line, message);
    put_string(line, json ? "\"" : "");
}

void log_line_text(struct log_line *line, const char *key, const char *value)
{
    if (value == NULL || value[0] == '\0' || !begin_field(line, key)) {
        return;
    }
    bool quoted = line->json || !is_bare(value);
    put_string(line, quoted ? "\"" : "");
    put_escaped(line, value);
    if (quoted) {
        line->text[line->used++] = '"'; /* RESERVE has room */
    }
}

void log_line_number(struct log_line *line, const char *key, uint64_t value)
{
    if (begin_field(line, key)) {
        char digits[24];
        (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
        put_string(line, digits);
    }
}

void log_line_end(struct log_line *line)
{
    if (line->json) {
        line->text[line->used++] = '}';
    }
    line->text[line->used++] = '\n';
}
