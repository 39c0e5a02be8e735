/* Handshakes, and certificates from files; see tls.h. */
#include "server/http/tls.h"

#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/file_watch.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/base/thread.h"
#include "server/http/client_chain.h"
#include "server/http/loop.h"
#include "server/sched/client.h"

#include <assert.h>
#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

enum {
    /* largest file; the list of all authorities of Debian has 220 KB */
    FILE_BYTES_MAX = 16 << 20,
    MOST_HANDSHAKES = 256, /* maximum number of handshakes of a loop at a time */
    /* maximum number of bytes read after a refusal; one flight of a client is shorter */
    REST_BYTES = 16 << 10,
    MESSAGE_BYTES = 32 << 10, /* longest handshake message; a longer one gets no alert */
    ALPN_EXTENSION = 16       /* application_layer_protocol_negotiation (RFC 7301) */
};

enum file {
    FILE_CERT,
    FILE_KEY,
    FILE_CLIENT_CA,
    FILE_COUNT
};

struct tls_files {
    struct log *log;         /* borrowed */
    struct metrics *metrics; /* borrowed */
    struct file_watch watch; /* main thread only */
    pthread_mutex_t lock;
    struct tls_credentials *current; /* owned reference; guarded by the lock */
};

/* Certificate, key and authorities that were read together. */
struct tls_credentials {
    gnutls_certificate_credentials_t gnutls; /* owned */
    gnutls_x509_trust_list_t authorities;    /* for clients; owned by `gnutls`; NULL: none */
    /* the time in which all certificates of the server's chain are valid */
    time_t begin;
    time_t end;
    struct tls_files *files; /* borrowed */
    size_t references;       /* guarded by the lock of the files */
};

/* ---- bytes ---- */

/* Discard the unread bytes of a refused client. Otherwise close() would reset the connection,
 * and the client could not read the reason. */
static void discard_rest(const struct conn *conn)
{
    char rest[REST_BYTES];
    (void)recv(conn->fd, rest, sizeof rest, MSG_DONTWAIT);
}

/* Refuse a client that sends plain HTTP; the answer is plain HTTP, too. The caller ends the
 * connection. */
static void answer_plain_http(struct conn *conn)
{
    struct exchange *exchange = exchange_begin(conn, "");
    discard_rest(conn);
    if (exchange != NULL) {
        conn->tls = NULL;
        (void)error_set(&exchange->request.error, STATUS_INVALID_REQUEST,
                        "this port speaks TLS, and the request is plain HTTP: use https://");
        respond_early(exchange);
    }
}

static ssize_t tls_pull(gnutls_transport_ptr_t arg, void *bytes, size_t room)
{
    struct conn *conn = arg;
    ssize_t count = recv(conn->fd, bytes, room, 0);
    if (count <= 0) {
        return count;
    }
    conn->pulled_bytes += conn->handshaking ? 0 : (uint64_t)count;
    conn->daemon->handshake_moved = true;
    const bool first = !conn->heard;
    const char byte = *(const char *)bytes;
    conn->heard = true;
    /* A method begins with a capital letter. The first byte of TLS is the type of a record (22
     * for a handshake), so no TLS client gets an answer in plain text. */
    if (first && byte >= 'A' && byte <= 'Z') {
        answer_plain_http(conn);
        errno = ECONNRESET;
        return -1;
    }
    return count;
}

static ssize_t tls_push(gnutls_transport_ptr_t arg, const giovec_t *pieces, int count)
{
    struct conn *conn = arg;
    ssize_t sent = writev(conn->fd, pieces, count); /* SIGPIPE is ignored */
    conn->daemon->handshake_moved = conn->daemon->handshake_moved || sent > 0;
    return sent;
}

/* ---- handshakes ---- */

/* Note that the handshake is over. Returns false if that was noted before. */
static bool handshake_over(struct conn *conn)
{
    if (!conn->handshaking) {
        return false;
    }
    conn->handshaking = false;
    conn->loop->handshaking--;
    return true;
}

