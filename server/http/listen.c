/* Opens listening sockets; see listen.h. */
#include "server/http/listen.h"

#include "proto/digits.h"
#include "server/http/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    FIRST_INHERITED_FD = 3,
    BACKLOG = 4096,
    OWNER_MODE = 0600,
    GROUP_MODE = 0660,

    KEEPALIVE_IDLE_S = 30, /* seconds without a byte after which the system probes a client */
    KEEPALIVE_EACH_S = 10, /* seconds between two probes */
    KEEPALIVE_PROBES = 3   /* probes without an answer that end a connection */
};

#define NO_GROUP ((gid_t)-1)

static enum status no_room(struct error *err)
{
    return error_set(err, STATUS_INVALID_FIELD, "more than %d sockets to listen on",
                     LISTEN_SOCKETS);
}

static enum status system_error(struct error *err, const char *call, const char *address)
{
    return error_set(err, STATUS_INTERNAL, "listening on %s: %s: %s%s", address, call,
                     strerrordesc_np(errno),
                     errno == EADDRINUSE ? "; stop the process that uses the address, or give "
                                           "another one (--listen, --probe-listen)"
                                         : "");
}

/* Write the name of a bound socket: "127.0.0.1:8000", "[::1]:8000" or "unix:/path". */
static bool socket_name(int fd, char *name, size_t room)
{
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof address;
    char host[NI_MAXHOST] = "";
    char port[NI_MAXSERV] = "";
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        return false;
    }
    if (address.ss_family == AF_UNIX) {
        struct sockaddr_un unix_address;
        memcpy(&unix_address, &address, sizeof unix_address);
        (void)snprintf(name, room, "unix:%.*s", (int)sizeof unix_address.sun_path,
                       unix_address.sun_path);
        return true;
    }
    if (getnameinfo((struct sockaddr *)&address, bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return false;
    }
    (void)snprintf(name, room, address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    return true;
}

/* Let the system probe silent clients on all connections that the socket accepts. While the
 * receive window is full of unread bytes, the FIN of a client does not arrive, and after some
 * minutes the client's system forgets the connection without a reset. Then only a probe shows
 * that the client closed before its request was admitted and read. */
static void set_keepalive(int fd)
{
    static const struct {
        int level;
        int name;
        int value;
    } options[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
                   {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
                   {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_EACH_S},
                   {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES}};
    for (size_t i = 0; i < ARRAY_COUNT(options); i++) {
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                         sizeof options[i].value);
    }
}

static void add_socket(struct listen_set *set, int fd, bool local, bool unlink_path)
{
    /* Accepted connections inherit this limit. Without it the kernel buffers up to 4 MiB of
     * answers (tcp_wmem) for each client that does not read. */
    client_socket_bound_unsent(fd, LISTEN_UNSENT_BYTES);
    struct listen_socket *socket = &set->sockets[set->count++];
    *socket = (struct listen_socket){.fd = fd, .local = local, .unlink = unlink_path};
    if (!socket_name(fd, socket->name, sizeof socket->name)) {
        (void)snprintf(socket->name, sizeof socket->name, "fd %d", fd);
    }
}

static enum status open_tcp(struct listen_set *set, const struct addrinfo *info,
                            const char *address, struct error *err)
{
    const int on = 1;
    enum status status = STATUS_OK;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return system_error(err, "socket", address);
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (info->ai_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    }
    set_keepalive(fd);
    if (bind(fd, info->ai_addr, info->ai_addrlen) != 0) {
        status = system_error(err, "bind", address);
    } else if (listen(fd, BACKLOG) != 0) {
        status = system_error(err, "listen", address);
    }
    if (status != STATUS_OK) {
        (void)close(fd);
        return status;
    }
    add_socket(set, fd, false, false);
    return STATUS_OK;
}

/* Split "host:port" or "[host]:port". */
static bool split_host_port(const char *address, char *host, size_t room, const char **port)
{
    const char *colon = strrchr(address, ':');
    uint64_t number = 0;
    if (colon == NULL || !digits_are_all(colon + 1, strlen(colon + 1), &number) ||
        number > 65535) {
        return false;
    }
    size_t bytes = (size_t)(colon - address);
    bool bracketed = address[0] == '[' && colon[-1] == ']';
    if (bracketed) {
        address++;
        bytes -= 2;
    } else if (memchr(address, ':', bytes) != NULL) {
        return false; /* an IPv6 address needs its brackets */
    }
    if (bytes >= room) {
        return false;
    }
    memcpy(host, address, bytes);
    host[bytes] = '\0';
    *port = colon + 1;
    return true;
}

/* Returns false if the system has no IPv6, or IPv6 is switched off: then ::1 cannot be
 * bound. */
static bool ipv6_is_on(void)
{
    const struct sockaddr_in6 own = {.sin6_family = AF_INET6,
                                     .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool on = fd >= 0 && bind(fd, (const struct sockaddr *)&own, sizeof own) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return on;
}

/* True if an earlier entry of the list is equal: /etc/hosts may repeat an address. */
static bool is_repeated(const struct addrinfo *list, const struct addrinfo *info)
{
    while (list != info && (list->ai_addrlen != info->ai_addrlen ||
                            memcmp(list->ai_addr, info->ai_addr, info->ai_addrlen) != 0)) {
        list = list->ai_next;
    }
    return list != info;
}

/* Open a socket for each address of the list. A name such as localhost has an IPv6 address on
 * every machine; without IPv6, the IPv4 addresses are enough. */
static enum status open_all(struct listen_set *set, const struct addrinfo *list,
                            const char *address, struct error *err)
{
    const size_t before = set->count;
    struct error skipped = ERROR_INIT;
    for (const struct addrinfo *info = list; info != NULL; info = info->ai_next) {
        if (is_repeated(list, info)) {
            continue;
        }
        struct error found = ERROR_INIT;
        enum status status = set->count == LISTEN_SOCKETS
                                 ? no_room(&found)
                                 : open_tcp(set, info, address, &found);
        if (status != STATUS_OK && (info->ai_family != AF_INET6 || ipv6_is_on())) {
            *err = found;
            return status;
        }
        skipped = status != STATUS_OK ? found : skipped;
    }
    if (set->count == before) {
        *err = skipped;
        return skipped.status;
    }
    return STATUS_OK;
}

static enum status open_host(struct listen_set *set, const char *address, struct error *err)
{
    char host[NI_MAXHOST];
    const char *port = NULL;
    struct addrinfo *list = NULL;
    if (!split_host_port(address, host, sizeof host, &port)) {
        return error_set(
            err, STATUS_INVALID_FIELD,
            "\"%s\" is no address to listen on; expected ADDR:PORT, [IPV6]:PORT or unix:/path",
            address);
    }
    const struct addrinfo hints = {.ai_family = host[0] == '\0' ? AF_INET : AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    int code = getaddrinfo(host[0] == '\0' ? NULL : host, port, &hints, &list);
    if (code != 0) {
        return error_set(err, STATUS_INVALID_FIELD, "listening on %s: %s", address,
                         gai_strerror(code));
    }
    enum status status = open_all(set, list, address, err);
    freeaddrinfo(list);
    return status;
}

/* True if the path is a socket on which no process listens. */
static bool socket_is_stale(const struct sockaddr_un *address)
{
    struct stat info;
    if (lstat(address->sun_path, &info) != 0 || !S_ISSOCK(info.st_mode)) {
        return false;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return false;
    }
    bool stale = connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
                 errno == ECONNREFUSED;
    (void)close(fd);
    return stale;
}

static enum status parse_socket_mode(const char *text, bool grouped, mode_t *out,
                                     struct error *err)
{
    size_t digits = strspn(text, "01234567");
    if (strcmp(text, "auto") == 0) {
        *out = grouped ? GROUP_MODE : OWNER_MODE;
        return STATUS_OK;
    }
    unsigned long mode = strtoul(text, NULL, 8);
    if (digits == 0 || digits > 4 || text[digits] != '\0' || mode > 0777) {
        return error_set(err, STATUS_INVALID_FIELD,
                         "--socket-mode: \"%.40s\" is no mode in octal from 0 to 0777; write "
                         "for example 0660, or auto",
                         text);
    }
    *out = (mode_t)mode;
    return STATUS_OK;
}

static enum status find_group(const char *name, gid_t *out, struct error *err)
{
    uint64_t number = 0;
    bool fits = false;
    if (name[0] == '\0') {
        *out = NO_GROUP;
        return STATUS_OK;
    }
    if (digits_read(name, strlen(name), &number, &fits) == strlen(name)) {
        if (!fits || number >= NO_GROUP) {
            return error_set(err, STATUS_INVALID_FIELD,
                             "--socket-group: %.40s is no group's number: they end at %u", name,
                             (unsigned)NO_GROUP - 1);
        }
        *out = (gid_t)number;
        return STATUS_OK;
    }
    errno = 0;
    const struct group *group = getgrnam(name); /* NOLINT(concurrency-mt-unsafe): one thread */
    if (group == NULL) {
        return error_set(err, STATUS_INVALID_FIELD,
                         "--socket-group: there is no group \"%.40s\"%s%s", name,
                         errno != 0 ? ": " : "", errno != 0 ? strerrordesc_np(errno) : "");
    }
    *out = group->gr_gid;
    return STATUS_OK;
}

enum status listen_access_parse(const char *mode, const char *group, struct listen_access *out,
                                struct error *err)
{
    struct listen_access found = {.mode = OWNER_MODE};
    TRY(find_group(group, &found.group, err));
    TRY(parse_socket_mode(mode, found.group != NO_GROUP, &found.mode, err));
    *out = found;
    return STATUS_OK;
}

/* Set group and mode of the bound socket at `path`, and get the status of its file into *file.
 * bind() created the file with this mode without the bits of the umask (open_unix()); this
 * function adds those bits. No client can connect before listen(), so no client sees the file
 * in between. */
static enum status set_access(const char *path, const struct listen_access *access,
                              struct stat *file, struct error *err)
{
    if (access->group != NO_GROUP && lchown(path, (uid_t)-1, access->group) != 0) {
        /* "The group is not valid in the user namespace" is EINVAL. */
        return error_set(
            err, STATUS_INTERNAL,
            "listening on %s: giving it to group %u (--socket-group): %s; %s", path,
            (unsigned)access->group, strerrordesc_np(errno),
            errno == EINVAL
                ? "the group has no number in tallyd's user namespace: map it there, "
                  "or run tallyd outside of it (systemd: PrivateUsers=no)"
                : "tallyd must run as a member of that group, or as root");
    }
    if (lstat(path, file) != 0) {
        return system_error(err, "stat", path);
    }
    if ((file->st_mode & 07777) != access->mode &&
        fchmodat(AT_FDCWD, path, access->mode, AT_SYMLINK_NOFOLLOW) != 0) {
        return system_error(err, "chmod (--socket-mode)", path);
    }
    return STATUS_OK;
}

/* Report a failed bind(). The system's "Address already in use" for a path may refer to a file
 * of any kind. */
static enum status bind_error(const char *path, struct error *err)
{
    int code = errno;
    struct stat info;
    if (code == EADDRINUSE && lstat(path, &info) == 0 && !S_ISSOCK(info.st_mode)) {
        return error_set(err, STATUS_INTERNAL,
                         "listening on %s: there is a file that is no socket, which is left "
                         "alone: remove it, or give another path",
                         path);
    }
    errno = code;
    return system_error(err, "bind", path);
}

static enum status open_unix(struct listen_set *set, const char *path,
                             const struct listen_access *access, struct error *err)
{
    static const struct listen_access owner_alone = {.mode = OWNER_MODE, .group = NO_GROUP};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat file = {.st_ino = 0};
    enum status status = STATUS_OK;
    if (path[0] == '\0' || strlen(path) >= sizeof address.sun_path) {
        return error_set(err, STATUS_INVALID_FIELD,
                         "the path of a Unix socket has 1..%zu bytes, not %zu",
                         sizeof address.sun_path - 1, strlen(path));
    }
    memcpy(address.sun_path, path, strlen(path));
    if (socket_is_stale(&address)) {
        (void)unlink(path);
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return system_error(err, "socket", path);
    }
    access = access == NULL ? &owner_alone : access;
    /* Linux creates the file with the mode of the descriptor, without the bits of the umask.
     * The umask belongs to the whole process, whose other threads create files, so it is not
     * changed. */
    if (fchmod(fd, access->mode) != 0) {
        status = system_error(err, "chmod", path);
    } else if (bind(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        status = bind_error(path, err);
    } else {
        status = set_access(path, access, &file, err);
        if (status == STATUS_OK && listen(fd, BACKLOG) != 0) {
            status = system_error(err, "listen", path);
        }
        if (status != STATUS_OK) {
            (void)unlink(path);
        }
    }
    if (status != STATUS_OK) {
        (void)close(fd);
        return status;
    }
    add_socket(set, fd, true, true);
    set->sockets[set->count - 1].device = file.st_dev;
    set->sockets[set->count - 1].inode = file.st_ino;
    return STATUS_OK;
}

enum status listen_open(struct listen_set *set, const char *address,
                        const struct listen_access *access, struct error *err)
{
    if (set->count == LISTEN_SOCKETS) {
        return no_room(err);
    }
    if (strncmp(address, "unix:", 5) == 0) {
        return open_unix(set, address + 5, access, err);
    }
    return open_host(set, address, err);
}

static int socket_option(int fd, int name)
{
    int value = -1;
    socklen_t bytes = sizeof value;
    return getsockopt(fd, SOL_SOCKET, name, &value, &bytes) == 0 ? value : -1;
}

static enum status inherit_one(struct listen_set *set, int fd, struct error *err)
{
    int family = socket_option(fd, SO_DOMAIN);
    if (set->count == LISTEN_SOCKETS) {
        return no_room(err);
    }
    if (socket_option(fd, SO_TYPE) != SOCK_STREAM || socket_option(fd, SO_ACCEPTCONN) != 1 ||
        (family != AF_INET && family != AF_INET6 && family != AF_UNIX)) {
        return error_set(err, STATUS_INVALID_FIELD,
                         "file descriptor %d, passed by LISTEN_FDS, is no listening TCP or "
                         "Unix stream socket",
                         fd);
    }
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    if (family != AF_UNIX && socket_option(fd, SO_KEEPALIVE) == 0) {
        set_keepalive(fd); /* the unit of systemd has no KeepAlive= */
    }
    add_socket(set, fd, family == AF_UNIX, false);
    set->sockets[set->count - 1].inherited = true;
    return STATUS_OK;
}

enum status listen_inherit(struct listen_set *set, struct error *err)
{
    /* No other thread runs yet. */
    const char *pid = getenv("LISTEN_PID"); /* NOLINT(concurrency-mt-unsafe) */
    const char *fds = getenv("LISTEN_FDS"); /* NOLINT(concurrency-mt-unsafe) */
    if (pid == NULL || fds == NULL || strtol(pid, NULL, 10) != (long)getpid()) {
        return STATUS_OK;
    }
    long count = strtol(fds, NULL, 10);
    (void)unsetenv("LISTEN_PID");     /* NOLINT(concurrency-mt-unsafe) */
    (void)unsetenv("LISTEN_FDS");     /* NOLINT(concurrency-mt-unsafe) */
    (void)unsetenv("LISTEN_FDNAMES"); /* NOLINT(concurrency-mt-unsafe) */
    for (long i = 0; i < count; i++) {
        TRY(inherit_one(set, FIRST_INHERITED_FD + (int)i, err));
    }
    return STATUS_OK;
}

/* Remove the file of a Unix socket. Call this before the descriptor is closed: until then no
 * other file has the same inode number. Another process may have moved the file, and the next
 * service may have created a socket at the same path. */
static void unlink_socket(struct listen_socket *socket)
{
    const char *path = socket->name + strlen("unix:");
    struct stat file;
    if (socket->unlink && lstat(path, &file) == 0 && file.st_dev == socket->device &&
        file.st_ino == socket->inode) {
        (void)unlink(path);
    }
    socket->unlink = false;
}

/* Drop every SYN that begins a connection; the ACK that ends a handshake passes. A client whose
 * SYN was dropped sends another one after a second; the system then refuses it. */
static void drop_new_handshakes(int fd)
{
    enum {
        FLAGS_AT = 13, /* offset of the flags; the filter gets packets from the TCP header on */
        SYN = 0x02,
        SYN_AND_ACK = 0x12
    };
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS_AT),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, SYN_AND_ACK),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    const struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    /* If the kernel supports no filters, a handshake that ends during the close is reset. */
    (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

void listen_end(struct listen_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        struct listen_socket *socket = &set->sockets[i];
        unlink_socket(socket);
        if (!socket->local && !socket->inherited) {
            drop_new_handshakes(socket->fd);
        }
    }
}

void listen_close(struct listen_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        unlink_socket(&set->sockets[i]);
        (void)close(set->sockets[i].fd);
    }
    set->count = 0;
}
