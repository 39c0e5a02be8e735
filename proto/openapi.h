/* The OpenAPI document of the service, which proto/openapi/make_openapi.c makes, built into the
 * program. Thread: any, static data. */
#ifndef TALLY_PROTO_OPENAPI_H
#define TALLY_PROTO_OPENAPI_H

#include <stddef.h>

/* Not NUL-terminated. */
extern const char openapi_text[];
size_t openapi_bytes(void);

#endif
