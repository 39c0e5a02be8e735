/* work.h: every job runs once; small jobs wait at most for a piece of a large one; clients
 * alternate; late or cancelled jobs end at any stage; pieces run once, in parallel. */
#include "server/base/clock.h"
#include "server/sched/line.h"
#include "server/sched/work.h"
#include "tests/lib/unit.h"
#include "tests/unit/fake_request.h"

#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    SMALL = 1000,
    LARGE = (1 << 22) + 1, /* ns: above LINE_CLASS_NS[1]; HUGE_COST: above LINE_CLASS_NS[2] */
    HUGE_COST = (1 << 27) + 1
};

static atomic_int jobs_run;
static atomic_bool gate_open;
static struct work_pool *pool;
static struct completion completion;
static struct request *posted; /* taken from the completion list, not yet examined */

static int set_up(void **state)
{
    (void)state;
    atomic_store(&jobs_run, 0);
    atomic_store(&gate_open, false);
    posted = NULL;
    return completion_init(&completion, NULL) != STATUS_OK;
}

static int tear_down(void **state)
{
    (void)state;
    completion_deinit(&completion);
    return 0;
}

static void begin(struct request *request, struct client *client)
{
    *request = (struct request){.arrival.client = client != NULL ? client : &fake_client,
                                .completion = &completion};
}

static void doze(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

static void count_job(struct request *request)
{
    request->scan.retries++;
    atomic_fetch_add(&jobs_run, 1);
}

static void note_order(struct request *request)
{
    request->scan.retries = atomic_fetch_add(&jobs_run, 1);
}

static void wait_at_gate(struct request *request)
{
    note_order(request);
    while (!atomic_load(&gate_open)) {
        doze();
    }
}

/* Submit a job; a thread that begins it is blocked until the gate opens. */
static void block_thread(struct request *blocker)
{
    begin(blocker, NULL);
    int before = atomic_load(&jobs_run);
    work_submit(pool, blocker, SMALL, wait_at_gate);
    while (atomic_load(&jobs_run) == before) {
        doze();
    }
}

static void every_job_runs_exactly_once(void **state)
{
    (void)state;
    enum {
        COUNT = 10000
    };
    static const uint64_t costs[] = {SMALL, LARGE, HUGE_COST};
    struct request *requests = calloc(COUNT, sizeof *requests);
    assert_int_equal(work_pool_create(3, &pool, NULL), STATUS_OK);
    for (int i = 0; i < COUNT; i++) {
        begin(&requests[i], NULL);
        work_submit(pool, &requests[i], costs[i % 3], count_job);
    }
    work_pool_destroy(pool); /* finishes the waiting jobs */
    assert_int_equal(atomic_load(&jobs_run), COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(requests[i].scan.retries, 1);
    }
    free(requests);
}

static void note_niceness(struct request *request)
{
    request->scan.retries = getpriority(PRIO_PROCESS, (id_t)gettid());
    atomic_fetch_add(&jobs_run, 1);
}

static void work_threads_let_the_thread_go_first_that_made_them(void **state)
{
    (void)state;
    int own = getpriority(PRIO_PROCESS, (id_t)gettid());
    struct request request;
    struct error err;
    begin(&request, NULL);
    assert_int_equal(work_pool_create(1, &pool, &err), STATUS_OK);
    work_submit(pool, &request, SMALL, note_niceness);
    work_pool_destroy(pool); /* waits for the job */
    assert_int_equal(atomic_load(&jobs_run), 1);
    assert_true(request.scan.retries > own || own == 19);
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)gettid()), own);
}

