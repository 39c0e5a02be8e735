/* Load generator with as little cost as one thread allows; tests/load/overload.py starts it and
 * reads its output. Server and client share the cores of a machine, so the client must be
 * cheap: bodies are sent by sendfile() from a file in memory, answers are discarded in the
 * kernel (MSG_TRUNC), and no code runs per byte.
 *
 *   load_client --port N [--from ADDRESS] [--connections N] [--rate N] [--warm S] [--seconds S]
 *               [--cool S] [--seed N] [--server PID] [--impatient] KIND ...
 *
 * A KIND is WEIGHT,FLAGS,HEAD_FILE,BODY_FILE: its frequency, and the request. FLAGS: `-` none;
 * `e` waits for "100 Continue" before the body, at most a second, as curl does; `n` never sends
 * the body; `s` reads the answer slowly. The head has the whole request up to the empty line.
 *
 * Without --rate the clients are a closed loop: each connection sends its next request after it
 * has its answer. A refused client (429, 503, 504) waits as long as Retry-After says, or not at
 * all with --impatient. With --rate requests arrive at random (Poisson), so many per second,
 * independent of earlier ones. A request that finds all connections in use is recorded as lost:
 * if it waited in the client, its waiting time would be blamed on the server.
 *
 * The load runs for --warm seconds, then through the window of --seconds, then until all
 * requests that began before the end of the window are answered, at most --cool seconds.
 * SIGTERM ends everything at once, and the window with it. Standard output gets a line of JSON,
 * then a struct record for every request in flight during the window.
 *
 * Failures: a failed connection gives a record with status 0 and is opened again after
 * RECONNECT_NS; invalid arguments end the program with status 2. */
#include "tests/load/load_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    TOGETHER_BYTES = 64 << 10, /* bodies up to this size are sent together with their heads */
    EVENTS = 64
};
static const uint64_t SWEEP_NS = NS_PER_MS;       /* largest delay of a connection's timer */
static const uint64_t SIGNAL_NS = 50 * NS_PER_MS; /* maximum delay of the reaction to SIGTERM */

struct options options = {.connections = 1, .seconds = 1, .cool = 1, .random = 1};
struct kind kinds[MOST_KINDS];
static size_t kind_count;
static unsigned weights;
static struct conn *conns;
static struct conn **idle; /* a stack; open connections are on top */
static size_t idle_count;
static struct record *records;
static size_t record_count, record_room;
static uint64_t window_ns[2];
static volatile sig_atomic_t told_to_stop;
static bool timers = true;   /* whether connections may have timers, which are then checked */
static size_t open_requests; /* unanswered requests that began before the end of the window */

uint64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

