/* Classes of client flows that take turns (ring.h); see line.h. A flow is in the ring of its
 * class exactly while it has waiting requests. */
#include "server/sched/line.h"

#include "server/base/clock.h"
#include "server/base/thread.h"
#include "server/sched/client.h"
#include "server/sched/request.h"

enum {
    DEBT_TURNS = 16 /* maximum number of rounds that a client misses to pay for one request */
};

/* Largest debt of a client for work that took longer than estimated. */
#define DEBT_NS ((int64_t)(16 * NS_PER_MS))

static const int64_t quanta_ns[LINE_CLASSES] = {1 << 16, 1 << 20, 1 << 23, 1 << 26};

void line_init(struct line *line, enum line_id id)
{
    *line = (struct line){.id = id};
    MUST(pthread_mutex_init(&line->lock, NULL));
    for (unsigned c = 0; c < LINE_CLASSES; c++) {
        ring_init(&line->classes[c].ring, quanta_ns[c]);
    }
}

void line_deinit(struct line *line)
{
    MUST(pthread_mutex_destroy(&line->lock));
}

static struct line_flow *flow_of(const struct line *line, unsigned class, struct client *client)
{
    return &client->flows[line->id][class];
}

static struct line_flow *line_flow_of(struct ring_flow *turns)
{
    return (struct line_flow *)(void *)((char *)turns - offsetof(struct line_flow, turns));
}

/* Add a request to the sums of its flow and class (enters is true), or subtract it. */
static void account(struct line_class *class, struct line_flow *flow,
                    const struct request *request, bool enters)
{
    const uint64_t cost_ns = enters ? request->line.cost_ns : -request->line.cost_ns;
    const size_t one = enters ? 1 : SIZE_MAX;
    flow->count += one;
    flow->cost_ns[request->arrival.high] += cost_ns;
    class->cost_ns += cost_ns;
    class->high_count += request->arrival.high ? one : 0;
    atomic_store_explicit(&class->count,
                          atomic_load_explicit(&class->count, memory_order_relaxed) + one,
                          memory_order_relaxed);
}

void line_push(struct line *line, struct request *request, bool by_ticket)
{
    const unsigned c = line_class_of(line, request->line.cost_ns);
    struct line_class *class = &line->classes[c];
    struct line_flow *flow = flow_of(line, c, request->arrival.client);
    struct request_list *list = &flow->waiting[request->arrival.high];
    struct request **link = &list->first;
    uint64_t *latest = &flow->latest_ticket[request->arrival.high];
    *latest = list->first == NULL ? 0 : *latest;
    /* The list may be long, and most requests are appended: do not walk through it. */
    if (list->first != NULL && (!by_ticket || request->line.ticket >= *latest)) {
        link = &list->last->line.next;
    }
    while (*link != NULL && (*link)->line.ticket <= request->line.ticket) {
        link = &(*link)->line.next;
    }
    *latest = larger_of(*latest, request->line.ticket);
    if (flow->count == 0) {
        ring_enter(&class->ring, &flow->turns);
    }
    request->line.next = *link;
    *link = request;
    list->last = request->line.next == NULL ? request : list->last;
    account(class, flow, request, true);
}

/* ---- the order ---- */

/* Returns true if the next request of the flow has high priority. */
static bool next_priority(const struct line_flow *flow)
{
    return flow->waiting[true].first != NULL &&
           (flow->waiting[false].first == NULL || flow->high_in_row < LINE_HIGH_IN_ROW);
}

/* Returns the flow that is served next, never NULL: the first flow that has credit and a next
 * request of high priority, else the flow that has the turn. */
static struct line_flow *next_flow(const struct line_class *class, struct ring_flow *turn)
{
    const bool look = class->high_count > 0 && class->high_in_row < LINE_HIGH_IN_ROW;
    struct ring_flow *turns = turn;
    for (size_t i = 0; look && i < class->ring.count; i++) {
        if (turns->credit_ns > 0 && next_priority(line_flow_of(turns))) {
            return line_flow_of(turns);
        }
        turns = ring_next(&class->ring, turns);
    }
    return line_flow_of(turn);
}

