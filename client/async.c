/* Submitted calls. One thread of the client performs all of them over a few connections, with
 * curl_multi.
 *
 *   tally_submit -> [ waiting ] -> connection free -> [ active ] -> done -> callback
 *                        ^                                |
 *                        +------ until retry_at_ms -------+ 503, connection lost
 *
 * Waiting and active calls are in one list, in the order of submission. The field call->easy of
 * an active call is not NULL.
 *
 * Possible failures: tally_submit() refuses a call that cannot be queued; its callback is never
 * run. The callback of a queued call is run exactly once: with TALLY_OK, an error, or
 * TALLY_CANCELLED when the client is closed.
 *
 * Thread: the connections and the multi handle are owned by the client's thread, which runs the
 * callbacks; `lock` guards the fields that submitters share with this thread.
 *
 * The thread sleeps until a socket is ready, a back-off ends, or curl_multi_wakeup() reports a
 * submission or the end of the client. */
#include "client/async.h"
#include "client/cumsum_call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LONGEST_SLEEP_MS = 1000 /* timeout of curl_multi_poll() */
};

struct async {
    struct tally *client; /* borrowed */
    pthread_t thread;
    CURLM *multi;            /* owned; other threads may call curl_multi_wakeup() alone */
    int active;              /* number of active calls; used by the client's thread only */
    pthread_mutex_t lock;    /* guards calls, pending, and changes of stopping */
    pthread_cond_t all_done; /* signalled when pending becomes 0 */
    TAILQ_HEAD(call_list, cumsum_call) calls; /* owned: calls whose callback has not returned */
    int pending;                              /* number of these calls */
    _Atomic bool stopping;                    /* set under lock */
};

static void submitted_free(struct cumsum_call *cumsum)
{
    call_destroy(cumsum->call);
    free(cumsum->offsets);
    free(cumsum);
}

/* Copy the offsets of the caller's scan, since the scan need not live until the callback.
 * Returns false without memory. */
static bool copy_offsets(struct cumsum_call *cumsum)
{
    struct call_spec *spec = &cumsum->spec;
    if (spec->head != NULL) {
        cumsum->offsets = malloc(spec->head_bytes);
        if (cumsum->offsets == NULL) {
            return false;
        }
        memcpy(cumsum->offsets, spec->head, spec->head_bytes);
        spec->head = cumsum->offsets;
    }
    return true;
}

/* ---- on the client's thread ---- */

/* Run the callback of a call, and free the call. */
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

/* Begin an attempt of a waiting call. If that fails, the call is finished with the error. */
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
        (void)call_finish_attempt(call, CURLE_OUT_OF_MEMORY);
    }
    connection_release(async->client, easy);
    finish_call(async, cumsum);
}

/* Evaluate an attempt that libcurl has finished. The call is finished, or waits for the next
 * attempt. */
static void finish_attempt(struct async *async, CURL *easy, CURLcode code)
{
    struct cumsum_call *cumsum = NULL;
    (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&cumsum);
    bool again = call_finish_attempt(cumsum->call, code);
    (void)curl_multi_remove_handle(async->multi, easy);
    connection_release(async->client, easy);
    async->active--;
    if (!again) {
        finish_call(async, cumsum);
    }
}

/* Return the call submitted after `cumsum`, or the first call for NULL; NULL at the end of the
 * list. Only this thread removes calls. */
static struct cumsum_call *next_call(struct async *async, struct cumsum_call *cumsum)
{
    MUST(pthread_mutex_lock(&async->lock));
    struct cumsum_call *next =
        cumsum == NULL ? TAILQ_FIRST(&async->calls) : TAILQ_NEXT(cumsum, link);
    MUST(pthread_mutex_unlock(&async->lock));
    return next;
}

/* Return the first waiting call whose next attempt is due; NULL: none. Finishes waiting calls
 * whose progress callback cancels them. Reduces *sleep_ms to the time until an attempt becomes
 * due or a progress callback must be asked again. */
static struct cumsum_call *next_waiting(struct async *async, int *sleep_ms)
{
    const int64_t now = monotonic_ms();
    struct cumsum_call *next = NULL;
    for (struct cumsum_call *cumsum = next_call(async, NULL); cumsum != NULL; cumsum = next) {
        const int64_t left = cumsum->call->retry_at_ms - now;
        const int64_t look_ms = cumsum->spec.progress != NULL && left > NAP_MS ? NAP_MS : left;
        next = next_call(async, cumsum);
        if (cumsum->call->easy != NULL) {
            continue;
        }
        if (left <= 0) {
            return cumsum;
        }
        *sleep_ms = look_ms < *sleep_ms ? (int)look_ms : *sleep_ms;
        if (!call_ask_progress(cumsum->call)) {
            finish_call(async, cumsum);
        }
    }
    return NULL;
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
                finish_attempt(async, message->easy_handle, message->data.result);
            }
        }
        sleep_ms =
            LONGEST_SLEEP_MS; /* curl_multi_poll() returns earlier for active transfers */
        while (async->active < async->client->options.async_connections &&
               (cumsum = next_waiting(async, &sleep_ms)) != NULL) {
            start_call(async, cumsum);
        }
    }
    while ((cumsum = TAILQ_FIRST(&async->calls)) !=
           NULL) { /* no call is added after `stopping` */
        CURL *easy = cumsum->call->easy;
        if (easy != NULL) { /* close the connection, whose transfer is incomplete */
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
    if (status == TALLY_OK && !copy_offsets(cumsum)) {
        status = client_error_no_memory(err);
    }
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