/* Send an alert to the client; the caller ends the handshake. */
static void refuse_client(gnutls_session_t session, gnutls_alert_description_t why)
{
    (void)gnutls_alert_send(session, GNUTLS_AL_FATAL, why);
    discard_rest(gnutls_transport_get_ptr(session));
}

static void log_refusal(const struct conn *conn, const char *what, const char *why)
{
    char client[INET6_ADDRSTRLEN];
    address_text(&conn->peer, client, sizeof client);
    log_message(conn->loop->server->log, LOG_DEBUG, "TLS: the %s of %s is refused: %s", what,
                client, why);
}

static int notice_alpn(void *offers, unsigned extension, const unsigned char *bytes,
                       unsigned count)
{
    bool *offered = offers;
    (void)bytes;
    (void)count;
    *offered = *offered || extension == ALPN_EXTENSION;
    return 0;
}

/* "In the event that the server supports no protocols that the client advertises, then the
 * server SHALL respond with a fatal "no_application_protocol" alert" (RFC 7301, 3.2). GnuTLS
 * has already chosen one of the protocols that libmicrohttpd set, if the client offers one. */
static int check_protocols(gnutls_session_t session, const gnutls_datum_t *hello)
{
    gnutls_datum_t chosen;
    bool offered = false;
    if (gnutls_alpn_get_selected_protocol(session, &chosen) == 0) {
        return 0;
    }
    (void)gnutls_ext_raw_parse(&offered, notice_alpn, hello,
                               GNUTLS_EXT_RAW_FLAG_TLS_CLIENT_HELLO);
    if (!offered) {
        return 0;
    }
    log_refusal(gnutls_transport_get_ptr(session), "handshake",
                "its ALPN does not offer http/1.1");
    refuse_client(session, GNUTLS_A_NO_APPLICATION_PROTOCOL);
    return GNUTLS_E_NO_APPLICATION_PROTOCOL;
}

/* Check the client's certificates before GnuTLS decodes them. If the client has no certificate,
 * the message is an empty list; in TLS 1.3 the length of the context precedes the list. In this
 * case GnuTLS ends the handshake without an alert, so this function sends one. */
static int check_certificates(gnutls_session_t session, const gnutls_datum_t *message)
{
    const struct conn *conn = gnutls_transport_get_ptr(session);
    const bool tls13 = gnutls_protocol_get_version(session) >= GNUTLS_TLS1_3;
    struct error err = ERROR_INIT;
    gnutls_alert_description_t alert;
    if (message->size <= (tls13 ? 4U : 3U)) {
        refuse_client(session,
                      tls13 ? GNUTLS_A_CERTIFICATE_REQUIRED : GNUTLS_A_HANDSHAKE_FAILURE);
        return 0;
    }
    if (client_chain_check(message, tls13, conn->credentials->authorities, &alert, &err) ==
        STATUS_OK) {
        return 0;
    }
    log_refusal(conn, "certificate", err.detail);
    refuse_client(session, alert);
    return GNUTLS_E_CERTIFICATE_ERROR;
}

/* GnuTLS has received a handshake message. In TLS 1.2 and 1.3 the client's Finished is the last
 * message of the handshake that the server waits for. */
static int on_message(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                      const gnutls_datum_t *message)
{
    struct conn *conn = gnutls_transport_get_ptr(session);
    (void)when;
    if (incoming == 0) {
        return 0;
    }
    if (type == GNUTLS_HANDSHAKE_CLIENT_HELLO) {
        return check_protocols(session, message);
    }
    if (type == GNUTLS_HANDSHAKE_CERTIFICATE_PKT && conn->credentials->authorities != NULL) {
        return check_certificates(session, message);
    }
    if (type == GNUTLS_HANDSHAKE_FINISHED && handshake_over(conn)) {
        /* in TLS 1.3 the server sends no message now, so the system would delay the ACK */
        client_socket_acknowledge(conn->fd);
        metrics_add(conn->loop->server->metrics, METRICS_COUNTER_TLS_HANDSHAKES, 1);
    }
    return 0;
}

