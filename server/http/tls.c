/* GnuTLS's sessions; see tls.h. */
#include "server/http/tls.h"

#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/http/loop.h"
#include "server/http/tls_files.h"
#include "server/sched/client.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
    MOST_HANDSHAKES = 256,    /* of a loop at a time */
    REST_BYTES = 16 << 10,    /* of a flight of handshake messages: more than clients send */
    MESSAGE_BYTES = 32 << 10, /* of a handshake: a client's certificates, some ten with RSA */
    MODULUS_BYTES = 8192 / 8, /* of a client's key: a millisecond, with the longest exponent */
    EXPONENT_BYTES = 64 / 8   /* as others have it; all that is in use are of three bytes */
};

/* ---- bytes ---- */

/* One connection of a daemon gets on with its handshake in each run: the first that has bytes. */
static bool handshake_must_wait(const struct conn *conn)
{
    const struct conn *other = conn->daemon->handshake;
    return conn->handshaking && other != NULL && other != conn;
}

static ssize_t tls_pull(gnutls_transport_ptr_t arg, void *bytes, size_t room)
{
    struct conn *conn = arg;
    struct http_daemon *daemon = conn->daemon;
    if (handshake_must_wait(conn)) {
        /* That a connection has ended, libmicrohttpd is told once, and forgets it where the
         * handshake goes on: in the next run it would not ask. */
        const bool ended = peek_ended(conn->fd);
        daemon->progress = true; /* there is something to do in the next run */
        errno = ended ? ECONNRESET : EAGAIN;
        return -1;
    }
    ssize_t count = recv(conn->fd, bytes, room, 0);
    if (count > 0) {
        daemon->progress = true;
        daemon->handshake = conn->handshaking ? conn : daemon->handshake;
    }
    return count;
}

static ssize_t tls_push(gnutls_transport_ptr_t arg, const giovec_t *pieces, int count)
{
    struct conn *conn = arg;
    ssize_t sent = writev(conn->fd, pieces, count); /* SIGPIPE is ignored */
    conn->daemon->progress = conn->daemon->progress || sent > 0;
    return sent;
}

/* ---- handshakes ---- */

/* Returns true if it was in its handshake until now. */
static bool handshake_over(struct conn *conn)
{
    if (!conn->handshaking) {
        return false;
    }
    conn->handshaking = false;
    conn->daemon->handshaking--;
    conn->loop->handshaking--;
    return true;
}

/* Say why the handshake ends, which it does now. What the client has sent behind it is read,
 * for the close would be a reset otherwise: a client that meets it in its send() asks for no
 * reason. */
static void refuse_client(gnutls_session_t session, gnutls_alert_description_t why)
{
    const struct conn *conn = gnutls_transport_get_ptr(session);
    char rest[REST_BYTES];
    (void)gnutls_alert_send(session, GNUTLS_AL_FATAL, why);
    (void)recv(conn->fd, rest, sizeof rest, MSG_DONTWAIT);
}

/* Where the client has no certificate, GnuTLS ends the handshake and says nothing: then clients
 * know no more than that the connection broke. Its message is a list of no bytes, in TLS 1.3 behind
 * a byte of another length. */
static void alert_without_certificate(gnutls_session_t session, const gnutls_datum_t *message)
{
    const bool current = gnutls_protocol_get_version(session) >= GNUTLS_TLS1_3;
    if (message->size <= (current ? 4U : 3U)) {
        refuse_client(session,
                      current ? GNUTLS_A_CERTIFICATE_REQUIRED : GNUTLS_A_HANDSHAKE_FAILURE);
    }
}

static void log_refusal(const struct conn *conn, const char *why)
{
    char client[INET6_ADDRSTRLEN];
    address_text(&conn->peer, client, sizeof client);
    log_message(conn->loop->server->log, LOG_DEBUG, "TLS: the certificate of %s is refused: %s",
                client, why);
}

/* Whether the client's key is one of RSA whose signature takes long to check: half a second for
 * 16384 bits with an exponent as long. The client makes up both, and TLS 1.3 checks the signature
 * before it is known whether the certificate is one of our authorities'. */
