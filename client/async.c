/* The submitting side of a client: one thread that drives any number of submitted calls over a
 * few connections with curl_multi.
 *
 *   tally_submit -> [ waiting ] -> connection free -> [ active ] -> done -> callback
 *                        ^                                |
 *                        +------ until retry_at_ms -------+ 503, connection lost
 *
 * Failure: what cannot be queued is refused by tally_submit() and its callback never runs. Once
 * queued, a call ends in its callback, whatever happens: the answer, an error, lack of memory,
 * or TALLY_CANCELLED when the client is closed.
 *
 * Thread: the connections and the multi handle belong to the client's own thread,
 * which runs the callbacks; `lock` guards what submitters share with it.
 *
 * The file has the thread first, then the callers' side: tally_submit(), tally_wait(), closing.
 * The thread sleeps until a socket moves, a back-off is over, or curl_multi_wakeup() says that
 * something was submitted or the client is being closed. */
#include "client/cumsum_call.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum {
    LONGEST_SLEEP_MS = 1000
};

/* A connection, and the call it is busy with. */
struct async_connection {
    CURL *easy;                 /* owned; NULL until first used */
    struct cumsum_call *cumsum; /* owned; NULL: it is free */
};

struct async {
    struct tally *client; /* borrowed */
    pthread_t thread;
    CURLM *multi;                         /* owned; curl_multi_wakeup() is for any thread */
    struct async_connection *connections; /* thread's own; owned, [async_connections] */
    pthread_mutex_t lock;
    pthread_cond_t all_done;
    struct cumsum_call *waiting;      /* for a connection, or to be tried again; shared: lock */
    struct cumsum_call **waiting_end; /* where the next one goes; shared: lock */
    int pending;                      /* submitted and callback not returned; shared: lock */
    bool stopping;                    /* shared: lock */
};

/* Thread: with the lock. */
static void push_waiting(struct async *async, struct cumsum_call *cumsum)
{
    cumsum->next = NULL;
    *async->waiting_end = cumsum;
    async->waiting_end = &cumsum->next;
}

static void submitted_free(struct cumsum_call *cumsum)
{
    if (cumsum != NULL) {
        call_destroy(cumsum->call);
    }
    free(cumsum);
}

/* ---- on the client's own thread ---- */

static void finish_call(struct async *async, struct cumsum_call *cumsum)
{
    if (cumsum->done.call != NULL) {
        cumsum->done.call(cumsum->done.user, &cumsum->call->error);
    }
    submitted_free(cumsum);
    MUST(pthread_mutex_lock(&async->lock));
    async->pending--;
    if (async->pending == 0) {
        MUST(pthread_cond_broadcast(&async->all_done));
    }
    MUST(pthread_mutex_unlock(&async->lock));
}

static void cancel_call(struct async *async, struct cumsum_call *cumsum)
{
    (void)client_error_set(&cumsum->call->error, TALLY_CANCELLED,
                           "cancelled: the client was closed");
    finish_call(async, cumsum);
}

/* A connection without a call; NULL if all are busy. */
static struct async_connection *free_connection(struct async *async)
{
    for (int i = 0; i < async->client->options.async_connections; i++) {
        if (async->connections[i].cumsum == NULL) {
            return &async->connections[i];
        }
    }
    return NULL;
}

static void start_call(struct async *async, struct async_connection *connection,
                       struct cumsum_call *cumsum)
{
    if (connection->easy == NULL) {
        connection->easy = connection_acquire(async->client);
    }
    if (connection->easy == NULL) {
        (void)client_error_no_memory(&cumsum->call->error);
        finish_call(async, cumsum);
        return;
    }
    if (call_prepare(cumsum->call, connection->easy) != TALLY_OK) {
        finish_call(async, cumsum);
        return;
    }
    (void)curl_easy_setopt(connection->easy, CURLOPT_PRIVATE, connection);
    if (curl_multi_add_handle(async->multi, connection->easy) != CURLM_OK) {
        (void)call_settle(cumsum->call, CURLE_OUT_OF_MEMORY);
        finish_call(async, cumsum);
        return;
    }
    connection->cumsum = cumsum;
}

