/* Listening sockets: those of --listen and --probe-listen, and those that systemd passes.
 *
 *     ADDR:PORT     "127.0.0.1:8000", "[::1]:8000", "localhost:8000", ":8000" (all of IPv4)
 *     unix:/path    a Unix stream socket; a stale socket file is replaced
 *
 * A host name may have several addresses. Each address gets a socket; an IPv6 address gets none
 * if IPv6 is switched off. An IPv6 socket accepts IPv6 only, so that addresses of both families
 * can be listed. For port 0 the system chooses the port, and the socket's name has the chosen
 * port. Thread: one at a time. */
#ifndef TALLY_SERVER_LISTEN_H
#define TALLY_SERVER_LISTEN_H

#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
    LISTEN_SOCKETS = 32,
    /* bytes that the kernel buffers in addition to the client's window */
    LISTEN_UNSENT_BYTES = 32 << 10,
    LISTEN_NAME_BYTES = 160
};

struct listen_socket {
    int fd;     /* owned; non-blocking, close-on-exec */
    bool local; /* a Unix socket: the clients are on this machine */
    /* this process created the file of the Unix socket, and removes it at the end */
    bool unlink;
    /* identity of the file; another file at the same path is not removed */
    dev_t device;
    ino_t inode;
    bool inherited; /* systemd holds a descriptor, too, and keeps the socket open */
    bool probe;     /* a socket of --probe-listen */
    char name[LISTEN_NAME_BYTES]; /* "127.0.0.1:8000", "unix:/run/tally.sock" */
};

/* Access rights of a Unix socket: a client that may write to the file may connect. */
struct listen_access {
    mode_t mode; /* mode of the socket file, regardless of the umask */
    gid_t group; /* group of the file; (gid_t)-1: the group of the process */
};

/* Parse --socket-mode (octal, or auto: 0600, and 0660 with a group) and --socket-group (a name,
 * a number or "").
 * err   INVALID_FIELD, naming the flag */
MUST_CHECK enum status listen_access_parse(const char *mode, const char *group,
                                           struct listen_access *out, struct error *err);

struct listen_set {
    size_t count;
    struct listen_socket sockets[LISTEN_SOCKETS];
};

/* Bind and listen on one address, and add the sockets to the set. access: access rights of a
 * Unix socket, which are set before a client can connect; NULL: only the owner of the process
 * has access.
 * err   INVALID_FIELD: no such address; INTERNAL: a system call failed; the message names the
 *       call and the reason */
MUST_CHECK enum status listen_open(struct listen_set *set, const char *address,
                                   const struct listen_access *access, struct error *err);

/* Add the sockets that systemd passed (LISTEN_PID, LISTEN_FDS), if any, and unset the
 * variables. */
MUST_CHECK enum status listen_inherit(struct listen_set *set, struct error *err);

/* Make the kernel drop new handshakes. Connections that are in the backlog or in their
 * handshake can still be accepted. When all of these are accepted, no further connection
 * arrives, so closing the sockets resets no connection. The function leaves an inherited socket
 * unchanged: the connections in its backlog wait for the next process of the service. */
void listen_end(struct listen_set *set);

/* Close all sockets, and remove the files of Unix sockets, except files that another process
 * has created at the same path. */
void listen_close(struct listen_set *set);

#endif
