/* One client's connection: what it is still to send, what it has asked, and the checking of
 * what comes back. An answer must be well-formed HTTP with a status of the documented set, an
 * error must be JSON with its members; on a connection on which nothing but whole requests were
 * sent it must also be the answer to the oldest one, with its id and, if it is 200, with its
 * sums. Thread: the one that runs the inputs. */
#ifndef TALLY_TESTS_FUZZ_WIRE_CLIENT_H
#define TALLY_TESTS_FUZZ_WIRE_CLIENT_H

#include "tests/fuzz/wire_request.h"

enum {
    WIRE_CLIENTS = 4,
    WIRE_PIPELINE = 24 /* requests on a connection */
};

struct wire_client {
    int fd; /* -1: closed */
    bool tcp;
    bool tainted;        /* something else than whole requests was sent */
    bool half_closed;    /* by this side */
    bool may_close;      /* the server, that is */
    bool deaf;           /* reads nothing until the end */
    size_t free_to_send; /* bytes of `out` that are to be sent now */
    struct wire_text out;
    struct wire_text in;
    unsigned asked;    /* requests[..asked) were appended to out */
    unsigned answered; /* of them */
    struct wire_request requests[WIRE_PIPELINE];
};

/* What holds for all of a script. */
struct wire_mood {
    bool calm;    /* nothing but requests happened: all must work */
    bool crowded; /* there are more clients than --per-client-requests */
};

void wire_client_open(struct wire_client *client, bool tcp);
/* Send and read what is possible without waiting. Returns whether anything happened. */
bool wire_client_pump(struct wire_client *client, struct wire_mood mood);
/* Nothing is sent any more, and everything that was asked is answered, or never will be. */
bool wire_client_through(const struct wire_client *client);
void wire_client_half_close(struct wire_client *client);
void wire_client_close(struct wire_client *client, bool reset);
void wire_client_free(struct wire_client *client);

#endif
