/* cursor.h with the real HTTP loop and fake devices: every byte of a tensor is scanned once, in order. */
#include "server/base/address.h"
#include "server/sched/line.h"
#include "tests/unit/fake_service.h"

#include <errno.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    SLICE = 64 << 10,
    TENSOR = 1 << 20
};

struct fixture {
    struct fake_server fakes;
    struct http *http;
    char path[64];
    int fd; /* a client's connection */
};

static void set_up(struct fixture *f, size_t devices, const char *flag)
{
    struct error err = ERROR_INIT;
    char listen[80];
    *f = (struct fixture){.fd = -1};
    (void)snprintf(f->path, sizeof f->path, "/tmp/tally-test-cursor-%d", (int)getpid());
    (void)snprintf(listen, sizeof listen, "--listen=unix:%s", f->path);
    const char *words[] = {"--slice-bytes=64KiB",
                           "--device-timeout-ms=60000",
                           "--log-level=error",
                           listen,
                           flag,
                           NULL};
    fake_reset(devices);
    fake.every_byte = true;
    assert_true(fake_server_init(&f->fakes, words, &err));
    f->http = fake_service_start(&f->fakes);
}

static void close_client(struct fixture *f)
{
    if (f->fd >= 0) {
        (void)close(f->fd);
        f->fd = -1;
    }
}

/* Check that no memory is held, and that no slice was out of order. */
static void tear_down(struct fixture *f)
{
    struct memory_stats stats;
    close_client(f);
    for (size_t i = 0; i < FAKE_DEVICES; i++) {
        atomic_store(&fake.mode[i], FAKE_WORKS);
    }
    fake_service_stop(&f->fakes, f->http);
    memory_stats(f->fakes.server.memory, &stats);
    assert_int_equal(stats.block_count, 0);
    assert_int_equal(stats.reserved_bytes, 0);
    assert_int_equal(atomic_load(&fake.out_of_order), 0);
    assert_true(fake_server_deinit(&f->fakes));
    log_close(f->fakes.server.log);
    (void)unlink(f->path);
}

/* ---- a client ---- */

static void connect_client(struct fixture *f)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = 20};
    memcpy(address.sun_path, f->path, strlen(f->path) + 1);
    f->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(setsockopt(f->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(connect(f->fd, (struct sockaddr *)&address, sizeof address), 0);
}

static void send_all(struct fixture *f, const void *bytes, size_t count)
{
    const char *at = bytes;
    while (count > 0) {
        ssize_t sent = send(f->fd, at, count, MSG_NOSIGNAL);
        assert_true(sent > 0);
        at += sent;
        count -= (size_t)sent;
    }
}

static unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 7 + i / 251);
}

/* Send bytes [from, to) of the tensor. */
static void send_payload(struct fixture *f, size_t from, size_t to)
{
    unsigned char piece[8192];
    while (from < to) {
        size_t count = to - from < sizeof piece ? to - from : sizeof piece;
        for (size_t i = 0; i < count; i++) {
            piece[i] = byte_at(from + i);
        }
        send_all(f, piece, count);
        from += count;
    }
}

static void send_head(struct fixture *f, const char *query, const char *field)
{
    char text[512];
    int bytes = snprintf(text, sizeof text,
                         "POST /v1/cumsum?dtype=uint8&%s HTTP/1.1\r\nHost: h\r\n%s"
                         "Content-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n",
                         query, field, TENSOR);
    send_all(f, text, (size_t)bytes);
}

static const char *const row = "shape=1048576";
static const char *const rows = "shape=4096,256&axis=1";

