/* The state of one HTTP thread; private to server/http.
 *
 * The files of the folder, from the top down. A file calls only files below it:
 *
 *     http.c               starts and stops everything
 *     listen.c             listening sockets
 *     http_loop.c          turns of a loop: events, runs of daemons, returned requests
 *     deadlines.c          time limits of clients, at every heartbeat
 *     accepting.c          new connections
 *     http_callbacks.c     libmicrohttpd's calls: a connection, its requests, its end
 *     exchange_header.c    a request: its header ...
 *     tls.c                (handshakes and certificates)
 *     exchange.c           ... its body, its end, and what is reported of it
 *     respond.c            its answer
 *     conn.c               a connection: clock, byte counts, cut
 *     places.c             its place among --max-connections
 *     http_daemons.c       its daemon: which one runs next
 *     client_socket.c      its socket
 *
 * routes.c, header_check.c, cors.c, proxies.c, tokens.c and client_chain.c are pure or
 * independent of connections. */
#ifndef TALLY_SERVER_LOOP_H
#define TALLY_SERVER_LOOP_H

#include "server/http/exchange.h"
#include "server/http/listen.h"
#include "server/http/places.h"
#include "server/http/proxies.h"
#include "server/sched/completion.h"
#include "server/sched/ring.h"
#include "server/sched/server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

struct MHD_Daemon;
struct tls_files;

/* A daemon of libmicrohttpd. The daemon has one connection, or is unused. MHD_run() of the
 * daemon runs only this connection. */
struct http_daemon {
    struct http_loop *loop;
    struct MHD_Daemon *mhd;
    bool tls;            /* the daemon uses HTTPS, else HTTP */
    size_t buffer_bytes; /* size of the connection's buffer */
    struct conn *conn;   /* NULL: none yet, or the connection has ended */
    /* Crowd of the connection. An unused daemon belongs to the crowd of first connections; such
     * a daemon may need one more run, in which libmicrohttpd frees the last connection. */
    struct crowd *crowd;
    TAILQ_ENTRY(http_daemon) link;        /* in loop->daemons */
    TAILQ_ENTRY(http_daemon) unused_link; /* in loop->unused between two connections */
    TAILQ_ENTRY(http_daemon) ready_link;  /* in `line` while `ready` */
    struct ready_line *line; /* the line in which the daemon waits or last waited */
    bool ready;              /* the daemon waits for a run */
    bool fresh;              /* the connection was accepted since the last run */
    bool returned; /* the completion list has returned the request; the next run continues it */
    /* length of the last request's text, or of the answer's text if that is longer */
    uint64_t text_bytes;
    uint64_t runs; /* number of runs of the daemon so far */
    bool reading;  /* the last run read a piece of a body of at least a quarter of the buffer */
    bool handshake_moved; /* the last run sent or received bytes of a TLS handshake */
    bool acknowledge;     /* the last run read a header, and the body may wait for an ACK */
};

TAILQ_HEAD(daemon_queue, http_daemon);

/* The lines of a crowd. */
enum ready_line_id {
    READY_NEW,   /* connections that have not run yet */
    READY_SMALL, /* other connections */
    READY_TEXT,  /* connections whose last request had a long text or a long answer in text */
    READY_COUNT
};

/* Daemons that wait for a run, first in, first out. */
struct ready_line {
    struct ring_flow turns; /* first member: in the crowd's ring while a daemon waits */
    struct daemon_queue daemons;
};

/* Connections that share the thread time of a loop: the first connections of all clients, or
 * all connections of one client except its first one. */
struct crowd {
    struct ring_flow turns; /* first member: in the loop's ring while ready_count > 0 */
    struct ring ring;       /* lines in which daemons wait */
    /* owned reference; NULL: the crowd of first connections, or an unused crowd */
    struct client *client;
    size_t connections;
    size_t ready_count; /* daemons in all lines */
    struct ready_line lines[READY_COUNT];
};

enum {
    CROWDS_MAX = 64 /* crowds of a loop */
};

/* A listening socket on one loop. */
struct listener {
    struct http_loop *loop;
    uv_poll_t poll; /* on fd */
    int fd;         /* owned, until closed */
    bool closed;    /* fd is closed */
    bool paused;    /* libuv does not watch fd: too many connections, or no free descriptor */
    bool inherited; /* systemd keeps the socket open for the next service, with its backlog */
    bool tls;       /* connections speak TLS */
    bool probe;     /* a socket of --probe-listen */
};

