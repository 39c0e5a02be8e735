/* `tally console`: prints the address of the server's console, and opens the address in a browser
 * with xdg-open if that is installed.
 *
 * Possible failures: a browser cannot reach a server on a Unix socket, EXIT_USAGE. A missing
 * xdg-open is not a failure, since the address is printed. Thread: the main one. */
#include "client/cli/commands.h"
#include "client/cli/terminal.h"

#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ADDRESS_TEXT = 2048
};

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
