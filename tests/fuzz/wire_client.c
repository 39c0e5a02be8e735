#include "tests/fuzz/wire_client.h"

#include "tests/fuzz/wire_server.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

enum {
    MOST_UNPACKED = 4 << 20
};

/* ---- one answer ---- */

struct answer {
    unsigned status;
    const char *fields; /* the header after its first line */
    size_t fields_bytes;
    const char *body;
    size_t body_bytes;
};

/* Copy the value of a header field. Returns false if the field is missing. */
static bool answer_field(const struct answer *answer, const char *name, char *value,
                         size_t room)
{
    const char *line = answer->fields;
    const char *end = line + answer->fields_bytes;
    size_t name_bytes = strlen(name);
    while (line < end) {
        const char *line_end = memmem(line, (size_t)(end - line), "\r\n", 2);
        const char *colon = memchr(line, ':', (size_t)(line_end - line));
        if (colon == NULL || colon == line) {
            wire_fail("a header line without a name: %.*s", (int)(line_end - line), line);
        }
        if ((size_t)(colon - line) == name_bytes && strncasecmp(line, name, name_bytes) == 0) {
            const char *text = colon + 1;
            while (*text == ' ') {
                text++;
            }
            size_t bytes = (size_t)(line_end - text);
            bytes = bytes < room ? bytes : room - 1;
            memcpy(value, text, bytes);
            value[bytes] = '\0';
            return true;
        }
        line = line_end + 2;
    }
    return false;
}

/* libmicrohttpd sends 414 if the target fills its buffer, and 505 for another HTTP version. */
static bool is_documented(unsigned status, bool tainted)
{
    static const unsigned documented[] = {100, 200, 400, 403, 404, 405, 408,
                                          413, 415, 429, 431, 501, 503, 504};
    for (size_t i = 0; i < sizeof documented / sizeof documented[0]; i++) {
        if (documented[i] == status) {
            return true;
        }
    }
    return tainted && (status == 414 || status == 505);
}

static void check_error(const struct answer *answer)
{
    char value[64];
    json_t *tree = json_loadb(answer->body, answer->body_bytes, 0, NULL);
    const char *code = json_string_value(json_object_get(tree, "code"));
    if (code == NULL || !json_is_string(json_object_get(tree, "error"))) {
        wire_fail("%u is no error in JSON: %.*s", answer->status, (int)answer->body_bytes,
                  answer->body);
    }
    const bool again =
        answer->status == 429 || (answer->status == 503 && strcmp(code, "unsupported") != 0);
    json_decref(tree);
    if (again != answer_field(answer, "Retry-After", value, sizeof value)) {
        wire_fail("%u %s Retry-After", answer->status, again ? "without" : "with");
    }
    if (answer->status == 405 && !answer_field(answer, "Allow", value, sizeof value)) {
        wire_fail("405 without Allow");
    }
}

/* Decompress a body. Returns memory that the caller frees, or NULL. */
static char *unpack(struct answer *answer)
{
    char coding[16];
    if (answer->body_bytes == 0 ||
        !answer_field(answer, "Content-Encoding", coding, sizeof coding)) {
        return NULL;
    }
    char *bytes = calloc(1, MOST_UNPACKED + 1);
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)answer->body,
                       .avail_in = (uInt)answer->body_bytes,
                       .next_out = (Bytef *)(void *)bytes,
                       .avail_out = MOST_UNPACKED};
    WIRE_REQUIRE(bytes != NULL && inflateInit2(&stream, 15 + 32) == Z_OK);
    if (inflate(&stream, Z_FINISH) != Z_STREAM_END || stream.avail_in != 0) {
        wire_fail("an answer in %s does not unpack", coding);
    }
    answer->body = bytes;
    answer->body_bytes = stream.total_out;
    (void)inflateEnd(&stream);
    return bytes;
}

/* Check that the numbers of the member "data" are the sums. */
static void check_numbers(const struct wire_request *request, const struct answer *answer)
{
    const struct dtype_info *info = dtype_info(request->dtype);
    const char *end = answer->body + answer->body_bytes;
    const char *at = memmem(answer->body, answer->body_bytes, "\"data\":", 7);
    json_t *tree = json_loadb(answer->body, answer->body_bytes, JSON_DECODE_INT_AS_REAL, NULL);
    if (tree == NULL || at == NULL) {
        wire_fail("%s: no JSON with data: %.*s", request->id, (int)answer->body_bytes,
                  answer->body);
    }
    json_decref(tree);
    at += 7;
    for (size_t i = 0; i < request->sums_bytes; i += info->bytes) {
        while (at < end && strchr("[], \n", *at) != NULL) {
            at++;
        }
        uint64_t expected = 0;
        char *behind = NULL;
        memcpy(&expected, request->sums + i, info->bytes);
        uint64_t value =
            *at == '-' ? (uint64_t)strtoll(at, &behind, 10) : strtoull(at, &behind, 10);
        if (behind == at || memcmp(&value, &expected, info->bytes) != 0) {
            wire_fail("%s: number %zu is %.24s, not %llx", request->id, i / info->bytes, at,
                      (unsigned long long)expected);
        }
        at = behind;
    }
}

