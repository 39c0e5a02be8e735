/* See header_check.h. */
#include "server/http/header_check.h"

#include "proto/digits.h"
#include "proto/text.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Bytes of a token (RFC 9110, 5.6.2) besides letters and digits. */
#define TOKEN_BYTES "!#$%&'*+-.^_`|~"

/* Bytes of a host's name besides letters and digits: unreserved, sub-delims, pct-encoded (RFC
 * 3986, 3.2.2). */
#define HOST_BYTES "-._~!$&'()*+,;=%"

/* Returns true for a value of "Host = uri-host [ ":" port ]" (RFC 9110, 7.2). Host and port may
 * be empty. */
static bool is_host(const char *text, size_t bytes)
{
    size_t name = text_span(text, bytes, HOST_BYTES);
    if (bytes > 0 && text[0] == '[') {
        name = 1 + text_span(text + 1, bytes - 1, HOST_BYTES ":");
        if (name == 1 || name == bytes || text[name] != ']') {
            return false;
        }
        name++;
    }
    return name == bytes ||
           (text[name] == ':' && strspn(text + name + 1, "0123456789") >= bytes - name - 1);
}

/* Parse decimal digits. Returns false for other text, or a number above INT64_MAX. */
static bool parse_number(const char *text, size_t bytes, int64_t *out)
{
    uint64_t value = 0;
    if (!digits_are_all(text, bytes, &value) || value > INT64_MAX) {
        return false;
    }
    *out = (int64_t)value;
    return true;
}

bool header_check_id_sane(const char *text, size_t bytes)
{
    if (bytes == 0 || bytes > LIMIT_REQUEST_ID || text[0] == ' ' || text[bytes - 1] == ' ') {
        return false;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\') {
            return false;
        }
    }
    return true;
}

/* Refuse a header that does not define clearly where the body ends. The connection is closed
 * after the answer. */
static void refuse_framing(struct header_check *check, enum status status, const char *sentence)
{
    check->unframed = true;
    (void)error_set(&check->error, status, "%s", sentence);
}

/* One element of a comma-separated list, without its parameters. */
struct item {
    const char *text;
    size_t bytes;
    unsigned quality; /* q, in thousandths; 0: refused */
};

enum {
    WHOLE_QUALITY = 1000
};

/* Parse a qvalue = ( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] ) (RFC 9110, 12.4.2).
 * Returns its thousandths; WHOLE_QUALITY for other text. */
static unsigned read_quality(const char *text)
{
    unsigned quality = 0;
    unsigned unit = WHOLE_QUALITY / 10;
    const char *at = text + 1;
    if (text[0] != '0') {
        return WHOLE_QUALITY;
    }
    for (at += *at == '.'; isdigit((unsigned char)*at) != 0; at++) {
        quality += unit * (unsigned)(*at - '0');
        unit /= 10;
    }
    return *at == '\0' || strchr("; \t,", *at) != NULL ? quality : WHOLE_QUALITY;
}

/* Returns the quality among the parameters of a list element. */
static unsigned find_quality(const char *text, size_t bytes)
{
    for (size_t i = 1; i + 2 < bytes; i++) {
        if ((text[i] == 'q' || text[i] == 'Q') && text[i + 1] == '=' &&
            (text[i - 1] == ';' || text[i - 1] == ' ' || text[i - 1] == '\t')) {
            return read_quality(text + i + 2);
        }
    }
    return WHOLE_QUALITY;
}

/* Get the next element of the list at *cursor. Returns false at the end of the list. */
static bool next_item(const char **cursor, struct item *item)
{
    const char *text = *cursor + strspn(*cursor, " \t,");
    if (*text == '\0') {
        return false;
    }
    size_t whole = strcspn(text, ",");
    size_t bytes = strcspn(text, ",; \t");
    item->text = text;
    item->bytes = bytes;
    item->quality = find_quality(text + bytes, whole - bytes);
    *cursor = text + whole;
    return true;
}

