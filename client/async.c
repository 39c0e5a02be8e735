#include "client/async.h"

#include "client/client_error.h"
#include "client/scan_call.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* A list of calls, first in, first out. */
struct call_list {
    struct scan_call *first;
    struct scan_call *last;
};

struct async {
    struct tally *client; /* borrowed */
    pthread_t thread;
    CURLM *multi; /* owned; curl_multi_wakeup() is for any thread */
    pthread_mutex_t lock;
    pthread_cond_t all_done;
    struct call_list submitted; /* shared: lock */
    int pending;                /* submitted and callback not returned; shared: lock */
    bool stopping;              /* shared: lock */
    struct call_list waiting;   /* thread's own: for a connection */
    struct call_list backing_off;
    int active;         /* thread's own: calls on a connection */
    CURL **connections; /* owned, [options.async_connections]; NULL while in use or unmade */
    CURL **in_use;      /* owned, [options.async_connections]; those of active calls */
};

static void list_push(struct call_list *list, struct scan_call *call)
{
    call->next = NULL;
    if (list->first == NULL) {
        list->first = call;
    } else {
        list->last->next = call;
    }
    list->last = call;
}

static struct scan_call *list_pop(struct call_list *list)
{
    struct scan_call *call = list->first;
    if (call != NULL) {
        list->first = call->next;
    }
    return call;
}

/* ---- on the client's own thread ---- */

static void call_free(struct scan_call *call)
{
    if (call != NULL) {
        exchange_destroy(call->exchange);
    }
    free(call);
}

static void finish_call(struct async *async, struct scan_call *call)
{
    if (call->done.call != NULL) {
        call->done.call(call->done.user, exchange_error(call->exchange));
    }
    call_free(call);
    (void)pthread_mutex_lock(&async->lock);
    async->pending--;
    if (async->pending == 0) {
        (void)pthread_cond_broadcast(&async->all_done);
    }
    (void)pthread_mutex_unlock(&async->lock);
}

/* Put `to` where `from` is in a table of connections; false if it is not there. */
static bool table_replace(const struct async *async, CURL **table, const CURL *from, CURL *to)
{
    for (int i = 0; i < async->client->options.async_connections; i++) {
        if (table[i] == from) {
            table[i] = to;
            return true;
        }
    }
    return false;
}

static void put_connection(const struct async *async, CURL *easy)
{
    if (!table_replace(async, async->connections, NULL, easy)) {
        curl_easy_cleanup(easy);
    }
}

static CURL *take_connection(const struct async *async)
{
    for (int i = 0; i < async->client->options.async_connections; i++) {
        CURL *easy = async->connections[i];
        if (easy != NULL) {
            async->connections[i] = NULL;
            return easy;
        }
    }
    return connection_acquire(async->client);
}

static void start_call(struct async *async, struct scan_call *call)
{
    CURL *easy = take_connection(async);
    if (easy == NULL) {
        (void)client_error_set(exchange_error(call->exchange), TALLY_OUT_OF_MEMORY,
                               "out of memory");
        finish_call(async, call);
        return;
    }
    if (exchange_prepare(call->exchange, easy) != TALLY_OK) {
        put_connection(async, easy);
        finish_call(async, call);
        return;
    }
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    if (curl_multi_add_handle(async->multi, easy) == CURLM_OK) {
        (void)table_replace(async, async->in_use, NULL, easy);
        async->active++;
        return;
    }
    (void)exchange_settle(call->exchange, easy, CURLE_OUT_OF_MEMORY);
    put_connection(async, easy);
    finish_call(async, call);
}

static void settle_call(struct async *async, CURL *easy, CURLcode code)
{
    struct scan_call *call = NULL;
    (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&call);
    enum exchange_verdict verdict = exchange_settle(call->exchange, easy, code);
    (void)curl_multi_remove_handle(async->multi, easy);
    (void)table_replace(async, async->in_use, easy, NULL);
    async->active--;
    put_connection(async, easy);
    if (verdict == EXCHANGE_RETRY) {
        list_push(&async->backing_off, call);
    } else {
        finish_call(async, call);
    }
}

/* Move the calls whose back-off is over to the waiting ones; milliseconds until the next is. */
static int wake_backed_off(struct async *async)
{
    struct call_list still = {NULL, NULL};
    struct scan_call *call = NULL;
    int64_t now = monotonic_ms();
    int64_t soonest = 1000;
    while ((call = list_pop(&async->backing_off)) != NULL) {
        int64_t left = exchange_retry_at_ms(call->exchange) - now;
        list_push(left <= 0 ? &async->waiting : &still, call);
        if (left > 0 && left < soonest) {
            soonest = left;
        }
    }
    async->backing_off = still;
    return (int)soonest;
}

/* Take over what was submitted; true when the client is being closed. */
static bool collect(struct async *async)
{
    struct scan_call *call = NULL;
    (void)pthread_mutex_lock(&async->lock);
    while ((call = list_pop(&async->submitted)) != NULL) {
        list_push(&async->waiting, call);
    }
    bool stopping = async->stopping;
    (void)pthread_mutex_unlock(&async->lock);
    return stopping;
}

static void reap(struct async *async)
{
    int left = 0;
    const CURLMsg *message = NULL;
    while ((message = curl_multi_info_read(async->multi, &left)) != NULL) {
        if (message->msg == CURLMSG_DONE) {
            settle_call(async, message->easy_handle, message->data.result);
        }
    }
}

static void cancel_list(struct async *async, struct call_list *list)
{
    struct scan_call *call = NULL;
    while ((call = list_pop(list)) != NULL) {
        (void)client_error_set(exchange_error(call->exchange), TALLY_CANCELLED,
                               "cancelled: the client was closed");
        finish_call(async, call);
    }
}

