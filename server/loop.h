/* The state of one HTTP thread; private to http*.c, conn.c, exchange*.c,
 * deadline.c, respond.c. */
#ifndef TALLY_SERVER_LOOP_H
#define TALLY_SERVER_LOOP_H

#include "server/busy_poll.h"
#include "server/completion.h"
#include "server/exchange.h"
#include "server/listen.h"
#include "server/server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

struct MHD_Daemon;

/* One listening socket on one loop: an MHD daemon. */
struct listener {
    struct http_loop *loop;
    struct MHD_Daemon *daemon;
    uv_poll_t poll; /* on the daemon's epoll descriptor */
    bool need_run;
    bool progress;       /* since the run began: somebody was called with something new */
    unsigned quiet_runs; /* in a row, without */
    size_t polled;       /* exchanges whose answer MHD asks for: POLLED, or not held yet */
    size_t answering;    /* and in EXCHANGE_ANSWERED */
    int fd;              /* MHD's, until quiesced */
    bool quiesced;       /* accepts nobody any more */
    bool inherited;      /* systemd keeps the socket open: its backlog is not ours to empty */
    bool local;          /* its clients are on this machine */
};

struct http_loop {
    unsigned magic;
    struct server *server;
    const atomic_bool *draining_order; /* shared, set by http.c */
    const atomic_bool *stopping_order;
    pthread_t thread;
    bool started;
    bool joined;
    uv_loop_t uv;
    uv_poll_t done; /* on completion.fd */
    uv_timer_t heartbeat;
    uv_check_t check;
    uv_idle_t idle;
    struct completion completion;
    struct busy_poll busy_poll; /* for what comes back through it */
    size_t listener_count;
    struct listener listeners[LISTEN_SOCKETS];
    struct conn *conns;
    atomic_size_t conn_count;
    atomic_size_t conn_total; /* since the start */
    atomic_bool accepting;    /* some listener is not quiesced */
    size_t away;              /* exchanges with someone else */
    size_t slices_out;        /* slices with someone else */
    struct exchange *free_exchanges;
    size_t free_count;
    uint64_t draining_ns; /* since when this loop accepts only what has begun; 0: it does not */
    uint64_t swept_ns;    /* the last heartbeat's deadline_sweep() */
    uint64_t relieved_ns; /* refusals of memory before this have had their relief */
    bool stopping;
    uint32_t id_prefix; /* of the request ids made here */
    uint32_t id_next;
};

enum {
    LOOP_MAGIC = 0x7a11100,
    HEARTBEAT_MS = 250
};

/* Start a loop whose server and orders are set, on copies of the sockets, each for at
 * most `limit` connections. Whatever the result, loop_stop() is due. Thread: main. */
MUST_CHECK enum status loop_start(struct http_loop *loop, const struct listen_set *sockets,
                                  unsigned limit, struct error *err);
/* The stopping order was given: join the thread, if that was not done. Thread: main. */
void loop_join(struct http_loop *loop);
/* The thread was joined: end what is left, free everything that is not in use. Thread: main. */
void loop_stop(struct http_loop *loop);

/* Run the daemons before the loop sleeps. */
void loop_wake(struct http_loop *loop);

/* The request of an exchange that was away is through: its answer can be sent. */
void loop_resume(struct exchange *x);

/* accepting.c: a drain has begun; stop accepting, without a connection lost. Call it until
 * loop->accepting is false. */
void accepting_end(struct http_loop *loop, uint64_t now_ns);

/* deadline.c: cut slow clients, notice dead ones, close idle ones while draining. */
void deadline_sweep(struct http_loop *loop);
/* End the connection: MHD closes it by its own ways. */
void deadline_cut(struct conn *conn);
/* After a piece of a body: true if the client has closed its side before the end. It is
 * answered as far as it still reads; close the connection. libmicrohttpd 0.9.75 does not notice
 * an end that comes together with data, and a sweep would be late: what the body reserved waits
 * with it. */
bool deadline_left_inside_body(struct exchange *x);

#endif
