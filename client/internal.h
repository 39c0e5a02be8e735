/* The client object. tally.h declares its functions; connection.h those of its connections. The
 * shared library exports only the symbols that client/tally.map lists. */
#ifndef TALLY_CLIENT_INTERNAL_H
#define TALLY_CLIENT_INTERNAL_H

#include "client/tally.h"
#include "proto/macros.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdbool.h>

enum {
    OWNED_TEXTS = 5,    /* number of strings in struct tally_options */
    BUDGET_MOST = 10000 /* largest budget of retries, in thousandths of a retry */
};

struct async;

struct tally {
    struct tally_options options; /* defaults filled in; its strings are in owned_texts */
    char *owned_texts[OWNED_TEXTS];
    char *base_url;       /* owned: scheme, host, port and path prefix, no slash at the end */
    char *socket_path;    /* owned: Unix socket, NULL for TCP */
    pthread_mutex_t lock; /* guards the fields below; never held during a transfer */
    CURL **idle;          /* owned, [options.idle_connections]: connections not in use */
    int idle_count;
    int64_t budget;            /* budget of retries, in thousandths of a retry */
    int64_t budget_counted_ms; /* monotonic_ms() of the last addition to the budget */
    struct async *async;       /* owned, NULL until the first submit */
};

#endif
