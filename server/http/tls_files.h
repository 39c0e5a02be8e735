/* The certificate, key and authorities that new TLS connections get (--tls-cert, --tls-key,
 * --tls-client-ca), read at the start and again whenever the files change.
 *
 * A connection keeps what it began with, so a change fails no request. What cannot be used (half
 * a file, a key that is not the certificate's) is refused with a line in the log: the connections
 * go on with what there was, and the files are tried again when they change, and every minute. */
#ifndef TALLY_SERVER_TLS_FILES_H
#define TALLY_SERVER_TLS_FILES_H

#include "proto/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
struct gnutls_certificate_credentials_st;
struct log;
struct metrics;
struct tls_files; /* opaque */

/* What was read together. */
struct tls_credentials {
    struct gnutls_certificate_credentials_st *gnutls;
    bool ask_clients; /* for certificates of their own */
    struct tls_files *files;
    size_t references; /* guarded by the lock of the files */
};

/* *out stays NULL where the configuration has no certificate. Thread: main.
 * err   INVALID_FIELD, naming flag and file */
MUST_CHECK enum status tls_files_open(const struct config *config, struct log *log,
                                      struct metrics *metrics, struct tls_files **out,
                                      struct error *err);
/* Every reference is back; NULL is fine. */
void tls_files_close(struct tls_files *files);

/* Read what has changed, now and again. NULL is fine. Thread: main. */
void tls_files_tick(struct tls_files *files, uint64_t now_ns);

/* What is valid now; tls_credentials_release() is due. Thread: any. */
struct tls_credentials *tls_credentials_get(struct tls_files *files);
void tls_credentials_release(struct tls_credentials *credentials);

#endif
