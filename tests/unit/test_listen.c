/* listen.h: addresses, Unix sockets, inherited descriptors. */
#include "server/http/listen.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static void tcp_port_0_is_named_after_the_port_it_got(void **state)
{
    struct listen_set set = {0};
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(listen_open(&set, "127.0.0.1:0", NULL, &err), STATUS_OK);
    assert_int_equal(set.count, 1);
    assert_int_equal(strncmp(set.sockets[0].name, "127.0.0.1:", 10), 0);
    int port = atoi(set.sockets[0].name + 10);
    assert_true(port > 0);
    /* SO_REUSEADDR allows the bind while earlier connections of the service linger. */
    int again = 0;
    socklen_t bytes = sizeof again;
    assert_int_equal(getsockopt(set.sockets[0].fd, SOL_SOCKET, SO_REUSEADDR, &again, &bytes),
                     0);
    assert_int_equal(again, 1);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    listen_close(&set);
    assert_int_equal(set.count, 0);
}

/* A client that vanishes does not close its connection. Only probes find such a client. */
static void clients_that_are_silent_are_probed(void **state)
{
    struct listen_set set = {0};
    struct error err = ERROR_INIT;
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    (void)state;
    assert_int_equal(listen_open(&set, "127.0.0.1:0", NULL, &err), STATUS_OK);
    assert_int_equal(getsockname(set.sockets[0].fd, (struct sockaddr *)&address, &bytes), 0);
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof address), 0);
    struct pollfd waits = {.fd = set.sockets[0].fd, .events = POLLIN};
    assert_int_equal(poll(&waits, 1, -1), 1);
    const int accepted = accept(set.sockets[0].fd, NULL, NULL);
    assert_true(accepted >= 0);
    int probed = 0;
    int idle_s = 0;
    bytes = sizeof probed;
    assert_int_equal(getsockopt(accepted, SOL_SOCKET, SO_KEEPALIVE, &probed, &bytes), 0);
    assert_int_equal(probed, 1);
    bytes = sizeof idle_s;
    assert_int_equal(getsockopt(accepted, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, &bytes), 0);
    assert_in_range(idle_s, 1, 60);
    close(accepted);
    close(client);
    listen_close(&set);
}

static void bad_addresses_are_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "8000",
                                      "localhost",
                                      "host:",
                                      "127.0.0.1:70000",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:x",
                                      "::1:8000",
                                      "unix:",
                                      "127.0.0.1:-1",
                                      "no.such.host.invalid:80",
                                      "[::1:80",
                                      "[:80",
                                      "]:80"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct listen_set set = {0};
        struct error err = ERROR_INIT;
        if (listen_open(&set, bad[i], NULL, &err) != STATUS_INVALID_FIELD || set.count != 0) {
            fail_msg("\"%s\" was taken (%s)", bad[i], err.detail);
        }
    }
}

static void without_a_host_it_is_every_address_of_ipv4(void **state)
{
    struct listen_set set = {0};
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(listen_open(&set, ":0", NULL, &err), STATUS_OK);
    assert_int_equal(set.count, 1);
    assert_int_equal(strncmp(set.sockets[0].name, "0.0.0.0:", 8), 0);
    listen_close(&set);
}

static void a_taken_port_is_an_error(void **state)
{
    struct listen_set set = {0};
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(listen_open(&set, "127.0.0.1:0", NULL, &err), STATUS_OK);
    assert_int_equal(listen_open(&set, set.sockets[0].name, NULL, &err), STATUS_INTERNAL);
    assert_non_null(strstr(err.detail, "bind: Address already in use; stop the process that"));
    assert_int_equal(set.count, 1);
    listen_close(&set);
}