/* Read the answer. Returns its status; *body is its body. */
static int read_answer(struct fixture *f, unsigned char *bytes, size_t room,
                       unsigned char **body, size_t *count)
{
    size_t got = 0;
    size_t wanted = SIZE_MAX;
    *body = NULL;
    while (got < wanted && got < room - 1) {
        ssize_t read = recv(f->fd, bytes + got, room - 1 - got, 0);
        if (read < 0 && errno == EINTR) {
            continue; /* happens on Debian 13 without a signal of the test */
        }
        if (read <= 0) {
            break;
        }
        got += (size_t)read;
        bytes[got] = '\0';
        char *end = *body == NULL ? strstr((char *)bytes, "\r\n\r\n") : NULL;
        if (end != NULL) {
            const char *length = strstr((char *)bytes, "Content-Length: ");
            *body = (unsigned char *)end + 4;
            wanted = (size_t)(*body - bytes) + (length ? strtoul(length + 16, NULL, 10) : 0);
        }
    }
    if (*body == NULL) {
        return 0;
    }
    *count = got - (size_t)(*body - bytes);
    return (int)strtol((char *)bytes + 9, NULL, 10);
}

static int expect_status(struct fixture *f, const char *says)
{
    unsigned char bytes[4096];
    unsigned char *body;
    size_t count;
    int status = read_answer(f, bytes, sizeof bytes, &body, &count);
    if (says != NULL) {
        assert_non_null(body);
        assert_non_null(strstr((char *)body, says));
    }
    return status;
}

/* Check that every byte was scanned once. */
static void expect_scanned(struct fixture *f)
{
    static unsigned char bytes[TENSOR + 4096];
    unsigned char *body;
    size_t count;
    assert_int_equal(read_answer(f, bytes, sizeof bytes, &body, &count), 200);
    assert_int_equal(count, TENSOR);
    for (size_t i = 0; i < count; i++) {
        if (body[i] != (unsigned char)(byte_at(i) + 1)) {
            fail_msg("byte %zu is %u, not %u", i, body[i], byte_at(i) + 1U);
        }
    }
}

static unsigned runs(void)
{
    unsigned sum = 0;
    for (size_t i = 0; i < FAKE_DEVICES; i++) {
        sum += atomic_load(&fake.runs[i]);
    }
    return sum;
}

/* Wait until the server has read and handled everything that was sent: it handles a later
 * request on another connection after that. */
static void await_read(struct fixture *f)
{
    static const char livez[] = "GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    uint64_t give_up_ns = clock_now_ns() + 20 * NS_PER_S;
    struct fixture other = *f;
    int unread = 1;
    while (unread > 0) {
        assert_true(clock_now_ns() < give_up_ns);
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        assert_int_equal(ioctl(f->fd, TIOCOUTQ, &unread), 0); /* bytes unread by the peer */
    }
    connect_client(&other);
    send_all(&other, livez, sizeof livez - 1);
    assert_int_equal(expect_status(&other, NULL), 200);
    close_client(&other);
}