static bool key_costs_too_much(gnutls_session_t session)
{
    unsigned count = 0;
    const gnutls_datum_t *shown = gnutls_certificate_get_peers(session, &count);
    gnutls_pubkey_t key = NULL;
    gnutls_datum_t modulus = {.data = NULL};
    gnutls_datum_t exponent = {.data = NULL};
    if (shown == NULL || count == 0 || gnutls_pubkey_init(&key) != 0) {
        return true;
    }
    bool costs = gnutls_pubkey_import_x509_raw(key, &shown[0], GNUTLS_X509_FMT_DER, 0) != 0;
    if (!costs && gnutls_pubkey_export_rsa_raw2(key, &modulus, &exponent,
                                                GNUTLS_EXPORT_FLAG_NO_LZ) == 0) {
        costs = modulus.size > MODULUS_BYTES || exponent.size > EXPONENT_BYTES;
    }
    gnutls_free(modulus.data);
    gnutls_free(exponent.data);
    gnutls_pubkey_deinit(key);
    return costs;
}

/* The client's Finished is the last of the handshake that waits for it, in TLS 1.2 as in 1.3. */
static int on_message(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                      const gnutls_datum_t *message)
{
    struct conn *conn = gnutls_transport_get_ptr(session);
    (void)when;
    if (incoming != 0 && type == GNUTLS_HANDSHAKE_CERTIFICATE_PKT) {
        alert_without_certificate(session, message);
    } else if (incoming != 0 && type == GNUTLS_HANDSHAKE_CERTIFICATE_VERIFY &&
               key_costs_too_much(session)) {
        log_refusal(conn,
                    "its RSA key has more than 8192 bits, or an exponent of more than 64");
        refuse_client(session, GNUTLS_A_UNSUPPORTED_CERTIFICATE);
        return GNUTLS_E_CERTIFICATE_ERROR;
    } else if (incoming != 0 && type == GNUTLS_HANDSHAKE_FINISHED && handshake_over(conn)) {
        metrics_add(conn->loop->server->metrics, METRICS_COUNTER_TLS_HANDSHAKES, 1);
    }
    return 0;
}

/* Cut the oldest handshake of the client that has most connections. */
static void make_handshake_room(struct http_loop *loop)
{
    struct conn *chosen = NULL;
    uint64_t most = 0;
    for (struct conn *conn = LIST_FIRST(&loop->conns); conn != NULL;
         conn = LIST_NEXT(conn, link)) {
        if (!conn->handshaking || conn->cut) {
            continue;
        }
        uint64_t connections =
            atomic_load_explicit(&conn->client->connections, memory_order_relaxed);
        if (connections >= most) { /* the list has the oldest last */
            most = connections;
            chosen = conn;
        }
    }
    if (chosen != NULL) {
        deadline_cut(chosen);
    }
}

/* What a client whose certificate is refused is told, for it learns nothing else. */
static gnutls_alert_description_t alert_of(unsigned found)
{
    if ((found & GNUTLS_CERT_SIGNER_NOT_FOUND) != 0) {
        return GNUTLS_A_UNKNOWN_CA;
    }
    if ((found & GNUTLS_CERT_EXPIRED) != 0) {
        return GNUTLS_A_CERTIFICATE_EXPIRED;
    }
    return (found & GNUTLS_CERT_PURPOSE_MISMATCH) != 0 ? GNUTLS_A_UNSUPPORTED_CERTIFICATE
                                                       : GNUTLS_A_BAD_CERTIFICATE;
}

static int verify_client(gnutls_session_t session)
{
    const struct conn *conn = gnutls_transport_get_ptr(session);
    char purpose[] = GNUTLS_KP_TLS_WWW_CLIENT;
    gnutls_typed_vdata_st wanted = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                    .data = (unsigned char *)purpose};
    unsigned found = 0;
    gnutls_datum_t why = {.data = NULL};
    int code = gnutls_certificate_verify_peers(session, &wanted, 1, &found);
    if (code == 0 && found == 0) {
        return 0;
    }
    if (code == 0) {
        (void)gnutls_certificate_verification_status_print(found, GNUTLS_CRT_X509, &why, 0);
    }
    log_refusal(conn, why.data != NULL ? (const char *)why.data : gnutls_strerror(code));
    gnutls_free(why.data);
    refuse_client(session, alert_of(found));
    return GNUTLS_E_CERTIFICATE_ERROR;
}

void tls_verify_clients(struct gnutls_certificate_credentials_st *credentials)
{
    gnutls_certificate_set_verify_function(credentials, verify_client);
}

/* ---- a connection's life ---- */

