/* The state of one HTTP thread; private to server/http. */
#ifndef TALLY_SERVER_LOOP_H
#define TALLY_SERVER_LOOP_H

#include "server/http/exchange.h"
#include "server/http/listen.h"
#include "server/http/places.h"
#include "server/http/proxies.h"
#include "server/sched/completion.h"
#include "server/sched/server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

struct MHD_Daemon;
struct tls_files;

/* Connections that libmicrohttpd serves in one go: one of its daemons. A client's first is
 * beside others' (http_daemons.c). */
struct http_daemon {
    struct http_loop *loop;
    struct MHD_Daemon *mhd; /* NULL: not started yet */
    bool tls;               /* it speaks HTTPS, else HTTP */
    size_t buffer_bytes;    /* of each of its connections */
    uv_poll_t poll;         /* on its epoll descriptor */
    struct crowd *crowd;    /* whose connections it has; NULL: it has none */
    size_t conn_count;      /* with the one that it is about to be given */
    TAILQ_HEAD(conn_list, conn) conns;
    size_t fresh; /* connections accepted since its last run */
    bool need_run;
    uint64_t settled_ns; /* a run that began then has read all that had come */
    bool brings_texts;   /* since the last heartbeat: one waited for its turn (text_turn.h) */
    uint64_t runs;       /* so far: who has waited for one was looked at in it */
    bool progress;       /* since the run began: somebody was called with something new */
    bool reading;        /* since the run began: a body that filled its share of a buffer */
    unsigned quiet_runs; /* in a row, without */
    size_t polled;       /* exchanges whose answer MHD asks for: away, and not held */
    size_t answering;    /* and in REQUEST_ANSWERING */
    size_t handshaking;  /* connections in their TLS handshake */
    const struct conn *handshake; /* of these, who gets on in this run; NULL: nobody yet */
    LIST_HEAD(exchange_list, exchange) after_run; /* there is something to do for them then */
};

/* Who takes turns on a loop: a client's connections but the first, or all clients' first. */
struct crowd {
    struct client *client; /* held; NULL: first connections, or nobody */
    size_t daemons;
    size_t turn;          /* index of the daemon behind that of its own that ran last ... */
    size_t newcomer_turn; /* ... and that ran last for its new connections */
    bool newcomers_next;  /* its next turn goes to a daemon with new connections */
    uint64_t served_ns;   /* of the thread's time, as it counts for whose turn is next */
};

enum {
    DAEMONS_MAX = 64 /* of a loop */
};

/* A listening socket on one loop. */
struct listener {
    struct http_loop *loop;
    uv_poll_t poll; /* on fd */
    int fd;         /* owned, until closed */
    bool closed;    /* accepts nobody any more */
    bool paused;    /* accepts nobody for now: too many connections, or no descriptor left */
    bool inherited; /* systemd keeps the socket open: its backlog is not ours to empty */
    bool tls;       /* whoever comes here speaks TLS */
    bool probe;     /* of --probe-listen */
};

/* A connection that libmicrohttpd is about to be given. */
struct accepted {
    struct address peer;
    struct client *client; /* held; NULL: conn_create() has taken it over */
    bool tls;
    bool probe;
};

struct http_loop {
    bool opened; /* loop_stop() has something to do */
    struct http *http;
    struct server *server;
    pthread_t thread;
    bool started;
    bool joined;
    uv_loop_t uv;
    uv_poll_t done; /* on completion.fd */
    uv_timer_t heartbeat;
    uv_check_t check;
    uv_idle_t idle;
    struct completion completion;
    size_t listener_count;
    struct listener listeners[LISTEN_SOCKETS];
    struct accepted accepted;
    _Atomic(struct newcomer *)
        handed; /* owned: newcomers that have a place, and that it serves */
    atomic_size_t handed_count;
    struct conn_ring probes; /* connections of --probe-listen, the oldest first */
    size_t probe_count;
    struct conn_ring evicted; /* connections to cut; guarded by the lock of places.c */
    size_t handshaking;       /* connections in their TLS handshake */
    struct http_daemon daemons[DAEMONS_MAX];
    size_t daemon_count;              /* that were started */
    struct crowd crowds[DAEMONS_MAX]; /* the first: of clients' first connections */
    uint64_t served_ns;               /* of the crowd whose turn was last, before that */
    uint64_t cpu_ns;          /* processor time of the thread when the loop last asked for it */
    uint64_t paid_ns;         /* time that crowds have paid for since */
    atomic_size_t conn_count; /* with those that are handed to it */
    atomic_bool accepting;    /* some listener is not closed */
    struct exchange *free_exchanges;
    size_t free_count;
    uint64_t draining_ns; /* since when this loop accepts only what has begun; 0: it does not */
    uint64_t swept_ns;    /* the last heartbeat that was due a deadline_sweep() */
    uint64_t awake_ns;    /* the last turn */
    bool stood_still;     /* before it, and no heartbeat has come since */
    unsigned unswept;     /* heartbeats in a row that left their sweep out for that */
    bool refused_files;   /* the last connection was: for want of a descriptor, or memory */
    uint64_t id_seed;     /* of loop_draw_id() */
};

