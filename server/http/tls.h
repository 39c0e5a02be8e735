/* TLS on a connection. libmicrohttpd has GnuTLS's session, and drives it; its bytes, its
 * credentials and its handshake's turn are ours:
 *
 *   - Credentials are those that are valid when the connection begins (tls_files.h), not those of
 *     libmicrohttpd's daemon, which would keep them for ever.
 *   - libmicrohttpd asks for a handshake again and again while it waits for its client, and has no
 *     end of bytes to announce. The loop sleeps by what was moved (daemon_has_pending() in
 *     http_loop.c): what goes in or out of a session's socket is progress.
 *   - A handshake costs a signature, a thousand times what a small request does. In one run of a
 *     daemon one connection gets on with its own, so that others come between.
 *   - Connections in their handshake are limited. Beyond that one of the client that has most
 *     connections gives way, the oldest: who opens many cuts himself off, not others.
 *
 * Possible failures: a connection whose session cannot be set up is cut; a client without the
 * certificate that it needs, too. Nothing is ever written to such a socket but through the
 * session. Thread: the loop's, all functions. */
#ifndef TALLY_SERVER_TLS_H
#define TALLY_SERVER_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct MHD_Connection;
struct conn;
struct gnutls_certificate_credentials_st;

/* libmicrohttpd has begun a connection of a daemon with TLS. */
void tls_begin(struct conn *conn);
/* And ends it; plain ones are fine. */
void tls_end(struct conn *conn);

/* Whether bytes that came are there that MHD has not taken yet, besides those in the socket. */
bool tls_unread(const struct conn *conn);

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

/* For these credentials: refuse clients without a certificate of their authorities. Pure. */
void tls_verify_clients(struct gnutls_certificate_credentials_st *credentials);

/* For MHD's options: ciphers and protocols, and a way to get certificates that has none. */
void *tls_priorities(void);
void *tls_no_certificate(void);

#endif
