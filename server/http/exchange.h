/* The records of server/http: a connection, and the exchange (one request and its answer) on it.
 * Both belong to one loop, and so do their fields, except `request` while another thread owns it:
 * its states are in server/sched/request.h. `exchange_of(request)` returns the exchange of a request.
 *
 * How long a connection may take for what: deadlines.c.
 *
 * While another thread owns the request, the connection's daemon does not run. In the run in which
 * the request was handed over, libmicrohttpd may still close the connection, for example after a
 * reset. Then the exchange is an orphan: it lives until its request is back. */
#ifndef TALLY_SERVER_EXCHANGE_H
#define TALLY_SERVER_EXCHANGE_H

#include "server/base/address.h"
#include "server/base/trace_context.h"
#include "server/http/header_check.h"
#include "server/http/routes.h"
#include "server/http/tokens.h"
#include "server/pages/page.h"
#include "server/sched/request.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct MHD_Connection;
struct gnutls_session_int; /* gnutls_session_t points to it */
struct http_loop;
struct tls_credentials;
struct http_daemon;

struct conn {
    bool probe;       /* of --probe-listen: holds no place */
    bool used;        /* a request line came on it */
    bool cut;         /* was shut down: MHD is about to close it */
    bool evicted;     /* another has its place; guarded by the lock of places.c, ... */
    bool to_be_cut;   /* ... and so is that it is in loop->evicted */
    bool closed;      /* libmicrohttpd has closed it: only an orphan keeps this record */
    bool handshaking; /* TLS: nothing but its handshake has come yet */
    bool heard;       /* TLS: the client's first bytes have come */
    struct MHD_Connection *connection;   /* MHD's, until it is closed */
    int fd;                              /* of that */
    struct gnutls_session_int *tls;      /* MHD's; NULL: plain HTTP */
    struct tls_credentials *credentials; /* held; NULL: plain HTTP */
    uint64_t since_ns;                   /* when what it is bounded by now began */
    uint64_t body_ns;                    /* PAUSED: how much of the time of its body was over */
    uint64_t asked_bytes;   /* of its requests so far; of a chunked body at least so many */
    uint64_t counted_bytes; /* Unix socket: received before its counter last began anew */
    uint64_t pulled_bytes;  /* TLS: received behind the handshake, as records */
    uint64_t answer_bytes;  /* of the answer being sent */
    uint64_t answer_given;  /* of them, handed to the socket; known of what goes in blocks */
    struct conn_look {
        uint64_t at_ns;      /* of a heartbeat, 0: none yet ... */
        uint64_t moved;      /* ... and how many bytes the client had sent or taken by then */
    } looks[2];              /* the last, and the one before: two to four seconds ago */
    uint64_t seen_bytes;     /* of the body, at the last heartbeat */
    uint64_t moved_ns;       /* when the socket last became readable or writable */
    uint64_t body_at_hangup; /* of the body, when the client was seen to have closed */
    int stuck_sweeps;    /* heartbeats without progress though bytes wait and were looked at */
    uint64_t stuck_runs; /* runs of the daemon at the last of these heartbeats */
    struct http_loop *loop;
    struct http_daemon *daemon;
    struct client *client;   /* held; who connected */
    struct client *identity; /* held; whose request is or was the last on it, NULL: client's */
    struct exchange *exchange;     /* NULL between requests */
    TAILQ_ENTRY(conn) client_link; /* of its client's; guarded by the lock of places.c, ... */
    TAILQ_ENTRY(conn) ring_link; /* ... and so is that of all open ones, or of loop->evicted */
    /* Twice the time at which it became idle; or at which its request arrived, and 1 more: then it
     * is busy. A connection is idle until the header of its next request is complete. */
    atomic_uint_fast64_t activity;
    struct address peer;
};

enum {
    EXCHANGE_MAGIC = 0x7a11e8
};

struct exchange {
    struct request request; /* first: what the other layers see */
    unsigned magic;
    struct conn *conn;
    struct http_loop *loop;
    const struct route *route; /* static; NULL: none is known */
    struct address address;    /* whose request it is: the peer's, or ... */
    bool forwarded;            /* ... whom trusted proxies name */
    const char *method; /* static; "": one that HTTP does not define, or none is known yet */
    unsigned asks;      /* bit of enum route_method, 0 for others */
    bool head;          /* HEAD: no body in the answer; unknown until the header has ended */
    bool preflight;     /* a browser asks what a page may do with this route (cors.h) */
    bool bodiless; /* OPTIONS: a preflight, or of the service in general; a header says all */
    bool close;    /* the connection ends with this answer */
    bool orphan;   /* away: the connection is gone */

    bool left_inside; /* PAUSED: the client has closed its side before the end of the body */
    char *kept; /* owned: of its body, what had come when it was PAUSED; NULL: all has landed */
    size_t kept_bytes;

    const char *asked;                   /* the path as it came; behind the target */
    const char *segments[PAGE_SEGMENTS]; /* of the path, decoded; in the target */

