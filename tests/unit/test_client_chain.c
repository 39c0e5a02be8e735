/* client_chain.h: which certificate chains are passed to GnuTLS for decoding. */
#include "server/http/client_chain.h"
#include "tests/lib/unit.h"

#include <gnutls/abstract.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MESSAGE_MOST = 64 << 10,
    NAMES_BYTES = 4 + 3 * 200
};

struct signer {
    gnutls_x509_crt_t certificate;
    gnutls_x509_privkey_t key;
};

/* An authority that the server trusts, an unknown one, and the message of a test. */
struct fixture {
    struct signer authority;
    struct signer stranger;
    gnutls_x509_trust_list_t believed;
    uint8_t bytes[MESSAGE_MOST];
    size_t count;
    bool tls13;
    gnutls_alert_description_t alert;
    struct error err;
};

/* Write tag and length of a list of names. */
static size_t begin_names(uint8_t *list, size_t bytes)
{
    size_t count = 0;
    list[count++] = 0x30;
    if (bytes >= 0x100) {
        list[count++] = 0x82;
        list[count++] = (uint8_t)(bytes >> 8);
    } else if (bytes >= 0x80) {
        list[count++] = 0x81;
    }
    list[count++] = (uint8_t)bytes;
    return count;
}

/* GnuTLS knows the raw names only of certificates that it has parsed: parse the signed
 * certificate. */
static void sign(struct signer *made, const struct signer *by)
{
    gnutls_datum_t der;
    assert_int_equal(gnutls_x509_crt_sign2(made->certificate, by->certificate, by->key,
                                           GNUTLS_DIG_SHA256, 0),
                     0);
    assert_int_equal(gnutls_x509_crt_export2(made->certificate, GNUTLS_X509_FMT_DER, &der), 0);
    gnutls_x509_crt_deinit(made->certificate);
    assert_int_equal(gnutls_x509_crt_init(&made->certificate), 0);
    assert_int_equal(gnutls_x509_crt_import(made->certificate, &der, GNUTLS_X509_FMT_DER), 0);
    gnutls_free(der.data);
}

/* Issue a certificate with this name, signed by a signer or by itself; der: an extension, NULL:
 * none. */
static struct signer issue_with(const char *name, const struct signer *by, const char *oid,
                                const uint8_t *der, size_t count)
{
    struct signer made;
    const time_t now = time(NULL);
    assert_int_equal(gnutls_x509_privkey_init(&made.key), 0);
    assert_int_equal(
        gnutls_x509_privkey_generate(made.key, GNUTLS_PK_ECDSA,
                                     GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
        0);
    gnutls_x509_crt_t crt;
    assert_int_equal(gnutls_x509_crt_init(&crt), 0);
    assert_int_equal(gnutls_x509_crt_set_version(crt, 3), 0);
    assert_int_equal(gnutls_x509_crt_set_serial(crt, "\1", 1), 0);
    assert_int_equal(gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, name,
                                                   (unsigned)strlen(name)),
                     0);
    assert_int_equal(gnutls_x509_crt_set_activation_time(crt, now - 60), 0);
    assert_int_equal(gnutls_x509_crt_set_expiration_time(crt, now + 3600), 0);
    assert_int_equal(gnutls_x509_crt_set_key(crt, made.key), 0);
    if (der != NULL) {
        assert_int_equal(gnutls_x509_crt_set_extension_by_oid(crt, oid, der, count, 0), 0);
    }
    made.certificate = crt;
    sign(&made, by != NULL ? by : &made);
    return made;
}

/* Issue a certificate with a number of alternative names. */
static struct signer issue(const char *name, const struct signer *by, size_t names)
{
    uint8_t list[NAMES_BYTES];
    size_t count = begin_names(list, 3 * names);
    for (size_t i = 0; i < names; i++, count += 3) {
        memcpy(list + count, (const uint8_t[]){0x82, 1, 'a'}, 3);
    }
    return issue_with(name, by, "2.5.29.17", names > 0 ? list : NULL, count);
}

static void forget(struct signer *made)
{
    gnutls_x509_crt_deinit(made->certificate);
    gnutls_x509_privkey_deinit(made->key);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    assert_non_null(f);
    f->authority = issue("authority", NULL, 0);
    f->stranger = issue("stranger", NULL, 0);
    f->tls13 = true;
    assert_int_equal(gnutls_x509_trust_list_init(&f->believed, 0), 0);
    assert_int_equal(
        gnutls_x509_trust_list_add_cas(f->believed, &f->authority.certificate, 1, 0), 1);
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    gnutls_x509_trust_list_deinit(f->believed, 0);
    forget(&f->authority);
    forget(&f->stranger);
    free(f);
    return 0;
}