static void tick(struct fixture *f)
{
    device_pool_tick(f->fakes.server.devices, clock_now_ns(), 0);
    (void)line_sweep(queue_line(f->fakes.server.queue), clock_now_ns());
    (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static void await_runs(struct fixture *f, unsigned more_than)
{
    uint64_t give_up_ns = clock_now_ns() + 20 * NS_PER_S;
    while (runs() <= more_than) {
        assert_true(clock_now_ns() < give_up_ns);
        tick(f);
    }
}

/* Wait until at most `bytes` bytes in `blocks` blocks are reserved. */
static void await_memory_held(struct fixture *f, uint64_t bytes, size_t blocks)
{
    uint64_t give_up_ns = clock_now_ns() + 20 * NS_PER_S;
    struct memory_stats stats;
    do {
        assert_true(clock_now_ns() < give_up_ns);
        tick(f);
        memory_stats(f->fakes.server.memory, &stats);
    } while (stats.reserved_bytes > bytes);
    assert_int_equal(stats.block_count, blocks);
}

/* Ticks like main() while a test waits in recv(). */
struct ticker {
    struct fixture *f;
    atomic_bool stop;
    pthread_t thread;
};

static void *ticker_main(void *argument)
{
    struct ticker *ticker = argument;
    while (!atomic_load(&ticker->stop)) {
        tick(ticker->f);
    }
    return NULL;
}

static void ticker_start(struct ticker *ticker, struct fixture *f)
{
    ticker->f = f;
    atomic_init(&ticker->stop, false);
    assert_int_equal(pthread_create(&ticker->thread, NULL, ticker_main, ticker), 0);
}

static void ticker_stop(struct ticker *ticker)
{
    atomic_store(&ticker->stop, true);
    (void)pthread_join(ticker->thread, NULL);
}

/* Send up to `count` bytes, and wait until a slice of them runs or has run. */
static void begin(struct fixture *f, const char *query, size_t count)
{
    unsigned before = runs();
    connect_client(f);
    send_head(f, query, "");
    send_payload(f, 0, count);
    await_runs(f, before);
}

/* ---- tests ---- */

static void every_byte_is_scanned_once_and_in_order(void **state)
{
    const char *const queries[] = {row, rows, "shape=1024,1,1024&axis=2&reverse=true",
                                   "shape=65536,16", "shape=2,2048,256&axis=1"};
    (void)state;
    for (size_t devices = 1; devices <= 3; devices += 2) {
        struct fixture f;
        set_up(&f, devices, NULL);
        for (size_t i = 0; i < ARRAY_COUNT(queries); i++) {
            unsigned before = runs();
            begin(&f, queries[i], TENSOR * 2 / 3);
            send_payload(&f, TENSOR * 2 / 3, TENSOR);
            expect_scanned(&f);
            assert_true(runs() - before >= 2);
            close_client(&f);
        }
        tear_down(&f);
    }
}

static void a_client_that_sends_bit_by_bit_is_scanned_bit_by_bit(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f, 2, NULL);
    begin(&f, row, SLICE);
    for (size_t at = SLICE; at < TENSOR - SLICE; at += SLICE) {
        unsigned before = runs();
        send_payload(&f, at, at + SLICE);
        await_runs(&f, before);
    }
    send_payload(&f, TENSOR - SLICE, TENSOR);
    expect_scanned(&f);
    assert_int_equal(runs(), TENSOR / SLICE);
    tear_down(&f);
}

static void a_slice_runs_elsewhere_if_its_input_is_intact(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f, 2, NULL);
    atomic_store(&fake.mode[0], FAKE_FAILS_INTACT);
    uint64_t give_up_ns = clock_now_ns() + 20 * NS_PER_S;
    while (atomic_load(&fake.runs[0]) == 0 && clock_now_ns() < give_up_ns) {
        begin(&f, row, TENSOR / 2);
        send_payload(&f, TENSOR / 2, TENSOR);
        expect_scanned(&f);
        close_client(&f);
    }
    assert_true(atomic_load(&fake.runs[0]) > 0);
    tear_down(&f);
}

static void a_slice_that_is_lost_ends_its_request_before_the_body_ends(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f, 1, NULL);
    atomic_store(&fake.mode[0], FAKE_FAILS);
    begin(&f, rows, TENSOR / 4);
    assert_int_equal(expect_status(&f, "it caught fire; try again"), 503);
    tear_down(&f);
}

static void a_last_slice_that_is_lost_ends_its_request(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f, 1, NULL);
    begin(&f, rows, TENSOR / 2);
    atomic_store(&fake.mode[0], FAKE_FAILS);
    send_payload(&f, TENSOR / 2, TENSOR);
    assert_int_equal(expect_status(&f, "it caught fire; try again"), 503);
    tear_down(&f);
}

/* The device hangs in a slice; `sent` bytes of the tensor have arrived by then. */
static void hang(size_t sent)
{
    struct fixture f;
    struct ticker ticker;
    struct memory_stats stats;
    set_up(&f, 1, "--device-timeout-ms=100");
    atomic_store(&fake.mode[0], FAKE_HANGS);
    begin(&f, row, TENSOR / 2);
    send_payload(&f, TENSOR / 2, sent);
    ticker_start(&ticker, &f);
    assert_int_equal(expect_status(&f, "gives no answer; try again"), 503);
    ticker_stop(&ticker);
    close_client(&f);
    memory_stats(f.fakes.server.memory, &stats);
    assert_int_equal(stats.block_count, 1); /* the device may still write to it */
    atomic_store(&fake.mode[0], FAKE_WORKS);
    await_memory_held(&f, 0, 0);
    assert_true(fake_await_health(&f.fakes, DEVICE_POOL_USABLE));
    begin(&f, row, TENSOR / 2);
    send_payload(&f, TENSOR / 2, TENSOR);
    expect_scanned(&f);
    tear_down(&f);
}

