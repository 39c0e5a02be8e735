/* Reading of an answer's headers, which libcurl parses (curl_easy_header()), and of
 * refusals. */
#include "client/call_answer.h"

#include "proto/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void call_answer_reset(struct call_answer *answer)
{
    memset(answer, 0, offsetof(struct call_answer, error_text));
    answer->head_length = -1;
    answer->carry_length = -1;
}

/* Copy the value of a header to `to`, which is "" on entry and stays so if the header is
 * absent. */
static void read_text(struct call_answer *answer, CURL *easy, const char *name, char *to,
                      size_t size)
{
    struct curl_header *header = NULL;
    for (size_t i = 0; curl_easy_header(easy, name, i, CURLH_HEADER, -1, &header) == CURLHE_OK;
         i++) {
        char clean[sizeof answer->shape];
        size_t count = strnlen(header->value, size - 1);
        memcpy(clean, header->value, count);
        clean[count] = '\0';
        text_make_safe(clean);
        bool cut = header->value[count] != '\0'; /* arrays have room for every valid value */
        if (cut || (i > 0 && strcmp(to, clean) != 0)) {
            answer->ambiguous = true;
        }
        memcpy(to, clean, strlen(clean) + 1);
    }
}

/* Return the value of a header as a number; -1 if the header is absent. */
static int64_t read_length(struct call_answer *answer, CURL *easy, const char *name)
{
    char text[24] = "";
    read_text(answer, easy, name, text, sizeof text);
    if (text[0] == '\0') {
        return -1;
    }
    char *end = text;
    errno = 0;
    const int64_t number = strtoll(text, &end, 10);
    const bool valid = errno == 0 && end != text && *end == '\0' && number >= 0;
    answer->ambiguous = answer->ambiguous || !valid;
    return valid ? number : -1;
}

void call_answer_read(struct call_answer *answer, CURL *easy)
{
    read_text(answer, easy, "Content-Type", answer->content_type, sizeof answer->content_type);
    read_text(answer, easy, "Content-Encoding", answer->content_encoding,
              sizeof answer->content_encoding);
    read_text(answer, easy, "Tally-Dtype", answer->dtype, sizeof answer->dtype);
    read_text(answer, easy, "Tally-Shape", answer->shape, sizeof answer->shape);
    read_text(answer, easy, "Location", answer->location, sizeof answer->location);
    read_text(answer, easy, "X-Request-Id", answer->request_id, sizeof answer->request_id);
    answer->head_length = read_length(answer, easy, "Inference-Header-Content-Length");
    answer->carry_length = read_length(answer, easy, "Tally-Carry-Length");
    /* libcurl reads Content-Length itself, but ignores a value that is too large. */
    (void)read_length(answer, easy, "Content-Length");
}

bool media_type_is(const char *value, const char *type)
{
    const size_t length = strcspn(value, "; \t");
    return length == strlen(type) && strncasecmp(value, type, length) == 0;
}

bool json_member_text(const json_t *object, const char *key, char *text, size_t size)
{
    const char *value = json_string_value(json_object_get(object, key));
    if (value == NULL) {
        return false;
    }
    (void)snprintf(text, size, "%s", value);
    text_make_safe(text);
    return true;
}

bool call_answer_keep_error(struct call_answer *answer, const char *text, size_t count)
{
    size_t room = sizeof answer->error_text - answer->error_bytes;
    size_t kept = count < room ? count : room;
    memcpy(answer->error_text + answer->error_bytes, text, kept);
    answer->error_bytes += kept;
    return count <= room;
}

enum tally_status front_expect(struct front *front, uint64_t count, uint64_t *due,
                               struct tally_error *err)
{
    unsigned char *room = realloc(front->bytes, (size_t)count);
    if (room == NULL) {
        return client_error_no_memory(err);
    }
    front->bytes = room;
    front->count = count;
    *due += count;
    return TALLY_OK;
}

/* Return the status of the library for an HTTP status. The routes of v2 send 503 where other
 * routes send 501 or 504; the code tells these apart from a busy server, because a retry cannot
 * succeed. */
static enum tally_status status_of(int http_status, const char *code)
{
    if (http_status == 504 || (http_status == 503 && strcmp(code, "deadline_passed") == 0)) {
        return TALLY_DEADLINE;
    }
    if (http_status == 429 || (http_status == 503 && strcmp(code, "unsupported") != 0)) {
        return TALLY_BUSY;
    }
    if (http_status >= 500 && http_status <= 599) {
        return TALLY_SERVER_ERROR;
    }
    if (http_status >= 400 && http_status <= 499) {
        return TALLY_REJECTED;
    }
    return TALLY_BAD_ANSWER;
}

/* Return advice for an HTTP status whose answer has no sentence of the server. */
static const char *status_advice(int http_status)
{
    switch (http_status) {
    case 401:
        return "; a token is needed: set options.token (tally --token-file)";
    case 403:
        return "; the server does not allow this to you";
    case 404:
        return "; is this the URL of a Tally server?";
    case 407:
        return "; the proxy wants a user and a password: http_proxy=http://USER:PASSWORD@HOST";
    case 413:
        return "; the tensor is larger than the server accepts";
    case 429:
    case 503:
        return "; try again later";
    case 502:
    case 504:
        return "; a proxy in between says so: is tallyd running behind it?";
    default:
        return http_status >= 400 ? ""
                                  : "; expected 200. Give the server's own URL, redirects are "
                                    "not followed";
    }
}

void call_answer_to_error(const struct call_answer *answer, struct tally_error *err)
{
    json_t *body = json_loadb(answer->error_text, answer->error_bytes, 0, NULL);
    (void)json_member_text(body, "code", err->code, sizeof err->code);
    (void)json_member_text(body, "field", err->field, sizeof err->field);
    (void)json_member_text(body, "error", err->message, sizeof err->message);
    json_decref(body);
    err->status = status_of(answer->http_status, err->code);
    if (err->message[0] != '\0') {
        return;
    }
    (void)client_error_set(err, err->status,
                           "the server answered HTTP %d%s%s without saying why%s",
                           answer->http_status, answer->location[0] != '\0' ? " to " : "",
                           answer->location, status_advice(answer->http_status));
}
