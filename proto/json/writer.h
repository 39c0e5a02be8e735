/* An append-only builder of JSON text. The writer handles commas and escape sequences, the
 * caller the order of keys and the nesting. Strings may contain any bytes: control characters
 * are escaped, also those that only terminals obey (text_control), and invalid UTF-8 becomes
 * U+FFFD, so the text is always valid JSON.
 *
 *     struct json_writer w;
 *     json_writer_init(&w);    or json_writer_init_sized(&w, bytes), if the size is known,
 *                              or json_writer_init_fixed(&w, buffer, size)
 *     json_writer_begin_object(&w);
 *     json_writer_member_string(&w, "error", err->detail);
 *     json_writer_end_object(&w);
 *     if (json_writer_ok(&w)) ... w.text, w.bytes (NUL-terminated)
 *     json_writer_deinit(&w);
 *
 * Failures are sticky, and the caller checks once, at the end: out of memory (growing writer)
 * or no room (fixed writer). Thread: any, one at a time per writer. */
#ifndef TALLY_PROTO_JSON_WRITER_H
#define TALLY_PROTO_JSON_WRITER_H

#include "proto/macros.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* Initial allocation of a growing writer: enough for the answer to a small request, and
     * small enough for malloc()'s cache. */
    JSON_WRITER_LEAST = 1000,
    JSON_INT_MAX = 21 /* maximum bytes of an integer and its comma */
};

struct json_writer {
    char *text;      /* owned by a growing writer, else borrowed; NULL until text is written */
    size_t bytes;    /* bytes written, without the NUL */
    size_t capacity; /* bytes at `text`, NUL included */
    bool growing;
    bool failed;     /* text did not fit: `text` must not be used */
    bool need_comma; /* a value precedes on this level */
};

void json_writer_init(struct json_writer *w);
/* Initialize a growing writer with room for `bytes` bytes. The writer never allocates more
 * than that or JSON_WRITER_LEAST unless the text is longer. */
void json_writer_init_sized(struct json_writer *w, uint64_t bytes);
void json_writer_init_fixed(struct json_writer *w, char *buffer, size_t size);
void json_writer_deinit(struct json_writer *w);

/* Return true if all text fitted so far. */
MUST_CHECK bool json_writer_ok(const struct json_writer *w);

/* Return the finished text, NULL after a failure. The caller owns the text of a growing writer
 * (free()); unused room is freed unless it is small. The writer is empty afterwards. */
MUST_CHECK char *json_writer_take(struct json_writer *w, size_t *bytes);

void json_writer_begin_object(struct json_writer *w);
void json_writer_end_object(struct json_writer *w);
void json_writer_begin_array(struct json_writer *w);
void json_writer_end_array(struct json_writer *w);
void json_writer_key(struct json_writer *w, const char *name);

void json_writer_string(struct json_writer *w, const char *text);
void json_writer_string_n(struct json_writer *w, const char *text, size_t bytes);
void json_writer_int(struct json_writer *w, int64_t value);
void json_writer_uint(struct json_writer *w, uint64_t value);
void json_writer_bool(struct json_writer *w, bool value);

/* Append a key and its value; for an object or an array, a key and the opening bracket. */
void json_writer_member_string(struct json_writer *w, const char *key, const char *text);
void json_writer_member_uint(struct json_writer *w, const char *key, uint64_t value);
void json_writer_member_bool(struct json_writer *w, const char *key, bool value);
void json_writer_member_int_list(struct json_writer *w, const char *key, const int64_t *values,
                                 int count);
void json_writer_member_object(struct json_writer *w, const char *key);
void json_writer_member_array(struct json_writer *w, const char *key);

/* Append a value that is already JSON text (an object, a number, ...). */
void json_writer_raw(struct json_writer *w, const char *text, size_t bytes);

/* For bulk writers: begin a value whose text the caller appends with _space and _advance.
 * _space returns room for at least `bytes` more bytes (NULL after a failure); _advance adds
 * the bytes that the caller wrote there to the text. */
void json_writer_begin_value(struct json_writer *w);
char *json_writer_space(struct json_writer *w, size_t bytes);
void json_writer_advance(struct json_writer *w, size_t bytes);

/* Return the length of the valid UTF-8 sequence at s[0..left), 0 if there is none. A byte is
 * read only if all bytes before it are valid, so a NUL also ends the sequence. */
size_t utf8_sequence(const unsigned char *s, size_t left);

#endif
