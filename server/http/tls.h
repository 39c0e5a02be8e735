/* TLS on a connection. libmicrohttpd owns GnuTLS's session and drives it; this file moves its bytes
 * and sets its credentials:
 *
 *   - Credentials (--tls-cert, --tls-key, --tls-client-ca) are read at the start and again whenever
 *     the files change. A connection keeps those that were valid when it began, so a change fails
 *     no request; libmicrohttpd's daemon would keep its own for ever. What cannot be used (half a
 *     file, a key that is not the certificate's) is refused with a line in the log. Connections go
 *     on with what there was, and the files are tried again when they change, and every minute.
 *   - While a handshake waits for its client, libmicrohttpd says that it has work. The loop
 *     therefore sleeps after a run that moved no bytes of the handshake (daemon_has_pending() in
 *     http_loop.c).
 *   - Connections in their handshake are limited. Beyond that one of the client that has most
 *     connections gives way, the oldest: who opens many cuts himself off, not others.
 *
 * Possible failures: a connection whose session cannot be set up is cut; a client without the
 * certificate that it needs, too. Nothing is ever written to such a socket but through the
 * session. Thread: the loop's, but for the files. */
#ifndef TALLY_SERVER_TLS_H
#define TALLY_SERVER_TLS_H

#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct config;
struct conn;
struct log;
struct metrics;
struct tls_files; /* opaque */

/* *out stays NULL where the configuration has no certificate. Thread: main.
 * err   INVALID_FIELD, naming flag and file */
MUST_CHECK enum status tls_files_open(const struct config *config, struct log *log,
                                      struct metrics *metrics, struct tls_files **out,
                                      struct error *err);
/* Every connection has ended; NULL is fine. */
void tls_files_close(struct tls_files *files);

/* Read what has changed, now and again. NULL is fine. Thread: main. */
void tls_files_tick(struct tls_files *files, uint64_t now_ns);

/* libmicrohttpd has begun a connection of a daemon with TLS. */
void tls_begin(struct conn *conn);
/* And ends it; plain ones are fine. */
void tls_end(struct conn *conn);

/* Whether bytes that came are there that MHD has not taken yet, besides those in the socket. */
bool tls_unread(const struct conn *conn);

/* Bytes from the client so far, decrypted, but for records of which a part came: these count as they
 * came. False: not known. */
bool tls_received(const struct conn *conn, uint64_t *bytes);

enum {
    TLS_SUBJECT_CHARS = 64
};

/* A name for the subject of the certificate that the client had to show, and no other: its digest,
 * SHA-256 in hex, as subjects are as long as authorities let them be. False if none was asked for,
 * or it has none. */
bool tls_subject(const struct conn *conn, char name[TLS_SUBJECT_CHARS + 1]);

/* Write something, which MHD does not write on at the same time, and say that nothing follows.
 * Returns the bytes that were taken, or a negative number. */
ssize_t tls_send_last(struct conn *conn, const void *bytes, size_t count);

/* For MHD's options: ciphers and protocols, and a way to get certificates that has none. */
void *tls_priorities(void);
void *tls_no_certificate(void);

#endif
