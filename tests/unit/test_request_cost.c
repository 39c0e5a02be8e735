/* The cost of requests (infer_cost_ns()) with the real HTTP loop and a device that blocks: the
 * service tells waiting clients an estimated time. Artificial requests, which finish before,
 * set the pace. */
#include "server/base/address.h"
#include "server/sched/admission.h"
#include "tests/unit/fake_service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

enum {
    TENSOR = 2 << 20,
    NUMBERS = 200000, /* elements of a text; more than FAKE_LARGE */
    PATIENCE_S = 20
};

struct fixture {
    struct fake_server fakes;
    struct http *http;
    struct sockaddr_un address;
    int fds[ADMISSION_PLACES];
};

/* Finish requests of cost 1 under load: the estimates for other costs are based on their
 * pace. */
static void set_pace(struct fixture *f)
{
    struct admission *admission = f->fakes.server.admission;
    struct request *crowd[2 * ADMISSION_PLACES];
    for (int i = 0; i < 2 * ADMISSION_PLACES; i++) {
        crowd[i] = fake_request(&f->fakes.completion, DTYPE_I8, 4);
        assert_int_equal(admission_enter(admission, crowd[i], 8 * MIB, 1),
                         i < ADMISSION_PLACES);
    }
    for (int i = 0; i < 2 * ADMISSION_PLACES; i++) {
        admission_finish(admission, crowd[i]);
        admission_leave(admission, crowd[i]);
    }
    while (fake_await(&f->fakes.completion, &f->fakes.rest, 0) != NULL) {
    }
    for (int i = 0; i < 2 * ADMISSION_PLACES; i++) {
        free(crowd[i]);
    }
}

static int set_up(void **state)
{
    static struct fixture f;
    struct error err = ERROR_INIT;
    char listen[sizeof f.address.sun_path + 16];
    f = (struct fixture){.address.sun_family = AF_UNIX};
    (void)snprintf(f.address.sun_path, sizeof f.address.sun_path, "/tmp/tally-test-cost-%d",
                   (int)getpid());
    (void)snprintf(listen, sizeof listen, "--listen=unix:%s", f.address.sun_path);
    const char *words[] = {"--device-timeout-ms=60000", "--batch-max-requests=1",
                           "--log-level=error", listen, NULL};
    fake_reset(1);
    assert_true(fake_server_init(&f.fakes, words, &err));
    set_pace(&f);
    f.http = fake_service_start(&f.fakes);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    atomic_store(&fake.mode[0], FAKE_WORKS);
    fake_service_stop(&f->fakes, f->http);
    assert_true(fake_server_deinit(&f->fakes));
    log_close(f->fakes.server.log);
    (void)unlink(f->address.sun_path);
    return 0;
}

/* ---- clients ---- */

static int connect_client(const struct fixture *f)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&f->address, sizeof f->address), 0);
    return fd;
}

static void send_all(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        const ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
        assert_true(sent > 0);
        bytes += sent;
        count -= (size_t)sent;
    }
}

/* A request: its head, and a body that begins with a text, followed by zeros. */
struct ask {
    const char *target;
    const char *type;
    const char *field; /* another header field; NULL: none */
    const char *text;  /* NULL: none */
    size_t text_bytes;
    size_t body_bytes;
};

/* Send the head and `bytes` bytes of the body. */
static void send_part(int fd, const struct ask *ask, size_t bytes)
{
    static const char zeroes[TENSOR];
    char head[512];
    const int count =
        snprintf(head, sizeof head,
                 "POST %s HTTP/1.1\r\nHost: h\r\n%sContent-Type: %s\r\n"
                 "Content-Length: %zu\r\n\r\n",
                 ask->target, ask->field == NULL ? "" : ask->field, ask->type, ask->body_bytes);
    const size_t text = bytes < ask->text_bytes ? bytes : ask->text_bytes;
    send_all(fd, head, (size_t)count);
    send_all(fd, ask->text, text);
    send_all(fd, zeroes, bytes - text);
}

