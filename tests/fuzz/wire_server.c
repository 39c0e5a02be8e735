#include "tests/fuzz/wire_server.h"

#include "server/base/log.h"
#include "server/http/http.h"
#include "server/memory/shm.h"
#include "server/pages/page.h"
#include "server/service.h"
#include "tests/unit/fake_driver.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

enum {
    HEARTBEAT_REAL_MS = 2,
    QUICK_ROUNDS = 20,    /* rounds of settling before the clock is advanced */
    ROUND_MS = 20,        /* advance of the clock in each later round */
    SETTLE_LIMIT_S = 120, /* of the advanced clock; a longer wait is a deadlock */
    SETTLE_REAL_LIMIT_S = 30
};

void wire_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("wire: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    abort();
}

/* ---- the clock ---- */

static _Atomic uint64_t ahead_ns;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __real_uv_timer_start(uv_timer_t *timer, uv_timer_cb callback, uint64_t timeout,
                          uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb callback, uint64_t timeout,
                          uint64_t repeat);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = __real_clock_gettime(clock, now);
    if (clock == CLOCK_MONOTONIC && result == 0) {
        uint64_t ns = (uint64_t)now->tv_sec * NS_PER_S + (uint64_t)now->tv_nsec;
        *now = clock_timespec(ns + atomic_load(&ahead_ns));
    }
    return result;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    uint64_t until_ns = (uint64_t)until->tv_sec * NS_PER_S + (uint64_t)until->tv_nsec;
    uint64_t ahead = atomic_load(&ahead_ns);
    uint64_t now_ns = clock_now_ns();
    /* Wait at most this long at a time: the clock may be advanced meanwhile. */
    uint64_t most = now_ns + HEARTBEAT_REAL_MS * NS_PER_MS;
    const struct timespec real = clock_timespec((until_ns < most ? until_ns : most) - ahead);
    int result = __real_pthread_cond_timedwait(cond, mutex, &real);
    return result != 0 && until_ns > most ? 0 : result; /* 0: like a spurious wakeup */
}

int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb callback, uint64_t timeout,
                          uint64_t repeat)
{
    (void)timeout;
    (void)repeat;
    return __real_uv_timer_start(timer, callback, HEARTBEAT_REAL_MS, HEARTBEAT_REAL_MS);
}

void wire_advance(uint64_t ms)
{
    (void)atomic_fetch_add(&ahead_ns, ms * NS_PER_MS);
}

uint64_t wire_real_ns(void)
{
    return clock_now_ns() - atomic_load(&ahead_ns);
}

