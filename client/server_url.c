/* The URL of a server, split into a base URL for libcurl and the path of a Unix socket.
 *
 *   unix:/run/tally.sock, unix:///run/tally.sock   the rest of the text is the path, not encoded
 *   http+unix://%2Frun%2Ftally.sock/prefix         the host is the path, percent-encoded
 *   http://host:8000/prefix, host:8000, https://   no socket
 *
 * A base URL ends without a slash, so that a path can be appended.
 * Possible failures: TALLY_INVALID_ARGUMENT, with an example of a valid URL. Thread: any. */
#include "client/server_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SOCKET_PATH_MAX = 107, /* longest path that fits sockaddr_un */
    URL_TEXT = 1024,
    SHOWN_TEXT = 200
};

static enum tally_status store_url(struct tally *client, const char *base, const char *path,
                                   struct tally_error *err)
{
    client->base_url = strdup(base);
    client->socket_path = path == NULL ? NULL : strdup(path);
    if (client->base_url == NULL || (path != NULL && client->socket_path == NULL)) {
        return client_error_no_memory(err); /* tally_close() frees both */
    }
    size_t length = strlen(base);
    while (length > 0 && base[length - 1] == '/') {
        client->base_url[--length] = '\0';
    }
    return TALLY_OK;
}

/* Copy a URL for a message. The text before an '@' may be a password, and is hidden. */
static const char *shown(const char *url, char text[SHOWN_TEXT])
{
    const char *at = strrchr(url, '@');
    (void)snprintf(text, SHOWN_TEXT, "%s%s", at != NULL ? "***" : "", at != NULL ? at : url);
    return text;
}

static enum tally_status parse_unix(struct tally *client, const char *path, const char *base,
                                    struct tally_error *err)
{
    if (strncmp(path, "//", 2) == 0) {
        path += 2;
    }
    char text[SHOWN_TEXT];
    if (path[0] != '/' || strlen(path) > SOCKET_PATH_MAX) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                "socket path \"%s\" must be absolute and at most %d bytes "
                                "long: write unix:/run/tally.sock",
                                shown(path, text), SOCKET_PATH_MAX);
    }
    return store_url(client, base, path, err);
}

static enum tally_status parse_http_unix(struct tally *client, const char *rest,
                                         struct tally_error *err)
{
    size_t host_length = strcspn(rest, "/");
    char base[URL_TEXT];
    int written = snprintf(base, sizeof base, "http://localhost%s", rest + host_length);
    if (written < 0 || (size_t)written >= sizeof base ||
        host_length > (size_t)3 * SOCKET_PATH_MAX) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT, "the URL is too long");
    }
    int path_length = 0;
    char *path = curl_easy_unescape(NULL, rest, (int)host_length, &path_length);
    if (path == NULL) {
        return client_error_no_memory(err);
    }
    enum tally_status status =
        strlen(path) != (size_t)path_length
            ? client_error_set(err, TALLY_INVALID_ARGUMENT, "the socket path has a zero byte")
            : parse_unix(client, path, base, err);
    curl_free(path);
    return status;
}

/* Return why a parsed http(s) URL cannot be a server's address; NULL if it can. */
static const char *url_trouble(CURLU *parsed)
{
    char *text = NULL;
    const char *trouble = NULL;
    if (curl_url_get(parsed, CURLUPART_QUERY, &text, 0) == CURLUE_OK) {
        trouble = "it must not have a query ('?')";
    } else if (curl_url_get(parsed, CURLUPART_FRAGMENT, &text, 0) == CURLUE_OK) {
        trouble = "it must not have a fragment ('#')";
    } else if (curl_url_get(parsed, CURLUPART_SCHEME, &text, 0) == CURLUE_OK &&
               strcmp(text, "http") != 0 && strcmp(text, "https") != 0) {
        trouble = "its scheme must be http, https, unix or http+unix";
    }
    curl_free(text);
    return trouble;
}

static enum tally_status parse_tcp(struct tally *client, const char *url,
                                   struct tally_error *err)
{
    char *text = NULL;
    char visible[SHOWN_TEXT];
    const char *trouble = "it is not a URL";
    CURLU *parsed = curl_url();
    if (parsed == NULL) {
        return client_error_no_memory(err);
    }
    /* "host:8000" has no scheme; libcurl would parse "host" as the scheme. */
    char with_scheme[URL_TEXT];
    int written = snprintf(with_scheme, sizeof with_scheme, "%s%s",
                           strstr(url, "://") == NULL ? "http://" : "", url);
    if (url[0] == '/') { /* libcurl would parse the first folder as the host */
        trouble = "the path of a socket needs unix: before it";
    } else if (written < 0 || (size_t)written >= sizeof with_scheme) {
        trouble = "it is longer than 1023 bytes";
    } else if (curl_url_set(parsed, CURLUPART_URL, with_scheme, CURLU_NON_SUPPORT_SCHEME) ==
               CURLUE_OK) {
        trouble = url_trouble(parsed);
    }
    if (trouble == NULL && curl_url_get(parsed, CURLUPART_URL, &text, 0) != CURLUE_OK) {
        trouble = "it is not a URL";
    }
    curl_url_cleanup(parsed);
    if (trouble != NULL) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                "cannot use \"%s\" as the server's URL: %s. Write for "
                                "example http://127.0.0.1:8000 or unix:/run/tally.sock",
                                shown(url, visible), trouble);
    }
    enum tally_status status = store_url(client, text, NULL, err);
    curl_free(text);
    return status;
}

enum tally_status server_url_parse(struct tally *client, const char *url,
                                   struct tally_error *err)
{
    if (strncmp(url, "unix:", 5) == 0) {
        return parse_unix(client, url + 5, "http://localhost", err);
    }
    if (strncmp(url, "http+unix://", 12) == 0) {
        return parse_http_unix(client, url + 12, err);
    }
    return parse_tcp(client, url, err);
}

void server_url_print(const struct tally *client, char *text, size_t size)
{
    const char *url = client->base_url;
    if (client->socket_path != NULL) {
        (void)snprintf(text, size, "unix:%s", client->socket_path);
        return;
    }
    size_t scheme =
        strcspn(url, ":") + strlen("://"); /* libcurl writes a scheme into every URL */
    const char *host = url + scheme;
    const char *at = memrchr(host, '@', strcspn(host, "/"));
    (void)snprintf(text, size, "%.*s%s", (int)scheme, url, at == NULL ? host : at + 1);
}
