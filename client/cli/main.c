/* `tally`: the command line of the Tally service. */
#include "client/cli/commands.h"
#include "client/cli/terminal.h"

#include <stdlib.h>
#include <string.h>

enum {
    TOKEN_TEXT = 8192
};

/* The bearer token: a file's first line, or $TALLY_TOKEN. False after complaining. */
static bool read_token(const struct settings *settings, char *token, size_t size)
{
    const char *given = getenv("TALLY_TOKEN"); /* NOLINT(concurrency-mt-unsafe): read only */
    token[0] = '\0';
    if (settings->token_file == NULL) {
        (void)snprintf(token, size, "%s", given == NULL ? "" : given);
        return true;
    }
    FILE *file = fopen(settings->token_file, "re");
    if (file == NULL || fgets(token, (int)size, file) == NULL) {
        if (file != NULL) {
            (void)fclose(file);
        }
        (void)complain(EXIT_USAGE, "cannot read a token from %s", settings->token_file);
        return false;
    }
    (void)fclose(file);
    token[strcspn(token, "\r\n")] = '\0';
    return true;
}

struct tally *client_of(const struct settings *settings, const char *url, int *status)
{
    char token[TOKEN_TEXT];
    struct tally_error err;
    struct tally_options options = TALLY_OPTIONS_INIT;
    *status = EXIT_USAGE;
    if (!read_token(settings, token, sizeof token)) {
        return NULL;
    }
    options.token = token[0] != '\0' ? token : NULL;
    options.ca_file = settings->ca_file;
    options.insecure = settings->insecure;
    options.timeout_ms = (int64_t)(settings->timeout_s * 1000);
    options.retries = settings->retries == 0  ? -1
                      : settings->retries < 0 ? 0
                                              : (int32_t)settings->retries;
    options.user_agent = "tally/" TALLY_VERSION;
    struct tally *client = tally_open(url, &options, &err);
    if (client == NULL) {
        (void)complain(EXIT_USAGE, "%s", err.message);
    } else {
        *status = EXIT_DONE;
    }
    return client;
}

static int command_completion(const struct settings *settings)
{
    if (settings->argument != NULL && options_completion(settings->argument, stdout)) {
        return EXIT_DONE;
    }
    return complain(EXIT_USAGE, "give a shell: tally completion bash, or tally completion zsh");
}

static int run(enum command_id command, const struct settings *settings)
{
    switch (command) {
    case COMMAND_CUMSUM:
        return command_cumsum(settings);
    case COMMAND_DEVICES:
        return command_devices(settings);
    case COMMAND_HEALTH:
        return command_health(settings);
    case COMMAND_VERSION:
        return command_version(settings);
    case COMMAND_BENCH:
        return command_bench(settings);
    case COMMAND_COMPLETION:
        return command_completion(settings);
    case COMMAND_COUNT:
        break;
    }
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    char message[512];
    const char *name = argc > 1 ? argv[1] : "--help";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        options_overview(stdout);
        return argc > 1 ? EXIT_DONE : EXIT_USAGE;
    }
    if (strcmp(name, "--version") == 0) {
        (void)printf("tally %s\n", tally_library_version());
        return EXIT_DONE;
    }
    enum command_id command = command_find(name);
    if (command == COMMAND_COUNT) {
        return complain(EXIT_USAGE, "there is no command \"%s\"; `tally --help` lists them",
                        name);
    }
    struct settings settings;
    memset(&settings, 0, sizeof settings);
    settings.retries = -1; /* the library's default */
    settings.connections = 8;
    settings.duration_s = 5;
    settings.warmup_s = 0.5;
    if (!options_parse(command, argc - 2, argv + 2, &settings, message, sizeof message)) {
        return complain(EXIT_USAGE, "%s", message);
    }
    if (settings.help) {
        options_help(command, stdout);
        return EXIT_DONE;
    }
    catch_interrupts();
    int status = run(command, &settings);
    if (fflush(stdout) != 0 && status == EXIT_DONE) {
        status = complain(EXIT_LOCAL, "standard output: it could not be written");
    }
    return status;
}
