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
    if (text->count + count > text->room) {
        text->room = 2 * (text->count + count);
        text->bytes = realloc(text->bytes, text->room);
        WIRE_REQUIRE(text->bytes != NULL);
    }
    memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
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
        memmove(text->bytes, text->bytes + count, text->count);
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
