/* What a request asks for, by its header: path, token, method, then the codec of its body and
 * answer. Possible failures: INVALID_REQUEST, UNAUTHORIZED, FORBIDDEN, THROTTLED (wrong
 * tokens), NOT_FOUND, METHOD_NOT_ALLOWED, UNSUPPORTED_MEDIA. Thread: the loop. */
#include "proto/models.h"
#include "server/base/config.h"
#include "server/http/exchange.h"
#include "server/http/loop.h"

#include <string.h>

/* "/base/v1/cumsum" -> "/v1/cumsum", "/base" -> "/"; a path without the prefix stays: health
 * checks come so. */
static char *strip_base_path(const struct exchange *exchange, char *path)
{
    const char *base = exchange->loop->server->config->base_path;
    size_t bytes = strlen(base);
    if (bytes == 0 || strncmp(path, base, bytes) != 0) {
        return path;
    }
    if (path[bytes] == '\0') {
        path[1] = '\0'; /* behind the slash that every prefix begins with */
        return path;
    }
    return path[bytes] == '/' ? path + bytes : path;
}

/* A browser asks for the console, which asks for a token then. It holds no secret. */
static bool wants_console(const struct exchange *exchange)
{
    return exchange->route != NULL && exchange->route->page == page_index &&
           exchange->header.accept_html && exchange->loop->server->config->console;
}

/* Has it a token for this route, or for any where there is none? */
static enum status check_token(struct exchange *exchange, struct error *err)
{
    unsigned scopes =
        exchange->route == NULL ? (unsigned)ROUTE_SCOPE_ANY : exchange->route->scopes;
    if (exchange->loop->http->tokens == NULL || scopes == ROUTE_SCOPE_OPEN ||
        wants_console(exchange)) {
        return STATUS_OK;
    }
    union {
        const char *read;
        char *overwrite; /* it lies in MHD's buffer for this connection, and nobody reads on */
    } field = {.read = exchange->header.authorization};
    exchange->request.limit = METRICS_CLIENT_LIMIT_TOKENS; /* if it is one */
    return tokens_check(exchange->loop->http->tokens, &exchange->address, field.overwrite,
                        scopes, exchange->token_name, err);
}

enum status exchange_find_route(struct exchange *exchange, const char *method,
                                struct error *err)
{
    struct codec_request *codec_request = &exchange->request.codec_request;
    struct target target = {.params = codec_request->params};
    TRY(target_parse(exchange->target, &target, err));
    char *path = strip_base_path(exchange, target.path);
    struct route_match match = route_find(path);
    codec_request->param_count = target.param_count;
    exchange->path = path;
    memcpy(exchange->segments, match.segments, sizeof exchange->segments);
    exchange->route = match.route;
    exchange->preflight = exchange->preflight && match.route != NULL;
    exchange->bodiless = exchange->preflight;
    if (exchange->preflight) {
        return STATUS_OK; /* browsers ask without a token, which the request itself needs */
    }
    TRY(check_token(exchange, err));
    if (strcmp(method, "OPTIONS") == 0 && strcmp(path, "*") == 0) {
        /* "The OPTIONS request applies to the server in general ... [It] is only useful as a
         * "ping" or "no-op" type of method" (RFC 9110, 9.3.7). */
        exchange->bodiless = true;
        return STATUS_OK;
    }
    if (match.route == NULL) {
        return error_set(err, STATUS_NOT_FOUND,
                         "there is nothing at %.200s; GET %.200s/ lists what there is", path,
                         exchange->loop->server->config->base_path);
    }
    if ((match.route->methods & exchange->asks) == 0) {
        return error_set(err, STATUS_METHOD_NOT_ALLOWED,
                         "the method is %.20s, this path takes %s", method,
                         route_allow(match.route));
    }
    return STATUS_OK;
}

static enum status refuse_media(const struct exchange *exchange, struct error *err)
{
    return error_set_field(
        err, STATUS_UNSUPPORTED_MEDIA, "Content-Type",
        "Content-Type is \"%.100s\"; this path understands application/json%s",
        exchange->header.media_text,
        exchange->route->kind == ROUTE_CUMSUM
            ? ", application/octet-stream and application/x-npy"
            : " and application/octet-stream");
}

static enum status choose_model(struct exchange *exchange, struct error *err)
{
    const struct model *model = NULL;
    TRY(model_require(exchange->segments[0], exchange->segments[1], &model, err));
    exchange->request.codec_request.model = exchange->segments[0];
    exchange->request.model = (int)model_index(model);
    return STATUS_OK;
}

enum status exchange_choose_codec(struct exchange *exchange, struct error *err)
{
    struct request *request = &exchange->request;
    const int media = exchange->header.media;
    request->codec_request.head_bytes = exchange->header.head_bytes;
    request->codec_request.carry_bytes = (uint64_t)exchange->header.carry_bytes;
    request->codec_request.totals = exchange->route->totals;
    if (exchange->route->kind == ROUTE_DIALECT) {
        bool known = media != HEADER_MEDIA_OTHER && media != CODEC_FORMAT_NPY;
        if (!known && !exchange->route->triton) {
            return refuse_media(exchange, err);
        }
        request->codec = exchange->route->codec;
        return exchange->segments[0] == NULL ? STATUS_OK : choose_model(exchange, err);
    }
    if (media == HEADER_MEDIA_OTHER) {
        return refuse_media(exchange, err);
    }
    enum codec_format format = (enum codec_format)media;
    unsigned accepted = exchange->header.accept_formats;
    request->codec = codec_cumsum(format);
    /* Exactly one named: that one. */
    if (accepted != 0 && (accepted & (accepted - 1)) == 0) {
        format = (enum codec_format)__builtin_ctz(accepted);
    }
    request->codec_request.answer_format = format;
    return STATUS_OK;
}