struct http_loop {
    bool opened; /* the libuv loop and the completion list are initialized */
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
    struct newcomer *accepted; /* newcomer that is being handed to libmicrohttpd */
    /* owned: newcomers whose connections this loop has to open */
    _Atomic(struct newcomer *) handed;
    atomic_size_t handed_count;
    struct conn_ring probes; /* connections of --probe-listen, oldest first */
    size_t probe_count;
    struct conn_ring evicted;      /* connections to cut; guarded by the lock of places.c */
    size_t handshaking;            /* connections in their TLS handshake */
    struct daemon_queue daemons;   /* owned: all daemons */
    struct daemon_queue unused[2]; /* daemons without a connection; [true]: with TLS */
    size_t daemon_count;
    size_t unused_count;
    struct crowd crowds[CROWDS_MAX]; /* [0]: the first connections of all clients */
    struct ring ring;                /* crowds with ready daemons */
    uint64_t cpu_ns;                 /* processor time of the thread when it was last read */
    uint64_t charged_ns;             /* time charged to crowds since cpu_ns was read */
    struct http_daemon *running;     /* the daemon that runs now; NULL: none */
    uint64_t run_ns;                 /* begin of the current or last run of a daemon */
    atomic_size_t conn_count;        /* number of connections, newcomers in `handed` included */
    atomic_bool accepting;           /* some listener is not closed */
    bool conn_ended; /* a connection has ended or could not begin: call accepting_resume() */
    struct exchange *free_exchanges;
    size_t free_count;
    uint64_t draining_ns; /* begin of the drain on this loop; 0: no drain */
    uint64_t sweep_ns;    /* time of the last heartbeat that called deadline_sweep() */
    uint64_t beat_ns; /* time of the last heartbeat; before the first one, time of the start */
    /* the last connection was refused: there was no descriptor or no memory */
    bool refused_files;
    uint64_t id_seed; /* state of loop_draw_id() */
};

/* The state that all loops share. */
struct http {
    struct server *server;
    struct listen_set listeners;
    struct tls_files *tls; /* NULL: no listener has TLS */
    struct tokens *tokens; /* NULL: requests need no token */
    struct proxies proxies;
    atomic_bool draining;            /* the loops must drain */
    atomic_bool stopping;            /* the threads of the loops must end */
    struct places places;            /* places of --max-connections */
    atomic_size_t probes;            /* connections of --probe-listen */
    atomic_uint_fast64_t page_bytes; /* bytes of unread pages */
    atomic_bool relieving;           /* a loop ends slow requests because memory was refused */
    /* time at which such a request was last ended; used by the loop that has set `relieving` */
    uint64_t relieved_ns;
    atomic_uint_fast64_t relief_bytes; /* bytes that such requests have not released yet */
    size_t loop_count;
    struct http_loop loops[]; /* each with its own thread */
};

enum {
    HEARTBEAT_MS = 250,
    ROOMY_BUFFER = 64 << 10 /* size of a large buffer of a connection, for fast bodies */
};

/* Iterate over the connections of a loop: NULL returns the first connection, and the last
 * connection returns NULL. */
static inline struct conn *loop_next_conn(const struct http_loop *loop, const struct conn *conn)
{
    const struct http_daemon *daemon =
        conn == NULL ? TAILQ_FIRST(&loop->daemons) : TAILQ_NEXT(conn->daemon, link);
    while (daemon != NULL && daemon->conn == NULL) {
        daemon = TAILQ_NEXT(daemon, link);
    }
    return daemon == NULL ? NULL : daemon->conn;
}

/* Returns an id for a request, a trace or a span: the next number of a sequence whose start is
 * random (SplitMix64). No number occurs twice on a loop, and two loops or processes are very
 * unlikely to draw the same number. An id is not a secret. Thread: the loop. */
