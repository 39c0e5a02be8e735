/* The paths that the service answers, one row each: first the paths of tensors, then the paths
 * of pages (server/pages/page_table.h). The first matching row is used. "{}" stands for one
 * segment of a path. A row defines the route (routes.c) and its operation in the OpenAPI
 * document; the build of that document fails if no fragment describes the row
 * (proto/openapi/make_openapi.c). */
#ifndef TALLY_SERVER_ROUTE_TABLE_H
#define TALLY_SERVER_ROUTE_TABLE_H

#include "server/pages/page_table.h"

/* clang-format off */
/* CUMSUM      a tensor; Content-Type selects the codec
 *   totals      true: the answer has only the total of each line
 * DIALECT     a tensor in the format of `codec`
 *   triton      true: Content-Type is ignored, and errors have Triton's status codes
 * counted as  METRICS_ROUTE_ (server/base/metrics.h) */
#define ROUTE_TABLE(CUMSUM, DIALECT, PAGE, FIXED)                                                          \
/*      pattern                                               counted as  codec           triton */ \
CUMSUM( "/v1/cumsum",                                         CUMSUM,     false)                    \
DIALECT("/v2/models/{}/infer",                                V2_INFER,   codec_kserve,   true)     \
DIALECT("/v2/models/{}/versions/{}/infer",                    V2_INFER,   codec_kserve,   true)     \
DIALECT("/v1/directml/cumulative_summation",                  DIRECTML,   codec_directml, false)    \
DIALECT("/v1/openvino/cumsum-3",                              OPENVINO,   codec_openvino, false)    \
CUMSUM( "/v1/cumsum/totals",                                  CUMSUM,     true)                     \
PAGE_TABLE(PAGE, PAGE, FIXED)
/* clang-format on */

#endif