_Noreturn void die(const char *what)
{
    fprintf(stderr, "load_client: %s: %s\n", what, strerror(errno));
    exit(2);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static double random_unit(void) /* xorshift64* */
{
    uint64_t x = options.random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    options.random = x;
    return (double)((x * UINT64_C(2685821657736338717)) >> 11) * 0x1p-53;
}

static uint16_t random_kind(void)
{
    unsigned at = (unsigned)(random_unit() * weights);
    uint16_t kind = 0;
    while (at >= kinds[kind].weight) {
        at -= kinds[kind++].weight;
    }
    return kind;
}

/* ---- records ---- */

static void keep(const struct record *r)
{
    if ((r->end_ns != 0 && r->end_ns < window_ns[0]) || r->due_ns >= window_ns[1]) {
        return;
    }
    if (record_count == record_room) {
        record_room = record_room == 0 ? 65536 : 2 * record_room;
        records = realloc(records, record_room * sizeof *records);
        if (records == NULL) {
            die("memory for records");
        }
    }
    records[record_count++] = *r;
}

void load_began(const struct conn *c)
{
    open_requests += c->r.due_ns < window_ns[1];
}

void load_over(struct conn *c, uint64_t again_ns)
{
    open_requests -= c->r.due_ns < window_ns[1];
    keep(&c->r);
    c->wake_ns = NEVER;
    if (options.rate == 0) {
        c->wake_ns = again_ns;
        return; /* the sweep begins the next request; immediately if again_ns has passed */
    }
    if (c->fd < 0 && again_ns > now_ns()) {
        c->wake_ns = again_ns; /* do not retry continuously if the server does not accept */
        return;
    }
    idle[idle_count++] = c;
}

/* ---- stages of a run ---- */

static void on_timer(struct conn *c, uint64_t now)
{
    if (c->in_flight) {
        conn_on_timer(c, now);
        return;
    }
    c->wake_ns = NEVER;
    if (options.rate == 0) {
        conn_begin(c, random_kind(), now);
    } else {
        idle[idle_count++] = c;
    }
}

/* Begin the requests that are due. Returns the time of the next one. */
static uint64_t arrive(uint64_t now)
{
    static uint64_t next_ns;
    if (next_ns == 0) {
        next_ns = now;
    }
    while (next_ns <= now) {
        timers = true;
        if (idle_count > 0) {
            conn_begin(idle[--idle_count], random_kind(), next_ns);
        } else {
            struct record lost = {.due_ns = next_ns, .end_ns = next_ns, .kind = random_kind()};
            keep(&lost);
        }
        next_ns += (uint64_t)(-log1p(-random_unit()) / options.rate * 1e9) + 1;
    }
    return next_ns;
}

static void sweep(uint64_t now)
{
    timers = false;
    for (unsigned i = 0; i < options.connections; i++) {
        if (conns[i].wake_ns <= now) {
            on_timer(&conns[i], now);
        }
        timers = timers || conns[i].wake_ns != NEVER;
    }
}

static void turn(uint64_t until_ns)
{
    struct epoll_event events[EVENTS];
    uint64_t now = now_ns();
    struct timespec wait = {0, 0};
    if (until_ns > now) {
        wait.tv_sec = (time_t)((until_ns - now) / NS_PER_S);
        wait.tv_nsec = (long)((until_ns - now) % NS_PER_S);
    }
    int count = epoll_pwait2(conn_poll_fd, events, EVENTS, &wait, NULL);
    timers = timers || count > 0;
    for (int i = 0; i < count; i++) {
        struct conn *c = events[i].data.ptr;
        conn_on_event(c, events[i].events);
        now = now_ns();
        if (!c->in_flight && c->wake_ns <= now) {
            on_timer(c, now);
        }
    }
}

/* Processor seconds of this process, or of the server. */
static double cpu_seconds(pid_t pid)
{
    clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
    struct timespec t = {0, 0};
    if (pid != 0 && clock_getcpuclockid(pid, &clock) != 0) {
        return 0;
    }
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void on_signal(int number)
{
    (void)number;
    told_to_stop = 1;
}

static void run(double cpu[2], double server[2])
{
    uint64_t swept_ns = now_ns();
    int edge = 0; /* the next edge of the window */
    window_ns[0] = swept_ns + (uint64_t)(options.warm * 1e9);
    window_ns[1] = window_ns[0] + (uint64_t)(options.seconds * 1e9);
    uint64_t end_ns = window_ns[1] + (uint64_t)(options.cool * 1e9);
    sweep(swept_ns);
    for (;;) {
        uint64_t now = now_ns();
        while (told_to_stop && edge < 2 && now < window_ns[edge]) {
            window_ns[1] = now;
            window_ns[0] = edge == 0 ? now : window_ns[0];
            end_ns = now;
        }
        while (edge < 2 && now >= window_ns[edge]) {
            cpu[edge] = cpu_seconds(0);
            server[edge++] = options.server == 0 ? 0 : cpu_seconds(options.server);
        }
        /* Begin the requests that are due before the end is checked: on a busy machine the last
         * requests of the window begin late. */
        uint64_t next_ns = options.rate > 0 ? arrive(now) : NEVER;
        if (edge == 2 && (now >= end_ns || open_requests == 0)) {
            return;
        }
        if (timers && now - swept_ns >= SWEEP_NS) {
            sweep(now);
            swept_ns = now;
        }
        uint64_t until_ns = earlier(now + SIGNAL_NS, edge < 2 ? window_ns[edge] : end_ns);
        until_ns = earlier(until_ns, next_ns);
        if (timers) {
            until_ns = earlier(until_ns, swept_ns + SWEEP_NS);
        }
        turn(until_ns);
    }
}

static void report(const double cpu[2], const double server[2])
{
    for (unsigned i = 0; i < options.connections; i++) {
        if (conns[i].in_flight) {
            conns[i].r.status = 0;
            keep(&conns[i].r);
        }
    }
    printf("{\"begin_ns\": %llu, \"end_ns\": %llu, \"cpu_s\": %.6f, \"server_cpu_s\": %.6f, "
           "\"records\": %zu, \"record_bytes\": %zu}\n",
           (unsigned long long)window_ns[0], (unsigned long long)window_ns[1], cpu[1] - cpu[0],
           server[1] - server[0], record_count, sizeof *records);
    if (fwrite(records, sizeof *records, record_count, stdout) != record_count ||
        fflush(stdout) != 0) {
        die("standard output");
    }
}

/* ---- arguments ---- */

static char *read_file(const char *path, size_t *bytes, size_t extra)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        die(path);
    }
    char *text = malloc((size_t)st.st_size + extra);
    if (text == NULL || read(fd, text, (size_t)st.st_size) != st.st_size) {
        die(path);
    }
    (void)close(fd);
    *bytes = (size_t)st.st_size;
    return text;
}

