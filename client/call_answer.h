/* The headers of an answer, and the body of a refusal.
 *
 * Possible failures: an answer is `ambiguous` if it has a header twice with different values,
 * or a length that is not a number. A refusal longer than ANSWER_ERROR_BYTES is cut.
 *
 * Thread: one at a time. */
#ifndef TALLY_CLIENT_CALL_ANSWER_H
#define TALLY_CLIENT_CALL_ANSWER_H

#include "client/client_error.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ANSWER_HEADER_BYTES =
        65536,                /* limit for the headers of an answer and its interim answers */
    ANSWER_ERROR_BYTES = 4096 /* bytes of a refusal's body that are kept, at most */
};

/* The headers of an answer, copied from libcurl when they are complete. Control characters are
 * replaced, because terminals may show the texts. */
struct call_answer {
    size_t header_bytes;  /* received so far */
    bool complete;        /* all headers of the final answer were received */
    int http_status;      /* 0 until complete, like all fields below */
    bool ambiguous;       /* the answer must not be used */
    int64_t head_length;  /* Inference-Header-Content-Length, -1 if absent */
    int64_t carry_length; /* Tally-Carry-Length, -1 if absent */
    char content_type[96];
    char content_encoding[32];
    char dtype[32];
    char shape[1600];
    char location[256];
    char request_id[160];
    size_t error_bytes;
    char error_text[ANSWER_ERROR_BYTES]; /* last field: call_answer_reset() does not clear it */
};

/* Bytes in front of a tensor: the carry of a part, or DirectML's head. */
struct front {
    unsigned char *bytes; /* owned; NULL: no bytes */
    uint64_t count;
};

/* Allocate `count` bytes for the front of an answer, and add `count` to *due. */
enum tally_status front_expect(struct front *front, uint64_t count, uint64_t *due,
                               struct tally_error *err);

/* Return whether the media type of a Content-Type value equals `type`; parameters do not
 * count. */
bool media_type_is(const char *value, const char *type);

/* Copy the string member `key` of an object, cut to `size` and with control characters
 * replaced. Returns false and leaves `text` untouched if there is none. */
bool json_member_text(const json_t *object, const char *key, char *text, size_t size);

/* Reset the answer before an attempt. */
void call_answer_reset(struct call_answer *answer);

/* Read the complete head of the answer from the connection. */
void call_answer_read(struct call_answer *answer, CURL *easy);

/* Keep the next bytes of a refusal's body. Returns false if the body is longer than the
 * room. */
bool call_answer_keep_error(struct call_answer *answer, const char *text, size_t count);

/* Convert an answer with another status than 200 to an error. The message is the server's
 * sentence, or the usual meaning of the status if the body has none. */
void call_answer_to_error(const struct call_answer *answer, struct tally_error *err);

#endif
