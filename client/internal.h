/* The client object. Its functions are in tally.h; connections are in connection.h. Symbols that
 * client/tally.map does not list are not exported. */
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
    char *base_url;    /* owned: scheme, host, port and path prefix, no slash at the end */
    char *socket_path; /* owned: Unix socket, NULL for TCP */
    pthread_mutex_t
        lock;    /* guards the fields below, which calls share; held for moments only */
    CURL **idle; /* owned, [options.idle_connections] */
    int idle_count;
    int64_t budget;            /* retries that may be made, in thousandths */
    int64_t budget_counted_ms; /* time up to which the budget has been earned */
    struct async *async;       /* owned, NULL until the first submit */
};

#endif
