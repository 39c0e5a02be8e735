/* What a request's header must look like before anybody believes it: the strictness that keeps
 * two parsers in a row (a proxy's and ours) from disagreeing about where a request ends, and
 * the few fields this service reads. Pure: is fed one field at a time, knows no HTTP library.
 *
 *     door_init(&door, http_1_1);
 *     door_field(&door, name, name_bytes, value, value_bytes)   for every field
 *     if (door_finish(&door, &err) != STATUS_OK) ...            refuse, and close if
 * door.unframed
 *
 * Field names with a byte that no token has (a space before the colon, a folded line that the
 * library glued to the name), control bytes in values, two Content-Lengths or one that is no
 * number, Transfer-Encoding next to Content-Length or other than one `chunked`: refused.
 * Thread: any, one at a time per door. */
#ifndef TALLY_SERVER_DOOR_H
#define TALLY_SERVER_DOOR_H

#include "proto/codec.h"
#include "proto/status.h"
#include "server/sched/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What Content-Type says; DOOR_MEDIA_NONE also for curl's x-www-form-urlencoded default. */
enum door_media {
    DOOR_MEDIA_NONE,
    DOOR_MEDIA_JSON,
    DOOR_MEDIA_RAW,
    DOOR_MEDIA_NPY,
    DOOR_MEDIA_OTHER
};

struct door {
    struct error error; /* first thing wrong */
    bool http_1_1;
    bool unframed;          /* where the request ends is in doubt: close after the answer */
    bool chunked;           /* Transfer-Encoding: chunked */
    bool expect_continue;   /* the client waits for 100 before it sends its body */
    int64_t content_length; /* -1: none given */
    int64_t head_bytes;     /* Inference-Header-Content-Length, -1: none given */
    uint64_t timeout_ms;    /* X-Request-Timeout-Ms, 0: none given */
    enum door_media media;
    enum coding coding;        /* Content-Encoding */
    enum coding accept_coding; /* the only coding Accept-Encoding names, else identity */
    unsigned accept_formats;   /* bit per enum codec_format that Accept names */
    const char *request_id;    /* X-Request-Id if sane, else NULL; borrowed */
    const char *media_text;    /* Content-Type as it came, for the refusal; borrowed */
    unsigned seen;             /* private: fields met, to find doubles */
    int codings;               /* private: codings named by Accept-Encoding */
};

void door_init(struct door *door, bool http_1_1);

/* One header field; value is NUL-terminated, both live as long as the door is read. */
void door_field(struct door *door, const char *name, size_t name_bytes, const char *value,
                size_t value_bytes);

/* All fields were seen. err: INVALID_REQUEST, UNSUPPORTED, UNSUPPORTED_MEDIA, INVALID_ENCODING
 */
MUST_CHECK enum status door_finish(struct door *door, struct error *err);

/* True if a body may follow the header. */
bool door_has_body(const struct door *door);

/* Text of at least one digit and nothing else, at most INT64_MAX; false otherwise. */
bool door_number(const char *text, size_t bytes, int64_t *out);

/* An id that may be echoed: 1..LIMIT_REQUEST_ID printable ASCII characters, no blanks at the
 * ends, no quotes or backslashes. */
bool door_id_sane(const char *text, size_t bytes);

#endif
