/* The baseline of the service's figures: libmicrohttpd alone, in external epoll loops. It
 * receives a body and answers with a constant, or with the body itself (`echo`), and does no
 * work in between. It has as many threads as tallyd has for HTTP; the kernel distributes
 * connections among them.
 *
 *     bare_mhd PORT [answer bytes | echo]
 *
 * make build/bin/bare_mhd */
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct body {
    char *bytes;
    size_t count;
    size_t room;
};

static struct MHD_Response *constant;
static bool echo;

static bool begin(struct MHD_Connection *connection, struct body *body)
{
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                                     MHD_HTTP_HEADER_CONTENT_LENGTH);
    body->room = length == NULL ? 0 : strtoull(length, NULL, 10);
    body->bytes = echo ? malloc(body->room + 1) : NULL;
    return !echo || body->bytes != NULL;
}

static enum MHD_Result answer(struct MHD_Connection *connection, struct body *body)
{
    if (!echo) {
        return MHD_queue_response(connection, MHD_HTTP_OK, constant);
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body->count, body->bytes, MHD_RESPMEM_PERSISTENT);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                  "application/octet-stream");
    enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result on_access(void *cls, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *data_bytes, void **con_cls)
{
    struct body *body = *con_cls;
    (void)cls;
    (void)url;
    (void)method;
    (void)version;
    if (body == NULL) {
        *con_cls = body = calloc(1, sizeof *body);
        return body != NULL && begin(connection, body) ? MHD_YES : MHD_NO;
    }
    if (*data_bytes == 0) {
        return answer(connection, body);
    }
    if (echo && *data_bytes <= body->room - body->count) {
        memcpy(body->bytes + body->count, data, *data_bytes);
        body->count += *data_bytes;
    }
    *data_bytes = 0;
    return MHD_YES;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **con_cls,
                         enum MHD_RequestTerminationCode how)
{
    struct body *body = *con_cls;
    (void)cls;
    (void)connection;
    (void)how;
    if (body != NULL) {
        free(body->bytes);
        free(body);
    }
    *con_cls = NULL;
}

static void *serve(void *argument)
{
    struct MHD_Daemon *daemon = argument;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd pollfd = {.fd = info->epoll_fd, .events = POLLIN};
    for (;;) {
        MHD_UNSIGNED_LONG_LONG timeout_ms = 0;
        bool at_once = MHD_get_timeout(daemon, &timeout_ms) == MHD_YES && timeout_ms == 0;
        if (poll(&pollfd, 1, at_once ? 0 : 1000) < 0) {
            return NULL;
        }
        (void)MHD_run(daemon);
    }
}

enum {
    MOST_THREADS = 4
};

/* Number of threads, as tallyd chooses it for `--http-loops 0`. */
static int threads_here(void)
{
    cpu_set_t cpus;
    int count = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
    return count < MOST_THREADS ? count : MOST_THREADS;
}

static struct MHD_Daemon *start(uint16_t port)
{
    return MHD_start_daemon(
        MHD_USE_EPOLL, port, NULL, NULL, on_access, NULL, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, NULL, MHD_OPTION_LISTENING_ADDRESS_REUSE, 1U,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)65536,
        MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)65536, MHD_OPTION_END);
}

int main(int argc, char **argv)
{
    const size_t most = (size_t)1 << 30;
    size_t bytes = argc > 2 ? strtoull(argv[2], NULL, 10) : 48;
    echo = argc > 2 && strcmp(argv[2], "echo") == 0;
    if (argc < 2 || bytes > most) {
        fprintf(stderr, "usage: bare_mhd PORT [answer bytes | echo]\n");
        return 2;
    }
    char *text = malloc(bytes + 1);
    if (text == NULL) {
        return 1;
    }
    memset(text, 'x', bytes);
    constant = MHD_create_response_from_buffer(bytes, text, MHD_RESPMEM_PERSISTENT);
    (void)MHD_add_response_header(constant, MHD_HTTP_HEADER_CONTENT_TYPE,
                                  "application/octet-stream");
    for (int left = threads_here(); left > 0; left--) {
        pthread_t thread;
        struct MHD_Daemon *daemon = start((uint16_t)atoi(argv[1]));
        if (daemon == NULL) {
            fprintf(stderr, "bare_mhd: port %s is taken\n", argv[1]);
            return 1;
        }
        if (left == 1) {
            (void)serve(daemon);
        } else if (pthread_create(&thread, NULL, serve, daemon) != 0) {
            return 1;
        }
    }
    return 1;
}