void tls_begin(struct conn *conn)
{
    struct http_loop *loop = conn->loop;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(conn->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (info == NULL || info->tls_session == NULL) {
        deadline_cut(conn);
        return;
    }
    gnutls_session_t session = info->tls_session;
    conn->tls = session;
    conn->credentials = tls_credentials_get(loop->http->tls);
    conn->handshaking = true;
    conn->daemon->handshaking++;
    loop->handshaking++;
    gnutls_transport_set_ptr(session, conn);
    gnutls_transport_set_pull_function(session, tls_pull);
    gnutls_transport_set_vec_push_function(session, tls_push);
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_ANY, GNUTLS_HOOK_POST,
                                       on_message);
    gnutls_handshake_set_max_packet_length(session, MESSAGE_BYTES);
    if (gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, conn->credentials->gnutls) !=
        0) {
        deadline_cut(conn); /* it has libmicrohttpd's still, which are none */
    }
    if (conn->credentials->ask_clients) {
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
    }
    if (loop->handshaking > MOST_HANDSHAKES) {
        make_handshake_room(loop);
    }
}

void tls_end(struct conn *conn)
{
    if (handshake_over(conn)) {
        metrics_add(conn->loop->server->metrics, METRICS_COUNTER_TLS_FAILURES, 1);
    }
    tls_credentials_release(conn->credentials);
    conn->credentials = NULL;
    conn->tls = NULL;
}

bool tls_unread(const struct conn *conn)
{
    return gnutls_record_check_pending(conn->tls) > 0;
}

static bool name_subject(gnutls_x509_crt_t certificate, char name[TLS_SUBJECT_CHARS + 1])
{
    unsigned char digest[TLS_SUBJECT_CHARS / 2];
    gnutls_datum_t subject = {.data = NULL};
    size_t room = TLS_SUBJECT_CHARS + 1;
    bool known = gnutls_x509_crt_get_dn2(certificate, &subject) == 0 && subject.size > 0;
    if (known) {
        const gnutls_datum_t bytes = {digest, sizeof digest};
        known = gnutls_hash_fast(GNUTLS_DIG_SHA256, subject.data, subject.size, digest) == 0 &&
                gnutls_hex_encode(&bytes, name, &room) == 0;
    }
    gnutls_free(subject.data);
    return known;
}

bool tls_subject(const struct conn *conn, char name[TLS_SUBJECT_CHARS + 1])
{
    unsigned count = 0;
    gnutls_x509_crt_t certificate;
    const gnutls_datum_t *shown =
        conn->credentials->ask_clients ? gnutls_certificate_get_peers(conn->tls, &count) : NULL;
    if (shown == NULL || count == 0 || gnutls_x509_crt_init(&certificate) != 0) {
        return false;
    }
    bool known = gnutls_x509_crt_import(certificate, &shown[0], GNUTLS_X509_FMT_DER) == 0 &&
                 name_subject(certificate, name);
    gnutls_x509_crt_deinit(certificate);
    return known;
}

ssize_t tls_send_last(struct conn *conn, const void *bytes, size_t count)
{
    ssize_t sent = gnutls_record_send(conn->tls, bytes, count);
    (void)gnutls_bye(conn->tls, GNUTLS_SHUT_WR);
    return sent;
}

/* ---- what MHD's daemons are started with ---- */

/* Ciphers with authentication and key exchanges with forward secrecy that are quick to compute, in
 * our order: a client does not choose what it costs. ChaCha20 takes three times as long as AES, and
 * is for who has no AES. */
#define PRIORITIES                                                               \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA" \
    ":-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305"                  \
    ":-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:%SERVER_PRECEDENCE"

void *tls_priorities(void)
{
    static char priorities[] = PRIORITIES; /* MHD only reads */
    return priorities;
}

/* Asked only by a session whose own credentials could not be set: it ends. */
/* NOLINTBEGIN(readability-function-size,readability-non-const-parameter): GnuTLS's signature */
static int no_certificate(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                          gnutls_pcert_st **certificates, unsigned *count,
                          gnutls_ocsp_data_st **ocsp, unsigned *ocsp_count,
                          gnutls_privkey_t *key, unsigned *flags)
{
    (void)session;
    (void)info;
    (void)certificates;
    (void)count;
    (void)ocsp;
    (void)ocsp_count;
    (void)key;
    (void)flags;
    return -1;
}
/* NOLINTEND(readability-function-size,readability-non-const-parameter) */

void *tls_no_certificate(void)
{
    const union {
        gnutls_certificate_retrieve_function3 *function;
        void *option; /* as POSIX lets functions be passed */
    } callback = {.function = no_certificate};
    return callback.option;
}