static void a_device_that_hangs_in_the_middle_of_a_body_keeps_its_memory_only(void **state)
{
    (void)state;
    hang(TENSOR - 1);
}

static void a_device_that_hangs_after_the_body_keeps_its_memory_only(void **state)
{
    (void)state;
    hang(TENSOR);
}

/* The client disconnects while its slice runs. */
static void leave(size_t sent)
{
    struct fixture f;
    struct memory_stats stats;
    set_up(&f, 1, NULL);
    atomic_store(&fake.mode[0], FAKE_HANGS);
    begin(&f, row, TENSOR / 2);
    send_payload(&f, TENSOR / 2, sent);
    close_client(&f);
    for (int i = 0; i < 400 && http_connections(f.http) > 0; i++) {
        tick(&f);
    }
    memory_stats(f.fakes.server.memory, &stats);
    assert_int_equal(stats.block_count, 1);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    await_memory_held(&f, 0, 0);
    begin(&f, rows, TENSOR / 2);
    send_payload(&f, TENSOR / 2, TENSOR);
    expect_scanned(&f);
    tear_down(&f);
}

static void a_client_that_leaves_in_the_middle_leaves_its_memory_to_the_slice(void **state)
{
    (void)state;
    leave(TENSOR * 3 / 4);
}

static void a_client_that_leaves_after_its_body_leaves_its_memory_to_the_slice(void **state)
{
    (void)state;
    leave(TENSOR);
}

/* Occupy the only device with a request that does not come from HTTP. */
static struct request *occupy(struct fixture *f)
{
    struct request *request = fake_tensor(&f->fakes, DTYPE_U8, 16);
    unsigned before = runs();
    atomic_store(&fake.mode[0], FAKE_HANGS);
    assert_int_equal(queue_push(f->fakes.server.queue, request, &request->error), 0);
    queue_wake(f->fakes.server.queue);
    while (runs() == before) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return request;
}

static void a_slice_that_cannot_be_queued_waits_for_the_next(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f, 1, NULL);
    struct request *first = occupy(&f);
    queue_close(f.fakes.server.queue); /* now no slice can be queued */
    connect_client(&f);
    send_head(&f, row, "");
    send_payload(&f, 0, TENSOR - 1);
    await_read(&f);
    assert_int_equal(runs(), 1);
    send_payload(&f, TENSOR - 1, TENSOR);
    /* The answer says why the slice was refused. */
    assert_int_equal(expect_status(&f, "shutting down"), 503);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    assert_ptr_equal(fake_finished(&f.fakes), first);
    fake_release(&f.fakes, first);
    tear_down(&f);
}

/* A device with its own clock. The wrapped clock_gettime() returns that clock on the thread of
 * the device. Each run advances the clock by pace_ns and is recorded. */
static atomic_uint_fast64_t pace_ns;
static uint64_t paced_bytes[TENSOR / SLICE + 2];
static bool paced_holes[ARRAY_COUNT(paced_bytes)];
static atomic_size_t paced_runs;
static _Thread_local uint64_t paced_now_ns; /* 0: the machine's clock */

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (paced_now_ns == 0) {
        return __real_clock_gettime(clock, now);
    }
    *now = clock_timespec(paced_now_ns);
    return 0;
}

static enum status paced_run(struct scan_device *device, const struct scan_job *jobs,
                             size_t count, struct scan_report *report, struct error *err)
{
    const enum status status = fake_run(device, jobs, count, report, err);
    paced_now_ns = clock_now_ns() + atomic_load(&pace_ns);
    const size_t run = atomic_load(&paced_runs) % ARRAY_COUNT(paced_bytes);
    paced_bytes[run] = jobs[0].plan->elements;
    paced_holes[run] = jobs[0].holes;
    atomic_fetch_add(&paced_runs, 1);
    return status;
}

