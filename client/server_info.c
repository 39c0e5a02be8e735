/* Information about the server: tally_health(), tally_server_version(), tally_devices().
 *
 * Each function requests one or two pages and reads members of their JSON texts. A 503 is a valid
 * answer of a health page.
 *
 * Possible failures: a text that is not JSON, is too long, or lacks a member that every Tally server
 * sends, is TALLY_BAD_ANSWER. The outputs change only on success. Thread: the caller's. */
#include "client/call.h"
#include "client/json_text.h"
#include "client/media_type.h"

#include <stdlib.h>
#include <string.h>

enum {
    PAGE_LIMIT = 1 << 20 /* longest text, in bytes */
};

/* The text of an answer. */
struct page_text {
    char *bytes; /* owned; room for PAGE_LIMIT of them */
    size_t count;
};

static enum tally_status page_begin(void *context, const struct tally_answer *answer,
                                    uint64_t *due, struct tally_error *err)
{
    struct page_text *page = context;
    *due = UINT64_MAX; /* any number */
    page->count = 0;   /* a retry starts over */
    if (!media_type_is(answer->content_type, "application/json")) {
        return client_error_set(err, TALLY_BAD_ANSWER,
                                "the answer's Content-Type is \"%s\", expected "
                                "application/json; is this the URL of a Tally server?",
                                answer->content_type);
    }
    return TALLY_OK;
}

static enum tally_status page_write(void *context, uint64_t offset, const void *bytes,
                                    size_t count, struct tally_error *err)
{
    struct page_text *page = context;
    if (count > PAGE_LIMIT - offset) {
        return client_error_set(err, TALLY_BAD_ANSWER,
                                "the answer is longer than 1 MiB; is this the URL of a Tally "
                                "server?");
    }
    memcpy(page->bytes + offset, bytes, count);
    page->count = offset + count;
    return TALLY_OK;
}

/* Request a page. The caller frees page->bytes, also after a failure. */
static enum tally_status get_page(struct tally *client, const char *path, bool single,
                                  struct page_text *page, struct tally_error *err)
{
    struct call_spec spec = {
        .method = "GET",
        .path = path,
        .accept = "application/json",
        .single = single,
        .begin = page_begin,
        .write = page_write,
        .context = page,
    };
    page->bytes = malloc(PAGE_LIMIT);
    return page->bytes != NULL ? call_run(client, &spec, err) : client_error_no_memory(err);
}

/* Request a health page. *good is true after a 200, false after a 503; other answers are errors. */
static enum tally_status ask_health(struct tally *client, const char *path, bool *good,
                                    struct tally_error *err)
{
    struct page_text page = {NULL, 0};
    struct tally_error unused;
    err = err != NULL ? err : &unused;
    enum tally_status status = get_page(client, path, true, &page, err);
    free(page.bytes);
    *good = status == TALLY_OK;
    if (status != TALLY_BUSY || err->http_status == 0) {
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
    CLIENT_TRY(ask_health(client, "/livez", &alive, err));
    if (alive) {
        CLIENT_TRY(ask_health(client, "/readyz", &ready, err));
    }
    *health = (alive ? TALLY_ALIVE : 0) | (ready ? TALLY_READY : 0);
    return TALLY_OK;
}

/* Request a page of JSON, and find the value of its member `key`. */
static enum tally_status get_member(struct tally *client, const char *path, const char *key,
                                    struct page_text *page, struct json_text *value,
                                    struct tally_error *err)
{
    enum tally_status status = get_page(client, path, false, page, err);
    struct json_text body = {page->bytes, page->count};
    if (status == TALLY_OK &&
        (!json_text_is_whole(body) || !json_text_member(body, key, value))) {
        status = client_error_set(
            err, TALLY_BAD_ANSWER,
            "the answer to GET %s is cut, or has no \"%s\"; is this the URL of a "
            "Tally server?",
            path, key);
    }
    return status;
}

enum tally_status tally_server_version(struct tally *client, char *version, size_t size,
                                       struct tally_error *err)
{
    struct page_text page = {NULL, 0};
    struct json_text value = {"", 0};
    client_error_reset(err);
    if (client == NULL || version == NULL || size == 0) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT, "client or version is NULL");
    }
    enum tally_status status = get_member(client, "/version", "version", &page, &value, err);
    if (status == TALLY_OK && !json_text_string(value, version, size)) {
        status =
            client_error_set(err, TALLY_BAD_ANSWER, "the server's version is not a string");
    }
    free(page.bytes);
    return status;
}

static int64_t read_number(struct json_text object, const char *key)
{
    struct json_text value = {"", 0};
    return json_text_member(object, key, &value) ? json_text_integer(value, -1) : -1;
}

static void read_device(struct json_text object, struct tally_device *device)
{
    memset(device, 0, sizeof *device);
    (void)json_text_member_string(object, "name", device->name, sizeof device->name);
    (void)json_text_member_string(object, "platform", device->platform,
                                  sizeof device->platform);
    (void)json_text_member_string(object, "type", device->type, sizeof device->type);
    (void)json_text_member_string(object, "state", device->state, sizeof device->state);
    device->running = read_number(object, "running");
    device->requests = read_number(object, "requests");
    device->errors = read_number(object, "errors");
    device->busy_us = read_number(object, "busy_us");
    device->memory_bytes = read_number(object, "memory_bytes");
}

enum tally_status tally_devices(struct tally *client, struct tally_device *devices,
                                int capacity, int *count, struct tally_error *err)
{
    struct page_text page = {NULL, 0};
    struct json_text list = {"", 0};
    struct json_text key = {"", 0};
    struct json_text device = {"", 0};
    int found = 0;
    client_error_reset(err);
    if (client == NULL || count == NULL || (devices == NULL && capacity > 0)) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                "client, devices or count is NULL");
    }
    enum tally_status status = get_member(client, "/v1/devices", "devices", &page, &list, err);
    if (status == TALLY_OK && *list.at != '[') {
        status =
            client_error_set(err, TALLY_BAD_ANSWER, "the server's devices are not an array");
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
    free(page.bytes);
    return status;
}