    const char *allowed_origin; /* the settings'; whose page may read it, NULL: none's */

    uint64_t dropped_bytes; /* REFUSED, LINGERING: of the rest of its body */
    bool client_counted;    /* among the requests of its client */
    uint64_t counted_bytes; /* of its body, for --per-client-bytes-per-s */

    unsigned http_status; /* of the answer */
    struct page page;     /* of a page; its text is answer.head, too, and freed as that */
    uint64_t page_bytes;  /* bytes of the page that are counted as unread (exchange_limits.c) */
    bool in_blocks;       /* the answer goes to the socket in blocks (respond.c) */
    struct byte_view answer_head; /* what is sent of a tensor's answer, one after the other */
    struct byte_view answer_payload;
    struct exchange *next_free; /* list of unused records */

    /* All between the request and here is cleared for the next request that has this record. What
     * follows is begun anew where it is used, or kept. */
    struct header_check header;
    struct trace_context trace;
    char token_name[TOKEN_NAME_BYTES]; /* of the token it came with; "" if none is known */
    /* Owned, and kept for the next request: the request target, taken apart in place, and behind
     * it the path as it came. */
    char *target;
    size_t target_capacity;
};

static inline struct exchange *exchange_of(struct request *request)
{
    return (struct exchange *)(void *)request; /* its first member */
}

/* conn.c: the record of the connection in loop->accepted, which libmicrohttpd has begun. NULL: no
 * memory. */
struct conn *conn_create(struct http_daemon *daemon, struct MHD_Connection *connection);
/* libmicrohttpd closes the connection. Its place is free; its record is freed, unless an orphan still
 * needs the record: then conn_free() is due after exchange_end_orphan(). */
void conn_destroy(struct conn *conn);
void conn_free(struct conn *conn);

/* End the connection: the socket is shut down, and libmicrohttpd closes it in the daemon's next run.
 * The client reads what was sent before. */
void conn_cut(struct conn *conn);
/* The same, with a line in the log. */
void conn_cut_because(struct conn *conn, const char *why);

/* Restart the connection's clock, against which deadlines.c holds the time limits: now, or in a run of
 * the daemon, at the beginning of that run, which saves a look at the clock. */
void conn_begin(struct conn *conn);
/* Change the state of the request on the connection and restart the connection's clock. States that
 * continue the time limit of the state before (LINGERING, and those after the body) are entered by
 * request_enter(). */
void exchange_enter(struct exchange *exchange, enum request_state state);

/* Whether bytes from the client are there that MHD has not taken yet. */
bool conn_unread(const struct conn *conn);

/* Count the bytes of a request on the connection: its header, and its body if that has a length. */
void conn_count_request(struct conn *conn, uint64_t bytes);
/* Count a chunked body that has come to its end: the least bytes that `bytes` of data take. */
void conn_count_chunks(struct conn *conn, uint64_t bytes);
/* Whether the client has closed its side before the end of the request that is on the connection now.
 * True is certain. False over TLS and Unix sockets. */
bool conn_ended_early(const struct conn *conn);
/* Whether bytes of another request may have come behind the body of the request that is on the
 * connection now, read by MHD or not. False is certain: every byte that came belongs to the requests
 * so far. True may be wrong where a body came in several chunks, whose frames are not counted. */
bool conn_has_next(const struct conn *conn);

/* A request line has come. NULL: no memory, the connection is to be closed. */
struct exchange *exchange_begin(struct conn *conn, const char *target);
/* MHD is through with it: everything it holds goes back, and the record is kept for another
 * request. If its request is still away, that is cancelled, and it all happens when it is back:
 * in exchange_end_orphan(). */
void exchange_end(struct exchange *exchange);
void exchange_end_orphan(struct exchange *exchange);
/* The client is gone: nobody needs the result any more. */
void exchange_cancel(struct exchange *exchange);
void exchange_free(struct exchange *exchange);

/* What on_access() does after a step. */
enum exchange_step {
    EXCHANGE_GO_ON,  /* more calls will follow */
    EXCHANGE_AWAY,   /* another thread owns the request */
    EXCHANGE_PAUSE,  /* the same inside the body: these bytes have not been stored */
    EXCHANGE_ANSWER, /* queue the answer now */
    EXCHANGE_CLOSE   /* close the connection without an answer */
};

/* The loop is being taken down, and so is whatever a request could be handed over to: true, and
 * request.error says so (DRAINING). */
bool exchange_comes_too_late(struct exchange *exchange);

/* MHD's calls, in order: once with the headers, for each piece of the body, at its end. */
enum exchange_step exchange_header(struct exchange *exchange, const char *method);
enum exchange_step exchange_data(struct exchange *exchange, const void *bytes, size_t count);
enum exchange_step exchange_body_end(struct exchange *exchange);

/* PAUSED: keep what has not landed, and what comes behind it in the same run. Returns the bytes
 * that are kept: all, or none for want of memory. */
