/* text_turn.h: which texts an HTTP thread converts itself, and when. */
#include "server/sched/text_turn.h"
#include "tests/lib/unit.h"
#include "tests/unit/fake_request.h"

enum {
    MOST = 100 << 10,
    HALF = TEXT_TURN_BYTES / 2
};

static void texts_are_converted_here_until_a_turn_has_enough_of_them(void **state)
{
    struct text_turn turn = {0};
    (void)state;
    assert_int_equal(text_turn_place(&turn, HALF, MOST), TEXT_NOW);
    assert_int_equal(text_turn_place(&turn, HALF, MOST), TEXT_NOW);
    assert_int_equal(text_turn_place(&turn, HALF, MOST), TEXT_LATER);
    text_turn_begin(&turn);
    assert_int_equal(text_turn_place(&turn, HALF, MOST), TEXT_NOW);
}

static void a_short_text_never_waits(void **state)
{
    struct text_turn turn = {0};
    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(text_turn_place(&turn, TEXT_TURN_SHORT_BYTES, MOST), TEXT_NOW);
    }
    assert_int_equal(text_turn_place(&turn, TEXT_TURN_SHORT_BYTES + 1, MOST), TEXT_LATER);
}

static void the_first_of_a_turn_may_be_longer_than_all_others_together(void **state)
{
    struct text_turn turn = {0};
    (void)state;
    assert_int_equal(text_turn_place(&turn, 2 * TEXT_TURN_BYTES, 2 * TEXT_TURN_BYTES),
                     TEXT_NOW);
    assert_int_equal(text_turn_place(&turn, HALF, 2 * TEXT_TURN_BYTES), TEXT_LATER);
}

static void a_text_beyond_the_limit_is_for_the_codec_pool(void **state)
{
    struct text_turn turn = {0};
    (void)state;
    assert_int_equal(text_turn_place(&turn, MOST + 1, MOST), TEXT_ELSEWHERE);
    assert_int_equal(text_turn_place(&turn, 1, 0), TEXT_ELSEWHERE);
    assert_int_equal(text_turn_place(&turn, 0, 0), TEXT_NOW); /* there is none */
}

static void those_that_wait_have_later_turns_in_their_order(void **state)
{
    struct text_turn turn = {0};
    struct request requests[3] = {{.line.cost = 0}};
    (void)state;
    while (text_turn_place(&turn, HALF, MOST) == TEXT_NOW) {
    }
    for (int i = 0; i < 3; i++) {
        assert_false(i == 0 && text_turn_waits(&turn));
        text_turn_wait(&turn, &requests[i], HALF);
        assert_true(text_turn_waits(&turn));
    }
    assert_null(text_turn_next(&turn)); /* the turn is full */
    for (int i = 0; i < 3; i++) {
        if (i % 2 == 0) {
            text_turn_begin(&turn);
        }
        assert_ptr_equal(text_turn_next(&turn), &requests[i]);
        assert_null(requests[i].line.next);
        assert_int_equal(text_turn_place(&turn, HALF, MOST), TEXT_NOW);
    }
    assert_null(text_turn_next(&turn));
    assert_false(text_turn_waits(&turn));
    assert_int_equal(turn.waiting_bytes, 0);
}

/* 8 of one client before the first of as many others as can wait. */
static void every_client_whose_texts_wait_has_turns_of_its_own(void **state)
{
    enum {
        MANY = 8,
        OTHERS = TEXT_TURN_WAITING_BYTES / TEXT_TURN_SHORT_BYTES - 1
    };
    static struct text_turn turn;
    static struct client greedy;
    static struct client others[OTHERS];
    static struct request requests[MANY + OTHERS];
    (void)state;
    for (size_t i = 0; i < MANY + OTHERS; i++) {
        requests[i].arrival.client = i < MANY ? &greedy : &others[i - MANY];
        text_turn_wait(&turn, &requests[i], HALF);
    }
    const struct request *expected = requests; /* one of each, then what is left of the first */
    for (size_t i = 0; i < MANY + OTHERS; i++) {
        text_turn_begin(&turn);
        assert_ptr_equal(text_turn_next(&turn), expected);
        expected = i == 0 ? &requests[MANY] : i == OTHERS ? &requests[1] : expected + 1;
    }
    assert_false(text_turn_waits(&turn));
}

