/* One request and its answer, over as many attempts as it takes.
 *
 *   exchange_create(spec)
 *     exchange_prepare(easy)   set the request on a connection           <--+
 *     ... libcurl transfers; the answer is judged before its first byte     |
 *     exchange_settle(code)    EXCHANGE_RETRY: wait until retry_at_ms  -----+
 *                              EXCHANGE_DONE: error says how it went
 *   exchange_destroy()
 *
 * The blocking calls and the submitting thread share all of this. A sink takes the answer:
 * begin() may refuse its head before a byte of it is written anywhere, finish() its length.
 * Thread: one at a time. */
#ifndef TALLY_CLIENT_EXCHANGE_H
#define TALLY_CLIENT_EXCHANGE_H

#include "client/client.h"

#include <stdbool.h>

struct exchange;

/* Where the bytes of a 200 answer go. */
struct sink {
    void *context; /* borrowed */
    /* The head is complete and no byte has come yet; again at the start of each attempt. */
    enum tally_status (*begin)(void *context, const struct tally_answer *answer,
                               struct tally_error *err);
    /* The next bytes, `offset` from the start of the answer's body. */
    enum tally_status (*write)(void *context, uint64_t offset, const void *bytes, size_t count,
                               struct tally_error *err);
    /* The body ended after `count` bytes. */
    enum tally_status (*finish)(void *context, uint64_t count, struct tally_error *err);
};

/* A request. Everything is borrowed until the exchange is destroyed, but for path, which is
 * copied. */
struct exchange_spec {
    const char *method;
    const char *path; /* with its query */
    const char *content_type;
    const char *accept; /* NULL: not sent */
    const char *head;   /* bytes before `body`, announced as Inference-Header-Content-Length */
    size_t head_bytes;  /* 0: no head */
    const void *body;
    uint64_t body_bytes;
    int (*read_body)(void *user, uint64_t offset, void *to, size_t count); /* instead of body */
    tally_progress_fn progress;                                            /* NULL: none */
    void *user;          /* of read_body and progress */
    int64_t deadline_ms; /* 0: none */
    bool once;           /* no retry after the sink wrote: in place, or a pipe */
    bool in_order; /* the answer to a tensor: refuse it if it starts before all was sent */
    bool single;   /* one attempt */
    struct sink sink;
};

enum exchange_verdict {
    EXCHANGE_DONE,
    EXCHANGE_RETRY
};

/* NULL and *err set: no memory. The clock of timeout_ms starts. */
struct exchange *exchange_create(struct tally *client, const struct exchange_spec *spec,
                                 struct tally_error *err);
void exchange_destroy(struct exchange *exchange);

/* Set the next attempt on a connection; anything but TALLY_OK ends the exchange. */
enum tally_status exchange_prepare(struct exchange *exchange, CURL *easy);

/* libcurl is through with the attempt. */
enum exchange_verdict exchange_settle(struct exchange *exchange, CURL *easy, CURLcode code);

/* When to try again, on monotonic_ms()'s clock. */
int64_t exchange_retry_at_ms(const struct exchange *exchange);

/* How it went, so far or in the end. */
struct tally_error *exchange_error(struct exchange *exchange);

/* The whole of it, on the calling thread. Copies the outcome to *err. */
enum tally_status exchange_run(struct tally *client, const struct exchange_spec *spec,
                               struct tally_error *err);

int64_t monotonic_ms(void);

#endif
