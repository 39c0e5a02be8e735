/* Pages of the Open Inference Protocol: what the server and its models are and have done, the
 * model repository, and clients' shared memory. What this service does not have is refused in
 * the way its clients expect. Thread: as page.h says. */
#ifndef TALLY_SERVER_V2_PAGES_H
#define TALLY_SERVER_V2_PAGES_H

#include "server/pages/page.h"

enum status page_v2_server(const struct page_request *request, struct page *page,
                           struct error *err);
enum status page_v2_model(const struct page_request *request, struct page *page,
                          struct error *err);
enum status page_v2_model_ready(const struct page_request *request, struct page *page,
                                struct error *err);
enum status page_v2_config(const struct page_request *request, struct page *page,
                           struct error *err);
enum status page_v2_stats(const struct page_request *request, struct page *page,
                          struct error *err);
enum status page_v2_index(const struct page_request *request, struct page *page,
                          struct error *err);
enum status page_v2_load(const struct page_request *request, struct page *page,
                         struct error *err); /* and unload */

enum status page_v2_shm_status(const struct page_request *request, struct page *page,
                               struct error *err);
enum status page_v2_shm_register(const struct page_request *request, struct page *page,
                                 struct error *err);
enum status page_v2_shm_unregister(const struct page_request *request, struct page *page,
                                   struct error *err);

enum status page_v2_cuda_status(const struct page_request *request, struct page *page,
                                struct error *err);
enum status page_v2_cuda_register(const struct page_request *request, struct page *page,
                                  struct error *err);
enum status page_v2_cuda_unregister(const struct page_request *request, struct page *page,
                                    struct error *err);

enum status page_v2_trace(const struct page_request *request, struct page *page,
                          struct error *err);
enum status page_v2_logging(const struct page_request *request, struct page *page,
                            struct error *err);

/* The OpenAPI document. */
enum status page_openapi(const struct page_request *request, struct page *page,
                         struct error *err);

#endif