static bool item_is(const struct item *item, const char *name)
{
    return strlen(name) == item->bytes && strncasecmp(item->text, name, item->bytes) == 0;
}

/* Returns the enum codec_format of a media type, or HEADER_MEDIA_OTHER. */
static int media_of(const struct item *item)
{
    static const char *const types[] = {[CODEC_FORMAT_JSON] = "application/json",
                                        [CODEC_FORMAT_RAW] = "application/octet-stream",
                                        [CODEC_FORMAT_NPY] = "application/x-npy"};
    for (size_t format = 0; format < ARRAY_COUNT(types); format++) {
        if (item_is(item, types[format])) {
            return (int)format;
        }
    }
    return HEADER_MEDIA_OTHER;
}

/* A field's value; NUL-terminated. */
struct value {
    const char *text;
    size_t bytes;
};

static void read_content_length(struct header_check *check, struct value value)
{
    if (!parse_number(value.text, value.bytes, &check->content_length)) {
        refuse_framing(check, STATUS_INVALID_REQUEST,
                       "the Content-Length header is not a decimal number below 2^63");
    }
}

static void read_transfer_encoding(struct header_check *check, struct value value)
{
    if (strcasecmp(value.text, "chunked") != 0) {
        refuse_framing(
            check, STATUS_UNSUPPORTED,
            "the only Transfer-Encoding understood is a single \"chunked\"; send gzip or "
            "deflate as Content-Encoding");
        return;
    }
    check->chunked = true;
}

/* Read a single media type. A list, such as "application/json, text/plain", is not a media
 * type. */
static void read_content_type(struct header_check *check, struct value value)
{
    struct item item;
    const char *cursor = value.text;
    check->media_text = value.text;
    if (value.text[strspn(value.text, " \t")] != '\0') { /* an empty value is ignored */
        check->media = HEADER_MEDIA_OTHER;
    }
    if (next_item(&cursor, &item)) {
        const char *behind = item.text + item.bytes;
        bool list = behind[strspn(behind, " \t")] == ',';
        check->form = !list && item_is(&item, "application/x-www-form-urlencoded");
        check->media = list          ? HEADER_MEDIA_OTHER
                       : check->form ? CODEC_FORMAT_JSON
                                     : media_of(&item);
    }
}

static void read_content_encoding(struct header_check *check, struct value value)
{
    struct item item;
    const char *cursor = value.text;
    while (next_item(&cursor, &item)) {
        bool first = check->coding == CODING_IDENTITY;
        if (item_is(&item, "identity")) {
            continue;
        }
        if (first && (item_is(&item, "gzip") || item_is(&item, "x-gzip"))) {
            check->coding = CODING_GZIP;
        } else if (first && item_is(&item, "deflate")) {
            check->coding = CODING_DEFLATE;
        } else {
            (void)error_set_field(
                &check->error, STATUS_UNSUPPORTED_MEDIA, "Content-Encoding",
                "Content-Encoding is \"%.64s\", expected one of gzip, deflate (zlib) and "
                "identity: compress the body once, by gzip, and send Content-Encoding: gzip, "
                "or send it as it is, without this header",
                value.text);
            return;
        }
    }
}

static void read_accept(struct header_check *check, struct value value)
{
    struct item item;
    while (next_item(&value.text, &item)) {
        const int media = media_of(&item);
        if (media != HEADER_MEDIA_OTHER && item.quality > 0) {
            check->accept_formats |= 1U << media;
        }
        if (item_is(&item, "text/html")) {
            check->html_quality = item.quality;
        } else if (media == CODEC_FORMAT_JSON || item_is(&item, "application/*") ||
                   item_is(&item, "*/*")) {
            check->json_quality =
                item.quality > check->json_quality ? item.quality : check->json_quality;
        }
    }
    check->accept_html = check->html_quality > 0 && check->html_quality >= check->json_quality;
}

