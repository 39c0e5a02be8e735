/* The sockets the service listens on: --listen addresses and those systemd hands over.
 *
 *     ADDR:PORT     "127.0.0.1:8000", "[::1]:8000", "localhost:8000", ":8000" (all of IPv4)
 *     unix:/path    a Unix stream socket; a stale one nobody listens on is replaced
 *
 * A name may stand for several addresses: a socket for each, but none for those of IPv6 where
 * it is switched off. IPv6 sockets take IPv6 only, so that both families can be listed side by
 * side. Port 0: the system chooses; the name says
 * which. Thread: one at a time. */
#ifndef TALLY_SERVER_LISTEN_H
#define TALLY_SERVER_LISTEN_H

#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
    LISTEN_SOCKETS = 32,
    LISTEN_UNSENT_BYTES = 32 << 10, /* that the kernel takes beyond its client's window */
    LISTEN_NAME_BYTES = 160
};

struct listen_socket {
    int fd;       /* owned; non-blocking, close-on-exec */
    bool local;   /* Unix socket: its clients are on this machine */
    bool unlink;  /* the path in `name` is ours to remove, ... */
    dev_t device; /* ... as long as it is this file */
    ino_t inode;
    bool inherited;               /* systemd has it too, and keeps it open after us */
    bool probe;                   /* of --probe-listen */
    char name[LISTEN_NAME_BYTES]; /* "127.0.0.1:8000", "unix:/run/tally.sock" */
};

/* Who may connect to a Unix socket: to connect is to write. */
struct listen_access {
    mode_t mode; /* of the socket file, whatever the umask is */
    gid_t group; /* (gid_t)-1: the process's own */
};

/* From --socket-mode (octal, or auto: 0600, with a group 0660) and --socket-group (a name, a
 * number or "").
 * err   INVALID_FIELD, naming the flag */
MUST_CHECK enum status listen_access_parse(const char *mode, const char *group,
                                           struct listen_access *out, struct error *err);

struct listen_set {
    size_t count;
    struct listen_socket sockets[LISTEN_SOCKETS];
};

/* Bind and listen on one address as above, adding to the set. access is for Unix sockets, NULL:
 * their owner alone; they have it before anybody can connect.
 * err   INVALID_FIELD: not an address; INTERNAL: the system refused (says why) */
MUST_CHECK enum status listen_open(struct listen_set *set, const char *address,
                                   const struct listen_access *access, struct error *err);

/* Add the sockets that systemd passed (LISTEN_PID, LISTEN_FDS) and forget the variables; none is
 * fine. */
MUST_CHECK enum status listen_inherit(struct listen_set *set, struct error *err);

/* Let no new connection begin, so that the sockets can be closed without resetting one that the
 * client already has: after this, what is in the backlog or in the middle of its handshake can
 * still be accepted, and once nothing is there nothing comes any more. Inherited sockets are
 * left alone: their backlog waits for whoever takes it next. */
void listen_end(struct listen_set *set);

/* Close everything and remove the Unix sockets' paths, but for one that has become another's. */
void listen_close(struct listen_set *set);

#endif
