/* Builds the parts in the order data flows and takes them down in the reverse order. */
#include "server/service.h"

#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/http/http.h"
#include "server/lifecycle.h"
#include "server/memory/memory.h"
#include "server/memory/shm.h"
#include "server/sched/admission.h"
#include "server/sched/client.h"
#include "server/sched/codec_pool.h"
#include "server/sched/device_pool.h"
#include "server/sched/queue.h"
#include "server/sched/server.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    SHARED_SLAB_BYTES = 32 << 20,
    KEEP_SLABS_MS = 30000,
    SHM_REGIONS = 256
};

/* Only if it is switched on: elsewhere a missing registry says that it is off. */
static enum status open_shm(const struct config *config, struct server *server,
                            struct error *err)
{
    const struct shm_options options = {.enabled = true,
                                        .zero_copy = config->shm_zero_copy,
                                        .max_regions = SHM_REGIONS,
                                        .max_bytes = INT64_MAX,
                                        .key_prefix = config->shm_key_prefix};
    if (config->shm_zero_copy && !config->allow_client_shm) {
        return error_set(
            err, STATUS_INVALID_REQUEST,
            "--shm-zero-copy says how shared memory is used, and does not allow it: "
            "add --allow-client-shm");
    }
    return config->allow_client_shm ? shm_create(&options, &server->shm, err) : STATUS_OK;
}

static enum status build(struct config *config, struct server *server, struct http **http,
                         struct error *err)
{
    const struct log_options log = {.fd = STDERR_FILENO,
                                    .json = config->log_format == 1,
                                    .level = (enum log_level)config->log_level,
                                    .requests = config->log_requests,
                                    .request_rate = config->log_rate};
    const struct memory_options memory = {.budget_bytes = config->memory_budget,
                                          .small_slab_bytes = SHARED_SLAB_BYTES,
                                          .small_block_bytes =
                                              QUEUE_LARGE_BYTES - MEMORY_HEADROOM,
                                          .keep_ms = KEEP_SLABS_MS};
    const struct queue_options queue = {.max_requests = (size_t)config->queue_depth};
    enum status status = log_open(&log, &server->log, err);
    status = status != STATUS_OK ? status : metrics_create(&server->metrics, err);
    status = status != STATUS_OK ? status : memory_create(&memory, &server->memory, err);
    status = status != STATUS_OK ? status : memory_prepare(server->memory, err);
    status = status != STATUS_OK ? status : clients_create(&server->clients, err);
    status = status != STATUS_OK ? status
                                 : admission_create(server->memory, (size_t)config->queue_depth,
                                                    &server->admission, err);
    status = status != STATUS_OK ? status : open_shm(config, server, err);
    status = status != STATUS_OK ? status : queue_create(&queue, &server->queue, err);
    status = status != STATUS_OK
                 ? status
                 : codec_pool_create((size_t)config->codec_threads, &server->codecs, err);
    const struct device_pool_parts parts = {.config = config,
                                            .log = server->log,
                                            .metrics = server->metrics,
                                            .memory = server->memory,
                                            .queue = server->queue};
    status = status != STATUS_OK
                 ? status
                 : device_pool_create(&parts, &device_driver_opencl, &server->devices, err);
    status = status != STATUS_OK ? status : http_start(server, http, err);
    return status != STATUS_OK ? status : device_pool_start(server->devices, err);
}

/* What cannot be stopped (a hung device) or was cut short is left to the end of the process. */
static void take_down(struct server *server, struct http *http, int code)
{
    if (server->queue != NULL) {
        queue_close(server->queue);
    }
    if (code != EXIT_CODE_FAILED) {
        http_halt(http); /* clients may be there: some ways to end do not drain */
    }
    bool stopped = code != EXIT_CODE_FAILED && device_pool_destroy(server->devices);
    if (!stopped) {
        log_close(server->log);
        _exit(code);
    }
    codec_pool_destroy(server->codecs);
    server->codecs = NULL; /* requests that end from now on discard their texts themselves */
    admission_close(server->admission);
    http_stop(http);
    queue_destroy(server->queue);
    shm_destroy(server->shm);
    memory_destroy(server->memory);
    admission_destroy(server->admission);
    clients_destroy(server->clients);
    metrics_destroy(server->metrics);
    log_close(server->log);
}

static int exit_code_of(enum status status)
{
    return status == STATUS_NO_DEVICE                    ? EXIT_CODE_NO_DEVICE
           : status_category(status) == CATEGORY_INVALID ? EXIT_CODE_USAGE
                                                         : EXIT_CODE_FAILED;
}

int service_run(struct config *config, struct error *err)
{
    struct server server = {.config = config, .phase = SERVER_STARTING};
    struct http *http = NULL;
    lifecycle_block_signals();
    enum status status = build(config, &server, &http, err);
    int code = status == STATUS_OK ? lifecycle_run(&server, http) : exit_code_of(status);
    if (status != STATUS_OK) {
        (void)fprintf(stderr, "tallyd: %s\n", err->detail);
    }
    take_down(&server, http, code);
    return code;
}
