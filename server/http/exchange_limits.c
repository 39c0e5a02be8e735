/* Accounting of an exchange against the limits of its client:
 *
 *   - its request, among those in flight (--per-client-requests);
 *   - the bytes of its body (--per-client-bytes-per-s);
 *   - its page, until the kernel has accepted all bytes of it. Pages are outside the memory
 *     budget, so that an operator gets /metrics when the budget is used up. Without a limit,
 *     clients that do not read their pages would make the service hold any number of pages.
 *
 * Possible failures: THROTTLED, and OUT_OF_MEMORY for the pages of all clients together.
 * Thread: the loop. */
#include "proto/byte_size.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/http/loop.h"
#include "server/sched/client.h"

#include <inttypes.h>

enum {
    PAGES_BYTES = 16 << 20,      /* limit of the unread pages of all clients ... */
    CLIENT_PAGES_BYTES = 4 << 20 /* ... and of one client */
};

/* ---- requests ---- */

enum status exchange_count_request(struct exchange *exchange, struct error *err)
{
    uint64_t most = exchange->loop->server->config->per_client_requests;
    uint64_t wait_ns = 0;
    if (most > 0 && exchange->request.arrival.limited) {
        if (!client_begin_request(exchange->request.arrival.client, most, &wait_ns)) {
            exchange->request.reply.limit = METRICS_CLIENT_LIMIT_REQUESTS;
            request_retry_after(&exchange->request, wait_ns);
            return error_set(err, STATUS_THROTTLED,
                             "this client has %" PRIu64
                             " requests in flight, the server's --per-client-requests: wait "
                             "for an answer before the next request, and try again after "
                             "Retry-After seconds",
                             most);
        }
        exchange->client_counted = true;
    }
    return STATUS_OK;
}

void exchange_end_count(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    client_end_request(request->arrival.client,
                       clock_span_ns(request->times.arrived, clock_now_ns()));
    exchange->client_counted = false;
}

/* ---- bytes ---- */

/* Returns --per-client-bytes-per-s; 0: the request has no such limit. */
static uint64_t rate_of(const struct exchange *exchange)
{
    return exchange->request.arrival.limited
               ? exchange->loop->server->config->per_client_bytes_per_s
               : 0;
}

enum status exchange_admit_bytes(struct exchange *exchange, uint64_t whole, struct error *err)
{
    uint64_t rate = rate_of(exchange);
    uint64_t wait_ns = 0;
    if (rate == 0 || (whole <= exchange->counted_bytes && whole > 0)) {
        return STATUS_OK;
    }
    if (client_may_send(exchange->request.arrival.client, exchange->request.line.ticket,
                        whole - exchange->counted_bytes, rate, clock_now_ns(), &wait_ns)) {
        exchange->counted_bytes = whole;
        return STATUS_OK;
    }
    char limit[32];
    char ahead[32];
    byte_size_text(rate, limit, sizeof limit);
    byte_size_text((uint64_t)((double)wait_ns * (double)rate / NS_PER_S), ahead, sizeof ahead);
    exchange->request.reply.limit = METRICS_CLIENT_LIMIT_BYTES;
    request_retry_after(&exchange->request, wait_ns);
    return error_set(err, STATUS_THROTTLED,
                     "this client has sent %s more than %s a second allow, the server's "
                     "--per-client-bytes-per-s: try again after Retry-After seconds",
                     ahead, limit);
}

/* ---- pages ---- */

/* Add bytes to the sum unless it would exceed `most`; returns false if it would. */
static bool count_within(atomic_uint_fast64_t *sum, uint64_t bytes, uint64_t most)
{
    const uint64_t before = atomic_fetch_add_explicit(sum, bytes, memory_order_relaxed);
    const bool fits = before + bytes <= most;
    if (!fits) {
        (void)atomic_fetch_sub_explicit(sum, bytes, memory_order_relaxed);
    }
    return fits;
}

void exchange_count_page(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    struct client *client = request->arrival.limited ? request->arrival.client : NULL;
    const uint64_t bytes = exchange->page.bytes;
    char most[32];
    if (bytes == 0 || exchange->route->scopes == ROUTE_SCOPE_OPEN) {
        return; /* a health probe is answered even if the limits of pages are reached */
    }
    if (client != NULL && !count_within(&client->page_bytes, bytes, CLIENT_PAGES_BYTES)) {
        byte_size_text(CLIENT_PAGES_BYTES, most, sizeof most);
        request->reply.limit = METRICS_CLIENT_LIMIT_PAGES;
        (void)error_set(&request->error, STATUS_THROTTLED,
                        "this client has not read pages that it asked for, of nearly %s "
                        "together: read those answers, and try again after Retry-After seconds",
                        most);
    } else if (count_within(&exchange->loop->http->page_bytes, bytes, PAGES_BYTES)) {
        exchange->page_bytes = bytes;
    } else {
        if (client != NULL) {
            (void)atomic_fetch_sub_explicit(&client->page_bytes, bytes, memory_order_relaxed);
        }
        byte_size_text(PAGES_BYTES, most, sizeof most);
        (void)error_set(&request->error, STATUS_OUT_OF_MEMORY,
                        "clients have not read pages that they asked for, of nearly %s "
                        "together: try again after Retry-After seconds",
                        most);
    }
}

void exchange_uncount(struct exchange *exchange)
{
    const struct request *request = &exchange->request;
    exchange_uncount_request(exchange);
    if (exchange->page_bytes > 0) {
        (void)atomic_fetch_sub_explicit(&exchange->loop->http->page_bytes, exchange->page_bytes,
                                        memory_order_relaxed);
        if (request->arrival.limited) {
            (void)atomic_fetch_sub_explicit(&request->arrival.client->page_bytes,
                                            exchange->page_bytes, memory_order_relaxed);
        }
    }
    if (exchange->counted_bytes > request->body.received) {
        client_sends_less(request->arrival.client, exchange->counted_bytes,
                          request->body.received, rate_of(exchange));
    }
}