static void set_up_paced(struct fixture *f, uint64_t ns, const char *flag)
{
    static struct device_driver paced;
    paced = fake_driver;
    paced.run = paced_run;
    fake.driver = &paced;
    set_up(f, 1, flag);
    fake.driver = NULL;
    atomic_store(&pace_ns, ns);
    atomic_store(&paced_runs, 0);
}

/* Scan a tensor whose bytes arrive while the device runs another request. Then its slices run,
 * for `ns` each. Returns the number of slices; paced_bytes[1] is the first. */
static size_t slices_at_pace(uint64_t ns)
{
    struct fixture f;
    set_up_paced(&f, ns, NULL);
    struct request *first = occupy(&f);
    connect_client(&f);
    send_head(&f, row, "");
    send_payload(&f, 0, TENSOR - 1); /* one slice waits; the other bytes collect behind it */
    await_read(&f);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    assert_ptr_equal(fake_finished(&f.fakes), first);
    send_payload(&f, TENSOR - 1, TENSOR);
    expect_scanned(&f);
    fake_release(&f.fakes, first);
    tear_down(&f);
    return atomic_load(&paced_runs) - 1;
}

static void slices_grow_fourfold_while_they_take_no_time(void **state)
{
    (void)state;
    const size_t count = slices_at_pace(0);
    assert_in_range(count, 2, 4); /* the last slice may wait for the last byte */
    const uint64_t most = 4 * paced_bytes[1];
    assert_in_range(paced_bytes[2], smaller_of(most, TENSOR - 256 - paced_bytes[1]), most);
}

static void slices_do_not_grow_while_they_take_long(void **state)
{
    (void)state;
    const size_t count = slices_at_pace(50 * NS_PER_MS);
    assert_true(count > 3);
    for (size_t i = 2; i < count - 1; i++) {
        assert_int_equal(paced_bytes[i], SLICE + 256); /* whole steps of 256 bytes */
    }
}

static void slices_of_an_urgent_tensor_precede_earlier_requests_of_its_client(void **state)
{
    struct fixture f;
    (void)state;
    set_up_paced(&f, 0, NULL);
    const struct address any = {.family = AF_UNIX};
    struct client *client = clients_get(f.fakes.server.clients, &any);
    struct request *first = occupy(&f);
    struct request *other = fake_tensor(&f.fakes, DTYPE_U8, 32);
    other->arrival.client = client;
    assert_int_equal(queue_push(f.fakes.server.queue, other, &other->error), 0);
    connect_client(&f);
    send_head(&f, row, "X-Request-Priority: high\r\n");
    send_payload(&f, 0, TENSOR - 1);
    await_read(&f);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    assert_ptr_equal(fake_finished(&f.fakes), first);
    assert_ptr_equal(fake_finished(&f.fakes), other);
    assert_true(paced_bytes[1] > 32);
    send_payload(&f, TENSOR - 1, TENSOR);
    expect_scanned(&f);
    fake_release(&f.fakes, first);
    fake_release(&f.fakes, other);
    client_release(client);
    tear_down(&f);
}

static void gaps_that_are_zeroed_before_a_scan_are_left_alone_by_its_device(void **state)
{
    struct fixture f;
    (void)state;
    set_up_paced(&f, 0, "--slice-bytes=0");
    connect_client(&f);
    static const char head[] =
        "POST /v1/cumsum?dtype=uint8&shape=4&strides=0&output_strides=11184811 HTTP/1.1\r\n"
        "Host: h\r\nContent-Type: application/octet-stream\r\nContent-Length: 1\r\n\r\nx";
    send_all(&f, head, sizeof head - 1);
    await_runs(&f, 0);
    while (atomic_load(&paced_runs) == 0) { /* recorded after the run */
        tick(&f);
    }
    assert_true(paced_holes[0]);
    tear_down(&f);
}

