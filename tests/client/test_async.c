/* Submitted calls: many in flight over few connections, failures, closing early, threads. */
#include "tests/client/lib/support.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CALLS = 400,
    NUMBERS = 64
};

struct call {
    int32_t input[NUMBERS];
    int32_t output[NUMBERS];
    atomic_int done;
    enum tally_status status;
};

static struct fake_server *current; /* the server of the running test, for the script */

/* Sums the request; every 29th request gets a 503, every 31st loses its connection: fewer
 * failures than the retry budget allows. */
static void script_sums(void *user, const struct fake_request *request,
                        struct fake_answer *answer)
{
    const bool *rough = user;
    if (*rough && request->number % 29 == 3) {
        fake_answer_error(answer, 503, "", "{\"error\":\"busy\"}");
        return;
    }
    char shape[24];
    snprintf(shape, sizeof shape, "%zu", request->body_bytes / 4);
    fake_answer_tensor(answer, "int32", shape, fake_sums(current, request),
                       request->body_bytes);
    if (*rough && request->number % 31 == 5)
        answer->cut = (size_t)(request->number % 200);
}

static void fill(struct call *call, int seed)
{
    for (int i = 0; i < NUMBERS; i++)
        call->input[i] = seed * 31 + i;
    memset(call->output, 0, sizeof call->output);
    atomic_store(&call->done, 0);
}

static void check_sums(const struct call *call)
{
    int32_t sum = 0;
    for (int i = 0; i < NUMBERS; i++) {
        sum += call->input[i];
        assert_int_equal(call->output[i], sum);
    }
}

static void on_done(void *user, const struct tally_error *result)
{
    struct call *call = user;
    call->status = result->status;
    atomic_fetch_add(&call->done, 1);
}

static struct tally *open_client(int connections, int queue)
{
    struct tally_error err;
    struct tally_options options = TALLY_OPTIONS_INIT;
    options.timeout_ms = 60000;
    options.retries = 30;
    options.backoff_base_ms = 1;
    options.backoff_max_ms = 3;
    options.async_connections = connections;
    options.async_queue = queue;
    struct tally *client = tally_open(fake_server_url(current), &options, &err);
    assert_non_null(client);
    return client;
}

static void submit_all(struct call *calls, struct tally *client)
{
    int64_t size = NUMBERS;
    for (int i = 0; i < CALLS; i++) {
        struct tally_error err;
        struct tally_scan scan = scan_of(&size);
        fill(&calls[i], i);
        assert_int_equal(tally_submit(client, &scan, calls[i].input, calls[i].output,
                                      (struct tally_done){on_done, &calls[i]}, &err),
                         TALLY_OK);
    }
}

static void many_calls_share_few_connections(void **state)
{
    (void)state;
    bool rough = false;
    current = fake_server_start(script_sums, &rough, SIZE_MAX, NULL);
    struct tally *client = open_client(3, CALLS);
    struct call *calls = test_calloc(CALLS, sizeof *calls);
    submit_all(calls, client);
    assert_int_equal(tally_wait(client, -1), TALLY_OK);
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(atomic_load(&calls[i].done), 1);
        assert_int_equal(calls[i].status, TALLY_OK);
        check_sums(&calls[i]);
    }
    assert_in_range(fake_server_connections(current), 1, 3);
    tally_close(client);
    fake_server_stop(current);
    test_free(calls);
}

static void a_call_that_is_submitted_when_all_are_done_is_done_too(void **state)
{
    (void)state;
    static struct call calls[3];
    bool rough = false;
    current = fake_server_start(script_sums, &rough, SIZE_MAX, NULL);
    struct tally *client = open_client(1, 1);
    int64_t size = NUMBERS;
    struct tally_scan scan = scan_of(&size);
    struct tally_error err;
    for (int i = 0; i < 3; i++) {
        fill(&calls[i], i);
        assert_int_equal(tally_submit(client, &scan, calls[i].input, calls[i].output,
                                      (struct tally_done){on_done, &calls[i]}, &err),
                         TALLY_OK);
        assert_int_equal(tally_wait(client, 20000), TALLY_OK);
        check_sums(&calls[i]);
    }
    tally_close(client);
    fake_server_stop(current);
}

