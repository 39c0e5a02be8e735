/* tallyd: read the settings, then serve or do what else they say. */
#include "server/base/config.h"
#include "server/lifecycle.h"
#include "server/sched/device_pool.h"
#include "server/service.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    MMAP_FROM_BYTES = 4 << 20
};

/* Long JSON texts go straight back to the system instead of growing the heap for good. */
static void tune_malloc(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, MMAP_FROM_BYTES);     /* NOLINT(concurrency-mt-unsafe) */
    (void)mallopt(M_TRIM_THRESHOLD, 2 * MMAP_FROM_BYTES); /* NOLINT(concurrency-mt-unsafe) */
}

/* Somebody may have started us with a standard descriptor closed. The next thing that is opened
 * would get its number, and what is meant for the log would go there. */
static bool open_standard_descriptors(void)
{
    int fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO) {
        fd = dup(fd);
    }
    return fd >= 0 && close(fd) == 0;
}

static int act(struct config *config, struct error *err)
{
    switch (config->action) {
    case CONFIG_HELP:
        config_print_help(stdout);
        return EXIT_CODE_OK;
    case CONFIG_VERSION:
        (void)puts("tallyd " TALLY_VERSION);
        return EXIT_CODE_OK;
    case CONFIG_PRINT_ENV:
        config_print_env(stdout);
        return EXIT_CODE_OK;
    case CONFIG_PRINT_MAN:
        config_print_man(stdout);
        return EXIT_CODE_OK;
    case CONFIG_LIST_DEVICES:
        device_driver_limit_threads(config->cpus);
        return device_list_print(stdout);
    case CONFIG_RUN:
        break;
    }
    device_driver_limit_threads(config->cpus);
    return service_run(config, err);
}

int main(int argc, char **argv)
{
    struct config config;
    struct error err = ERROR_INIT;
    int code = EXIT_CODE_USAGE;
    if (!open_standard_descriptors()) {
        return EXIT_CODE_FAILED;
    }
    tune_malloc();
    if (config_parse(argc, (const char *const *)argv, (const char *const *)environ, &config,
                     &err) == STATUS_OK) {
        code = act(&config, &err);
    } else {
        (void)fprintf(stderr, "tallyd: %s\n", err.detail);
    }
    config_deinit(&config);
    return code;
}
