/* line.h: the effect of a request's priority on a line. */
#include "server/sched/line.h"

#include "proto/macros.h"
#include "tests/lib/unit.h"
#include "tests/unit/fake_request.h"

#include <string.h>

enum {
    CLASS = LINE_CLASSES - 1, /* the only class of this line */
    QUANTUM = 1000
};

static struct line line;
static uint64_t tickets;

static int set_up(void **state)
{
    (void)state;
    line_init(&line, LINE_ADMISSION);
    line.classes[CLASS].ring.quantum_ns = QUANTUM;
    return 0;
}

static struct request *make(struct client *client, bool high, uint64_t cost)
{
    struct request *request = calloc(1, sizeof *request);
    assert_non_null(request);
    request->arrival.client = client;
    request->arrival.high = high;
    request->line.cost_ns = cost;
    request->line.ticket = ++tickets;
    return request;
}

static struct request *push(struct client *client, bool high, uint64_t cost)
{
    struct request *request = make(client, high, cost);
    line_push(&line, request, false);
    return request;
}

static struct request *take(void)
{
    struct line_cursor cursor = line_begin(&line, CLASS);
    return cursor.current == NULL ? NULL : line_take(&cursor);
}

/* Take a request of a line that is not empty. */
static struct request *take_one(void)
{
    struct request *taken = take();
    if (taken == NULL) {
        abort();
    }
    return taken;
}

/* Return the class that is served next; LINE_CLASSES: none. */
static unsigned next_class(const struct line *of)
{
    for (unsigned i = 0; i < LINE_CLASSES; i++) {
        const unsigned c = (of->turn + i) % LINE_CLASSES;
        if (line_count(of, 1U << c) > 0) {
            return c;
        }
    }
    return LINE_CLASSES;
}

static void expect(struct request *expected)
{
    struct request *taken = take_one();
    assert_ptr_equal(taken, expected);
    free(taken);
}

static void high_goes_first_and_each_priority_keeps_its_order(void **state)
{
    struct client client = {0};
    (void)state;
    struct request *normal[2] = {push(&client, false, 1), push(&client, false, 1)};
    struct request *high[2] = {push(&client, true, 1), push(&client, true, 1)};
    expect(high[0]);
    expect(high[1]);
    expect(normal[0]);
    expect(normal[1]);
    assert_null(take());
}

static void a_client_that_never_stops_sending_high_gets_every_fifth_of_its_others(void **state)
{
    struct client client = {0};
    (void)state;
    for (int i = 0; i < 10; i++) {
        (void)push(&client, false, 1);
        (void)push(&client, true, 1);
    }
    for (int i = 0; i < 50; i++) {
        struct request *taken = take_one();
        assert_int_equal(taken->arrival.high, i % (LINE_HIGH_IN_ROW + 1) != LINE_HIGH_IN_ROW);
        free(taken);
        (void)push(&client, true, 1);
    }
    for (struct request *rest = take(); rest != NULL; rest = take()) {
        free(rest);
    }
}

static void high_goes_before_the_turn_of_others_for_a_bounded_time(void **state)
{
    struct client busy[2] = {{0}, {0}};
    (void)state;
    for (int i = 0; i < 10; i++) {
        (void)push(&busy[0], false, QUANTUM);
        (void)push(&busy[1], false, QUANTUM);
    }
    int served[2] = {0, 0};
    for (int i = 0; i < 50; i++) { /* each round has a new client of high priority */
        struct client visitor = {0};
        struct request *high = push(&visitor, true, 1);
        struct request *taken = take_one();
        bool early = i % (LINE_HIGH_IN_ROW + 1) != LINE_HIGH_IN_ROW;
        assert_int_equal(taken == high, early);
        if (!early) {
            served[taken->arrival.client == &busy[1]]++;
            expect(high);
            i++; /* the request of high priority counts in the next row */
        }
        free(taken);
    }
    assert_in_range(served[0], served[1] - 1, served[1] + 1);
    assert_true(served[0] + served[1] >= 8);
    for (struct request *rest = take(); rest != NULL; rest = take()) {
        free(rest);
    }
}

