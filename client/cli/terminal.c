/* Complaints, the progress bar, and signals. The bar appears 0.3 s after the start of a
 * transfer, is drawn again at most ten times per second, and is cleared at the end. */
#include "client/cli/terminal.h"

#include "proto/text.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum {
    LINE_TEXT = 256,
    COMPLAINT_TEXT = 16384, /* longest complaint, which may have two paths */
    WAKE_US = 100000        /* interval of SIGALRM after an interrupt */
};

#define SECOND_INTERRUPT_NS INT64_C(500000000)
#define REDRAW_NS           INT64_C(100000000)
#define APPEAR_NS           INT64_C(300000000) /* shorter transfers have no bar */

static atomic_int interrupt_seen; /* set by the handler, read by every thread */
static int64_t interrupt_ns;      /* time of the first interrupt; used by the handler only */
static atomic_bool bar_drawn;     /* the last line of standard error has a bar */
static atomic_bool complained;
static bool pipe_signal_ignored; /* the parent process ignored SIGPIPE; set at the start */
static bool progress_shown;      /* standard error is a terminal and --quiet was not given */
static int64_t progress_start_ns;
static int64_t progress_drawn_ns; /* last redraw */

/* Record the first interrupt, and end the process at the second. timeout(1) sends a signal
 * twice, to the process and to its group: a signal within SECOND_INTERRUPT_NS is not a second
 * interrupt. */
static void on_interrupt(int number)
{
    if (interrupt_seen == 0) {
        const struct itimerval again = {{0, WAKE_US}, {0, WAKE_US}};
        interrupt_ns = now_ns();
        interrupt_seen = 1;
        (void)setitimer(ITIMER_REAL, &again, NULL);
    } else if (now_ns() - interrupt_ns > SECOND_INTERRUPT_NS) {
        (void)signal(number, SIG_DFL);
        (void)raise(number);
    }
}

/* Handle SIGALRM by doing nothing: its delivery makes a blocking system call fail with
 * EINTR. */
static void on_wake(int number)
{
    (void)number;
}

void catch_interrupts(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    (void)sigfillset(&action.sa_mask);
    action.sa_handler = on_wake; /* set before on_interrupt(), which starts the alarm */
    (void)sigaction(SIGALRM, &action, NULL);
    action.sa_handler = on_interrupt;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
}

void write_errors_not_signals(void)
{
    pipe_signal_ignored = signal(SIGPIPE, SIG_IGN) == SIG_IGN;
    (void)signal(SIGXFSZ, SIG_IGN);
}

void end_by_broken_pipe(void)
{
    if (!pipe_signal_ignored) {
        progress_end();
        (void)signal(SIGPIPE, SIG_DFL);
        (void)raise(SIGPIPE);
    }
}

bool interrupted(void)
{
    return interrupt_seen != 0;
}

bool colour_allowed(int fd)
{
    const char *no_colour = getenv("NO_COLOR"); /* NOLINT(concurrency-mt-unsafe): read only */
    const char *term = getenv("TERM");          /* NOLINT(concurrency-mt-unsafe): read only */
    return isatty(fd) == 1 && (no_colour == NULL || no_colour[0] == '\0') && term != NULL &&
           strcmp(term, "dumb") != 0;
}

void progress_end(void)
{
    if (atomic_exchange(&bar_drawn, false)) {
        (void)fputs("\r\033[K", stderr);
    }
}

/* Print a complaint, unless another was printed before. Returns whether the text was
 * printed. */
static bool print_complaint(const char *text)
{
    bool colour = colour_allowed(STDERR_FILENO);
    if (atomic_exchange(&complained, true)) {
        return false;
    }
    progress_end();
    (void)fprintf(stderr, "tally: %serror:%s %s\n", colour ? "\033[1;31m" : "",
                  colour ? "\033[0m" : "", text);
    return true;
}

int complain(int status, const char *format, ...)
{
    char text[COMPLAINT_TEXT];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text_make_safe(text); /* names of files may have control characters */
    (void)print_complaint(text);
    return status;
}

int complain_no_memory(void)
{
    return complain(EXIT_LOCAL, "out of memory");
}

int complain_errno(int status, const char *name)
{
    return complain(status, "%s: %s", name, errno_text());
}

