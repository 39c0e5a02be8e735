/* Bytes of a connection's TLS session after the handshake (tls.c). Possible failures: GnuTLS
 * does not tell the number of bytes received, or cannot send. Thread: the loop. */
#include "server/http/exchange.h"
#include "server/http/tls.h"

#include <gnutls/gnutls.h>

bool tls_unread(const struct conn *conn)
{
    return gnutls_record_check_pending(conn->tls) > 0;
}

/* Each received record has the same overhead. GnuTLS counts the records that it has decrypted;
 * in TLS 1.2 the client's Finished is the first of them. The count restarts with a new key, and
 * a padded record has more overhead: in both cases the result here is too large. */
bool tls_received(const struct conn *conn, uint64_t *bytes)
{
    unsigned char number[8];
    uint64_t records = 0;
    if (gnutls_record_get_state(conn->tls, 1, NULL, NULL, NULL, number) != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof number; i++) {
        records = records << 8 | number[i];
    }
    records -= gnutls_protocol_get_version(conn->tls) < GNUTLS_TLS1_3;
    *bytes = conn->pulled_bytes - records * gnutls_record_overhead_size(conn->tls);
    return true;
}

ssize_t tls_send_last(struct conn *conn, const void *bytes, size_t count)
{
    ssize_t sent = gnutls_record_send(conn->tls, bytes, count);
    (void)gnutls_bye(conn->tls, GNUTLS_SHUT_WR);
    return sent;
}