static void classes_are_served_in_turn_and_each_keeps_its_order(void **state)
{
    (void)state;
    struct request blocker;
    struct request small[3];
    struct request large[2];
    assert_int_equal(work_pool_create(1, &pool, NULL), STATUS_OK);
    block_thread(&blocker);
    for (int i = 0; i < 3; i++) {
        begin(&small[i], NULL);
        work_submit(pool, &small[i], SMALL, note_order);
    }
    for (int i = 0; i < 2; i++) {
        begin(&large[i], NULL);
        work_submit(pool, &large[i], LARGE, note_order);
    }
    assert_int_equal(line_count(work_line(pool), LINE_ALL), 5);
    atomic_store(&gate_open, true);
    work_pool_destroy(pool);
    assert_int_equal(large[0].scan.retries, 1); /* large jobs have the turn after a small one */
    assert_int_equal(small[0].scan.retries, 2);
    assert_int_equal(large[1].scan.retries, 3);
    assert_int_equal(small[1].scan.retries, 4);
    assert_int_equal(small[2].scan.retries, 5);
}

static void a_client_with_many_texts_lets_others_have_their_turns(void **state)
{
    (void)state;
    enum {
        COUNT = 100,
        COST = 64 << 10 /* cost of one turn */
    };
    struct client greedy = {.requests = 0};
    struct client modest = {.requests = 0};
    struct request blocker;
    static struct request many[COUNT];
    struct request few[2];
    assert_int_equal(work_pool_create(1, &pool, NULL), STATUS_OK);
    block_thread(&blocker);
    for (int i = 0; i < COUNT; i++) {
        begin(&many[i], &greedy);
        work_submit(pool, &many[i], COST, note_order);
    }
    for (int i = 0; i < 2; i++) {
        begin(&few[i], &modest);
        work_submit(pool, &few[i], COST, note_order);
    }
    atomic_store(&gate_open, true);
    work_pool_destroy(pool);
    assert_true(few[0].scan.retries <= 4);
    assert_true(few[1].scan.retries <= 6);
}

/* ---- interruption ---- */

static struct request small_one;
static struct request next_small_one;
static int seen_inside; /* number of jobs that had run when the large one continued */

/* A small text arrives while a large one is processed in steps. */
static void step_with_company(struct request *request)
{
    struct work_parallel codecs = work_parallel(pool, request);
    work_submit(pool, &small_one, SMALL, note_order);
    assert_true(parallel_step(&codecs.parallel));
    seen_inside = atomic_load(&jobs_run);
    note_order(request);
}

static void check_interrupted(uint64_t cost, bool expected)
{
    struct request request;
    begin(&request, NULL);
    begin(&small_one, NULL);
    atomic_store(&jobs_run, 0);
    assert_int_equal(work_pool_create(1, &pool, NULL), STATUS_OK);
    work_submit(pool, &request, cost, step_with_company);
    work_pool_destroy(pool);
    assert_int_equal(seen_inside, expected ? 1 : 0);
    assert_int_equal(atomic_load(&jobs_run), 2);
}

static void a_small_text_goes_between_two_steps_of_a_larger_one_and_of_no_other(void **state)
{
    (void)state;
    check_interrupted(HUGE_COST, true);
    check_interrupted(LARGE, true);
    check_interrupted(SMALL, false);
}

static void submit_piece(void *context, int index)
{
    (void)context;
    if (index == 0) {
        work_submit(pool, &small_one, SMALL, note_order);
    } else if (index == 1) {
        seen_inside = atomic_load(&jobs_run);
    }
}

static void pieces_with_company(struct request *request)
{
    struct work_parallel codecs = work_parallel(pool, request);
    assert_true(codecs.parallel.run(&codecs.parallel, 2, submit_piece, NULL));
}

static void a_small_text_goes_between_two_pieces_of_a_larger_one(void **state)
{
    (void)state;
    struct request request;
    begin(&request, NULL);
    begin(&small_one, NULL);
    assert_int_equal(work_pool_create(1, &pool, NULL), STATUS_OK);
    work_submit(pool, &request, LARGE, pieces_with_company);
    work_pool_destroy(pool);
    assert_int_equal(seen_inside, 1);
}

static void take_long(struct request *request)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    note_order(request);
}

