/* Checks one header; see header_check.h for what and why. */
#include "server/http/header_check.h"

#include "proto/digits.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum field {
    FIELD_HOST,
    FIELD_CONTENT_LENGTH,
    FIELD_TRANSFER_ENCODING,
    FIELD_EXPECT,
    FIELD_CONTENT_TYPE,
    FIELD_CONTENT_ENCODING,
    FIELD_ACCEPT,
    FIELD_ACCEPT_ENCODING,
    FIELD_IF_NONE_MATCH,
    FIELD_REQUEST_ID,
    FIELD_TIMEOUT,
    FIELD_PRIORITY,
    FIELD_HEAD_BYTES,
    FIELD_CARRY_BYTES,
    FIELD_AUTHORIZATION,
    FIELD_FORWARDED,
    FIELD_ORIGIN,
    FIELD_ASKED_METHOD,
    FIELD_TRACEPARENT,
    FIELD_TRACESTATE,
    FIELD_COUNT
};

static const struct {
    const char *name;
    size_t bytes;
    bool once; /* a second one is refused */
} fields[FIELD_COUNT] = {
#define ROW(text, single)              \
    {                                  \
        text, sizeof(text) - 1, single \
    }
    [FIELD_HOST] = ROW("Host", true),
    [FIELD_CONTENT_LENGTH] = ROW("Content-Length", true),
    [FIELD_TRANSFER_ENCODING] = ROW("Transfer-Encoding", true),
    [FIELD_EXPECT] = ROW("Expect", false),
    [FIELD_CONTENT_TYPE] = ROW("Content-Type", true),
    [FIELD_CONTENT_ENCODING] = ROW("Content-Encoding", true),
    [FIELD_ACCEPT] = ROW("Accept", false),
    [FIELD_ACCEPT_ENCODING] = ROW("Accept-Encoding", false),
    [FIELD_IF_NONE_MATCH] = ROW("If-None-Match", false),
    [FIELD_REQUEST_ID] = ROW("X-Request-Id", false),
    [FIELD_TIMEOUT] = ROW("X-Request-Timeout-Ms", true),
    [FIELD_PRIORITY] = ROW("X-Request-Priority", true),
    [FIELD_HEAD_BYTES] = ROW("Inference-Header-Content-Length", true),
    [FIELD_CARRY_BYTES] = ROW("Tally-Carry-Length", true),
    [FIELD_AUTHORIZATION] = ROW("Authorization", true),
    [FIELD_FORWARDED] = ROW("X-Forwarded-For", false),
    [FIELD_ORIGIN] = ROW("Origin", false),
    [FIELD_ASKED_METHOD] = ROW("Access-Control-Request-Method", false),
    [FIELD_TRACEPARENT] = ROW("traceparent", false),
    [FIELD_TRACESTATE] = ROW("tracestate", false),
#undef ROW
};

/* RFC 9110 token characters, besides letters and digits. */
static bool is_token_byte(unsigned char byte)
{
    return isalnum(byte) != 0 || (byte != 0 && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

static bool name_is_token(const char *name, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (!is_token_byte((unsigned char)name[i])) {
            return false;
        }
    }
    return bytes > 0;
}

static bool value_is_clean(const char *value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)value[i];
        if ((byte < ' ' && byte != '\t') || byte == 0x7f) {
            return false;
        }
    }
    return true;
}

static enum field field_find(const char *name, size_t bytes)
{
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (fields[i].bytes == bytes && strncasecmp(fields[i].name, name, bytes) == 0) {
            return (enum field)i;
        }
    }
    return FIELD_COUNT;
}

