/* The submitting side of a client: one thread that drives any number of submitted calls over a
 * few connections with curl_multi.
 *
 *   tally_submit -> [ waiting ] -> connection free -> [ active ] -> done -> callback
 *                        ^                                |
 *                        +------ until retry_at_ms -------+ 503, connection lost
 *
 * Both are in one list, in the order in which they were submitted; a call that is active has
 * call->easy.
 *
 * Failure: what cannot be queued is refused by tally_submit() and its callback never runs. Once
 * queued, a call ends in its callback, whatever happens: the answer, an error, lack of memory,
 * or TALLY_CANCELLED when the client is closed.
 *
 * Thread: the connections and the multi handle belong to the client's own thread,
 * which runs the callbacks; `lock` guards what submitters share with it.
 *
 * The thread sleeps until a socket moves, a back-off is over, or curl_multi_wakeup() says that
 * something was submitted or the client is being closed. */
#include "client/async.h"
#include "client/cumsum_call.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum {
    LONGEST_SLEEP_MS = 1000
};

struct async {
    struct tally *client; /* borrowed */
    pthread_t thread;
    CURLM *multi; /* owned; curl_multi_wakeup() is for any thread */
    int active;   /* calls, each on a connection; thread's own */
    pthread_mutex_t lock;
    pthread_cond_t all_done;
    /* owned: submitted, and callback not returned; shared: lock */
    TAILQ_HEAD(call_list, cumsum_call) calls;
    int pending;           /* how many they are; shared: lock */
    _Atomic bool stopping; /* set with the lock */
};

static void submitted_free(struct cumsum_call *cumsum)
{
    call_destroy(cumsum->call);
    free(cumsum);
}

/* ---- on the client's own thread ---- */

static void finish_call(struct async *async, struct cumsum_call *cumsum)
{
    if (cumsum->done.call != NULL) {
        cumsum->done.call(cumsum->done.user, &cumsum->call->error);
    }
    MUST(pthread_mutex_lock(&async->lock));
    TAILQ_REMOVE(&async->calls, cumsum, link);
    async->pending--;
    if (async->pending == 0) {
        MUST(pthread_cond_broadcast(&async->all_done));
    }
    MUST(pthread_mutex_unlock(&async->lock));
    submitted_free(cumsum);
}

static void start_call(struct async *async, struct cumsum_call *cumsum)
{
    struct call *call = cumsum->call;
    CURL *easy = connection_acquire(async->client);
    if (easy == NULL) {
        (void)client_error_no_memory(&call->error);
        finish_call(async, cumsum);
        return;
    }
    if (call_prepare(call, easy) == TALLY_OK) {
        (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, cumsum);
        if (curl_multi_add_handle(async->multi, easy) == CURLM_OK) {
            async->active++;
            return;
        }
        (void)call_settle(call, CURLE_OUT_OF_MEMORY);
    }
    connection_release(async->client, easy);
    finish_call(async, cumsum);
}

/* libcurl is through with a call's attempt: the call is done, or backs off. */
static void settle_call(struct async *async, CURL *easy, CURLcode code)
{
    struct cumsum_call *cumsum = NULL;
    (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&cumsum);
    bool again = call_settle(cumsum->call, code);
    (void)curl_multi_remove_handle(async->multi, easy);
    connection_release(async->client, easy);
    async->active--;
    if (!again) {
        finish_call(async, cumsum);
    }
}

/* The first of the waiting calls whose time has come. NULL: there is none, and *sleep_ms is cut
 * to when there may be one. */
static struct cumsum_call *next_waiting(struct async *async, int *sleep_ms)
{
    int64_t now = monotonic_ms();
    MUST(pthread_mutex_lock(&async->lock));
    struct cumsum_call *cumsum = NULL;
    TAILQ_FOREACH(cumsum, &async->calls, link)
    {
        int64_t left = cumsum->call->retry_at_ms - now;
        bool waits = cumsum->call->easy == NULL;
        if (waits && left <= 0) {
            break;
        }
        *sleep_ms = waits && left < *sleep_ms ? (int)left : *sleep_ms;
    }
    MUST(pthread_mutex_unlock(&async->lock));
    return cumsum;
}

static void *async_main(void *user)
{
    struct async *async = user;
    struct cumsum_call *cumsum = NULL;
    int sleep_ms = LONGEST_SLEEP_MS;
    while (!async->stopping) {
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
        sleep_ms = LONGEST_SLEEP_MS; /* but for what begins: libcurl has it due at once */
        while (async->active < async->client->options.async_connections &&
               (cumsum = next_waiting(async, &sleep_ms)) != NULL) {
            start_call(async, cumsum);
        }
    }
    while ((cumsum = TAILQ_FIRST(&async->calls)) != NULL) { /* nothing is submitted any more */
        CURL *easy = cumsum->call->easy;
        if (easy != NULL) { /* in an unknown state: it is not used again */
            (void)curl_multi_remove_handle(async->multi, easy);
            curl_easy_cleanup(easy);
        }
        (void)client_error_set(&cumsum->call->error, TALLY_CANCELLED,
                               "cancelled: the client was closed");
        finish_call(async, cumsum);
    }
    return NULL;
}

/* ---- on the caller's threads ---- */

static void async_free(struct async *async)
{
    (void)curl_multi_cleanup(async->multi);
    MUST(pthread_mutex_destroy(&async->lock));
    MUST(pthread_cond_destroy(&async->all_done));
    free(async);
}

static struct async *async_open(struct tally *client)
{
    struct async *async = calloc(1, sizeof *async);
    if (async == NULL) {
        return NULL;
    }
    async->client = client;
    TAILQ_INIT(&async->calls);
    MUST(pthread_mutex_init(&async->lock, NULL));
    MUST(pthread_cond_init(&async->all_done, NULL));
    async->multi = curl_multi_init();
    if (async->multi != NULL) {
        (void)curl_multi_setopt(async->multi, CURLMOPT_MAXCONNECTS,
                                (long)client->options.async_connections);
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
        TAILQ_INSERT_TAIL(&async->calls, cumsum, link);
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
    MUST(pthread_mutex_lock(&client->lock));
    if (client->async == NULL) {
        client->async = async_open(client);
    }
    struct async *async = client->async;
    MUST(pthread_mutex_unlock(&client->lock));
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

enum tally_status tally_wait(struct tally *client, int64_t timeout_ms)
{
    if (client == NULL) {
        return TALLY_INVALID_ARGUMENT;
    }
    MUST(pthread_mutex_lock(&client->lock));
    struct async *async = client->async;
    MUST(pthread_mutex_unlock(&client->lock));
    if (async == NULL) {
        return TALLY_OK;
    }
    if (pthread_equal(pthread_self(), async->thread)) {
        return TALLY_INVALID_ARGUMENT; /* a callback would wait for itself */
    }
    int64_t until_ms = 0;
    if (timeout_ms < 0 || __builtin_add_overflow(monotonic_ms(), timeout_ms, &until_ms)) {
        until_ms = NEVER_MS;
    }
    struct timespec until = {.tv_sec = until_ms / 1000, .tv_nsec = until_ms % 1000 * 1000000};
    int waited = 0;
    MUST(pthread_mutex_lock(&async->lock));
    while (async->pending > 0 && waited != ETIMEDOUT) {
        waited =
            pthread_cond_clockwait(&async->all_done, &async->lock, CLOCK_MONOTONIC, &until);
        MUST(waited == ETIMEDOUT ? 0 : waited);
    }
    enum tally_status status = async->pending == 0 ? TALLY_OK : TALLY_TIMEOUT;
    MUST(pthread_mutex_unlock(&async->lock));
    return status;
}
