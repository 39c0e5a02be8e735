/* Certificates from files, and GnuTLS's sessions; see tls.h. */
#include "server/http/tls.h"

#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/file_watch.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/base/thread.h"
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
    FILE_BYTES_MAX = 16 << 20, /* all authorities that Debian knows are 220 KB */
    MOST_HANDSHAKES = 256,     /* of a loop at a time */
    REST_BYTES = 16 << 10,     /* of a flight of handshake messages: more than clients send */
    MESSAGE_BYTES = 32 << 10,  /* of a handshake: a client's certificates, some ten with RSA */
    MODULUS_BYTES = 8192 / 8,  /* of a client's key: a millisecond, with the longest exponent */
    EXPONENT_BYTES = 64 / 8    /* as others have it; all that is in use are of three bytes */
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
        /* libmicrohttpd is told once that a connection has ended. It forgets that where the
         * handshake goes on, and would not ask in the next run. */
        const bool ended = client_socket_ended(conn->fd);
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
    if (incoming == 0) {
        return 0;
    }
    if (type == GNUTLS_HANDSHAKE_CERTIFICATE_PKT) {
        alert_without_certificate(session, message);
    } else if (type == GNUTLS_HANDSHAKE_CERTIFICATE_VERIFY && key_costs_too_much(session)) {
        log_refusal(conn,
                    "its RSA key has more than 8192 bits, or an exponent of more than 64");
        refuse_client(session, GNUTLS_A_UNSUPPORTED_CERTIFICATE);
        return GNUTLS_E_CERTIFICATE_ERROR;
    } else if (type == GNUTLS_HANDSHAKE_FINISHED && handshake_over(conn)) {
        client_socket_acknowledge(conn->fd); /* TLS 1.3 has nothing to send behind it */
        metrics_add(conn->loop->server->metrics, METRICS_COUNTER_TLS_HANDSHAKES, 1);
    }
    return 0;
}

/* Cut the oldest handshake of the client that has most connections. */
static void make_handshake_room(struct http_loop *loop)
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

/* ---- certificates, keys and authorities ---- */

enum file {
    FILE_CERT,
    FILE_KEY,
    FILE_CLIENT_CA,
    FILE_COUNT
};

struct tls_files {
    struct log *log;         /* borrowed */
    struct metrics *metrics; /* borrowed */
    struct file_watch watch; /* main's */
    pthread_mutex_t lock;
    struct tls_credentials *current; /* a reference, guarded by the lock */
};

/* What was read together. */
struct tls_credentials {
    gnutls_certificate_credentials_t gnutls; /* owned */
    bool ask_clients;                        /* for certificates of their own */
    struct tls_files *files;                 /* borrowed */
    size_t references;                       /* guarded by the lock of the files */
};

/* When the first of the certificates that are shown ends, 0 if none can be read. */
static time_t first_expiry(gnutls_certificate_credentials_t gnutls)
{
    gnutls_x509_crt_t *chain = NULL;
    unsigned count = 0;
    time_t first = 0;
    if (gnutls_certificate_get_x509_crt(gnutls, 0, &chain, &count) != 0) {
        return 0;
    }
    for (unsigned i = 0; i < count; i++) {
        time_t end = gnutls_x509_crt_get_expiration_time(chain[i]);
        first = first == 0 || end < first ? end : first;
        gnutls_x509_crt_deinit(chain[i]);
    }
    gnutls_free(chain);
    return first;
}

static gnutls_datum_t datum_of(const struct file_text *text)
{
    return (gnutls_datum_t){.data = (unsigned char *)text->bytes,
                            .size = (unsigned)text->count};
}

/* texts[FILE_COUNT] as read. */
static enum status use_texts(struct tls_credentials *credentials, const struct file_text *texts,
                             struct error *err)
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
        return error_set_field(err, STATUS_INVALID_FIELD, "--tls-cert",
                               "--tls-cert %s, --tls-key %s: %s", paths[FILE_CERT],
                               paths[FILE_KEY], gnutls_strerror(code));
    }
    credentials->ask_clients = paths[FILE_CLIENT_CA][0] != '\0';
    if (!credentials->ask_clients) {
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
        status = use_texts(credentials, texts, err);
    }
    for (size_t i = 0; i < FILE_COUNT; i++) {
        file_text_free(&texts[i]);
    }
    return status;
}

/* Thread: nobody else has them. */
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

/* What is valid now; credentials_release() is due. */
static struct tls_credentials *credentials_get(struct tls_files *files)
{
    MUST(pthread_mutex_lock(&files->lock));
    struct tls_credentials *credentials = files->current;
    credentials->references++;
    MUST(pthread_mutex_unlock(&files->lock));
    return credentials;
}

/* Read the files, and give new connections what they say. */
static enum status take_up_files(struct tls_files *files, struct error *err)
{
    char text[32] = "";
    struct tm tm;
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
    struct tls_credentials *before = files->current;
    files->current = credentials;
    MUST(pthread_mutex_unlock(&files->lock));
    credentials_release(before);
    time_t end = first_expiry(credentials->gnutls);
    metrics_gauge_set(files->metrics, METRICS_GAUGE_TLS_EXPIRY, end);
    if (gmtime_r(&end, &tm) != NULL) {
        (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    }
    log_message(files->log, LOG_INFO, "TLS: %s is taken up, valid until %s",
                files->watch.paths[FILE_CERT], text);
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
    status = take_up_files(files, err);
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
        take_up_files(files, &err) != STATUS_OK) {
        file_watch_failed(&files->watch, now_ns);
        log_message(files->log, LOG_ERROR, "%s; the certificate from before stays in use",
                    err.detail);
    }
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
    conn->credentials = credentials_get(loop->http->tls);
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
        deadline_cut(conn); /* the session still has libmicrohttpd's credentials: none */
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
    credentials_release(conn->credentials);
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
 * is for who has no AES. MHD only reads. */
void *tls_priorities(void)
{
    static char priorities[] =
        "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA"
        ":-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305"
        ":-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:%SERVER_PRECEDENCE";
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
