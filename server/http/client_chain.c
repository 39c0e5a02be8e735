/* Parses the list of certificates in a TLS message and the structure of their DER; see
 * client_chain.h.
 *
 *   Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm, signatureValue }
 *   TBSCertificate ::= SEQUENCE { [0] version, serialNumber, signature, issuer, validity,
 *                                 subject, subjectPublicKeyInfo, [1], [2], [3] extensions }
 *                                                                          (RFC 5280, 4.1)
 *
 * A read_...() with a pointer to a span removes the bytes that it reads from the front of the
 * span. All return false if the bytes are too few or malformed.
 *
 * Possible failures: the bytes are not a list of certificates; a bound is exceeded; the chain
 * names no authority. */
#include "server/http/client_chain.h"

#include <stdint.h>
#include <string.h>

enum {
    CHAIN_BYTES = 8 << 10, /* maximum bytes of a chain; about five certificates with RSA keys */
    CERTIFICATES = 8,      /* maximum number of certificates of a chain */
    ELEMENTS = 640,        /* maximum elements of DER in a chain; a certificate has about 100 */
    EXTENSION_ELEMENTS = 128, /* maximum elements of an extension: the list, and 127 names */
    MODULUS_BITS = 8192, /* maximum bits of an RSA key; a signature is checked within 1 ms */
    /* maximum number of bits of an RSA exponent; in practice exponents have at most 17 bits */
    EXPONENT_BITS = 64,
    LIST_LENGTH_BYTES = 3, /* length field of the list, and of each certificate */
    EXTENSIONS_LENGTH_BYTES = 2
};

enum {
    TAG_BOOLEAN = 0x01,
    TAG_INTEGER = 0x02,
    TAG_BIT_STRING = 0x03,
    TAG_OCTET_STRING = 0x04,
    TAG_OID = 0x06,
    TAG_SEQUENCE = 0x30,
    TAG_VERSION = 0xa0,
    TAG_EXTENSIONS = 0xa3,
    TAG_CONSTRUCTED = 0x20,
    TAG_LONG = 0x1f /* the number of the tag is in the next bytes; X.509 has no such tags */
};

/* Borrowed bytes. */
struct span {
    const uint8_t *at;
    size_t count;
};

/* Sizes in a certificate, and its names in DER. */
struct certificate {
    struct span issuer;
    struct span subject;
    size_t elements;
    size_t extension_elements; /* elements of the largest extension */
    size_t modulus_bits;       /* 0: not an RSA key */
    size_t exponent_bits;
};

/* ---- bytes ---- */

static bool read_bytes(struct span *from, size_t count, struct span *out)
{
    if (count > from->count) {
        return false;
    }
    *out = (struct span){from->at, count};
    from->at += count;
    from->count -= count;
    return true;
}

static bool read_number(struct span *from, size_t bytes, size_t *number)
{
    struct span digits;
    if (!read_bytes(from, bytes, &digits)) {
        return false;
    }
    *number = 0;
    for (size_t i = 0; i < bytes; i++) {
        *number = *number << 8 | digits.at[i];
    }
    return true;
}

/* Read a length and then that many bytes. */
static bool read_vector(struct span *from, size_t length_bytes, struct span *out)
{
    size_t count = 0;
    return read_number(from, length_bytes, &count) && read_bytes(from, count, out);
}

/* ---- DER ---- */

/* Read an element: its tag and its contents. */
static bool read_element(struct span *from, unsigned *tag, struct span *contents)
{
    size_t number = 0;
    size_t length = 0;
    struct span rest = *from;
    if (!read_number(&rest, 1, &number) || (number & TAG_LONG) == TAG_LONG ||
        !read_number(&rest, 1, &length)) {
        return false;
    }
    if (length >= 0x80) {
        const size_t bytes = length - 0x80; /* 0: the indefinite length of BER */
        if (bytes == 0 || bytes > 3 || !read_number(&rest, bytes, &length)) {
            return false;
        }
    }
    if (!read_bytes(&rest, length, contents)) {
        return false;
    }
    *tag = (unsigned)number;
    *from = rest;
    return true;
}

/* Read an element whose tag is `expected`. */
static bool read_tagged(struct span *from, unsigned expected, struct span *contents)
{
    unsigned tag = 0;
    struct span rest = *from;
    if (!read_element(&rest, &tag, contents) || tag != expected) {
        return false;
    }
    *from = rest;
    return true;
}

