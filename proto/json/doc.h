/* A JSON request: the bulk arrays under keys "data" are measured where they lie, in the
 * borrowed text; jansson parses what is left (strictly: no duplicate keys, valid UTF-8, nothing
 * after the end), so that a number costs no node. In the tree each such array is replaced by a
 * short stand-in that json_doc_array() turns into the measured array; a "data" value that is no
 * array (a number, a string) stays what it is. An array under "offsets" and a string under "carry" in
 * the object itself are cut out, too: they may be long. Thread: any, one at a time per document. */
#ifndef TALLY_PROTO_JSON_DOC_H
#define TALLY_PROTO_JSON_DOC_H

#include "proto/arena.h"
#include "proto/json/fields.h"
#include "proto/json/tensor.h"

#include <jansson.h>

struct json_doc {
    json_t *root;            /* an object; borrowed, like its nodes: nothing is added to it */
    struct json_cut carry;   /* without its quotes; text NULL: there is none */
    struct json_cut initial; /* the first number under a key "initial"; text NULL: none is */
    bool initials_differ;    /* there are several, and they are not alike */
    struct arena arena;      /* owned: the tree and the arrays */
    int array_count;
    const struct json_array *arrays[LIMIT_TENSORS]; /* in the order of the text */
};

/* Parse text[0..bytes), which must outlive *doc.
 * parallel  for long arrays; NULL: none
 * err   INVALID_JSON (with the byte offset), TOO_LARGE (LIMIT_JSON_SKELETON, LIMIT_JSON_VALUES:
 *       bulk outside of "data"), OUT_OF_MEMORY, CLIENT_GONE: given up by `parallel`. *doc is
 *       untouched then, else due for json_doc_deinit() */
MUST_CHECK enum status json_doc_parse(const char *text, size_t bytes,
                                      const struct parallel *parallel, struct json_doc *doc,
                                      struct error *err);
void json_doc_deinit(struct json_doc *doc);

/* The measured array that the value of a "data" key, or of "offsets" in the object itself, stands for;
 * NULL if it is no array. */
const struct json_array *json_doc_array(const struct json_doc *doc, const json_t *value);

/* The text of the number or string under "initial" in the object, as it was written: a double could
 * not hold every number of every type. *text is borrowed, and untouched if there is none.
 * err   INVALID_FIELD: neither of both, or two in the document that are not alike */
MUST_CHECK enum status json_doc_initial(const struct json_doc *doc,
                                        const struct json_place *place, struct json_cut *text,
                                        struct error *err);

/* The character that text[*at..end), inside a string, begins with: \/ and \u are what they stand
 * for, other escapes are -1. *at moves behind it. */
int json_string_char(const char *text, size_t end, size_t *at);

/* The text of a value, to be freed; NULL: no value, or no memory, of which json_dumps() does not
 * always tell: it may leave out the rest of a string. */
MUST_CHECK char *json_doc_dump(const json_t *value);

#endif
