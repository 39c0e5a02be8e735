/* completion.h: order, wake-ups, and many concurrent posters. */
#include "server/base/clock.h"
#include "tests/lib/unit.h"
#include "tests/unit/fake_request.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

static int set_up(void **state)
{
    struct completion *completion = calloc(1, sizeof *completion);
    *state = completion;
    return completion_init(completion, NULL) != STATUS_OK;
}

static int tear_down(void **state)
{
    completion_deinit(*state);
    free(*state);
    return 0;
}

static bool readable(const struct completion *completion)
{
    struct pollfd pollfd = {.fd = completion->fd, .events = POLLIN};
    return poll(&pollfd, 1, 0) == 1;
}

static void an_empty_list_gives_nothing_and_is_not_readable(void **state)
{
    struct completion *completion = *state;
    assert_false(readable(completion));
    assert_null(completion_take(completion));
}

static void posted_requests_are_collected_oldest_first(void **state)
{
    struct completion *completion = *state;
    struct request a = {.line.next = NULL};
    struct request c = {.line.next = NULL};
    struct request b = {.line.next = &c};
    struct request d = {.line.next = NULL};
    completion_post(completion, &a);
    completion_post(completion, &b); /* a chain of two */
    completion_post(completion, &d);
    assert_true(readable(completion));
    struct request *taken = completion_take(completion);
    assert_ptr_equal(taken, &a);
    assert_ptr_equal(a.line.next, &b);
    assert_ptr_equal(b.line.next, &c);
    assert_ptr_equal(c.line.next, &d);
    assert_null(d.line.next);
    assert_false(readable(completion));
    assert_null(completion_take(completion));
}

static void only_the_first_post_wakes_the_loop(void **state)
{
    struct completion *completion = *state;
    struct request requests[3] = {0};
    for (int i = 0; i < 3; i++) {
        completion_post(completion, &requests[i]);
    }
    uint64_t wakes = 0;
    assert_int_equal(read(completion->fd, &wakes, sizeof wakes), sizeof wakes);
    assert_int_equal(wakes, 1);
}

static void a_failed_request_is_posted_with_its_first_error(void **state)
{
    struct completion *completion = *state;
    struct request request = {.completion = completion};
    completion_fail(&request, STATUS_DEVICE_ERROR, "device %d is gone", 3);
    assert_ptr_equal(completion_take(completion), &request);
    assert_int_equal(request.error.status, STATUS_DEVICE_ERROR);
    assert_string_equal(request.error.detail, "device 3 is gone");
    assert_true(request.times.finished != 0);
    completion_fail(&request, STATUS_INTERNAL, "later");
    assert_ptr_equal(completion_take(completion), &request);
    assert_string_equal(request.error.detail, "device 3 is gone");
}

enum {
    POSTERS = 4,
    POSTS = 20000
};

struct poster {
    struct completion *completion;
    struct request *requests;
    pthread_t thread;
};

static void a_refusal_tells_a_deadline_that_has_passed_from_one_that_will(void **state)
{
    struct request request = {.arrival.deadline_ns = 0};
    struct error err = ERROR_INIT;
    (void)state;
    assert_int_equal(request_check_wait(&request, 3600 * NS_PER_S, &err), STATUS_OK);
    request.arrival.deadline_ns = clock_now_ns() + 3600 * NS_PER_S;
    assert_int_equal(request_check_wait(&request, 1800 * NS_PER_S, &err), STATUS_OK);
    assert_int_equal(request_check_wait(&request, 3601 * NS_PER_S, &err), STATUS_QUEUE_FULL);
    assert_non_null(strstr(err.detail, "takes about 3601000.0 ms"));
    request.arrival.deadline_ns = clock_now_ns();
    assert_int_equal(request_check_wait(&request, 0, &err), STATUS_DEADLINE_PASSED);
    assert_int_equal(request_check_wait(&request, 3600 * NS_PER_S, &err),
                     STATUS_DEADLINE_PASSED);
}

static void *post_all(void *argument)
{
    struct poster *poster = argument;
    for (int i = 0; i < POSTS; i++) {
        poster->requests[i].scan.retries = i;
        completion_post(poster->completion, &poster->requests[i]);
    }
    return NULL;
}

static void no_post_is_lost_or_overtaken_among_threads(void **state)
{
    struct completion *completion = *state;
    struct poster posters[POSTERS];
    int next[POSTERS] = {0};
    for (int i = 0; i < POSTERS; i++) {
        posters[i].completion = completion;
        posters[i].requests = calloc(POSTS, sizeof(struct request));
        for (int k = 0; k < POSTS; k++) {
            posters[i].requests[k].scan.device = i;
        }
        assert_int_equal(pthread_create(&posters[i].thread, NULL, post_all, &posters[i]), 0);
    }
    uint64_t give_up_ns = clock_now_ns() + 60 * NS_PER_S;
    for (int got = 0; got < POSTERS * POSTS && clock_now_ns() < give_up_ns;) {
        struct request *rest = NULL;
        for (struct request *r = fake_await(completion, &rest, 1000); r != NULL; got++) {
            assert_int_equal(r->scan.retries, next[r->scan.device]++);
            r = rest == NULL ? NULL : fake_await(completion, &rest, 0);
        }
    }
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(posters[i].thread, NULL);
        assert_int_equal(next[i], POSTS);
        free(posters[i].requests);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_empty_list_gives_nothing_and_is_not_readable, set_up,
                                        tear_down),
        cmocka_unit_test(a_refusal_tells_a_deadline_that_has_passed_from_one_that_will),
        cmocka_unit_test_setup_teardown(posted_requests_are_collected_oldest_first, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(only_the_first_post_wakes_the_loop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failed_request_is_posted_with_its_first_error, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(no_post_is_lost_or_overtaken_among_threads, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
