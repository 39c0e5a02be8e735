/* The HTTP side of the service: one or more threads, each with a libuv loop. A loop runs a connection's
 * libmicrohttpd daemon when the connection has something to do, and takes back the requests that other
 * threads have finished. All calls of libmicrohttpd about a connection are made on the thread of its
 * loop.
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

/* Connections need descriptors, of which the process takes as many as it may have: how many of
 * --max-connections fit then. Beyond those a client would wait until a connection ends by itself:
 * connections are evicted at the limit of connections only. Thread: main. */
uint64_t http_connections_that_fit(const struct server *server);

/* Bind every --listen address (or take systemd's sockets instead) and start the loops.
 * Signals must be blocked by now: the threads inherit that. Thread: main. */
MUST_CHECK enum status http_start(struct server *server, struct http **out, struct error *err);

/* Take up certificates, keys and tokens that have changed. Thread: main, every tick. */
void http_tick(struct http *http, uint64_t now_ns);

/* Let no new connection begin, accept and answer those that have begun, close what is idle for
 * a while. Thread: main; more than once is fine. */
void http_drain(struct http *http);

/* After http_drain(): true once no connection is left, and none can come. Thread: any. */
bool http_drained(struct http *http);

/* Connections that are open, or about to be. Thread: any. */
size_t http_connections(struct http *http);

/* End the loops' threads: from here on HTTP hands nothing to queue, workers or codec pool and
 * asks nothing of them, so that they can be taken down. NULL is fine. Thread: main. */
void http_halt(struct http *http);

/* Close what is left and free. Halts if that was not done; the workers and the codec pool have
 * stopped by now, and everything they had was posted. NULL is fine. Thread: main. */
void http_stop(struct http *http);

#endif
