/* `tally devices`, `tally health`, `tally version`: information about the server, as a table or a
 * line for people, with --json for programs.
 *
 * Possible failures: the exit status of the call's error (terminal.h); a server that is alive but
 * not ready is EXIT_BUSY. Thread: the main one. */
#include "client/cli/commands.h"
#include "client/cli/exchange.h"
#include "client/cli/terminal.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum {
    DEVICES_MAX = 64,
    PAGE_MOST = 1 << 20 /* largest list of devices, in bytes */
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
    if (settings->json) { /* the text of the server, unchanged */
        struct expectation page = {
            .format = FORMAT_JSON, .member = "devices", .most = PAGE_MOST};
        struct tally_request request = {.method = "GET", .path = "/v1/devices"};
        return exchange(client, request, &page, NULL, true, &err);
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

/* Print a text without control characters as the inside of a JSON string. */
static void print_in_quotes(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            (void)putchar('\\');
        }
        (void)putchar(*text);
    }
}

int command_version(const struct settings *settings, struct tally *client)
{
    char version[64] = "";
    struct tally_error err;
    if (tally_server_version(client, version, sizeof version, &err) != TALLY_OK) {
        return complain_error(&err);
    }
    if (settings->json) {
        (void)printf("{\"client\":\"%s\",\"server\":\"", tally_library_version());
        print_in_quotes(version);
        (void)puts("\"}");
    } else {
        (void)printf("tally %s\nserver %s\n", tally_library_version(), version);
    }
    return EXIT_DONE;
}
