/* The state of one HTTP thread; private to server/http.
 *
 * The files of the folder, from the top down: a file calls files further down only.
 *
 *     http.c               starts and stops everything
 *     listen.c             listening sockets
 *     http_loop.c          turns of a loop: events, runs of daemons, requests that come back
 *     deadlines.c          time limits of clients, at every heartbeat
 *     accepting.c          new connections
 *     http_callbacks.c     libmicrohttpd's calls: a connection, its requests, its end
 *     unreadable.c         refusals of malformed requests
 *     exchange_header.c    a request: its header ...
 *     tls.c                (handshakes and certificates)
 *     exchange.c           ... its body and its end
 *     respond.c            its answer
 *     exchange_report.c    metrics, log and trace of a request
 *     exchange_limits.c    accounting against the limits of its client
 *     ids.c                ids of requests, traces and spans
 *     conn.c               a connection: clock, byte counts, cut
 *     tls_session.c        its TLS session
 *     places.c             its place among --max-connections
 *     http_daemons.c       its daemon: which one runs next
 *     client_socket.c      its socket
 *
 * routes.c, header_check.c, cors.c, proxies.c, tokens.c and client_chain.c are pure or independent
 * of connections. */
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

/* A daemon of libmicrohttpd with one connection, or an unused one. MHD_run() of the daemon runs that
 * connection and no other. */
struct http_daemon {
    struct http_loop *loop;
    struct MHD_Daemon *mhd;
    bool tls;                      /* the daemon speaks HTTPS, else HTTP */
    size_t buffer_bytes;           /* size of the connection's buffer */
    struct conn *conn;             /* NULL: no connection yet, or no connection any more */
    struct crowd *crowd;           /* the crowd that the connection belongs to; NULL: unused */
    TAILQ_ENTRY(http_daemon) link; /* in loop->daemons */
    TAILQ_ENTRY(http_daemon) unused_link; /* in loop->unused while crowd is NULL */
    TAILQ_ENTRY(http_daemon) ready_link;  /* in `queue` while `ready` */
    struct daemon_queue *queue;           /* of crowd `queued_by` */
    struct crowd *queued_by;
    bool ready;        /* the daemon waits for a run */
    bool fresh;        /* the connection was accepted since the last run */
    bool brings_texts; /* since the last heartbeat a text waited for its turn (text_turn.h) */
    uint64_t runs;     /* number of runs so far */
    bool reading; /* the last run read a piece of a body that filled its share of the buffer */
    bool handshake_moved; /* the last run sent or received bytes of a TLS handshake */
    bool acknowledge;     /* the last run read a header, and the body may wait for an ACK */
};

TAILQ_HEAD(daemon_queue, http_daemon);

/* Connections that share turns on a loop: those of one client except its first, or the first
 * connections of all clients. */
struct crowd {
    struct client *client; /* held; NULL: first connections, or an unused crowd */
    size_t connections;
    size_t ready_count;
    struct daemon_queue ready;       /* daemons that wait for a run, the next one first ... */
    struct daemon_queue ready_fresh; /* ... and those whose connection is new */
    TAILQ_ENTRY(crowd) ready_link;   /* in loop->ready_crowds while ready_count > 0 */
    bool newcomers_next;             /* the crowd's next turn goes to a new connection */
    uint64_t served_ns; /* time of the thread, as it counts for the order of turns */
};

