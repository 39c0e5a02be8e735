/* The check of a request's header and the parser of the fields that this service reads. The
 * check ensures that a proxy's parser and this one agree on the end of a request. Pure: the
 * check gets one field at a time, and uses no HTTP library.
 *
 *     header_check_init(&check, http_1_1, target_bytes, limit);
 *     header_check_field(&check, name, name_bytes, value, value_bytes)     for every field
 *     if (header_check_finish(&check, &err) != STATUS_OK) ...
 *         refuse; if check.unframed, close the connection, too
 *
 * The check refuses: a field name with a byte that is not allowed in a token (such as a space
 * before the colon); a control byte in a value; a line that continues another line or has no
 * name; two Content-Lengths, or a value that is not a number; Transfer-Encoding together with
 * Content-Length, or with a value other than a single `chunked`; no Host, or a value that is
 * not a host; more bytes of target, names and values than the limit. Thread: any, one at a time
 * for each check. */
#ifndef TALLY_SERVER_HEADER_CHECK_H
#define TALLY_SERVER_HEADER_CHECK_H

#include "proto/codec.h"
#include "proto/status.h"
#include "server/sched/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HEADER_LIST = 8, /* limit of the kept fields of one name; each field may be a list */
    HEADER_MEDIA_OTHER = -1, /* a media type outside enum codec_format */
    HEADER_CODING_ANY = 3    /* index of "*" in qualities[]; the codings come before it */
};

/* Values of the fields of one name. */
struct header_list {
    const char *texts[HEADER_LIST]; /* borrowed: the last `count` values */
    size_t count;
    size_t total; /* number of fields in the header */
};

struct header_check {
    bool http_1_1;
    size_t bytes; /* bytes of target, names and values so far */
    size_t limit; /* limit of `bytes` */
    /* the end of the request is not certain: close the connection after the answer */
    bool unframed;
    bool chunked;           /* Transfer-Encoding: chunked */
    bool expect_continue;   /* the client waits for a 100 before it sends its body */
    int64_t content_length; /* Content-Length; -1: none */
    int64_t head_bytes;     /* Inference-Header-Content-Length; -1: none */
    int64_t carry_bytes;    /* Tally-Carry-Length; 0: none */
    int64_t offsets_bytes;  /* Tally-Offsets-Length; 0: none */
    int64_t timeout_ms;     /* X-Request-Timeout-Ms; 0: none */
    bool high;              /* X-Request-Priority: high */
    int media;              /* enum codec_format of Content-Type; JSON without the field */
    bool form; /* Content-Type is that of a form, which curl sends by default; media is JSON */
    enum coding coding;           /* Content-Encoding */
    enum coding accept_coding;    /* coding of the answer by Accept-Encoding */
    bool no_coding;               /* Accept-Encoding refuses all codings, identity included */
    unsigned accept_formats;      /* a bit for each enum codec_format in Accept */
    bool accept_html;             /* Accept gives text/html at least the quality of JSON */
    const char *if_none_match;    /* If-None-Match; borrowed; NULL: none */
    const char *request_id;       /* X-Request-Id; borrowed */
    size_t request_id_bytes;      /* 0: no X-Request-Id, or one that is not echoed */
    const char *authorization;    /* Authorization; borrowed; NULL: none */
    struct header_list forwarded; /* X-Forwarded-For */
    /* the header has another field that only proxies send: the client may be on any machine */
    bool proxied;
    struct header_list traceparent;
    struct header_list tracestate;
    const char *origin;       /* Origin; borrowed; NULL: none */
    const char *asked_method; /* Access-Control-Request-Method, of a preflight; borrowed */
    const char *host;         /* Host; borrowed; NULL: none */
    const char *media_text;   /* Content-Type, for the refusal; borrowed */
    unsigned seen;            /* private: a bit for each row of `fields` that occurred */
    /* private: quality of each coding and of "*" in Accept-Encoding, plus 1; 0: not named */
    unsigned qualities[HEADER_CODING_ANY + 1];
    int codings;           /* private: number of codings that Accept-Encoding allows by name */
    unsigned html_quality; /* private: quality of text/html in Accept; 0: not allowed */
    unsigned json_quality; /* private: quality of JSON in Accept; 0: not allowed */
    struct error error;    /* first error; last member, because its texts are not cleared */
};

void header_check_init(struct header_check *check, bool http_1_1, size_t target_bytes,
                       size_t limit);

/* Check one header field. The value is NUL-terminated. The check borrows name and value as long
 * as it is used. */
void header_check_field(struct header_check *check, const char *name, size_t name_bytes,
                        const char *value, size_t value_bytes);

/* Refuse the header, because the HTTP library misread one of its lines. */
void header_check_odd_line(struct header_check *check);

/* End the check after all fields.
 * err   INVALID_REQUEST, INVALID_FIELD, UNSUPPORTED, UNSUPPORTED_MEDIA, HEADERS_TOO_LARGE */
MUST_CHECK enum status header_check_finish(struct header_check *check, struct error *err);

/* True if a body may follow the header. */
static inline bool header_check_has_body(const struct header_check *check)
{
    return check->chunked || check->content_length > 0 || check->unframed;
}

/* True if the id may be copied to the answer: 1..LIMIT_REQUEST_ID printable ASCII characters,
 * without blanks at the ends, quotes or backslashes. */
bool header_check_id_sane(const char *text, size_t bytes);

#endif
