/* Turns of flows (server/sched/ring.h): which flow is next, and the effect of a debt. */
#include "server/sched/ring.h"

#include "tests/lib/unit.h"

#include <stdlib.h>

enum {
    QUANTUM = 1000,
    DEBT = 1000 * QUANTUM
};

static struct ring ring;
static struct ring_flow flows[3];

static int set_up(void **state)
{
    (void)state;
    ring_init(&ring, QUANTUM);
    for (size_t i = 0; i < 3; i++) {
        flows[i] = (struct ring_flow){0};
    }
    return 0;
}

/* Return the next flow of a ring that is not empty. */
static struct ring_flow *turn(void)
{
    struct ring_flow *flow = ring_turn(&ring);
    if (flow == NULL) {
        abort();
    }
    return flow;
}

/* Do one piece of work of the flow that is next. Returns the index of that flow. */
static size_t work(const uint64_t cost_ns[3])
{
    struct ring_flow *flow = turn();
    const size_t index = (size_t)(flow - flows);
    ring_pay(&ring, flow, cost_ns[index], DEBT);
    return index;
}

static void flows_share_the_time_whatever_their_pieces_cost(void **state)
{
    static const uint64_t cost_ns[3] = {100, 2500, 40000};
    uint64_t spent_ns[3] = {0};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        ring_enter(&ring, &flows[i]);
    }
    for (int piece = 0; piece < 20000; piece++) {
        const size_t i = work(cost_ns);
        spent_ns[i] += cost_ns[i];
    }
    for (size_t i = 0; i < 3; i++) {
        assert_in_range(spent_ns[i], spent_ns[0] - 50000, spent_ns[0] + 50000);
    }
}

/* A flow that leaves the ring for each piece of work, as a client with one connection does. */
static void a_flow_that_leaves_and_enters_again_has_the_same_share(void **state)
{
    static const uint64_t cost_ns[3] = {700, 1700, 0};
    uint64_t spent_ns[2] = {0};
    (void)state;
    ring_enter(&ring, &flows[0]);
    ring_enter(&ring, &flows[1]);
    for (int piece = 0; piece < 20000; piece++) {
        struct ring_flow *flow = turn();
        const size_t i = (size_t)(flow - flows);
        ring_leave(&ring, flow);
        ring_pay(&ring, flow, cost_ns[i], DEBT);
        ring_enter(&ring, flow);
        spent_ns[i] += cost_ns[i];
    }
    assert_in_range(spent_ns[1], spent_ns[0] * 9 / 10, spent_ns[0] * 11 / 10);
}

static void a_flow_that_was_alone_has_no_debt_but_loses_the_turn(void **state)
{
    static const uint64_t cost_ns[3] = {90 * QUANTUM, QUANTUM, 0};
    (void)state;
    ring_enter(&ring, &flows[0]);
    for (int piece = 0; piece < 9; piece++) {
        assert_int_equal(work(cost_ns), 0);
    }
    ring_enter(&ring, &flows[1]);
    assert_int_equal(work(cost_ns), 1);
    assert_int_equal(work(cost_ns), 0);
}

static void a_debt_is_paid_in_rounds_also_outside_of_the_ring(void **state)
{
    static const uint64_t cost_ns[3] = {8 * QUANTUM, QUANTUM, QUANTUM};
    (void)state;
    ring_enter(&ring, &flows[0]);
    ring_enter(&ring, &flows[1]);
    assert_int_equal(work(cost_ns), 0); /* now the debt is seven quanta */
    ring_leave(&ring, &flows[0]);
    ring_enter(&ring, &flows[2]);
    for (int piece = 0; piece < 6; piece++) { /* three rounds */
        (void)work(cost_ns);
    }
    ring_enter(&ring, &flows[0]);
    int before = 0;
    while (work(cost_ns) != 0) {
        before++;
    }
    assert_in_range(before, 7, 10); /* four rounds */
}

static void no_credit_is_saved_outside_of_the_ring(void **state)
{
    static const uint64_t cost_ns[3] = {QUANTUM, QUANTUM, 0};
    int of_first = 0;
    (void)state;
    ring_enter(&ring, &flows[0]);
    ring_leave(&ring, &flows[0]);
    ring_enter(&ring, &flows[1]);
    for (int piece = 0; piece < 100; piece++) {
        (void)work(cost_ns);
    }
    ring_enter(&ring, &flows[0]);
    for (int piece = 0; piece < 10; piece++) {
        of_first += work(cost_ns) == 0;
    }
    assert_in_range(of_first, 5, 6);
}

/* The debts are as large as many rounds. ring_turn() gives all flows at once the rounds that
 * the flow with the smallest debt lacks. */
static void when_all_flows_have_large_debts_the_smallest_one_has_the_turn(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        ring_enter(&ring, &flows[i]);
    }
    for (size_t i = 0; i < 3; i++) {
        ring_pay(&ring, &flows[i], (i == 1 ? 100 : 900) * QUANTUM, DEBT);
    }
    assert_ptr_equal(ring_turn(&ring), &flows[1]);
    ring_leave(&ring, &flows[1]);
    assert_in_range(flows[0].credit_ns, -801 * QUANTUM, -798 * QUANTUM);
}

static void a_ring_without_flows_has_no_turn(void **state)
{
    (void)state;
    assert_null(ring_turn(&ring));
    ring_enter(&ring, &flows[0]);
    assert_ptr_equal(ring_next(&ring, &flows[0]), &flows[0]);
    ring_leave(&ring, &flows[0]);
    assert_null(ring_turn(&ring));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(flows_share_the_time_whatever_their_pieces_cost, set_up),
        cmocka_unit_test_setup(a_flow_that_leaves_and_enters_again_has_the_same_share, set_up),
        cmocka_unit_test_setup(a_flow_that_was_alone_has_no_debt_but_loses_the_turn, set_up),
        cmocka_unit_test_setup(a_debt_is_paid_in_rounds_also_outside_of_the_ring, set_up),
        cmocka_unit_test_setup(no_credit_is_saved_outside_of_the_ring, set_up),
        cmocka_unit_test_setup(when_all_flows_have_large_debts_the_smallest_one_has_the_turn,
                               set_up),
        cmocka_unit_test_setup(a_ring_without_flows_has_no_turn, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
