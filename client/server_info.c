/* What the server says of itself: health, version, devices. */
#include "client/client_error.h"
#include "client/exchange.h"
#include "client/json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TEXT_LIMIT = 1 << 20
}; /* a longer text is no answer to these questions */

/* An answer's text, grown as it comes. */
struct text {
    char *bytes; /* owned */
    size_t count;
    size_t room;
};

static enum tally_status text_begin(void *context, const struct tally_answer *answer,
                                    struct tally_error *err)
{
    struct text *text = context;
    (void)answer;
    (void)err;
    text->count = 0; /* a retry starts over */
    return TALLY_OK;
}

static enum tally_status text_write(void *context, uint64_t offset, const void *bytes,
                                    size_t count, struct tally_error *err)
{
    struct text *text = context;
    (void)offset;
    if (count > TEXT_LIMIT - text->count) {
        return client_error_set(err, TALLY_BAD_ANSWER,
                                "the answer is longer than 1 MiB; is this the URL of a Tally "
                                "server?");
    }
    if (text->count + count > text->room) {
        size_t room = (text->count + count) * 2;
        char *larger = realloc(text->bytes, room);
        if (larger == NULL) {
            return client_error_set(err, TALLY_OUT_OF_MEMORY, "out of memory");
        }
        text->bytes = larger;
        text->room = room;
    }
    memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
    return TALLY_OK;
}

static enum tally_status text_finish(void *context, uint64_t count, struct tally_error *err)
{
    (void)context;
    (void)count;
    (void)err;
    return TALLY_OK;
}

/* text->bytes is the caller's to free, also on failure. */
static enum tally_status get_text(struct tally *client, const char *path, bool single,
                                  struct text *text, struct tally_error *err)
{
    struct exchange_spec spec = {
        .method = "GET",
        .path = path,
        .accept = "application/json",
        .single = single,
        .sink = {text, text_begin, text_write, text_finish},
    };
    return exchange_run(client, &spec, err);
}

/* A health page: *good says whether its answer was 200, which 503 denies; else an error. */
static enum tally_status ask_health(struct tally *client, const char *path, bool *good,
                                    struct tally_error *err)
{
    struct text text = {NULL, 0, 0};
    enum tally_status status = get_text(client, path, true, &text, err);
    free(text.bytes);
    *good = status == TALLY_OK;
    if (status != TALLY_BUSY) {
        return status;
    }
    client_error_reset(err);
    return TALLY_OK;
}

enum tally_status tally_health(struct tally *client, int *health, struct tally_error *err)
{
    bool alive = false;
    bool ready = false;
    client_error_reset(err);
    if (client == NULL || health == NULL) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT, "client or health is NULL");
    }
    enum tally_status status = ask_health(client, "/livez", &alive, err);
    if (status == TALLY_OK && alive) {
        status = ask_health(client, "/readyz", &ready, err);
    }
    if (status == TALLY_OK) {
        *health = (alive ? TALLY_ALIVE : 0) | (ready ? TALLY_READY : 0);
    }
    return status;
}

enum tally_status tally_server_version(struct tally *client, char *version, size_t size,
                                       struct tally_error *err)
{
    struct text text = {NULL, 0, 0};
    struct json_text value = {"", 0};
    client_error_reset(err);
    if (client == NULL || version == NULL || size == 0) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT, "client or version is NULL");
    }
    enum tally_status status = get_text(client, "/version", false, &text, err);
    if (status == TALLY_OK) {
        struct json_text body = {text.bytes, text.count};
        if (!json_text_member(body, "version", &value) ||
            !json_text_string(value, version, size)) {
            status =
                client_error_set(err, TALLY_BAD_ANSWER,
                                 "the answer to GET /version has no \"version\"; is this the "
                                 "URL of a Tally server?");
        }
    }
    free(text.bytes);
    return status;
}

static void read_text(struct json_text object, const char *key, char *to, size_t size)
{
    struct json_text value = {"", 0};
    to[0] = '\0';
    if (json_text_member(object, key, &value)) {
        (void)json_text_string(value, to, size);
    }
}

static int64_t read_number(struct json_text object, const char *key)
{
    struct json_text value = {"", 0};
    return json_text_member(object, key, &value) ? json_text_integer(value, -1) : -1;
}

static void read_device(struct json_text object, struct tally_device *device)
{
    memset(device, 0, sizeof *device);
    read_text(object, "name", device->name, sizeof device->name);
    read_text(object, "platform", device->platform, sizeof device->platform);
    read_text(object, "type", device->type, sizeof device->type);
    read_text(object, "state", device->state, sizeof device->state);
    device->running = read_number(object, "running");
    device->requests = read_number(object, "requests");
    device->errors = read_number(object, "errors");
    device->busy_us = read_number(object, "busy_us");
    device->memory_bytes = read_number(object, "memory_bytes");
}

enum tally_status tally_devices(struct tally *client, struct tally_device *devices,
                                int capacity, int *count, struct tally_error *err)
{
    struct text text = {NULL, 0, 0};
    struct json_text list = {"", 0};
    struct json_text key = {"", 0};
    struct json_text device = {"", 0};
    int found = 0;
    client_error_reset(err);
    if (client == NULL || count == NULL || (devices == NULL && capacity > 0)) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                "client, devices or count is NULL");
    }
    enum tally_status status = get_text(client, "/v1/devices", false, &text, err);
    if (status == TALLY_OK) {
        struct json_text body = {text.bytes, text.count};
        if (!json_text_member(body, "devices", &list) || *list.at != '[') {
            status =
                client_error_set(err, TALLY_BAD_ANSWER,
                                 "the answer to GET /v1/devices has no list \"devices\"; is "
                                 "this the URL of a Tally server?");
        }
    }
    while (status == TALLY_OK && json_text_next(&list, &key, &device)) {
        if (found < capacity) {
            read_device(device, &devices[found]);
        }
        found++;
    }
    if (status == TALLY_OK) {
        *count = found;
    }
    free(text.bytes);
    return status;
}
