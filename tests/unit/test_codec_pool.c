/* codec_pool.h: every job runs once, answers go first, destroy finishes what waits. */
#include "server/clock.h"
#include "server/codec_pool.h"
#include "tests/lib/unit.h"
#include "tests/unit/fake_request.h"

#include <pthread.h>

static atomic_int jobs_run;
static atomic_bool gate_open;

static void count_job(struct request *request)
{
    request->retries++;
    atomic_fetch_add(&jobs_run, 1);
}

static void wait_at_gate(struct request *request)
{
    request->retries = -1; /* seen by the test before the gate opens, through jobs_run */
    atomic_fetch_add(&jobs_run, 1);
    while (!atomic_load(&gate_open)) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void note_order(struct request *request)
{
    request->retries = atomic_fetch_add(&jobs_run, 1);
}

static int set_up(void **state)
{
    (void)state;
    atomic_store(&jobs_run, 0);
    atomic_store(&gate_open, false);
    return 0;
}

static void every_job_runs_exactly_once(void **state)
{
    (void)state;
    enum {
        COUNT = 10000
    };
    struct request *requests = calloc(COUNT, sizeof *requests);
    struct codec_pool *pool = NULL;
    assert_int_equal(codec_pool_create(3, &pool, NULL), STATUS_OK);
    for (int i = 0; i < COUNT; i++) {
        codec_pool_submit(pool, &requests[i], i % 2 ? CODEC_LANE_ANSWER : CODEC_LANE_REQUEST,
                          count_job);
    }
    codec_pool_destroy(pool); /* finishes what waits */
    assert_int_equal(atomic_load(&jobs_run), COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(requests[i].retries, 1);
    }
    free(requests);
}

static void answers_overtake_requests_and_each_lane_keeps_its_order(void **state)
{
    (void)state;
    struct request blocker = {0};
    struct request requests[2] = {0};
    struct request answers[2] = {0};
    struct codec_pool *pool = NULL;
    assert_int_equal(codec_pool_create(1, &pool, NULL), STATUS_OK);
    codec_pool_submit(pool, &blocker, CODEC_LANE_REQUEST, wait_at_gate);
    while (atomic_load(&jobs_run) == 0) {
    }
    codec_pool_submit(pool, &requests[0], CODEC_LANE_REQUEST, note_order);
    codec_pool_submit(pool, &requests[1], CODEC_LANE_REQUEST, note_order);
    codec_pool_submit(pool, &answers[0], CODEC_LANE_ANSWER, note_order);
    codec_pool_submit(pool, &answers[1], CODEC_LANE_ANSWER, note_order);
    assert_int_equal(codec_pool_waiting(pool), 4);
    atomic_store(&gate_open, true);
    codec_pool_destroy(pool);
    assert_int_equal(answers[0].retries, 1);
    assert_int_equal(answers[1].retries, 2);
    assert_int_equal(requests[0].retries, 3);
    assert_int_equal(requests[1].retries, 4);
}

static void destroying_nothing_is_fine(void **state)
{
    (void)state;
    codec_pool_destroy(NULL);
    struct codec_pool *pool = NULL;
    assert_int_equal(codec_pool_create(2, &pool, NULL), STATUS_OK);
    codec_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_job_runs_exactly_once, set_up),
        cmocka_unit_test_setup(answers_overtake_requests_and_each_lane_keeps_its_order, set_up),
        cmocka_unit_test_setup(destroying_nothing_is_fine, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
