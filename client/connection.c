/* The idle connections are a stack: the connection that was released last is acquired first,
 * because the server is least likely to have closed it. */
#include "client/connection.h"

enum {
    TRANSFER_BUFFER = 512 * 1024 /* bytes of libcurl's buffers, for few system calls */
};

/* Set an option to a text; NULL: leave the option. Returns false without memory. Other errors
 * mean that libcurl was built without the option; tally_open() has checked that the option is
 * not needed. */
static bool set_text(CURL *easy, CURLoption option, const char *text)
{
    return text == NULL || curl_easy_setopt(easy, option, text) != CURLE_OUT_OF_MEMORY;
}

/* Set the options that do not change from request to request. Returns false without memory. */
static bool configure_connection(const struct tally *client, CURL *easy)
{
    const struct tally_options *options = &client->options;
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    /* After a timeout libcurl must not wait for the thread that resolves the name. */
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
           /* Otherwise libcurl also trusts the certificates in the system's folder. */
           set_text(easy, CURLOPT_CAPATH, options->ca_file != NULL ? "/dev/null" : NULL) &&
           set_text(easy, CURLOPT_SSLCERT, options->client_cert) &&
           set_text(easy, CURLOPT_SSLKEY, options->client_key);
}

CURL *connection_acquire(struct tally *client)
{
    CURL *easy = NULL;
    MUST(pthread_mutex_lock(&client->lock));
    if (client->idle_count > 0) {
        easy = client->idle[--client->idle_count];
    }
    MUST(pthread_mutex_unlock(&client->lock));
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
    MUST(pthread_mutex_lock(&client->lock));
    if (client->idle_count < client->options.idle_connections) {
        client->idle[client->idle_count++] = easy;
        easy = NULL;
    }
    MUST(pthread_mutex_unlock(&client->lock));
    curl_easy_cleanup(easy);
}