static uint64_t rest_ns;

static void step_until_both_have_run(struct request *request)
{
    struct work_parallel codecs = work_parallel(pool, request);
    work_submit(pool, &small_one, SMALL, take_long);
    work_submit(pool, &next_small_one, SMALL, note_order);
    assert_true(parallel_step(&codecs.parallel));
    assert_int_equal(atomic_load(&jobs_run), 1);
    uint64_t first_ns = clock_now_ns();
    while (atomic_load(&jobs_run) < 2) {
        assert_true(parallel_step(&codecs.parallel));
    }
    rest_ns = clock_now_ns() - first_ns;
}

static void a_large_text_goes_on_for_as_long_as_it_was_interrupted(void **state)
{
    (void)state;
    struct request request;
    begin(&request, NULL);
    begin(&small_one, NULL);
    begin(&next_small_one, NULL);
    assert_int_equal(work_pool_create(1, &pool, NULL), STATUS_OK);
    work_submit(pool, &request, LARGE, step_until_both_have_run);
    work_pool_destroy(pool);
    assert_true(rest_ns >= 19 * NS_PER_MS);
}

static void a_loop_that_works_in_steps_itself_runs_nobody_elses_jobs(void **state)
{
    (void)state;
    struct request blocker;
    struct request request;
    begin(&request, NULL);
    begin(&small_one, NULL);
    request.line.cost_ns = HUGE_COST;
    assert_int_equal(work_pool_create(1, &pool, NULL), STATUS_OK);
    block_thread(&blocker);
    work_submit(pool, &small_one, SMALL, note_order);
    struct work_parallel codecs = work_parallel(pool, &request);
    assert_true(parallel_step(&codecs.parallel));
    assert_int_equal(line_count(work_line(pool), LINE_ALL), 1);
    atomic_store(&gate_open, true);
    work_pool_destroy(pool);
}

/* ---- cancellation ---- */

static void expect_posted(const struct request *request, enum status status)
{
    assert_ptr_equal(fake_await(&completion, &posted, 20000), request);
    assert_int_equal(request->error.status, status);
}

static void late_and_cancelled_work_ends_at_a_sweep(void **state)
{
    (void)state;
    struct request blocker;
    struct request late;
    struct request gone;
    struct request in_time;
    struct request patient;
    uint64_t now_ns = clock_now_ns();
    uint64_t far_ns = now_ns + 1000 * NS_PER_S;
    assert_int_equal(work_pool_create(1, &pool, NULL), STATUS_OK);
    block_thread(&blocker);
    begin(&late, NULL);
    begin(&gone, NULL);
    begin(&in_time, NULL);
    begin(&patient, NULL);
    late.arrival.deadline_ns = now_ns + 1;
    in_time.arrival.deadline_ns = far_ns;
    atomic_store(&gone.cancelled, true);
    work_submit(pool, &patient, SMALL, note_order);
    work_submit(pool, &late, LARGE, note_order);
    work_submit(pool, &in_time, LARGE, note_order);
    work_submit(pool, &gone, HUGE_COST, note_order);
    assert_int_equal(line_sweep(work_line(pool), now_ns + 2), far_ns);
    for (int i = 0; i < 2; i++) {
        struct request *ended = fake_await(&completion, &posted, 20000);
        assert_true(ended == &late || ended == &gone);
    }
    assert_int_equal(late.error.status, STATUS_DEADLINE_PASSED);
    assert_int_equal(gone.error.status, STATUS_CLIENT_GONE);
    assert_int_equal(line_count(work_line(pool), LINE_ALL), 2);
    atomic_store(&gate_open, true);
    work_pool_destroy(pool);
    assert_int_equal(atomic_load(&jobs_run), 3);
}

