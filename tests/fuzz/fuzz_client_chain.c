/* libFuzzer target: certificates of clients (server/http/client_chain.c).
 *
 *     byte 0: flags   the message, or one certificate from which the message is made
 *
 * Flags: 1 TLS 1.3; 2 the bytes are the whole message. No authority is known, so no chain is
 * accepted. A chain that is refused only for that reason has passed the cost checks, and must
 * be cheap for GnuTLS to decode. */
#include "server/http/client_chain.h"

#include "tests/fuzz/fuzz_input.h"

#include <gnutls/abstract.h>
#include <gnutls/x509.h>

enum {
    CHAIN_TLS13 = 1,
    CHAIN_MESSAGE = 2,
    MESSAGE_MOST = 64 << 10,
    NAMES_MOST = 127,
    RSA_BITS_MOST = 8192
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t put_number(uint8_t *at, size_t bytes, size_t number)
{
    for (size_t i = bytes; i-- > 0; number >>= 8) {
        at[i] = (uint8_t)number;
    }
    return bytes;
}

/* Write a message with only this certificate. */
static size_t put_message(uint8_t *at, bool tls13, const uint8_t *bytes, size_t count)
{
    uint8_t *end = at;
    end += tls13 ? put_number(end, 1, 0) : 0;
    end += put_number(end, 3, count + (tls13 ? 5 : 3));
    end += put_number(end, 3, count);
    memcpy(end, bytes, count);
    end += count;
    end += tls13 ? put_number(end, 2, 0) : 0;
    return (size_t)(end - at);
}

static size_t count_names(gnutls_x509_crt_t certificate)
{
    unsigned count = 0;
    for (;; count++) {
        char name[MESSAGE_MOST];
        size_t bytes = sizeof name;
        const int kind =
            gnutls_x509_crt_get_subject_alt_name(certificate, count, name, &bytes, NULL);
        if (kind < 0 && kind != GNUTLS_E_X509_UNKNOWN_SAN) {
            return count;
        }
    }
}

/* A certificate that passes the cost checks must have few names and a short key when GnuTLS
 * decodes it. */
static void check_decoded(const uint8_t *bytes, size_t count)
{
    const gnutls_datum_t der = {.data = (unsigned char *)(uintptr_t)bytes,
                                .size = (unsigned)count};
    gnutls_x509_crt_t certificate;
    unsigned bits = 0;
    REQUIRE(gnutls_x509_crt_init(&certificate) == 0);
    if (gnutls_x509_crt_import(certificate, &der, GNUTLS_X509_FMT_DER) == 0) {
        REQUIRE(count_names(certificate) <= NAMES_MOST);
        const int kind = gnutls_x509_crt_get_pk_algorithm(certificate, &bits);
        REQUIRE((kind != GNUTLS_PK_RSA && kind != GNUTLS_PK_RSA_PSS) || bits <= RSA_BITS_MOST);
    }
    gnutls_x509_crt_deinit(certificate);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = ERROR_INIT;
    gnutls_alert_description_t alert = GNUTLS_A_CLOSE_NOTIFY;
    gnutls_x509_trust_list_t nobody;
    if (size == 0 || size > MESSAGE_MOST / 2) {
        return 0;
    }
    const bool tls13 = (data[0] & CHAIN_TLS13) != 0;
    const bool whole = (data[0] & CHAIN_MESSAGE) != 0;
    uint8_t *message = malloc(size + 8);
    REQUIRE(message != NULL && gnutls_x509_trust_list_init(&nobody, 1) == 0);
    size_t count = size - 1;
    if (whole) {
        memcpy(message, data + 1, count);
    } else {
        count = put_message(message, tls13, data + 1, count);
    }
    /* The message is moved to the end of its memory, so that a read behind the message is
     * detected. */
    uint8_t *exact = realloc(message, count + 1);
    REQUIRE(exact != NULL);
    memmove(exact + 1, exact, count);
    const gnutls_datum_t datum = {.data = exact + 1, .size = (unsigned)count};
    REQUIRE(client_chain_check(&datum, tls13, nobody, &alert, &err) == STATUS_INVALID_REQUEST);
    REQUIRE(alert == GNUTLS_A_UNKNOWN_CA || alert == GNUTLS_A_BAD_CERTIFICATE ||
            alert == GNUTLS_A_UNSUPPORTED_CERTIFICATE);
    if (alert == GNUTLS_A_UNKNOWN_CA && !whole) {
        check_decoded(data + 1, size - 1);
    }
    gnutls_x509_trust_list_deinit(nobody, 0);
    free(exact);
    return 0;
}
