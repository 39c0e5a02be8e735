/* TLS on a connection. libmicrohttpd owns GnuTLS's session and drives it; tls.c moves the
 * session's bytes and sets its credentials:
 *
 *   - Credentials (--tls-cert, --tls-key, --tls-client-ca) are read at the start and again
 *     whenever the files change. A connection keeps the credentials that were current when it
 *     began, so a change of the files fails no request. (A daemon of libmicrohttpd would keep
 *     its first credentials.) If the files are unusable (half a file, a key that does not
 *     belong to the certificate), a line is logged. The previous credentials stay in use, and
 *     the files are read again when they change, and every minute.
 *   - While a handshake waits for its client, libmicrohttpd reports that it has work. The loop
 *     therefore sleeps after a run that moved no bytes of the handshake (daemon_has_pending()
 *     in http_loop.c).
 *   - The number of handshakes is limited. Beyond the limit, the oldest handshake of the client
 *     with the most connections is cut, so a client that opens many connections loses its own
 *     handshakes.
 *
 * Possible failures: a connection is cut if its session cannot be set up, or if its client
 * lacks a required certificate. All bytes pass through the session, except the answer to a
 * client that sends plain HTTP. Thread: the loop, except for the files. */
#ifndef TALLY_SERVER_TLS_H
#define TALLY_SERVER_TLS_H

#include "proto/status.h"

#include <stdbool.h>
#include <stdint.h>

struct config;
struct conn;
struct log;
struct metrics;
struct tls_files; /* opaque */

/* Read the files. *out stays NULL if the configuration has no certificate. Thread: main.
 * err   INVALID_FIELD, naming flag and file */
MUST_CHECK enum status tls_files_open(const struct config *config, struct log *log,
                                      struct metrics *metrics, struct tls_files **out,
                                      struct error *err);
/* Free the credentials; all connections have ended. NULL is fine. */
void tls_files_close(struct tls_files *files);

/* Read the files if they have changed. NULL is fine. Thread: main. */
void tls_files_tick(struct tls_files *files, uint64_t now_ns);

/* libmicrohttpd has begun a connection of a daemon with TLS: set up its session. */
void tls_begin(struct conn *conn);
/* Release the credentials of a connection that libmicrohttpd closes. Plain connections are
 * fine. */
void tls_end(struct conn *conn);

enum {
    TLS_SUBJECT_CHARS = 64
};

/* Get a name for the subject of the client's certificate: the SHA-256 of the subject in
 * hexadecimal digits, because subjects have any length. Returns false if no certificate was
 * required, or if it has no subject. */
bool tls_subject(const struct conn *conn, char name[TLS_SUBJECT_CHARS + 1]);

/* Values of libmicrohttpd's options: ciphers and protocols, and a function that never finds a
 * certificate. */
void *tls_priorities(void);
void *tls_no_certificate(void);

#endif