static void work_that_is_late_at_its_turn_is_not_begun(void **state)
{
    (void)state;
    struct request blocker;
    struct request late;
    assert_int_equal(work_pool_create(1, &pool, NULL), STATUS_OK);
    block_thread(&blocker);
    begin(&late, NULL);
    late.arrival.deadline_ns = clock_now_ns();
    work_submit(pool, &late, SMALL, note_order);
    atomic_store(&gate_open, true);
    expect_posted(&late, STATUS_DEADLINE_PASSED);
    work_pool_destroy(pool);
    assert_int_equal(atomic_load(&jobs_run), 1);
}

static void a_step_says_when_the_deadline_has_passed_or_the_client_is_gone(void **state)
{
    (void)state;
    struct request request;
    begin(&request, NULL);
    assert_int_equal(work_pool_create(1, &pool, NULL), STATUS_OK);
    struct work_parallel codecs = work_parallel(pool, &request);
    assert_true(parallel_step(&codecs.parallel));
    assert_false(work_given_up(&request));
    request.arrival.deadline_ns = clock_now_ns() + 1000 * NS_PER_S;
    assert_true(parallel_step(&codecs.parallel));
    request.arrival.deadline_ns = clock_now_ns();
    assert_false(parallel_step(&codecs.parallel));
    assert_true(work_given_up(&request));
    assert_int_equal(request.error.status, STATUS_DEADLINE_PASSED);
    atomic_store(&request.cancelled, true);
    assert_false(parallel_step(&codecs.parallel));
    assert_true(work_given_up(&request));
    assert_int_equal(request.error.status, STATUS_CLIENT_GONE);
    work_pool_destroy(pool);
}

/* ---- estimated wait ---- */

static uint64_t wait_of(struct client *client, uint64_t cost_ns)
{
    const struct request request = {.arrival.client = client};
    return line_wait_ns(work_line(pool), &request, cost_ns);
}

static void the_wait_grows_with_what_is_ahead(void **state)
{
    (void)state;
    enum {
        COUNT = 50
    };
    struct client other = {.requests = 0};
    struct request blocker;
    struct request first;
    struct request large;
    static struct request many[COUNT];
    assert_int_equal(work_pool_create(1, &pool, NULL), STATUS_OK);
    assert_int_equal(wait_of(&fake_client, SMALL), 0); /* no measurement yet */
    begin(&first, NULL);
    work_submit(pool, &first, LARGE, take_long); /* 20 ms */
    while (atomic_load(&jobs_run) < 1) {
        doze();
    }
    block_thread(&blocker);
    uint64_t before_ns = wait_of(&fake_client, LINE_CLASS_NS[1]);
    for (int i = 0; i < COUNT; i++) {
        begin(&many[i], NULL);
        work_submit(pool, &many[i], LINE_CLASS_NS[1], note_order);
    }
    uint64_t behind_ns = wait_of(&fake_client, LINE_CLASS_NS[1]);
    uint64_t beside_ns = wait_of(&other, LINE_CLASS_NS[1]);
    begin(&large, NULL);
    work_submit(pool, &large, HUGE_COST, note_order);
    uint64_t shared_ns = wait_of(&fake_client, LINE_CLASS_NS[1]);
    assert_true(shared_ns > behind_ns + HUGE_COST); /* other classes get turns, too */
    assert_true(before_ns < 5 * NS_PER_MS);
    assert_true(behind_ns >= COUNT * 19 * NS_PER_MS);
    assert_true(beside_ns > 0 && beside_ns < behind_ns / 10); /* a turn of the other client */
    atomic_store(&gate_open, true);
    const uint64_t give_up_ns = clock_now_ns() + 20 * NS_PER_S;
    while (wait_of(&other, LINE_CLASS_NS[1]) > 0) {
        assert_true(clock_now_ns() < give_up_ns); /* all jobs end soon */
        doze();
    }
    work_pool_destroy(pool);
}

/* ---- pieces ---- */

enum {
    PIECES = 500
};

