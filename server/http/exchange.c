/* The life of one request between MHD's calls: headers, body, answer; see exchange.h.
 *
 * A refusal is delivered even though the client may still be sending. Nothing sent yet
 * (Expect: 100-continue): answered at once. A short rest: read, dropped, answered at the end,
 * and the connection lives on. A long one, or one that does not come: the answer is written to
 * the socket right away and our side closed, then what the client still sends is read and
 * dropped for a bounded number of bytes and seconds (deadline.c), because closing with unread
 * bytes would destroy the answer on its way. */
#include "server/http/exchange.h"

#include "proto/models.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/http/loop.h"
#include "server/http/respond.h"
#include "server/infer/infer.h"
#include "server/infer/infer_memory.h"
#include "server/infer/land.h"
#include "server/sched/admission.h"
#include "server/sched/client.h"
#include "server/sched/queue.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEEP_ALIVE_DRAIN_BYTES = 1 << 20, /* a longer rest is not waited for before answering */
    LINGER_BYTES = 16 << 20,          /* read and dropped after an early answer, at most: more
                                       * than the buffers of two sockets hold, so that the
                                       * client had the answer when it sent what follows */
    ID_BYTES = 16
};

/* ---- the header ---- */

void exchange_make_id(struct exchange *x)
{
    static const char digits[] = "0123456789abcdef";
    struct http_loop *loop = x->loop;
    uint64_t id = (uint64_t)loop->id_prefix << 32 | loop->id_next++;
    for (int i = 0; i < ID_BYTES; i++) {
        x->request.id[i] = digits[id >> (60 - 4 * i) & 15];
    }
    x->request.id[ID_BYTES] = '\0';
}

static void choose_id(struct exchange *x)
{
    if (x->door.request_id != NULL) {
        memcpy(x->request.id, x->door.request_id, strlen(x->door.request_id) + 1);
    } else {
        exchange_make_id(x);
    }
}

static void choose_deadline(struct exchange *x)
{
    uint64_t timeout_ms = x->door.timeout_ms;
    uint64_t own_ms = x->loop->server->config->request_timeout_ms;
    uint64_t at = 0;
    timeout_ms = timeout_ms == 0 ? own_ms : timeout_ms;
    if (timeout_ms == 0 || __builtin_mul_overflow(timeout_ms, NS_PER_MS, &at) ||
        __builtin_add_overflow(at, x->request.times.arrived, &at)) {
        return;
    }
    x->request.deadline_ns = at;
}

/* "/base/v1/cumsum" -> "/v1/cumsum"; NULL if the prefix is not there. */
static char *strip_base(const struct exchange *x, char *path)
{
    const char *base = x->loop->server->config->base_path;
    size_t bytes = strlen(base);
    if (bytes == 0) {
        return path;
    }
    if (strncmp(path, base, bytes) != 0) {
        return path; /* health checks come without it */
    }
    return path[bytes] == '/' ? path + bytes : path;
}

static enum status find_route(struct exchange *x, struct error *err)
{
    struct codec_request *codec_request = &x->request.codec_request;
    struct target target = {.params = codec_request->params};
    enum status status = target_parse(x->target, &target, err);
    if (status != STATUS_OK) {
        return status;
    }
    char *path = strip_base(x, target.path);
    struct route_match match = route_find(path);
    codec_request->param_count = target.param_count;
    x->path = path;
    memcpy(x->segments, match.segments, sizeof x->segments);
    x->request.route = match.route;
    if (match.route == NULL) {
        return error_set(err, STATUS_NOT_FOUND,
                         "there is nothing at %.200s; GET / lists what there is", path);
    }
    unsigned allowed = match.route->methods;
    if (!(x->post && (allowed & ROUTE_POST) != 0) && !(x->get && (allowed & ROUTE_GET) != 0)) {
        return error_set(err, STATUS_METHOD_NOT_ALLOWED, "this path takes %s",
                         route_allow(match.route));
    }
    return STATUS_OK;
}

