/* Deficit round robin over the clients' queues; see fair.h. A flow is in the ring exactly while
 * something waits in it. */
#include "server/sched/fair.h"

#include "server/sched/client.h"
#include "server/sched/request.h"

enum {
    DEBT_TURNS = 16,     /* most turns that a client misses for what it was given at once */
    DEBT_COST = 64 << 20 /* and most cost units for what that turned out to cost */
};

void fair_init(struct fair_line *line, enum fair_line_id id, int64_t quantum)
{
    *line = (struct fair_line){.id = id, .quantum = quantum};
}

/* A flow that had nothing waiting is the last to have its turn. */
static void enter_ring(struct fair_line *line, struct fair_flow *flow)
{
    if (line->tail == NULL) {
        flow->next = flow;
    } else {
        flow->next = line->tail->next;
        line->tail->next = flow;
    }
    line->tail = flow;
    line->flows++;
    flow->credit = flow->credit >= 0 ? line->quantum : flow->credit; /* debts are kept */
}

/* The flow after `before` has nothing waiting any more. */
static void leave_ring(struct fair_line *line, struct fair_flow *before)
{
    struct fair_flow *flow = before->next;
    before->next = flow->next;
    if (line->tail == flow) {
        line->tail = before == flow ? NULL : before;
    }
    line->flows--;
}

/* Whether some wait that are not of high priority. Something does wait. */
static bool has_others(const struct fair_flow *flow)
{
    return flow->last != flow->last_high || !flow->first->arrival.high;
}

/* Count a request that enters, or leaves, its flow and the line. */
static void account(struct fair_line *line, struct fair_flow *flow,
                    const struct request *request, bool enters)
{
    const uint64_t cost = enters ? request->line.cost : -request->line.cost;
    const size_t one = enters ? 1 : SIZE_MAX;
    flow->count += one;
    flow->cost += cost;
    line->cost += cost;
    atomic_store_explicit(&line->count, fair_count(line) + one, memory_order_relaxed);
    if (request->arrival.high) {
        flow->high_cost += cost;
        line->high_count += one;
    }
}

/* Where a request has its place: behind those of its priority, by_ticket only behind those that
 * are older. One of another priority may stand before all, whose turn it is (let_other_go()). */
static struct request **place_of(struct fair_flow *flow, const struct request *request,
                                 bool by_ticket)
{
    struct request **link = &flow->first;
    if (flow->first == NULL) {
        return link;
    }
    /* Mostly it is the newest, and the line may be long. */
    if (!request->arrival.high && (!by_ticket || request->line.ticket >= flow->latest)) {
        return &flow->last->line.next;
    }
    if (flow->last_high != NULL && request->arrival.high && by_ticket) {
        link = flow->first->arrival.high ? link : &flow->first->line.next;
    } else if (flow->last_high != NULL) {
        link = &flow->last_high->line.next;
    }
    while (by_ticket && *link != NULL && (*link)->arrival.high == request->arrival.high &&
           (*link)->line.ticket <= request->line.ticket) {
        link = &(*link)->line.next;
    }
    return link;
}

void fair_push(struct fair_line *line, struct request *request, bool by_ticket)
{
    struct fair_flow *flow = &request->arrival.client->flows[line->id];
    struct request **link = place_of(flow, request, by_ticket);
    if (flow->first == NULL) {
        enter_ring(line, flow);
        flow->latest = 0;
    }
    flow->latest = larger_of(flow->latest, request->line.ticket);
    request->line.next = *link;
    *link = request;
    if (request->line.next == NULL) {
        flow->last = request;
    }
    if (request->arrival.high &&
        (request->line.next == NULL || !request->line.next->arrival.high)) {
        flow->last_high = request;
    }
    account(line, flow, request, true);
}

uint64_t fair_ahead(const struct fair_line *line, const struct client *client, bool high,
                    uint64_t cost)
{
    const struct fair_flow *own = &client->flows[line->id];
    const uint64_t own_cost = high ? own->high_cost : own->cost;
    const struct fair_flow *flow = line->tail;
    uint64_t ahead = own_cost;
    for (size_t i = 0; i < line->flows; i++, flow = flow->next) {
        const uint64_t waits = high ? flow->high_cost : flow->cost;
        ahead += flow == own ? 0 : smaller_of(waits, own_cost + cost);
    }
    return high ? ahead + ahead / FAIR_AHEAD : ahead; /* and others, which keep it waiting */
}

bool fair_within_part(const struct fair_line *lines, size_t count, const struct client *client,
                      size_t most)
{
    size_t own = 0;
    size_t clients = 1;
    for (size_t i = 0; i < count; i++) {
        const struct fair_flow *flow = &client->flows[lines[i].id];
        own += flow->count;
        clients = larger_of(clients, lines[i].flows + (flow->first == NULL));
    }
    return own < larger_of(most / clients, 1);
}

const struct request *fair_first(const struct fair_flow *flow, bool high)
{
    const struct request *first = flow->first;
    if (first == NULL || first->arrival.high == high) {
        return first;
    }
    if (flow->last_high == NULL) {
        return NULL;
    }
    return high ? first->line.next : flow->last_high->line.next;
}

/* Have so many of high priority gone before the others of their client that one of those is
 * due? */