/* The HTTP side as a whole: what its loops share. */
struct http {
    struct server *server;
    struct listen_set listeners;
    struct tls_files *tls; /* NULL: no listener has TLS */
    struct tokens *tokens; /* NULL: nobody needs one */
    struct proxies proxies;
    atomic_bool draining; /* orders to the loops */
    atomic_bool stopping;
    struct places places;             /* of --max-connections */
    atomic_size_t probes;             /* connections of --probe-listen */
    atomic_uint_fast64_t page_bytes;  /* of pages that no client has read (exchange.c) */
    atomic_uint_fast64_t relieved_ns; /* refusals of memory before had their relief */
    int watched_fd; /* the least number of a loop's own descriptor (raise_descriptor()) */
    size_t loop_count;
    struct http_loop loops[]; /* each with its own thread */
};

enum {
    HEARTBEAT_MS = 250,
    ROOMY_BUFFER = 64 << 10 /* of a connection, in which a body comes fast */
};

/* All connections of a loop, one after the other: from NULL to NULL. */
static inline struct conn *loop_next_conn(const struct http_loop *loop, const struct conn *conn)
{
    struct conn *next = conn == NULL ? NULL : TAILQ_NEXT(conn, link);
    size_t behind = conn == NULL ? 0 : (size_t)(conn->daemon - loop->daemons) + 1;
    for (; next == NULL && behind < loop->daemon_count; behind++) {
        next = TAILQ_FIRST(&loop->daemons[behind].conns);
    }
    return next;
}

/* Start a loop on copies of the sockets that are shared. Whatever the result, loop_stop() is due.
 * Thread: main. */
MUST_CHECK enum status loop_start(struct http_loop *loop, struct http *http, struct error *err);
/* The stopping order was given: join the thread, if that was not done. Thread: main. */
void loop_join(struct http_loop *loop);
/* The thread was joined: end what is left, free everything that is not in use. Thread: main. */
void loop_stop(struct http_loop *loop);

/* A number that it has not given before, and others hardly will: for ids of requests, traces and
 * spans made here. */
uint64_t loop_draw_id(struct http_loop *loop);

/* The request of an exchange that was away is through: its answer can be sent. */
void loop_resume(struct exchange *exchange);
/* Do this for the exchange at the end of this run, in place of what was to be done. To suspend: its
 * request is away, and MHD leaves its connection alone until it is resumed. */
void loop_after_run(struct exchange *exchange, enum after_run what);
/* The exchange ends before the run does. */
void loop_forget_after_run(struct exchange *exchange);

/* http_callbacks.c: have libmicrohttpd make a daemon, and libuv watch it. */
MUST_CHECK enum status http_daemon_start(struct http_daemon *daemon, struct error *err);

/* http_daemons.c: start one more; the loop has fewer than DAEMONS_MAX. */
MUST_CHECK enum status http_daemons_add(struct http_loop *loop, bool tls, struct error *err);
/* The daemon that a new connection of the client is with, until it leaves; the client NULL: beside
 * the first connections of others. Returns NULL if there is none. */
struct http_daemon *http_daemons_join(struct http_loop *loop, struct client *client);
void http_daemon_leave(struct http_daemon *daemon);
/* The daemon that needs a run and whose crowd has had the least; NULL: none needs one. */
struct http_daemon *http_daemons_next(struct http_loop *loop);
/* The daemon ran for `ns`, or what came back to one of its connections took as long. */
void http_daemon_served(struct http_daemon *daemon, uint64_t ns);

/* unreadable.c: libmicrohttpd is about to refuse somebody's request with this page of HTML. */
void unreadable_answer(struct http_daemon *daemon, unsigned http_status, const char *page);

/* accepting.c: accept on a copy of the socket. */
MUST_CHECK enum status accepting_start(struct http_loop *loop,
                                       const struct listen_socket *socket, struct error *err);
/* Take over the newcomers that this loop serves. */
void accepting_take_handed(struct http_loop *loop);
/* Hand newcomers that wait for a place to their loops, as far as there are places or connections
 * can be evicted for them; go on accepting after a pause. */
void accepting_resume(struct http_loop *loop);
/* A connection has ended, or could not begin: its place is another's. */
void accepting_ended(struct http_loop *loop);
/* A drain has begun; stop accepting, without a connection lost. Call it until loop->accepting
 * is false. */
void accepting_end(struct http_loop *loop, uint64_t now_ns);
/* Close what is left. */
void accepting_stop(struct http_loop *loop);

/* deadlines.c: cut slow clients, notice dead ones, close idle ones while draining. */
void deadline_sweep(struct http_loop *loop);
/* End the connection: MHD closes it by its own ways. */
void deadline_cut(struct conn *conn);
/* Cut the connections of this loop that were evicted. */
void deadline_cut_evicted(struct http_loop *loop);
/* After a piece of a body: true if the client has closed its side before the end. It is
 * answered as far as it still reads; close the connection. libmicrohttpd 0.9.75 does not notice
 * an end that comes together with data, and a sweep would be late: what the body reserved waits
 * with it. */
bool deadline_left_inside_body(struct exchange *exchange);

#endif