/* ---- messages ---- */

static void put_number(uint8_t *at, size_t bytes, size_t number)
{
    for (size_t i = bytes; i-- > 0; number >>= 8) {
        at[i] = (uint8_t)number;
    }
}

/* Return the position of the list's length. */
static size_t list_at(const struct fixture *f)
{
    return f->tls13 ? 1 : 0;
}

static void begin_message(struct fixture *f)
{
    memset(f->bytes, 0, 4);
    f->count = list_at(f) + 3;
}

static void add_bytes(struct fixture *f, const void *bytes, size_t count)
{
    assert_true(f->count + 3 + count + 2 <= sizeof f->bytes);
    put_number(f->bytes + f->count, 3, count);
    memcpy(f->bytes + f->count + 3, bytes, count);
    f->count += 3 + count;
    if (f->tls13) {
        put_number(f->bytes + f->count, 2, 0);
        f->count += 2;
    }
    put_number(f->bytes + list_at(f), 3, f->count - list_at(f) - 3);
}

static void add(struct fixture *f, const struct signer *made)
{
    gnutls_datum_t der;
    assert_int_equal(gnutls_x509_crt_export2(made->certificate, GNUTLS_X509_FMT_DER, &der), 0);
    add_bytes(f, der.data, der.size);
    gnutls_free(der.data);
}

/* Check the first bytes of the message, in a copy that ends at the end of its allocation. */
static enum status check_begin(struct fixture *f, size_t count)
{
    uint8_t *copy = malloc(count + 1);
    assert_non_null(copy);
    memcpy(copy + 1, f->bytes, count);
    const gnutls_datum_t message = {copy + 1, (unsigned)count};
    f->err = (struct error)ERROR_INIT;
    enum status status =
        client_chain_check(&message, f->tls13, f->believed, &f->alert, &f->err);
    free(copy);
    return status;
}

static enum status check(struct fixture *f)
{
    return check_begin(f, f->count);
}

static void expect_refused(struct fixture *f, gnutls_alert_description_t alert,
                           const char *says)
{
    assert_int_equal(check(f), STATUS_INVALID_REQUEST);
    assert_int_equal(f->alert, alert);
    assert_non_null(strstr(f->err.detail, says));
}

static enum status check_one(struct fixture *f, const struct signer *by, size_t names)
{
    struct signer made = issue("client", by, names);
    begin_message(f);
    add(f, &made);
    forget(&made);
    return check(f);
}

/* ---- tests ---- */

static void a_chain_that_names_an_authority_passes_in_both_versions(void **state)
{
    struct fixture *f = *state;
    for (int version = 2; version <= 3; version++) {
        f->tls13 = version == 3;
        assert_int_equal(check_one(f, &f->authority, 3), STATUS_OK);
        struct signer between = issue("between", &f->authority, 0);
        struct signer made = issue("client", &between, 1);
        begin_message(f);
        add(f, &made);
        add(f, &between);
        assert_int_equal(check(f), STATUS_OK);
        begin_message(f);
        add(f, &made); /* signed by `between`, which is not in the message */
        expect_refused(f, GNUTLS_A_UNKNOWN_CA, "its issuer is unknown");
        forget(&made);
        forget(&between);
    }
}

/* The file of --tls-client-ca may contain the client's own certificate. */
static void a_certificate_that_is_itself_believed_passes(void **state)
{
    struct fixture *f = *state;
    struct signer own = issue("own", &f->stranger, 0);
    assert_int_equal(gnutls_x509_trust_list_add_cas(f->believed, &own.certificate, 1, 0), 1);
    begin_message(f);
    add(f, &own);
    assert_int_equal(check(f), STATUS_OK);
    forget(&own);
}

static void a_stranger_is_refused(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(check_one(f, &f->stranger, 1), STATUS_INVALID_REQUEST);
    expect_refused(f, GNUTLS_A_UNKNOWN_CA, "its issuer is unknown");
    begin_message(f);
    add(f, &f->stranger);
    expect_refused(f, GNUTLS_A_UNKNOWN_CA, "its issuer is unknown");
}

static void names_are_counted_and_bounded(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(check_one(f, &f->authority, 127), STATUS_OK);
    assert_int_equal(check_one(f, &f->authority, 128), STATUS_INVALID_REQUEST);
    expect_refused(f, GNUTLS_A_UNSUPPORTED_CERTIFICATE,
                   "an extension has 129 elements (names, for example), expected at most 128");
}

