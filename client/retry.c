/* What a failed attempt means, and whether and when to make another.
 *
 * A cumulative sum is a pure function, so sending it twice is harmless to the server; what must
 * not happen is to send an input that the answer has begun to overwrite. */
#include "client/client_error.h"
#include "client/exchange_internal.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <time.h>

static const char *curl_words(const struct exchange *exchange, CURLcode code)
{
    return exchange->curl_message[0] != '\0' ? exchange->curl_message
                                             : curl_easy_strerror(code);
}

static void connect_error(struct exchange *exchange, CURLcode code)
{
    const struct tally *client = exchange->client;
    bool refused = code == CURLE_COULDNT_CONNECT;
    (void)client_error_set(
        &exchange->error, TALLY_CONNECT, "cannot reach %s: %s%s",
        client->socket_path != NULL ? client->socket_path : client->base_url,
        curl_words(exchange, code),
        refused ? ". Is tallyd running there? Give its address as the URL or in TALLY_URL"
                : "");
}

static void timeout_error(struct exchange *exchange)
{
    const struct tally_options *options = &exchange->client->options;
    curl_off_t ready_us = 0;
    (void)curl_easy_getinfo(exchange->easy, CURLINFO_PRETRANSFER_TIME_T, &ready_us);
    bool all_used = exchange->give_up_ms != 0 && monotonic_ms() >= exchange->give_up_ms;
    if (ready_us == 0 && !all_used) {
        (void)client_error_set(&exchange->error, TALLY_CONNECT,
                               "no connection to %s within %" PRId64 " ms",
                               exchange->client->base_url, options->connect_timeout_ms);
    } else {
        (void)client_error_set(&exchange->error, TALLY_TIMEOUT,
                               "not done after %" PRId64 " ms (%" PRIu64
                               " bytes of the answer had come): raise timeout_ms, or send less",
                               options->timeout_ms, exchange->received);
    }
}

void transport_error(struct exchange *exchange, CURLcode code)
{
    switch ((int)code) {
    case CURLE_OPERATION_TIMEDOUT:
        timeout_error(exchange);
        return;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
        connect_error(exchange, code);
        return;
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
        (void)client_error_set(
            &exchange->error, TALLY_CONNECTION_LOST, "the connection broke %s: %s",
            exchange->received > 0 ? "in the middle of the answer" : "before the answer",
            curl_words(exchange, code));
        return;
    case CURLE_OUT_OF_MEMORY:
        (void)client_error_set(&exchange->error, TALLY_OUT_OF_MEMORY, "out of memory");
        return;
    default:
        (void)client_error_set(&exchange->error, TALLY_BAD_ANSWER,
                               "no usable answer: %s (is this the URL of a Tally server?)",
                               curl_words(exchange, code));
        return;
    }
}

/* A number in [0, limit], different in every thread and process: full jitter. */
static int64_t jitter(int64_t limit)
{
    static atomic_uint_least64_t counter;
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    uint64_t mix = atomic_fetch_add(&counter, 0x9E3779B97F4A7C15U) ^ (uint64_t)now.tv_nsec ^
                   (uint64_t)(uintptr_t)&now;
    mix = (mix ^ (mix >> 30)) * 0xBF58476D1CE4E5B9U;
    mix = (mix ^ (mix >> 27)) * 0x94D049BB133111EBU;
    mix ^= mix >> 31;
    return limit <= 0 ? 0 : (int64_t)(mix % ((uint64_t)limit + 1));
}

static int64_t backoff_ms(const struct exchange *exchange)
{
    const struct tally_options *options = &exchange->client->options;
    int64_t limit = options->backoff_base_ms;
    for (int i = 1; i < exchange->attempts && limit < options->backoff_max_ms; i++) {
        limit *= 2;
    }
    return jitter(limit < options->backoff_max_ms ? limit : options->backoff_max_ms);
}

static bool worth_a_retry(const struct exchange *exchange)
{
    switch ((int)exchange->error.status) {
    case TALLY_BUSY:
    case TALLY_CONNECTION_LOST:
        return true;
    case TALLY_CONNECT:
        return exchange->client->options.retry_connect != 0;
    default:
        return false;
    }
}

/* Note in the error that bytes of a failed answer are in the output. */
static void tell_touched(struct exchange *exchange)
{
    if (!exchange->touched) {
        return;
    }
    exchange->error.output_touched = 1;
    if (exchange->spec.once) {
        client_error_append(&exchange->error,
                            "; not retried, because the answer had begun to overwrite its "
                            "destination: provide the input again and repeat the call");
    }
}

/* A kept connection that the server has closed meanwhile, as it may: not a failed attempt. Each
 * time another connection of the pool may be stale, too, so there is a bound. */
static bool was_stale(struct exchange *exchange)
{
    enum {
        STALE_MAX = 8
    };
    bool stale = exchange->error.status == TALLY_CONNECTION_LOST && exchange->reused &&
                 exchange->answer.header_bytes == 0 && exchange->stale < STALE_MAX;
    if (stale) {
        exchange->stale++;
        exchange->attempts--;
        exchange->retry_at_ms = 0;
    }
    return stale;
}

enum exchange_verdict retry_decide(struct exchange *exchange, int64_t retry_after_ms)
{
    const struct tally_options *options = &exchange->client->options;
    bool possible = worth_a_retry(exchange);
    if (was_stale(exchange)) {
        return EXCHANGE_RETRY;
    }
    if (exchange->spec.single || (exchange->spec.once && exchange->touched)) {
        possible = false;
    }
    if (possible && exchange->attempts <= options->retries) {
        int64_t now = monotonic_ms();
        exchange->retry_at_ms = now + retry_after_ms + backoff_ms(exchange);
        bool in_time =
            exchange->give_up_ms == 0 || exchange->retry_at_ms < exchange->give_up_ms;
        bool soon =
            options->retry_after_max_ms == 0 || retry_after_ms <= options->retry_after_max_ms;
        if (in_time && soon) {
            return EXCHANGE_RETRY;
        }
    }
    if (retry_after_ms > 0 && exchange->error.status == TALLY_BUSY) {
        client_error_append(&exchange->error, "; the server asks to wait %" PRId64 " s",
                            retry_after_ms / 1000);
    }
    if (exchange->attempts > 1) {
        client_error_append(&exchange->error, " (after %d attempts)", exchange->attempts);
    }
    tell_touched(exchange);
    return EXCHANGE_DONE;
}