static void a_rough_server_changes_no_result(void **state)
{
    (void)state;
    bool rough = true;
    current = fake_server_start(script_sums, &rough, SIZE_MAX, NULL);
    struct tally *client = open_client(8, CALLS);
    struct call *calls = test_calloc(CALLS, sizeof *calls);
    submit_all(calls, client);
    assert_int_equal(tally_wait(client, 60000), TALLY_OK);
    int wrong = 0;
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(atomic_load(&calls[i].done), 1);
        if (calls[i].status == TALLY_OK)
            check_sums(&calls[i]);
        else
            wrong++; /* cut inside the status line, which must not count as a lost connection */
    }
    assert_true(wrong < CALLS / 20);
    tally_close(client);
    fake_server_stop(current);
    test_free(calls);
}

/* Requests with more than one number are refused temporarily. */
static void script_refuses_long_ones(void *user, const struct fake_request *request,
                                     struct fake_answer *answer)
{
    const bool rough = false;
    (void)user;
    if (request->body_bytes > sizeof(int32_t))
        fake_answer_error(answer, 503, "Retry-After: 5\r\n", "{\"error\":\"busy\"}");
    else
        script_sums((void *)(uintptr_t)&rough, request, answer);
}

static void on_short_done(void *user, const struct tally_error *result)
{
    (void)result;
    assert_int_equal(sem_post(user), 0);
}

static void a_call_that_backs_off_leaves_its_connection_to_others(void **state)
{
    (void)state;
    static struct call calls[2];
    const int64_t sizes[2] = {NUMBERS, 1};
    struct tally_error err;
    sem_t short_done;
    assert_int_equal(sem_init(&short_done, 0, 0), 0);
    current = fake_server_start(script_refuses_long_ones, NULL, SIZE_MAX, NULL);
    struct tally *client = open_client(1, 2);
    for (int i = 0; i < 2; i++) {
        struct tally_scan scan = scan_of(&sizes[i]);
        const struct tally_done done[2] = {{on_done, &calls[0]}, {on_short_done, &short_done}};
        fill(&calls[i], i);
        assert_int_equal(
            tally_submit(client, &scan, calls[i].input, calls[i].output, done[i], &err),
            TALLY_OK);
    }
    assert_int_equal(sem_wait(&short_done), 0);
    assert_int_equal(fake_server_requests(current), 2); /* one attempt of each call so far */
    tally_close(client);
    assert_int_equal(calls[0].status, TALLY_CANCELLED);
    fake_server_stop(current);
    assert_int_equal(sem_destroy(&short_done), 0);
}

static int cancel_if_set(void *user, int64_t sent, int64_t send_total, int64_t received,
                         int64_t receive_total)
{
    (void)sent, (void)send_total, (void)received, (void)receive_total;
    return atomic_load((atomic_int *)user);
}

static void a_call_that_backs_off_is_cancelled_by_its_progress_callback(void **state)
{
    (void)state;
    static struct call call;
    static atomic_int cancelled;
    int64_t size = NUMBERS;
    struct tally_error err;
    struct tally_scan scan = scan_of(&size);
    scan.progress = cancel_if_set;
    scan.progress_user = &cancelled;
    current = fake_server_start(script_refuses_long_ones, NULL, SIZE_MAX, NULL);
    struct tally *client = open_client(1, 1);
    fill(&call, 1);
    assert_int_equal(tally_submit(client, &scan, call.input, call.output,
                                  (struct tally_done){on_done, &call}, &err),
                     TALLY_OK);
    while (fake_server_requests(current) == 0)
        usleep(1000);
    atomic_store(&cancelled, 1);
    assert_int_equal(tally_wait(client, 4000), TALLY_OK); /* its back-off takes 5 s */
    assert_int_equal(call.status, TALLY_CANCELLED);
    tally_close(client);
    fake_server_stop(current);
}

static void script_never(void *user, const struct fake_request *request,
                         struct fake_answer *answer)
{
    (void)user;
    (void)request;
    answer->cut = 0;
    answer->hang = true;
}