/* Return the number of scanned elements. */
static uint64_t paced_sum(void)
{
    const size_t count = atomic_load(&paced_runs);
    uint64_t sum = 0;
    assert_true(count <= ARRAY_COUNT(paced_bytes));
    for (size_t i = 0; i < count; i++) {
        sum += paced_bytes[i];
    }
    return sum;
}

/* Send bytes up to `sent` while a slice runs, stop the loop, and let the slice end. Without the
 * loop, at least `scanned` elements in all must be scanned. */
static void scan_without_a_loop(size_t sent, uint64_t scanned)
{
    struct fixture f;
    set_up_paced(&f, 0, NULL);
    atomic_store(&fake.mode[0], FAKE_HANGS);
    begin(&f, row, SLICE);
    send_payload(&f, SLICE, sent);
    await_read(&f);
    http_halt(f.http);
    assert_int_equal(runs(), 1);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    uint64_t give_up_ns = clock_now_ns() + 20 * NS_PER_S;
    while (paced_sum() < scanned) {
        assert_true(clock_now_ns() < give_up_ns);
        tick(&f);
    }
    assert_true(runs() > 1);
    tear_down(&f);
    assert_true(paced_sum() <= sent);
}

static void bytes_that_arrive_while_a_slice_runs_are_scanned_without_the_loop(void **state)
{
    (void)state;
    scan_without_a_loop(TENSOR * 3 / 4, TENSOR * 3 / 4 - SLICE);
    scan_without_a_loop(TENSOR, TENSOR); /* including the end of the body */
}

static void a_body_that_ends_while_a_slice_runs_is_answered(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f, 1, NULL);
    atomic_store(&fake.mode[0], FAKE_SINGLE_HANGS); /* hangs without access to memory */
    begin(&f, rows, SLICE);
    send_payload(&f, SLICE, TENSOR);
    await_read(&f);
    assert_int_equal(runs(), 1);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    expect_scanned(&f);
    tear_down(&f);
}

/* The client disconnects inside its body, or after it. The memory of its request is freed while
 * the device is still busy with another one. */
static void a_client_that_leaves_takes_its_slice_out_of_the_queue(void **state)
{
    (void)state;
    for (size_t sent = TENSOR / 2; sent <= TENSOR; sent += TENSOR / 2) {
        struct fixture f;
        struct memory_stats stats;
        set_up(&f, 1, NULL);
        struct request *first = occupy(&f);
        connect_client(&f);
        send_head(&f, row, "");
        send_payload(&f, 0, sent);
        await_read(&f);
        memory_stats(f.fakes.server.memory, &stats);
        assert_int_equal(stats.block_count, 2);
        close_client(&f);
        await_memory_held(&f, first->memory.reserved_bytes, 1);
        assert_int_equal(runs(), 1);
        atomic_store(&fake.mode[0], FAKE_WORKS);
        assert_ptr_equal(fake_finished(&f.fakes), first);
        fake_release(&f.fakes, first);
        tear_down(&f);
    }
}

static void a_deadline_that_passes_ends_the_request_before_the_body_ends(void **state)
{
    struct fixture f;
    struct ticker ticker;
    (void)state;
    set_up(&f, 1, NULL);
    struct request *first = occupy(&f);
    connect_client(&f);
    send_head(&f, row, "X-Request-Timeout-Ms: 50\r\n");
    send_payload(&f, 0, TENSOR / 2);
    ticker_start(&ticker, &f);
    assert_int_equal(expect_status(&f, "deadline"), 504);
    ticker_stop(&ticker);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    assert_ptr_equal(fake_finished(&f.fakes), first);
    fake_release(&f.fakes, first);
    tear_down(&f);
}

static void stopping_with_slices_out_leaves_nothing(void **state)
{
    (void)state;
    for (size_t sent = TENSOR / 4; sent <= TENSOR; sent += TENSOR / 4) {
        struct fixture f;
        set_up(&f, 2, NULL);
        connect_client(&f);
        send_head(&f, row, "");
        send_payload(&f, 0, sent);
        int fd = f.fd;
        f.fd = -1; /* stays open while the server stops */
        tear_down(&f);
        (void)close(fd);
    }
}

