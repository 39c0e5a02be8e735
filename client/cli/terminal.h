/* Complaints and a progress bar on standard error, and interrupts.
 *
 * The function that finds a failure complains, and returns the exit status to its caller. Only the
 * first complaint is printed: later failures follow from it, or happen at the same time on another
 * thread. Colours and the bar appear on terminals only; NO_COLOR and --quiet turn them off.
 * Thread: the main one; complaints, interrupted() and now_ns(): any. */
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

/* Call a function that can fail. If it fails, the calling function returns its exit status. */
#define STEP(call)                    \
    do {                              \
        int step_status = (call);     \
        if (step_status != EXIT_DONE) \
            return step_status;       \
    } while (0)

/* Complain about lack of memory. Returns EXIT_LOCAL. */
int complain_no_memory(void);

/* Complain "NAME: " and the text of errno. Returns `status`. */
int complain_errno(int status, const char *name);

/* Complain about a failed call. Returns its exit status. */
int complain_error(const struct tally_error *err);

/* Whether a descriptor may be coloured: a terminal, NO_COLOR unset, TERM not dumb. */
bool colour_allowed(int fd);

/* Turn SIGPIPE and SIGXFSZ into errors of write(): a broken connection must not end the process. */
void write_errors_not_signals(void);
/* End the process by SIGPIPE after the reader of standard output has closed it, as programs do that do
 * not handle the signal. Returns only if the parent process ignored SIGPIPE. Standard output must be
 * the only output of the process, since temporary files stay. Thread: any. */
void end_by_broken_pipe(void);

/* Handle SIGINT, SIGTERM and SIGHUP: the first one makes interrupted() true, another one more than half
 * a second later ends the process. After an interrupt no system call of the main thread blocks for
 * longer than a tenth of a second (EINTR), also if the call begins later. */
void catch_interrupts(void);
bool interrupted(void);

/* Begin a transfer whose progress is shown on the last line of a terminal. */
void progress_begin(bool quiet);
/* Show the number of summed bytes of a total; -1: the total is unknown. */
void progress_show(double summed, double total);
/* Clear the line; complaints do this, too. */
void progress_end(void);

int64_t now_ns(void);

/* Return the text of errno. */
const char *errno_text(void);

#endif