/* Move the cursor to the first request of this flow, or end the walk if flows_left is 0. */
static void enter_flow(struct line_cursor *cursor, struct line_flow *flow)
{
    cursor->flow = flow;
    cursor->previous = NULL;
    cursor->second = false;
    cursor->current = NULL;
    if (cursor->flows_left > 0) {
        cursor->high = next_priority(flow);
        cursor->current = flow->waiting[cursor->high].first;
    }
}

struct line_cursor line_begin(struct line *line, unsigned c)
{
    struct line_class *class = &line->classes[c];
    struct line_cursor cursor = {.line = line, .class = class, .flows_left = class->ring.count};
    struct ring_flow *turn = ring_turn(&class->ring);
    if (turn != NULL) {
        enter_flow(&cursor, next_flow(class, turn));
    }
    return cursor;
}

void line_skip(struct line_cursor *cursor)
{
    cursor->flows_left--;
    enter_flow(cursor, line_flow_of(ring_next(&cursor->class->ring, &cursor->flow->turns)));
}

/* Move the cursor to `next`, the successor in the current list. At the end of the list, move to
 * the flow's other list; after both lists, to the next flow. */
static void move_cursor(struct line_cursor *cursor, struct request *next)
{
    cursor->current = next;
    if (next == NULL && !cursor->second) {
        cursor->second = true;
        cursor->high = !cursor->high;
        cursor->previous = NULL;
        cursor->current = cursor->flow->waiting[cursor->high].first;
    }
    if (cursor->current == NULL) {
        line_skip(cursor);
    }
}

void line_step(struct line_cursor *cursor)
{
    cursor->previous = cursor->current;
    move_cursor(cursor, cursor->current->line.next);
}

/* Unlink the current request and move the cursor to the next one. */
static struct request *remove_current(struct line_cursor *cursor)
{
    struct line_flow *flow = cursor->flow;
    struct request_list *list = &flow->waiting[cursor->high];
    struct request *request = cursor->current;
    *(cursor->previous == NULL ? &list->first : &cursor->previous->line.next) =
        request->line.next;
    list->last = list->last == request ? cursor->previous : list->last;
    account(cursor->class, flow, request, false);
    if (flow->count > 0) {
        move_cursor(cursor, request->line.next);
    } else {
        line_skip(cursor);
        ring_leave(&cursor->class->ring, &flow->turns);
    }
    request->line.next = NULL;
    return request;
}

struct request *line_take(struct line_cursor *cursor)
{
    struct line_class *class = cursor->class;
    struct line_flow *flow = cursor->flow;
    const bool has_turn = &flow->turns == TAILQ_FIRST(&class->ring.flows);
    ring_pay(&class->ring, &flow->turns, cursor->current->line.cost_ns,
             DEBT_TURNS * class->ring.quantum_ns);
    const bool overtakes = cursor->high && flow->waiting[false].first != NULL;
    flow->high_in_row = overtakes ? flow->high_in_row + 1 : 0;
    class->high_in_row = has_turn ? 0 : class->high_in_row + cursor->high;
    cursor->line->turn = (unsigned)(class - cursor->line->classes + 1) % LINE_CLASSES;
    return remove_current(cursor);
}

void line_drop(struct line_cursor *cursor, struct request **chain)
{
    struct request *request = remove_current(cursor);
    request->line.next = *chain;
    *chain = request;
}

void line_drop_all(struct line *line, struct request **chain)
{
    for (unsigned c = 0; c < LINE_CLASSES; c++) {
        struct line_cursor cursor = line_begin(line, c);
        while (cursor.current != NULL) {
            line_drop(&cursor, chain);
        }
    }
}

/* ---- time ---- */

