/* The records of server/http: a connection, and the exchange (one request and its answer) on
 * it. One loop owns both records and all their fields, except `request` while another thread
 * owns it; server/sched/request.h has the states of the request. `exchange_of(request)` returns
 * the exchange of a request. The time limits of a connection are in deadlines.c.
 *
 * While another thread owns the request, the connection's daemon does not run. But in the run
 * that handed the request over, libmicrohttpd may still close the connection, for example after
 * a reset. Then the exchange is an orphan: its record is kept until the request returns.
 *
 * PAUSED below: the state is BODY, and another thread owns the request, for example until
 * memory for the body is reserved. */
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
    bool probe;     /* a connection of --probe-listen, which holds no place */
    bool used;      /* a request line has arrived */
    bool cut;       /* conn_cut() was called: libmicrohttpd is about to close the connection */
    bool evicted;   /* the connection has lost its place; guarded by the lock of places.c */
    bool to_be_cut; /* the record is in loop->evicted; guarded by the lock of places.c */
    bool closed;    /* libmicrohttpd has closed the connection; an orphan keeps this record */
    bool handshaking;                    /* the TLS handshake is not complete */
    bool heard;                          /* TLS: the client's first bytes have arrived */
    struct MHD_Connection *connection;   /* owned by libmicrohttpd, until `closed` */
    int fd;                              /* socket of `connection` */
    struct gnutls_session_int *tls;      /* owned by libmicrohttpd; NULL: plain HTTP */
    struct tls_credentials *credentials; /* owned reference; NULL: plain HTTP */
    uint64_t since_ns;                   /* begin of the current phase (conn_restart_clock()) */
    uint64_t body_ns;                    /* PAUSED: time that the body took before the pause */
    uint64_t asked_bytes; /* bytes of all requests so far; a lower bound after chunked bodies */
    uint64_t counted_bytes; /* Unix socket: bytes received before its counter was restarted */
    uint64_t pulled_bytes;  /* TLS: bytes of the records received after the handshake */
    uint64_t answer_bytes;  /* length of the answer that is being sent */
    uint64_t answer_given;  /* bytes of an answer in blocks that were handed to the socket */
    struct conn_progress {
        uint64_t at_ns;  /* time of a heartbeat; 0: none yet */
        uint64_t moved;  /* bytes that the client had sent or received at the heartbeat */
    } progress[2];       /* [0]: at most two seconds old; [1]: two seconds older than [0] */
    uint64_t seen_bytes; /* bytes of the body at the last heartbeat */
    uint64_t moved_ns;   /* time at which the socket last became readable or writable */
    uint32_t hangups;    /* events that epoll has reported: EPOLLRDHUP, EPOLLHUP, EPOLLERR */
    uint64_t body_at_hangup; /* bytes of the body when epoll reported that the client closed */
    int stuck_sweeps;    /* number of heartbeats with unread bytes, a run, and no progress */
    uint64_t stuck_runs; /* runs of the daemon at the last of these heartbeats */
    struct http_loop *loop;
    struct http_daemon *daemon;
    struct client *client; /* owned reference; the client at the peer's address */
    /* owned reference; the client of the last request; NULL: `client` */
    struct client *identity;
    struct exchange *exchange;     /* NULL between requests */
    TAILQ_ENTRY(conn) client_link; /* in its client's list; guarded by the lock of places.c */
    /* Link in places->ring or loop->evicted, guarded by the lock of places.c; for a probe, link
     * in loop->probes. */
    TAILQ_ENTRY(conn) ring_link;
    /* Idle: twice the time at which the connection became idle. Busy: twice the time at which
     * its request arrived, plus 1. A connection is idle until the header of its next request is
     * complete. */
    atomic_uint_fast64_t activity;
    /* A run of the daemon is in progress, or is due for bytes that are no longer in a socket
     * and may be the next request. Written by the loop. */
    atomic_bool in_run;
    struct address peer;
    bool local; /* the peer is on this machine */
};

enum {
    EXCHANGE_MAGIC = 0x7a11e8
};

struct exchange {
    /* first member, see exchange_of(); other folders see only this member */
    struct request request;
    unsigned magic;
    struct conn *conn;
    struct http_loop *loop;
    const struct route *route; /* static; NULL: unknown */
    struct address address;    /* address of the peer, or of the client that proxies name */
    bool forwarded;            /* trusted proxies name the client */
    const char *method;        /* static; "": unknown yet, or not defined by HTTP */
    unsigned method_bit;       /* bit of enum route_method; 0: another method */
    bool head;      /* HEAD: the answer has no body; unknown until the header is complete */
    bool preflight; /* the request is a browser's preflight for a page (cors.h) */
    bool bodiless;  /* OPTIONS as a preflight, or for the target "*": the answer has no body */
    bool close;     /* the connection ends with this answer */
    bool orphan;    /* the connection has ended, and another thread owns the request */