static void check_sums(const struct wire_request *request, const struct answer *answer)
{
    if (request->form == WIRE_NUMBERS) {
        check_numbers(request, answer);
    } else if (request->form == WIRE_WHOLE || request->form == WIRE_TAIL) {
        size_t bytes = request->sums_bytes;
        bool long_enough = request->form == WIRE_WHOLE ? answer->body_bytes == bytes
                                                       : answer->body_bytes >= bytes;
        if (!long_enough || (bytes > 0 && memcmp(answer->body + answer->body_bytes - bytes,
                                                 request->sums, bytes) != 0)) {
            wire_fail("%s: the sums are not those of its numbers", request->id);
        }
    }
}

/* Return whether a valid request may be refused with this status. */
static bool may_be_refused(const struct wire_client *client, const struct wire_request *request,
                           unsigned status, struct wire_mood mood)
{
    switch (status) {
    case 200:
        return true;
    case 429:
        return mood.crowded;
    case 503:
        return !mood.calm || request->may_time_out;
    case 504:
        return request->may_time_out;
    case 408:
        return !mood.calm;
    case 400: /* the client closed inside the body */
        return client->half_closed;
    default:
        return false;
    }
}

static void check_to_request(struct wire_client *client, const struct answer *answer,
                             struct wire_mood mood)
{
    char id[WIRE_ID_BYTES] = "";
    if (client->answered == client->asked) {
        wire_fail("an answer that nobody asked for: %u %.*s", answer->status,
                  (int)answer->body_bytes, answer->body);
    }
    struct wire_request *request = &client->requests[client->answered++];
    bool named = answer_field(answer, "X-Request-Id", id, sizeof id);
    if (!named || (strcmp(id, request->id) != 0 && answer->status != 408)) {
        wire_fail("the answer to %s is that to \"%s\"", request->id, id);
    }
    if (request->must_work && !may_be_refused(client, request, answer->status, mood)) {
        wire_fail("%s got %u: %.*s", request->id, answer->status, (int)answer->body_bytes,
                  answer->body);
    }
    if (answer->status == 200) {
        check_sums(request, answer);
    }
    client->may_close = client->may_close || request->closes;
    free(request->sums);
    request->sums = NULL;
}

/* libmicrohttpd itself refuses text that is not HTTP, with an HTML answer, and closes. */
static bool is_of_microhttpd(const struct answer *answer)
{
    static const char begin[] = "<html><head><title>";
    return answer->status >= 400 && answer->body_bytes >= sizeof begin - 1 &&
           memcmp(answer->body, begin, sizeof begin - 1) == 0;
}

static void check_answer(struct wire_client *client, struct answer *answer,
                         struct wire_mood mood)
{
    char value[80];
    char *unpacked = unpack(answer);
    bool has_body = client->tainted || client->answered == client->asked ||
                    !client->requests[client->answered].head;
    if (answer_field(answer, "Connection", value, sizeof value) &&
        strcasecmp(value, "close") == 0) {
        client->may_close = true;
    }
    bool typed = answer_field(answer, "Content-Type", value, sizeof value);
    bool json = typed && strcmp(value, "application/json") == 0;
    if (answer->status != 200 && has_body && (answer->body_bytes > 0 || !client->tainted) &&
        (answer->status != 503 || json) && !(client->tainted && is_of_microhttpd(answer))) {
        check_error(answer);
    }
    if (!client->tainted) {
        check_to_request(client, answer, mood);
    }
    free(unpacked);
}

/* ---- the stream of answers ---- */

/* Return whether the answer has no body, as for HEAD. A 408 for an incomplete header has a
 * body: the method is known only after the header, and the connection closes behind the
 * answer. */
static bool is_bodiless(const struct wire_client *client, const struct answer *answer,
                        size_t there)
{
    if (client->tainted) { /* the request is unknown, but another answer may follow */
        return there >= 9 && memcmp(answer->body, "HTTP/1.1 ", 9) == 0;
    }
    bool head = client->answered < client->asked && client->requests[client->answered].head;
    return head && (answer->status != 408 || there == 0);
}

