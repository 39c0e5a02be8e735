/* Error messages ("complaints") and a progress bar on standard error, and signals.
 *
 * The function that finds a failure complains, and returns the exit status to its caller. Only
 * the first complaint is printed: later failures are consequences, or happened at the same time
 * on another thread. Colours and the bar appear on terminals only; NO_COLOR turns off the
 * colours, --quiet the bar. Thread: the main one; complaints, interrupted() and now_ns():
 * any. */
#ifndef TALLY_CLI_TERMINAL_H
#define TALLY_CLI_TERMINAL_H

#include "client/tally.h"
#include "proto/macros.h"

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

/* Print "tally: error: ..." on standard error. Returns `status`, for `return complain(...)`. */
int complain(int status, const char *format, ...) PRINTF_LIKE(2, 3);

/* Call a function that returns an exit status. The calling function returns a status other than
 * EXIT_DONE. */
#define STEP(call)                    \
    do {                              \
        int step_status = (call);     \
        if (step_status != EXIT_DONE) \
            return step_status;       \
    } while (0)

/* Complain about lack of memory. Returns EXIT_LOCAL. */
int complain_no_memory(void);

/* Complain "NAME: TEXT OF ERRNO". Returns `status`. */
int complain_errno(int status, const char *name);

/* Complain about a failed call. Returns its exit status. */
int complain_error(const struct tally_error *err);

/* Return whether a descriptor may be coloured: a terminal, NO_COLOR unset, TERM not dumb. */
bool colour_allowed(int fd);

/* Ignore SIGPIPE and SIGXFSZ: write() returns EPIPE and EFBIG instead. A broken connection must
 * not end the process. */
void write_errors_not_signals(void);
/* End the process by SIGPIPE, because the reader of standard output has closed the pipe.
 * Returns only if the parent process ignored SIGPIPE. Temporary files are not removed: the
 * caller must have none. Thread: any. */
void end_by_broken_pipe(void);

/* Handle SIGINT, SIGTERM and SIGHUP. After the first signal interrupted() is true; another
 * signal more than 0.5 s later ends the process. After the first signal every blocking system
 * call of the main thread fails with EINTR within 0.1 s. */
void catch_interrupts(void);
bool interrupted(void);

/* Start the clock of the progress bar. `quiet`: no bar. */
void progress_begin(bool quiet);
/* Draw the bar: `summed` bytes of `total`; total -1: unknown. */
void progress_show(double summed, double total);
/* Clear the bar. A complaint clears the bar, too. */
void progress_end(void);

/* Return the time of CLOCK_MONOTONIC in nanoseconds. */
int64_t now_ns(void);

/* Return the text of errno. */
const char *errno_text(void);

#endif