/* Text of at least one digit and nothing else, at most INT64_MAX; false otherwise. */
static bool parse_number(const char *text, size_t bytes, int64_t *out)
{
    uint64_t value = 0;
    bool fits = false;
    size_t digits = digits_read(text, bytes, &value, &fits);
    if (digits == 0 || digits < bytes || !fits || value > INT64_MAX) {
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

/* The framing of the body is in doubt: nothing after this request may be believed. */
static void unframed(struct header_check *check, enum status status, const char *sentence)
{
    check->unframed = true;
    (void)error_set(&check->error, status, "%s", sentence);
}

/* One element of a comma-separated list, without its parameters. */
struct item {
    const char *text;
    size_t bytes;
    bool refused; /* q=0 */
};

/* True for ";q=0", ";q=0.0", ... among the parameters. */
static bool quality_is_zero(const char *text, size_t bytes)
{
    for (size_t i = 1; i + 2 < bytes; i++) {
        if ((text[i] == 'q' || text[i] == 'Q') && text[i + 1] == '=' &&
            (text[i - 1] == ';' || text[i - 1] == ' ' || text[i - 1] == '\t')) {
            size_t digits = strspn(text + i + 2, "0.");
            return digits > 0 &&
                   (i + 2 + digits >= bytes || strchr("; \t,", text[i + 2 + digits]) != NULL);
        }
    }
    return false;
}

/* Next element of the list at *cursor; false at its end. */
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
    item->refused = quality_is_zero(text + bytes, whole - bytes);
    *cursor = text + whole;
    return true;
}

static bool item_is(const struct item *item, const char *name)
{
    return strlen(name) == item->bytes && strncasecmp(item->text, name, item->bytes) == 0;
}

static enum header_media media_of(const struct item *item)
{
    if (item_is(item, "application/json")) {
        return HEADER_MEDIA_JSON;
    }
    if (item_is(item, "application/octet-stream")) {
        return HEADER_MEDIA_RAW;
    }
    if (item_is(item, "application/x-npy")) {
        return HEADER_MEDIA_NPY;
    }
    return item_is(item, "application/x-www-form-urlencoded") ? HEADER_MEDIA_NONE
                                                              : HEADER_MEDIA_OTHER;
}

static void see_transfer_encoding(struct header_check *check, const char *value)
{
    if (strcasecmp(value, "chunked") != 0) {
        unframed(check, STATUS_UNSUPPORTED,
                 "the only Transfer-Encoding understood is a single \"chunked\"; send gzip or "
                 "deflate as Content-Encoding");
        return;
    }
    check->chunked = true;
}

/* One type: a list of them, "application/json, text/plain", is none. */
static void see_content_type(struct header_check *check, const char *value)
{
    struct item item;
    const char *cursor = value;
    check->media_text = value;
    if (next_item(&cursor, &item)) {
        const char *behind = item.text + item.bytes;
        bool list = behind[strspn(behind, " \t")] == ',';
        check->media = list ? HEADER_MEDIA_OTHER : media_of(&item);
    }
}

static void see_content_encoding(struct header_check *check, const char *value)
{
    struct item item;
    const char *cursor = value;
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
            (void)error_set_field(&check->error, STATUS_UNSUPPORTED_MEDIA, "Content-Encoding",
                                  "Content-Encoding is \"%.64s\"; understood are gzip, deflate "
                                  "(zlib) and identity, one of them",
                                  value);
            return;
        }
    }
}

static void see_accept(struct header_check *check, const char *value)
{
    struct item item;
    while (next_item(&value, &item)) {
        enum header_media media = media_of(&item);
        if (item.refused) {
            continue;
        }
        if (media == HEADER_MEDIA_JSON) {
            check->accept_formats |= 1U << CODEC_FORMAT_JSON;
        } else if (media == HEADER_MEDIA_RAW) {
            check->accept_formats |= 1U << CODEC_FORMAT_RAW;
        } else if (media == HEADER_MEDIA_NPY) {
            check->accept_formats |= 1U << CODEC_FORMAT_NPY;
        } else if (item_is(&item, "text/html")) {
            check->accept_html = true;
        }
    }
}

static void see_accept_encoding(struct header_check *check, const char *value)
{
    struct item item;
    while (next_item(&value, &item)) {
        check->codings++;
        if (item.refused) {
            continue;
        }
        if (item_is(&item, "gzip") || item_is(&item, "x-gzip")) {
            check->accept_coding = CODING_GZIP;
        } else if (item_is(&item, "deflate")) {
            check->accept_coding = CODING_DEFLATE;
        }
    }
}