/* One list may have an IPv6 and an IPv4 address with the same port. */
static void a_socket_for_ipv6_leaves_ipv4_to_another_one(void **state)
{
    struct listen_set set = {0};
    struct error err = ERROR_INIT;
    char address[64];
    enum status status = STATUS_INTERNAL;
    (void)state;
    if (listen_open(&set, "[::1]:0", NULL, &err) != STATUS_OK) {
        skip();
    }
    listen_close(&set);
    for (int ports = 0; ports < 32 && status != STATUS_OK; ports++) {
        /* another process may have the same port of IPv4 */
        struct listen_set tried = {0};
        assert_int_equal(listen_open(&tried, "[::]:0", NULL, &err), STATUS_OK);
        assert_int_equal(strncmp(tried.sockets[0].name, "[::]:", 5), 0);
        (void)snprintf(address, sizeof address, "0.0.0.0:%.40s", tried.sockets[0].name + 5);
        status = listen_open(&tried, address, NULL, &err);
        assert_true(status != STATUS_OK || strcmp(tried.sockets[1].name, address) == 0);
        listen_close(&tried);
    }
    assert_int_equal(status, STATUS_OK);
}

static void unix_socket_is_made_and_removed(void **state)
{
    struct listen_set set = {0};
    struct error err = ERROR_INIT;
    struct stat info;
    char directory[] = "/tmp/tally-listen-XXXXXX";
    char address[64];
    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(address, sizeof address, "unix:%s/sock", directory);
    assert_int_equal(listen_open(&set, address, NULL, &err), STATUS_OK);
    assert_true(set.sockets[0].local);
    assert_string_equal(set.sockets[0].name, address);
    /* A process is listening there: the socket is not replaced. */
    assert_int_equal(listen_open(&set, address, NULL, &err), STATUS_INTERNAL);
    assert_int_equal(stat(address + 5, &info), 0);
    /* The process before ended without cleaning up: its socket is replaced. */
    close(set.sockets[0].fd);
    set.count = 0;
    err = (struct error)ERROR_INIT;
    assert_int_equal(listen_open(&set, address, NULL, &err), STATUS_OK);
    listen_close(&set);
    assert_int_equal(stat(address + 5, &info), -1);
    assert_int_equal(rmdir(directory), 0);
}

static void a_unix_socket_whose_queue_is_full_is_not_taken_away(void **state)
{
    struct listen_set set = {0};
    struct error err = ERROR_INIT;
    struct stat before;
    struct stat after;
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    char directory[] = "/tmp/tally-listen-XXXXXX";
    char address[64];
    int fds[2];
    int count = 0;
    (void)state;
    assert_non_null(mkdtemp(directory));
    (void)snprintf(path.sun_path, sizeof path.sun_path, "%s/sock", directory);
    (void)snprintf(address, sizeof address, "unix:%s/sock", directory);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&path, sizeof path), 0);
    assert_int_equal(listen(listener, 0), 0);
    do {
        assert_in_range(count, 0, 1);
        fds[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    } while (connect(fds[count++], (struct sockaddr *)&path, sizeof path) == 0);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(stat(path.sun_path, &before), 0);
    assert_int_equal(listen_open(&set, address, NULL, &err), STATUS_INTERNAL);
    assert_int_equal(stat(path.sun_path, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    while (count > 0) {
        close(fds[--count]);
    }
    close(listener);
    assert_int_equal(unlink(path.sun_path), 0);
    assert_int_equal(rmdir(directory), 0);
}

/* This happens when the next service starts before the last one has ended. */
static void a_path_that_another_has_by_now_is_left_to_it(void **state)
{
    struct listen_set first = {0};
    struct listen_set second = {0};
    struct error err = ERROR_INIT;
    struct stat info;
    char directory[] = "/tmp/tally-listen-XXXXXX";
    char address[64];
    char moved[64];
    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(address, sizeof address, "unix:%s/sock", directory);
    snprintf(moved, sizeof moved, "%s/moved", directory);
    assert_int_equal(listen_open(&first, address, NULL, &err), STATUS_OK);
    assert_int_equal(rename(address + 5, moved), 0);
    assert_int_equal(listen_open(&second, address, NULL, &err), STATUS_OK);
    listen_close(&first);
    assert_int_equal(stat(address + 5, &info), 0);
    assert_int_equal(unlink(address + 5), 0);
    FILE *file = fopen(address + 5, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    listen_close(&second);
    assert_int_equal(unlink(address + 5), 0);
    assert_int_equal(unlink(moved), 0);
    assert_int_equal(rmdir(directory), 0);
}

/* "three.test" has three addresses, two of which are equal. `no_ipv6`: the machine has no
 * IPv6. */
static bool no_ipv6;

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **list); /* NOLINT: the linker's name */
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **list); /* NOLINT */
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **list) /* NOLINT */
{
    static const char *const entries[] = {"::1", "127.0.0.1", "127.0.0.1"};
    if (host == NULL || (strcmp(host, "three.test") != 0 && strcmp(host, "six.test") != 0)) {
        return __real_getaddrinfo(host, port, hints, list);
    }
    for (size_t i = 0; i < (host[0] == 's' ? 1 : ARRAY_COUNT(entries)); i++) {
        assert_int_equal(__real_getaddrinfo(entries[i], port, hints, list), 0);
        list = &(*list)->ai_next;
    }
    return 0;
}