static enum status unsupported_media(const struct exchange *x, struct error *err)
{
    return error_set_field(
        err, STATUS_UNSUPPORTED_MEDIA, "Content-Type",
        "Content-Type is \"%.100s\"; this path understands application/json, "
        "application/octet-stream%s",
        x->door.media_text,
        x->request.route->kind == ROUTE_CUMSUM ? " and application/x-npy" : "");
}

static enum status choose_model(struct exchange *x, struct error *err)
{
    const struct model *model = NULL;
    enum status status = model_require(x->segments[0], x->segments[1], &model, err);
    if (status != STATUS_OK) {
        return status;
    }
    x->request.codec_request.model = x->segments[0];
    x->request.model = (int)model_index(model);
    return STATUS_OK;
}

static enum status choose_codec(struct exchange *x, struct error *err)
{
    static const enum codec_format formats[] = {[DOOR_MEDIA_NONE] = CODEC_FORMAT_JSON,
                                                [DOOR_MEDIA_JSON] = CODEC_FORMAT_JSON,
                                                [DOOR_MEDIA_RAW] = CODEC_FORMAT_RAW,
                                                [DOOR_MEDIA_NPY] = CODEC_FORMAT_NPY};
    struct request *request = &x->request;
    enum door_media media = x->door.media;
    request->codec_request.head_bytes = x->door.head_bytes;
    if (request->route->kind == ROUTE_DIALECT) {
        bool known = media != DOOR_MEDIA_OTHER && media != DOOR_MEDIA_NPY;
        if (!known && !request->route->any_media) {
            return unsupported_media(x, err);
        }
        request->codec = request->route->codec();
        return x->segments[0] == NULL ? STATUS_OK : choose_model(x, err);
    }
    if (media == DOOR_MEDIA_OTHER) {
        return unsupported_media(x, err);
    }
    enum codec_format format = formats[media];
    unsigned accepted = x->door.accept_formats;
    request->codec = codec_cumsum(format);
    /* Exactly one named: that one. */
    if (accepted != 0 && (accepted & (accepted - 1)) == 0) {
        format = (enum codec_format)__builtin_ctz(accepted);
    }
    request->codec_request.answer_format = format;
    return STATUS_OK;
}