uint64_t line_expire(struct line *line, uint64_t now_ns, struct request **expired)
{
    uint64_t earliest = 0;
    for (unsigned c = 0; c < LINE_CLASSES; c++) {
        struct line_cursor cursor = line_begin(line, c);
        while (cursor.current != NULL) {
            if (request_verdict(cursor.current, now_ns) != STATUS_OK) {
                line_drop(&cursor, expired);
            } else {
                earliest = deadline_earlier(earliest, cursor.current->arrival.deadline_ns);
                line_step(&cursor);
            }
        }
    }
    return earliest;
}

void line_end_expired(const struct line *line, struct request *first, uint64_t now_ns)
{
    static const char *const waited_for[LINE_COUNT] = {
        [LINE_DEVICES] = "a device",
        [LINE_WORK] = "a thread that reads it or writes its answer",
        [LINE_ADMISSION] = "other large requests"};
    request_end_expired(first, now_ns, waited_for[line->id]);
}

uint64_t line_sweep(struct line *line, uint64_t now_ns)
{
    struct request *expired = NULL;
    MUST(pthread_mutex_lock(&line->lock));
    const uint64_t earliest = line_expire(line, now_ns, &expired);
    MUST(pthread_mutex_unlock(&line->lock));
    line_end_expired(line, expired, now_ns);
    return earliest;
}

void line_charge(struct line *line, const struct request *request, uint64_t more_ns)
{
    const unsigned c = line_class_of(line, request->line.cost_ns);
    ring_pay(&line->classes[c].ring, &flow_of(line, c, request->arrival.client)->turns, more_ns,
             DEBT_NS);
}

uint64_t line_ahead_ns(const struct line *line, const struct client *client, bool high,
                       uint64_t cost_ns)
{
    const unsigned c = line_class_of(line, cost_ns);
    const struct line_flow *own = &client->flows[line->id][c];
    const uint64_t own_ns = own->cost_ns[true] + (high ? 0 : own->cost_ns[false]);
    uint64_t ahead_ns = own_ns;
    struct ring_flow *turns = NULL;
    TAILQ_FOREACH(turns, &line->classes[c].ring.flows, link)
    {
        const struct line_flow *flow = line_flow_of(turns);
        const uint64_t flow_ns = flow->cost_ns[true] + (high ? 0 : flow->cost_ns[false]);
        ahead_ns += flow == own ? 0 : smaller_of(flow_ns, own_ns + cost_ns);
    }
    /* One normal request is served after LINE_HIGH_IN_ROW high ones. */
    return high ? ahead_ns + ahead_ns / LINE_HIGH_IN_ROW : ahead_ns;
}

uint64_t line_wait_ns(struct line *line, const struct request *request, uint64_t cost_ns)
{
    HOLD_LOCK(&line->lock);
    const unsigned own = line_class_of(line, cost_ns);
    const uint64_t ahead_ns =
        line_ahead_ns(line, request->arrival.client, request->arrival.high, cost_ns) +
        line->begun_ns[own] / 2;
    uint64_t others_ns = 0; /* work of other classes, which get equally many turns */
    for (unsigned c = 0; c < LINE_CLASSES; c++) {
        others_ns += c != own ? line->classes[c].cost_ns + line->begun_ns[c] : 0;
    }
    const double pace =
        line->estimated_ns > 0 ? (double)line->measured_ns / (double)line->estimated_ns : 1;
    const double wait_ns = (double)(ahead_ns + smaller_of(others_ns, ahead_ns)) * pace /
                           (double)larger_of(line->takers, 1);
    return wait_ns < (double)INT64_MAX ? (uint64_t)wait_ns : INT64_MAX;
}

bool line_within_part(const struct line *line, const struct client *client, size_t most)
{
    size_t own = 0;
    size_t clients = 1;
    for (unsigned c = 0; c < LINE_CLASSES; c++) {
        const struct line_flow *flow = &client->flows[line->id][c];
        own += flow->count;
        clients = larger_of(clients, line->classes[c].ring.count + (flow->count == 0));
    }
    return own < larger_of(most / clients, 1);
}