static void closing_cancels_what_is_not_done(void **state)
{
    (void)state;
    current = fake_server_start(script_never, NULL, SIZE_MAX, NULL);
    struct tally *client = open_client(4, CALLS);
    struct call *calls = test_calloc(CALLS, sizeof *calls);
    submit_all(calls, client);
    assert_int_equal(tally_wait(client, 50), TALLY_TIMEOUT);
    tally_close(client);
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(atomic_load(&calls[i].done), 1);
        assert_int_equal(calls[i].status, TALLY_CANCELLED);
    }
    fake_server_stop(current);
    test_free(calls);
}

enum {
    TOO_LITTLE_MS = 50
};

/* The first call blocks the client's thread until the second call, submitted meanwhile, has no
 * time left. */
static void on_first_done(void *user, const struct tally_error *result)
{
    (void)result;
    assert_int_equal(sem_wait(user), 0);
    usleep((TOO_LITTLE_MS + 1) * 1000);
}

/* Two calls over one connection; returns the result of the second, which starts too late. */
static enum tally_status second_of_two(int64_t timeout_ms, int64_t deadline_ms)
{
    bool rough = false;
    int64_t size = NUMBERS;
    struct tally_error err;
    struct tally_options options = TALLY_OPTIONS_INIT;
    static struct call calls[2];
    sem_t both_submitted;
    const struct tally_done done[2] = {{on_first_done, &both_submitted}, {on_done, &calls[1]}};
    assert_int_equal(sem_init(&both_submitted, 0, 0), 0);
    current = fake_server_start(script_sums, &rough, SIZE_MAX, NULL);
    options.timeout_ms = timeout_ms;
    options.async_connections = 1;
    struct tally *client = tally_open(fake_server_url(current), &options, &err);
    for (int i = 0; i < 2; i++) {
        struct tally_scan scan = scan_of(&size);
        scan.deadline_ms = i == 1 ? deadline_ms : 0;
        fill(&calls[i], i);
        assert_int_equal(
            tally_submit(client, &scan, calls[i].input, calls[i].output, done[i], &err),
            TALLY_OK);
    }
    assert_int_equal(sem_post(&both_submitted), 0);
    assert_int_equal(tally_wait(client, 20000), TALLY_OK);
    assert_in_range(fake_server_requests(current), 0, 1); /* the first call may be late, too */
    tally_close(client);
    fake_server_stop(current);
    assert_int_equal(sem_destroy(&both_submitted), 0);
    return calls[1].status;
}

static void what_has_no_time_left_is_not_sent(void **state)
{
    (void)state;
    assert_int_equal(second_of_two(TOO_LITTLE_MS, 0), TALLY_TIMEOUT);
    assert_int_equal(second_of_two(10000, TOO_LITTLE_MS), TALLY_DEADLINE);
}

struct persistent {
    struct tally *client;
    struct call call;
    enum tally_status again;
};

static void submit_again(void *user, const struct tally_error *result)
{
    struct persistent *persistent = user;
    int64_t size = NUMBERS;
    struct tally_scan scan = scan_of(&size);
    struct tally_error err;
    persistent->call.status = result->status;
    persistent->again =
        tally_submit(persistent->client, &scan, persistent->call.input, persistent->call.output,
                     (struct tally_done){NULL, NULL}, &err);
}

static void what_a_callback_submits_while_the_client_is_closed_is_refused(void **state)
{
    (void)state;
    int64_t size = NUMBERS;
    struct tally_error err;
    current = fake_server_start(script_never, NULL, SIZE_MAX, NULL);
    static struct persistent persistent;
    persistent.client = open_client(1, 4);
    struct tally_scan scan = scan_of(&size);
    fill(&persistent.call, 1);
    assert_int_equal(tally_submit(persistent.client, &scan, persistent.call.input,
                                  persistent.call.output,
                                  (struct tally_done){submit_again, &persistent}, &err),
                     TALLY_OK);
    tally_close(persistent.client);
    assert_int_equal(persistent.call.status, TALLY_CANCELLED);
    assert_int_equal(persistent.again, TALLY_CANCELLED);
    fake_server_stop(current);
}