/* State of the socket file when it was created, and when listen() was called, after which
 * clients can connect. */
static struct stat when_bound;
static struct stat when_listening;
static const char *watched; /* NULL: nothing */

int __real_bind(int fd, const struct sockaddr *address, socklen_t bytes); /* NOLINT */
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes); /* NOLINT */
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes)  /* NOLINT */
{
    if (no_ipv6 && address->sa_family == AF_INET6) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    int result = __real_bind(fd, address, bytes);
    if (watched != NULL && result == 0) {
        assert_int_equal(lstat(watched, &when_bound), 0);
    }
    return result;
}

static void a_name_has_a_socket_for_each_of_its_addresses(void **state)
{
    struct listen_set set = {0};
    struct listen_set taken = {0};
    struct error err = ERROR_INIT;
    char address[200];
    (void)state;
    if (listen_open(&taken, "[::1]:0", NULL, &err) == STATUS_OK) {
        assert_int_equal(listen_open(&set, "three.test:0", NULL, &err), STATUS_OK);
        assert_int_equal(set.count, 2);
        listen_close(&set);
        /* On a machine with IPv6, errors of IPv6 are reported. */
        snprintf(address, sizeof address, "three.test%.60s", taken.sockets[0].name + 5);
        assert_int_equal(listen_open(&set, address, NULL, &err), STATUS_INTERNAL);
        listen_close(&set);
        listen_close(&taken);
        err = (struct error)ERROR_INIT;
    }
    no_ipv6 = true;
    assert_int_equal(listen_open(&set, "three.test:0", NULL, &err), STATUS_OK);
    assert_int_equal(set.count, 1);
    assert_int_equal(strncmp(set.sockets[0].name, "127.0.0.1:", 10), 0);
    listen_close(&set);
    /* There is no message about the address that was omitted. */
    assert_int_equal(err.status, STATUS_OK);
    assert_int_equal(listen_open(&set, "six.test:0", NULL, &err), STATUS_INTERNAL);
    assert_non_null(strstr(err.detail, "six.test:0: bind: Cannot assign requested address"));
    assert_int_equal(set.count, 0);
    no_ipv6 = false;
}

static bool listening_fails;

int __real_listen(int fd, int backlog); /* NOLINT: the linker's name */
int __wrap_listen(int fd, int backlog); /* NOLINT */
int __wrap_listen(int fd, int backlog)  /* NOLINT */
{
    if (watched != NULL) {
        assert_int_equal(lstat(watched, &when_listening), 0);
        assert_in_range(backlog, 1024, INT32_MAX); /* a crowd may connect at once */
    }
    if (listening_fails) {
        errno = EADDRINUSE;
        return -1;
    }
    return __real_listen(fd, backlog);
}

/* A group to which this process may give files; its own group if there is no other. */
static gid_t some_group(void)
{
    gid_t groups[64];
    int count = getgroups(64, groups);
    for (int i = 0; i < count; i++) {
        if (groups[i] != getgid()) {
            return groups[i];
        }
    }
    return geteuid() == 0 ? 12345 : getgid();
}