/* Cut the oldest handshake of the client that has the most connections. */
static void cut_a_handshake(struct http_loop *loop)
{
    struct conn *chosen = NULL;
    uint64_t most = 0;
    for (struct conn *conn = loop_next_conn(loop, NULL); conn != NULL;
         conn = loop_next_conn(loop, conn)) {
        if (!conn->handshaking || conn->cut) {
            continue;
        }
        const uint64_t connections =
            atomic_load_explicit(&conn->client->connections, memory_order_relaxed);
        if (chosen == NULL || connections > most ||
            (connections == most && conn->since_ns < chosen->since_ns)) {
            most = connections;
            chosen = conn;
        }
    }
    if (chosen != NULL) {
        conn_cut(chosen);
    }
}

/* Returns the alert for a client whose certificate is refused. */
static gnutls_alert_description_t alert_of(unsigned found)
{
    if ((found & GNUTLS_CERT_SIGNER_NOT_FOUND) != 0) {
        return GNUTLS_A_UNKNOWN_CA;
    }
    if ((found & GNUTLS_CERT_EXPIRED) != 0) {
        return GNUTLS_A_CERTIFICATE_EXPIRED;
    }
    const unsigned unsupported = GNUTLS_CERT_PURPOSE_MISMATCH | GNUTLS_CERT_INSECURE_ALGORITHM;
    return (found & unsupported) != 0 ? GNUTLS_A_UNSUPPORTED_CERTIFICATE
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
    log_refusal(conn, "certificate",
                why.data != NULL ? (const char *)why.data : gnutls_strerror(code));
    gnutls_free(why.data);
    refuse_client(session, alert_of(found));
    return GNUTLS_E_CERTIFICATE_ERROR;
}

/* ---- certificates, keys and authorities ---- */

/* Refuse a key that clients would refuse: RSA below 2048 bits, or another key of less
 * security. */
static enum status check_strength(gnutls_x509_crt_t certificate, const char *path,
                                  struct error *err)
{
    unsigned bits = 0;
    const int kind = gnutls_x509_crt_get_pk_algorithm(certificate, &bits);
    if (kind >= 0 && gnutls_pk_bits_to_sec_param((gnutls_pk_algorithm_t)kind, bits) >=
                         GNUTLS_SEC_PARAM_MEDIUM) {
        return STATUS_OK;
    }
    const char *name = gnutls_pk_get_name((gnutls_pk_algorithm_t)kind);
    return error_set_field(err, STATUS_INVALID_FIELD, "--tls-cert",
                           "--tls-cert %s: its key has %u bits (%s), expected 2048 or more "
                           "for RSA, 256 for elliptic curves: make another key, and a "
                           "certificate for it",
                           path, bits, name != NULL ? name : "unknown");
}

/* Check the key of the server's certificate, and get the validity of its chain. */
static enum status examine_chain(struct tls_credentials *credentials, struct error *err)
{
    const char *path = credentials->files->watch.paths[FILE_CERT];
    gnutls_x509_crt_t *chain = NULL;
    unsigned count = 0;
    int code = gnutls_certificate_get_x509_crt(credentials->gnutls, 0, &chain, &count);
    if (code != 0 || count == 0) {
        return error_set_field(
            err, STATUS_INVALID_FIELD, "--tls-cert", "--tls-cert %s: %s", path,
            gnutls_strerror(code != 0 ? code : GNUTLS_E_NO_CERTIFICATE_FOUND));
    }
    enum status status = check_strength(chain[0], path, err);
    for (unsigned i = 0; i < count; i++) {
        const time_t begin = gnutls_x509_crt_get_activation_time(chain[i]);
        const time_t end = gnutls_x509_crt_get_expiration_time(chain[i]);
        credentials->begin = i == 0 || begin > credentials->begin ? begin : credentials->begin;
        credentials->end = i == 0 || end < credentials->end ? end : credentials->end;
        gnutls_x509_crt_deinit(chain[i]);
    }
    gnutls_free(chain);
    return status;
}

