/* One call of the library: a request and its answer, over one or more attempts.
 *
 *   call_create(spec)
 *     call_prepare(easy)         set the request on a connection           <--+
 *     ... libcurl transfers; the head of the answer is checked first          |
 *     call_finish_attempt(code)  true: another attempt is due at retry_at_ms --+
 *                                false: the call is done, call->error has the outcome
 *   call_destroy()
 *
 * call_run() performs these steps on the calling thread. The thread of submitted calls
 * (async.c) performs the same steps for many calls at once.
 *
 * Possible failures: call->error has the failure. It is set by a libcurl callback during the
 * transfer, or by call_finish_attempt() from the HTTP status or libcurl's result.
 *
 * Thread: one at a time. */
#ifndef TALLY_CLIENT_CALL_H
#define TALLY_CLIENT_CALL_H

#include "client/call_answer.h"
#include "client/connection.h"

/* A request, and the functions that receive its 200 answer. `path` is copied; all other
 * pointers are borrowed until call_destroy(). */
struct call_spec {
    const char *method;
    const char *path;         /* path and query string */
    const char *content_type; /* NULL: not sent */
    const char *accept;       /* NULL: not sent */
    const char *head;         /* bytes of the request before `body` */
    size_t head_bytes;
    const char *head_header; /* name of the header with the value head_bytes; NULL: no head */
    const void *body;
    uint64_t body_bytes;
    int (*read_body)(void *user, uint64_t offset, void *to, size_t count); /* instead of body */
    tally_progress_fn progress;                                            /* NULL: none */
    void *user;          /* argument of read_body and progress */
    int64_t deadline_ms; /* time from the start of the call; 0: no deadline */
    bool once;           /* no retry after write(): the call is in place, or writes to a pipe */
    bool in_order;       /* refuse an answer that begins before the whole request is sent */
    bool single;         /* no retry */
    /* Called in each attempt when the headers of a 200 answer are complete. Refuses the answer,
     * or sets *due to the bytes that its body must have; UINT64_MAX: any number. */
    enum tally_status (*begin)(void *context, const struct tally_answer *answer, uint64_t *due,
                               struct tally_error *err);
    struct front *front; /* receives bytes in front of the tensor; NULL: no such bytes */
    /* Called with the next bytes of the tensor, from `offset` on; never with more than `due`
     * bytes. TALLY_BAD_ANSWER: no byte was stored. */
    enum tally_status (*write)(void *context, uint64_t offset, const void *bytes, size_t count,
                               struct tally_error *err);
    void *context; /* argument of begin and write */
};

#define NEVER_MS INT64_MAX

enum {
    NAP_MS = 100 /* interval of progress callbacks while a call waits for its next attempt */
};

struct call {
    struct tally *client; /* borrowed */
    struct call_spec spec;
    struct curl_slist *headers; /* owned: request headers of the current attempt */
    int64_t give_up_ms;         /* end of timeout_ms (monotonic_ms()); NEVER_MS: no limit */
    int64_t deadline_at_ms;     /* end of deadline_ms (monotonic_ms()); NEVER_MS: no limit */
    int64_t retry_at_ms;        /* start of the next attempt (monotonic_ms()) */
    int attempts;               /* finished attempts */
    bool fresh;   /* the next attempt must not use an idle connection: the server closed one */
    bool touched; /* write() was called, in any attempt */
    /* State of the current attempt: */
    uint64_t sent;     /* bytes of head and body passed to libcurl */
    uint64_t received; /* bytes of the answer's body received, including the front */
    uint64_t due;      /* bytes that the body must have, UINT64_MAX: any number */
    bool begun;        /* begin() was called */
    CURL *easy;        /* borrowed while an attempt runs */
    struct call_answer answer;
    char curl_message[CURL_ERROR_SIZE];
    struct tally_error
        error; /* outcome of the current attempt; after the last one, of the call */
    char url[];
};

/* Create a call. timeout_ms and deadline_ms begin now. Returns NULL without memory. */
struct call *call_create(struct tally *client, const struct call_spec *spec,
                         struct tally_error *err);
void call_destroy(struct call *call);

/* Set the options of a connection for the next attempt. If this fails, the call is done. */
enum tally_status call_prepare(struct call *call, CURL *easy);

/* Evaluate an attempt that libcurl has finished with `code`. Returns true if another attempt
 * must be made at retry_at_ms, false if the call is done. */
bool call_finish_attempt(struct call *call, CURLcode code);

/* Call the progress callback of a call that waits for its next attempt. Returns false, with
 * call->error set, if the callback cancels the call. */
bool call_ask_progress(struct call *call);

/* Perform a call on the calling thread. Returns its status, and copies the outcome to *err. */
enum tally_status call_run(struct tally *client, const struct call_spec *spec,
                           struct tally_error *err);

/* Return the time of CLOCK_MONOTONIC in milliseconds. */
int64_t monotonic_ms(void);

#endif
