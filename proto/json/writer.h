/* An append-only builder of JSON text: commas and escapes are its business, the order of keys
 * and the nesting are the caller's. Strings may hold anything: control characters are escaped,
 * also those that only terminals obey (text_control), and bytes that are not valid UTF-8 become
 * U+FFFD, so the text is always valid JSON.
 *
 *     struct json_writer w;
 *     json_writer_init(&w);    or json_writer_init_sized(&w, bytes), if that is known,
 *                              or json_writer_init_fixed(&w, buffer, size)
 *     json_writer_begin_object(&w);
 *     json_writer_member_string(&w, "error", err->detail);
 *     json_writer_end_object(&w);
 *     if (json_writer_ok(&w)) ... w.text, w.bytes (NUL-terminated)
 *     json_writer_deinit(&w);
 *
 * Failure is sticky and asked for once, at the end: out of memory (growing) or full (fixed).
 * Thread: any, one at a time per writer. */
#ifndef TALLY_PROTO_JSON_WRITER_H
#define TALLY_PROTO_JSON_WRITER_H

#include "proto/macros.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* Bytes of memory that a growing writer takes at first: the answer to a small request,
     * within what malloc() keeps at hand. */
    JSON_WRITER_LEAST = 1000,
    JSON_INT_MAX = 21 /* most bytes of an integer and its comma */
};

struct json_writer {
    char *text;      /* owned if growing, else borrowed; NULL until something is written */
    size_t bytes;    /* written, without the NUL */
    size_t capacity; /* bytes at text, the NUL's included */
    bool growing;
    bool failed;     /* something did not fit: text is not to be used */
    bool need_comma; /* a value precedes on this level */
};

void json_writer_init(struct json_writer *w);
/* A growing writer that has room for `bytes` bytes from the start: it never takes more memory
 * than that and JSON_WRITER_LEAST, as long as they are enough. */
void json_writer_init_sized(struct json_writer *w, uint64_t bytes);
void json_writer_init_fixed(struct json_writer *w, char *buffer, size_t size);
void json_writer_deinit(struct json_writer *w);

/* True if everything written so far fitted. */
MUST_CHECK bool json_writer_ok(const struct json_writer *w);

/* The finished text; NULL if it failed. That of a growing writer is owned by the caller (free()),
 * and what room is left goes back unless it is little. The writer is empty afterwards. */
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

/* A key and its value; of an object or an array the beginning. */
void json_writer_member_string(struct json_writer *w, const char *key, const char *text);
void json_writer_member_uint(struct json_writer *w, const char *key, uint64_t value);
void json_writer_member_bool(struct json_writer *w, const char *key, bool value);
void json_writer_member_int_list(struct json_writer *w, const char *key, const int64_t *values,
                                 int count);
void json_writer_member_object(struct json_writer *w, const char *key);
void json_writer_member_array(struct json_writer *w, const char *key);

/* A value that is JSON text already (an object, a number, ...). */
void json_writer_raw(struct json_writer *w, const char *text, size_t bytes);

/* For bulk writers: announce a value whose text the caller appends itself with _space/_advance.
 * _space returns room for at least `bytes` more bytes (NULL once failed); _advance takes over
 * what was written there. */
void json_writer_begin_value(struct json_writer *w);
char *json_writer_space(struct json_writer *w, size_t bytes);
void json_writer_advance(struct json_writer *w, size_t bytes);

/* Length of the valid UTF-8 sequence at s[0..left), 0 if there is none. It looks at a byte only if
 * those before it are right, so a NUL ends it, too. */
size_t utf8_sequence(const unsigned char *s, size_t left);

#endif