static gnutls_datum_t datum_of(const struct file_text *text)
{
    return (gnutls_datum_t){.data = (unsigned char *)text->bytes,
                            .size = (unsigned)text->count};
}

/* Set the credentials from texts[FILE_COUNT], the contents of the files. */
static enum status set_credentials(struct tls_credentials *credentials,
                                   const struct file_text *texts, struct error *err)
{
    const char *const *paths = credentials->files->watch.paths;
    const gnutls_datum_t cert = datum_of(&texts[FILE_CERT]);
    const gnutls_datum_t key = datum_of(&texts[FILE_KEY]);
    const gnutls_datum_t ca = datum_of(&texts[FILE_CLIENT_CA]);
    int code = gnutls_certificate_allocate_credentials(&credentials->gnutls);
    if (code != 0) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "TLS: %s", gnutls_strerror(code));
    }
    code = gnutls_certificate_set_x509_key_mem2(credentials->gnutls, &cert, &key,
                                                GNUTLS_X509_FMT_PEM, NULL, 0);
    if (code < 0) {
        return error_set_field(
            err, STATUS_INVALID_FIELD, "--tls-cert",
            "--tls-cert %s, --tls-key %s: %s The first file must hold the "
            "certificate, then the intermediate ones, as PEM; the second one "
            "its key as PEM, without a password",
            paths[FILE_CERT], paths[FILE_KEY], gnutls_strerror(code));
    }
    TRY(examine_chain(credentials, err));
    if (paths[FILE_CLIENT_CA][0] == '\0') {
        return STATUS_OK;
    }
    code = gnutls_certificate_set_x509_trust_mem(credentials->gnutls, &ca, GNUTLS_X509_FMT_PEM);
    if (code <= 0) {
        return error_set_field(
            err, STATUS_INVALID_FIELD, "--tls-client-ca", "--tls-client-ca %s: %s",
            paths[FILE_CLIENT_CA],
            gnutls_strerror(code == 0 ? GNUTLS_E_NO_CERTIFICATE_FOUND : code));
    }
    gnutls_certificate_set_verify_function(credentials->gnutls, verify_client);
    gnutls_certificate_get_trust_list(credentials->gnutls, &credentials->authorities);
    return STATUS_OK;
}

static enum status load_credentials(struct tls_credentials *credentials, struct error *err)
{
    struct file_text texts[FILE_COUNT] = {{.count = 0}};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < FILE_COUNT && status == STATUS_OK; i++) {
        status = file_watch_read(&credentials->files->watch, i, FILE_BYTES_MAX, &texts[i], err);
    }
    if (status == STATUS_OK) {
        status = set_credentials(credentials, texts, err);
    }
    for (size_t i = 0; i < FILE_COUNT; i++) {
        file_text_free(&texts[i]);
    }
    return status;
}

/* Free credentials that no other thread uses. */
static void credentials_free(struct tls_credentials *credentials)
{
    if (credentials->gnutls != NULL) {
        gnutls_certificate_free_credentials(credentials->gnutls);
    }
    free(credentials);
}

static void credentials_release(struct tls_credentials *credentials)
{
    if (credentials == NULL) {
        return;
    }
    struct tls_files *files = credentials->files;
    MUST(pthread_mutex_lock(&files->lock));
    bool last = --credentials->references == 0;
    MUST(pthread_mutex_unlock(&files->lock));
    if (last) {
        credentials_free(credentials);
    }
}

/* Returns the current credentials, with a reference that the caller gives back by
 * credentials_release(). */
static struct tls_credentials *credentials_get(struct tls_files *files)
{
    HOLD_LOCK(&files->lock);
    files->current->references++;
    return files->current;
}

