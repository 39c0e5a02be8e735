/* A client: its options, tally_open() and tally_close().
 *
 * tally_open() initializes libcurl, copies the options, replaces zeros by the defaults, and
 * splits the URL. It sends nothing. tally_close() ends the thread of submitted calls and frees
 * all memory.
 *
 * Possible failures: TALLY_INVALID_ARGUMENT for a wrong URL or wrong options, TALLY_UNSUPPORTED
 * for a feature that libcurl was built without. No memory stays allocated.
 *
 * Thread: any. No other call may run during tally_close() or after it. */
#include "client/async.h"
#include "client/server_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef TALLY_VERSION
#error "define TALLY_VERSION"
#endif

const char *tally_library_version(void)
{
    return TALLY_VERSION;
}

/* ---- options ---- */

#define LONGEST_MS INT64_C(1000000000000) /* 30 years; sums with such times do not overflow */

static void fill_number(int64_t *value, int64_t fallback)
{
    if (*value == 0) {
        *value = fallback;
    } else if (*value < 0) {
        *value = 0; /* "none" */
    } else if (*value > LONGEST_MS) {
        *value = LONGEST_MS;
    }
}

static void fill_count(int32_t *value, int32_t fallback, int32_t lowest)
{
    if (*value == 0) {
        *value = fallback;
    }
    if (*value < lowest) {
        *value = lowest;
    }
}

/* Replace zeros by the defaults, and copy the strings. In the result 0 means "none" for
 * timeouts and retries. Returns false without memory. */
static bool fill_options(struct tally *client)
{
    struct tally_options *options = &client->options;
    fill_number(&options->connect_timeout_ms, 10000);
    fill_number(&options->timeout_ms, 600000);
    fill_count(&options->retries, 4, 0);
    fill_number(&options->backoff_base_ms, 50);
    fill_number(&options->backoff_max_ms, 5000);
    fill_number(&options->retry_after_max_ms, 30000);
    fill_count(&options->async_connections, 4, 1);
    fill_count(&options->async_queue, 1024, 1);
    fill_count(&options->idle_connections, 16, 1);
    if (options->user_agent == NULL) {
        options->user_agent = "libtally/" TALLY_VERSION;
    }
    const char **texts[OWNED_TEXTS] = {&options->token, &options->ca_file,
                                       &options->client_cert, &options->client_key,
                                       &options->user_agent};
    for (size_t i = 0; i < OWNED_TEXTS; i++) {
        if (*texts[i] == NULL) {
            continue;
        }
        client->owned_texts[i] = strdup(*texts[i]);
        *texts[i] = client->owned_texts[i];
        if (*texts[i] == NULL) {
            return false;
        }
    }
    return true;
}

/* Check the texts that are sent as request headers: a line break would add another header. */
static enum tally_status check_texts(const struct tally *client, struct tally_error *err)
{
    const char *texts[] = {client->options.token, client->options.user_agent};
    static const char *const names[] = {"token", "user_agent"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        for (const char *at = texts[i]; at != NULL && *at != '\0'; at++) {
            if ((unsigned char)*at < ' ' || *at == 0x7F) {
                return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                        "options.%s has a line end in it, or another control "
                                        "character",
                                        names[i]);
            }
        }
    }
    return TALLY_OK;
}

/* ---- a client's life ---- */

static enum tally_status check_features(const struct tally *client, struct tally_error *err)
{
    const curl_version_info_data *curl = curl_version_info(CURLVERSION_NOW);
    if (strncmp(client->base_url, "https:", 6) == 0 &&
        (curl->features & CURL_VERSION_SSL) == 0) {
        return client_error_set(err, TALLY_UNSUPPORTED,
                                "https needs a libcurl with TLS; this one has none: use http");
    }
    if (client->socket_path != NULL && (curl->features & CURL_VERSION_UNIX_SOCKETS) == 0) {
        return client_error_set(err, TALLY_UNSUPPORTED,
                                "this libcurl has no Unix sockets: use http://host:port");
    }
    return TALLY_OK;
}

static enum tally_status fill_client(struct tally *client, const char *url,
                                     struct tally_error *err)
{
    bool filled = fill_options(client);
    client->idle = calloc((size_t)client->options.idle_connections, sizeof(CURL *));
    if (!filled || client->idle == NULL) {
        return client_error_no_memory(err);
    }
    CLIENT_TRY(server_url_parse(client, url, err));
    CLIENT_TRY(check_features(client, err));
    return check_texts(client, err);
}

struct tally *tally_open(const char *url, const struct tally_options *options,
                         struct tally_error *err)
{
    client_error_reset(err);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) !=
        CURLE_OK) { /* thread-safe; later calls only count */
        (void)client_error_set(err, TALLY_UNSUPPORTED, "libcurl does not initialise");
        return NULL;
    }
    if (options != NULL && options->struct_size != sizeof *options) {
        (void)client_error_set(err, TALLY_INVALID_ARGUMENT,
                               "options.struct_size is %zu, not %zu: start from "
                               "TALLY_OPTIONS_INIT",
                               options->struct_size, sizeof *options);
        return NULL;
    }
    if (url == NULL) {
        url = getenv("TALLY_URL"); /* NOLINT(concurrency-mt-unsafe): read only */
    }
    if (url == NULL || *url == '\0') {
        url = "http://127.0.0.1:8000";
    }
    struct tally *client = calloc(1, sizeof *client);
    if (client == NULL) {
        (void)client_error_no_memory(err);
        return NULL;
    }
    if (options != NULL) {
        client->options = *options;
    }
    client->budget = BUDGET_MOST;
    MUST(pthread_mutex_init(&client->lock, NULL));
    if (fill_client(client, url, err) == TALLY_OK) {
        return client;
    }
    tally_close(client);
    return NULL;
}

void tally_close(struct tally *client)
{
    if (client == NULL) {
        return;
    }
    async_close(client->async);
    for (int i = 0; i < client->idle_count; i++) {
        curl_easy_cleanup(client->idle[i]);
    }
    free((void *)client->idle);
    for (size_t i = 0; i < OWNED_TEXTS; i++) {
        free(client->owned_texts[i]);
    }
    free(client->base_url);
    free(client->socket_path);
    MUST(pthread_mutex_destroy(&client->lock));
    free(client);
}