static void elements_of_all_certificates_together_are_bounded(void **state)
{
    struct fixture *f = *state;
    struct signer made = issue("client", &f->authority, 100);
    begin_message(f);
    for (int i = 0; i < 4; i++) {
        add(f, &made);
        assert_int_equal(check(f), STATUS_OK);
    }
    add(f, &made);
    expect_refused(f, GNUTLS_A_UNSUPPORTED_CERTIFICATE,
                   "elements of DER, expected at most 640");
    forget(&made);
}

static void certificates_and_their_bytes_are_bounded(void **state)
{
    struct fixture *f = *state;
    struct signer made = issue("client", &f->authority, 1);
    begin_message(f);
    for (int i = 0; i < 8; i++) {
        add(f, &made);
        assert_int_equal(check(f), STATUS_OK);
    }
    add(f, &made);
    expect_refused(f, GNUTLS_A_UNSUPPORTED_CERTIFICATE, "more than 8 certificates were sent");
    forget(&made);
    static const uint8_t zeros[8192];
    begin_message(f);
    add_bytes(f, zeros, sizeof zeros - 4 - 3 - 2);
    assert_int_equal(f->count, 8192);
    expect_refused(f, GNUTLS_A_BAD_CERTIFICATE, "it cannot be read");
    begin_message(f);
    add_bytes(f, zeros, sizeof zeros - 4 - 3 - 2 + 1);
    expect_refused(f, GNUTLS_A_UNSUPPORTED_CERTIFICATE, "8193 bytes, expected at most 8192");
}

static void every_beginning_of_a_message_is_refused(void **state)
{
    struct fixture *f = *state;
    for (int version = 2; version <= 3; version++) {
        f->tls13 = version == 3;
        assert_int_equal(check_one(f, &f->authority, 3), STATUS_OK);
        for (size_t count = 0; count < f->count; count++) {
            assert_int_equal(check_begin(f, count), STATUS_INVALID_REQUEST);
        }
        /* Cut the certificate itself, in a message whose lengths are correct. */
        for (size_t count = 1; count < f->count - list_at(f) - 6; count++) {
            uint8_t bytes[4096];
            struct fixture *other = calloc(1, sizeof *other);
            assert_non_null(other);
            memcpy(bytes, f->bytes + list_at(f) + 6, count);
            other->tls13 = f->tls13;
            other->believed = f->believed;
            begin_message(other);
            add_bytes(other, bytes, count);
            const bool whole = count == f->count - list_at(f) - 6 - (f->tls13 ? 2 : 0);
            assert_int_equal(check(other), whole ? STATUS_OK : STATUS_INVALID_REQUEST);
            free(other);
        }
    }
}

/* Some changed messages still name the authority, so they pass, and GnuTLS would decide. No
 * message is read beyond its end. */
static void a_message_with_one_bit_changed_anywhere_is_refused_or_passes(void **state)
{
    struct fixture *f = *state;
    size_t refused = 0;
    assert_int_equal(check_one(f, &f->authority, 3), STATUS_OK);
    for (size_t bit = 0; bit < 8 * f->count; bit++) {
        f->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        refused += check(f) != STATUS_OK;
        f->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_in_range(refused, f->count / 2, 8 * f->count - 1);
}

/* The extension begins with an indefinite length, which DER forbids. BER decoders search for
 * the end of the list, so every two bytes count as one name. */
static void an_extension_that_is_no_der_counts_by_its_bytes(void **state)
{
    struct fixture *f = *state;
    for (size_t names = 126; names <= 128; names++) {
        uint8_t text[2 + 2 * 128 + 2] = {0x30, 0x80};
        for (size_t i = 0; i < names; i++) {
            text[2 + 2 * i] = 0x82; /* a name without bytes */
        }
        struct signer made =
            issue_with("client", &f->authority, "1.2.3.4", text, 2 + 2 * names + 2);
        begin_message(f);
        add(f, &made);
        assert_int_equal(check(f), names + 2 <= 128 ? STATUS_OK : STATUS_INVALID_REQUEST);
        forget(&made);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_chain_that_names_an_authority_passes_in_both_versions,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_certificate_that_is_itself_believed_passes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_stranger_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_are_counted_and_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(elements_of_all_certificates_together_are_bounded,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(certificates_and_their_bytes_are_bounded, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(every_beginning_of_a_message_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_message_with_one_bit_changed_anywhere_is_refused_or_passes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_extension_that_is_no_der_counts_by_its_bytes, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