    bool closed_inside; /* PAUSED: the client has closed its side before the end of the body */
    char *kept; /* owned; PAUSED: bytes of the body that are not stored yet; NULL: none */
    size_t kept_bytes;

    char *raw_target; /* the request target as it arrived; points into `target` */
    const char *segments[PAGE_SEGMENTS]; /* decoded segments of the path, within `target` */

    /* borrowed; origin whose pages may read the answer; NULL: none */
    const char *allowed_origin;

    uint64_t discarded_bytes; /* REFUSED, LINGERING: bytes of the body that were discarded */
    uint64_t relief_bytes;    /* bytes counted in http->relief_bytes; 0: none */
    bool client_counted;      /* the request counts as one of its client's requests */
    uint64_t byte_rate;       /* --per-client-bytes-per-s; 0: the request has no such limit */
    uint64_t counted_bytes;   /* bytes of the body that are counted for byte_rate */

    unsigned http_status;            /* status code of the answer */
    struct page page;                /* a page; its text is also answer.head, which is freed */
    uint64_t page_bytes;             /* bytes of the page that are counted as unread */
    bool in_blocks;                  /* the answer is sent in blocks (respond.c) */
    struct byte_view answer_head;    /* first bytes of the body of the answer */
    struct byte_view answer_payload; /* all following bytes of the body of the answer */
    struct exchange *next_free;      /* list of unused records */

    /* All fields from the one after `request` to this comment are cleared for the next request
     * that uses the record. The users of the following fields initialize or keep them. */
    struct header_check header;
    struct trace_context trace;
    char token_name[TOKEN_NAME_BYTES]; /* name of the request's token; "": none, or unknown */
    /* Owned, kept for the next request: the request target that is parsed in place, followed by
     * an unchanged copy of it. */
    char *target;
    size_t target_capacity;
};

static inline struct exchange *exchange_of(struct request *request)
{
    return (struct exchange *)(void *)request; /* the request is the first member */
}

/* conn.c: create the record of a connection that libmicrohttpd has begun; the newcomer is in
 * loop->accepted. Returns NULL if there is no memory, or if epoll refuses the socket. */
struct conn *conn_create(struct http_daemon *daemon, struct MHD_Connection *connection);
/* Free the place and the record of a connection that libmicrohttpd closes. If an orphan still
 * needs the record, exchange_end_orphan() frees it later. */
void conn_destroy(struct conn *conn);
void conn_free(struct conn *conn);

/* End the connection: shut down the socket, which libmicrohttpd closes in the daemon's next
 * run. The client can still read bytes that were sent before. */
void conn_cut(struct conn *conn);
/* End the connection and log the reason. */
void conn_cut_because(struct conn *conn, const char *why);

/* Restart the connection's clock; deadlines.c checks the time limits against this clock. Inside
 * a run of the daemon, the clock starts at the beginning of the run, so the time is not read
 * again. */
void conn_restart_clock(struct conn *conn);
/* Change the state of the request on the connection and restart the connection's clock. For a
 * state that continues the time limit of the previous state (LINGERING, and the states after
 * the body), call request_enter() instead. */
void exchange_enter(struct exchange *exchange, enum request_state state);

/* True if bytes from the client have arrived that libmicrohttpd has not read. */
bool conn_unread(const struct conn *conn);

/* Count the bytes of a request on the connection: its header, plus its body if the body has a
 * declared length. */
void conn_count_request(struct conn *conn, uint64_t bytes);
/* Count a complete chunked body of `bytes` of data, with the least framing. */
void conn_count_chunks(struct conn *conn, uint64_t bytes);
/* True if the client has certainly closed its sending side before the end of the current
 * request. Always false over TLS and on Unix sockets. */
bool conn_ended_early(const struct conn *conn);
/* True if the next request may have arrived, read by libmicrohttpd or not, because more bytes
 * were received than the requests so far contain. May be wrong if the received bytes are not
 * known, or after a body in several chunks, whose framing is not counted. */
bool conn_has_next(const struct conn *conn);

/* Begin the exchange of a request whose request line has arrived. Returns NULL without memory;
 * then the caller closes the connection. */
struct exchange *exchange_begin(struct conn *conn, const char *target);
/* End an exchange that libmicrohttpd no longer uses: release all that the exchange holds, and
 * keep the record for another request. If another thread owns the request, the request is
 * cancelled, and exchange_end_orphan() must be called when it returns. */
void exchange_end(struct exchange *exchange);
void exchange_end_orphan(struct exchange *exchange);
/* Cancel the request, because the client has closed the connection. */
void exchange_cancel(struct exchange *exchange);
void exchange_free(struct exchange *exchange);

