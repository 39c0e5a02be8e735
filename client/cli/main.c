/* `tally`: the command line of the Tally service.
 *
 *   command found -> options parsed -> client opened -> command run -> client closed
 *
 * Possible failures: the function that finds a failure complains on standard error and returns the
 * exit status (terminal.h). Signals end a command as soon as possible. Thread: the main one. */
#include "client/cli/commands.h"
#include "client/cli/terminal.h"
#include "proto/text.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TOKEN_TEXT = 8192,
    HASH_DIGITS = 64,  /* hexadecimal digits of a SHA-256 hash */
    COMMENTS_MAX = 100 /* lines that are skipped in search of a hash: /dev/zero has no end */
};

/* Whether a line is one of the server's --token-file: NAME:HASH or NAME:HASH:SCOPES. */
static bool is_hash_line(const char *line)
{
    static const char hex[] = "0123456789abcdefABCDEF";
    const size_t name = strcspn(line, ":");
    const char *hash = line + name + (line[name] == ':');
    return text_is_token_name(line, name) && strspn(hash, hex) == HASH_DIGITS &&
           (hash[HASH_DIGITS] == '\0' || hash[HASH_DIGITS] == ':');
}

/* Read the next line, without its end. Returns false at the end of the file and after an error. */
static bool read_line(FILE *file, char *line, size_t size)
{
    if (fgets(line, (int)size, file) == NULL) {
        return false;
    }
    line[strcspn(line, "\r\n")] = '\0';
    return true;
}

/* Whether the file is the server's --token-file, by its first line that is neither empty nor a
 * comment. `first` is the first line of the file. */
static bool holds_hashes(FILE *file, const char *first)
{
    char line[TOKEN_TEXT];
    (void)snprintf(line, sizeof line, "%s", first);
    for (int i = 0; i < COMMENTS_MAX && (line[0] == '\0' || line[0] == '#'); i++) {
        if (!read_line(file, line, sizeof line)) {
            return false;
        }
    }
    return is_hash_line(line);
}

/* Read the bearer token: the first line of a file, or $TALLY_TOKEN. Returns false after
 * complaining. */
static bool read_token(const struct settings *settings, char *token, size_t size)
{
    const char *given = getenv("TALLY_TOKEN"); /* NOLINT(concurrency-mt-unsafe): read only */
    if (settings->token_file == NULL) {
        int length = snprintf(token, size, "%s", given == NULL ? "" : given);
        if (length < 0 || (size_t)length >= size) {
            (void)complain(EXIT_USAGE, "TALLY_TOKEN is longer than %zu bytes", size - 1);
            return false;
        }
        return true;
    }
    FILE *file = fopen(settings->token_file, "re");
    token[0] = '\0';
    bool read = file != NULL && (read_line(file, token, size) || ferror(file) == 0);
    if (!read) {
        (void)complain(EXIT_USAGE, "cannot read a token from %s: %s", settings->token_file,
                       errno_text());
    }
    const bool hashes = read && holds_hashes(file, token);
    if (file != NULL) {
        (void)fclose(file);
    }
    const size_t length = strlen(token);
    if (hashes) {
        (void)complain(EXIT_USAGE,
                       "cannot read a token from %s: it holds hashes, for the server's "
                       "--token-file; tally needs the token itself, which `tally token new` "
                       "showed on standard error",
                       settings->token_file);
        read = false;
    } else if (read && (length == 0 || length + 1 == size)) {
        (void)complain(
            EXIT_USAGE,
            "cannot read a token from %s: the first line is %s, expected a token of at most "
            "%zu bytes",
            settings->token_file, length == 0 ? "empty" : "too long", size - 2);
        read = false;
    }
    return read;
}