static void high_priority_gives_a_client_no_larger_share(void **state)
{
    struct client eager = {0};
    struct client patient = {0};
    uint64_t costs[2] = {0, 0};
    (void)state;
    for (int i = 0; i < 400; i++) {
        (void)push(&eager, true, 100);
        (void)push(&patient, false, 100);
    }
    for (int i = 0; i < 400; i++) {
        struct request *taken = take_one();
        costs[taken->arrival.high] += taken->line.cost_ns;
        free(taken);
    }
    assert_in_range(costs[1], costs[0] * 9 / 10, costs[0] * 11 / 10);
    for (struct request *rest = take(); rest != NULL; rest = take()) {
        free(rest);
    }
}

/* The debt remains while the client has no request, up to a limit. */
static void a_client_pays_for_immediate_service_with_its_next_turns(void **state)
{
    static const struct {
        uint64_t cost;
        int least; /* turns of other clients before it */
        int most;
    } rows[] = {{QUANTUM / 2, 0, 1}, {6 * QUANTUM, 5, 8}, {1000 * QUANTUM, 15, 19}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct client heavy = {0};
        struct client other = {0};
        for (int k = 0; k < 40; k++) {
            (void)push(&other, false, QUANTUM);
        }
        struct request *large = push(&heavy, false, rows[i].cost);
        struct request *taken = take_one();
        for (; taken != large; taken = take_one()) {
            free(taken);
        }
        free(large);
        struct request *next = push(&heavy, false, 1);
        int before = 0;
        for (taken = take_one(); taken != next; taken = take_one()) {
            free(taken);
            before++;
        }
        free(next);
        assert_in_range(before, rows[i].least, rows[i].most);
        for (taken = take(); taken != NULL; taken = take()) {
            free(taken);
        }
    }
}

static void a_client_that_was_alone_owes_nothing_to_a_later_client(void **state)
{
    struct client alone = {0};
    struct client other = {0};
    (void)state;
    for (int k = 0; k < 20; k++) {
        expect(push(&alone, false, 4 * QUANTUM));
    }
    for (int k = 0; k < 6; k++) {
        (void)push(&alone, false, QUANTUM);
        (void)push(&other, false, QUANTUM);
    }
    int of_alone = 0;
    for (int k = 0; k < 12; k++) {
        struct request *taken = take_one();
        of_alone += k < 6 && taken->arrival.client == &alone;
        free(taken);
    }
    assert_int_equal(of_alone, 3);
}

static void a_later_charge_is_paid_with_turns_where_others_wait(void **state)
{
    struct client slow = {0};
    struct client other = {0};
    const struct request of_slow = {.arrival.client = &slow};
    (void)state;
    line_charge(&line, &of_slow, 8 * QUANTUM); /* no other client waits */
    (void)push(&slow, false, 1);
    line_charge(&line, &of_slow, 8 * QUANTUM); /* only its own request waits */
    for (int k = 0; k < 12; k++) {
        (void)push(&other, false, QUANTUM);
    }
    /* The slow client has lost its turn to the other client. */
    struct request *taken = take_one();
    assert_ptr_equal(taken->arrival.client, &other);
    free(taken);
    taken = take_one();
    assert_ptr_equal(taken->arrival.client, &slow);
    free(taken);
    line_charge(&line, &of_slow, 6 * QUANTUM);
    struct request *next = push(&slow, false, 1);
    int before = 0;
    for (taken = take_one(); taken != next; taken = take_one()) {
        free(taken);
        before++;
    }
    free(next);
    assert_in_range(before, 4, 8);
    for (taken = take(); taken != NULL; taken = take()) {
        free(taken);
    }
}

static void of_a_line_that_is_bounded_every_client_may_have_one(void **state)
{
    struct client client = {0};
    struct client others[2] = {{0}, {0}};
    (void)state;
    struct request *first = push(&client, false, 1);
    assert_false(line_within_part(&line, &client, 1));
    assert_true(line_within_part(&line, &client, 2));
    struct request *second = push(&others[0], false, 1);
    assert_false(line_within_part(&line, &client, 3));
    assert_true(line_within_part(&line, &client, 4));
    assert_true(line_within_part(&line, &others[1], 1));
    expect(first);
    expect(second);
}

static void clients_that_wait_in_another_class_of_the_line_count(void **state)
{
    static const uint64_t costs[] = {1, 1, 1 << 20};
    struct line devices;
    struct client client = {0};
    struct client other = {0};
    struct client *const clients[] = {&client, &client, &other};
    struct request *requests[3];
    (void)state;
    line_init(&devices, LINE_DEVICES);
    for (int i = 0; i < 3; i++) {
        requests[i] = make(clients[i], false, costs[i]);
        assert_true(line_within_part(&devices, &client, 4));
        line_push(&devices, requests[i], false);
    }
    assert_false(line_within_part(&devices, &client, 4));
    for (int i = 0; i < 3; i++) {
        free(requests[i]);
    }
    line_deinit(&devices);
}

