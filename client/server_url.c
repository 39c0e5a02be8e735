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
    URL_MAX = 1000,
    SHOWN_TEXT = 200
};

static const char NO_MEMORY[] = "out of memory";
static const char SOCKET_PATH[] =
    "the path of a socket must be absolute and have at most 107 bytes";

/* The parsers below set base_url and socket_path, and return NULL; or return the fault of the
 * URL. */

static const char *parse_socket(struct tally *client, const char *path, const char *prefix)
{
    path += strncmp(path, "//", 2) == 0 ? 2 : 0;
    if (path[0] != '/' || strlen(path) > SOCKET_PATH_MAX) {
        return SOCKET_PATH;
    }
    client->socket_path = strdup(path);
    if (asprintf(&client->base_url, "http://localhost%s", prefix) < 0) {
        client->base_url = NULL;
    }
    return client->socket_path != NULL && client->base_url != NULL ? NULL : NO_MEMORY;
}

static const char *parse_encoded_socket(struct tally *client, const char *rest)
{
    const size_t host = strcspn(rest, "/");
    int length = 0;
    char *path = curl_easy_unescape(NULL, rest, (int)host, &length);
    const char *trouble = path == NULL ? NO_MEMORY
                          : strlen(path) != (size_t)length
                              ? "the path of the socket has a zero byte"
                              : parse_socket(client, path, rest + host);
    curl_free(path);
    return trouble;
}

static const char *parse_tcp(struct tally *client, const char *url)
{
    /* "host:8000" has no scheme; libcurl would parse "host" as the scheme. */
    char with_scheme[URL_MAX + sizeof "http://"];
    (void)snprintf(with_scheme, sizeof with_scheme, "%s%s",
                   strstr(url, "://") == NULL ? "http://" : "", url);
    if (url[0] == '/') { /* libcurl would parse the first folder as the host */
        return "the path of a socket needs unix: before it";
    }
    CURLU *parsed = curl_url();
    char *text = NULL;
    char *part = NULL; /* query or fragment, which are refused */
    const char *trouble = NULL;
    if (parsed == NULL) {
        return NO_MEMORY;
    }
    if (curl_url_set(parsed, CURLUPART_URL, with_scheme, CURLU_NON_SUPPORT_SCHEME) !=
            CURLUE_OK ||
        curl_url_get(parsed, CURLUPART_URL, &text, 0) != CURLUE_OK) {
        trouble = "it is not a URL";
    } else if (curl_url_get(parsed, CURLUPART_QUERY, &part, 0) == CURLUE_OK) {
        trouble = "it must not have a query ('?')";
    } else if (curl_url_get(parsed, CURLUPART_FRAGMENT, &part, 0) == CURLUE_OK) {
        trouble = "it must not have a fragment ('#')";
    } else if (strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0) {
        trouble = "its scheme must be http, https, unix or http+unix";
    } else {
        client->base_url = strdup(text);
        trouble = client->base_url == NULL ? NO_MEMORY : NULL;
    }
    curl_url_cleanup(parsed);
    curl_free(text);
    curl_free(part);
    return trouble;
}

enum tally_status server_url_parse(struct tally *client, const char *url,
                                   struct tally_error *err)
{
    const char *trouble = strlen(url) > URL_MAX           ? "it is longer than 1000 bytes"
                          : strncmp(url, "unix:", 5) == 0 ? parse_socket(client, url + 5, "")
                          : strncmp(url, "http+unix://", 12) == 0
                              ? parse_encoded_socket(client, url + 12)
                              : parse_tcp(client, url);
    if (trouble == NO_MEMORY) {
        return client_error_no_memory(err); /* tally_close() frees both texts */
    }
    if (trouble != NULL) {
        const char *at = strrchr(url, '@'); /* text before '@' may have a password: not shown */
        return client_error_set(
            err, TALLY_INVALID_ARGUMENT,
            "cannot use '%s%.*s' as the server's URL: %s. Write for example "
            "http://127.0.0.1:8000 or unix:/run/tally.sock",
            at != NULL ? "***" : "", SHOWN_TEXT, at != NULL ? at : url, trouble);
    }
    for (size_t length = strlen(client->base_url); client->base_url[length - 1] == '/';
         length--) {
        client->base_url[length - 1] = '\0';
    }
    return TALLY_OK;
}

void server_url_print(const struct tally *client, char *text, size_t size)
{
    const char *url = client->base_url;
    if (client->socket_path != NULL) {
        (void)snprintf(text, size, "unix:%s", client->socket_path);
        return;
    }
    size_t scheme =
        strcspn(url, ":") + strlen("://"); /* libcurl has added a scheme if there was none */
    const char *host = url + scheme;
    const char *at = memrchr(host, '@', strcspn(host, "/"));
    (void)snprintf(text, size, "%.*s%s", (int)scheme, url, at == NULL ? host : at + 1);
}

void server_url_port_hint(const struct tally *client, char *text, size_t size)
{
    CURLU *url = client->socket_path == NULL ? curl_url() : NULL;
    char *port = NULL;
    char *usual = NULL;
    text[0] = '\0';
    if (url != NULL &&
        curl_url_set(url, CURLUPART_URL, client->base_url, CURLU_NON_SUPPORT_SCHEME) ==
            CURLUE_OK &&
        curl_url_get(url, CURLUPART_PORT, &port, 0) == CURLUE_NO_PORT &&
        curl_url_set(url, CURLUPART_USER, NULL, 0) == CURLUE_OK &&
        curl_url_set(url, CURLUPART_PASSWORD, NULL, 0) == CURLUE_OK &&
        curl_url_set(url, CURLUPART_PORT, "8000", 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_URL, &usual, 0) == CURLUE_OK) {
        (void)snprintf(text, size,
                       ". The URL names no port; the default port of tallyd is 8000: %s",
                       usual);
    }
    curl_free(port);
    curl_free(usual);
    curl_url_cleanup(url);
}
