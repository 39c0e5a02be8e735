/* Information about the server: tally_health(), tally_server_version(), tally_devices().
 *
 * Each function requests one or two pages of JSON and reads their members. A health page may
 * answer 503.
 *
 * Possible failures: TALLY_BAD_ANSWER for a page that is not JSON, is too long, or lacks a
 * member that every Tally server sends. The outputs change only on success. Thread: the
 * caller's. */
#include "client/call.h"

#include <stdlib.h>
#include <string.h>

enum {
    PAGE_LIMIT = 1 << 20 /* limit for a page, in bytes */
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
    *due = UINT64_MAX; /* any length */
    page->count = 0;   /* discard bytes of an earlier attempt */
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

/* Request a page of JSON. The caller owns *root, which is NULL after a failure. `single`: no
 * retry. */
static enum tally_status get_page(struct tally *client, const char *path, bool single,
                                  json_t **root, struct tally_error *err)
{
    struct page_text page = {malloc(PAGE_LIMIT), 0};
    struct call_spec spec = {
        .method = "GET",
        .path = path,
        .accept = "application/json",
        .single = single,
        .begin = page_begin,
        .write = page_write,
        .context = &page,
    };
    enum tally_status status =
        page.bytes != NULL ? call_run(client, &spec, err) : client_error_no_memory(err);
    *root = status == TALLY_OK ? json_loadb(page.bytes, page.count, 0, NULL) : NULL;
    free(page.bytes);
    return status != TALLY_OK || *root != NULL
               ? status
               : client_error_set(
                     err, TALLY_BAD_ANSWER,
                     "the answer to GET %s is cut, or is not JSON; is this the URL "
                     "of a Tally server?",
                     path);
}

/* Request a health page. Sets *good to true for a 200, to false for a 503; other answers are
 * errors. */
static enum tally_status ask_health(struct tally *client, const char *path, bool *good,
                                    struct tally_error *err)
{
    json_t *root = NULL;
    struct tally_error unused;
    err = err != NULL ? err : &unused;
    enum tally_status status = get_page(client, path, true, &root, err);
    json_decref(root);
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

enum tally_status tally_server_version(struct tally *client, char *version, size_t size,
                                       struct tally_error *err)
{
    json_t *root = NULL;
    client_error_reset(err);
    if (client == NULL || version == NULL || size == 0) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT, "client or version is NULL");
    }
    enum tally_status status = get_page(client, "/version", false, &root, err);
    if (status == TALLY_OK && !json_member_text(root, "version", version, size)) {
        status =
            client_error_set(err, TALLY_BAD_ANSWER,
                             "the answer to GET /version has no \"version\"; is this the URL "
                             "of a Tally server?");
    }
    json_decref(root);
    return status;
}

static int64_t read_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

static void read_device(const json_t *object, struct tally_device *device)
{
    memset(device, 0, sizeof *device);
    (void)json_member_text(object, "name", device->name, sizeof device->name);
    (void)json_member_text(object, "platform", device->platform, sizeof device->platform);
    (void)json_member_text(object, "type", device->type, sizeof device->type);
    (void)json_member_text(object, "state", device->state, sizeof device->state);
    device->running = read_number(object, "running");
    device->requests = read_number(object, "requests");
    device->errors = read_number(object, "errors");
    device->busy_us = read_number(object, "busy_us");
    device->memory_bytes = read_number(object, "memory_bytes");
}

enum tally_status tally_devices(struct tally *client, struct tally_device *devices,
                                int capacity, int *count, struct tally_error *err)
{
    json_t *root = NULL;
    client_error_reset(err);
    if (client == NULL || count == NULL || (devices == NULL && capacity > 0)) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                "client, devices or count is NULL");
    }
    enum tally_status status = get_page(client, "/v1/devices", false, &root, err);
    const json_t *list = json_object_get(root, "devices");
    if (status == TALLY_OK && !json_is_array(list)) {
        status =
            client_error_set(err, TALLY_BAD_ANSWER,
                             "the answer to GET /v1/devices has no array \"devices\"; is this "
                             "the URL of a Tally server?");
    }
    if (status == TALLY_OK) {
        *count = (int)json_array_size(list);
        for (int i = 0; i < *count && i < capacity; i++) {
            read_device(json_array_get(list, (size_t)i), &devices[i]);
        }
    }
    json_decref(root);
    return status;
}
