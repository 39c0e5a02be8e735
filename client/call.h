/* One call of the library: a request and its answer, over as many attempts as it takes.
 *
 *   call_create(spec)
 *     call_prepare(easy)   set the request on a connection            <--+
 *     ... libcurl transfers; the answer is judged before its first byte  |
 *     call_settle(code)    true: to be tried again at retry_at_ms      --+
 *                          false: done, error says how it went
 *   call_destroy()
 *
 * call_run() is the whole of it on the calling thread; the submitting thread (client/async.c)
 * goes the same steps for many calls at once.
 *
 * Failure: whatever goes wrong is in call->error, found either by a callback while the bytes
 * came, or when the attempt is over, from the answer's status or from libcurl's code.
 *
 * Thread: one at a time. */
#ifndef TALLY_CLIENT_CALL_H
#define TALLY_CLIENT_CALL_H

#include "client/call_answer.h"
#include "client/connection.h"

/* A request, and where the bytes of a 200 answer go. All is borrowed until the call is
 * destroyed, but for path, which is copied. */
struct call_spec {
    const char *method;
    const char *path;         /* with its query */
    const char *content_type; /* NULL: not sent */
    const char *accept;       /* NULL: not sent */
    const char *head;         /* bytes before `body` */
    size_t head_bytes;
    const char *head_header; /* which announces how many they are; NULL: no head */
    const void *body;
    uint64_t body_bytes;
    int (*read_body)(void *user, uint64_t offset, void *to, size_t count); /* instead of body */
    tally_progress_fn progress;                                            /* NULL: none */
    void *user;          /* of read_body and progress */
    int64_t deadline_ms; /* from the call's start; 0: none */
    bool once;           /* no retry after answer bytes were written: in place, or a pipe */
    bool in_order; /* the answer to a tensor: refuse it if it starts before all was sent */
    bool single;   /* one attempt */
    /* The head is complete and no byte of the body has come; again in each attempt. Refuses the
     * answer, or sets *due to the bytes that the body must have, UINT64_MAX: any number. */
    enum tally_status (*begin)(void *context, const struct tally_answer *answer, uint64_t *due,
                               struct tally_error *err);
    struct front *front; /* of the answer, for which begin() makes room; NULL: none */
    /* The next bytes, `offset` from the start of the answer's body or the end of its front;
     * never beyond `due`. Nothing is stored if this is TALLY_BAD_ANSWER. */
    enum tally_status (*write)(void *context, uint64_t offset, const void *bytes, size_t count,
                               struct tally_error *err);
    void *context; /* of begin and write */
};

#define NEVER_MS INT64_MAX

struct call {
    struct tally *client; /* borrowed */
    struct call_spec spec;
    struct curl_slist *headers; /* owned: of the current attempt */
    int64_t give_up_ms;         /* on monotonic_ms()'s clock, as are the others; NEVER_MS */
    int64_t deadline_at_ms;     /* no attempt begins after it; NEVER_MS */
    int64_t retry_at_ms;
    int attempts;
    bool fresh;   /* the next attempt is for a new connection: a kept one was closed */
    bool touched; /* answer bytes behind the front were written, in any attempt */
    /* of the current attempt: */
    uint64_t sent;     /* position in head + body */
    uint64_t received; /* bytes of the body written */
    uint64_t due;      /* bytes that the body must have, UINT64_MAX: any number */
    bool begun;        /* begin() was called */
    CURL *easy;        /* borrowed while an attempt runs */
    struct call_answer answer;
    char curl_message[CURL_ERROR_SIZE];
    struct tally_error error; /* how it went so far; status TALLY_OK while nothing failed */
    char url[];
};

/* NULL and *err set: no memory. The clocks of timeout_ms and of the deadline start. */
struct call *call_create(struct tally *client, const struct call_spec *spec,
                         struct tally_error *err);
void call_destroy(struct call *call);

/* Set the next attempt on a connection; anything but TALLY_OK ends the call. */
enum tally_status call_prepare(struct call *call, CURL *easy);

/* libcurl is through with the attempt. Whether there is to be another. */
bool call_settle(struct call *call, CURLcode code);

/* Everything, on the calling thread. Copies the outcome to *err. */
enum tally_status call_run(struct tally *client, const struct call_spec *spec,
                           struct tally_error *err);

int64_t monotonic_ms(void);

#endif