static void work_is_in_the_class_of_its_time_and_classes_are_served_in_turn(void **state)
{
    struct line work;
    struct client client = {0};
    struct request *taken[2 * LINE_CLASSES];
    (void)state;
    line_init(&work, LINE_WORK);
    assert_int_equal(next_class(&work), LINE_CLASSES);
    for (unsigned c = 0; c < LINE_CLASSES; c++) {
        assert_int_equal(line_class_of(&work, LINE_CLASS_NS[c]), c);
        line_push(&work, make(&client, false, LINE_CLASS_NS[c]), false);
        line_push(&work, make(&client, false, LINE_CLASS_NS[c]), false);
        assert_int_equal(line_count(&work, 1U << c), 2);
    }
    for (unsigned i = 0; i < 2 * LINE_CLASSES; i++) {
        const unsigned c = next_class(&work);
        assert_int_equal(c, i % LINE_CLASSES);
        struct line_cursor cursor = line_begin(&work, c);
        taken[i] = line_take(&cursor);
        assert_int_equal(line_class_of(&work, taken[i]->line.cost_ns), c);
        free(taken[i]);
    }
    assert_int_equal(line_count(&work, LINE_ALL), 0);
    line_deinit(&work);
}

static void the_wait_is_what_is_in_front_at_the_pace_of_recent_work(void **state)
{
    struct line work;
    struct client busy = {0};
    struct client new = {0};
    struct request *waiting[4];
    const struct request of_new = {.arrival.client = &new};
    const struct request of_busy = {.arrival.client = &busy};
    const struct request high = {.arrival = {.client = &busy, .high = true}};
    (void)state;
    line_init(&work, LINE_WORK);
    assert_int_equal(line_wait_ns(&work, &of_new, 1000), 0);
    for (int i = 0; i < 4; i++) {
        waiting[i] = make(&busy, false, 1000);
        line_push(&work, waiting[i], false);
    }
    assert_int_equal(line_wait_ns(&work, &of_busy, 1000), 4000);
    work.takers = 2;
    assert_int_equal(line_wait_ns(&work, &of_busy, 1000), 2000);
    work.takers = 1;
    assert_int_equal(line_wait_ns(&work, &of_new, 1000), 1000);
    assert_int_equal(line_wait_ns(&work, &high, 1000), 0);
    line_measured(&work, 1000, 3000);
    assert_int_equal(line_wait_ns(&work, &of_busy, 1000), 12000);
    for (int i = 0; i < 4; i++) {
        free(waiting[i]);
    }
    line_deinit(&work);
}

static void a_returned_request_keeps_its_position_in_its_priority(void **state)
{
    struct client client = {0};
    (void)state;
    struct request *old_normal = make(&client, false, 1);
    struct request *old_high = make(&client, true, 1);
    struct request *normal = push(&client, false, 1);
    struct request *high = push(&client, true, 1);
    line_push(&line, old_normal, true);
    line_push(&line, old_high, true);
    struct request *last = make(&client, true, 1);
    line_push(&line, last, true);
    expect(old_high);
    expect(high);
    expect(last);
    expect(old_normal);
    expect(normal);
}

/* Requests without their own tickets may be in any order. */
static void a_request_with_a_ticket_is_inserted_before_later_tickets(void **state)
{
    struct client client = {0};
    (void)state;
    struct request *first = make(&client, false, 1);
    struct request *second = make(&client, false, 1);
    struct request *between = make(&client, false, 1);
    struct request *newest = make(&client, false, 1);
    struct request *late = make(&client, false, 1);
    line_push(&line, first, false);
    line_push(&line, late, false);
    line_push(&line, second, false);
    line_push(&line, between, true);
    line_push(&line, newest, true);
    expect(first);
    expect(between);
    expect(newest);
    expect(late);
    expect(second);
    line_push(&line, newest = make(&client, false, 1), true); /* into an empty line */
    line_push(&line, late = make(&client, false, 1), true);
    expect(newest);
    expect(late);
}

