/* Reads certificates and keys; see tls_files.h. */
#include "server/http/tls_files.h"

#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/file_watch.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/base/thread.h"
#include "server/http/tls.h"

#include <assert.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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
    gnutls_datum_t raw;
    gnutls_x509_crt_t certificate;
    time_t first = 0;
    for (unsigned i = 0; gnutls_certificate_get_crt_raw(gnutls, 0, i, &raw) == 0; i++) {
        if (gnutls_x509_crt_init(&certificate) != 0) {
            break;
        }
        if (gnutls_x509_crt_import(certificate, &raw, GNUTLS_X509_FMT_DER) == 0) {
            time_t end = gnutls_x509_crt_get_expiration_time(certificate);
            first = first == 0 || end < first ? end : first;
        }
        gnutls_x509_crt_deinit(certificate);
    }
    return first;
}

/* What GnuTLS does not tell: which of the files cannot be read, and why. It reads a file whole,
 * however long it is. */
static enum status check_files(const struct file_watch *watch, struct error *err)
{
    static const char *const flags[FILE_COUNT] = {[FILE_CERT] = "--tls-cert",
                                                  [FILE_KEY] = "--tls-key",
                                                  [FILE_CLIENT_CA] = "--tls-client-ca"};
    for (size_t i = 0; i < FILE_COUNT; i++) {
        const char *path = watch->paths[i];
        struct stat info;
        if (path[0] == '\0') {
            continue;
        }
        /* Not by opening it: the writer of a pipe would be left without a reader. */
        int failure = stat(path, &info) != 0 || access(path, R_OK) != 0 ? errno : 0;
        failure = failure == 0 && S_ISDIR(info.st_mode) ? EISDIR : failure;
        if (failure != 0) {
            return error_set_field(err, STATUS_INVALID_FIELD, flags[i], "%s %s: %s", flags[i],
                                   path, strerrordesc_np(failure));
        }
        if (S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode)) { /* it may have no end */
            return error_set_field(err, STATUS_INVALID_FIELD, flags[i],
                                   "%s %s: it is a device, not a file", flags[i], path);
        }
        if (watch->taken[i].bytes > FILE_BYTES_MAX) {
            return error_set_field(err, STATUS_INVALID_FIELD, flags[i],
                                   "%s %s: it has more than 16 MiB", flags[i], path);
        }
    }
    return STATUS_OK;
}

static enum status load_credentials(struct tls_credentials *credentials, struct error *err)
{
    TRY(check_files(&credentials->files->watch, err));
    const char *const *paths = credentials->files->watch.paths;
    const char *cert = paths[FILE_CERT];
    const char *ca = paths[FILE_CLIENT_CA];
    int code = gnutls_certificate_allocate_credentials(&credentials->gnutls);
    if (code != 0) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "TLS: %s", gnutls_strerror(code));
    }
    code = gnutls_certificate_set_x509_key_file2(credentials->gnutls, cert, paths[FILE_KEY],
                                                 GNUTLS_X509_FMT_PEM, NULL, 0);
    if (code < 0) {
        return error_set_field(err, STATUS_INVALID_FIELD, "--tls-cert",
                               "--tls-cert %s, --tls-key %s: %s", cert, paths[FILE_KEY],
                               gnutls_strerror(code));
    }
    credentials->ask_clients = ca[0] != '\0';
    if (!credentials->ask_clients) {
        return STATUS_OK;
    }
    code = gnutls_certificate_set_x509_trust_file(credentials->gnutls, ca, GNUTLS_X509_FMT_PEM);
    if (code <= 0) {
        return error_set_field(
            err, STATUS_INVALID_FIELD, "--tls-client-ca", "--tls-client-ca %s: %s", ca,
            gnutls_strerror(code == 0 ? GNUTLS_E_NO_CERTIFICATE_FOUND : code));
    }
    tls_verify_clients(credentials->gnutls);
    return STATUS_OK;
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
        tls_credentials_release(files->current);
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
