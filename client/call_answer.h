/* What an answer says of itself, in its headers and, where it is a refusal, in its body.
 *
 * Failure: headers that contradict each other, or say no number where it must be one, make it
 * ambiguous; a longer refusal than is kept is cut.
 *
 * Thread: one at a time. */
#ifndef TALLY_CLIENT_CALL_ANSWER_H
#define TALLY_CLIENT_CALL_ANSWER_H

#include "client/client_error.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The headers that mean something here are copied once its head is whole. Of an ambiguous
 * answer nothing is believed. Texts are cut to these arrays and lose their control characters,
 * since they are shown on terminals. */
enum {
    ANSWER_HEADER_BYTES = 65536, /* most header bytes of one answer, interim ones included */
    ANSWER_ERROR_BYTES = 4096    /* as much of an error's body is kept */
};

struct call_answer {
    size_t header_bytes; /* that have come */
    bool complete;       /* the empty line of the final head has come */
    int http_status;     /* once complete, else 0; so is all below */
    bool ambiguous;
    int64_t head_length;  /* Inference-Header-Content-Length, -1 if absent */
    int64_t carry_length; /* Tally-Carry-Length, -1 if absent */
    char content_type[96];
    char content_encoding[32];
    char dtype[32];
    char shape[1600];
    char location[256];
    char request_id[160];
    size_t error_bytes;
    char error_text[ANSWER_ERROR_BYTES]; /* last: not cleared between attempts */
};

/* What travels before a tensor: the carry of a part, DirectML's head. */
struct front {
    unsigned char *bytes; /* owned; NULL: none yet */
    uint64_t count;
};

/* Make room for the front of an answer, `count` bytes that come besides *due. */
enum tally_status front_expect(struct front *front, uint64_t count, uint64_t *due,
                               struct tally_error *err);

/* Before an attempt: nothing has come. */
void call_answer_reset(struct call_answer *answer);

/* The head of the answer on the connection is complete. */
void call_answer_read(struct call_answer *answer, CURL *easy);

/* Keep the next bytes of an error's body; false: it is longer than what is kept. */
bool call_answer_keep_error(struct call_answer *answer, const char *text, size_t count);

/* Whatever the status was but 200: what the server said, or else what its status
 * usually means. */
void call_answer_to_error(const struct call_answer *answer, struct tally_error *err);

#endif