/* Blanks behind a value are no part of it, but libmicrohttpd before 1.0 leaves them there. */
static size_t without_blanks(const char *value, size_t bytes)
{
    while (bytes > 0 && (value[bytes - 1] == ' ' || value[bytes - 1] == '\t')) {
        bytes--;
    }
    return bytes;
}

/* A number in a field of ours. */
static bool own_number(const char *value, size_t bytes, int64_t *out)
{
    return parse_number(value, without_blanks(value, bytes), out);
}

static void see_timeout(struct header_check *check, const char *value, size_t bytes)
{
    int64_t timeout_ms = 0;
    if (!own_number(value, bytes, &timeout_ms) || timeout_ms == 0) {
        (void)error_set_field(&check->error, STATUS_INVALID_FIELD, "X-Request-Timeout-Ms",
                              "X-Request-Timeout-Ms is \"%.40s\", expected a whole number of "
                              "milliseconds above 0",
                              value);
        return;
    }
    check->timeout_ms = (uint64_t)timeout_ms;
}

static void see_priority(struct header_check *check, const char *value, size_t bytes)
{
    bytes = without_blanks(value, bytes);
    check->high = bytes == 4 && memcmp(value, "high", 4) == 0;
    if (!check->high && !(bytes == 6 && memcmp(value, "normal", 6) == 0)) {
        (void)error_set_field(&check->error, STATUS_INVALID_FIELD, "X-Request-Priority",
                              "X-Request-Priority is \"%.40s\", expected high or normal",
                              value);
    }
}

static void see_head_bytes(struct header_check *check, const char *value, size_t bytes)
{
    if (!own_number(value, bytes, &check->head_bytes)) {
        (void)error_set_field(
            &check->error, STATUS_INVALID_FIELD, "Inference-Header-Content-Length",
            "Inference-Header-Content-Length is \"%.40s\", expected the number "
            "of bytes of the JSON part",
            value);
    }
}

static void see_carry_bytes(struct header_check *check, const char *value, size_t bytes)
{
    if (!own_number(value, bytes, &check->carry_bytes)) {
        (void)error_set_field(&check->error, STATUS_INVALID_FIELD, "Tally-Carry-Length",
                              "Tally-Carry-Length is \"%.40s\", expected the number of bytes "
                              "of the carry that the body begins with",
                              value);
    }
}

static void see(struct header_check *check, enum field field, const char *value, size_t bytes)
{
    switch (field) {
    case FIELD_CONTENT_LENGTH:
        if (!parse_number(value, bytes, &check->content_length)) {
            unframed(check, STATUS_INVALID_REQUEST,
                     "the Content-Length header is not a decimal number below 2^63");
        }
        break;
    case FIELD_TRANSFER_ENCODING:
        see_transfer_encoding(check, value);
        break;
    case FIELD_EXPECT:
        /* Other expectations are ignored, as RFC 9110 allows. */
        check->expect_continue = check->expect_continue ||
                                 (check->http_1_1 && strcasecmp(value, "100-continue") == 0);
        break;
    case FIELD_CONTENT_TYPE:
        see_content_type(check, value);
        break;
    case FIELD_CONTENT_ENCODING:
        see_content_encoding(check, value);
        break;
    case FIELD_ACCEPT:
        see_accept(check, value);
        break;
    case FIELD_ACCEPT_ENCODING:
        see_accept_encoding(check, value);
        break;
    case FIELD_IF_NONE_MATCH:
        check->if_none_match = value;
        break;
    case FIELD_REQUEST_ID:
        check->request_id = header_check_id_sane(value, bytes) ? value : NULL;
        break;
    case FIELD_TIMEOUT:
        see_timeout(check, value, bytes);
        break;
    case FIELD_PRIORITY:
        see_priority(check, value, bytes);
        break;
    case FIELD_HEAD_BYTES:
        see_head_bytes(check, value, bytes);
        break;
    case FIELD_CARRY_BYTES:
        see_carry_bytes(check, value, bytes);
        break;
    case FIELD_AUTHORIZATION:
        check->authorization = value;
        break;
    case FIELD_FORWARDED:
        check->forwarded = value;
        break;
    case FIELD_ORIGIN:
        check->origin = value;
        break;
    case FIELD_ASKED_METHOD:
        check->asks_method = true;
        break;
    case FIELD_TRACEPARENT:
        check->traceparent = value;
        check->traceparents++;
        break;
    case FIELD_TRACESTATE:
        if (check->tracestates < HEADER_TRACESTATES) {
            check->tracestate[check->tracestates] = value;
        }
        check->tracestates++;
        break;
    case FIELD_HOST:
    case FIELD_COUNT:
        break;
    }
}

