#include "tests/client/lib/fake_server.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    CONNECTIONS = 20000
};

struct fake_server {
    fake_script script;
    void *user;
    size_t early;
    int listener;
    char url[256];
    char path[128];
    pthread_t acceptor;
    pthread_mutex_t lock;
    int requests;
    int connections;
    int sockets[CONNECTIONS]; /* -1 after the connection's thread closed it */
    pthread_t threads[CONNECTIONS];
    void *kept[CONNECTIONS];
    int kept_count;
    bool stopping;
};

struct connection {
    struct fake_server *server;
    int number;
    int fd;
};

static bool send_all(int fd, const void *bytes, size_t count)
{
    const char *at = bytes;
    while (count > 0) {
        ssize_t sent = send(fd, at, count, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += sent;
        count -= (size_t)sent;
    }
    return true;
}

static bool is_stopping(struct fake_server *server)
{
    pthread_mutex_lock(&server->lock);
    bool stopping = server->stopping;
    pthread_mutex_unlock(&server->lock);
    return stopping;
}

/* Read to the end of the headers. Further bytes belong to the body and are stored in `rest`.
 * Returns -1 if the client closed. */
static int read_head(int fd, struct fake_request *request, char *rest, size_t *rest_bytes)
{
    size_t used = 0;
    for (;;) {
        ssize_t got = recv(fd, request->head + used, sizeof request->head - 1 - used, 0);
        if (got <= 0)
            return -1;
        used += (size_t)got;
        request->head[used] = '\0';
        char *end = strstr(request->head, "\r\n\r\n");
        if (end != NULL) {
            end += 4;
            *rest_bytes = used - (size_t)(end - request->head);
            memcpy(rest, end, *rest_bytes);
            *end = '\0';
            return 0;
        }
        if (used == sizeof request->head - 1)
            return -1;
    }
}

static int read_request(struct connection *connection, struct fake_request *request)
{
    char rest[sizeof request->head];
    size_t rest_bytes = 0;
    size_t length = 0;
    if (read_head(connection->fd, request, rest, &rest_bytes) != 0)
        return -1;
    const char *header = strcasestr(request->head, "\r\ncontent-length:");
    if (header != NULL)
        length = strtoull(header + 17, NULL, 10);
    pthread_mutex_lock(&connection->server->lock);
    size_t early = connection->server->early;
    pthread_mutex_unlock(&connection->server->lock);
    size_t wanted = length < early ? length : early;
    if (wanted > 0 && strcasestr(request->head, "100-continue") != NULL)
        (void)send_all(connection->fd, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    request->body = malloc((length > rest_bytes ? length : rest_bytes) + 1);
    assert(request->body != NULL);
    memcpy(request->body, rest, rest_bytes);
    request->body_bytes = rest_bytes;
    while (request->body_bytes < wanted) {
        ssize_t got = recv(connection->fd, request->body + request->body_bytes,
                           wanted - request->body_bytes, 0);
        if (got <= 0)
            return -1;
        request->body_bytes += (size_t)got;
    }
    return 0;
}

/* Send up to answer->cut bytes. Returns false if the connection must be closed. */
static bool send_answer(struct connection *connection, const struct fake_answer *answer)
{
    size_t text_bytes = answer->text_bytes != 0 ? answer->text_bytes : strlen(answer->text);
    size_t total = text_bytes + answer->payload_bytes;
    size_t limit = answer->cut < total ? answer->cut : total;
    size_t in_text = limit < text_bytes ? limit : text_bytes;
    if (answer->delay_ms > 0)
        usleep((useconds_t)answer->delay_ms * 1000);
    if (answer->drip_us > 0) {
        for (size_t i = 0; i < limit && !is_stopping(connection->server); i++) {
            const char *from = i < text_bytes
                                   ? answer->text + i
                                   : (const char *)answer->payload + (i - text_bytes);
            if (!send_all(connection->fd, from, 1))
                return false;
            usleep((useconds_t)answer->drip_us);
        }
    } else if (!send_all(connection->fd, answer->text, in_text) ||
               !send_all(connection->fd, answer->payload, limit - in_text)) {
        return false;
    }
    while (answer->hang && !is_stopping(connection->server))
        usleep(2000);
    return limit == total && !answer->close && !answer->reset;
}

static void *connection_main(void *user)
{
    struct connection *connection = user;
    struct fake_server *server = connection->server;
    struct fake_request *request = calloc(1, sizeof *request);
    struct fake_answer *answer = calloc(1, sizeof *answer);
    assert(request != NULL && answer != NULL);
    bool open = true;
    while (open && !is_stopping(server)) {
        request->body = NULL;
        open = read_request(connection, request) == 0;
        if (open) {
            memset(answer, 0, sizeof *answer);
            answer->cut = SIZE_MAX;
            pthread_mutex_lock(&server->lock);
            request->number = server->requests++;
            pthread_mutex_unlock(&server->lock);
            server->script(server->user, request, answer);
            open = send_answer(connection, answer);
        }
        free(request->body);
    }
    if (answer->reset) {
        struct linger now = {.l_onoff = 1, .l_linger = 0};
        setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    pthread_mutex_lock(&server->lock);
    server->sockets[connection->number] = -1;
    pthread_mutex_unlock(&server->lock);
    close(connection->fd);
    free(answer);
    free(request);
    free(connection);
    return NULL;
}

static void *acceptor_main(void *user)
{
    struct fake_server *server = user;
    for (;;) {
        int fd = accept(server->listener, NULL, NULL);
        if (fd < 0 || is_stopping(server)) {
            if (fd >= 0)
                close(fd);
            return NULL;
        }
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct connection *connection = calloc(1, sizeof *connection);
        assert(connection != NULL && server->connections < CONNECTIONS);
        *connection = (struct connection){server, server->connections, fd};
        pthread_mutex_lock(&server->lock);
        server->sockets[server->connections] = fd;
        int made = pthread_create(&server->threads[server->connections], NULL, connection_main,
                                  connection);
        assert(made == 0);
        (void)made;
        server->connections++;
        pthread_mutex_unlock(&server->lock);
    }
}

static void listen_on(struct fake_server *server, const char *socket_path)
{
    int bound = -1;
    if (socket_path != NULL) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        snprintf(at.sun_path, sizeof at.sun_path, "%s", socket_path);
        snprintf(server->path, sizeof server->path, "%s", socket_path);
        snprintf(server->url, sizeof server->url, "unix:%s", socket_path);
        unlink(socket_path);
        server->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bound = bind(server->listener, (struct sockaddr *)&at, sizeof at);
    } else {
        struct sockaddr_in at = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof at;
        server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bound = bind(server->listener, (struct sockaddr *)&at, sizeof at);
        getsockname(server->listener, (struct sockaddr *)&at, &size);
        snprintf(server->url, sizeof server->url, "http://127.0.0.1:%d", ntohs(at.sin_port));
    }
    assert(bound == 0);
    bound = listen(server->listener, 512);
    assert(bound == 0);
}

struct fake_server *fake_server_start(fake_script script, void *user, size_t early,
                                      const char *socket_path)
{
    struct fake_server *server = calloc(1, sizeof *server);
    assert(server != NULL);
    server->script = script;
    server->user = user;
    server->early = early;
    pthread_mutex_init(&server->lock, NULL);
    listen_on(server, socket_path);
    int made = pthread_create(&server->acceptor, NULL, acceptor_main, server);
    assert(made == 0);
    (void)made;
    return server;
}

void fake_server_read(struct fake_server *server, size_t early)
{
    pthread_mutex_lock(&server->lock);
    server->early = early;
    pthread_mutex_unlock(&server->lock);
}

void fake_server_stop(struct fake_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->stopping = true;
    for (int i = 0; i < server->connections; i++) {
        if (server->sockets[i] >= 0)
            shutdown(server->sockets[i], SHUT_RDWR);
    }
    pthread_mutex_unlock(&server->lock);
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->acceptor, NULL);
    for (int i = 0; i < server->connections; i++) {
        pthread_mutex_lock(&server->lock);
        if (server->sockets[i] >= 0)
            shutdown(server->sockets[i], SHUT_RDWR);
        pthread_mutex_unlock(&server->lock);
        pthread_join(server->threads[i], NULL);
    }
    close(server->listener);
    if (server->path[0] != '\0')
        unlink(server->path);
    for (int i = 0; i < server->kept_count; i++)
        free(server->kept[i]);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

const char *fake_server_url(const struct fake_server *server)
{
    return server->url;
}

int fake_server_requests(struct fake_server *server)
{
    pthread_mutex_lock(&server->lock);
    int requests = server->requests;
    pthread_mutex_unlock(&server->lock);
    return requests;
}

int fake_server_connections(struct fake_server *server)
{
    pthread_mutex_lock(&server->lock);
    int connections = server->connections;
    pthread_mutex_unlock(&server->lock);
    return connections;
}

void fake_answer_tensor(struct fake_answer *answer, const char *dtype, const char *shape,
                        const void *payload, size_t bytes)
{
    snprintf(answer->text, sizeof answer->text,
             "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nTally-Dtype: %s\r\n"
             "Tally-Shape: %s\r\nX-Request-Id: req-7\r\nContent-Length: %zu\r\n\r\n",
             dtype, shape, bytes);
    answer->payload = payload;
    answer->payload_bytes = bytes;
}

void fake_answer_error(struct fake_answer *answer, int status, const char *more,
                       const char *body)
{
    snprintf(answer->text, sizeof answer->text,
             "HTTP/1.1 %d Sorry\r\nContent-Type: application/json\r\nContent-Length: "
             "%zu\r\n%s\r\n%s",
             status, strlen(body), more, body);
}

const void *fake_sums(struct fake_server *server, const struct fake_request *request)
{
    size_t count = request->body_bytes / 4;
    int32_t *sums = malloc(request->body_bytes + 1);
    uint32_t sum = 0;
    assert(sums != NULL);
    for (size_t i = 0; i < count; i++) {
        int32_t number = 0;
        memcpy(&number, request->body + 4 * i, 4);
        sum += (uint32_t)number;
        sums[i] = (int32_t)sum;
    }
    pthread_mutex_lock(&server->lock);
    assert(server->kept_count < CONNECTIONS);
    server->kept[server->kept_count++] = sums;
    pthread_mutex_unlock(&server->lock);
    return sums;
}