static void read_accept_encoding(struct header_check *check, struct value value)
{
    struct item item;
    while (next_item(&value.text, &item)) {
        check->codings += item.quality > 0;
        if (item_is(&item, "gzip") || item_is(&item, "x-gzip")) {
            check->qualities[CODING_GZIP] = item.quality + 1;
        } else if (item_is(&item, "deflate")) {
            check->qualities[CODING_DEFLATE] = item.quality + 1;
        } else if (item_is(&item, "identity")) {
            check->qualities[CODING_IDENTITY] = item.quality + 1;
        } else if (item_is(&item, "*")) {
            check->qualities[HEADER_CODING_ANY] = item.quality + 1;
        }
    }
}

/* "The asterisk "*" symbol in an Accept-Encoding field matches any available content coding not
 * explicitly listed in the field" (RFC 9110, 12.5.3). */
static unsigned coding_quality(const struct header_check *check, enum coding coding)
{
    const unsigned *named = check->qualities;
    return named[coding] > 0              ? named[coding] - 1
           : named[HEADER_CODING_ANY] > 0 ? named[HEADER_CODING_ANY] - 1
           : coding == CODING_IDENTITY    ? WHOLE_QUALITY
                                          : 0;
}

/* Choose the coding of the answer. An answer is compressed in two cases: if Accept-Encoding
 * names only one coding, or if Accept-Encoding refuses identity (then the coding with the
 * higher quality is chosen). A client that names several codings usually accepts them without
 * preferring them, and compression is expensive. */
static void choose_coding(struct header_check *check)
{
    const unsigned *named = check->qualities;
    const unsigned gzip = coding_quality(check, CODING_GZIP);
    const unsigned deflate = coding_quality(check, CODING_DEFLATE);
    const bool must = coding_quality(check, CODING_IDENTITY) == 0;
    const bool one =
        check->codings == 1 && (named[CODING_GZIP] > 1 || named[CODING_DEFLATE] > 1);
    check->no_coding = must && gzip == 0 && deflate == 0;
    if ((must && !check->no_coding) || one) {
        check->accept_coding = deflate > gzip ? CODING_DEFLATE : CODING_GZIP;
    }
}

/* Returns the length of the value without trailing blanks. libmicrohttpd before 1.0 does not
 * remove them. */
static size_t without_blanks(struct value value)
{
    return text_trimmed(value.text, value.bytes);
}

static void read_priority(struct header_check *check, struct value value)
{
    const size_t bytes = without_blanks(value);
    check->high = bytes == 4 && memcmp(value.text, "high", 4) == 0;
    if (!check->high && !(bytes == 6 && memcmp(value.text, "normal", 6) == 0)) {
        (void)error_set_field(&check->error, STATUS_INVALID_FIELD, "X-Request-Priority",
                              "X-Request-Priority is \"%.40s\", expected high or normal",
                              value.text);
    }
}

/* Other expectations are ignored, as RFC 9110 allows. */
static void read_expect(struct header_check *check, struct value value)
{
    check->expect_continue = check->expect_continue ||
                             (check->http_1_1 && strcasecmp(value.text, "100-continue") == 0);
}

static void read_request_id(struct header_check *check, struct value value)
{
    const size_t bytes = without_blanks(value);
    check->request_id = value.text;
    check->request_id_bytes = header_check_id_sane(value.text, bytes) ? bytes : 0;
}

/* "A server MUST respond with a 400 (Bad Request) status code ... to any request message that
 * contains ... a Host header field with an invalid field value" (RFC 9112, 3.2). */
static void read_host(struct header_check *check, struct value value)
{
    check->host = value.text;
    if (!is_host(value.text, without_blanks(value))) {
        (void)error_set_field(&check->error, STATUS_INVALID_REQUEST, "Host",
                              "Host is \"%.100s\", expected the name or address of a host, and "
                              "perhaps a colon and its port",
                              value.text);
    }
}

