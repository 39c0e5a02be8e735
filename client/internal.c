/* Errors and connections. A call acquires the connection that was released last, which is the
 * likeliest to be open still; without an idle one a new handle is made.
 *
 * Failure: only lack of memory. Thread: any; connections change hands under idle_lock. */
#include "client/internal.h"

#include "proto/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    TRANSFER_BUFFER = 512 * 1024 /* libcurl's buffers: fewer, larger reads and writes */
};

/* ---- errors ---- */

const char *tally_status_name(enum tally_status status)
{
    static const char *const names[] = {
        [TALLY_OK] = "ok",
        [TALLY_INVALID_ARGUMENT] = "invalid argument",
        [TALLY_OUT_OF_MEMORY] = "out of memory",
        [TALLY_UNSUPPORTED] = "unsupported",
        [TALLY_CONNECT] = "cannot connect",
        [TALLY_CONNECTION_LOST] = "connection lost",
        [TALLY_TIMEOUT] = "timeout",
        [TALLY_REJECTED] = "rejected",
        [TALLY_BUSY] = "busy",
        [TALLY_DEADLINE] = "deadline passed",
        [TALLY_SERVER_ERROR] = "server error",
        [TALLY_BAD_ANSWER] = "bad answer",
        [TALLY_CANCELLED] = "cancelled",
        [TALLY_LOCAL_IO] = "local input or output failed",
    };
    return (size_t)status < ARRAY_COUNT(names) ? names[status] : NULL;
}

void client_error_reset(struct tally_error *err)
{
    if (err != NULL) {
        memset(err, 0, sizeof *err);
    }
}

enum tally_status client_error_set(struct tally_error *err, enum tally_status status,
                                   const char *format, ...)
{
    if (err == NULL) {
        return status;
    }
    err->status = status;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    text_make_safe(err->message); /* some of them have texts of the network in them */
    return status;
}

enum tally_status client_require(const struct tally *client, struct tally_error *err)
{
    client_error_reset(err);
    return client != NULL ? TALLY_OK
                          : client_error_set(err, TALLY_INVALID_ARGUMENT, "the client is NULL");
}

enum tally_status client_error_no_memory(struct tally_error *err)
{
    return client_error_set(err, TALLY_OUT_OF_MEMORY, "out of memory");
}

/* ---- connections ---- */

/* An option that is a text; NULL leaves it alone. False: no memory. One that this libcurl was
 * built without fails and is not needed then: check_features() refused what would need it. */
static bool set_text(CURL *easy, CURLoption option, const char *text)
{
    return text == NULL || curl_easy_setopt(easy, option, text) != CURLE_OUT_OF_MEMORY;
}

/* What does not change from request to request. False: no memory. */
static bool configure_connection(const struct tally *client, CURL *easy)
{
    const struct tally_options *options = &client->options;
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    /* A time that is up is not waited over for a resolver: its thread ends by itself. */
    (void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)TRANSFER_BUFFER);
    (void)curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)TRANSFER_BUFFER);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)options->connect_timeout_ms);
    if (options->token != NULL) {
        (void)curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
    }
    if (options->insecure != 0) {
        (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    return set_text(easy, CURLOPT_PROTOCOLS_STR, "http,https") &&
           set_text(easy, CURLOPT_USERAGENT, options->user_agent) &&
           set_text(easy, CURLOPT_UNIX_SOCKET_PATH, client->socket_path) &&
           set_text(easy, CURLOPT_PROXY, client->socket_path != NULL ? "" : NULL) &&
           set_text(easy, CURLOPT_XOAUTH2_BEARER, options->token) &&
           set_text(easy, CURLOPT_CAINFO, options->ca_file) &&
           set_text(easy, CURLOPT_SSLCERT, options->client_cert) &&
           set_text(easy, CURLOPT_SSLKEY, options->client_key);
}

bool descriptors_are_used_up(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    bool used_up = fd < 0 && (errno == EMFILE || errno == ENFILE);
    if (fd >= 0) {
        (void)close(fd);
    }
    return used_up;
}

CURL *connection_acquire(struct tally *client)
{
    CURL *easy = NULL;
    MUST(pthread_mutex_lock(&client->idle_lock));
    if (client->idle_count > 0) {
        easy = client->idle[--client->idle_count];
    }
    MUST(pthread_mutex_unlock(&client->idle_lock));
    if (easy != NULL) {
        return easy;
    }
    easy = curl_easy_init();
    if (easy != NULL && configure_connection(client, easy)) {
        return easy;
    }
    curl_easy_cleanup(easy);
    return NULL;
}

void connection_release(struct tally *client, CURL *easy)
{
    MUST(pthread_mutex_lock(&client->idle_lock));
    if (client->idle_count < client->options.idle_connections) {
        client->idle[client->idle_count++] = easy;
        easy = NULL;
    }
    MUST(pthread_mutex_unlock(&client->idle_lock));
    curl_easy_cleanup(easy);
}
