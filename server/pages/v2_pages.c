/* The pages of the Open Inference Protocol. Each function reads figures of the service, and
 * proto/kserve_pages.c writes the page. Failure modes: an unknown model, version or region
 * (404); no memory (503); a feature that is switched off or missing (501, 503); shared memory
 * of a remote client (403). */
#include "server/pages/page.h"

#include "proto/kserve_pages.h"
#include "server/base/config.h"
#include "server/base/metrics.h"
#include "server/memory/shm.h"
#include "server/sched/device_pool.h"
#include "server/sched/server.h"

#include <stdlib.h>

static struct kserve_server describe_server(const struct server *server)
{
    struct kserve_server info = {.version = TALLY_VERSION,
                                 .shared_memory = server->shm != NULL,
                                 .batch_delay_us = server->config->batch_delay_us,
                                 .queue_depth = server->config->queue_depth};
    for (size_t i = 0; i < device_pool_count(server->devices); i++) {
        struct device_stats stats;
        device_pool_stats(server->devices, i, &stats);
        info.instances++;
        info.gpu = info.gpu || stats.info.kind == SCAN_DEVICE_GPU;
    }
    return info;
}

enum status page_v2_server(const struct page_request *request, struct page *page,
                           struct error *err)
{
    (void)err;
    struct kserve_server info = describe_server(request->server);
    kserve_page_server(&page->json, &info);
    return STATUS_OK;
}

enum status page_v2_models(const struct page_request *request, struct page *page,
                           struct error *err)
{
    (void)request;
    (void)err;
    kserve_page_models(&page->json);
    return STATUS_OK;
}

enum status page_v2_model(const struct page_request *request, struct page *page,
                          struct error *err)
{
    const struct model *model = NULL;
    TRY(model_require(request->segments[0], request->segments[1], &model, err));
    kserve_page_model(&page->json, model);
    return STATUS_OK;
}

enum status page_v2_model_ready(const struct page_request *request, struct page *page,
                                struct error *err)
{
    const struct model *model = NULL;
    TRY(model_require(request->segments[0], request->segments[1], &model, err));
    if (server_ready(request->server)) {
        kserve_page_model_ready(&page->json, model);
    } else {
        page_unavailable(page, "{\"error\":\"no device is ready, or the service is "
                               "draining\",\"code\":\"not_ready\"}");
    }
    return STATUS_OK;
}

enum status page_v2_config(const struct page_request *request, struct page *page,
                           struct error *err)
{
    const struct model *model = NULL;
    TRY(model_require(request->segments[0], request->segments[1], &model, err));
    struct kserve_server info = describe_server(request->server);
    kserve_page_config(&page->json, model, &info);
    return STATUS_OK;
}

static void free_stats(struct kserve_model_stats *stats)
{
    for (size_t i = 0; stats != NULL && i < model_count(); i++) {
        free(stats[i].batches);
    }
    free(stats);
}

/* Returns the figures of all models, for free_stats(); NULL without memory. */
static struct kserve_model_stats *read_stats(const struct metrics *metrics, struct error *err)
{
    struct kserve_model_stats *stats = calloc(model_count(), sizeof *stats);
    if (stats == NULL) {
        (void)error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the statistics");
        return NULL;
    }
    for (size_t i = 0; i < model_count(); i++) {
        if (metrics_model_stats(metrics, i, &stats[i], err) != STATUS_OK) {
            free_stats(stats);
            return NULL;
        }
    }
    return stats;
}

/* Answer with the statistics of one model, or of all models if the path names none. */
enum status page_v2_stats(const struct page_request *request, struct page *page,
                          struct error *err)
{
    const struct model *model = NULL;
    if (request->segments[0] != NULL) {
        TRY(model_require(request->segments[0], request->segments[1], &model, err));
    }
    struct kserve_model_stats *stats = read_stats(request->server->metrics, err);
    if (stats == NULL) {
        return STATUS_OUT_OF_MEMORY;
    }
    kserve_page_stats(&page->json, model, stats);
    free_stats(stats);
    return STATUS_OK;
}