/* libcurl is through with a connection's call: it is done, or backs off. */
static void settle_call(struct async *async, CURL *easy, CURLcode code)
{
    struct async_connection *connection = NULL;
    (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&connection);
    struct cumsum_call *cumsum = connection->cumsum;
    enum call_verdict verdict = call_settle(cumsum->call, code);
    (void)curl_multi_remove_handle(async->multi, easy);
    connection->cumsum = NULL;
    if (verdict == CALL_DONE) {
        finish_call(async, cumsum);
        return;
    }
    MUST(pthread_mutex_lock(&async->lock));
    push_waiting(async, cumsum);
    MUST(pthread_mutex_unlock(&async->lock));
}

/* Take the first call off the waiting ones whose time has come, or, when the client is being
 * closed, the first. NULL: there is none, and *sleep_ms is cut to when there may be one. */
static struct cumsum_call *take_waiting(struct async *async, bool closing, int *sleep_ms)
{
    int64_t now = monotonic_ms();
    MUST(pthread_mutex_lock(&async->lock));
    struct cumsum_call **at = &async->waiting;
    while (*at != NULL && !closing && (*at)->call->retry_at_ms > now) {
        int64_t left = (*at)->call->retry_at_ms - now;
        *sleep_ms = left < *sleep_ms ? (int)left : *sleep_ms;
        at = &(*at)->next;
    }
    struct cumsum_call *taken = *at;
    if (taken != NULL) {
        *at = taken->next;
    }
    if (*at == NULL) {
        async->waiting_end = at;
    }
    MUST(pthread_mutex_unlock(&async->lock));
    return taken;
}

static bool is_stopping(struct async *async)
{
    MUST(pthread_mutex_lock(&async->lock));
    bool stopping = async->stopping;
    MUST(pthread_mutex_unlock(&async->lock));
    return stopping;
}

static void *async_main(void *user)
{
    struct async *async = user;
    struct async_connection *connection = NULL;
    struct cumsum_call *cumsum = NULL;
    int sleep_ms = LONGEST_SLEEP_MS;
    while (!is_stopping(async)) {
        int running = 0;
        int left = 0;
        const CURLMsg *message = NULL;
        (void)curl_multi_poll(async->multi, NULL, 0, sleep_ms, NULL);
        (void)curl_multi_perform(async->multi, &running);
        while ((message = curl_multi_info_read(async->multi, &left)) != NULL) {
            if (message->msg == CURLMSG_DONE) {
                settle_call(async, message->easy_handle, message->data.result);
            }
        }
        bool started = false;
        sleep_ms = LONGEST_SLEEP_MS;
        while ((connection = free_connection(async)) != NULL &&
               (cumsum = take_waiting(async, false, &sleep_ms)) != NULL) {
            start_call(async, connection, cumsum);
            started = true;
        }
        if (started) {
            sleep_ms = 0; /* they begin with the next curl_multi_perform() */
        }
    }
    /* A busy connection is in an unknown state: it is not used again. */
    for (int i = 0; i < async->client->options.async_connections; i++) {
        connection = &async->connections[i];
        if (connection->cumsum != NULL) {
            (void)curl_multi_remove_handle(async->multi, connection->easy);
            cancel_call(async, connection->cumsum);
        }
    }
    while ((cumsum = take_waiting(async, true, &sleep_ms)) != NULL) {
        cancel_call(async, cumsum);
    }
    return NULL;
}

/* ---- on the caller's threads ---- */

static void async_free(struct async *async)
{
    for (int i = 0; async->connections != NULL && i < async->client->options.async_connections;
         i++) {
        curl_easy_cleanup(async->connections[i].easy);
    }
    (void)curl_multi_cleanup(async->multi);
    free(async->connections);
    MUST(pthread_mutex_destroy(&async->lock));
    MUST(pthread_cond_destroy(&async->all_done));
    free(async);
}

static struct async *async_open(struct tally *client)
{
    size_t connections = (size_t)client->options.async_connections;
    struct async *async = calloc(1, sizeof *async);
    if (async == NULL) {
        return NULL;
    }
    async->client = client;
    async->waiting_end = &async->waiting;
    MUST(pthread_mutex_init(&async->lock, NULL));
    MUST(pthread_cond_init(&async->all_done, NULL));
    async->multi = curl_multi_init();
    async->connections = calloc(connections, sizeof *async->connections);
    if (async->multi != NULL && async->connections != NULL) {
        (void)curl_multi_setopt(async->multi, CURLMOPT_MAXCONNECTS, (long)connections);
        if (pthread_create(&async->thread, NULL, async_main, async) == 0) {
            return async;
        }
    }
    async_free(async);
    return NULL;
}

