/* The child's side of kernel_builder.h: a program of its own that shares the executable. */
#include "server/kernel_builder.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ARGUMENTS = 5
};

/* End when the thread that started this process does, and before it when memory is short. */
static bool tie_to_parent(const char *parent)
{
    static const char first_to_go[] = "1000";
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, first_to_go, strlen(first_to_go));
        (void)close(fd);
    }
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
           getppid() == (pid_t)strtol(parent, NULL, 10);
}

static bool answer(const struct error *err)
{
    struct kernel_builder_answer words = {.status = err->status};
    (void)snprintf(words.detail, sizeof words.detail, "%.*s", (int)sizeof words.detail - 1,
                   err->detail);
    return send(KERNEL_BUILDER_FD, &words, sizeof words, MSG_NOSIGNAL) == (ssize_t)sizeof words;
}

/* Builds until the service hangs up. */
static void serve(struct scan_device *device)
{
    struct scan_build build;
    bool heard = true;
    while (heard && recv(KERNEL_BUILDER_FD, &build, sizeof build, 0) == (ssize_t)sizeof build) {
        struct error err = ERROR_INIT;
        if (scan_device_warm(device, &build, true, &err) == STATUS_OK) {
            err = (struct error)ERROR_INIT;
        }
        heard = answer(&err);
    }
}

int kernel_builder_child(int argc, char **argv)
{
    struct scan_device *device = NULL;
    struct error err = ERROR_INIT;
    if (argc != ARGUMENTS || !tie_to_parent(argv[4])) {
        return EXIT_FAILURE;
    }
    const struct scan_device_options options = {.cache_dir = argv[3], .patient = true};
    bool opened = scan_device_open((size_t)strtoul(argv[2], NULL, 10), &options, &device,
                                   &err) == STATUS_OK;
    if (answer(&err) && opened) {
        serve(device);
    }
    /* Nothing to tidy up: the cache is written by renaming whole files. */
    _exit(opened ? EXIT_SUCCESS : EXIT_FAILURE);
}