/* Count every request in the line once, and compare with the stored sums. */
static void check_sums(const struct client *clients, size_t count)
{
    size_t seen = 0;
    size_t high = 0;
    uint64_t cost = 0;
    for (struct line_cursor c = line_begin(&line, CLASS); c.current != NULL; line_step(&c)) {
        seen++;
        high += c.current->arrival.high;
        cost += c.current->line.cost_ns;
    }
    const struct line_class *class = &line.classes[CLASS];
    assert_int_equal(seen, line_count(&line, LINE_ALL));
    assert_int_equal(cost, class->cost_ns);
    assert_int_equal(high, class->high_count);
    for (size_t i = 0; i < 2 * count; i++) {
        const struct request_list *list = &clients[i / 2].flows[line.id][CLASS].waiting[i % 2];
        const struct request *last = list->first;
        while (last != NULL && last->line.next != NULL) {
            last = last->line.next;
        }
        assert_true(last == NULL || list->last == last);
    }
}

static void in_any_sequence_no_request_is_lost_or_waits_forever(void **state)
{
    struct client clients[3] = {{0}, {0}, {0}};
    unsigned seed = 7;
    (void)state;
    uint64_t taken_at[20000] = {0};
    uint64_t begun = tickets;
    uint64_t takes = 0;
    uint64_t pushes = 0;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1103515245 + 12345;
        unsigned dice = seed >> 16;
        const size_t waiting = line_count(&line, LINE_ALL);
        if (waiting < 30 && dice % 2 == 0) {
            struct request *request =
                make(&clients[dice / 2 % 3], dice / 8 % 4 != 0, dice / 32 % (3 * QUANTUM));
            request->times.queued = takes;
            pushes++;
            if (dice % 16 == 0) {
                line_push(&line, request, true);
            } else {
                line_push(&line, request, false);
            }
        } else if (waiting > 0) {
            struct line_cursor cursor = line_begin(&line, CLASS);
            for (unsigned skip = dice / 2 % 5;
                 dice % 8 == 7 && skip > 0 && cursor.current != NULL; skip--) {
                line_step(&cursor);
            }
            if (cursor.current == NULL) {
                continue;
            }
            struct request *gone = NULL;
            if (dice % 16 == 7) {
                line_drop(&cursor, &gone);
            } else {
                gone = line_take(&cursor);
            }
            takes++;
            assert_in_range(takes - gone->times.queued, 1, 2000);
            taken_at[gone->line.ticket - begun] = takes;
            free(gone);
        }
        check_sums(clients, 3);
    }
    for (struct request *rest = take(); rest != NULL; rest = take()) {
        taken_at[rest->line.ticket - begun] = ++takes;
        free(rest);
    }
    assert_int_equal(takes, pushes);
    for (uint64_t ticket = 1; ticket <= pushes; ticket++) {
        assert_true(taken_at[ticket] != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(high_goes_first_and_each_priority_keeps_its_order, set_up),
        cmocka_unit_test_setup(
            a_client_that_never_stops_sending_high_gets_every_fifth_of_its_others, set_up),
        cmocka_unit_test_setup(high_goes_before_the_turn_of_others_for_a_bounded_time, set_up),
        cmocka_unit_test_setup(high_priority_gives_a_client_no_larger_share, set_up),
        cmocka_unit_test_setup(a_client_pays_for_immediate_service_with_its_next_turns, set_up),
        cmocka_unit_test_setup(a_client_that_was_alone_owes_nothing_to_a_later_client, set_up),
        cmocka_unit_test_setup(a_later_charge_is_paid_with_turns_where_others_wait, set_up),
        cmocka_unit_test_setup(of_a_line_that_is_bounded_every_client_may_have_one, set_up),
        cmocka_unit_test_setup(clients_that_wait_in_another_class_of_the_line_count, set_up),
        cmocka_unit_test_setup(work_is_in_the_class_of_its_time_and_classes_are_served_in_turn,
                               set_up),
        cmocka_unit_test_setup(the_wait_is_what_is_in_front_at_the_pace_of_recent_work, set_up),
        cmocka_unit_test_setup(a_returned_request_keeps_its_position_in_its_priority, set_up),
        cmocka_unit_test_setup(a_request_with_a_ticket_is_inserted_before_later_tickets,
                               set_up),
        cmocka_unit_test_setup(in_any_sequence_no_request_is_lost_or_waits_forever, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
