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
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    NICE = 5, /* a third of the share of a thread that serves */
    WORDS_BYTES = 4096
};

void kernel_builder_init(struct kernel_builder *builder)
{
    *builder = (struct kernel_builder){.connection = -1, .words = -1};
}

/* A file for what the child says. It cannot grow, however much that is. -1: do without. */
static int open_words(void)
{
    int words = memfd_create("tally-builder", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (words >= 0 && (ftruncate(words, WORDS_BYTES) != 0 ||
                       fcntl(words, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) != 0)) {
        (void)close(words);
        words = -1;
    }
    return words;
}

/* The last line that the child wrote; "" if it was silent. */
static void last_words(const struct kernel_builder *builder, char text[KERNEL_BUILDER_TEXT])
{
    char words[WORDS_BYTES + 1] = "";
    text[0] = '\0';
    if (builder->words < 0 || pread(builder->words, words, WORDS_BYTES, 0) <= 0) {
        return;
    }
    size_t end = strlen(words);
    while (end > 0 && (unsigned char)words[end - 1] <= ' ') {
        words[--end] = '\0';
    }
    const char *line = strrchr(words, '\n');
    (void)snprintf(text, KERNEL_BUILDER_TEXT, "%.*s", KERNEL_BUILDER_TEXT - 1,
                   line != NULL ? line + 1 : words);
}

/* Standard descriptors to nowhere, but for standard error, the connection, and nothing else. */
static int file_actions(posix_spawn_file_actions_t *actions, int connection, int words)
{
    int failure = connection > KERNEL_BUILDER_FD ? 0 : EBADF; /* a standard one was closed */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && failure == 0; fd++) {
        failure = posix_spawn_file_actions_addopen(actions, fd, "/dev/null", O_RDWR, 0);
    }
    if (failure == 0 && words > KERNEL_BUILDER_FD) {
        failure = posix_spawn_file_actions_adddup2(actions, words, STDERR_FILENO);
    }
    failure = failure != 0
                  ? failure
                  : posix_spawn_file_actions_adddup2(actions, connection, KERNEL_BUILDER_FD);
    return failure != 0
               ? failure
               : posix_spawn_file_actions_addclosefrom_np(actions, KERNEL_BUILDER_FD + 1);
}

/* A group of its own: the terminal's Ctrl-C is for the service, which ends the child. */
static int spawn(pid_t *pid, int connection, int words, char *const *argv)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failure = posix_spawn_file_actions_init(&actions);
    if (failure != 0) {
        return failure;
    }
    failure = posix_spawnattr_init(&attributes);
    if (failure == 0) {
        failure = file_actions(&actions, connection, words);
        (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
        failure = failure != 0 ? failure
                               : posix_spawn(pid, "/proc/self/exe", &actions, &attributes, argv,
                                             environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return failure;
}

static void close_ends(struct kernel_builder *builder)
{
    if (builder->connection >= 0) {
        (void)close(builder->connection);
    }
    if (builder->words >= 0) {
        (void)close(builder->words);
    }
    kernel_builder_init(builder);
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
        builder->words = open_words();
        failure = spawn(&builder->pid, ends[1], builder->words, argv);
        (void)close(ends[1]);
        builder->connection = ends[0];
    }
    if (failure != 0) {
        bool never = failure == ENOENT || failure == EACCES || failure == EPERM ||
                     failure == ENOSYS; /* no /proc, or not allowed */
        close_ends(builder);
        return error_set(err, never ? STATUS_UNSUPPORTED : STATUS_INTERNAL,
                         "cannot start a process that builds kernels: %s",
                         strerrordesc_np(failure));
    }
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
                                     struct error *err)
{
    int state = 0;
    char how[64];
    char words[KERNEL_BUILDER_TEXT];
    bool greeted = builder->greeted;
    (void)kill(builder->pid, SIGKILL);
    pid_t reaped = waitpid(builder->pid, &state, 0);
    if (late) {
        (void)snprintf(how, sizeof how, "gave no answer in time");
    } else if (reaped == builder->pid && WIFSIGNALED(state)) {
        (void)snprintf(how, sizeof how, "was ended by signal %d", WTERMSIG(state));
    } else {
        (void)snprintf(how, sizeof how, "ended with status %d",
                       reaped == builder->pid ? WEXITSTATUS(state) : 0);
    }
    last_words(builder, words);
    (void)error_set(err, STATUS_INTERNAL, "the process that builds kernels %s%s%s", how,
                    words[0] != '\0' ? ": " : "", words);
    close_ends(builder);
    return greeted ? KERNEL_BUILDER_GONE : KERNEL_BUILDER_USELESS;
}

/* Its end is closed, or it said something. */
static enum kernel_builder_news receive(struct kernel_builder *builder, struct error *err)
{
    struct kernel_builder_answer answer;
    ssize_t got = recv(builder->connection, &answer, sizeof answer, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return KERNEL_BUILDER_NOTHING;
    }
    if (got != (ssize_t)sizeof answer) {
        return bury(builder, false, err);
    }
    bool greeting = !builder->greeted;
    bool bad = answer.status != STATUS_OK;
    builder->busy = false;
    if (greeting && bad) {
        (void)bury(builder, false, NULL);
    }
    if (bad) {
        (void)error_set(err, answer.status, "%.*s", (int)sizeof answer.detail - 1,
                        answer.detail);
        return greeting ? KERNEL_BUILDER_USELESS : KERNEL_BUILDER_FAILED;
    }
    builder->greeted = true;
    return greeting ? KERNEL_BUILDER_GREETED : KERNEL_BUILDER_DONE;
}

enum kernel_builder_news kernel_builder_poll(struct kernel_builder *builder, int wait_ms,
                                             struct error *err)
{
    struct pollfd wait = {.fd = builder->connection, .events = POLLIN};
    if (builder->pid == 0) {
        return KERNEL_BUILDER_NOTHING;
    }
    if (poll(&wait, 1, wait_ms) > 0) {
        return receive(builder, err);
    }
    bool late = builder->busy && clock_now_ns() >= builder->deadline_ns;
    return late ? bury(builder, true, err) : KERNEL_BUILDER_NOTHING;
}

void kernel_builder_nice(const struct kernel_builder *builder)
{
    if (builder->pid != 0) { /* its first thread, which compiles */
        (void)setpriority(PRIO_PROCESS, (id_t)builder->pid, NICE);
    }
}

void kernel_builder_stop(struct kernel_builder *builder)
{
    if (builder->pid != 0) {
        (void)bury(builder, false, NULL);
    }
}