/* Returns the number of elements, nested ones included. Bytes that are not DER count as one
 * element for every two bytes, the length of the shortest element. So no decoder finds more
 * elements. */
static size_t count_elements(struct span text)
{
    size_t count = 0;
    while (text.count > 0) {
        unsigned tag = 0;
        struct span contents;
        if (!read_element(&text, &tag, &contents)) {
            return count + (text.count + 1) / 2;
        }
        count++;
        if ((tag & TAG_CONSTRUCTED) != 0) { /* continue with the contents of the element */
            text = (struct span){contents.at, contents.count + text.count};
        }
    }
    return count;
}

static size_t bits_of(struct span integer)
{
    while (integer.count > 0 && integer.at[0] == 0) {
        integer.at++;
        integer.count--;
    }
    size_t bits = integer.count * 8;
    for (unsigned top = integer.count > 0 ? integer.at[0] : 0x80; top < 0x80; top <<= 1) {
        bits--;
    }
    return bits;
}

/* ---- a certificate ---- */

/* Extension ::= SEQUENCE { extnID, critical BOOLEAN DEFAULT FALSE, extnValue OCTET STRING } */
static bool read_extensions(struct span extensions, struct certificate *found)
{
    struct span list;
    struct span extension;
    if (!read_tagged(&extensions, TAG_SEQUENCE, &list)) {
        return false;
    }
    while (list.count > 0) {
        struct span part;
        if (!read_tagged(&list, TAG_SEQUENCE, &extension) ||
            !read_tagged(&extension, TAG_OID, &part)) {
            return false;
        }
        (void)read_tagged(&extension, TAG_BOOLEAN, &part);
        if (!read_tagged(&extension, TAG_OCTET_STRING, &part)) {
            return false;
        }
        const size_t elements = count_elements(part);
        found->elements += elements;
        found->extension_elements = larger_of(found->extension_elements, elements);
    }
    return true;
}

/* Read the contents of SubjectPublicKeyInfo. A key of RSA or RSA-PSS is SEQUENCE { modulus,
 * publicExponent }. */
static bool read_key(struct span info, struct certificate *found)
{
    static const uint8_t pkcs1[] = {0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01};
    struct span algorithm;
    struct span kind;
    struct span bits;
    struct span numbers;
    struct span modulus;
    struct span exponent;
    size_t unused = 0;
    if (!read_tagged(&info, TAG_SEQUENCE, &algorithm) ||
        !read_tagged(&algorithm, TAG_OID, &kind) ||
        !read_tagged(&info, TAG_BIT_STRING, &bits)) {
        return false;
    }
    if (kind.count < sizeof pkcs1 || memcmp(kind.at, pkcs1, sizeof pkcs1) != 0) {
        return true;
    }
    if (!read_number(&bits, 1, &unused) || !read_tagged(&bits, TAG_SEQUENCE, &numbers) ||
        !read_tagged(&numbers, TAG_INTEGER, &modulus) ||
        !read_tagged(&numbers, TAG_INTEGER, &exponent)) {
        return false;
    }
    found->modulus_bits = bits_of(modulus);
    found->exponent_bits = bits_of(exponent);
    return true;
}

/* Read a name, with its tag and length. */
static bool read_name(struct span *from, struct span *name)
{
    const struct span before = *from;
    struct span contents;
    if (!read_tagged(from, TAG_SEQUENCE, &contents)) {
        return false;
    }
    *name = (struct span){before.at, before.count - from->count};
    return true;
}

static bool read_certificate(struct span text, struct certificate *found)
{
    struct span outer;
    struct span fields;
    struct span part;
    unsigned tag = 0;
    *found = (struct certificate){.elements = count_elements(text)};
    if (!read_tagged(&text, TAG_SEQUENCE, &outer) || text.count > 0 ||
        !read_tagged(&outer, TAG_SEQUENCE, &fields)) {
        return false;
    }
    (void)read_tagged(&fields, TAG_VERSION, &part);
    if (!read_tagged(&fields, TAG_INTEGER, &part) ||
        !read_tagged(&fields, TAG_SEQUENCE, &part) || !read_name(&fields, &found->issuer) ||
        !read_tagged(&fields, TAG_SEQUENCE, &part) || !read_name(&fields, &found->subject) ||
        !read_tagged(&fields, TAG_SEQUENCE, &part) || !read_key(part, found)) {
        return false;
    }
    while (fields.count > 0) {
        if (!read_element(&fields, &tag, &part) ||
            (tag == TAG_EXTENSIONS && !read_extensions(part, found))) {
            return false;
        }
    }
    return true;
}