/* http_callbacks.c calls these three functions in order: exchange_header() with the complete
 * header, exchange_data() with each piece of the body, exchange_body_end() at the end of the
 * body. The functions return false if the caller must close the connection without an answer.
 * exchange_data() also returns false if exchange_closed_inside_body() has answered the client.
 * After true there are three cases:
 * - Another thread owns the request, and the state is BODY: the caller keeps the bytes that it
 *   passed.
 * - The state is READY: the caller queues the answer.
 * - Otherwise more calls follow. */
MUST_CHECK bool exchange_header(struct exchange *exchange, const char *method);
MUST_CHECK bool exchange_data(struct exchange *exchange, const void *bytes, size_t count);
MUST_CHECK bool exchange_body_end(struct exchange *exchange);

/* PAUSED: keep bytes of the body that were not stored, or that follow such bytes in the same
 * run. Returns the number of bytes kept: all, or 0 if there is no memory. */
size_t exchange_keep(struct exchange *exchange, const void *bytes, size_t count);
/* Process the kept bytes. Call this before later bytes are processed. Returns the result of
 * exchange_data(). */
MUST_CHECK bool exchange_feed_kept(struct exchange *exchange);

/* Continue the caller's trace, or begin a new trace. A request without a traceparent begins a
 * trace only if it has a tensor, within --otlp-rate. Requires a complete header and, if there
 * is one, a known route. */
void exchange_begin_trace(struct exchange *exchange);

/* Run the daemon, which sends the answer. Requires that the loop owns the request again and
 * that the request is complete. */
void exchange_resume(struct exchange *exchange);

/* True if the client has closed its sending side before the end of the body. In this case the
 * function has answered the client, if it still reads, and has cut the connection.
 * libmicrohttpd 0.9.75 does not notice an end that arrives together with data; the memory of
 * the body would stay reserved until the next sweep (deadlines.c). */
bool exchange_closed_inside_body(struct exchange *exchange);

/* Refuse the request before the end of its body, for the reason in request.error. */
void exchange_refuse(struct exchange *exchange);

/* Count the first `whole` bytes of the body: its declared length, or the bytes received so far.
 * Fails with THROTTLED if they exceed exchange->byte_rate, which is not 0. Discarded body bytes
 * are not counted; otherwise Retry-After would be wrong. */
MUST_CHECK enum status exchange_admit_bytes(struct exchange *exchange, uint64_t whole,
                                            struct error *err);

/* ---- respond.c: the answer ---- */

/* Stop counting the request for its client (--per-client-requests), because the last block of
 * its answer is about to be sent, or because the request ends. */
void exchange_uncount_request(struct exchange *exchange);

/* Queue the answer with libmicrohttpd. Returns false if the caller must close the connection:
 * the client has left, or there is no memory for the answer, which respond_early() has
 * reported. */
MUST_CHECK bool respond(struct exchange *exchange);

/* Write the refusal in request.error to the socket, or the TLS session, while the client is
 * still sending, and close the connection for writing. libmicrohttpd has sent no byte of this
 * exchange. */
void respond_early(struct exchange *exchange);

/* If the connection has a request that respond_early() has not answered, answer it with this
 * error (respond_early()). Then cut the connection. */
void respond_and_cut(struct conn *conn, enum status status, const char *why);

/* ---- client_socket.c: state and options of a client's socket. Thread: any ---- */

/* True if the socket has unread bytes. */
bool client_socket_unread(int fd);

/* True if the socket's send buffer is full because the client does not read. */
bool client_socket_full(int fd);

/* Restart the count of bytes that are read from a Unix socket. */
void client_socket_begin_count(int fd);

/* Get the number of bytes from the client: over TCP the bytes that arrived, on a Unix socket
 * the bytes that were read since client_socket_begin_count(). Returns false if the number is
 * not known, for example beyond 2 GiB on a Unix socket. */
bool client_socket_received(int fd, uint64_t *bytes);

/* True if the client has closed its sending side and all its bytes were read. */
bool client_socket_closed(int fd);

/* Discard the unread bytes of a TCP connection whose client has closed its sending side. */
void client_socket_discard(int fd);

/* True if the client has closed its sending side; *bytes is the number of bytes that it sent on
 * the connection, read or not. Always false for a Unix socket. */
bool client_socket_sent_all(int fd, uint64_t *bytes);

/* Returns how many bytes the client has received so far, plus a constant. A Unix socket has no
 * such count; there the result is `given` (the bytes handed to the socket) minus the bytes that
 * wait in the socket. */
uint64_t client_socket_delivered(int fd, uint64_t given);

/* Set how many bytes the kernel buffers beyond those that fit into the client's window. No
 * effect on a Unix socket. */
void client_socket_bound_unsent(int fd, int bytes);

/* Acknowledge received bytes now, although there is no data to send. The system would delay the
 * ACK by 40 ms, and a client that sends small pieces (Nagle's algorithm) would send its next
 * piece only after the ACK. */
void client_socket_acknowledge(int fd);

#endif