static void a_full_queue_is_busy(void **state)
{
    (void)state;
    int64_t size = NUMBERS;
    current = fake_server_start(script_never, NULL, SIZE_MAX, NULL);
    struct tally *client = open_client(2, 5);
    static struct call calls[6];
    struct tally_error err;
    struct tally_scan scan = scan_of(&size);
    for (int i = 0; i < 6; i++) {
        fill(&calls[i], i);
        assert_int_equal(tally_submit(client, &scan, calls[i].input, calls[i].output,
                                      (struct tally_done){on_done, &calls[i]}, &err),
                         i < 5 ? TALLY_OK : TALLY_BUSY);
    }
    tally_close(client);
    assert_int_equal(atomic_load(&calls[5].done), 0);
    fake_server_stop(current);
}

struct chain {
    struct tally *client;
    struct call call;
    int left;
    enum tally_status waited;
};

static void next_link(void *user, const struct tally_error *result)
{
    struct chain *chain = user;
    int64_t size = NUMBERS;
    struct tally_scan scan = scan_of(&size);
    struct tally_error err;
    chain->call.status = result->status;
    chain->waited = tally_wait(chain->client, -1); /* refused: it would wait for itself */
    if (--chain->left > 0)
        (void)tally_submit(chain->client, &scan, chain->call.input, chain->call.output,
                           (struct tally_done){next_link, chain}, &err);
}

static void a_callback_may_submit_but_not_wait(void **state)
{
    (void)state;
    bool rough = false;
    int64_t size = NUMBERS;
    struct tally_error err;
    current = fake_server_start(script_sums, &rough, SIZE_MAX, NULL);
    static struct chain chain;
    chain.client = open_client(2, 4);
    chain.left = 20;
    struct tally_scan scan = scan_of(&size);
    fill(&chain.call, 1);
    assert_int_equal(tally_submit(chain.client, &scan, chain.call.input, chain.call.output,
                                  (struct tally_done){next_link, &chain}, &err),
                     TALLY_OK);
    assert_int_equal(tally_wait(chain.client, -1), TALLY_OK);
    assert_int_equal(chain.left, 0);
    assert_int_equal(chain.waited, TALLY_INVALID_ARGUMENT);
    assert_int_equal(chain.call.status, TALLY_OK);
    check_sums(&chain.call);
    tally_close(chain.client);
    fake_server_stop(current);
}

static void *worker(void *user)
{
    struct tally *client = user;
    int64_t size = NUMBERS;
    struct call *call = calloc(1, sizeof *call);
    struct call *submitted = calloc(20, sizeof *submitted);
    long wrong = 0;
    for (int i = 0; i < 20; i++) {
        struct tally_error err;
        struct tally_scan scan = scan_of(&size);
        fill(call, i);
        fill(&submitted[i], i + 1000);
        wrong += tally_submit(client, &scan, submitted[i].input, submitted[i].output,
                              (struct tally_done){on_done, &submitted[i]}, &err) != TALLY_OK;
        wrong += tally_cumsum(client, &scan, call->input, call->output, &err) != TALLY_OK;
        wrong += call->output[1] != call->input[0] + call->input[1];
    }
    wrong += tally_wait(client, -1) != TALLY_OK;
    for (int i = 0; i < 20; i++)
        wrong += submitted[i].output[1] != submitted[i].input[0] + submitted[i].input[1];
    free(submitted);
    free(call);
    return (void *)(intptr_t)wrong;
}

static void threads_share_one_client(void **state)
{
    (void)state;
    bool rough = false;
    pthread_t threads[8];
    current = fake_server_start(script_sums, &rough, SIZE_MAX, NULL);
    struct tally *client = open_client(3, CALLS);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker, client), 0);
    for (int i = 0; i < 8; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    tally_close(client);
    fake_server_stop(current);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_calls_share_few_connections),
        cmocka_unit_test(a_call_that_is_submitted_when_all_are_done_is_done_too),
        cmocka_unit_test(a_rough_server_changes_no_result),
        cmocka_unit_test(a_call_that_backs_off_leaves_its_connection_to_others),
        cmocka_unit_test(a_call_that_backs_off_is_cancelled_by_its_progress_callback),
        cmocka_unit_test(closing_cancels_what_is_not_done),
        cmocka_unit_test(what_has_no_time_left_is_not_sent),
        cmocka_unit_test(what_a_callback_submits_while_the_client_is_closed_is_refused),
        cmocka_unit_test(a_full_queue_is_busy),
        cmocka_unit_test(a_callback_may_submit_but_not_wait),
        cmocka_unit_test(threads_share_one_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