/* Read the whole answer; returns its status. */
static int read_answer(int fd)
{
    static char bytes[16 << 20];
    size_t got = 0;
    size_t wanted = SIZE_MAX;
    while (got < wanted && got < sizeof bytes - 1) {
        const ssize_t count = recv(fd, bytes + got, sizeof bytes - 1 - got, 0);
        assert_true(count > 0);
        got += (size_t)count;
        bytes[got] = '\0';
        const char *end = wanted == SIZE_MAX ? strstr(bytes, "\r\n\r\n") : NULL;
        if (end != NULL) {
            const char *length = strstr(bytes, "Content-Length: ");
            assert_non_null(length);
            wanted = (size_t)(end + 4 - bytes) + strtoul(length + 16, NULL, 10);
        }
    }
    return (int)strtol(bytes + strlen("HTTP/1.1 "), NULL, 10);
}

static void fake_tick(struct fixture *f)
{
    device_pool_tick(f->fakes.server.devices, clock_now_ns(), 0);
    fake_pause();
}

/* Wait until `wanted` requests wait for the device, besides the running one. */
static void await_queued(struct fixture *f, size_t wanted)
{
    const uint64_t give_up_ns = clock_now_ns() + PATIENCE_S * NS_PER_S;
    struct queue_stats stats;
    do {
        assert_true(clock_now_ns() < give_up_ns);
        fake_tick(f);
        queue_stats(f->fakes.server.queue, NULL, &stats);
    } while (stats.requests < wanted);
}

/* ---- estimates for other requests ---- */

/* Start as many of these requests as there are places. Return the estimated wait of another
 * request of the same client, which has no cost. */
static uint64_t beside_ns(struct fixture *f, const struct ask *ask)
{
    const struct address unix_socket = {.family = AF_UNIX};
    struct client *client = clients_get(f->fakes.server.clients, &unix_socket);
    struct request *probe = fake_request(&f->fakes.completion, DTYPE_I8, 4);
    uint64_t wait_ns = 0;
    assert_non_null(client);
    probe->arrival.client = client;
    atomic_store(&fake.mode[0], FAKE_LARGE_HANGS);
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        f->fds[i] = connect_client(f);
        send_part(f->fds[i], ask, ask->body_bytes);
    }
    await_queued(f, ADMISSION_PLACES - 1);
    assert_int_equal(admission_check(f->fakes.server.admission, probe, 0, &wait_ns, NULL),
                     STATUS_OK);
    atomic_store(&fake.mode[0], FAKE_WORKS);
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        assert_int_equal(read_answer(f->fds[i]), 200);
        (void)close(f->fds[i]);
    }
    client_release(client);
    free(probe);
    return wait_ns;
}

#define RAW "application/octet-stream"

static const struct ask packed = {
    .target = "/v1/cumsum?dtype=int8&shape=2097152", .type = RAW, .body_bytes = TENSOR};
/* Lines of one element, in every second byte. */
static const struct ask apart = {
    .target = "/v1/cumsum?dtype=int8&shape=1048576,1&axis=1&strides=2,1&output_strides=2,1",
    .type = RAW,
    .body_bytes = TENSOR - 1};

static const char npy_head[] = "\x93NUMPY\x01\0\x76\0{'descr': '|i1', 'fortran_order': False, "
                               "'shape': (2097152,), }";

/* An NPY body whose header has 128 bytes. */
static struct ask npy(char text[128])
{
    memset(text, ' ', 128);
    memcpy(text, npy_head, sizeof npy_head - 1);
    text[127] = '\n';
    return (struct ask){.target = "/v1/cumsum",
                        .type = "application/x-npy",
                        .text = text,
                        .text_bytes = 128,
                        .body_bytes = 128 + TENSOR};
}

/* All tensors have 2 MiB; tensors with gaps take many times as long. */
static void the_wait_beside_strided_tensors_includes_their_cost(void **state)
{
    struct fixture *f = *state;
    const uint64_t packed_ns = beside_ns(f, &packed);
    const uint64_t apart_ns = beside_ns(f, &apart);
    assert_true(packed_ns > 0);
    assert_in_range(apart_ns, 5 * packed_ns, 20 * packed_ns);
}

static void a_tensor_costs_the_same_behind_a_header_of_its_own(void **state)
{
    struct fixture *f = *state;
    char text[128];
    const struct ask ask = npy(text);
    const uint64_t packed_ns = beside_ns(f, &packed);
    assert_in_range(beside_ns(f, &ask), packed_ns, packed_ns + packed_ns / 50);
}

/* The request and the answer are text. A byte of text must cost at least as much as a byte of a
 * packed tensor, and less than sixteen times as much. */