size_t exchange_keep(struct exchange *exchange, const void *bytes, size_t count);
/* In REQUEST_BODY or refused: land what was kept, before what comes next. Returns what
 * exchange_data() does. */
enum exchange_step exchange_land_kept(struct exchange *exchange);

/* exchange_report.c: its header has been seen, and its route is known if there is one. The
 * trace of who calls goes on, or one begins: without a traceparent only for a tensor, and if
 * --otlp-rate lets it. */
void exchange_begin_trace(struct exchange *exchange);
/* exchange_report.c: the exchange ends. Tell metrics, the log and the tracer. */
void exchange_report(struct exchange *exchange);

/* The loop owns the request again, and the request is complete: have its answer sent. */
void exchange_resume(struct exchange *exchange);

/* After a piece of a body: true if the client has closed its side before the end of the body. The
 * client was answered, if it still reads, and the connection was cut. libmicrohttpd 0.9.75 does not
 * notice an end that arrives together with data, and the next sweep (deadlines.c) would be late: the
 * memory that the body reserved would wait, too. */
bool exchange_left_inside_body(struct exchange *exchange);

/* Refuse the rest of a body, in REQUEST_BODY and between MHD's calls: request.error says why. */
void exchange_refuse(struct exchange *exchange);

/* ---- exchange_limits.c: accounting against the limits of the client ---- */

/* Count the request among those of its client. Fails with THROTTLED if the client has
 * --per-client-requests in flight. */
MUST_CHECK enum status exchange_count_request(struct exchange *exchange, struct error *err);
/* The last block of the answer is about to be sent: the request no longer counts among its
 * client's. */
void exchange_uncount_request(struct exchange *exchange);
/* Count `bytes` of the body, as far as its length is known or it has arrived. Fails with THROTTLED
 * if they exceed --per-client-bytes-per-s. Discarded body bytes are not counted; otherwise
 * Retry-After would be wrong. */
MUST_CHECK enum status exchange_admit_bytes(struct exchange *exchange, uint64_t bytes,
                                            struct error *err);
/* Count the page of the exchange as unread. If its client or all clients together have too many
 * unread pages, request.error says so (THROTTLED, OUT_OF_MEMORY). */
void exchange_count_page(struct exchange *exchange);
/* The exchange ends: give back all that was counted for it. */
void exchange_uncount(struct exchange *exchange);

/* ---- respond.c: the outcome as an HTTP answer, with as little copying as MHD lets us ---- */

/* Queue the answer with MHD. False: there is none, or no memory for it, which respond_early() has
 * said: close the connection. */
MUST_CHECK bool respond(struct exchange *exchange);

/* Write a refusal straight to the socket, or the TLS session, while the client is still
 * sending, and close our side of the connection for writing. MHD has sent nothing of this
 * exchange yet, so nothing is mixed up. */
void respond_early(struct exchange *exchange);

/* Cut the connection. If a request is on it that was not answered early, answer that with this error
 * first. */
void respond_and_cut(struct conn *conn, enum status status, const char *why);

/* ---- client_socket.c: what a socket is asked and told, beside its bytes. Thread: any ---- */

/* Whether bytes from the client are there that nobody has read yet. */
bool client_socket_unread(int fd);

/* Whether nothing more can be sent for now, as the client does not read. */
bool client_socket_full(int fd);

/* Whether nothing can go either way any more: the client has reset it, or we have cut it. */
bool client_socket_ended(int fd);

/* Have a Unix socket count the bytes that are read from it from now on. */
void client_socket_begin_count(int fd);

/* Bytes from the client so far: by TCP all that came, of a Unix socket those that were read since
 * client_socket_begin_count(). False: the number is not known, as for a Unix socket behind 2 GiB. */
bool client_socket_received(int fd, uint64_t *bytes);

/* Whether the client has closed its side, and all before that is read. */
bool client_socket_closed(int fd);

/* Discard the unread bytes of a TCP connection whose client has closed its side. */
void client_socket_discard(int fd);

/* Whether the client has closed its side, and how many bytes it sent before that on the connection,
 * read or not. False for a Unix socket, too. */
bool client_socket_sent_all(int fd, uint64_t *bytes);

/* For how long nothing has come; 0 where that is not known. */
uint64_t client_socket_silent_ms(int fd);

/* How many bytes the client has taken so far, up to a constant. A Unix socket does not count: there
 * it is what of `given`, the bytes known to be handed to the socket, has left it. */
uint64_t client_socket_taken(int fd, uint64_t given);

/* How many bytes the kernel takes beyond those that the client's window lets it send. Has no effect
 * on a Unix socket. */
void client_socket_bound_unsent(int fd, int bytes);

/* Acknowledge what has come, though there is nothing to send: the system would wait for 40 ms,
 * and that of a client which sends little at a time (Nagle's algorithm) keeps what follows until
 * then. */
void client_socket_acknowledge(int fd);

#endif