static void a_unix_socket_has_its_mode_and_group_before_it_can_be_reached(void **state)
{
    (void)state;
    static const mode_t masks[] = {0, 022, 077, 0777};
    static const mode_t modes[] = {0600, 0660, 0666, 0620};
    char directory[] = "/tmp/tally-listen-XXXXXX";
    char address[64];
    assert_non_null(mkdtemp(directory));
    snprintf(address, sizeof address, "unix:%s/sock", directory);
    watched = address + 5;
    for (size_t i = 0; i < 16; i++) {
        struct listen_set set = {0};
        struct error err = ERROR_INIT;
        struct listen_access access = {.mode = modes[i % 4], .group = some_group()};
        struct stat now;
        mode_t before = umask(masks[i / 4]);
        memset(&when_listening, 0, sizeof when_listening);
        assert_int_equal(listen_open(&set, address, &access, &err), STATUS_OK);
        assert_int_equal(umask(before), masks[i / 4]);
        assert_int_equal(when_bound.st_mode & 07777 & ~access.mode, 0);
        assert_int_equal(when_listening.st_mode & 07777, access.mode);
        assert_int_equal(when_listening.st_gid, access.group);
        assert_int_equal(lstat(watched, &now), 0);
        assert_int_equal(now.st_mode, when_listening.st_mode);
        listen_close(&set);
    }
    watched = NULL;
    assert_int_equal(rmdir(directory), 0);
}

static void without_a_word_a_unix_socket_is_its_owners_alone(void **state)
{
    (void)state;
    struct listen_access access;
    struct error err = ERROR_INIT;
    assert_int_equal(listen_access_parse("auto", "", &access, &err), STATUS_OK);
    assert_int_equal(access.mode, 0600);
    assert_true(access.group == (gid_t)-1);
    assert_int_equal(listen_access_parse("auto", "0", &access, &err), STATUS_OK);
    assert_int_equal(access.mode, 0660);
    assert_int_equal(access.group, 0);
    assert_int_equal(listen_access_parse("640", "root", &access, &err), STATUS_OK);
    assert_int_equal(access.mode, 0640);
    assert_int_equal(access.group, 0);
    assert_int_equal(listen_access_parse("0777", "4294967294", &access, &err), STATUS_OK);
    assert_int_equal(access.mode, 0777);
}

static void a_unix_socket_that_cannot_be_used_leaves_no_file(void **state)
{
    struct listen_set set = {.count = 0};
    struct error err = ERROR_INIT;
    struct stat info;
    char path[64];
    char listen[80];
    (void)state;
    (void)snprintf(path, sizeof path, "/tmp/tally-test-unusable-%d", (int)getpid());
    (void)snprintf(listen, sizeof listen, "unix:%s", path);
    listening_fails = true;
    assert_int_equal(listen_open(&set, listen, NULL, &err), STATUS_INTERNAL);
    listening_fails = false;
    assert_non_null(strstr(err.detail, path));
    assert_int_equal(lstat(path, &info), -1);
    assert_int_equal(set.count, 0);
}

static void an_invalid_mode_or_group_is_refused(void **state)
{
    (void)state;
    static const char *const modes[] = {"",     "rw",   "0888", "1777",
                                        "-660", "0o66", "660 ", "00000000660"};
    static const char *const groups[] = {"no-such-group-here", "-1",  "4294967295",
                                         "99999999999",        "0x0", " "};
    struct listen_access access = {.mode = 07};
    for (size_t i = 0; i < ARRAY_COUNT(modes); i++) {
        struct error err = ERROR_INIT;
        if (listen_access_parse(modes[i], "", &access, &err) != STATUS_INVALID_FIELD) {
            fail_msg("%s is taken as a mode", modes[i]);
        }
        assert_non_null(strstr(err.detail, "--socket-mode"));
    }
    for (size_t i = 0; i < ARRAY_COUNT(groups); i++) {
        struct error err = ERROR_INIT;
        if (listen_access_parse("auto", groups[i], &access, &err) != STATUS_INVALID_FIELD) {
            fail_msg("%s is taken as a group", groups[i]);
        }
        assert_non_null(strstr(err.detail, "--socket-group"));
    }
    assert_int_equal(access.mode, 07);
}

