/* One client's connection: the bytes still to be sent, the requests in flight, and the checks
 * of their answers. An answer must be well-formed HTTP with a documented status; an error must
 * be JSON with the documented members. If only whole requests were sent on the connection, an
 * answer must also belong to the oldest request and have its id, and a 200 must have its sums.
 * Thread: the one that runs the inputs. */
#ifndef TALLY_TESTS_FUZZ_WIRE_CLIENT_H
#define TALLY_TESTS_FUZZ_WIRE_CLIENT_H

#include "tests/fuzz/wire_request.h"

enum {
    WIRE_CLIENTS = 4,
    WIRE_PIPELINE = 24 /* largest number of requests on a connection */
};

struct wire_client {
    int fd; /* -1: closed */
    bool tcp;
    bool tainted;        /* bytes other than whole requests were sent */
    bool half_closed;    /* the client has shut down its side for writing */
    bool may_close;      /* the server may close the connection */
    bool deaf;           /* the client reads nothing until the end */
    size_t free_to_send; /* bytes of `out` that may be sent now */
    struct wire_text out;
    struct wire_text in;
    unsigned asked;    /* requests[..asked) were appended to `out` */
    unsigned answered; /* number of answered requests */
    struct wire_request requests[WIRE_PIPELINE];
};

/* Conditions of a whole script. */
struct wire_mood {
    bool calm;    /* the script contains only requests: all must succeed */
    bool crowded; /* there are more clients than --per-client-requests */
};

void wire_client_open(struct wire_client *client, bool tcp);
/* Send and read as much as is possible without waiting. Returns whether anything was
 * transferred. */
bool wire_client_pump(struct wire_client *client, struct wire_mood mood);
/* Return whether everything is sent, and every request is answered or can no longer be
 * answered. */
bool wire_client_through(const struct wire_client *client);
void wire_client_half_close(struct wire_client *client);
void wire_client_close(struct wire_client *client, bool reset);
void wire_client_free(struct wire_client *client);

#endif
