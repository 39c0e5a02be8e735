/* Whose request it is, and what the limits of one client and of the queue say of it; see
 * exchange.h. What is counted for a client goes back at the request's end; the request itself
 * before its client can have the whole answer, and ask again. Thread: the loop. */
#include "proto/byte_size.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/http/exchange.h"
#include "server/http/loop.h"
#include "server/http/tls.h"
#include "server/sched/client.h"
#include "server/sched/queue.h"

#include <inttypes.h>

/* Whom shares and limits count the request for: the name of its token, else the subject of its
 * certificate, else its address. What a trusted proxy passes on has no certificate but the proxy's.
 * Requests of a connection mostly have the same. */
static enum status identify_client(struct exchange *exchange, struct error *err)
{
    struct conn *conn = exchange->conn;
    struct clients *clients = exchange->loop->server->clients;
    char subject[TLS_SUBJECT_CHARS + 1];
    const char *name = exchange->token_name;
    enum client_kind kind = CLIENT_TOKEN;
    const bool forwarded = name[0] == '\0' && exchange->forwarded;
    if (name[0] == '\0' && !forwarded && conn->tls != NULL && tls_subject(conn, subject)) {
        name = subject;
        kind = CLIENT_CERTIFICATE;
    }
    if (name[0] == '\0' && !forwarded) {
        return STATUS_OK;
    }
    struct client *client = forwarded ? clients_get(clients, &exchange->address)
                                      : clients_named(clients, kind, name);
    if (client == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for another client");
    }
    client_release(conn->identity); /* the request before is over */
    conn->identity = client;
    exchange->request.client = client;
    return STATUS_OK;
}

/* --per-client-bytes-per-s, 0: not for this request. */
static uint64_t rate_of(const struct exchange *exchange)
{
    return exchange->request.limited ? exchange->loop->server->config->per_client_bytes_per_s
                                     : 0;
}

enum status exchange_admit_bytes(struct exchange *exchange, uint64_t whole, struct error *err)
{
    uint64_t rate = rate_of(exchange);
    uint64_t wait_ns = 0;
    if (rate == 0 || (whole <= exchange->counted_bytes && whole > 0)) {
        return STATUS_OK;
    }
    if (client_may_send(exchange->request.client, exchange->request.ticket,
                        whole - exchange->counted_bytes, rate, clock_now_ns(), &wait_ns)) {
        exchange->counted_bytes = whole;
        return STATUS_OK;
    }
    char limit[32];
    char ahead[32];
    byte_size_text(rate, limit, sizeof limit);
    byte_size_text((uint64_t)((double)wait_ns * (double)rate / NS_PER_S), ahead, sizeof ahead);
    exchange->request.limit = METRICS_CLIENT_LIMIT_BYTES;
    request_retry_after(&exchange->request, wait_ns);
    return error_set(err, STATUS_THROTTLED,
                     "this client has sent %s more than %s a second allow, the server's "
                     "--per-client-bytes-per-s: try again after Retry-After seconds",
                     ahead, limit);
}

enum status exchange_admit(struct exchange *exchange, struct error *err)
{
    const struct server *server = exchange->loop->server;
    TRY(identify_client(exchange, err));
    TRY(queue_admits(server->queue, err));
    exchange->request.limited = exchange->request.client != exchange->conn->client ||
                                exchange->address.family != AF_UNIX;
    uint64_t most = server->config->per_client_requests;
    uint64_t wait_ns = 0;
    if (most > 0 && exchange->request.limited) {
        if (!client_begin_request(exchange->request.client, most, &wait_ns)) {
            exchange->request.limit = METRICS_CLIENT_LIMIT_REQUESTS;
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
    int64_t length = exchange->header.content_length;
    return exchange_admit_bytes(exchange, length > 0 ? (uint64_t)length : 0, err);
}

void exchange_uncount_request(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    if (exchange->client_counted) {
        client_end_request(request->client,
                           clock_span_ns(request->times.arrived, clock_now_ns()));
        exchange->client_counted = false;
    }
}

void exchange_uncount_memory(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    if (request->client_bytes > 0) {
        client_give_memory(request->client, request->client_bytes,
                           clock_span_ns(request->times.arrived, clock_now_ns()));
        request->client_bytes = 0;
    }
}

void exchange_uncount(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    exchange_uncount_request(exchange);
    if (exchange->counted_bytes > request->body.received) {
        client_sends_less(request->client, exchange->counted_bytes - request->body.received,
                          rate_of(exchange));
    }
}
