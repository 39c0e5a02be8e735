/* What an answer says of itself: its headers, or the error that one other than 200 tells.
 *
 * libcurl parses the head. The headers that mean something here are copied once it is whole
 * (call_answer_read): one that came twice with different values, or is no number where it must
 * be one, makes the answer ambiguous; then nothing of it is believed.
 *
 * Texts of the network are cut to the arrays below and lose their control characters, since
 * they are shown on terminals. Thread: the one of the call it belongs to. */
#ifndef TALLY_CLIENT_CALL_ANSWER_H
#define TALLY_CLIENT_CALL_ANSWER_H

#include "client/internal.h"

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

void call_answer_reset(struct call_answer *answer);

/* The head is complete: copy what it says. */
void call_answer_read(struct call_answer *answer, CURL *easy);

/* Keep the start of an error's body. False: enough of it has come. */
bool call_answer_keep_error(struct call_answer *answer, const char *text, size_t count);

/* Turn a complete answer that is not 200 into an error. */
void call_answer_to_error(const struct call_answer *answer, struct tally_error *err);

#endif