/* Check the oldest answer if it is complete. */
static bool take_answer(struct wire_client *client, struct wire_mood mood)
{
    const char *text = client->in.bytes;
    size_t count = client->in.count;
    char value[32];
    const char *end = count == 0 ? NULL : memmem(text, count, "\r\n\r\n", 4);
    if (count > 0 && memcmp(text, "HTTP/1.1 ", count < 9 ? count : 9) != 0) {
        wire_fail("no answer begins like this: %.*s", (int)count, text);
    }
    if (end == NULL) {
        return false;
    }
    const char *fields = memmem(text, count, "\r\n", 2);
    struct answer answer = {.status = (unsigned)strtoul(text + 9, NULL, 10),
                            .fields = fields + 2,
                            .fields_bytes = (size_t)(end - fields),
                            .body = end + 4};
    if (fields == end) {
        answer.fields_bytes = 0;
    }
    size_t head_bytes = (size_t)(answer.body - text);
    if (!is_documented(answer.status, client->tainted)) {
        wire_fail("status %u: %.*s", answer.status, (int)count, text);
    }
    if (answer.status == 100) {
        wire_text_drop(&client->in, head_bytes);
        return true;
    }
    if (!answer_field(&answer, "Content-Length", value, sizeof value)) {
        wire_fail("an answer without a length: %.*s", (int)count, text);
    }
    size_t length = strtoul(value, NULL, 10);
    size_t there = count - head_bytes;
    if (length > 0 && is_bodiless(client, &answer, there)) {
        length = 0;
    }
    if (there < length) {
        return false;
    }
    answer.body_bytes = length;
    check_answer(client, &answer, mood);
    wire_text_drop(&client->in, head_bytes + length);
    return true;
}

/* The server closed the connection: check that it had a reason. */
static void check_end(struct wire_client *client, struct wire_mood mood)
{
    bool whole = client->in.count == 0 && client->answered == client->asked;
    bool excused = client->tainted || client->half_closed || client->may_close || !mood.calm;
    if (!whole && !excused) {
        wire_fail("the connection was closed after %u of %u answers, %zu bytes into the next",
                  client->answered, client->asked, client->in.count);
    }
    wire_client_close(client, false);
}

static bool pump_in(struct wire_client *client, struct wire_mood mood)
{
    char piece[16384];
    ssize_t got = recv(client->fd, piece, sizeof piece, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (got > 0) {
        wire_text_add(&client->in, piece, (size_t)got);
        while (take_answer(client, mood)) {
        }
        return true;
    }
    check_end(client, mood);
    return true;
}

static bool pump_out(struct wire_client *client)
{
    if (client->free_to_send == 0) {
        return false;
    }
    ssize_t sent =
        send(client->fd, client->out.bytes, client->free_to_send, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
        wire_text_drop(&client->out, (size_t)sent);
        client->free_to_send -= (size_t)sent;
    } else if (errno != EAGAIN && errno != EINTR) {
        client->free_to_send = 0; /* the server has closed, but may have sent more */
        client->out.count = 0;
    }
    return sent > 0;
}

bool wire_client_pump(struct wire_client *client, struct wire_mood mood)
{
    bool moved = false;
    if (client->fd >= 0) {
        moved = pump_out(client);
    }
    if (client->fd >= 0 && !client->deaf) {
        moved = pump_in(client, mood) || moved;
    }
    return moved;
}

bool wire_client_through(const struct wire_client *client)
{
    return client->fd < 0 || (client->free_to_send == 0 && !client->tainted &&
                              client->out.count == 0 && client->answered == client->asked);
}

void wire_client_open(struct wire_client *client, bool tcp)
{
    *client = (struct wire_client){.fd = wire_connect(tcp), .tcp = tcp};
}

void wire_client_half_close(struct wire_client *client)
{
    if (client->fd >= 0) {
        client->half_closed = true;
        client->out.count = 0;
        client->free_to_send = 0;
        (void)shutdown(client->fd, SHUT_WR);
    }
}

void wire_client_close(struct wire_client *client, bool reset)
{
    if (client->fd < 0) {
        return;
    }
    if (reset) {
        const struct linger now = {.l_onoff = 1, .l_linger = 0};
        (void)setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    (void)close(client->fd);
    client->fd = -1;
    client->out.count = 0;
    client->free_to_send = 0;
}

void wire_client_free(struct wire_client *client)
{
    wire_client_close(client, client->tcp); /* a reset avoids TIME_WAIT, so the port is free */
    for (unsigned i = 0; i < client->asked; i++) {
        free(client->requests[i].sums);
    }
    wire_text_free(&client->out);
    wire_text_free(&client->in);
}
