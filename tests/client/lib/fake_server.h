/* An HTTP server for tests that does exactly what its script says, even if that is wrong: it
 * cuts answers at any byte, sends wrong lengths, sends slowly, hangs, or answers early. It
 * listens on loopback, with one thread per connection. It counts requests and connections, so
 * that a test can distinguish a retry from a reused connection. */
#ifndef TESTS_CLIENT_FAKE_SERVER_H
#define TESTS_CLIENT_FAKE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A request as received. */
struct fake_request {
    int number;          /* counted over all connections, from 0 */
    char head[16384];    /* request line and headers, NUL-terminated */
    unsigned char *body; /* the part of the body that was read */
    size_t body_bytes;
};

/* The answer: `text`, then `payload`. */
struct fake_answer {
    char text[80000];
    size_t text_bytes;   /* 0: strlen(text) */
    const void *payload; /* borrowed until fake_server_stop() */
    size_t payload_bytes;
    size_t cut;   /* close after this many bytes; SIZE_MAX: send all */
    bool reset;   /* close with a reset */
    bool close;   /* close after the answer */
    bool hang;    /* keep the connection open and silent after the answer */
    int drip_us;  /* pause after every byte */
    int delay_ms; /* pause before the answer */
};

struct fake_server;

typedef void (*fake_script)(void *user, const struct fake_request *request,
                            struct fake_answer *answer);

/* early: number of body bytes that are read before the script runs; SIZE_MAX: all of them.
 * socket_path NULL: TCP. */
struct fake_server *fake_server_start(fake_script script, void *user, size_t early,
                                      const char *socket_path);
void fake_server_stop(struct fake_server *server);
/* Change `early` for all later requests. */
void fake_server_read(struct fake_server *server, size_t early);

/* "http://127.0.0.1:PORT" or "unix:PATH" */
const char *fake_server_url(const struct fake_server *server);
int fake_server_requests(struct fake_server *server);
int fake_server_connections(struct fake_server *server);

/* A correct answer to POST /v1/cumsum. */
void fake_answer_tensor(struct fake_answer *answer, const char *dtype, const char *shape,
                        const void *payload, size_t bytes);
/* An error answer. more: further header lines, each ending with "\r\n". */
void fake_answer_error(struct fake_answer *answer, int status, const char *more,
                       const char *body);

/* Return the inclusive sums of the int32 numbers in a request's body; valid until the server
 * stops. */
const void *fake_sums(struct fake_server *server, const struct fake_request *request);

#endif