static void a_text_costs_some_times_its_bytes(void **state)
{
    struct fixture *f = *state;
    static const char head[] = "{\"dtype\": \"int8\", \"data\": [";
    const size_t bytes = sizeof head - 1 + 2 * NUMBERS - 1 + 2;
    char *text = malloc(bytes + 1);
    assert_non_null(text);
    memcpy(text, head, sizeof head);
    for (size_t i = 0; i < NUMBERS; i++) {
        memcpy(text + sizeof head - 1 + 2 * i, i + 1 < NUMBERS ? "1," : "1]}", 3);
    }
    const struct ask ask = {.target = "/v1/cumsum",
                            .type = "application/json",
                            .text = text,
                            .text_bytes = bytes,
                            .body_bytes = bytes};
    const uint64_t byte_ns = beside_ns(f, &packed) / TENSOR;
    assert_in_range(beside_ns(f, &ask), bytes * byte_ns, 16 * bytes * byte_ns);
    free(text);
}

/* Does the same as beside_ns() with requests whose last byte has not arrived. */
static uint64_t beside_unread_ns(struct fixture *f, const struct ask *ask)
{
    const uint64_t give_up_ns = clock_now_ns() + PATIENCE_S * NS_PER_S;
    const struct address unix_socket = {.family = AF_UNIX};
    struct request *probe = fake_request(&f->fakes.completion, DTYPE_I8, 4);
    struct admission_stats stats;
    uint64_t wait_ns = 0;
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        f->fds[i] = connect_client(f);
        send_part(f->fds[i], ask, ask->body_bytes - 1);
    }
    do {
        assert_true(clock_now_ns() < give_up_ns);
        fake_tick(f);
        admission_stats(f->fakes.server.admission, &stats);
    } while (stats.active < ADMISSION_PLACES);
    probe->arrival.client = clients_get(f->fakes.server.clients, &unix_socket);
    assert_int_equal(admission_check(f->fakes.server.admission, probe, 0, &wait_ns, NULL),
                     STATUS_OK);
    client_release(probe->arrival.client);
    free(probe);
    for (int i = 0; i < ADMISSION_PLACES; i++) {
        (void)close(f->fds[i]);
    }
    do {
        assert_true(clock_now_ns() < give_up_ns);
        fake_tick(f);
        admission_stats(f->fakes.server.admission, &stats);
    } while (stats.active > 0);
    return wait_ns;
}

/* The header field says that the whole body is JSON. The estimate must equal that of a request
 * without the field. */
static void a_body_that_is_all_header_is_foretold_as_the_text_that_it_is(void **state)
{
    struct fixture *f = *state;
    char field[64];
    struct ask ask = {.target = "/v2/models/cumsum/infer",
                      .type = "application/octet-stream",
                      .text = "{",
                      .text_bytes = 1,
                      .body_bytes = NUMBERS};
    (void)snprintf(field, sizeof field, "Inference-Header-Content-Length: %d\r\n", NUMBERS);
    const uint64_t text_ns = beside_unread_ns(f, &ask);
    ask.field = field;
    assert_true(text_ns > 0);
    assert_int_equal(beside_unread_ns(f, &ask), text_ns);
}

/* While the body may be a text, sixteen times its size is promised. After its NPY header is
 * read, less is promised. */
static void a_header_that_is_read_gives_back_what_was_promised_for_a_text(void **state)
{
    struct fixture *f = *state;
    char text[128];
    const struct ask ask = npy(text);
    const uint64_t give_up_ns = clock_now_ns() + PATIENCE_S * NS_PER_S;
    struct memory_stats stats;
    const int fd = connect_client(f);
    send_part(fd, &ask, TENSOR / 2);
    do {
        assert_true(clock_now_ns() < give_up_ns);
        fake_tick(f);
        memory_stats(f->fakes.server.memory, &stats);
    } while (stats.reserved_bytes < TENSOR / 2);
    assert_in_range(stats.promised_bytes + stats.reserved_bytes, TENSOR / 2, 2 * TENSOR);
    (void)close(fd);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_wait_beside_strided_tensors_includes_their_cost),
        T(a_tensor_costs_the_same_behind_a_header_of_its_own),
        T(a_text_costs_some_times_its_bytes),
        T(a_body_that_is_all_header_is_foretold_as_the_text_that_it_is),
        T(a_header_that_is_read_gives_back_what_was_promised_for_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
