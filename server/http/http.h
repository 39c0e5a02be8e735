/* The HTTP side of the service: one or more threads, each with a libuv loop. A loop runs the
 * libmicrohttpd daemon of a connection when the connection has something to do, and continues
 * the requests that other threads have finished. All calls of libmicrohttpd about a connection
 * are made on the thread of its loop.
 *
 *     socket --> daemon --> exchange.c --> job.c --> queue --> worker
 *                  ^                                             |
 *                  +-------- ready list <---- completion <-------+ */
#ifndef TALLY_SERVER_HTTP_H
#define TALLY_SERVER_HTTP_H

#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http; /* opaque */
struct server;

/* Raise the process's limit of file descriptors as far as allowed. Returns the number of
 * connections that have descriptors under this limit, at most --max-connections; logs a warning
 * if it is less. The caller uses the result as the limit of connections: at this limit idle
 * connections are evicted, while a lack of descriptors would make new connections wait. Thread:
 * main. */
uint64_t http_connections_that_fit(const struct server *server);

/* Bind every --listen address (or use systemd's sockets instead) and start the loops. Requires
 * that signals are blocked, because the threads inherit the mask. Thread: main. */
MUST_CHECK enum status http_start(struct server *server, struct http **out, struct error *err);

/* Reload certificates, keys and tokens whose files have changed. Thread: main, every tick. */
void http_tick(struct http *http, uint64_t now_ns);

/* Begin to drain: prevent new handshakes, answer the requests of all connections that exist,
 * and close idle connections. Thread: main; repeated calls are fine. */
void http_drain(struct http *http);

/* True if, after http_drain(), no connection is open and no other connection can begin. Thread:
 * any. */
bool http_drained(struct http *http);

/* Returns the number of connections that are open or wait to be opened. Thread: any. */
size_t http_connections(struct http *http);

/* End the threads of the loops. Afterwards server/http uses neither the queue nor the workers
 * nor the work pool, so the caller can stop them. NULL is fine. Thread: main. */
void http_halt(struct http *http);

/* Call http_halt() if that was not done, close all connections and free all memory. Requires
 * that the workers and the work pool have stopped and have returned all requests that are not
 * on a hung device. NULL is fine. Thread: main. */
void http_stop(struct http *http);

#endif
