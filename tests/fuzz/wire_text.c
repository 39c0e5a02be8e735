#include "tests/fuzz/wire_text.h"

#include "tests/fuzz/wire_server.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void wire_text_add(struct wire_text *text, const void *bytes, size_t count)
{
    if (count == 0) {
        return;
    }
    if (text->count + count >= text->room) {
        text->room = 2 * (text->count + count);
        text->bytes = realloc(text->bytes, text->room);
        WIRE_REQUIRE(text->bytes != NULL);
    }
    memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
    text->bytes[text->count] = '\0';
}

void wire_text_print(struct wire_text *text, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    WIRE_REQUIRE(bytes >= 0 && (size_t)bytes < sizeof line);
    wire_text_add(text, line, (size_t)bytes);
}

void wire_text_drop(struct wire_text *text, size_t count)
{
    text->count -= count;
    if (text->count > 0) {
        memmove(text->bytes, text->bytes + count, text->count + 1);
    }
}

void wire_text_free(struct wire_text *text)
{
    free(text->bytes);
    *text = (struct wire_text){.bytes = NULL};
}

uint8_t wire_read_byte(struct wire_reader *reader)
{
    if (reader->left == 0) {
        return 0;
    }
    reader->left--;
    return *reader->at++;
}

/* ---- edits ---- */

static const char *const tokens[] = {
    "\r\n",
    "\n",
    " ",
    ":",
    "0",
    "-1",
    "99999999999999999999",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    "null",
    "true",
    "1e400",
    "\xff",
    "%00",
    "%2f",
    "?",
    "&",
    "=",
    "#",
    ";q=0",
    "chunked",
    "Content-Length: 7\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Expect: 100-continue\r\n",
    "Connection: close\r\n",
    "Content-Encoding: gzip\r\n",
    "Accept: text/html\r\n",
    "Inference-Header-Content-Length: 3\r\n",
    "X-Request-Timeout-Ms: 1\r\n",
    "X-Request-Priority: high\r\n",
    "Content-Type: text/plain\r\n",
    "&strides=0",
    "&output_strides=1,1",
    "&part=next",
    "\"strides\":[0],",
    "\"data\":",
    "\"shape\":[],",
    "\"binary_data_size\":4,",
    "0\r\n\r\n",
    "ffffffffffffffff\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
};

static void insert(struct wire_text *text, size_t at, const char *bytes, size_t count)
{
    size_t old = text->count;
    wire_text_add(text, bytes, count);
    memmove(text->bytes + at + count, text->bytes + at, old - at);
    memcpy(text->bytes + at, bytes, count);
}

void wire_text_edit(struct wire_text *text, size_t from, struct wire_reader *params)
{
    size_t where = (size_t)wire_read_byte(params) << 8;
    where |= wire_read_byte(params);
    uint8_t how = wire_read_byte(params);
    uint8_t value = wire_read_byte(params);
    size_t span = text->count - from;
    size_t at = from + (how % 4 != 3 && span > 512 ? where % 512 : where % (span + 1));
    size_t left = text->count - at;
    const char *token = tokens[value % (sizeof tokens / sizeof tokens[0])];
    char copy[64];
    size_t count = value % sizeof copy < left ? value % sizeof copy : left;
    switch (how / 4 % 4) {
    case 0:
        insert(text, at, token, strlen(token));
        break;
    case 1:
        if (left > 0) {
            text->bytes[at] = (char)(text->bytes[at] ^ (value == 0 ? 1 : value));
        }
        break;
    case 2:
        memmove(text->bytes + at, text->bytes + at + count, left - count);
        text->count -= count;
        break;
    default:
        memcpy(copy, text->bytes + at, count);
        insert(text, at, copy, count);
        break;
    }
}
