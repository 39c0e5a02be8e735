/* The table of pages, one row for each path. "{}" stands for one segment of a path. A row
 * defines the route (server/http/routes.c), the declaration of the page's function, if there is
 * one (page.h), and a path of the OpenAPI document. The build fails if no fragment describes
 * the path (proto/openapi/make_openapi.c). */
#ifndef TALLY_SERVER_PAGE_TABLE_H
#define TALLY_SERVER_PAGE_TABLE_H

/* clang-format off */
#define PAGE_LIVE    "{\"live\":true}"
#define PAGE_VERSION "{\"name\":\"tally\",\"version\":\"" TALLY_VERSION "\"}"
#define PAGE_TRACES                                                                                \
    "{\"error\":\"traces are set up at start (--otlp-endpoint), not over the network\","           \
    "\"code\":\"unsupported\"}"
#define PAGE_LOGGING                                                                               \
    "{\"error\":\"the log is set up at start (--log-level, --log-format), not over the network\"," \
    "\"code\":\"unsupported\"}"

/*   PAGE      the first path of a page function
 *   ALSO      another path of the same function
 *   FIXED     a page with this status and constant text; Triton answers 503 for a feature that
 *             is switched off
 * methods     ROUTE_ (server/http/routes.h)
 * scope       ROUTE_SCOPE_ (routes.h): the scope that a token needs, if tokens are used
 * counted_as  METRICS_ROUTE_ (server/base/metrics.h) */
#define PAGE_TABLE(PAGE, ALSO, FIXED)                                                                                                     \
/*      pattern                                               methods                 scope          counted as  page */                  \
FIXED(  "/livez",                                             ROUTE_GET,              OPEN,          OPERATIONS, 200, PAGE_LIVE)          \
PAGE(   "/readyz",                                            ROUTE_GET,              OPEN,          OPERATIONS, page_readyz)             \
FIXED(  "/v2/health/live",                                    ROUTE_GET,              INFER,         V2_OTHER,   200, PAGE_LIVE)          \
ALSO(   "/v2/health/ready",                                   ROUTE_GET,              INFER,         V2_OTHER,   page_readyz)             \
PAGE(   "/v2",                                                ROUTE_GET,              INFER,         V2_OTHER,   page_v2_server)          \
ALSO(   "/v2/",                                               ROUTE_GET,              INFER,         V2_OTHER,   page_v2_server)          \
PAGE(   "/v2/models",                                         ROUTE_GET,              INFER,         V2_OTHER,   page_v2_models)          \
PAGE(   "/v2/models/stats",                                   ROUTE_GET,              INFER_METRICS, V2_OTHER,   page_v2_stats)           \
PAGE(   "/v2/models/{}",                                      ROUTE_GET,              INFER,         V2_OTHER,   page_v2_model)           \
PAGE(   "/v2/models/{}/ready",                                ROUTE_GET,              INFER,         V2_OTHER,   page_v2_model_ready)     \
PAGE(   "/v2/models/{}/config",                               ROUTE_GET,              INFER,         V2_OTHER,   page_v2_config)          \
ALSO(   "/v2/models/{}/stats",                                ROUTE_GET,              INFER_METRICS, V2_OTHER,   page_v2_stats)           \
ALSO(   "/v2/models/{}/versions/{}",                          ROUTE_GET,              INFER,         V2_OTHER,   page_v2_model)           \
ALSO(   "/v2/models/{}/versions/{}/ready",                    ROUTE_GET,              INFER,         V2_OTHER,   page_v2_model_ready)     \
ALSO(   "/v2/models/{}/versions/{}/config",                   ROUTE_GET,              INFER,         V2_OTHER,   page_v2_config)          \
ALSO(   "/v2/models/{}/versions/{}/stats",                    ROUTE_GET,              INFER_METRICS, V2_OTHER,   page_v2_stats)           \
FIXED(  "/v2/models/{}/trace/setting",                        ROUTE_GET | ROUTE_POST, ADMIN,         V2_OTHER,   503, PAGE_TRACES)        \
FIXED(  "/v2/trace/setting",                                  ROUTE_GET | ROUTE_POST, ADMIN,         V2_OTHER,   503, PAGE_TRACES)        \
FIXED(  "/v2/logging",                                        ROUTE_GET | ROUTE_POST, ADMIN,         V2_OTHER,   503, PAGE_LOGGING)       \
PAGE(   "/v2/repository/index",                               ROUTE_POST,             ADMIN,         V2_OTHER,   page_v2_index)           \
PAGE(   "/v2/repository/models/{}/load",                      ROUTE_POST,             ADMIN,         V2_OTHER,   page_v2_load)            \
ALSO(   "/v2/repository/models/{}/unload",                    ROUTE_POST,             ADMIN,         V2_OTHER,   page_v2_load)            \
PAGE(   "/v2/systemsharedmemory/status",                      ROUTE_GET,              ADMIN,         V2_OTHER,   page_v2_shm_status)      \
PAGE(   "/v2/systemsharedmemory/unregister",                  ROUTE_POST,             ADMIN,         V2_OTHER,   page_v2_shm_unregister)  \
ALSO(   "/v2/systemsharedmemory/region/{}/status",            ROUTE_GET,              ADMIN,         V2_OTHER,   page_v2_shm_status)      \
PAGE(   "/v2/systemsharedmemory/region/{}/register",          ROUTE_POST,             ADMIN,         V2_OTHER,   page_v2_shm_register)    \
ALSO(   "/v2/systemsharedmemory/region/{}/unregister",        ROUTE_POST,             ADMIN,         V2_OTHER,   page_v2_shm_unregister)  \
PAGE(   "/v2/cudasharedmemory/status",                        ROUTE_GET,              ADMIN,         V2_OTHER,   page_v2_cuda_status)     \
FIXED(  "/v2/cudasharedmemory/unregister",                    ROUTE_POST,             ADMIN,         V2_OTHER,   200, "")                 \
ALSO(   "/v2/cudasharedmemory/region/{}/status",              ROUTE_GET,              ADMIN,         V2_OTHER,   page_v2_cuda_status)     \
PAGE(   "/v2/cudasharedmemory/region/{}/register",            ROUTE_POST,             ADMIN,         V2_OTHER,   page_v2_cuda_register)   \
FIXED(  "/v2/cudasharedmemory/region/{}/unregister",          ROUTE_POST,             ADMIN,         V2_OTHER,   200, "")                 \
FIXED(  "/openapi.json",                                      ROUTE_GET,              ANY,           OPERATIONS, 200, openapi_text)       \
PAGE(   "/metrics",                                           ROUTE_GET,              METRICS,       OPERATIONS, page_metrics)            \
PAGE(   "/v1/devices",                                        ROUTE_GET,              INFER_METRICS, OPERATIONS, page_devices)            \
FIXED(  "/version",                                           ROUTE_GET,              ANY,           OPERATIONS, 200, PAGE_VERSION)       \
PAGE(   "/",                                                  ROUTE_GET,              ANY,           OPERATIONS, page_index)
/* clang-format on */

#endif