/* Also where it had its turn just now. */
static void who_comes_back_waits_for_one_of_each_client(void **state)
{
    struct text_turn turn = {0};
    struct client clients[2] = {{0}};
    struct request requests[4] = {{.arrival.client = &clients[0]},
                                  {.arrival.client = &clients[1]},
                                  {.arrival.client = &clients[0]},
                                  {.arrival.client = &clients[1]}};
    (void)state;
    text_turn_wait(&turn, &requests[0], HALF);
    text_turn_wait(&turn, &requests[1], HALF);
    text_turn_wait(&turn, &requests[3], HALF);
    for (size_t i = 0; i < 4; i++) {
        text_turn_begin(&turn);
        assert_ptr_equal(text_turn_next(&turn), &requests[i]);
        if (i == 0) {
            text_turn_wait(&turn, &requests[2], HALF);
        }
    }
}

static void no_more_wait_than_a_few_turns_take(void **state)
{
    struct text_turn turn = {0};
    struct request requests[TEXT_TURN_WAITING_BYTES / HALF] = {{.arrival.client = NULL}};
    (void)state;
    while (text_turn_place(&turn, HALF, MOST) == TEXT_NOW) {
    }
    for (int i = 0; i < TEXT_TURN_WAITING_BYTES / HALF; i++) {
        assert_int_equal(text_turn_place(&turn, HALF, MOST), TEXT_LATER);
        text_turn_wait(&turn, &requests[i], HALF);
    }
    assert_int_equal(text_turn_place(&turn, HALF, MOST), TEXT_ELSEWHERE);
    text_turn_begin(&turn);
    assert_ptr_equal(text_turn_next(&turn), &requests[0]);
    assert_int_equal(text_turn_place(&turn, HALF, MOST), TEXT_NOW); /* the one taken */
    assert_int_equal(text_turn_place(&turn, HALF, MOST), TEXT_NOW);
    assert_int_equal(text_turn_place(&turn, HALF, MOST), TEXT_LATER);
}

static void a_client_has_sent_enough_while_more_of_it_waits_than_a_turn_takes(void **state)
{
    struct text_turn turn = {0};
    struct client clients[2] = {{0}};
    struct request requests[4] = {{.arrival.client = &clients[0]},
                                  {.arrival.client = &clients[0]},
                                  {.arrival.client = &clients[1]},
                                  {.arrival.client = &clients[0]}};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_false(text_turn_has_enough(&turn, &clients[0]));
        text_turn_wait(&turn, &requests[i], HALF);
    }
    assert_true(text_turn_has_enough(&turn, &clients[0]));
    assert_false(text_turn_has_enough(&turn, &clients[1]));
    text_turn_begin(&turn);
    assert_ptr_equal(text_turn_next(&turn), &requests[0]);
    assert_false(text_turn_has_enough(&turn, &clients[0]));
    while (text_turn_next(&turn) != NULL) {
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_converted_here_until_a_turn_has_enough_of_them),
        cmocka_unit_test(a_short_text_never_waits),
        cmocka_unit_test(the_first_of_a_turn_may_be_longer_than_all_others_together),
        cmocka_unit_test(a_text_beyond_the_limit_is_for_the_codec_pool),
        cmocka_unit_test(those_that_wait_have_later_turns_in_their_order),
        cmocka_unit_test(every_client_whose_texts_wait_has_turns_of_its_own),
        cmocka_unit_test(who_comes_back_waits_for_one_of_each_client),
        cmocka_unit_test(no_more_wait_than_a_few_turns_take),
        cmocka_unit_test(a_client_has_sent_enough_while_more_of_it_waits_than_a_turn_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
