/* Bytes that are written and read sequentially. Thread: any, one at a time. */
#ifndef TALLY_TESTS_FUZZ_WIRE_TEXT_H
#define TALLY_TESTS_FUZZ_WIRE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* A growing buffer. A NUL follows the last byte, for functions that parse numbers. */
struct wire_text {
    char *bytes; /* owned */
    size_t count;
    size_t room;
};
void wire_text_add(struct wire_text *text, const void *bytes, size_t count);
void wire_text_print(struct wire_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void wire_text_drop(struct wire_text *text, size_t count); /* remove from the front */
void wire_text_free(struct wire_text *text);

/* Reads parameters and scripts. */
struct wire_reader {
    const uint8_t *at;
    size_t left;
};
uint8_t wire_read_byte(struct wire_reader *reader); /* returns 0 at the end */

/* Insert, change, remove or repeat bytes behind `from`; the next four bytes of `params` choose
 * the edit. Three of four edits are in the first 512 bytes. */
void wire_text_edit(struct wire_text *text, size_t from, struct wire_reader *params);

#endif
