/* tallyd: parses the settings, then runs the service or the action that they name (--help,
 * ...). */
#include "kernels/device.h"
#include "proto/byte_size.h"
#include "proto/macros.h"
#include "server/base/config.h"
#include "server/sched/device_pool.h"
#include "server/service.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    MMAP_FROM_BYTES = 4 << 20,
    LEAST_STACK_BYTES = 2 << 20, /* glibc's default if `ulimit -s` is unlimited */
    MOST_STACK_BYTES = 8 << 20
};

/* Make malloc() use mmap() for long texts: free() then returns their memory to the system. */
static void tune_malloc(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, MMAP_FROM_BYTES);     /* NOLINT(concurrency-mt-unsafe) */
    (void)mallopt(M_TRIM_THRESHOLD, 2 * MMAP_FROM_BYTES); /* NOLINT(concurrency-mt-unsafe) */
}

/* Bound the stack size of threads, which by default is the limit of the process (ulimit -s). A
 * small stack would overflow in a large request; with large stacks threads cannot be
 * created. */
static void size_thread_stacks(void)
{
    pthread_attr_t attributes;
    size_t bytes = 0;
    MUST(pthread_getattr_default_np(&attributes));
    MUST(pthread_attr_getstacksize(&attributes, &bytes));
    bytes = smaller_of(larger_of(bytes, LEAST_STACK_BYTES), MOST_STACK_BYTES);
    MUST(pthread_attr_setstacksize(&attributes, bytes));
    MUST(pthread_setattr_default_np(&attributes));
    MUST(pthread_attr_destroy(&attributes));
}

/* Open /dev/null for each standard descriptor that is closed. Otherwise the next file or socket
 * would get this number, and the log would be written there. */
static bool open_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) {
            (void)fprintf(stderr,
                          "tallyd: standard descriptor %d is closed, and /dev/null cannot be "
                          "opened in its place: %s\n",
                          fd, strerrordesc_np(errno));
            return false;
        }
    }
    return true;
}

/* Limit the threads of CPU devices, unless the environment has a limit for PoCL. Tally's own
 * driver and PoCL read environment variables. By default PoCL uses all cores of the machine,
 * including cores that this process may not use. PoCL up to 3.1 reads the first of `names`,
 * PoCL 4.0 and later the second, and PoCL 7.0 and later perhaps the third. Call this function
 * before any call of a driver. */
static void limit_threads(uint64_t cpus)
{
    static const char *const names[] = {"POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT",
                                        "POCL_MAX_COMPUTE_UNITS"};
    char number[24];
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)cpus);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread yet */
    (void)setenv("TALLY_OPENCL_THREADS", number, 1);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (getenv(names[i]) != NULL) { /* NOLINT(concurrency-mt-unsafe): no other thread yet */
            return;
        }
    }
    for (size_t i = 0; i < 2; i++) {
        (void)setenv(names[i], number, 0); /* NOLINT(concurrency-mt-unsafe): no thread yet */
    }
}

/* Returns an exit code. */
static int list_devices(FILE *out)
{
    static const char *const kinds[] = {"CPU", "GPU", "other"};
    struct scan_device_info *infos = calloc(DEVICE_POOL_MAX, sizeof *infos);
    size_t count = 0;
    struct error err = ERROR_INIT;
    if (infos == NULL || scan_devices_list(infos, DEVICE_POOL_MAX, &count, &err) != STATUS_OK) {
        free(infos);
        (void)fprintf(stderr, "tallyd: %s\n", err.detail);
        return EXIT_CODE_NO_DEVICE;
    }
    for (size_t i = 0; i < count; i++) {
        char memory[32];
        byte_size_text(infos[i].memory_bytes, memory, sizeof memory);
        (void)fprintf(out, "%zu: %s\n   %s; %s; driver %s; %u compute units; %s%s\n", i,
                      infos[i].name, infos[i].platform, kinds[infos[i].kind], infos[i].driver,
                      infos[i].compute_units, memory,
                      infos[i].host_memory ? "; works in host memory" : "");
    }
    free(infos);
    return EXIT_CODE_OK;
}

/* Keep the key and the tokens out of core dumps, and hide them from other processes of the same
 * user. */
static void protect_secrets(const struct config *config)
{
    if (config->tls_key[0] != '\0' || config->token_file[0] != '\0') {
        (void)prctl(PR_SET_DUMPABLE, 0);
    }
}

/* Returns `code`, or EXIT_CODE_FAILED if a part of the output could not be written. */
static int check_stdout(int code)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0) {
        return code;
    }
    (void)fprintf(stderr, "tallyd: standard output: %s\n", strerrordesc_np(errno));
    return EXIT_CODE_FAILED;
}

static int run_action(struct config *config, struct error *err)
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
    case CONFIG_LIST_DEVICES:
        limit_threads(config->cpus);
        return list_devices(stdout);
    case CONFIG_RUN:
        break;
    }
    limit_threads(config->cpus);
    protect_secrets(config);
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
    size_thread_stacks();
    if (config_parse(argc, (const char *const *)argv, (const char *const *)environ, &config,
                     &err) == STATUS_OK) {
        code = check_stdout(run_action(&config, &err));
    } else {
        (void)fprintf(stderr, "tallyd: %s\n", err.detail);
    }
    config_deinit(&config);
    return code;
}
