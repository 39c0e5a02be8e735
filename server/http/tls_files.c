/* Reads certificates and keys; see tls_files.h. */
#include "server/http/tls_files.h"

#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/file_read.h"
#include "server/base/file_watch.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/base/thread.h"
#include "server/http/tls.h"

#include <assert.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    FILE_BYTES_MAX = 16 << 20 /* all authorities that Debian knows are 220 KB */
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
    struct file_watch watch; /* main's */
    pthread_mutex_t lock;
    struct tls_credentials *current; /* a reference, guarded by the lock */
};

/* When the first of the certificates that are shown ends, 0 if none can be read. */
static time_t first_expiry(struct gnutls_certificate_credentials_st *gnutls)
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
    tls_verify_clients(credentials->gnutls);
    return STATUS_OK;
}

static enum status load_credentials(struct tls_credentials *credentials, bool may_wait,
                                    struct error *err)
{
    static const char *const flags[FILE_COUNT] = {[FILE_CERT] = "--tls-cert",
                                                  [FILE_KEY] = "--tls-key",
                                                  [FILE_CLIENT_CA] = "--tls-client-ca"};
    const char *const *paths = credentials->files->watch.paths;
    struct file_text texts[FILE_COUNT] = {{.count = 0}};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < FILE_COUNT && status == STATUS_OK; i++) {
        char context[512];
        if (paths[i][0] != '\0') {
            status = file_read(paths[i], FILE_BYTES_MAX, may_wait, &texts[i], err);
        }
        if (status != STATUS_OK) {
            (void)snprintf(context, sizeof context, "%s %.400s", flags[i], paths[i]);
            error_prefix(err, context);
        }
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

/* Read the files, and give new connections what they say. */
static enum status take_up_files(struct tls_files *files, bool may_wait, struct error *err)
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
    enum status status = load_credentials(credentials, may_wait, err);
    if (status != STATUS_OK) {
        credentials_free(credentials);
        return status;
    }
    MUST(pthread_mutex_lock(&files->lock));
    struct tls_credentials *before = files->current;
    files->current = credentials;
    MUST(pthread_mutex_unlock(&files->lock));
    tls_credentials_release(before);
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
    if (files == NULL || pthread_mutex_init(&files->lock, NULL) != 0) {
        free(files);
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for certificates");
    }
    files->log = log;
    files->metrics = metrics;
    files->watch = (struct file_watch){.count = FILE_COUNT,
                                       .paths = {[FILE_CERT] = config->tls_cert,
                                                 [FILE_KEY] = config->tls_key,
                                                 [FILE_CLIENT_CA] = config->tls_client_ca}};
    status = take_up_files(files, true, err);
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
        tls_credentials_release(files->current);
        MUST(pthread_mutex_destroy(&files->lock));
        free(files);
    }
}

void tls_files_tick(struct tls_files *files, uint64_t now_ns)
{
    struct error err = ERROR_INIT;
    if (files != NULL && file_watch_due(&files->watch, now_ns) &&
        take_up_files(files, false, &err) != STATUS_OK) {
        file_watch_failed(&files->watch, now_ns);
        log_message(files->log, LOG_ERROR, "%s; the certificate from before stays in use",
                    err.detail);
    }
}

struct tls_credentials *tls_credentials_get(struct tls_files *files)
{
    MUST(pthread_mutex_lock(&files->lock));
    struct tls_credentials *credentials = files->current;
    credentials->references++;
    MUST(pthread_mutex_unlock(&files->lock));
    return credentials;
}

void tls_credentials_release(struct tls_credentials *credentials)
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