static void read_proxy_field(struct header_check *check, struct value value)
{
    (void)value;
    check->proxied = true;
}

/* A row for each field that is read. Either a function reads the value, or the value is stored
 * in struct header_check: as a text, in the list of all values of that name, or as a whole
 * number. An offset of 0 means that the value is not stored in this form. */
static const struct field {
    const char *name;
    size_t bytes;
    bool once; /* a second field of this name is refused */
    void (*read)(struct header_check *check, struct value value);
    size_t text;          /* offset of a const char * */
    size_t list;          /* offset of a struct header_list */
    size_t number;        /* offset of an int64_t */
    int64_t least;        /* minimum allowed number */
    const char *expected; /* description of the expected number, for the refusal */
} fields[] = {
#define NAME(text)   .name = (text), .bytes = sizeof(text) - 1
#define KEPT(member) offsetof(struct header_check, member)
    {NAME("Content-Length"), .once = true, .read = read_content_length},
    {NAME("Transfer-Encoding"), .once = true, .read = read_transfer_encoding},
    {NAME("Expect"), .read = read_expect},
    {NAME("Content-Type"), .once = true, .read = read_content_type},
    {NAME("Content-Encoding"), .once = true, .read = read_content_encoding},
    {NAME("Accept"), .read = read_accept},
    {NAME("Accept-Encoding"), .read = read_accept_encoding},
    {NAME("X-Request-Id"), .read = read_request_id},
    {NAME("X-Request-Timeout-Ms"), .once = true, .number = KEPT(timeout_ms), .least = 1,
     .expected = "a whole number of milliseconds, 1 to 2^63-1"},
    {NAME("X-Request-Priority"), .once = true, .read = read_priority},
    {NAME("Inference-Header-Content-Length"), .once = true, .number = KEPT(head_bytes),
     .expected = "the number of bytes of the JSON part"},
    {NAME("Tally-Carry-Length"), .once = true, .number = KEPT(carry_bytes),
     .expected = "the number of bytes of the carry that the body begins with"},
    {NAME("Tally-Offsets-Length"), .once = true, .number = KEPT(offsets_bytes), .least = 8,
     .expected = "the number of bytes of the offsets that the body begins with, eight each"},
    {NAME("traceparent"), .list = KEPT(traceparent)},
    {NAME("tracestate"), .list = KEPT(tracestate)},
    {NAME("X-Forwarded-For"), .list = KEPT(forwarded)},
    {NAME("Forwarded"), .read = read_proxy_field}, /* RFC 7239 */
    {NAME("Via"), .read = read_proxy_field},
    {NAME("X-Real-IP"), .read = read_proxy_field},
    {NAME("X-Forwarded-Host"), .read = read_proxy_field},
    {NAME("X-Forwarded-Port"), .read = read_proxy_field},
    {NAME("X-Forwarded-Proto"), .read = read_proxy_field},
    {NAME("X-Forwarded-Server"), .read = read_proxy_field},
    {NAME("Host"), .once = true, .read = read_host},
    {NAME("Authorization"), .once = true, .text = KEPT(authorization)},
    {NAME("If-None-Match"), .text = KEPT(if_none_match)},
    {NAME("Origin"), .text = KEPT(origin)},
    {NAME("Access-Control-Request-Method"), .text = KEPT(asked_method)},
#undef NAME
#undef KEPT
};

static_assert(ARRAY_COUNT(fields) <= 32, "header_check.seen has a bit for each");

/* If there are too many values, keep the last ones: the nearest proxies have added them. */
static void add_to_list(struct header_list *list, const char *text)
{
    if (list->count == HEADER_LIST) {
        memmove(list->texts, list->texts + 1, sizeof list->texts - sizeof list->texts[0]);
        list->count--;
    }
    list->texts[list->count++] = text;
    list->total++;
}

