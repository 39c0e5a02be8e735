/* The service's side: starting a child, talking to it, ending it. */
#include "server/kernel_builder.h"

#include "server/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    NICE = 5 /* a third of the share of a thread that serves */
};

void kernel_builder_init(struct kernel_builder *builder)
{
    *builder = (struct kernel_builder){.connection = -1};
}

/* Standard descriptors to nowhere, the connection, and nothing else. */
static int file_actions(posix_spawn_file_actions_t *actions, int connection)
{
    int failure = connection > KERNEL_BUILDER_FD ? 0 : EBADF; /* a standard one was closed */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && failure == 0; fd++) {
        failure = posix_spawn_file_actions_addopen(actions, fd, "/dev/null", O_RDWR, 0);
    }
    failure = failure != 0
                  ? failure
                  : posix_spawn_file_actions_adddup2(actions, connection, KERNEL_BUILDER_FD);
    return failure != 0
               ? failure
               : posix_spawn_file_actions_addclosefrom_np(actions, KERNEL_BUILDER_FD + 1);
}

/* A group of its own: the terminal's Ctrl-C is for the service, which ends the child. */
static int spawn(pid_t *pid, int connection, char *const *argv)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failure = posix_spawn_file_actions_init(&actions);
    if (failure != 0) {
        return failure;
    }
    failure = posix_spawnattr_init(&attributes);
    if (failure == 0) {
        failure = file_actions(&actions, connection);
        (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
        failure = failure != 0 ? failure
                               : posix_spawn(pid, "/proc/self/exe", &actions, &attributes, argv,
                                             environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return failure;
}

enum status kernel_builder_start(struct kernel_builder *builder, size_t device,
                                 const char *cache_dir, uint64_t patience_ns, struct error *err)
{
    char name[] = "tallyd";
    char word[] = KERNEL_BUILDER_WORD;
    char number[24];
    char parent[24];
    char cache[4096];
    (void)snprintf(number, sizeof number, "%zu", device);
    (void)snprintf(parent, sizeof parent, "%d", (int)getpid());
    (void)snprintf(cache, sizeof cache, "%s", cache_dir);
    char *const argv[] = {name, word, number, cache, parent, NULL};
    int ends[2] = {-1, -1};
    int failure = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0 ? 0 : errno;
    if (failure == 0) {
        failure = spawn(&builder->pid, ends[1], argv);
        (void)close(ends[1]);
    }
    if (failure != 0 && ends[0] >= 0) {
        (void)close(ends[0]);
    }
    if (failure != 0) {
        kernel_builder_init(builder);
        return error_set(err, STATUS_INTERNAL, "cannot start a process that builds kernels: %s",
                         strerrordesc_np(failure));
    }
    builder->connection = ends[0];
    builder->greeted = false;
    builder->busy = true;
    builder->deadline_ns = clock_now_ns() + patience_ns;
    return STATUS_OK;
}

void kernel_builder_ask(struct kernel_builder *builder, const struct scan_build *build,
                        uint64_t patience_ns)
{
    builder->busy = true;
    builder->deadline_ns = clock_now_ns() + patience_ns;
    /* To a child that is gone: the next poll says so. */
    (void)!send(builder->connection, build, sizeof *build, MSG_NOSIGNAL);
}

/* The child has closed its end, or is late: end it, and say how it went. */
static enum kernel_builder_news bury(struct kernel_builder *builder, bool late,
                                     char reason[KERNEL_BUILDER_TEXT])
{
    int state = 0;
    bool greeted = builder->greeted;
    (void)kill(builder->pid, SIGKILL);
    pid_t reaped = waitpid(builder->pid, &state, 0);
    if (late) {
        (void)snprintf(reason, KERNEL_BUILDER_TEXT,
                       "the process that builds kernels gave no answer in time");
    } else if (reaped == builder->pid && WIFSIGNALED(state)) {
        (void)snprintf(reason, KERNEL_BUILDER_TEXT,
                       "the process that builds kernels was ended by signal %d",
                       WTERMSIG(state));
    } else {
        (void)snprintf(reason, KERNEL_BUILDER_TEXT,
                       "the process that builds kernels ended with status %d",
                       reaped == builder->pid ? WEXITSTATUS(state) : 0);
    }
    (void)close(builder->connection);
    kernel_builder_init(builder);
    return greeted ? KERNEL_BUILDER_GONE : KERNEL_BUILDER_USELESS;
}

/* Its end is closed, or it said something. */
static enum kernel_builder_news receive(struct kernel_builder *builder,
                                        char reason[KERNEL_BUILDER_TEXT])
{
    struct kernel_builder_answer answer;
    ssize_t got = recv(builder->connection, &answer, sizeof answer, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return KERNEL_BUILDER_NOTHING;
    }
    if (got != (ssize_t)sizeof answer) {
        return bury(builder, false, reason);
    }
    bool greeting = !builder->greeted;
    builder->busy = false;
    (void)snprintf(reason, KERNEL_BUILDER_TEXT, "%.*s", (int)sizeof answer.detail - 1,
                   answer.detail);
    if (greeting && answer.status != STATUS_OK) {
        char how[KERNEL_BUILDER_TEXT];
        return bury(builder, false, how);
    }
    builder->greeted = true;
    return greeting                     ? KERNEL_BUILDER_GREETED
           : answer.status == STATUS_OK ? KERNEL_BUILDER_DONE
                                        : KERNEL_BUILDER_FAILED;
}

enum kernel_builder_news kernel_builder_poll(struct kernel_builder *builder, int wait_ms,
                                             char reason[KERNEL_BUILDER_TEXT])
{
    struct pollfd wait = {.fd = builder->connection, .events = POLLIN};
    if (builder->pid == 0) {
        return KERNEL_BUILDER_NOTHING;
    }
    if (poll(&wait, 1, wait_ms) > 0) {
        return receive(builder, reason);
    }
    bool late = builder->busy && clock_now_ns() >= builder->deadline_ns;
    return late ? bury(builder, true, reason) : KERNEL_BUILDER_NOTHING;
}

void kernel_builder_nice(const struct kernel_builder *builder)
{
    if (builder->pid != 0) { /* its first thread, which compiles */
        (void)setpriority(PRIO_PROCESS, (id_t)builder->pid, NICE);
    }
}

void kernel_builder_stop(struct kernel_builder *builder)
{
    char reason[KERNEL_BUILDER_TEXT];
    if (builder->pid != 0) {
        (void)bury(builder, false, reason);
    }
}
