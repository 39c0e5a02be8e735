/* Bytes that are written and read one after the other. Thread: any, one at a time. */
#ifndef TALLY_TESTS_FUZZ_WIRE_TEXT_H
#define TALLY_TESTS_FUZZ_WIRE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that grow; a NUL follows what was added last, for those who read numbers. */
struct wire_text {
    char *bytes; /* owned */
    size_t count;
    size_t room;
};
void wire_text_add(struct wire_text *text, const void *bytes, size_t count);
void wire_text_print(struct wire_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void wire_text_drop(struct wire_text *text, size_t count); /* from its front */
void wire_text_free(struct wire_text *text);

/* Parameters and scripts are read from such. */
struct wire_reader {
    const uint8_t *at;
    size_t left;
};
uint8_t wire_read_byte(struct wire_reader *reader); /* 0 at the end */

/* One change of what lies behind `from`, as four bytes of `params` say. Three of four are in
 * the first 512 bytes. */
void wire_text_edit(struct wire_text *text, size_t from, struct wire_reader *params);

#endif
