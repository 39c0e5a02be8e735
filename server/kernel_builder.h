/* Kernels are compiled in a child process, so that a compiler's memory, its locks, its crashes
 * and its hangs are not the service's. The child is tallyd again (/proc/self/exe), started with
 * KERNEL_BUILDER_WORD as its first argument; it opens the device, builds what it is asked for,
 * one kernel at a time, runs it once and leaves it in the kernel cache, from where the service
 * loads it.
 *
 *   service                          child
 *   kernel_builder_start()  ----->   opens the device, says hello
 *   kernel_builder_ask()    ----->   builds, checks, stores
 *   kernel_builder_poll()   <-----   DONE, or FAILED with a sentence
 *
 * The child inherits no descriptor but its end of the connection and, as standard error, a file
 * in memory, where compilers leave their last words; it ends with the thread that
 * started it. Thread: the one that started it. */
#ifndef TALLY_SERVER_KERNEL_BUILDER_H
#define TALLY_SERVER_KERNEL_BUILDER_H

#include "kernels/scan_device.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* First argument of a tallyd that is such a child; not for users, so not in --help. The others:
 * device number, cache directory, process id of the service. */
#define KERNEL_BUILDER_WORD "build-kernels"

struct kernel_builder {
    pid_t pid;            /* 0: not running */
    int connection;       /* owned; -1: none */
    int words;            /* owned: what it writes to standard error; -1: nobody listens */
    bool greeted;         /* it has opened the device */
    bool busy;            /* it has not answered yet */
    uint64_t deadline_ns; /* its answer is due */
};

enum kernel_builder_news {
    KERNEL_BUILDER_NOTHING,
    KERNEL_BUILDER_GREETED,
    KERNEL_BUILDER_DONE,
    KERNEL_BUILDER_FAILED, /* it could not build what it was asked for */
    KERNEL_BUILDER_GONE,   /* it ended, or was ended because its time was over */
    KERNEL_BUILDER_USELESS /* the same, before it had opened the device */
};

enum {
    KERNEL_BUILDER_TEXT = 256,
    KERNEL_BUILDER_FD = 3 /* the child's end of the connection */
};

/* A datagram of the child: its greeting, or how a build went. */
struct kernel_builder_answer {
    enum status status;
    char detail[KERNEL_BUILDER_TEXT];
};

void kernel_builder_init(struct kernel_builder *builder);

/* Start a child that has patience_ns to open the device.
 * err   UNSUPPORTED: no such process can be started here; INTERNAL: not now */
MUST_CHECK enum status kernel_builder_start(struct kernel_builder *builder, size_t device,
                                            const char *cache_dir, uint64_t patience_ns,
                                            struct error *err);

/* Have it build; not while it is busy. */
void kernel_builder_ask(struct kernel_builder *builder, const struct scan_build *build,
                        uint64_t patience_ns);

/* What became of it, waiting for wait_ms at most. err: a sentence for the bad ones; of FAILED
 * with the status that it had there, of the others INTERNAL. */
enum kernel_builder_news kernel_builder_poll(struct kernel_builder *builder, int wait_ms,
                                             struct error *err);

/* Let what it does from now on wait for everything else. */
void kernel_builder_nice(const struct kernel_builder *builder);

/* End it at once. */
void kernel_builder_stop(struct kernel_builder *builder);

/* The child's main(); argv[1] is KERNEL_BUILDER_WORD. Returns its exit status. */
int kernel_builder_child(int argc, char **argv);

#endif