/* ---- all together ---- */

struct visitor {
    struct fixture f; /* a copy, with connections of its own */
    unsigned seed;
    pthread_t thread;
};

static void *visit(void *argument)
{
    struct visitor *visitor = argument;
    struct fixture *f = &visitor->f;
    for (int i = 0; i < 12; i++) {
        size_t cut = (size_t)rand_r(&visitor->seed) % TENSOR;
        connect_client(f);
        send_head(f, i % 2 == 0 ? row : rows, "");
        send_payload(f, 0, cut);
        if (i % 3 != 0) {
            send_payload(f, cut, TENSOR);
        }
        if (i % 3 == 1) {
            unsigned char bytes[4096];
            unsigned char *body;
            size_t count;
            int status = read_answer(f, bytes, sizeof bytes, &body, &count);
            assert_true(status == 200 || status == 503);
        }
        close_client(f);
    }
    return NULL;
}

static void clients_come_and_go_while_devices_fail_and_come_back(void **state)
{
    enum {
        VISITORS = 4
    };
    struct visitor visitors[VISITORS];
    struct fixture f;
    (void)state;
    set_up(&f, 3, "--http-loops=2");
    for (unsigned i = 0; i < VISITORS; i++) {
        visitors[i] = (struct visitor){.f = f, .seed = i};
        assert_int_equal(pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]), 0);
    }
    for (int i = 0; i < 30; i++) {
        atomic_store(&fake.mode[i % 2], i % 3 == 0 ? FAKE_FAILS_INTACT : FAKE_WORKS);
        for (int k = 0; k < 5; k++) {
            tick(&f);
        }
    }
    for (unsigned i = 0; i < VISITORS; i++) {
        (void)pthread_join(visitors[i].thread, NULL);
    }
    atomic_store(&fake.mode[0], FAKE_WORKS);
    atomic_store(&fake.mode[1], FAKE_WORKS);
    await_memory_held(&f, 0, 0);
    begin(&f, row, TENSOR / 2);
    send_payload(&f, TENSOR / 2, TENSOR);
    expect_scanned(&f);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_is_scanned_once_and_in_order),
        cmocka_unit_test(a_client_that_sends_bit_by_bit_is_scanned_bit_by_bit),
        cmocka_unit_test(a_slice_runs_elsewhere_if_its_input_is_intact),
        cmocka_unit_test(a_slice_that_is_lost_ends_its_request_before_the_body_ends),
        cmocka_unit_test(a_last_slice_that_is_lost_ends_its_request),
        cmocka_unit_test(a_device_that_hangs_in_the_middle_of_a_body_keeps_its_memory_only),
        cmocka_unit_test(a_device_that_hangs_after_the_body_keeps_its_memory_only),
        cmocka_unit_test(a_client_that_leaves_in_the_middle_leaves_its_memory_to_the_slice),
        cmocka_unit_test(a_client_that_leaves_after_its_body_leaves_its_memory_to_the_slice),
        cmocka_unit_test(a_slice_that_cannot_be_queued_waits_for_the_next),
        cmocka_unit_test(slices_grow_fourfold_while_they_take_no_time),
        cmocka_unit_test(slices_do_not_grow_while_they_take_long),
        cmocka_unit_test(slices_of_an_urgent_tensor_precede_earlier_requests_of_its_client),
        cmocka_unit_test(gaps_that_are_zeroed_before_a_scan_are_left_alone_by_its_device),
        cmocka_unit_test(bytes_that_arrive_while_a_slice_runs_are_scanned_without_the_loop),
        cmocka_unit_test(a_body_that_ends_while_a_slice_runs_is_answered),
        cmocka_unit_test(a_client_that_leaves_takes_its_slice_out_of_the_queue),
        cmocka_unit_test(a_deadline_that_passes_ends_the_request_before_the_body_ends),
        cmocka_unit_test(stopping_with_slices_out_leaves_nothing),
        cmocka_unit_test(clients_come_and_go_while_devices_fail_and_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
