/* codec_pool.h: every job runs once, answers go first, destroy finishes what waits; pieces run
 * once, side by side, until their request is cancelled. */
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

/* ---- pieces ---- */

enum {
    PIECES = 500
};

struct pieces {
    atomic_int run[PIECES];
    atomic_int inside;      /* pieces that run right now */
    atomic_int most_inside; /* at any time */
    struct request *cancel; /* by piece `cancel_at` */
    int cancel_at;
};

static void raise_to(atomic_int *most, int value)
{
    int seen = atomic_load(most);
    while (seen < value && !atomic_compare_exchange_weak(most, &seen, value)) {
    }
}

static void doze(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

static void run_piece(void *context, int index)
{
    struct pieces *pieces = context;
    raise_to(&pieces->most_inside, atomic_fetch_add(&pieces->inside, 1) + 1);
    doze();
    atomic_fetch_add(&pieces->run[index], 1);
    atomic_fetch_sub(&pieces->inside, 1);
}

/* Nobody leaves before two have been inside at a time. */
static void run_in_company(void *context, int index)
{
    struct pieces *pieces = context;
    raise_to(&pieces->most_inside, atomic_fetch_add(&pieces->inside, 1) + 1);
    while (atomic_load(&pieces->most_inside) < 2) {
        doze();
    }
    atomic_fetch_add(&pieces->run[index], 1);
    atomic_fetch_sub(&pieces->inside, 1);
}

/* A piece in the middle cancels the request; those behind it wait for that. */
static void run_and_cancel(void *context, int index)
{
    struct pieces *pieces = context;
    if (index == pieces->cancel_at) {
        atomic_store(&pieces->cancel->cancelled, true);
    }
    while (index > pieces->cancel_at && !atomic_load(&pieces->cancel->cancelled)) {
        doze();
    }
    atomic_fetch_add(&pieces->run[index], 1);
}

static void pieces_run_once_each_on_several_threads(void **state)
{
    (void)state;
    static struct pieces pieces;
    struct request request = {0};
    struct codec_pool *pool = NULL;
    assert_int_equal(codec_pool_create(3, &pool, NULL), STATUS_OK);
    struct codec_crew crew = codec_pool_crew(pool, &request);
    assert_true(crew.parallel.run(&crew.parallel, PIECES, run_in_company, &pieces));
    assert_int_equal(atomic_load(&pieces.inside), 0);
    for (int i = 0; i < PIECES; i++) {
        assert_int_equal(atomic_load(&pieces.run[i]), 1);
    }
    assert_in_range(atomic_load(&pieces.most_inside), 2, 4); /* the pool's and this one */
    codec_pool_destroy(pool);
}

static struct codec_pool *crowded;
static atomic_int crews_through;

static void job_in_pieces(struct request *request)
{
    struct pieces *pieces = calloc(1, sizeof *pieces);
    struct codec_crew crew = codec_pool_crew(crowded, request);
    bool through = crew.parallel.run(&crew.parallel, PIECES / 10, run_piece, pieces);
    for (int i = 0; i < PIECES / 10; i++) {
        through = through && atomic_load(&pieces->run[i]) == 1;
    }
    atomic_fetch_add(&crews_through, through);
    free(pieces);
}

static void jobs_of_a_crowded_pool_share_their_pieces(void **state)
{
    (void)state;
    struct request requests[20] = {0};
    assert_int_equal(codec_pool_create(3, &crowded, NULL), STATUS_OK);
    for (int i = 0; i < 20; i++) {
        codec_pool_submit(crowded, &requests[i], CODEC_LANE_REQUEST, job_in_pieces);
    }
    codec_pool_destroy(crowded);
    assert_int_equal(atomic_load(&crews_through), 20);
}

static void pieces_of_a_cancelled_request_are_left(void **state)
{
    (void)state;
    static struct pieces pieces;
    struct request request = {0};
    struct codec_pool *pool = NULL;
    assert_int_equal(codec_pool_create(2, &pool, NULL), STATUS_OK);
    struct codec_crew crew = codec_pool_crew(pool, &request);
    pieces.cancel = &request;
    pieces.cancel_at = 10;
    assert_false(crew.parallel.run(&crew.parallel, PIECES, run_and_cancel, &pieces));
    int run = 0;
    for (int i = 0; i < PIECES; i++) {
        run += atomic_load(&pieces.run[i]);
    }
    assert_in_range(run, 11, 13);
    codec_pool_destroy(pool);
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
        cmocka_unit_test_setup(pieces_run_once_each_on_several_threads, set_up),
        cmocka_unit_test_setup(jobs_of_a_crowded_pool_share_their_pieces, set_up),
        cmocka_unit_test_setup(pieces_of_a_cancelled_request_are_left, set_up),
        cmocka_unit_test_setup(destroying_nothing_is_fine, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