static void read_field(struct header_check *check, const struct field *field,
                       struct value value)
{
    /* at most one of the three offsets is not 0 */
    char *kept = (char *)check + (field->text | field->list | field->number);
    if (field->read != NULL) {
        field->read(check, value);
    } else if (field->text != 0) {
        memcpy(kept, &value.text, sizeof value.text);
    } else if (field->list != 0) {
        add_to_list((struct header_list *)(void *)kept, value.text);
    } else {
        int64_t *number = (int64_t *)(void *)kept;
        if (!parse_number(value.text, without_blanks(value), number) ||
            *number < field->least) {
            (void)error_set_field(&check->error, STATUS_INVALID_FIELD, field->name,
                                  "%s is \"%.40s\", expected %s", field->name, value.text,
                                  field->expected);
        }
    }
}

void header_check_init(struct header_check *check, bool http_1_1, size_t target_bytes,
                       size_t limit)
{
    /* The large texts of the error are not cleared: the status says whether they are valid. */
    memset(check, 0, offsetof(struct header_check, error));
    check->error.status = STATUS_OK;
    check->http_1_1 = http_1_1;
    check->bytes = target_bytes;
    check->limit = limit;
    check->content_length = -1;
    check->head_bytes = -1;
    check->media_text = "";
}

void header_check_field(struct header_check *check, const char *name, size_t name_bytes,
                        const char *value, size_t value_bytes)
{
    check->bytes += name_bytes + value_bytes;
    if (name_bytes == 0 || text_span(name, name_bytes, TOKEN_BYTES) < name_bytes) {
        refuse_framing(
            check, STATUS_INVALID_REQUEST,
            "a header name holds a byte that is not allowed there (a blank before the colon?)");
        return;
    }
    if (!text_is_line(value, value_bytes)) {
        refuse_framing(check, STATUS_INVALID_REQUEST,
                       "a header value holds a control character");
        return;
    }
    size_t at = 0;
    while (fields[at].bytes != name_bytes ||
           strncasecmp(fields[at].name, name, name_bytes) != 0) {
        if (++at == ARRAY_COUNT(fields)) {
            return;
        }
    }
    const struct field *field = &fields[at];
    if (field->once && (check->seen & (1U << at)) != 0) {
        check->unframed = true;
        (void)error_set_field(&check->error, STATUS_INVALID_REQUEST, field->name,
                              "the header %s occurs more than once", field->name);
        return;
    }
    check->seen |= 1U << at;
    read_field(check, field, (struct value){value, value_bytes});
}

void header_check_odd_line(struct header_check *check)
{
    refuse_framing(check, STATUS_INVALID_REQUEST,
                   "a line of the header continues the one before it, has no name, or holds a "
                   "NUL; send each field on one line, as name: value");
}

enum status header_check_finish(struct header_check *check, struct error *err)
{
    if (check->http_1_1 && check->host == NULL) {
        (void)error_set_field(&check->error, STATUS_INVALID_REQUEST, "Host",
                              "the header Host is missing, which HTTP/1.1 requires");
    }
    if (check->chunked && check->content_length >= 0) {
        refuse_framing(
            check, STATUS_INVALID_REQUEST,
            "the headers have both Transfer-Encoding and Content-Length; send one of them");
    }
    if (check->chunked && !check->http_1_1) {
        refuse_framing(check, STATUS_INVALID_REQUEST,
                       "Transfer-Encoding does not exist in HTTP/1.0; send Content-Length");
    }
    if (check->bytes > check->limit) {
        (void)error_set(&check->error, STATUS_HEADERS_TOO_LARGE,
                        "the request's target and headers have %zu bytes, over %zu, the limit "
                        "(--max-header-bytes); send fewer or shorter ones",
                        check->bytes, check->limit);
    }
    choose_coding(check);
    if (check->error.status == STATUS_OK) {
        return STATUS_OK;
    }
    *err = check->error;
    return check->error.status;
}
