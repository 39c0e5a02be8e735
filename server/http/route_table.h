/* Every path that is answered, one row each: those of tensors, then those of pages
 * (server/pages/page_table.h); a path is looked for from the top. "{}" stands for one segment
 * of a path. Of a row come the route itself (routes.c) and its place in the OpenAPI document,
 * whose build fails while no fragment describes it (proto/openapi/make_openapi.c). */
#ifndef TALLY_SERVER_ROUTE_TABLE_H
#define TALLY_SERVER_ROUTE_TABLE_H

#include "server/pages/page_table.h"

/* clang-format off */
/*   CUMSUM    a tensor; codec by Content-Type; totals: the carry behind it          
 *   DIALECT   a tensor in the codec's format; triton: any Content-Type, and Triton's codes
 * counted_as: METRICS_ROUTE_ (server/base/metrics.h) */
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
