/* What a request's header must look like before anybody believes it: the strictness that keeps two
 * parsers in a row (a proxy's and ours) from disagreeing about where a request ends, and the few
 * fields that this service reads. Pure: it is fed one field at a time and knows no HTTP library.
 *
 *     header_check_init(&check, http_1_1, target_bytes, limit);
 *     header_check_field(&check, name, name_bytes, value, value_bytes)     for every field
 *     if (header_check_finish(&check, &err) != STATUS_OK) ...
 *         refuse; if check.unframed, close the connection, too
 *
 * Refused are field names with a byte that no token has (a space before the colon), control bytes
 * in values, lines that continue others or have no name, two Content-Lengths or one that is no
 * number, Transfer-Encoding next to Content-Length or other than one `chunked`, a Host that names
 * none; and more bytes of target, names and values than the limit.
 * Thread: any, one at a time for each check. */
#ifndef TALLY_SERVER_HEADER_CHECK_H
#define TALLY_SERVER_HEADER_CHECK_H

#include "proto/codec.h"
#include "proto/status.h"
#include "server/sched/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HEADER_LIST = 8,         /* fields of one name that are kept; each may be a list, too */
    HEADER_MEDIA_OTHER = -1, /* none of enum codec_format */
    HEADER_CODING_ANY = 3    /* "*", behind those of enum coding */
};

/* What fields of one name said; borrowed. */
struct header_list {
    const char *texts[HEADER_LIST]; /* as far as there is room the last ones */
    size_t count;                   /* how many they are */
    size_t came;
};

struct header_check {
    bool http_1_1;
    size_t bytes;              /* of target, names and values that came */
    size_t limit;              /* of these bytes */
    bool unframed;             /* where the request ends is in doubt: close after the answer */
    bool chunked;              /* Transfer-Encoding: chunked */
    bool expect_continue;      /* the client waits for 100 before it sends its body */
    int64_t content_length;    /* -1: none given */
    int64_t head_bytes;        /* Inference-Header-Content-Length, -1: none given */
    int64_t carry_bytes;       /* Tally-Carry-Length, 0: none given */
    int64_t offsets_bytes;     /* Tally-Offsets-Length, 0: none given */
    int64_t timeout_ms;        /* X-Request-Timeout-Ms, 0: none given */
    bool high;                 /* X-Request-Priority: high */
    int media;                 /* enum codec_format of Content-Type; JSON: there is none */
    enum coding coding;        /* Content-Encoding */
    enum coding accept_coding; /* what Accept-Encoding wants the answer packed with */
    bool no_coding;            /* Accept-Encoding leaves none, not even identity */
    unsigned accept_formats;   /* bit per enum codec_format that Accept names */
    bool accept_html;          /* Accept names text/html, as good as JSON: a browser */
    const char *if_none_match; /* as it came, else NULL; borrowed */
    const char *request_id;    /* X-Request-Id; borrowed */
    size_t request_id_bytes;   /* 0: there is none, or no sane one */
    const char *authorization; /* Authorization, NULL if there is none; borrowed */
    struct header_list forwarded; /* X-Forwarded-For */
    bool proxied; /* another field that only proxies send: the client may be anywhere */
    struct header_list traceparent;
    struct header_list tracestate;
    const char *origin;       /* Origin, NULL if there is none; borrowed */
    const char *asked_method; /* Access-Control-Request-Method: with OPTIONS a preflight */
    const char *host;         /* Host, NULL if there is none; borrowed */
    const char *media_text;   /* Content-Type as it came, for the refusal; borrowed */
    unsigned seen;            /* private: fields met, to find doubles */
    /* private: Accept-Encoding's q of each and of "*", plus one; 0: it is not named */
    unsigned qualities[HEADER_CODING_ANY + 1];
    int codings;           /* private: how many it names and does not refuse */
    unsigned html_quality; /* private: of text/html in Accept, 0: not wanted */
    unsigned json_quality; /* private: the same of JSON */
    struct error error;    /* first thing wrong; last, as it is not cleared whole */
};

void header_check_init(struct header_check *check, bool http_1_1, size_t target_bytes,
                       size_t limit);

/* One header field; value is NUL-terminated, both live as long as the check is read. */
void header_check_field(struct header_check *check, const char *name, size_t name_bytes,
                        const char *value, size_t value_bytes);

/* A line of the header was read as something else than the field that it is. */
void header_check_odd_line(struct header_check *check);

/* All fields were seen.
 * err   INVALID_REQUEST, INVALID_FIELD, UNSUPPORTED, UNSUPPORTED_MEDIA, HEADERS_TOO_LARGE */
MUST_CHECK enum status header_check_finish(struct header_check *check, struct error *err);

/* True if a body may follow the header. */
static inline bool header_check_has_body(const struct header_check *check)
{
    return check->chunked || check->content_length > 0 || check->unframed;
}

/* An id that may be echoed: 1..LIMIT_REQUEST_ID printable ASCII characters, no blanks at the
 * ends, no quotes or backslashes. */
bool header_check_id_sane(const char *text, size_t bytes);

#endif