static inline uint64_t loop_draw_id(struct http_loop *loop)
{
    loop->id_seed += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t id = loop->id_seed;
    id = (id ^ (id >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    id = (id ^ (id >> 27)) * UINT64_C(0x94d049bb133111eb);
    return id ^ (id >> 31);
}

/* True if the service is stopping, so that no other thread would process the request. Then
 * request.error is set to DRAINING. Thread: the loop. */
static inline bool exchange_is_too_late(struct exchange *exchange)
{
    const bool stopping = atomic_load(&exchange->loop->http->stopping);
    if (stopping) {
        (void)error_set(&exchange->request.error, STATUS_DRAINING,
                        "the service is shutting down");
    }
    return stopping;
}

/* Start a loop on copies of the shared sockets. After a failure, too, loop_stop() must be
 * called. Thread: main. */
MUST_CHECK enum status loop_start(struct http_loop *loop, struct http *http, struct error *err);
/* Join the thread, unless that was done before. Requires http->stopping. Thread: main. */
void loop_join(struct http_loop *loop);
/* End requests and connections, and free all memory that no hung device uses. Requires that the
 * thread was joined. Thread: main. */
void loop_stop(struct http_loop *loop);

/* http_callbacks.c: ensure that the loop has an unused daemon of this kind (TLS or plain). */
MUST_CHECK enum status http_daemon_ensure(struct http_loop *loop, bool tls, struct error *err);

/* http_daemons.c: initialize the loop's lists of daemons. */
void http_daemons_init(struct http_loop *loop);
/* Stop the unused daemons in excess of KEPT_DAEMONS, because they hold memory and
 * descriptors. */
void http_daemons_trim(struct http_loop *loop);
/* Stop all daemons, which closes their connections. */
void http_daemons_deinit(struct http_loop *loop);
/* Add a started daemon to the unused daemons. The loop owns the daemon after the call. */
void http_daemons_add(struct http_daemon *daemon);
/* Returns an unused daemon for the connection in loop->accepted, until http_daemon_release().
 * http_daemon_ensure() has ensured that one exists. The caller wakes the daemon. client: the
 * client of the connection; NULL: the connection belongs to the crowd of first connections. */
struct http_daemon *http_daemons_acquire(struct http_loop *loop, struct client *client);
void http_daemon_release(struct http_daemon *daemon);
/* True if another thread owns the request on the daemon's connection. Such a daemon does not
 * run. */
static inline bool http_daemon_is_blocked(const struct http_daemon *daemon)
{
    return daemon->conn != NULL && daemon->conn->exchange != NULL && !daemon->returned &&
           request_is_away(&daemon->conn->exchange->request);
}
/* Queue the daemon for a run. The call has no effect while the daemon runs, because a run
 * processes all that has arrived. It has no effect while another thread owns the request,
 * because http_daemon_returned() will queue the daemon. */
void http_daemon_wake(struct http_daemon *daemon);
/* Queue the daemon for a run that continues the returned request. The loop has taken this
 * request from the completion list. */
void http_daemon_returned(struct http_daemon *daemon);
/* The loop owns the request on the daemon's connection again: queue the daemon for a run. */
void http_daemon_resume(struct http_daemon *daemon);
/* Note that a run of the daemon begins. */
void http_daemon_begin_run(struct http_daemon *daemon);
/* Returns the next daemon to run, from the crowd that has the turn; NULL: no daemon is
 * ready. */
struct http_daemon *http_daemons_next(struct http_loop *loop);
/* Charge the daemon's crowd and line with a run of `ns` wall-clock time. */
void http_daemon_served(struct http_daemon *daemon, uint64_t ns);

/* accepting.c: accept on a copy of the socket. */
MUST_CHECK enum status accepting_start(struct http_loop *loop,
                                       const struct listen_socket *socket, struct error *err);
/* Open the connections of the newcomers in loop->handed. */
void accepting_open_handed(struct http_loop *loop);
/* Hand waiting newcomers to loops while places are free, and resume accepting after a pause.
 * Call this after each end of a connection and at each heartbeat. */
void accepting_resume(struct http_loop *loop);
/* In a drain: stop accepting without losing a connection. Call this at each heartbeat until
 * loop->accepting is false. */
void accepting_end(struct http_loop *loop, uint64_t now_ns);
/* Close the loop's listening sockets and all newcomers. */
void accepting_stop(struct http_loop *loop);

/* deadlines.c: exclude the stopped_ns nanoseconds before now_ns, in which the process was
 * stopped, from the time limits of all clients. */
void deadline_excuse(struct http_loop *loop, uint64_t stopped_ns, uint64_t now_ns);
/* Check all connections of the loop against their time limits.
 * now_ns   time of the heartbeat */
void deadline_sweep(struct http_loop *loop, uint64_t now_ns);
/* Cut the connections of this loop that were evicted. */
void deadline_cut_evicted(struct http_loop *loop);
#endif