/* Open a client with the settings. Returns NULL after complaining. */
static struct tally *open_client(const struct settings *settings, const char *url)
{
    char token[TOKEN_TEXT];
    struct tally_error err;
    struct tally_options options = TALLY_OPTIONS_INIT;
    if (!read_token(settings, token, sizeof token)) {
        return NULL;
    }
    options.token = token[0] != '\0' ? token : NULL;
    options.ca_file = settings->ca_file;
    options.client_cert = settings->client_cert;
    options.client_key = settings->client_key;
    options.insecure = settings->insecure;
    options.timeout_ms = (int64_t)(settings->timeout_s * 1000);
    options.retries = settings->retries == 0  ? -1
                      : settings->retries < 0 ? 0
                                              : (int32_t)settings->retries;
    options.user_agent = "tally/" TALLY_VERSION;
    struct tally *client = tally_open(url, &options, &err);
    if (client == NULL) {
        (void)complain(EXIT_USAGE, "%s", err.message);
    }
    return client;
}

/* Occupy the descriptors of standard streams that the caller closed. Otherwise the next file or
 * socket would get such a descriptor, and the result would be written there. */
static void reserve_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            /* With these modes a read from standard input, or a write to the others, fails. */
            (void)open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
        }
    }
}

static int call_command(enum command_id command, const struct settings *settings)
{
    static int (*const commands[COMMAND_COUNT])(const struct settings *, struct tally *) = {
        [COMMAND_CUMSUM] = command_cumsum,         [COMMAND_DEVICES] = command_devices,
        [COMMAND_HEALTH] = command_health,         [COMMAND_VERSION] = command_version,
        [COMMAND_CONSOLE] = command_console,       [COMMAND_TOKEN] = command_token,
        [COMMAND_COMPLETION] = command_completion,
    };
    struct tally *client = NULL;
    if (command != COMMAND_TOKEN && command != COMMAND_COMPLETION) {
        client = open_client(settings, settings->url);
        if (client == NULL) {
            return EXIT_USAGE;
        }
    }
    int status = commands[command](settings, client);
    tally_close(client);
    return status;
}

static int run_command_line(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--complete") == 0) {
        completion_offer(argc - 2, argv + 2);
        return EXIT_DONE;
    }
    options_command_first(argc, argv);
    const char *name = argc > 1 ? argv[1] : "--help";
    if (strcmp(name, "help") == 0 && argc > 2) {
        enum command_id about = command_find(argv[2]);
        if (about != COMMAND_COUNT) {
            options_help(about, stdout);
        }
        return about != COMMAND_COUNT ? EXIT_DONE : EXIT_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        options_overview(stdout);
        return argc > 1 ? EXIT_DONE : EXIT_USAGE;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        (void)printf("tally %s\n", tally_library_version());
        return EXIT_DONE;
    }
    enum command_id command = command_find(name);
    if (command == COMMAND_COUNT) {
        return EXIT_USAGE;
    }
    struct settings settings = {
        .retries = -1,
        .timeout_s = command == COMMAND_HEALTH ? 10 : 0,
        .part_bytes = 64 << 20,
        .flush_ms = 100,
    };
    int status = options_parse(command, argc - 1, argv + 1, &settings);
    if (status == EXIT_DONE && settings.help) {
        options_help(command, stdout);
    } else if (status == EXIT_DONE) {
        status = call_command(command, &settings);
    }
    return status;
}

/* Whether standard output is a pipe or a socket whose reader has closed it. The error of an earlier
 * write by stdio is not known. */
static bool reader_has_left(void)
{
    struct pollfd about = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return isatty(STDOUT_FILENO) == 0 && poll(&about, 1, 0) == 1 &&
           (about.revents & (POLLERR | POLLHUP)) != 0;
}

int main(int argc, char **argv)
{
    reserve_standard_descriptors();
    write_errors_not_signals();
    int status = run_command_line(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
        if (reader_has_left()) {
            end_by_broken_pipe();
        }
        if (status == EXIT_DONE) {
            status = complain(EXIT_LOCAL, "standard output: it could not be written");
        }
    }
    return status;
}