struct pieces {
    atomic_int run[PIECES];
    atomic_int inside;      /* number of pieces that are running now */
    atomic_int most_inside; /* largest number so far */
    struct request *cancel; /* cancelled by piece `cancel_at` */
    int cancel_at;
};

static void raise_to(atomic_int *most, int value)
{
    int seen = atomic_load(most);
    while (seen < value && !atomic_compare_exchange_weak(most, &seen, value)) {
    }
}

static void run_piece(void *context, int index)
{
    struct pieces *pieces = context;
    raise_to(&pieces->most_inside, atomic_fetch_add(&pieces->inside, 1) + 1);
    doze();
    atomic_fetch_add(&pieces->run[index], 1);
    atomic_fetch_sub(&pieces->inside, 1);
}

/* No piece ends before two have run at the same time. */
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

/* A piece in the middle cancels the request; later pieces wait for that. */
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

/* A piece in the middle lets the deadline pass; later pieces wait for that. */
static void run_and_be_late(void *context, int index)
{
    struct pieces *pieces = context;
    while (index >= pieces->cancel_at && clock_now_ns() < pieces->cancel->arrival.deadline_ns) {
        doze();
    }
    atomic_fetch_add(&pieces->run[index], 1);
}

/* The work of run_crew(), and its result. */
static struct crew {
    parallel_piece piece;
    struct pieces *pieces;
    atomic_bool through;
} crew;

static void run_crew(struct request *request)
{
    struct work_parallel codecs = work_parallel(pool, request);
    crew.through = codecs.parallel.run(&codecs.parallel, PIECES, crew.piece, crew.pieces);
}

/* Ten rounds: between two rounds the threads sleep, and each round must wake them. */
static void pieces_run_once_each_on_several_threads(void **state)
{
    (void)state;
    static struct pieces pieces;
    const uint64_t give_up_ns = clock_now_ns() + 60 * NS_PER_S;
    assert_int_equal(work_pool_create(3, &pool, NULL), STATUS_OK);
    for (int round = 0; round < 10; round++) {
        struct request request;
        begin(&request, NULL);
        memset(&pieces, 0, sizeof pieces);
        crew = (struct crew){run_in_company, &pieces, false};
        work_submit(pool, &request, SMALL, run_crew);
        while (!atomic_load(&crew.through)) {
            assert_true(clock_now_ns() < give_up_ns);
            doze();
        }
        assert_int_equal(atomic_load(&pieces.inside), 0);
        for (int i = 0; i < PIECES; i++) {
            assert_int_equal(atomic_load(&pieces.run[i]), 1);
        }
        assert_in_range(atomic_load(&pieces.most_inside), 2, 3);
    }
    work_pool_destroy(pool);
}

struct own_pieces {
    pthread_t loop;
    atomic_int elsewhere; /* number of pieces that another thread ran */
};

/* Piece 0 waits until a thread of the pool has run another job. If the pool also ran pieces,
 * that thread would have run pieces 1 and 2 first. */
static void run_where_it_was_asked_for(void *context, int index)
{
    struct own_pieces *own = context;
    atomic_fetch_add(&own->elsewhere, pthread_equal(pthread_self(), own->loop) == 0);
    if (index == 0) {
        work_submit(pool, &small_one, SMALL, note_order);
        while (atomic_load(&jobs_run) == 0) {
            doze();
        }
    }
}

static void a_loop_runs_its_pieces_itself_and_waits_for_nobody(void **state)
{
    (void)state;
    struct request request;
    struct own_pieces own = {.loop = pthread_self()};
    begin(&request, NULL);
    begin(&small_one, NULL);
    assert_int_equal(work_pool_create(1, &pool, NULL), STATUS_OK);
    struct work_parallel codecs = work_parallel(pool, &request);
    assert_true(codecs.parallel.run(&codecs.parallel, 3, run_where_it_was_asked_for, &own));
    assert_int_equal(atomic_load(&own.elsewhere), 0);
    assert_int_equal(atomic_load(&jobs_run), 1);
    work_pool_destroy(pool);
}

