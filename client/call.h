/* One call of the library: a request and its answer, over one or more attempts.
 *
 *   call_create(spec)
 *     call_prepare(easy)         set the request on a connection           <--+
 *     ... libcurl transfers; the head of the answer is checked first          |
 *     call_finish_attempt(code)  true: another attempt is due at retry_at_ms --+
 *                                false: the call is done, call->error has the outcome
 *   call_destroy()
 *
 * call_run() performs these steps on the calling thread. The thread of submitted calls (async.c)
 * performs the same steps for many calls at once.
 *
 * Possible failures: call->error has them. A callback finds a failure while bytes arrive, or
 * call_finish_attempt() finds one in the answer's status or in libcurl's code.
 *
 * Thread: one at a time. */
#ifndef TALLY_CLIENT_CALL_H
#define TALLY_CLIENT_CALL_H

#include "client/call_answer.h"
#include "client/connection.h"

/* A request, and the receiver of a 200 answer. All pointers are borrowed until the call is
 * destroyed, except path, which is copied. */
struct call_spec {
    const char *method;
    const char *path;         /* with its query */
    const char *content_type; /* NULL: not sent */
    const char *accept;       /* NULL: not sent */
    const char *head;         /* bytes before `body` */
    size_t head_bytes;
    const char *head_header; /* header that announces head_bytes; NULL: no head */
    const void *body;
    uint64_t body_bytes;
    int (*read_body)(void *user, uint64_t offset, void *to, size_t count); /* instead of body */
    tally_progress_fn progress;                                            /* NULL: none */
    void *user;          /* of read_body and progress */
    int64_t deadline_ms; /* from the call's start; 0: none */
    bool
        once; /* no retry after answer bytes were written: the call is in place, or to a pipe */
    bool in_order; /* refuse an answer that begins before the whole request is sent */
    bool single;   /* one attempt */
    /* Called in each attempt when the head is complete, before the first byte of the body. Refuses
     * the answer, or sets *due to the bytes that the body must have, UINT64_MAX: any number. */
    enum tally_status (*begin)(void *context, const struct tally_answer *answer, uint64_t *due,
                               struct tally_error *err);
    struct front
        *front; /* bytes before the answer's tensor, allocated by begin(); NULL: none */
    /* Called with the next bytes, at `offset` from the end of the front; never beyond `due`. If the
     * result is TALLY_BAD_ANSWER, nothing was stored. */
    enum tally_status (*write)(void *context, uint64_t offset, const void *bytes, size_t count,
                               struct tally_error *err);
    void *context; /* of begin and write */
};

#define NEVER_MS INT64_MAX

enum {
    NAP_MS =
        100 /* interval at which a call that waits for a retry asks the progress callback */
};

struct call {
    struct tally *client; /* borrowed */
    struct call_spec spec;
    struct curl_slist *headers; /* owned: of the current attempt */
    int64_t give_up_ms;         /* end of timeout_ms by monotonic_ms(); NEVER_MS: no limit */
    int64_t deadline_at_ms;     /* no attempt begins later; NEVER_MS: no limit */
    int64_t retry_at_ms;
    int attempts;
    bool fresh;   /* the next attempt needs a new connection: the server closed the kept one */
    bool touched; /* answer bytes behind the front were written, in any attempt */
    /* State of the current attempt: */
    uint64_t sent;     /* bytes of head and body sent so far */
    uint64_t received; /* bytes of the body written */
    uint64_t due;      /* bytes that the body must have, UINT64_MAX: any number */
    bool begun;        /* begin() was called */
    CURL *easy;        /* borrowed while an attempt runs */
    struct call_answer answer;
    char curl_message[CURL_ERROR_SIZE];
    struct tally_error error; /* outcome; status TALLY_OK while nothing failed */
    char url[];
};

/* Create a call, and start the clocks of timeout_ms and of the deadline. Returns NULL without
 * memory. */
struct call *call_create(struct tally *client, const struct call_spec *spec,
                         struct tally_error *err);
void call_destroy(struct call *call);

/* Set the next attempt on a connection. If this fails, the call is done. */
enum tally_status call_prepare(struct call *call, CURL *easy);

/* Evaluate an attempt that libcurl has finished. Returns whether another attempt is due. */
bool call_finish_attempt(struct call *call, CURLcode code);

/* Ask the progress callback of a call that waits for its next attempt. Returns false, with the error
 * set, if the callback cancels the call. */
bool call_goes_on(struct call *call);

/* Perform a call on the calling thread. Copies the outcome to *err. */
enum tally_status call_run(struct tally *client, const struct call_spec *spec,
                           struct tally_error *err);

int64_t monotonic_ms(void);

#endif
