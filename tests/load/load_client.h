/* Shared by load_client.c (the times of requests, and the output) and load_conn.c (one request
 * on one connection). One thread, no locks. */
#ifndef TALLY_TESTS_LOAD_CLIENT_H
#define TALLY_TESTS_LOAD_CLIENT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define NEVER     UINT64_MAX

enum {
    MOST_KINDS = 8,
    HEAD_ROOM = 8192
};

struct kind {
    unsigned weight;
    bool expects, never_sends, reads_slowly;
    char *head; /* including a short body */
    size_t head_bytes;
    int body_fd;
    uint64_t body_bytes; /* size of the body file */
};

/* The result of a request; read by overload.py. */
struct record {
    uint64_t due_ns, start_ns, end_ns; /* end 0: not answered at the end of the run */
    uint64_t body_sent, answer_bytes;
    uint32_t server_us; /* "total" of Server-Timing */
    uint16_t status;    /* 0: the connection failed, or (start 0) no connection was free */
    uint16_t kind;
};

enum conn_state {
    CONN_CLOSED, /* no socket */
    CONN_IDLE,
    CONN_CONNECTING,
    CONN_SENDING,
    CONN_EXPECTING,
    CONN_WAITING, /* the request is sent, the answer's head is incomplete */
    CONN_READING,
    CONN_CHUNKS
};

struct conn {
    int fd;
    enum conn_state state;
    bool wants_out; /* registered for EPOLLOUT */
    bool close_after;
    bool in_flight;
    uint64_t wake_ns; /* NEVER: no timer */
    struct record r;
    uint64_t head_sent;
    char head[HEAD_ROOM]; /* head of the answer, then of a chunk */
    size_t head_bytes;
    uint64_t left; /* remaining bytes of the answer's body, or of its chunk */
    uint64_t retry_ns;
};

struct options {
    struct sockaddr_in to, from;
    unsigned connections;
    double rate, warm, seconds, cool;
    uint64_t random;
    pid_t server;
    bool impatient;
};

extern struct options options;
extern struct kind kinds[MOST_KINDS];

uint64_t now_ns(void);
_Noreturn void die(const char *what);

/* load_conn.c reports that a connection's request has begun, that it has ended (in success or
 * failure), and when the next one may begin. */
void load_began(const struct conn *c);
void load_over(struct conn *c, uint64_t again_ns);

extern int conn_poll_fd;

/* Send a request, on a new connection if this one is closed. */
void conn_begin(struct conn *c, uint16_t kind, uint64_t due_ns);
void conn_on_event(struct conn *c, uint32_t events);
/* Handle the wake_ns of a connection with a request. */
void conn_on_timer(struct conn *c, uint64_t now);

#endif