static void read_body_file(struct kind *kind, const char *path)
{
    struct stat st;
    kind->body_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (kind->body_fd < 0 || fstat(kind->body_fd, &st) != 0) {
        die(path);
    }
    kind->body_bytes = (uint64_t)st.st_size;
    if (kind->body_bytes > TOGETHER_BYTES || kind->expects || kind->never_sends) {
        return;
    }
    if (read(kind->body_fd, kind->head + kind->head_bytes, kind->body_bytes) != st.st_size) {
        die(path);
    }
    kind->head_bytes += kind->body_bytes;
    (void)close(kind->body_fd);
    kind->body_fd = -1;
}

static void add_kind(char *text)
{
    char *words[4];
    for (size_t i = 0; i < 4; i++) {
        words[i] = strsep(&text, ",");
    }
    if (words[3] == NULL || text != NULL || kind_count == MOST_KINDS) {
        errno = EINVAL;
        die("a kind is WEIGHT,FLAGS,HEAD_FILE,BODY_FILE");
    }
    struct kind *kind = &kinds[kind_count++];
    kind->weight = (unsigned)atoi(words[0]);
    kind->expects = strchr(words[1], 'e') != NULL;
    kind->never_sends = strchr(words[1], 'n') != NULL;
    kind->reads_slowly = strchr(words[1], 's') != NULL;
    kind->head = read_file(words[2], &kind->head_bytes, TOGETHER_BYTES);
    read_body_file(kind, words[3]);
    weights += kind->weight;
}

static struct sockaddr_in address(const char *text, int port)
{
    struct sockaddr_in found = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, text, &found.sin_addr) != 1) {
        errno = EINVAL;
        die(text);
    }
    return found;
}

static void read_option(const char *name, const char *value)
{
    if (strcmp(name, "--port") == 0) {
        options.to = address("127.0.0.1", atoi(value));
    } else if (strcmp(name, "--from") == 0) {
        options.from = address(value, 0);
    } else if (strcmp(name, "--connections") == 0) {
        options.connections = (unsigned)atoi(value);
    } else if (strcmp(name, "--rate") == 0) {
        options.rate = strtod(value, NULL);
    } else if (strcmp(name, "--warm") == 0) {
        options.warm = strtod(value, NULL);
    } else if (strcmp(name, "--seconds") == 0) {
        options.seconds = strtod(value, NULL);
    } else if (strcmp(name, "--cool") == 0) {
        options.cool = strtod(value, NULL);
    } else if (strcmp(name, "--seed") == 0) {
        options.random = strtoull(value, NULL, 10) * 2 + 1;
    } else if (strcmp(name, "--server") == 0) {
        options.server = (pid_t)atoi(value);
    } else {
        errno = EINVAL;
        die(name);
    }
}

int main(int argc, char **argv)
{
    double cpu[2] = {0, 0};
    double server[2] = {0, 0};
    struct rlimit files;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGTERM, on_signal);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    options.from = address("127.0.0.1", 0);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--impatient") == 0) {
            options.impatient = true;
        } else if (strncmp(argv[i], "--", 2) == 0 && i + 1 < argc) {
            read_option(argv[i], argv[i + 1]);
            i++;
        } else {
            add_kind(argv[i]);
        }
    }
    conn_poll_fd = epoll_create1(EPOLL_CLOEXEC);
    conns = calloc(options.connections, sizeof *conns);
    idle = calloc(options.connections, sizeof(struct conn *));
    if (conn_poll_fd < 0 || conns == NULL || idle == NULL || weights == 0) {
        die("setting up");
    }
    for (unsigned i = 0; i < options.connections; i++) {
        conns[i].fd = -1;
        conns[i].wake_ns = options.rate > 0 ? NEVER : 0;
        idle[idle_count++] = &conns[i];
    }
    run(cpu, server);
    report(cpu, server);
    return 0;
}