static bool other_is_due(const struct fair_flow *flow)
{
    return flow->ahead >= FAIR_AHEAD && has_others(flow);
}

/* Put the oldest of normal priority before all, if one is due. */
static void let_other_go(struct fair_flow *flow)
{
    if (!other_is_due(flow) || !flow->first->arrival.high) {
        return;
    }
    struct request *other = flow->last_high->line.next;
    flow->last_high->line.next = other->line.next;
    if (flow->last == other) {
        flow->last = flow->last_high;
    }
    other->line.next = flow->first;
    flow->first = other;
}

/* The place in the ring before the flow that is served next: the current one, or one with a
 * request of high priority that has credit. */
static struct fair_flow *before_next(const struct fair_line *line)
{
    struct fair_flow *before = line->tail;
    if (line->high_count == 0 || line->ahead >= FAIR_AHEAD) {
        return before;
    }
    for (size_t i = 0; i < line->flows; i++) {
        const struct fair_flow *flow = before->next;
        if (flow->first->arrival.high && flow->credit > 0 && !other_is_due(flow)) {
            return before;
        }
        before = before->next;
    }
    return line->tail;
}

struct fair_cursor fair_begin(struct fair_line *line)
{
    if (line->tail == NULL) {
        return (struct fair_cursor){.line = line};
    }
    while (line->flows > 1 && line->tail->next->credit <= 0) {
        line->tail = line->tail->next;
        line->tail->credit += line->quantum;
    }
    struct fair_flow *before = before_next(line);
    let_other_go(before->next);
    return (struct fair_cursor){.line = line,
                                .flow_before = before,
                                .flows_left = line->flows,
                                .current = before->next->first};
}

/* The current flow has no request after the current place: on to the next flow. */
static void enter_next_flow(struct fair_cursor *cursor)
{
    cursor->flows_left--;
    cursor->previous = NULL;
    cursor->current = cursor->flows_left > 0 ? cursor->flow_before->next->first : NULL;
}

void fair_skip(struct fair_cursor *cursor)
{
    cursor->flow_before = cursor->flow_before->next;
    enter_next_flow(cursor);
}

void fair_step(struct fair_cursor *cursor)
{
    cursor->previous = cursor->current;
    cursor->current = cursor->current->line.next;
    if (cursor->current == NULL) {
        fair_skip(cursor);
    }
}

static struct request *take_out(struct fair_cursor *cursor)
{
    struct fair_line *line = cursor->line;
    struct fair_flow *flow = cursor->flow_before->next;
    struct request *request = cursor->current;
    if (cursor->previous == NULL) {
        flow->first = request->line.next;
    } else {
        cursor->previous->line.next = request->line.next;
    }
    if (flow->last == request) {
        flow->last = cursor->previous;
    }
    if (flow->last_high == request) {
        bool more = cursor->previous != NULL && cursor->previous->arrival.high;
        flow->last_high = more ? cursor->previous : NULL;
    }
    account(line, flow, request, false);
    cursor->current = request->line.next;
    request->line.next = NULL;
    if (flow->first == NULL) {
        leave_ring(line, cursor->flow_before);
        enter_next_flow(cursor);
    } else if (cursor->current == NULL) {
        cursor->flow_before = flow;
        enter_next_flow(cursor);
    }
    return request;
}

/* Take cost units off a flow's credit, down to a floor; less credit than that stays. */
static void pay(struct fair_flow *flow, uint64_t cost, int64_t floor)
{
    const int64_t price = cost > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)cost;
    const int64_t left = flow->credit - price;
    if (left > floor) {
        flow->credit = left;
    } else if (flow->credit > floor) {
        flow->credit = floor;
    }
}

void fair_charge(struct fair_line *line, struct client *client, uint64_t cost)
{
    struct fair_flow *flow = &client->flows[line->id];
    if (line->flows > (flow->first != NULL)) {
        pay(flow, cost, -DEBT_COST);
    }
}

struct request *fair_take(struct fair_cursor *cursor)
{
    struct fair_line *line = cursor->line;
    struct fair_flow *flow = cursor->flow_before->next;
    bool high = cursor->current->arrival.high;
    if (line->flows > 1) {
        pay(flow, cursor->current->line.cost, -DEBT_TURNS * line->quantum);
    }
    flow->ahead = high && has_others(flow) ? flow->ahead + 1 : 0;
    if (cursor->flow_before == line->tail) {
        line->ahead = 0;
    } else {
        line->ahead += high;
    }
    return take_out(cursor);
}

void fair_drop(struct fair_cursor *cursor, struct request **dropped)
{
    struct request *request = take_out(cursor);
    request->line.next = *dropped;
    *dropped = request;
}

uint64_t fair_expire(struct fair_line *line, uint64_t now_ns, struct request **expired)
{
    uint64_t earliest = 0;
    struct fair_cursor cursor = fair_begin(line);
    while (cursor.current != NULL) {
        if (request_verdict(cursor.current, now_ns) != STATUS_OK) {
            fair_drop(&cursor, expired);
        } else {
            earliest = deadline_earlier(earliest, cursor.current->arrival.deadline_ns);
            fair_step(&cursor);
        }
    }
    return earliest;
}
