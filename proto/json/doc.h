/* A JSON request. Arrays under keys "data" are measured in the borrowed text, and jansson
 * parses the rest strictly (no duplicate keys, valid UTF-8, nothing after the end); so the
 * numbers of a tensor need no nodes. In the tree each such array is replaced by a short
 * stand-in, which json_doc_array() maps to the measured array. A "data" value of another kind
 * (a number, a string) is unchanged. An array "offsets" and a string "carry" in the outermost
 * object are cut in the same way, because they may be long. Thread: any, one at a time per
 * document. */
#ifndef TALLY_PROTO_JSON_DOC_H
#define TALLY_PROTO_JSON_DOC_H

#include "proto/arena.h"
#include "proto/json/fields.h"
#include "proto/json/tensor.h"

#include <jansson.h>

struct json_doc {
    json_t *root;            /* an object; borrowed, read-only */
    struct json_cut carry;   /* without quotes; text NULL: absent */
    struct json_cut initial; /* the first number under a key "initial"; text NULL: absent */
    bool initials_differ;    /* several numbers exist and their texts differ */
    struct arena arena;      /* owned; contains the tree and the arrays */
    int array_count;
    const struct json_array *arrays[LIMIT_TENSORS]; /* in the order of the text */
};

/* Parse text[0..bytes), which must outlive *doc.
 * parallel  for long arrays; NULL: none
 * err   INVALID_JSON (with the byte offset); TOO_LARGE: more than LIMIT_JSON_SKELETON bytes or
 *       LIMIT_JSON_VALUES values outside of "data"; OUT_OF_MEMORY; CLIENT_GONE: `parallel` gave
 *       up. *doc is then untouched; otherwise the caller must call json_doc_deinit() */
MUST_CHECK enum status json_doc_parse(const char *text, size_t bytes,
                                      const struct parallel *parallel, struct json_doc *doc,
                                      struct error *err);
void json_doc_deinit(struct json_doc *doc);

/* Return the measured array for the value of a key "data", or of "offsets" in the outermost
 * object; NULL if the value is not an array. */
const struct json_array *json_doc_array(const struct json_doc *doc, const json_t *value);

/* Set *text to the text of the number or string under "initial", because a double cannot
 * represent every number of every type. *text is borrowed, and untouched if "initial" is
 * absent.
 * err   INVALID_FIELD: neither a number nor a string, or two different values in the
 * document */
MUST_CHECK enum status json_doc_initial(const struct json_doc *doc,
                                        const struct json_place *place, struct json_cut *text,
                                        struct error *err);

/* Return the next character of the string content text[*at..end): the meaning of \/ and \u, -1
 * for other escape sequences. *at moves behind it. */
int json_string_char(const char *text, size_t end, size_t *at);

/* Return the text of a value, which the caller frees. NULL: no value, or no memory;
 * json_dumps() alone may silently cut a string when memory is short. */
MUST_CHECK char *json_doc_dump(const json_t *value);

#endif