enum status page_v2_index(const struct page_request *request, struct page *page,
                          struct error *err)
{
    bool only_ready = false;
    TRY(kserve_read_index(request->body.bytes, request->body.count, &only_ready, err));
    kserve_page_index(&page->json, server_ready(request->server), only_ready);
    return STATUS_OK;
}

/* Triton answers 503 for a feature that is switched off. */
enum status page_v2_load(const struct page_request *request, struct page *page,
                         struct error *err)
{
    const struct model *model = NULL;
    TRY(model_require(request->segments[0], request->segments[1], &model, err));
    page->http_status = 503;
    page_fixed(page,
               "{\"error\":\"the models are built in: they are always loaded and cannot be "
               "changed\",\"code\":\"unsupported\"}");
    return STATUS_OK;
}

/* ---- system shared memory ---- */

enum status page_v2_shm_status(const struct page_request *request, struct page *page,
                               struct error *err)
{
    struct shm_registry *registry = request->server->shm;
    const char *name = request->segments[0];
    size_t room = registry == NULL ? 0 : shm_list(registry, name, NULL, 0);
    if (name != NULL && room == 0) {
        return error_set(err, STATUS_NOT_FOUND,
                         "no shared memory region of that name is registered");
    }
    struct kserve_shm_region *regions = calloc(room + 1, sizeof *regions);
    if (regions == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the list of regions");
    }
    size_t found = room == 0 ? 0 : shm_list(registry, name, regions, room);
    kserve_page_shm(&page->json, regions, found < room ? found : room);
    free(regions);
    return STATUS_OK;
}

enum status page_v2_shm_register(const struct page_request *request, struct page *page,
                                 struct error *err)
{
    (void)page; /* an answer 200 without a body */
    struct kserve_shm_region region;
    if (request->server->shm == NULL) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "clients' shared memory is switched off: start tallyd with "
                         "--allow-client-shm, or send the tensor in the body");
    }
    TRY(kserve_read_shm(request->segments[0], request->body.bytes, request->body.count, &region,
                        err));
    TRY(shm_register(request->server->shm, &region, request->local, err));
    metrics_gauge_add(request->server->metrics, METRICS_GAUGE_SHM_REGIONS, 1);
    metrics_gauge_add(request->server->metrics, METRICS_GAUGE_SHM_BYTES,
                      (int64_t)region.byte_size);
    return STATUS_OK;
}

/* Succeed even if there is no region to unregister, because clients unregister old regions when
 * they start. */
enum status page_v2_shm_unregister(const struct page_request *request, struct page *page,
                                   struct error *err)
{
    (void)page;
    if (request->server->shm == NULL) {
        return STATUS_OK;
    }
    if (!request->local) {
        return error_set(err, STATUS_FORBIDDEN,
                         "shared memory is for clients on this machine: over loopback or a "
                         "Unix socket, and no pages in browsers");
    }
    struct shm_amount removed = shm_unregister(request->server->shm, request->segments[0]);
    metrics_gauge_add(request->server->metrics, METRICS_GAUGE_SHM_REGIONS,
                      -(int64_t)removed.regions);
    metrics_gauge_add(request->server->metrics, METRICS_GAUGE_SHM_BYTES,
                      -(int64_t)removed.bytes);
    return STATUS_OK;
}

/* ---- features that are not supported ---- */

enum status page_v2_cuda_status(const struct page_request *request, struct page *page,
                                struct error *err)
{
    if (request->segments[0] != NULL) {
        return error_set(err, STATUS_NOT_FOUND, "no CUDA shared memory region is registered");
    }
    page_fixed(page, "[]");
    return STATUS_OK;
}

enum status page_v2_cuda_register(const struct page_request *request, struct page *page,
                                  struct error *err)
{
    (void)request;
    (void)page;
    return error_set(err, STATUS_UNSUPPORTED,
                     "CUDA shared memory is not supported: use system shared memory, or send "
                     "the tensor in the body");
}