static atomic_int crews_through;

static void job_in_pieces(struct request *request)
{
    struct pieces *pieces = calloc(1, sizeof *pieces);
    struct work_parallel codecs = work_parallel(pool, request);
    bool through = codecs.parallel.run(&codecs.parallel, PIECES / 10, run_piece, pieces);
    for (int i = 0; i < PIECES / 10; i++) {
        through = through && atomic_load(&pieces->run[i]) == 1;
    }
    atomic_fetch_add(&crews_through, through);
    free(pieces);
}

static void jobs_of_a_crowded_pool_share_their_pieces(void **state)
{
    (void)state;
    static const uint64_t costs[] = {SMALL, LARGE, HUGE_COST};
    struct request requests[21];
    atomic_store(&crews_through, 0);
    assert_int_equal(work_pool_create(3, &pool, NULL), STATUS_OK);
    for (int i = 0; i < 21; i++) {
        begin(&requests[i], NULL);
        work_submit(pool, &requests[i], costs[i % 3], job_in_pieces);
    }
    work_pool_destroy(pool);
    assert_int_equal(atomic_load(&crews_through), 21);
}

static void check_given_up(struct request *request, struct pieces *pieces, parallel_piece piece)
{
    crew = (struct crew){piece, pieces, true};
    pieces->cancel = request;
    pieces->cancel_at = 10;
    assert_int_equal(work_pool_create(3, &pool, NULL), STATUS_OK);
    work_submit(pool, request, SMALL, run_crew);
    work_pool_destroy(pool);
    assert_false(crew.through);
    int run = 0;
    for (int i = 0; i < PIECES; i++) {
        run += atomic_load(&pieces->run[i]);
    }
    assert_in_range(run, 11, 13);
}

static void pieces_of_a_cancelled_request_are_left(void **state)
{
    (void)state;
    static struct pieces pieces;
    struct request request;
    begin(&request, NULL);
    check_given_up(&request, &pieces, run_and_cancel);
}

static void pieces_of_a_request_past_its_deadline_are_left(void **state)
{
    (void)state;
    static struct pieces pieces;
    struct request request;
    begin(&request, NULL);
    request.arrival.deadline_ns = clock_now_ns() + 100 * NS_PER_MS;
    check_given_up(&request, &pieces, run_and_be_late);
}

static void destroying_nothing_is_fine(void **state)
{
    (void)state;
    work_pool_destroy(NULL);
    assert_int_equal(work_pool_create(2, &pool, NULL), STATUS_OK);
    work_pool_destroy(pool);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(every_job_runs_exactly_once),
        CASE(work_threads_let_the_thread_go_first_that_made_them),
        CASE(classes_are_served_in_turn_and_each_keeps_its_order),
        CASE(a_client_with_many_texts_lets_others_have_their_turns),
        CASE(a_small_text_goes_between_two_steps_of_a_larger_one_and_of_no_other),
        CASE(a_small_text_goes_between_two_pieces_of_a_larger_one),
        CASE(a_large_text_goes_on_for_as_long_as_it_was_interrupted),
        CASE(a_loop_that_works_in_steps_itself_runs_nobody_elses_jobs),
        CASE(late_and_cancelled_work_ends_at_a_sweep),
        CASE(work_that_is_late_at_its_turn_is_not_begun),
        CASE(a_step_says_when_the_deadline_has_passed_or_the_client_is_gone),
        CASE(the_wait_grows_with_what_is_ahead),
        CASE(pieces_run_once_each_on_several_threads),
        CASE(a_loop_runs_its_pieces_itself_and_waits_for_nobody),
        CASE(jobs_of_a_crowded_pool_share_their_pieces),
        CASE(pieces_of_a_cancelled_request_are_left),
        CASE(pieces_of_a_request_past_its_deadline_are_left),
        CASE(destroying_nothing_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