enum {
    CROWDS_MAX = 64 /* crowds of a loop */
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
    uv_poll_t done;   /* on completion.fd */
    uv_poll_t events; /* on events_fd */
    int events_fd;    /* owned: epoll, of the sockets of all connections */
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
    struct conn_ring evicted;      /* connections to cut; guarded by the lock of places.c */
    size_t handshaking;            /* connections in their TLS handshake */
    struct daemon_queue daemons;   /* owned: all daemons */
    struct daemon_queue unused[2]; /* those without a connection; [true]: with TLS */
    size_t daemon_count;
    size_t unused_count;
    struct crowd crowds[CROWDS_MAX]; /* the first: of clients' first connections */
    TAILQ_HEAD(crowd_queue, crowd) ready_crowds;
    uint64_t served_ns; /* of the crowd whose turn was last, before that */
    uint64_t cpu_ns;    /* processor time of the thread when the loop last asked for it */
    uint64_t paid_ns;   /* time that crowds have paid for since */
    struct http_daemon *running; /* the daemon that runs now; NULL: none */
    uint64_t run_ns;             /* when the current run of a daemon began, or the last one */
    atomic_size_t conn_count;    /* with those that are handed to it */
    atomic_bool accepting;       /* some listener is not closed */
    bool conn_ended; /* since accepting_resume(): a connection has ended, or could not begin */
    struct exchange *free_exchanges;
    size_t free_count;
    uint64_t draining_ns; /* since when this loop accepts only what has begun; 0: it does not */
    uint64_t swept_ns;    /* the last heartbeat that was due a deadline_sweep() */
    uint64_t awake_ns;    /* the last turn */
    bool stood_still;     /* before it, and no heartbeat has come since */
    unsigned unswept;     /* heartbeats in a row that left their sweep out for that */
    bool refused_files;   /* the last connection was: for want of a descriptor, or memory */
    uint64_t id_seed;     /* state of ids_draw() */
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
    struct places places; /* of --max-connections */
    atomic_size_t probes; /* connections of --probe-listen */
    atomic_uint_fast64_t
        page_bytes; /* bytes of pages that no client has read (exchange_limits.c) */
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
    const struct http_daemon *daemon =
        conn == NULL ? TAILQ_FIRST(&loop->daemons) : TAILQ_NEXT(conn->daemon, link);
    while (daemon != NULL && daemon->conn == NULL) {
        daemon = TAILQ_NEXT(daemon, link);
    }
    return daemon == NULL ? NULL : daemon->conn;
}

/* Start a loop on copies of the sockets that are shared. Whatever the result, loop_stop() is due.
 * Thread: main. */
MUST_CHECK enum status loop_start(struct http_loop *loop, struct http *http, struct error *err);
/* The stopping order was given: join the thread, if that was not done. Thread: main. */
void loop_join(struct http_loop *loop);
/* The thread was joined: end what is left, free everything that is not in use. Thread: main. */
void loop_stop(struct http_loop *loop);

/* ids.c: before any other call. */
void ids_init(struct http_loop *loop);
/* Returns the next number of the loop's sequence, for an id of a request, trace or span. */
uint64_t ids_draw(struct http_loop *loop);
/* Give the request an id, because it came without one. */
void ids_name_request(struct exchange *exchange);

/* http_callbacks.c: ensure that the loop has an unused daemon of this kind (TLS or plain). */
MUST_CHECK enum status http_daemon_ensure(struct http_loop *loop, bool tls, struct error *err);

/* http_daemons.c: before any other call. */
void http_daemons_init(struct http_loop *loop);
/* Stop unused daemons of which there are too many: they hold memory and descriptors. */
void http_daemons_trim(struct http_loop *loop);
/* Stop all daemons, which closes their connections. */
void http_daemons_deinit(struct http_loop *loop);
/* Take over a daemon that was started. The daemon is unused. */
void http_daemons_add(struct http_daemon *daemon);
/* Returns an unused daemon for the connection in loop->accepted, until http_daemon_leave(). The loop
 * has such a daemon (http_daemon_ensure()). client: whose connection it is; NULL: the connection
 * shares turns with first connections. */
struct http_daemon *http_daemons_join(struct http_loop *loop, struct client *client);
void http_daemon_leave(struct http_daemon *daemon);
/* Whether another thread owns the request on the daemon's connection. Such a daemon does not run. */
bool http_daemon_is_away(const struct http_daemon *daemon);
/* Have the daemon run. Nothing to do while it runs, because its run looks at everything that it has;
 * nor while another thread owns its request, because http_daemon_resume() wakes it. */
void http_daemon_wake(struct http_daemon *daemon);
/* The loop owns the request on the daemon's connection again: have the daemon run. */
void http_daemon_resume(struct http_daemon *daemon);
/* The daemon runs now. */
void http_daemon_begin_run(struct http_daemon *daemon);
/* The next daemon to run: one of the crowd that was served least; NULL: none is ready. */
struct http_daemon *http_daemons_next(struct http_loop *loop);
/* Charge the daemon's crowd with `ns` of the thread's time. */
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
/* A drain has begun; stop accepting, without a connection lost. Call it until loop->accepting
 * is false. */
void accepting_end(struct http_loop *loop, uint64_t now_ns);
/* Close what is left. */
void accepting_stop(struct http_loop *loop);

/* deadlines.c: cut slow clients, notice dead ones, close idle ones while draining. */
void deadline_sweep(struct http_loop *loop);
/* Cut the connections of this loop that were evicted. */
void deadline_cut_evicted(struct http_loop *loop);
#endif