static void doze(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* ---- devices ---- */

static uint64_t load(const unsigned char *at, size_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

/* Sum one line of a job along its axis. Numbers of every type are added as unsigned integers of
 * their size. */
static void sum_line(const struct scan_job *job, const unsigned char *in, unsigned char *out,
                     uint64_t line)
{
    const struct scan_plan *plan = job->plan;
    size_t bytes = dtype_info(plan->dtype)->bytes;
    size_t sum_bytes = scan_carry_bytes(plan->dtype);
    unsigned char *carry =
        job->carry != NULL ? (unsigned char *)job->carry + line * sum_bytes : NULL;
    /* Of a float's carry, only the lowest word is used. */
    const size_t at = dtype_is_float(plan->dtype) ? 8 : 0;
    const size_t kept = at > 0 ? 8 : sum_bytes;
    uint64_t sum = job->carry_in ? load(carry + at, kept) : 0;
    for (uint64_t i = 0; i < plan->axis.size; i++) {
        uint64_t k = plan->reverse ? plan->axis.size - 1 - i : i;
        uint64_t value = load(in + k * plan->axis.in_stride * bytes, bytes);
        uint64_t shown = plan->exclusive ? sum : sum + value;
        sum += value;
        memcpy(out + k * plan->axis.out_stride * bytes, &shown, bytes);
    }
    if (job->carry_out) {
        memcpy(carry + at, &sum, kept);
    }
}

static void compute(const struct scan_job *job)
{
    const struct scan_plan *plan = job->plan;
    size_t bytes = dtype_info(plan->dtype)->bytes;
    const unsigned char *in = (unsigned char *)slab_data(job->slab) + job->in_offset;
    unsigned char *out =
        (unsigned char *)slab_data(job->out_slab != NULL ? job->out_slab : job->slab) +
        job->out_offset;
    uint64_t at[LIMIT_RANK] = {0};
    if (plan->gaps && !job->holes) {
        memset(out, 0, plan->out_elements * bytes);
    }
    for (uint64_t line = 0; line < plan->lines; line++) {
        uint64_t in_at = 0;
        uint64_t out_at = 0;
        for (int d = 0; d < plan->dims; d++) {
            in_at += at[d] * plan->dim[d].in_stride;
            out_at += at[d] * plan->dim[d].out_stride;
        }
        sum_line(job, in + in_at * bytes, out + out_at * bytes, line);
        for (int d = plan->dims - 1; d >= 0 && ++at[d] == plan->dim[d].size; d--) {
            at[d] = 0;
        }
    }
}

static enum status run(struct scan_device *device, const struct scan_job *jobs, size_t count,
                       struct scan_report *report, struct error *err)
{
    _Atomic int *mode = &fake.mode[device->number];
    *report = (struct scan_report){.compute_ns = 5, .launches = 1, .inputs_intact = true};
    switch ((enum fake_mode)atomic_load(mode)) {
    case FAKE_FAILS_INTACT:
        return error_set(err, STATUS_DEVICE_ERROR, "it caught fire");
    case FAKE_FAILS:
        report->inputs_intact = false;
        compute(&jobs[0]);
        return error_set(err, STATUS_DEVICE_ERROR, "it caught fire");
    case FAKE_SHORT_OF_MEMORY:
        if (count > 1) {
            return error_set(err, STATUS_OUT_OF_MEMORY, "too much at once");
        }
        break;
    case FAKE_HANGS:
        while (atomic_load(mode) == FAKE_HANGS) {
            doze();
        }
        break;
    case FAKE_WORKS:
    case FAKE_CLOSED:
    case FAKE_UNBUILDABLE:
    case FAKE_OPEN_HANGS:
    case FAKE_FIRST_OPEN_HANGS:
    case FAKE_PREPARE_HANGS:
    case FAKE_SINGLE_HANGS:
    case FAKE_LARGE_HANGS:
    case FAKE_SPOILS:
    case FAKE_UNMEASURABLE:
    case FAKE_MEASURE_HANGS:
        break;
    }
    for (size_t i = 0; i < count; i++) {
        compute(&jobs[i]);
    }
    return STATUS_OK;
}

void wire_device(unsigned device, unsigned mode)
{
    atomic_store(&fake.mode[device % WIRE_DEVICES], (int)(mode % WIRE_DEVICE_MODES));
}

/* ---- the server ---- */

static struct {
    bool running;
    bool draining;
    unsigned settled; /* number of wire_settle() calls since the start */
    int files;        /* open files after the first answer; 0: not yet known */
    struct fake_server fakes;
    struct http *http;
    uint64_t squeezed; /* bytes of the budget that wire_squeeze() reserved */
    char unix_path[64];
    char shm_key[64];
    unsigned char *shm;
    struct sockaddr_in tcp;
} wire;

static void remove_files(void)
{
    if (wire.running) {
        wire_relieve();
        wire_stop();
    }
    (void)unlink(wire.unix_path);
    (void)shm_unlink(wire.shm_key);
}

static void make_shm(void)
{
    (void)snprintf(wire.shm_key, sizeof wire.shm_key, "/tally_wire_%d", (int)getpid());
    int fd = shm_open(wire.shm_key, O_CREAT | O_RDWR | O_TRUNC, 0600);
    WIRE_REQUIRE(fd >= 0 && ftruncate(fd, WIRE_SHM_BYTES) == 0);
    void *bytes = mmap(NULL, WIRE_SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    WIRE_REQUIRE(bytes != MAP_FAILED);
    wire.shm = bytes;
    (void)close(fd);
}

/* Other programs use ports of 127.0.0.1. At this address no other program takes the free port
 * before the server listens there. */
#define WIRE_ADDRESS "127.31.7.5"

/* Choose a free port. */
static void choose_port(void)
{
    socklen_t bytes = sizeof wire.tcp;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    wire.tcp = (struct sockaddr_in){.sin_family = AF_INET};
    WIRE_REQUIRE(inet_pton(AF_INET, WIRE_ADDRESS, &wire.tcp.sin_addr) == 1);
    WIRE_REQUIRE(bind(fd, (struct sockaddr *)&wire.tcp, sizeof wire.tcp) == 0);
    WIRE_REQUIRE(getsockname(fd, (struct sockaddr *)&wire.tcp, &bytes) == 0);
    (void)close(fd);
}

const char *wire_shm_key(void)
{
    return wire.shm_key;
}

unsigned char *wire_shm_bytes(void)
{
    return wire.shm;
}

bool wire_running(void)
{
    return wire.running;
}

static void prepare_once(void)
{
    if (wire.shm == NULL) {
        (void)snprintf(wire.unix_path, sizeof wire.unix_path, "/tmp/tally-wire-%d",
                       (int)getpid());
        make_shm();
        service_block_signals();
        (void)atexit(remove_files);
    }
}

/* Count open sockets and files. Not counted are pipes, which sanitizers open to the program
 * that resolves addresses, and anonymous inodes (epoll, eventfd): a loop opens some for each of
 * its daemons, and may add a daemon at any time, up to a fixed number. */
static int open_files(void)
{
    int count = 0;
    char target[16];
    DIR *folder = opendir("/proc/self/fd");
    WIRE_REQUIRE(folder != NULL);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        ssize_t bytes = readlinkat(dirfd(folder), entry->d_name, target, sizeof target);
        count += bytes > 0 && memcmp(target, "pipe:", 5) != 0 &&
                 memcmp(target, "anon_inode:", 11) != 0;
    }
    (void)closedir(folder);
    return count;
}

void wire_server_start(void)
{
    struct error err = ERROR_INIT;
    char local[80];
    char tcp[80];
    if (wire.running) {
        return;
    }
    prepare_once();
    choose_port();
    (void)snprintf(local, sizeof local, "--listen=unix:%s", wire.unix_path);
    (void)snprintf(tcp, sizeof tcp, "--listen=" WIRE_ADDRESS ":%u", ntohs(wire.tcp.sin_port));
    const char *words[] = {"--slice-bytes=4KiB",
                           "--inline-json-bytes=1KiB",
                           "--max-body-bytes=160KiB",
                           "--max-header-bytes=8KiB",
                           "--per-client-requests=3",
                           "--allow-client-shm",
                           local,
                           tcp,
                           NULL};
    static struct device_driver driver;
    driver = fake_driver;
    driver.run = run;
    fake_reset(WIRE_DEVICES);
    fake.driver = &driver;
    static int nowhere = -1;
    nowhere = nowhere >= 0 ? nowhere : open("/dev/null", O_WRONLY | O_CLOEXEC);
    const struct log_options log = {
        .fd = nowhere, .level = LOG_INFO, .requests = true, .bytes_per_s = 1 << 20};
    const struct shm_options shm = {.max_regions = 8};
    if (!fake_server_init(&wire.fakes, words, &err)) {
        wire_fail("no server: %s", err.detail);
    }
    struct server *server = &wire.fakes.server;
    WIRE_REQUIRE(log_open(&log, &server->log, &err) == STATUS_OK);
    WIRE_REQUIRE(shm_create(&shm, &server->shm, &err) == STATUS_OK);
    if (http_start(server, &wire.http, &err) != STATUS_OK) {
        wire_fail("no HTTP: %s", err.detail);
    }
    WIRE_REQUIRE(device_pool_start(server->devices, &err) == STATUS_OK);
    WIRE_REQUIRE(fake_await_health(&wire.fakes, DEVICE_POOL_USABLE));
    atomic_store(&wire.fakes.server.phase, SERVER_READY);
    wire.running = true;
    wire.draining = false;
    wire.files = 0;
    wire.settled = 0;
}

int wire_connect(bool tcp)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    memcpy(local.sun_path, wire.unix_path, strlen(wire.unix_path) + 1);
    int fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const void *address = tcp ? (const void *)&wire.tcp : (const void *)&local;
    socklen_t bytes = tcp ? sizeof wire.tcp : sizeof local;
    if (connect(fd, address, bytes) != 0) {
        (void)close(fd);
        return -1;
    }
    WIRE_REQUIRE(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    return fd;
}

void wire_tick(void)
{
    if (wire.running) {
        uint64_t now_ns = clock_now_ns();
        (void)line_sweep(queue_line(wire.fakes.server.queue), now_ns);
        (void)line_sweep(work_line(wire.fakes.server.work), now_ns);
        (void)admission_sweep(wire.fakes.server.admission, now_ns);
        device_pool_tick(wire.fakes.server.devices, now_ns, 0);
        memory_trim(wire.fakes.server.memory, now_ns);
    }
}

void wire_squeeze(uint64_t left)
{
    struct memory *memory = wire.fakes.server.memory;
    struct memory_stats stats;
    struct error ignored = ERROR_INIT;
    memory_stats(memory, &stats);
    uint64_t free_bytes = stats.budget_bytes - stats.reserved_bytes;
    if (free_bytes > left &&
        memory_reserve(memory, 0, free_bytes - left, &ignored) == STATUS_OK) {
        wire.squeezed += free_bytes - left;
    }
}

void wire_relieve(void)
{
    for (unsigned i = 0; i < WIRE_DEVICES; i++) {
        wire_device(i, FAKE_WORKS);
    }
    if (wire.running && wire.squeezed > 0) {
        memory_release(wire.fakes.server.memory, wire.squeezed);
        wire.squeezed = 0;
    }
}

void wire_drain(void)
{
    wire.draining = true;
    atomic_store(&wire.fakes.server.phase, SERVER_CLOSING);
    http_drain(wire.http);
}

bool wire_draining(void)
{
    return wire.draining;
}

static void require_nothing_held(void)
{
    struct memory_stats stats;
    memory_stats(wire.fakes.server.memory, &stats);
    if (stats.reserved_bytes != 0 || stats.promised_bytes != 0 || stats.block_count != 0) {
        wire_fail("%llu bytes in %llu blocks are still held",
                  (unsigned long long)(stats.reserved_bytes + stats.promised_bytes),
                  (unsigned long long)stats.block_count);
    }
}

/* Stop the modules in the same order as service.c. */
void wire_stop(void)
{
    struct server *server = &wire.fakes.server;
    wire_relieve();
    wire.running = false;
    queue_close(server->queue);
    http_halt(wire.http);
    WIRE_REQUIRE(device_pool_stop(server->devices));
    work_pool_destroy(server->work);
    device_pool_destroy(server->devices);
    admission_close(server->admission);
    http_stop(wire.http);
    shm_destroy(server->shm);
    require_nothing_held();
    server->devices = NULL;
    server->work = NULL;
    WIRE_REQUIRE(fake_server_deinit(&wire.fakes));
    log_close(server->log);
}

/* ---- in between ---- */

static const char *what_is_left(void)
{
    struct server *server = &wire.fakes.server;
    struct memory_stats memory;
    struct queue_stats queue;
    struct device_stats device;
    memory_stats(server->memory, &memory);
    queue_stats(server->queue, NULL, &queue);
    if (http_connections(wire.http) > 0) {
        return "a connection";
    }
    if (queue.requests > 0 || queue.bytes > 0) {
        return "a request in the queue";
    }
    struct admission_stats admission;
    admission_stats(server->admission, &admission);
    if (admission.waiting + admission.active > 0) {
        return "a large request";
    }
    if (line_count(work_line(server->work), LINE_ALL) > 0) {
        return "work for the codec pool";
    }
    for (size_t i = 0; i < WIRE_DEVICES; i++) {
        device_pool_stats(server->devices, i, &device);
        if (device.running > 0) {
            return "a request on a device";
        }
        if (device.state != DEVICE_READY) {
            return "a device that does not come back";
        }
    }
    if (memory.reserved_bytes > 0 || memory.promised_bytes > 0) {
        return "reserved or promised memory";
    }
    return memory.block_count > 0 ? "a block of memory" : NULL;
}

/* Return a gauge or a file that shows a client that has disconnected; NULL: none. The server
 * updates gauges and closes sockets shortly after a connection has ended. */
static const char *what_is_counted(void)
{
    static const char *const lines[] = {"\ntally_connections 0\n",
                                        "\ntally_active_requests 0\n"};
    struct error err = ERROR_INIT;
    const struct page_request request = {.server = &wire.fakes.server};
    struct page page = {.http_status = 200};
    const char *lacks = NULL;
    WIRE_REQUIRE(page_metrics(&request, &page, &err) == STATUS_OK);
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        lacks = strstr(page.text, lines[i]) == NULL ? lines[i] : lacks;
    }
    free(page.text);
    return wire.files > 0 && open_files() > wire.files ? "a file that is open" : lacks;
}

void wire_settle(void)
{
    uint64_t began_ns = clock_now_ns();
    uint64_t real_ns = wire_real_ns();
    const char *left = NULL;
    wire_relieve();
    for (int round = 0;; round++) {
        left = what_is_left();
        (void)shm_unregister(wire.fakes.server.shm, NULL);
        left = left == NULL ? what_is_counted() : left;
        if (left == NULL) {
            break;
        }
        wire_tick();
        doze();
        if (round > QUICK_ROUNDS) {
            wire_advance(ROUND_MS);
        }
        if (clock_now_ns() - began_ns > SETTLE_LIMIT_S * NS_PER_S &&
            wire_real_ns() - real_ns > SETTLE_REAL_LIMIT_S * NS_PER_S) {
            wire_fail("when all clients have left there is still, or never: %s", left);
        }
    }
    require_nothing_held();
    wire.settled++;
    /* The first request, which probe() sent, opens some files that stay open. */
    if (wire.settled == 2) {
        wire.files = open_files();
    }
}
