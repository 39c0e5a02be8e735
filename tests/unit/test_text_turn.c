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
    struct request requests[3] = {{.cost = 0}};
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
        assert_null(requests[i].next);
        assert_int_equal(text_turn_place(&turn, HALF, MOST), TEXT_NOW);
    }
    assert_null(text_turn_next(&turn));
    assert_false(text_turn_waits(&turn));
    assert_int_equal(turn.waiting_bytes, 0);
}

/* 8 of one client before the first of others, of which there are more than lines. */
static void clients_whose_texts_wait_are_served_in_turn(void **state)
{
    enum {
        MANY = 8,
        OTHERS = TEXT_TURN_LINES + 2
    };
    struct text_turn turn = {0};
    struct client greedy = {0};
    struct client others[OTHERS] = {{0}};
    struct request requests[MANY + OTHERS] = {{.cost = 0}};
    size_t place[MANY + OTHERS];
    (void)state;
    for (size_t i = 0; i < MANY + OTHERS; i++) {
        requests[i].client = i < MANY ? &greedy : &others[i - MANY];
        text_turn_wait(&turn, &requests[i], HALF);
    }
    for (size_t i = 0; i < MANY + OTHERS; i++) {
        text_turn_begin(&turn);
        const struct request *taken = text_turn_next(&turn);
        assert_non_null(taken);
        place[taken - requests] = i;
    }
    assert_false(text_turn_waits(&turn));
    assert_int_equal(place[0], 0);
    for (size_t i = 1; i < MANY; i++) { /* its own in their order, but after one of each line */
        assert_true(place[i] > place[i - 1]);
        assert_true(place[i] >= TEXT_TURN_LINES);
    }
    for (size_t i = MANY; i < MANY + TEXT_TURN_LINES - 1; i++) {
        assert_true(place[i] < TEXT_TURN_LINES);
    }
}

static void no_more_wait_than_a_few_turns_take(void **state)
{
    struct text_turn turn = {0};
    struct request requests[TEXT_TURN_WAITING_BYTES / HALF];
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_converted_here_until_a_turn_has_enough_of_them),
        cmocka_unit_test(a_short_text_never_waits),
        cmocka_unit_test(the_first_of_a_turn_may_be_longer_than_all_others_together),
        cmocka_unit_test(a_text_beyond_the_limit_is_for_the_codec_pool),
        cmocka_unit_test(those_that_wait_have_later_turns_in_their_order),
        cmocka_unit_test(clients_whose_texts_wait_are_served_in_turn),
        cmocka_unit_test(no_more_wait_than_a_few_turns_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
