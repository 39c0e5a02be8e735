/* Sends JSON with POST to one http:// URL, with a new connection for each text. The module
 * implements the part of HTTP/1.1 that the tracer needs: no TLS, no proxy, no redirect.
 *
 * Every step ends at the deadline of the call, except name resolution, which has its own
 * timeouts (resolv.conf). Memory and work do not depend on the server: the head of an answer
 * has 8 KiB at most, and its body is not read. Thread: one at a time. */
#ifndef TALLY_SERVER_HTTP_POST_H
#define TALLY_SERVER_HTTP_POST_H

#include "proto/status.h"

#include <stddef.h>
#include <stdint.h>

struct http_post; /* opaque */

/* path   used if the URL has no path
 * returns INVALID_FIELD if `url` is not an http:// URL; OUT_OF_MEMORY */
MUST_CHECK enum status http_post_create(const char *url, const char *path,
                                        struct http_post **out);
void http_post_destroy(struct http_post *post); /* NULL is fine */

/* Send a text. Returns NULL if the answer is 2xx, else the reason, valid until the next call.
 * The deadline is a time of the monotonic clock; another thread may change it, with effect
 * after at most a tenth of a second. */
MUST_CHECK const char *http_post_send(struct http_post *post, const char *text, size_t bytes,
                                      const _Atomic uint64_t *deadline_ns);

#endif
