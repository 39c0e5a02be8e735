#include "client/answer.h"

#include "client/client_error.h"
#include "client/json_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void answer_head_reset(struct answer_head *head)
{
    memset(head, 0, offsetof(struct answer_head, error_text));
    head->error_bytes = 0;
    head->content_length = -1;
    head->head_length = -1;
}

/* A new status line: what an interim answer (100 Continue) said does not count. */
static void start(struct answer_head *head, const char *line, size_t count)
{
    size_t header_bytes = head->header_bytes;
    const char *space = memchr(line, ' ', count);
    answer_head_reset(head);
    head->header_bytes = header_bytes;
    if (space == NULL || count - (size_t)(space - line) < 4) {
        return;
    }
    for (int i = 1; i <= 3; i++) {
        if (space[i] < '0' || space[i] > '9') {
            return;
        }
        head->http_status = head->http_status * 10 + (space[i] - '0');
    }
}

/* Store a header's value; one that came before must be the same. Control characters become '?'.
 */
static void store_text(struct answer_head *head, char *to, size_t size, const char *value)
{
    char clean[sizeof head->shape];
    size_t count = strnlen(value, size < sizeof clean ? size - 1 : sizeof clean - 1);
    if (value[count] != '\0') {
        head->ambiguous = true; /* cut: longer than any true value */
    }
    for (size_t i = 0; i < count; i++) {
        bool control = (unsigned char)value[i] < 0x20 || value[i] == 0x7F;
        clean[i] = value[i];
        if (control) {
            clean[i] = '?';
        }
    }
    clean[count] = '\0';
    if (to[0] != '\0' && strcmp(to, clean) != 0) {
        head->ambiguous = true;
    }
    memcpy(to, clean, count + 1);
}

static void store_length(struct answer_head *head, int64_t *to, const char *value)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || number < 0 ||
        (*to >= 0 && *to != number)) {
        head->ambiguous = true;
    } else {
        *to = number;
    }
}

/* What Content-Length means is libcurl's to say (chunks override it); here it must only make
 * sense: libcurl takes one that is too large for none. */
static void store_header(struct answer_head *head, const char *name, const char *value)
{
    if (strcasecmp(name, "Content-Type") == 0) {
        store_text(head, head->content_type, sizeof head->content_type, value);
    } else if (strcasecmp(name, "Content-Encoding") == 0) {
        store_text(head, head->content_encoding, sizeof head->content_encoding, value);
    } else if (strcasecmp(name, "Tally-Dtype") == 0) {
        store_text(head, head->dtype, sizeof head->dtype, value);
    } else if (strcasecmp(name, "Tally-Shape") == 0) {
        store_text(head, head->shape, sizeof head->shape, value);
    } else if (strcasecmp(name, "Inference-Header-Content-Length") == 0) {
        store_length(head, &head->head_length, value);
    } else if (strcasecmp(name, "Content-Length") == 0) {
        store_length(head, &head->content_length, value);
    } else if (strcasecmp(name, "X-Request-Id") == 0) {
        store_text(head, head->request_id, sizeof head->request_id, value);
    } else if (strcasecmp(name, "Location") == 0) {
        store_text(head, head->location, sizeof head->location, value);
    }
}

bool answer_head_line(struct answer_head *head, const char *line, size_t count)
{
    char text[2048];
    head->header_bytes += count;
    if (head->header_bytes > ANSWER_HEADER_BYTES) {
        return false;
    }
    if (head->complete) {
        return true; /* trailers */
    }
    if (count >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        start(head, line, count);
        return true;
    }
    while (count > 0 && strchr("\r\n \t", line[count - 1]) != NULL) {
        count--;
    }
    if (count == 0) {
        head->complete = head->http_status >= 200;
        return true;
    }
    if (count >= sizeof text) {
        return true; /* longer than any header that is read here */
    }
    memcpy(text, line, count);
    text[count] = '\0';
    char *colon = strchr(text, ':');
    if (colon == NULL) {
        return true;
    }
    *colon = '\0';
    store_header(head, text, colon + 1 + strspn(colon + 1, " \t"));
    return true;
}

bool answer_error_text(struct answer_head *head, const char *text, size_t count)
{
    size_t room = sizeof head->error_text - head->error_bytes;
    bool fits = count <= room;
    size_t taken = fits ? count : room;
    memcpy(head->error_text + head->error_bytes, text, taken);
    head->error_bytes += taken;
    return fits;
}

static enum tally_status status_of(int http_status)
{
    if (http_status == 429 || http_status == 503) {
        return TALLY_BUSY;
    }
    if (http_status == 504) {
        return TALLY_DEADLINE;
    }
    if (http_status >= 500 && http_status <= 599) {
        return TALLY_SERVER_ERROR;
    }
    if (http_status >= 400 && http_status <= 499) {
        return TALLY_REJECTED;
    }
    return TALLY_BAD_ANSWER;
}

/* What to tell a user about an answer that does not explain itself. */
static const char *hint(int http_status)
{
    switch (http_status) {
    case 401:
    case 407:
        return "; a token is needed: set options.token (tally --token-file)";
    case 403:
        return "; the server does not allow this to you";
    case 404:
        return "; is this the URL of a Tally server?";
    case 413:
        return "; the tensor is larger than the server accepts";
    case 429:
    case 503:
        return "; try again later";
    default:
        return http_status < 400
                   ? "; expected 200. Give the server's own URL, redirects are not "
                     "followed"
                   : "";
    }
}

enum tally_status answer_to_error(const struct answer_head *head, struct tally_error *err)
{
    enum tally_status status = status_of(head->http_status);
    struct json_text body = {head->error_text, head->error_bytes};
    struct json_text value = {"", 0};
    if (err == NULL) {
        return status;
    }
    err->status = status;
    if (json_text_member(body, "code", &value)) {
        (void)json_text_string(value, err->code, sizeof err->code);
    }
    if (json_text_member(body, "field", &value)) {
        (void)json_text_string(value, err->field, sizeof err->field);
    }
    if (json_text_member(body, "error", &value) &&
        json_text_string(value, err->message, sizeof err->message) && err->message[0] != '\0') {
        return status;
    }
    (void)client_error_set(err, status, "the server answered HTTP %d%s%s without saying why%s",
                           head->http_status, head->location[0] != '\0' ? " to " : "",
                           head->location, hint(head->http_status));
    return status;
}

bool media_type_is(const char *value, const char *type)
{
    size_t length = strcspn(value, "; \t");
    return length == strlen(type) && strncasecmp(value, type, length) == 0;
}
