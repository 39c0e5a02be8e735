#include "client/client.h"
#include "client/client_error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longest path that fits sockaddr_un. */
enum {
    SOCKET_PATH_MAX = 107
};

static enum tally_status no_memory(struct tally_error *err)
{
    return client_error_set(err, TALLY_OUT_OF_MEMORY, "out of memory");
}

/* "unix:/path" and "unix:///path": the rest of the text is the path, as it is. */
static enum tally_status parse_unix(const char *rest, char **base_url, char **socket_path,
                                    struct tally_error *err)
{
    if (strncmp(rest, "//", 2) == 0) {
        rest += 2;
    }
    size_t length = strlen(rest);
    if (rest[0] != '/' || length > SOCKET_PATH_MAX) {
        return client_error_set(
            err, TALLY_INVALID_ARGUMENT,
            "socket path \"%.120s\" must be absolute and at most %d bytes long: "
            "write unix:/run/tally.sock",
            rest, SOCKET_PATH_MAX);
    }
    char *path = strdup(rest);
    char *base = strdup("http://localhost");
    if (path == NULL || base == NULL) {
        free(path);
        free(base);
        return no_memory(err);
    }
    *socket_path = path;
    *base_url = base;
    return TALLY_OK;
}

/* "http+unix://%2Frun%2Ftally.sock/prefix": the path is percent-encoded in the host's place. */
static enum tally_status parse_http_unix(const char *rest, char **base_url, char **socket_path,
                                         struct tally_error *err)
{
    const char *slash = strchr(rest, '/');
    size_t host_length = slash == NULL ? strlen(rest) : (size_t)(slash - rest);
    const char *prefix = slash == NULL ? "" : slash;
    char base[1024];
    int written = snprintf(base, sizeof base, "http://localhost%s", prefix);
    if (written < 0 || (size_t)written >= sizeof base ||
        host_length > (size_t)3 * SOCKET_PATH_MAX) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT, "the URL is too long");
    }
    while (written > 0 && base[written - 1] == '/') {
        base[--written] = '\0';
    }
    int decoded_length = 0;
    char *decoded = curl_easy_unescape(NULL, rest, (int)host_length, &decoded_length);
    if (decoded == NULL) {
        return no_memory(err);
    }
    enum tally_status status = TALLY_OK;
    if (strlen(decoded) != (size_t)decoded_length) {
        status =
            client_error_set(err, TALLY_INVALID_ARGUMENT, "the socket path has a zero byte");
    } else {
        status = parse_unix(decoded, base_url, socket_path, err);
    }
    curl_free(decoded);
    if (status != TALLY_OK) {
        return status;
    }
    free(*base_url);
    *base_url = strdup(base);
    if (*base_url != NULL) {
        return TALLY_OK;
    }
    free(*socket_path);
    *socket_path = NULL;
    return no_memory(err);
}

/* What makes a parsed http(s) URL unusable as a server's address; NULL if nothing. */
static const char *url_trouble(CURLU *parts)
{
    char *text = NULL;
    const char *trouble = NULL;
    if (curl_url_get(parts, CURLUPART_SCHEME, &text, 0) == CURLUE_OK) {
        if (strcmp(text, "http") != 0 && strcmp(text, "https") != 0) {
            trouble = "its scheme must be http, https, unix or http+unix";
        }
        curl_free(text);
    }
    if (trouble == NULL && curl_url_get(parts, CURLUPART_QUERY, &text, 0) == CURLUE_OK) {
        trouble = "it must not have a query ('?')";
        curl_free(text);
    }
    if (trouble == NULL && curl_url_get(parts, CURLUPART_FRAGMENT, &text, 0) == CURLUE_OK) {
        trouble = "it must not have a fragment ('#')";
        curl_free(text);
    }
    return trouble;
}

static enum tally_status parse_tcp(const char *url, char **base_url, struct tally_error *err)
{
    char *text = NULL;
    const char *trouble = "it is not a URL";
    CURLU *parts = curl_url();
    if (parts == NULL) {
        return no_memory(err);
    }
    /* "host:8000" has no scheme; libcurl would take "host" for one. */
    char with_scheme[1024];
    int written = snprintf(with_scheme, sizeof with_scheme, "%s%s",
                           strstr(url, "://") == NULL ? "http://" : "", url);
    if (written < 0 || (size_t)written >= sizeof with_scheme) {
        trouble = "it is longer than 1023 bytes";
    } else if (curl_url_set(parts, CURLUPART_URL, with_scheme, CURLU_NON_SUPPORT_SCHEME) ==
               CURLUE_OK) {
        trouble = url_trouble(parts);
    }
    if (trouble == NULL && curl_url_get(parts, CURLUPART_URL, &text, 0) != CURLUE_OK) {
        trouble = "it is not a URL";
    }
    curl_url_cleanup(parts);
    if (trouble != NULL) {
        return client_error_set(
            err, TALLY_INVALID_ARGUMENT,
            "cannot use \"%.200s\" as the server's URL: %s. Write for example "
            "http://127.0.0.1:8000 or unix:/run/tally.sock",
            url, trouble);
    }
    char *base = strdup(text);
    curl_free(text);
    if (base == NULL) {
        return no_memory(err);
    }
    size_t length = strlen(base);
    while (length > 0 && base[length - 1] == '/') {
        base[--length] = '\0';
    }
    *base_url = base;
    return TALLY_OK;
}

enum tally_status server_url_parse(const char *url, char **base_url, char **socket_path,
                                   struct tally_error *err)
{
    if (strncmp(url, "unix:", 5) == 0) {
        return parse_unix(url + 5, base_url, socket_path, err);
    }
    if (strncmp(url, "http+unix://", 12) == 0) {
        return parse_http_unix(url + 12, base_url, socket_path, err);
    }
    return parse_tcp(url, base_url, err);
}