/* ---- a chain ---- */

static bool is_authority(gnutls_x509_trust_list_t authorities, struct span name)
{
    const gnutls_datum_t dn = {.data = (unsigned char *)(uintptr_t)name.at,
                               .size = (unsigned)name.count};
    gnutls_x509_crt_t found = NULL;
    if (gnutls_x509_trust_list_get_issuer_by_dn(authorities, &dn, &found, 0) != 0) {
        return false;
    }
    gnutls_x509_crt_deinit(found);
    return true;
}

static enum status check_bounds(const struct certificate *found, size_t elements,
                                struct error *err)
{
    if (found->extension_elements > EXTENSION_ELEMENTS) {
        return error_set(err, STATUS_INVALID_REQUEST,
                         "an extension has %zu elements (names, for example), expected at most "
                         "%d: issue one with fewer",
                         found->extension_elements, EXTENSION_ELEMENTS);
    }
    if (elements > ELEMENTS) {
        return error_set(err, STATUS_INVALID_REQUEST,
                         "it and those sent with it have %zu elements of DER, expected at most "
                         "%d: issue one with fewer names and extensions",
                         elements, ELEMENTS);
    }
    if (found->modulus_bits > MODULUS_BITS || found->exponent_bits > EXPONENT_BITS) {
        return error_set(err, STATUS_INVALID_REQUEST,
                         "its RSA key has %zu bits and an exponent of %zu bits, expected at "
                         "most %d and %d: make a shorter key",
                         found->modulus_bits, found->exponent_bits, MODULUS_BITS,
                         EXPONENT_BITS);
    }
    return STATUS_OK;
}

/* Read the list of certificates. In TLS 1.3 a context precedes the list (it is empty in a
 * handshake), and extensions follow each certificate (RFC 8446, 4.4.2). TLS 1.2 has neither
 * (RFC 5246, 7.4.6). */
static bool read_list(const gnutls_datum_t *message, bool tls13, struct span *list)
{
    struct span text = {message->data, message->size};
    struct span context;
    return (!tls13 || read_vector(&text, 1, &context)) &&
           read_vector(&text, LIST_LENGTH_BYTES, list) && text.count == 0;
}

static bool next_certificate(struct span *list, bool tls13, struct span *certificate)
{
    struct span extensions;
    return read_vector(list, LIST_LENGTH_BYTES, certificate) &&
           (!tls13 || read_vector(list, EXTENSIONS_LENGTH_BYTES, &extensions));
}

enum status client_chain_check(const gnutls_datum_t *message, bool tls13,
                               gnutls_x509_trust_list_t authorities,
                               gnutls_alert_description_t *alert, struct error *err)
{
    struct span list;
    size_t count = 0;
    size_t elements = 0;
    bool known = false;
    *alert = GNUTLS_A_UNSUPPORTED_CERTIFICATE;
    if (message->size > CHAIN_BYTES) {
        return error_set(err, STATUS_INVALID_REQUEST,
                         "it and those sent with it have %u bytes, expected at most %d: send "
                         "no more than those up to an authority of --tls-client-ca",
                         message->size, CHAIN_BYTES);
    }
    bool readable = read_list(message, tls13, &list);
    while (readable && list.count > 0) {
        struct certificate found;
        struct span text;
        if (++count > CERTIFICATES) {
            return error_set(err, STATUS_INVALID_REQUEST,
                             "more than %d certificates were sent, expected those up to an "
                             "authority of --tls-client-ca",
                             CERTIFICATES);
        }
        readable = next_certificate(&list, tls13, &text) && read_certificate(text, &found);
        if (readable) {
            elements += found.elements;
            TRY(check_bounds(&found, elements, err));
            known = known || is_authority(authorities, found.issuer) ||
                    is_authority(authorities, found.subject);
        }
    }
    if (!readable) {
        *alert = GNUTLS_A_BAD_CERTIFICATE;
        return error_set(err, STATUS_INVALID_REQUEST,
                         "it cannot be read, expected X.509 certificates in DER");
    }
    if (!known) {
        *alert = GNUTLS_A_UNKNOWN_CA;
        return error_set(err, STATUS_INVALID_REQUEST,
                         "its issuer is unknown, expected an authority of --tls-client-ca");
    }
    return STATUS_OK;
}