int complain_error(const struct tally_error *err)
{
    static const int exits[] = {
        [TALLY_OK] = EXIT_DONE,
        [TALLY_INVALID_ARGUMENT] = EXIT_USAGE,
        [TALLY_OUT_OF_MEMORY] = EXIT_LOCAL,
        [TALLY_UNSUPPORTED] = EXIT_USAGE,
        [TALLY_CONNECT] = EXIT_UNREACHED,
        [TALLY_CONNECTION_LOST] = EXIT_UNREACHED,
        [TALLY_TIMEOUT] = EXIT_TIMEOUT,
        [TALLY_REJECTED] = EXIT_REJECTED,
        [TALLY_BUSY] = EXIT_BUSY,
        [TALLY_DEADLINE] = EXIT_TIMEOUT,
        [TALLY_SERVER_ERROR] = EXIT_SERVER,
        [TALLY_BAD_ANSWER] = EXIT_SERVER,
        [TALLY_CANCELLED] = EXIT_INTERRUPTED,
        [TALLY_LOCAL_IO] = EXIT_LOCAL,
    };
    int status = exits[err->status];
    if (err->status == TALLY_CANCELLED) {
        return complain(status, "interrupted");
    }
    if (print_complaint(err->message) && err->http_status != 0) {
        (void)fprintf(stderr, "  HTTP %d", err->http_status);
        if (err->code[0] != '\0') {
            (void)fprintf(stderr, ", code %s", err->code);
        }
        if (err->field[0] != '\0') {
            (void)fprintf(stderr, ", field %s", err->field);
        }
        if (err->request_id[0] != '\0') {
            (void)fprintf(stderr, ", request %s", err->request_id);
        }
        (void)fprintf(stderr, "%s\n",
                      err->http_status == 401 ? "; give it by --token-file or TALLY_TOKEN"
                                              : "");
    }
    return status;
}

int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- progress ---- */

void progress_begin(bool quiet)
{
    progress_shown = !quiet && isatty(STDERR_FILENO) == 1;
    progress_start_ns = now_ns();
}

/* Print a number of bytes, such as "1.5 GiB". Returns `text`. */
static const char *bytes_text(double bytes, char *text, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < ARRAY_COUNT(units)) {
        bytes /= 1024;
        unit++;
    }
    (void)snprintf(text, size, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return text;
}

/* Print " 42%  1.0 MiB of 2.4 MiB  3.1 MiB/s  0:01 left". */
static void figures_text(double moved, double total, double seconds, char *text)
{
    char done[32];
    char whole[32];
    char rate[32];
    char left[32] = "";
    double speed = seconds > 0 ? moved / seconds : 0;
    if (total < 0) {
        (void)snprintf(text, LINE_TEXT, " %s  %s/s", bytes_text(moved, done, sizeof done),
                       bytes_text(speed, rate, sizeof rate));
        return;
    }
    double remaining = speed > 0 ? ceil((total - moved) / speed) : 0;
    if (speed > 0 && remaining < 1e6) {
        (void)snprintf(left, sizeof left, "  %d:%02d left", (int)remaining / 60,
                       (int)remaining % 60);
    }
    (void)snprintf(text, LINE_TEXT, " %3.0f%%  %s of %s  %s/s%s", 100 * moved / total,
                   bytes_text(moved, done, sizeof done), bytes_text(total, whole, sizeof whole),
                   bytes_text(speed, rate, sizeof rate), left);
}

static void draw_progress(double summed, double total, double seconds)
{
    static const char full[] = "##################################################";
    static const char rest[] = "--------------------------------------------------";
    char figures[LINE_TEXT] = "";
    char bar[sizeof full + sizeof rest + 1] = "";
    bool colour = colour_allowed(STDERR_FILENO);
    figures_text(summed, total, seconds, figures);
    struct winsize size = {.ws_col = 0};
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0;
    int room = (known ? size.ws_col : 80) - 12; /* a longer bar could not be cleared */
    int width = room - (int)strlen(figures) - 3;
    if (width > 5 && total >= 0) {
        width = width < (int)sizeof full - 1 ? width : (int)sizeof full - 1;
        const int filled = (int)(summed / total * width);
        (void)snprintf(bar, sizeof bar, "[%.*s%.*s]", filled, full, width - filled, rest);
    }
    (void)fprintf(stderr, "\r\033[K%-10s%s%s%s%.*s", "summing", colour ? "\033[32m" : "", bar,
                  colour ? "\033[0m" : "", room > 0 ? room : 0, figures);
    (void)fflush(stderr);
    bar_drawn = true;
}

void progress_show(double summed, double total)
{
    int64_t now = now_ns();
    if (progress_shown && now - progress_start_ns >= APPEAR_NS &&
        now - progress_drawn_ns >= REDRAW_NS) {
        progress_drawn_ns = now;
        draw_progress(summed, total, (double)(now - progress_start_ns) / 1e9);
    }
}

const char *errno_text(void)
{
    return strerror(errno); /* NOLINT(concurrency-mt-unsafe): errors have fixed texts */
}
