/* The client object: validated options, where the server is, and the pool of idle connections.
 * A connection is one libcurl easy handle with its keep-alive socket; it belongs to whoever
 * acquired it until released. */
#ifndef TALLY_CLIENT_CLIENT_H
#define TALLY_CLIENT_CLIENT_H

#include "client/tally.h"
#include "proto/macros.h"

#include <curl/curl.h>
#include <pthread.h>

struct async;

struct tally {
    struct tally_options options; /* defaults filled in; its strings are owned copies */
    char *base_url;    /* owned: scheme, host, port and path prefix, no slash at the end */
    char *socket_path; /* owned: Unix socket, NULL for TCP */
    pthread_mutex_t idle_lock;
    CURL **idle;    /* owned, [options.idle_connections]; shared: idle_lock */
    int idle_count; /* shared: idle_lock */
    pthread_mutex_t async_lock;
    struct async *async; /* owned, NULL until the first submit; shared: async_lock */
};

/* Split a server URL into base_url and socket_path (both owned by the caller). Thread: any. */
enum tally_status server_url_parse(const char *url, char **base_url, char **socket_path,
                                   struct tally_error *err);

/* A handle with everything set that does not change from request to request. NULL: no memory.
 * Thread: any. */
CURL *connection_acquire(struct tally *client);
void connection_release(struct tally *client, CURL *easy);

#endif
