/* Starts, drains and stops the HTTP threads (http_loop.c) and the listening sockets that they
 * share. Possible failures: too few descriptors, no memory, an unusable file or address. */
#include "server/http/http.h"

#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/machine.h"
#include "server/http/cors.h"
#include "server/http/loop.h"
#include "server/http/tls.h"

#include <stdlib.h>
#include <sys/resource.h>

enum {
    CONNECTION_FDS = 2, /* descriptors of a connection: its socket, its daemon's epoll set */
    SPARE_FDS = 512,    /* descriptors for everything except connections */
    START_FDS = 32,     /* descriptors that the start needs: sockets, files, devices */
    LOOP_FDS = 16 /* descriptors that each loop needs in addition to those of connections */
};

/* Returns the limit of the newcomers that wait for a place. The same limit applies to evicted
 * connections that are still open. The limit is lower if few descriptors are free. */
static size_t reserve_of(const struct config *config)
{
    struct rlimit limit;
    const uint64_t used = CONNECTION_FDS * config->max_connections;
    uint64_t spare = SPARE_FDS;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > used) {
        spare = smaller_of(spare, limit.rlim_cur - used);
    }
    return (size_t)larger_of(spare * PLACES_RESERVE / SPARE_FDS, 2);
}

uint64_t http_connections_that_fit(const struct server *server)
{
    struct rlimit limit;
    const uint64_t most = server->config->max_connections;
    const rlim_t wanted = CONNECTION_FDS * (rlim_t)most + SPARE_FDS;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) {
        return most;
    }
    limit.rlim_cur = smaller_of(wanted, limit.rlim_max);
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) {
        return most;
    }
    const uint64_t allowed = limit.rlim_cur;
    const uint64_t spare = smaller_of(SPARE_FDS, allowed / 2);
    const uint64_t fit = smaller_of(most, (allowed - spare) / CONNECTION_FDS);
    log_message(server->log, LOG_WARN,
                "only %llu file descriptors are allowed (ulimit -n): %llu connections at once, "
                "--max-connections is %llu",
                (unsigned long long)allowed, (unsigned long long)fit, (unsigned long long)most);
    return fit;
}

/* Check that enough descriptors are free: without them libuv aborts the process. */
static enum status check_descriptors(const struct http *http, struct error *err)
{
    const uint64_t needed = START_FDS + LOOP_FDS * (uint64_t)http->loop_count;
    struct machine_usage usage;
    machine_usage(&usage);
    if (usage.max_files >= usage.open_files + needed) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INTERNAL,
                     "%llu file descriptors are allowed and %llu of them in use, but %llu more "
                     "are needed to begin: raise the limit (ulimit -n)",
                     (unsigned long long)usage.max_files, (unsigned long long)usage.open_files,
                     (unsigned long long)needed);
}

static enum status open_sockets(struct http *http, struct error *err)
{
    const struct config *config = http->server->config;
    struct listen_set *set = &http->listeners;
    struct listen_access access;
    TRY(listen_inherit(set, err));
    /* the unit of systemd sets the access rights of its sockets */
    const bool inherits = set->count > 0;
    if (inherits && config->probe_listen.count == 0) {
        return STATUS_OK;
    }
    TRY(listen_access_parse(config->socket_mode, config->socket_group, &access, err));
    for (size_t i = 0; i < config->listen.count && !inherits; i++) {
        TRY(listen_open(set, config->listen.items[i], &access, err));
    }
    const size_t for_all = set->count;
    for (size_t i = 0; i < config->probe_listen.count; i++) {
        TRY(listen_open(set, config->probe_listen.items[i], &access, err));
    }
    for (size_t i = for_all; i < set->count; i++) {
        set->sockets[i].probe = true;
    }
    return STATUS_OK;
}

static enum status start_loops(struct http *http, struct error *err)
{
    struct server *server = http->server;
    const struct config *config = server->config;
    TRY(check_descriptors(http, err));
    TRY(places_init(&http->places, (size_t)config->max_connections, reserve_of(config), err));
    TRY(tls_files_open(config, server->log, server->metrics, &http->tls, err));
    TRY(tokens_open(config->token_file, server->log, &http->tokens, err));
    TRY(proxies_parse(&config->trusted_proxies, &http->proxies, err));
    TRY(cors_check(&config->cors_origins, err));
    TRY(open_sockets(http, err));
    for (size_t i = 0; i < http->loop_count; i++) {
        TRY(loop_start(&http->loops[i], http, err));
    }
    return STATUS_OK;
}

enum status http_start(struct server *server, struct http **out, struct error *err)
{
    size_t loops = (size_t)server->config->http_loops;
    struct http *http = calloc(1, sizeof *http + loops * sizeof http->loops[0]);
    if (http == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for %zu HTTP loops", loops);
    }
    http->server = server;
    http->loop_count = loops;
    enum status status = start_loops(http, err);
    if (status != STATUS_OK) {
        http_stop(http);
        return status;
    }
    for (size_t i = 0; i < http->listeners.count; i++) {
        const struct listen_socket *socket = &http->listeners.sockets[i];
        log_message(server->log, LOG_INFO, "listening on %s%s", socket->name,
                    socket->probe                         ? ", for probes alone"
                    : http->tls != NULL && !socket->local ? ", TLS"
                                                          : "");
    }
    *out = http;
    return STATUS_OK;
}

static void wake_loops(struct http *http)
{
    for (size_t i = 0; i < http->loop_count; i++) {
        if (http->loops[i].started) {
            completion_wake(&http->loops[i].completion);
        }
    }
}

void http_tick(struct http *http, uint64_t now_ns)
{
    tls_files_tick(http->tls, now_ns);
    tokens_tick(http->tokens, now_ns);
}

void http_drain(struct http *http)
{
    listen_end(&http->listeners);
    atomic_store(&http->draining, true);
    wake_loops(http);
    listen_close(&http->listeners); /* each loop closes its copies when the backlog is empty */
}

bool http_drained(struct http *http)
{
    for (size_t i = 0; i < http->loop_count; i++) {
        if (atomic_load(&http->loops[i].accepting)) {
            return false;
        }
    }
    /* read last: a loop counts every connection before it sets `accepting` to false */
    return http_connections(http) == 0;
}

size_t http_connections(struct http *http)
{
    return places_connections(&http->places) + atomic_load(&http->probes);
}

void http_halt(struct http *http)
{
    if (http == NULL) {
        return;
    }
    atomic_store(&http->draining, true);
    atomic_store(&http->stopping, true);
    wake_loops(http);
    for (size_t i = 0; i < http->loop_count; i++) {
        loop_join(&http->loops[i]);
    }
}

void http_stop(struct http *http)
{
    bool in_use = false;
    if (http == NULL) {
        return;
    }
    http_halt(http);
    for (size_t i = 0; i < http->loop_count; i++) {
        loop_stop(&http->loops[i]);
        in_use = in_use || http->loops[i].completion.expected > 0;
    }
    listen_close(&http->listeners);
    if (!in_use) {
        places_deinit(&http->places);
        tls_files_close(http->tls);
        tokens_close(http->tokens);
        free(http);
    }
}