void header_check_init(struct header_check *check, bool http_1_1)
{
    /* Not the whole record: its error texts are large and guarded by their status. */
    check->error.status = STATUS_OK;
    check->http_1_1 = http_1_1;
    check->unframed = false;
    check->chunked = false;
    check->expect_continue = false;
    check->content_length = -1;
    check->head_bytes = -1;
    check->carry_bytes = 0;
    check->timeout_ms = 0;
    check->high = false;
    check->media = HEADER_MEDIA_NONE;
    check->coding = CODING_IDENTITY;
    check->accept_coding = CODING_IDENTITY;
    check->accept_html = false;
    check->if_none_match = NULL;
    check->accept_formats = 0;
    check->request_id = NULL;
    check->authorization = NULL;
    check->forwarded = NULL;
    check->origin = NULL;
    check->asks_method = false;
    check->traceparents = 0;
    check->tracestates = 0;
    check->media_text = "";
    check->seen = 0;
    check->codings = 0;
}

void header_check_field(struct header_check *check, const char *name, size_t name_bytes,
                        const char *value, size_t value_bytes)
{
    if (!name_is_token(name, name_bytes)) {
        unframed(check, STATUS_INVALID_REQUEST,
                 "a header name holds a byte that is not allowed there (a blank before the "
                 "colon, a folded line?)");
        return;
    }
    if (!value_is_clean(value, value_bytes)) {
        unframed(check, STATUS_INVALID_REQUEST, "a header value holds a control character");
        return;
    }
    enum field field = field_find(name, name_bytes);
    if (field == FIELD_COUNT) {
        return;
    }
    if (fields[field].once && (check->seen & (1U << field)) != 0) {
        check->unframed = true;
        (void)error_set_field(&check->error, STATUS_INVALID_REQUEST, fields[field].name,
                              "the header %s is there more than once", fields[field].name);
        return;
    }
    check->seen |= 1U << field;
    see(check, field, value, value_bytes);
}

enum status header_check_finish(struct header_check *check, struct error *err)
{
    bool length = (check->seen & (1U << FIELD_CONTENT_LENGTH)) != 0;
    bool coded = (check->seen & (1U << FIELD_TRANSFER_ENCODING)) != 0;
    if (check->http_1_1 && (check->seen & (1U << FIELD_HOST)) == 0) {
        (void)error_set_field(&check->error, STATUS_INVALID_REQUEST, "Host",
                              "the header Host is missing, which HTTP/1.1 requires");
    }
    if (coded && length) {
        unframed(check, STATUS_INVALID_REQUEST,
                 "Transfer-Encoding and Content-Length are both there; send one of them");
    }
    if (coded && !check->http_1_1) {
        unframed(check, STATUS_INVALID_REQUEST,
                 "Transfer-Encoding does not exist in HTTP/1.0; send Content-Length");
    }
    if (check->codings != 1) {
        check->accept_coding = CODING_IDENTITY;
    }
    if (check->error.status == STATUS_OK) {
        return STATUS_OK;
    }
    if (err->status == STATUS_OK) {
        *err = check->error;
    }
    return check->error.status;
}

bool header_check_has_body(const struct header_check *check)
{
    return check->chunked || check->content_length > 0 || check->unframed;
}