static void a_file_in_the_way_is_left_alone_and_said_to_be_none_of_ours(void **state)
{
    struct listen_set set = {0};
    struct error err = ERROR_INIT;
    char path[] = "/tmp/tally-listen-XXXXXX";
    char address[64];
    int fd = mkstemp(path);
    (void)state;
    snprintf(address, sizeof address, "unix:%s", path);
    assert_int_equal(listen_open(&set, address, NULL, &err), STATUS_INTERNAL);
    assert_non_null(strstr(err.detail, path));
    assert_non_null(strstr(err.detail, "no socket"));
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);
    close(fd);
}

static void a_unix_path_is_as_long_as_an_address_has_room_for(void **state)
{
    enum {
        MOST = sizeof((struct sockaddr_un *)NULL)->sun_path - 1
    };
    struct listen_set set = {0};
    struct error err = ERROR_INIT;
    char directory[] = "/tmp/tally-listen-XXXXXX";
    char address[200] = "unix:";
    (void)state;
    assert_non_null(mkdtemp(directory));
    memset(address + 5, 'a', MOST + 1);
    memcpy(address + 5, directory, strlen(directory));
    address[5 + strlen(directory)] = '/';
    assert_int_equal(listen_open(&set, address, NULL, &err), STATUS_INVALID_FIELD);
    address[5 + MOST] = '\0';
    assert_int_equal(listen_open(&set, address, NULL, &err), STATUS_OK);
    assert_string_equal(set.sockets[0].name, address);
    listen_close(&set);
    assert_int_equal(rmdir(directory), 0);
}

static int connect_to(const struct listen_socket *to, int flags)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(to->name + 10)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | flags, 0);
    bool done = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    assert_true(done || errno == EINPROGRESS);
    return fd;
}

static void there_is_room_for_so_many_sockets_of_either_kind(void **state)
{
    static const char *const addresses[] = {"127.0.0.1:0", "unix:/tmp/tally-no-room.sock"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(addresses); i++) {
        struct listen_set set = {.count = LISTEN_SOCKETS};
        struct error err = ERROR_INIT;
        assert_int_equal(listen_open(&set, addresses[i], NULL, &err), STATUS_INVALID_FIELD);
        assert_non_null(strstr(err.detail, "more than "));
        assert_int_equal(set.count, LISTEN_SOCKETS);
    }
    assert_int_equal(access("/tmp/tally-no-room.sock", F_OK), -1);
}

static void at_the_end_only_connections_that_had_begun_are_left_to_accept(void **state)
{
    struct listen_set set = {0};
    struct error err = ERROR_INIT;
    char byte = 0;
    (void)state;
    assert_int_equal(listen_open(&set, "127.0.0.1:0", NULL, &err), STATUS_OK);
    int early = connect_to(&set.sockets[0], 0);
    listen_end(&set);
    int late = connect_to(&set.sockets[0], SOCK_NONBLOCK);
    int taken = accept4(set.sockets[0].fd, NULL, NULL, SOCK_NONBLOCK);
    assert_true(taken >= 0);
    assert_int_equal(accept4(set.sockets[0].fd, NULL, NULL, 0), -1); /* no other connection */
    assert_int_equal(errno, EAGAIN);
    listen_close(&set);
    /* The accepted connection still works in both directions. */
    assert_int_equal(send(early, "x", 1, 0), 1);
    assert_int_equal(recv(taken, &byte, 1, 0), 1);
    assert_int_equal(send(taken, "y", 1, 0), 1);
    assert_int_equal(recv(early, &byte, 1, 0), 1);
    close(taken);
    close(early);
    close(late);
}

