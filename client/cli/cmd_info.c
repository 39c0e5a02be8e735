/* `tally devices`, `tally health` and `tally version` print information about the server: a
 * table or a line, or JSON with --json. `tally console` prints the address of the server's
 * console, and opens it in a browser if xdg-open is installed.
 *
 * Possible failures: a failed call has the exit status of its error (terminal.h). `health`
 * returns EXIT_BUSY for a server that is not ready. `console` returns EXIT_USAGE for a Unix
 * socket, which no browser can reach. Thread: the main one. */
#include "client/cli/commands.h"
#include "client/cli/exchange.h"
#include "client/cli/terminal.h"

#include <inttypes.h>
#include <jansson.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ADDRESS_TEXT = 2048,
    DEVICES_MAX = 64,
    PAGE_MOST = 1 << 20 /* limit for the list of devices, in bytes */
};

/* ---- devices ---- */

static const char *or_dash(const char *text)
{
    return text[0] != '\0' ? text : "-";
}

static void print_number(int64_t number)
{
    if (number < 0) {
        (void)printf(" %10s", "-");
    } else {
        (void)printf(" %10" PRId64, number);
    }
}

static void print_device(const struct tally_device *device, bool colour)
{
    const char *paint = strcmp(device->state, "ready") == 0 ? "\033[32m" : "\033[31m";
    (void)printf("%-40.40s %-24.24s %-6s %s%-10s%s", or_dash(device->name),
                 or_dash(device->platform), or_dash(device->type), colour ? paint : "",
                 or_dash(device->state), colour ? "\033[0m" : "");
    print_number(device->running);
    print_number(device->requests);
    print_number(device->errors);
    (void)putchar('\n');
}

int command_devices(const struct settings *settings, struct tally *client)
{
    int count = 0;
    struct tally_error err;
    static struct tally_device devices[DEVICES_MAX];
    if (settings->json) { /* the server's JSON is printed unchanged */
        const struct tally_request request = {.method = "GET", .path = "/v1/devices"};
        return exchange_json(client, request, PAGE_MOST, NULL);
    }
    if (tally_devices(client, devices, DEVICES_MAX, &count, &err) != TALLY_OK) {
        return complain_error(&err);
    }
    (void)printf("%-40s %-24s %-6s %-10s %10s %10s %10s\n", "DEVICE", "PLATFORM", "TYPE",
                 "STATE", "RUNNING", "REQUESTS", "ERRORS");
    for (int i = 0; i < count && i < DEVICES_MAX; i++) {
        print_device(&devices[i], colour_allowed(STDOUT_FILENO));
    }
    return EXIT_DONE;
}

/* ---- health and version ---- */

int command_health(const struct settings *settings, struct tally *client)
{
    int health = 0;
    struct tally_error err;
    if (tally_health(client, &health, &err) != TALLY_OK) {
        return complain_error(&err);
    }
    bool ready = (health & TALLY_READY) != 0;
    bool alive = (health & TALLY_ALIVE) != 0;
    if (settings->json) {
        (void)printf("{\"alive\":%s,\"ready\":%s}\n", alive ? "true" : "false",
                     ready ? "true" : "false");
    } else {
        (void)puts(ready ? "ready" : alive ? "alive, not ready" : "not alive");
    }
    return ready ? EXIT_DONE : EXIT_BUSY;
}

int command_version(const struct settings *settings, struct tally *client)
{
    char version[64] = "";
    struct tally_error err;
    if (tally_server_version(client, version, sizeof version, &err) != TALLY_OK) {
        return complain_error(&err);
    }
    if (!settings->json) {
        (void)printf("tally %s\nserver %s\n", tally_library_version(), version);
        return EXIT_DONE;
    }
    json_t *page = json_pack("{s:s,s:s}", "client", tally_library_version(), "server", version);
    const bool printed = json_dumpf(page, stdout, JSON_COMPACT) == 0 && putchar('\n') == '\n';
    json_decref(page);
    return printed ? EXIT_DONE : complain(EXIT_SERVER, "the server's version is not UTF-8");
}

/* ---- console ---- */

int command_console(const struct settings *settings, struct tally *client)
{
    const char *url = settings->url != NULL
                          ? settings->url
                          : getenv("TALLY_URL"); /* NOLINT(concurrency-mt-unsafe): read only */
    char address[ADDRESS_TEXT];
    (void)client;
    if (url == NULL || url[0] == '\0') {
        url = "http://127.0.0.1:8000";
    }
    if (strncmp(url, "unix:", 5) == 0 || strncmp(url, "http+unix:", 10) == 0) {
        return complain(EXIT_USAGE, "no browser reaches a Unix socket; give the server a "
                                    "--listen ADDR:PORT, too");
    }
    const char *scheme_end = strstr(url, "://");
    const char *host = scheme_end == NULL ? url : scheme_end + strlen("://");
    const char *secret_end = memrchr(host, '@', strcspn(host, "/"));
    const char *rest = secret_end == NULL ? host : secret_end + 1; /* a password is not shown */
    size_t length = strlen(rest);
    while (length > 0 && rest[length - 1] == '/') {
        length--;
    }
    (void)snprintf(address, sizeof address, "%s%.*s%.*s/", host == url ? "http://" : "",
                   (int)(host - url), url, (int)length, rest);
    (void)puts(address);
    (void)fflush(stdout);

    char program[] = "xdg-open";
    char *arguments[] = {program, address, NULL};
    pid_t opener = 0;
    if (posix_spawnp(&opener, program, NULL, NULL, arguments, environ) == 0) {
        (void)waitpid(opener, NULL, 0);
    }
    return EXIT_DONE;
}
