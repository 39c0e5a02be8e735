/* What the user sees on standard error: errors, and a progress bar where that is a terminal;
 * and what the user does there: interrupts.
 *
 * Whoever finds a fault complains where it is found, and hands the exit status up. The first
 * complaint is the only one: what fails after it does so because of it, or beside it on a
 * thread of its own. Nothing is coloured and no bar is drawn where nobody looks: in a pipe,
 * with NO_COLOR, with --quiet. Thread: the main one, but for complaints, interrupted() and
 * now_ns(), which are for any. */
#ifndef TALLY_CLI_TERMINAL_H
#define TALLY_CLI_TERMINAL_H

#include "client/tally.h"
#include "proto/macros.h"

#include <pthread.h>
#include <stdbool.h>

/* Exit statuses; documented in tally(1). */
enum {
    EXIT_DONE = 0,
    EXIT_REJECTED = 1,
    EXIT_USAGE = 2,
    EXIT_UNREACHED = 3,
    EXIT_BUSY = 4,
    EXIT_TIMEOUT = 5,
    EXIT_SERVER = 6,
    EXIT_LOCAL = 7,
    EXIT_INTERRUPTED = 130
};

/* "tally: ..." on standard error; returns `status` for `return complain(...)`. */
int complain(int status, const char *format, ...) PRINTF_LIKE(2, 3);

/* Take a step that can fail; if it does, this function ends with its exit status. */
#define STEP(call)                    \
    do {                              \
        int step_status = (call);     \
        if (step_status != EXIT_DONE) \
            return step_status;       \
    } while (0)

/* EXIT_LOCAL */
int complain_no_memory(void);

/* "NAME: what errno says" */
int complain_errno(int status, const char *name);

/* Tell what went wrong with a call, and the exit status that says so. */
int complain_error(const struct tally_error *err);

/* Whether standard output may be coloured: a terminal, NO_COLOR unset, TERM not dumb. */
bool colour_allowed(int fd);

/* A closed pipe and a file that becomes too large are errors of write() instead of signals:
 * sockets fail so, too. */
void write_errors_not_signals(void);
/* Nobody reads the standard output any more: end the process by SIGPIPE, as programs end that do
 * not catch the signal. Returns only where the parent process ignored SIGPIPE. The output must
 * be the only one of the process, since files under temporary names stay. Thread: any. */
void end_by_broken_pipe(void);

/* For commands that have something to end: SIGINT, SIGTERM and SIGHUP make interrupted() true
 * from now on, a second one half a second later ends the process. Once interrupted, the main
 * thread waits in no system call for longer than a tenth of a second (EINTR), also in one that
 * it had not begun when the signal came. */
void catch_interrupts(void);
bool interrupted(void);
/* End the system call that another thread waits in. */
void wake_thread(pthread_t thread);

/* The transfer begins whose progress is shown on the last line of a terminal. */
void progress_begin(bool quiet);
/* So many bytes are summed of a total, -1 if that is not known. */
void progress_show(double summed, double total);
/* Clear the line; a complaint does so, too. */
void progress_end(void);

/* "1.5 GiB" */
const char *bytes_text(double bytes, char *text, size_t size);

int64_t now_ns(void);

/* What errno says. */
const char *errno_text(void);

#endif