/* Take the active calls off their connections, which are in an unknown state. */
static void abandon_active(struct async *async)
{
    for (int i = 0; i < async->client->options.async_connections; i++) {
        struct scan_call *call = NULL;
        CURL *easy = async->in_use[i];
        if (easy == NULL) {
            continue;
        }
        (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&call);
        (void)curl_multi_remove_handle(async->multi, easy);
        curl_easy_cleanup(easy);
        list_push(&async->waiting, call);
    }
}

static void *async_main(void *user)
{
    struct async *async = user;
    int running = 0;
    while (!collect(async)) {
        int sleep_ms = wake_backed_off(async);
        while (async->waiting.first != NULL &&
               async->active < async->client->options.async_connections) {
            start_call(async, list_pop(&async->waiting));
        }
        (void)curl_multi_perform(async->multi, &running);
        reap(async);
        bool more = async->waiting.first != NULL &&
                    async->active < async->client->options.async_connections;
        if (!more) {
            (void)curl_multi_poll(async->multi, NULL, 0, sleep_ms, NULL);
        }
    }
    abandon_active(async);
    cancel_list(async, &async->waiting);
    cancel_list(async, &async->backing_off);
    return NULL;
}

/* ---- on the caller's threads ---- */

static void async_free(struct async *async)
{
    for (int i = 0; async->connections != NULL && i < async->client->options.async_connections;
         i++) {
        curl_easy_cleanup(async->connections[i]);
    }
    (void)curl_multi_cleanup(async->multi);
    free((void *)async->connections);
    free((void *)async->in_use);
    (void)pthread_mutex_destroy(&async->lock);
    (void)pthread_cond_destroy(&async->all_done);
    free(async);
}

static struct async *async_open(struct tally *client)
{
    pthread_condattr_t attributes;
    size_t connections = (size_t)client->options.async_connections;
    struct async *async = calloc(1, sizeof *async);
    if (async == NULL) {
        return NULL;
    }
    async->client = client;
    (void)pthread_mutex_init(&async->lock, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&async->all_done, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    async->multi = curl_multi_init();
    async->connections = calloc(connections, sizeof(CURL *));
    async->in_use = calloc(connections, sizeof(CURL *));
    if (async->multi != NULL && async->connections != NULL && async->in_use != NULL) {
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
    (void)pthread_mutex_lock(&async->lock);
    async->stopping = true;
    (void)pthread_mutex_unlock(&async->lock);
    (void)curl_multi_wakeup(async->multi);
    (void)pthread_join(async->thread, NULL);
    async_free(async);
}

static struct async *async_of(struct tally *client)
{
    (void)pthread_mutex_lock(&client->async_lock);
    if (client->async == NULL) {
        client->async = async_open(client);
    }
    struct async *async = client->async;
    (void)pthread_mutex_unlock(&client->async_lock);
    return async;
}

static enum tally_status enqueue(struct async *async, struct scan_call *call,
                                 struct tally_error *err)
{
    enum tally_status status = TALLY_OK;
    int limit = async->client->options.async_queue;
    (void)pthread_mutex_lock(&async->lock);
    if (async->stopping) {
        status = client_error_set(err, TALLY_CANCELLED, "the client is being closed");
    } else if (async->pending >= limit) {
        status = client_error_set(err, TALLY_BUSY,
                                  "%d calls are submitted and not done (options.async_queue): "
                                  "wait for some of them",
                                  limit);
    } else {
        async->pending++;
        list_push(&async->submitted, call);
    }
    (void)pthread_mutex_unlock(&async->lock);
    if (status == TALLY_OK) {
        (void)curl_multi_wakeup(async->multi);
    }
    return status;
}

enum tally_status tally_submit(struct tally *client, const struct tally_scan *scan,
                               const void *input, void *output, struct tally_done done,
                               struct tally_error *err)
{
    client_error_reset(err);
    if (client == NULL) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT, "the client is NULL");
    }
    struct async *async = async_of(client);
    struct scan_call *call = calloc(1, sizeof *call);
    if (async == NULL || call == NULL) {
        free(call);
        return client_error_set(err, TALLY_OUT_OF_MEMORY, "out of memory, or of threads");
    }
    enum tally_status status = scan_call_init(call, scan, input, output, err);
    if (status == TALLY_OK) {
        call->done = done;
        call->exchange = exchange_create(client, &call->spec, err);
        status = call->exchange == NULL ? TALLY_OUT_OF_MEMORY : enqueue(async, call, err);
    }
    if (status != TALLY_OK) {
        call_free(call);
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
    (void)pthread_mutex_lock(&client->async_lock);
    struct async *async = client->async;
    (void)pthread_mutex_unlock(&client->async_lock);
    if (async == NULL) {
        return TALLY_OK;
    }
    if (pthread_equal(pthread_self(), async->thread)) {
        return TALLY_INVALID_ARGUMENT; /* a callback would wait for itself */
    }
    struct timespec until = monotonic_after(timeout_ms < 0 ? 0 : timeout_ms);
    int waited = 0;
    (void)pthread_mutex_lock(&async->lock);
    while (async->pending > 0 && waited != ETIMEDOUT) {
        if (timeout_ms < 0) {
            waited = pthread_cond_wait(&async->all_done, &async->lock);
        } else {
            waited = pthread_cond_timedwait(&async->all_done, &async->lock, &until);
        }
    }
    enum tally_status status = async->pending == 0 ? TALLY_OK : TALLY_TIMEOUT;
    (void)pthread_mutex_unlock(&async->lock);
    return status;
}
