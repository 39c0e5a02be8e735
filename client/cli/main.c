/* `tally`: the command-line client of the Tally service.
 *
 *   command line parsed -> client opened -> command executed -> client closed
 *
 * Possible failures: the function that finds a failure complains on standard error and returns
 * the exit status (terminal.h). Thread: the main one. */
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
    COMMENTS_MAX = 100 /* lines skipped in search of a hash, at most: the file may be endless */
};

/* Return whether a line has the form of the server's --token-file: NAME:HASH or
 * NAME:HASH:SCOPES. */
static bool is_hash_line(const char *line)
{
    static const char hex[] = "0123456789abcdefABCDEF";
    const size_t name = strcspn(line, ":");
    const char *hash = line + name + (line[name] == ':');
    return text_is_token_name(line, name) && strspn(hash, hex) == HASH_DIGITS &&
           (hash[HASH_DIGITS] == '\0' || hash[HASH_DIGITS] == ':');
}

/* Read the bearer token: the first line of the file `path`; path NULL: $TALLY_TOKEN, or "".
 * Users confuse this file with the server's --token-file: a file is refused if its first line
 * that is neither empty nor a comment has a hash. Returns EXIT_DONE, or EXIT_USAGE after
 * complaining. */
static int read_token(const char *path, char token[TOKEN_TEXT])
{
    const char *given = getenv("TALLY_TOKEN"); /* NOLINT(concurrency-mt-unsafe): read only */
    char line[TOKEN_TEXT] = "";
    if (path == NULL) {
        const int length = snprintf(token, TOKEN_TEXT, "%s", given == NULL ? "" : given);
        return length < TOKEN_TEXT ? EXIT_DONE
                                   : complain(EXIT_USAGE, "TALLY_TOKEN is longer than %d bytes",
                                              TOKEN_TEXT - 1);
    }
    FILE *file = fopen(path, "re");
    for (int i = 0; file != NULL && i <= COMMENTS_MAX && (line[0] == '\0' || line[0] == '#') &&
                    fgets(line, sizeof line, file) != NULL;
         i++) {
        line[strcspn(line, "\r\n")] = '\0';
        if (i == 0) {
            memcpy(token, line, sizeof line);
        }
    }
    const bool failed = file == NULL || ferror(file) != 0;
    const char *reason = failed ? errno_text() : "";
    if (file != NULL) {
        (void)fclose(file);
    }
    if (!failed && is_hash_line(line)) {
        reason =
            "it holds hashes, for the server's --token-file; tally needs the token itself, "
            "which `tally token new` showed on standard error";
    } else if (!failed && token[0] == '\0') {
        reason = "the first line is empty, expected a token";
    } else if (!failed && strlen(token) == TOKEN_TEXT - 1) {
        reason = "the first line is too long, expected a token";
    }
    return reason[0] == '\0'
               ? EXIT_DONE
               : complain(EXIT_USAGE, "cannot read a token from %s: %s", path, reason);
}

/* Open a client with the settings. Returns NULL after complaining. */
static struct tally *open_client(const struct settings *settings)
{
    char token[TOKEN_TEXT] = "";
    struct tally_error err;
    struct tally_options options = TALLY_OPTIONS_INIT;
    if (read_token(settings->token_file, token) != EXIT_DONE) {
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
    struct tally *client = tally_open(settings->url, &options, &err);
    if (client == NULL) {
        (void)complain(EXIT_USAGE, "%s", err.message);
    }
    return client;
}

/* Open /dev/null in place of standard streams that the parent process closed. Otherwise a file
 * or socket would get the descriptor of such a stream, and output would be written to it. */
static void reserve_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            /* With these modes a read from standard input, or a write to the others, fails. */
            (void)open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
        }
    }
}

static int call_command(const struct settings *settings)
{
    const enum command_id command = settings->command;
    static int (*const commands[COMMAND_COUNT])(const struct settings *, struct tally *) = {
        [COMMAND_CUMSUM] = command_cumsum,         [COMMAND_DEVICES] = command_devices,
        [COMMAND_HEALTH] = command_health,         [COMMAND_VERSION] = command_version,
        [COMMAND_CONSOLE] = command_console,       [COMMAND_TOKEN] = command_token,
        [COMMAND_COMPLETION] = command_completion,
    };
    struct tally *client = NULL;
    if (command != COMMAND_TOKEN && command != COMMAND_COMPLETION) {
        client = open_client(settings);
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
    struct settings settings = {
        .command = COMMAND_COUNT,
        .retries = -1,
        .part_bytes = 64 << 20,
        .flush_ms = 100,
    };
    if (argc > 1 && strcmp(argv[1], "--complete") == 0) {
        completion_offer(argc - 2, argv + 2);
        return EXIT_DONE;
    }
    STEP(options_parse(argc, argv, &settings));
    if (settings.command == COMMAND_HEALTH && settings.timeout_s <= 0) {
        settings.timeout_s = 10;
    }
    if (settings.command != COMMAND_COUNT && settings.help) {
        options_help(settings.command, stdout);
        return EXIT_DONE;
    }
    if (settings.command != COMMAND_COUNT) {
        return call_command(&settings);
    }
    if (settings.version) {
        (void)printf("tally %s\n", tally_library_version());
        return EXIT_DONE;
    }
    if (!settings.help && argc > 1) {
        return complain(EXIT_USAGE, "there is no command; `tally --help` lists them");
    }
    options_overview(stdout);
    return settings.help ? EXIT_DONE : EXIT_USAGE;
}

/* Return whether standard output is a pipe or a socket that its reader has closed. errno does
 * not show it: a later call than the failed write may have changed errno. */
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