static void time_text(time_t time, char text[32])
{
    struct tm tm;
    text[0] = '\0';
    if (gmtime_r(&time, &tm) != NULL) {
        (void)strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
    }
}

/* Warn about certificates that clients will refuse, and about a key that other users can read.
 * The group of the key file may read the key: systemd's SupplementaryGroups= and Kubernetes'
 * fsGroup give a service access by a group. */
static void warn_of_files(const struct tls_files *files, time_t begin, time_t end)
{
    const char *const *paths = files->watch.paths;
    const mode_t mode = files->watch.taken[FILE_KEY].st_mode;
    const time_t now = time(NULL);
    char text[32];
    if (end <= now) {
        time_text(end, text);
        log_message(files->log, LOG_WARN,
                    "TLS: %s has a certificate that expired at %s: clients refuse it, renew it",
                    paths[FILE_CERT], text);
    }
    if (begin > now) {
        time_text(begin, text);
        log_message(files->log, LOG_WARN,
                    "TLS: %s has a certificate that is not valid before %s: clients refuse it "
                    "until then; is this machine's clock right?",
                    paths[FILE_CERT], text);
    }
    if (S_ISREG(mode) && (mode & (S_IROTH | S_IWOTH)) != 0) {
        log_message(files->log, LOG_WARN,
                    "TLS: every user of this machine may read or write the key %s (mode %04o), "
                    "expected its owner and group alone: chmod o= %s",
                    paths[FILE_KEY], (unsigned)mode & 07777U, paths[FILE_KEY]);
    }
}

/* Read the files, and use their credentials for new connections. */
static enum status load_files(struct tls_files *files, struct error *err)
{
    char text[32];
    struct tls_credentials *credentials = calloc(1, sizeof *credentials);
    if (credentials == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for certificates");
    }
    credentials->files = files;
    credentials->references = 1;
    file_watch_take(&files->watch);
    enum status status = load_credentials(credentials, err);
    if (status != STATUS_OK) {
        credentials_free(credentials);
        return status;
    }
    MUST(pthread_mutex_lock(&files->lock));
    struct tls_credentials *previous = files->current;
    files->current = credentials;
    MUST(pthread_mutex_unlock(&files->lock));
    credentials_release(previous);
    metrics_gauge_set(files->metrics, METRICS_GAUGE_TLS_EXPIRY, credentials->end);
    time_text(credentials->end, text);
    log_message(files->log, LOG_INFO, "TLS: %s is loaded, valid until %s",
                files->watch.paths[FILE_CERT], text);
    warn_of_files(files, credentials->begin, credentials->end);
    return STATUS_OK;
}

static enum status check_flags(const struct config *config, struct error *err)
{
    bool cert = config->tls_cert[0] != '\0';
    bool key = config->tls_key[0] != '\0';
    if (cert != key) {
        return error_set(err, STATUS_INVALID_FIELD, "%s needs %s: give both, or none for HTTP",
                         cert ? "--tls-cert" : "--tls-key", cert ? "--tls-key" : "--tls-cert");
    }
    if (config->tls_client_ca[0] != '\0' && !cert) {
        return error_set(err, STATUS_INVALID_FIELD,
                         "--tls-client-ca needs --tls-cert and --tls-key: clients show "
                         "certificates only to a server that has one");
    }
    return STATUS_OK;
}

enum status tls_files_open(const struct config *config, struct log *log,
                           struct metrics *metrics, struct tls_files **out, struct error *err)
{
    enum status status = check_flags(config, err);
    if (status != STATUS_OK || config->tls_cert[0] == '\0') {
        return status;
    }
    struct tls_files *files = calloc(1, sizeof *files);
    if (files == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for certificates");
    }
    MUST(pthread_mutex_init(&files->lock, NULL));
    files->log = log;
    files->metrics = metrics;
    files->watch = (struct file_watch){.count = FILE_COUNT,
                                       .paths = {[FILE_CERT] = config->tls_cert,
                                                 [FILE_KEY] = config->tls_key,
                                                 [FILE_CLIENT_CA] = config->tls_client_ca},
                                       .flags = {[FILE_CERT] = "--tls-cert",
                                                 [FILE_KEY] = "--tls-key",
                                                 [FILE_CLIENT_CA] = "--tls-client-ca"}};
    status = load_files(files, err);
    if (status != STATUS_OK) {
        tls_files_close(files);
        return status;
    }
    *out = files;
    return STATUS_OK;
}