static void the_end_leaves_an_inherited_socket_as_it_is(void **state)
{
    struct listen_set set = {0};
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(listen_open(&set, "127.0.0.1:0", NULL, &err), STATUS_OK);
    set.sockets[0].inherited = true;
    listen_end(&set);
    int late = connect_to(&set.sockets[0], 0);
    int taken = accept4(set.sockets[0].fd, NULL, NULL, 0);
    assert_true(taken >= 0);
    close(taken);
    close(late);
    listen_close(&set);
}

static void without_activation_nothing_is_inherited(void **state)
{
    struct listen_set set = {0};
    struct error err = ERROR_INIT;
    (void)state;
    setenv("LISTEN_PID", "1", 1);
    setenv("LISTEN_FDS", "1", 1);
    assert_int_equal(listen_inherit(&set, &err), STATUS_OK);
    assert_int_equal(set.count, 0);
}

static void inherited_sockets_are_checked_and_taken(void **state)
{
    struct listen_set made = {0};
    struct listen_set set = {0};
    struct error err = ERROR_INIT;
    char pid[32];
    int saved = dup(3); /* keeps the test runner's descriptor */
    (void)state;
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    assert_int_equal(listen_open(&made, "127.0.0.1:0", NULL, &err), STATUS_OK);
    assert_int_equal(dup2(made.sockets[0].fd, 3), 3);
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_FDNAMES", "http", 1);
    assert_int_equal(fcntl(3, F_SETFL, 0), 0);
    assert_int_equal(listen_inherit(&set, &err), STATUS_OK);
    assert_int_equal(fcntl(3, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(fcntl(3, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    assert_int_equal(set.count, 1);
    assert_int_equal(set.sockets[0].fd, 3);
    assert_true(set.sockets[0].inherited);
    assert_string_equal(set.sockets[0].name, made.sockets[0].name);
    assert_null(getenv("LISTEN_PID"));
    assert_null(getenv("LISTEN_FDS"));
    assert_null(getenv("LISTEN_FDNAMES"));
    set.count = 0;
    /* A socket that does not listen is refused. */
    int plain = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(dup2(plain, 3), 3);
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", "1", 1);
    assert_int_equal(listen_inherit(&set, &err), STATUS_INVALID_FIELD);
    close(plain);
    if (saved >= 0) {
        dup2(saved, 3);
        close(saved);
    } else {
        close(3);
    }
    listen_close(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tcp_port_0_is_named_after_the_port_it_got),
        cmocka_unit_test(clients_that_are_silent_are_probed),
        cmocka_unit_test(bad_addresses_are_refused),
        cmocka_unit_test(without_a_host_it_is_every_address_of_ipv4),
        cmocka_unit_test(a_taken_port_is_an_error),
        cmocka_unit_test(there_is_room_for_so_many_sockets_of_either_kind),
        cmocka_unit_test(a_socket_for_ipv6_leaves_ipv4_to_another_one),
        cmocka_unit_test(unix_socket_is_made_and_removed),
        cmocka_unit_test(a_unix_socket_whose_queue_is_full_is_not_taken_away),
        cmocka_unit_test(a_path_that_another_has_by_now_is_left_to_it),
        cmocka_unit_test(a_name_has_a_socket_for_each_of_its_addresses),
        cmocka_unit_test(a_unix_socket_has_its_mode_and_group_before_it_can_be_reached),
        cmocka_unit_test(without_a_word_a_unix_socket_is_its_owners_alone),
        cmocka_unit_test(a_unix_socket_that_cannot_be_used_leaves_no_file),
        cmocka_unit_test(an_invalid_mode_or_group_is_refused),
        cmocka_unit_test(a_file_in_the_way_is_left_alone_and_said_to_be_none_of_ours),
        cmocka_unit_test(a_unix_path_is_as_long_as_an_address_has_room_for),
        cmocka_unit_test(at_the_end_only_connections_that_had_begun_are_left_to_accept),
        cmocka_unit_test(the_end_leaves_an_inherited_socket_as_it_is),
        cmocka_unit_test(without_activation_nothing_is_inherited),
        cmocka_unit_test(inherited_sockets_are_checked_and_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