void async_close(struct async *async)
{
    if (async == NULL) {
        return;
    }
    MUST(pthread_mutex_lock(&async->lock));
    async->stopping = true;
    MUST(pthread_mutex_unlock(&async->lock));
    (void)curl_multi_wakeup(async->multi);
    MUST(pthread_join(async->thread, NULL));
    async_free(async);
}

static enum tally_status enqueue_call(struct async *async, struct cumsum_call *cumsum,
                                      struct tally_error *err)
{
    enum tally_status status = TALLY_OK;
    int limit = async->client->options.async_queue;
    MUST(pthread_mutex_lock(&async->lock));
    if (async->stopping) {
        status = client_error_set(err, TALLY_CANCELLED, "the client is being closed");
    } else if (async->pending >= limit) {
        status = client_error_set(err, TALLY_BUSY,
                                  "%d calls are submitted and not done (options.async_queue): "
                                  "wait for some of them",
                                  limit);
    } else {
        async->pending++;
        push_waiting(async, cumsum);
    }
    MUST(pthread_mutex_unlock(&async->lock));
    if (status == TALLY_OK) {
        (void)curl_multi_wakeup(async->multi);
    }
    return status;
}

enum tally_status tally_submit(struct tally *client, const struct tally_scan *scan,
                               const void *input, void *output, struct tally_done done,
                               struct tally_error *err)
{
    CLIENT_TRY(client_require(client, err));
    MUST(pthread_mutex_lock(&client->async_lock));
    if (client->async == NULL) {
        client->async = async_open(client);
    }
    struct async *async = client->async;
    MUST(pthread_mutex_unlock(&client->async_lock));
    struct cumsum_call *cumsum = calloc(1, sizeof *cumsum);
    if (async == NULL || cumsum == NULL) {
        free(cumsum);
        return client_error_set(err, TALLY_OUT_OF_MEMORY, "out of memory, or of threads");
    }
    enum tally_status status = cumsum_call_init(cumsum, scan, false, input, output, err);
    if (status == TALLY_OK) {
        cumsum->done = done;
        cumsum->call = call_create(client, &cumsum->spec, err);
        status = cumsum->call == NULL ? TALLY_OUT_OF_MEMORY : enqueue_call(async, cumsum, err);
    }
    if (status != TALLY_OK) {
        submitted_free(cumsum);
    }
    return status;
}

static struct timespec monotonic_after(int64_t ms)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(ms / 1000);
    at.tv_nsec += (long)(ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec++;
    }
    return at;
}

enum tally_status tally_wait(struct tally *client, int64_t timeout_ms)
{
    if (client == NULL) {
        return TALLY_INVALID_ARGUMENT;
    }
    MUST(pthread_mutex_lock(&client->async_lock));
    struct async *async = client->async;
    MUST(pthread_mutex_unlock(&client->async_lock));
    if (async == NULL) {
        return TALLY_OK;
    }
    if (pthread_equal(pthread_self(), async->thread)) {
        return TALLY_INVALID_ARGUMENT; /* a callback would wait for itself */
    }
    struct timespec until = monotonic_after(timeout_ms < 0 ? 0 : timeout_ms);
    int waited = 0;
    MUST(pthread_mutex_lock(&async->lock));
    while (async->pending > 0 && waited != ETIMEDOUT) {
        if (timeout_ms < 0) {
            MUST(pthread_cond_wait(&async->all_done, &async->lock));
            continue;
        }
        waited =
            pthread_cond_clockwait(&async->all_done, &async->lock, CLOCK_MONOTONIC, &until);
        MUST(waited == ETIMEDOUT ? 0 : waited);
    }
    enum tally_status status = async->pending == 0 ? TALLY_OK : TALLY_TIMEOUT;
    MUST(pthread_mutex_unlock(&async->lock));
    return status;
}
