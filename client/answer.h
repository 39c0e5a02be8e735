/* The head of an answer as its header lines come in, and the text of an error answer.
 * Thread: the one of the exchange it belongs to. */
#ifndef TALLY_CLIENT_ANSWER_H
#define TALLY_CLIENT_ANSWER_H

#include "client/tally.h"

#include <stdbool.h>

enum {
    ANSWER_HEADER_BYTES = 65536, /* most header bytes of one answer, interim ones included */
    ANSWER_ERROR_BYTES = 4096    /* as much of an error's body is kept */
};

struct answer_head {
    size_t header_bytes;
    bool complete;  /* the empty line of the final answer has come */
    bool ambiguous; /* one of the headers below came twice, with different values */
    int http_status;
    int64_t content_length; /* as written, -1 if absent */
    int64_t head_length;    /* Inference-Header-Content-Length, -1 if absent */
    char content_type[96];
    char content_encoding[32];
    char dtype[32];
    char shape[1600];
    char location[256];
    char request_id[160];
    char error_text[ANSWER_ERROR_BYTES];
    size_t error_bytes;
};

void answer_head_reset(struct answer_head *head);

/* One header line, its line end included. False: the headers are too long. */
bool answer_head_line(struct answer_head *head, const char *line, size_t count);

/* Keep the start of an error's body. False: enough of it has come. */
bool answer_error_text(struct answer_head *head, const char *text, size_t count);

/* Turn a complete answer that is not 200 into an error. */
enum tally_status answer_to_error(const struct answer_head *head, struct tally_error *err);

/* The media type of a Content-Type value equals `type`, parameters ignored. */
bool media_type_is(const char *value, const char *type);

#endif
