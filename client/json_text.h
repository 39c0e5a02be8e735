/* A search for members in the JSON texts of a server's answers.
 *
 * The functions use borrowed text, without allocation or recursion, so libtally needs no JSON
 * library. The functions do not validate a text: a text that is not JSON yields "not found" or some
 * of its bytes, never a read outside of the text. Thread: any. */
#ifndef TALLY_CLIENT_JSON_TEXT_H
#define TALLY_CLIENT_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A stretch of JSON text, usually one value; borrowed. */
struct json_text {
    const char *at;
    size_t count;
};

/* Whether a text is one complete value with only blanks around it. */
bool json_text_is_whole(struct json_text text);

/* Find the value of member `key` of an object. Returns false if there is none. */
bool json_text_member(struct json_text object, const char *key, struct json_text *value);

/* Iterate over an array or an object: *rest starts as the value and is consumed. Each call stores the
 * next element, and its key for objects (key->count is 0 for arrays). Returns false at the end. */
bool json_text_next(struct json_text *rest, struct json_text *key, struct json_text *value);

/* Store the text of a string value, cut to `size`; control characters and \uXXXX become '?', so that
 * a terminal can show the text. Returns false and stores "" if the value is not a string. */
bool json_text_string(struct json_text value, char *out, size_t size);

/* Store the string value of member `key` of an object. Returns false and leaves `out` untouched if
 * there is none. */
bool json_text_member_string(struct json_text object, const char *key, char *out, size_t size);

/* Return an integer value; `fallback` if the value is not an integer or does not fit. */
int64_t json_text_integer(struct json_text value, int64_t fallback);

#endif
