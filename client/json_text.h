/* Finding a few members in the JSON texts that a server answers with.
 *
 * Works on borrowed text, without allocation or recursion, so that libtally needs no JSON
 * library. It does not check that a text is valid: a text that is not JSON yields "not found"
 * or some of its bytes, never a read outside it. Thread: any. */
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

/* Whether a text is one value, to its last bracket, with nothing but blanks around it. */
bool json_text_is_whole(struct json_text text);

/* The value of member `key` of an object; false if there is none. */
bool json_text_member(struct json_text object, const char *key, struct json_text *value);

/* Step through an array or an object: *rest starts as the value and is consumed. Each call
 * gives the next element (and its key for objects; key->count 0 for arrays), until false. */
bool json_text_next(struct json_text *rest, struct json_text *key, struct json_text *value);

/* The text of a string value, cut to `size`; control characters and \uXXXX become '?', so that it
 * can be shown on a terminal. False and out "" if the value is not a string. */
bool json_text_string(struct json_text value, char *out, size_t size);

/* The string that member `key` of an object is; false and out untouched if there is none. */
bool json_text_member_string(struct json_text object, const char *key, char *out, size_t size);

/* An integer value; `fallback` if it is not one or does not fit. */
int64_t json_text_integer(struct json_text value, int64_t fallback);

#endif
