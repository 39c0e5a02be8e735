/* What the files of libtally share: the client object, and how an error is filled.
 *
 * A client (struct tally) knows where the server is and holds idle connections. A connection is
 * one libcurl easy handle with its keep-alive socket; it belongs to whoever acquired it until
 * it is released. Every function that can fail returns an enum tally_status and fills the
 * caller's struct tally_error, which may be NULL everywhere.
 *
 * Nothing of this is exported: client/tally.map names what is. Thread: any. */
#ifndef TALLY_CLIENT_INTERNAL_H
#define TALLY_CLIENT_INTERNAL_H

#include "client/tally.h"
#include "proto/macros.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdbool.h>

enum {
    OWNED_TEXTS = 5,    /* the strings of struct tally_options */
    BUDGET_MOST = 10000 /* thousandths of a retry that may be saved up */
};

struct async;

struct tally {
    struct tally_options options; /* defaults filled in; its strings are in owned_texts */
    char *owned_texts[OWNED_TEXTS];
    char *base_url;       /* owned: scheme, host, port and path prefix, no slash at the end */
    char *socket_path;    /* owned: Unix socket, NULL for TCP */
    pthread_mutex_t lock; /* of what follows, which calls share; for moments only */
    CURL **idle;          /* owned, [options.idle_connections] */
    int idle_count;
    int64_t budget;            /* retries that may be made, in thousandths */
    int64_t budget_counted_ms; /* until when they were earned */
    struct async *async;       /* owned, NULL until the first submit */
};

/* Forget what a previous call left. */
void client_error_reset(struct tally_error *err);

/* Every call begins with it: forget what the one before left, and refuse a client
 * that is NULL. */
enum tally_status client_require(const struct tally *client, struct tally_error *err);

/* Record status and sentence, and return the status: `return client_error_set(...)`. */
enum tally_status client_error_set(struct tally_error *err, enum tally_status status,
                                   const char *format, ...) PRINTF_LIKE(3, 4);

/* TALLY_OUT_OF_MEMORY */
enum tally_status client_error_no_memory(struct tally_error *err);

/* Make a call that can fail; if it does, this function ends with its status. */
#define CLIENT_TRY(call)                        \
    do {                                        \
        enum tally_status call_status = (call); \
        if (call_status != TALLY_OK)            \
            return call_status;                 \
    } while (0)

/* Split a server URL into the client's base_url and socket_path. */
enum tally_status server_url_parse(struct tally *client, const char *url,
                                   struct tally_error *err);

/* Where the server is, for people: its URL without a user's name and password. */
void server_url_print(const struct tally *client, char *text, size_t size);

/* Cancel all that was submitted, run the callbacks, end the thread (async.c). NULL is fine. */
void async_close(struct async *async);

/* A handle with all set that does not change from request to request. NULL: no memory. */
CURL *connection_acquire(struct tally *client);
void connection_release(struct tally *client, CURL *easy);

#endif
