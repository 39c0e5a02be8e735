/* POSTs JSON to one http:// URL, each text over a connection of its own. It has what the tracer
 * needs of HTTP/1.1, and no TLS, no proxy, no redirect.
 *
 * Nothing that the other side does is waited for beyond the deadline of the call, but name
 * resolution, which has bounds of its own (resolv.conf). Nor does it take more memory or work than
 * an answer of honest size: its head has 8 KiB at most, and its body is not read.
 * Thread: one at a time. */
#ifndef TALLY_SERVER_HTTP_POST_H
#define TALLY_SERVER_HTTP_POST_H

#include "proto/status.h"

#include <stddef.h>
#include <stdint.h>

struct http_post; /* opaque */

/* path   of a URL that has none
 * The status is INVALID_FIELD for what is no http:// URL, or OUT_OF_MEMORY. */
MUST_CHECK enum status http_post_create(const char *url, const char *path,
                                        struct http_post **out);
void http_post_destroy(struct http_post *post); /* NULL is fine */

/* NULL: it was answered with 2xx; else why not, valid until the next call. The deadline, by the
 * monotonic clock, may be moved by another thread: that is seen within a tenth of a second. */
MUST_CHECK const char *http_post_send(struct http_post *post, const char *text, size_t bytes,
                                      const _Atomic uint64_t *deadline_ns);

#endif