static enum status admit(struct exchange *x, struct error *err)
{
    const struct server *server = x->loop->server;
    enum status status = queue_admits(server->queue, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (server_phase(server) >= SERVER_STOPPING) {
        return error_set(err, STATUS_DRAINING, "the service is shutting down");
    }
    uint64_t most = server->config->per_client_requests;
    if (most > 0 && x->conn->peer.ss_family != AF_UNIX) {
        if (!client_begin_request(x->request.client, most)) {
            return error_set(err, STATUS_THROTTLED,
                             "this client has %" PRIu64
                             " requests in flight, the server's --per-client-requests: wait "
                             "for an answer before the next request, and try again after "
                             "Retry-After seconds",
                             most);
        }
        x->client_counted = true;
    }
    return STATUS_OK;
}

static enum status open_exchange(struct exchange *x)
{
    struct error *err = &x->request.error;
    enum status status = door_finish(&x->door, err);
    if (status == STATUS_OK) {
        status = find_route(x, err);
    }
    if (status == STATUS_OK && x->request.route->kind != ROUTE_PAGE) {
        choose_deadline(x);
        status = admit(x, err);
        if (status == STATUS_OK) {
            status = choose_codec(x, err);
        }
    }
    if (status == STATUS_OK) {
        x->request.body.declared = x->door.content_length;
        x->request.body.chunked = x->door.chunked;
        x->request.body.coding = x->door.coding;
        x->request.accept_coding = x->door.accept_coding;
        status = land_begin(&x->request, err);
    }
    return status == STATUS_OK && x->request.codec != NULL ? infer_check(&x->request, err)
                                                           : status;
}

/* The request is refused while its body is still to come, or coming. */
static void begin_drain(struct exchange *x, uint64_t left)
{
    request_enter(&x->request, REQUEST_REFUSED);
    x->refused_ns = clock_now_ns();
    admission_finish(x->loop->server->admission, &x->request);
    if (left > KEEP_ALIVE_DRAIN_BYTES) {
        respond_early(x);
    }
}

void exchange_refuse(struct exchange *x)
{
    int64_t length = x->door.content_length;
    begin_drain(x, length < 0 ? 0 : (uint64_t)length - x->request.body.received);
}

enum exchange_step exchange_header(struct exchange *x, const char *method)
{
    const struct door *door = &x->door;
    conn_begin(x->conn);
    x->post = strcmp(method, "POST") == 0;
    x->head = strcmp(method, "HEAD") == 0;
    x->get = x->head || strcmp(method, "GET") == 0;
    choose_id(x);
    request_enter(&x->request, REQUEST_BODY);
    if (open_exchange(x) == STATUS_OK) {
        return EXCHANGE_GO_ON;
    }
    if (door->unframed || (door->expect_continue && door_has_body(door))) {
        x->close = true;
        return EXCHANGE_ANSWER;
    }
    begin_drain(x, door->content_length > 0 ? (uint64_t)door->content_length : 0);
    return EXCHANGE_GO_ON;
}

/* ---- the body ---- */

static enum exchange_step drain(struct exchange *x, size_t count)
{
    x->drained += count;
    if (request_state(&x->request) == REQUEST_LINGERING) {
        return x->drained > LINGER_BYTES ? EXCHANGE_CLOSE : EXCHANGE_GO_ON;
    }
    if (x->drained > KEEP_ALIVE_DRAIN_BYTES) {
        respond_early(x);
    }
    return EXCHANGE_GO_ON;
}

/* The loop is being taken down, and so is whatever a request could be handed over to. */
static bool refused_at_the_end(struct exchange *x)
{
    if (x->loop->stopping) {
        (void)error_set(&x->request.error, STATUS_DRAINING, "the service is shutting down");
    }
    return x->loop->stopping;
}

enum exchange_step exchange_data(struct exchange *x, const void *bytes, size_t count)
{
    struct request *request = &x->request;
    if (request_state(request) == REQUEST_BODY && refused_at_the_end(x)) {
        exchange_refuse(x);
    }
    if (request_state(request) != REQUEST_BODY) {
        request->body.received += count;
        return drain(x, count);
    }
    if (!infer_may_go_on(request, count, REQUEST_PAUSED)) {
        return EXCHANGE_PAUSE;
    }
    request->body.received += count;
    if (land_feed(request, bytes, count, &request->error) != STATUS_OK) {
        exchange_refuse(x);
    }
    return EXCHANGE_GO_ON;
}

static void make_page(struct exchange *x)
{
    struct request *request = &x->request;
    const struct page_request page_request = {
        .server = request->server,
        .post = x->post,
        .local = x->request.local,
        .segments = {x->segments[0], x->segments[1]},
        .body = {request->head, request->head_bytes},
        .param_count = request->codec_request.param_count,
        .params = request->codec_request.params,
    };
    struct page page = {.http_status = 200, .content_type = "application/json"};
    if (request->route->page(&page_request, &page, &request->error) != STATUS_OK) {
        free(page.text);
        return;
    }
    x->http_status = page.http_status;
    x->page_type = page.content_type;
    x->page_bytes = page.bytes;
    request->answer.head = page.text; /* freed with the request */
    x->page_text = page.text != NULL ? page.text : page.fixed;
}

enum exchange_step exchange_body_end(struct exchange *x)
{
    struct request *request = &x->request;
    if (request_state(request) != REQUEST_BODY) {
        return request_state(request) == REQUEST_LINGERING ? EXCHANGE_CLOSE : EXCHANGE_ANSWER;
    }
    if (refused_at_the_end(x)) {
        return EXCHANGE_ANSWER;
    }
    request->times.received = clock_now_ns();
    if (land_finish(request, &request->error) != STATUS_OK) {
        return EXCHANGE_ANSWER;
    }
    if (request->codec == NULL) {
        make_page(x);
        return EXCHANGE_ANSWER;
    }
    switch (infer_submit(request)) {
    case INFER_AWAY:
        return EXCHANGE_SUSPEND;
    case INFER_SOON:
        return EXCHANGE_AWAIT;
    case INFER_ENDED:
        break;
    }
    return EXCHANGE_ANSWER;
}
