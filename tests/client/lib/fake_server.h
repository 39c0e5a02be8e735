/* An HTTP server for tests that does exactly what its script says, however wrong: cuts answers
 * at any byte, lies about lengths, drips, hangs, answers early. One thread per connection, on
 * loopback. It counts what it saw, so that a test can tell a retry from a reused connection. */
#ifndef TESTS_CLIENT_FAKE_SERVER_H
#define TESTS_CLIENT_FAKE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What came in. */
struct fake_request {
    int number;          /* counted over all connections, from 0 */
    char head[16384];    /* request line and headers, NUL-terminated */
    unsigned char *body; /* what was read of it */
    size_t body_bytes;
};

/* What goes out: `text`, then `payload`. */
struct fake_answer {
    char text[80000];
    size_t text_bytes;   /* 0: strlen(text) */
    const void *payload; /* borrowed until fake_server_stop() */
    size_t payload_bytes;
    size_t cut;   /* send that many bytes, then close; SIZE_MAX: all */
    bool reset;   /* close with a reset */
    bool close;   /* close after the answer */
    bool hang;    /* afterwards keep the connection open and silent */
    int drip_us;  /* pause after every byte */
    int delay_ms; /* pause before the answer */
};

struct fake_server;

typedef void (*fake_script)(void *user, const struct fake_request *request,
                            struct fake_answer *answer);

/* early: how many bytes of a body to read before the script runs; SIZE_MAX: all of it.
 * socket_path NULL: TCP. */
struct fake_server *fake_server_start(fake_script script, void *user, size_t early,
                                      const char *socket_path);
void fake_server_stop(struct fake_server *server);
/* The same of the requests that come from now on. */
void fake_server_read(struct fake_server *server, size_t early);

/* "http://127.0.0.1:PORT" or "unix:PATH" */
const char *fake_server_url(const struct fake_server *server);
int fake_server_requests(struct fake_server *server);
int fake_server_connections(struct fake_server *server);

/* A right answer of POST /v1/cumsum. */
void fake_answer_tensor(struct fake_answer *answer, const char *dtype, const char *shape,
                        const void *payload, size_t bytes);
/* An error answer; more: further header lines, each with "\r\n". */
void fake_answer_error(struct fake_answer *answer, int status, const char *more,
                       const char *body);

/* Inclusive sums of the int32 numbers in a request's body, in memory kept until the stop. */
const void *fake_sums(struct fake_server *server, const struct fake_request *request);

#endif
