/* The check of a client's certificates in the bytes of its handshake message, before GnuTLS
 * decodes them. Any client can send a chain, known or not. GnuTLS decodes the first certificate
 * four times before it looks for an authority, and needs 6 microseconds for each name in the
 * certificate. GnuTLS also checks signatures with keys of any size. So this check enforces
 * bounds, in this order:
 *
 *   - bytes and number of the certificates;
 *   - elements of DER in each extension (names, policies, ...) and in all certificates
 *     together;
 *   - modulus and exponent of each RSA key;
 *   - the chain must name one of the authorities of --tls-client-ca.
 *
 * A chain that passes this check proves nothing, because names can be copied: GnuTLS verifies
 * the chain afterwards. The check allocates no memory, except for GnuTLS's copy of an
 * authority.
 * Thread: any. */
#ifndef TALLY_SERVER_CLIENT_CHAIN_H
#define TALLY_SERVER_CLIENT_CHAIN_H

#include "proto/status.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdbool.h>

/* Check the body of a client's Certificate message, which has at least one certificate.
 * out   *alert   the alert for the client, if the chain is refused
 * err   INVALID_REQUEST */
MUST_CHECK enum status client_chain_check(const gnutls_datum_t *message, bool tls13,
                                          gnutls_x509_trust_list_t authorities,
                                          gnutls_alert_description_t *alert, struct error *err);

#endif