void tls_files_close(struct tls_files *files)
{
    if (files != NULL) {
        assert(files->current == NULL || files->current->references == 1);
        credentials_release(files->current);
        MUST(pthread_mutex_destroy(&files->lock));
        free(files);
    }
}

void tls_files_tick(struct tls_files *files, uint64_t now_ns)
{
    struct error err = ERROR_INIT;
    if (files != NULL && file_watch_due(&files->watch, now_ns) &&
        load_files(files, &err) != STATUS_OK) {
        file_watch_failed(&files->watch, now_ns);
        log_message(files->log, LOG_ERROR, "%s; the previous certificate stays in use",
                    err.detail);
    }
}

/* ---- begin and end of a connection ---- */

void tls_begin(struct conn *conn)
{
    struct http_loop *loop = conn->loop;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(conn->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    if (info == NULL || info->tls_session == NULL) {
        conn_cut(conn);
        return;
    }
    gnutls_session_t session = info->tls_session;
    conn->tls = session;
    conn->credentials = credentials_get(loop->http->tls);
    conn->handshaking = true;
    loop->handshaking++;
    gnutls_transport_set_ptr(session, conn);
    gnutls_transport_set_pull_function(session, tls_pull);
    gnutls_transport_set_vec_push_function(session, tls_push);
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_ANY, GNUTLS_HOOK_POST,
                                       on_message);
    gnutls_handshake_set_max_packet_length(session, MESSAGE_BYTES);
    if (gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, conn->credentials->gnutls) !=
        0) {
        conn_cut(conn); /* the session has no certificate */
    }
    if (conn->credentials->authorities != NULL) {
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
    }
    if (loop->handshaking > MOST_HANDSHAKES) {
        cut_a_handshake(loop);
    }
}

void tls_end(struct conn *conn)
{
    if (handshake_over(conn)) {
        metrics_add(conn->loop->server->metrics, METRICS_COUNTER_TLS_FAILURES, 1);
    }
    credentials_release(conn->credentials);
    conn->credentials = NULL;
    conn->tls = NULL;
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
    const gnutls_datum_t *shown = conn->credentials->authorities != NULL
                                      ? gnutls_certificate_get_peers(conn->tls, &count)
                                      : NULL;
    if (shown == NULL || count == 0 || gnutls_x509_crt_init(&certificate) != 0) {
        return false;
    }
    bool known = gnutls_x509_crt_import(certificate, &shown[0], GNUTLS_X509_FMT_DER) == 0 &&
                 name_subject(certificate, name);
    gnutls_x509_crt_deinit(certificate);
    return known;
}

/* ---- options of libmicrohttpd's daemons ---- */

/* Fast authenticated ciphers and fast key exchanges with forward secrecy. The server's order is
 * used, so that clients do not choose the cost. ChaCha20 takes three times as long and is for
 * clients without AES. The profile refuses client certificates, and certificates of their
 * issuers, with keys below 112 bits of security, such as RSA below 2048 bits. libmicrohttpd
 * only reads the text. */
void *tls_priorities(void)
{
    static char priorities[] =
        "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA"
        ":-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305"
        ":-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:%SERVER_PRECEDENCE"
        ":%PROFILE_MEDIUM";
    return priorities;
}

/* GnuTLS calls this function only in a session without credentials (setting them failed); the
 * session ends. */
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
        void *option; /* POSIX allows this conversion of a function pointer */
    } callback = {.function = no_certificate};
    return callback.option;
}
