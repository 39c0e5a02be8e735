/* Deficit round robin over the clients' queues; see fair.h. A flow is in the ring exactly while
 * something waits in it. */
#include "server/sched/fair.h"

#include "server/sched/client.h"
#include "server/sched/request.h"

enum {
    DEBT_TURNS = 16 /* most turns that a client misses for what it was given at once */
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
    flow->credit = flow->credit >= 0 ? line->quantum : flow->credit;
}

/* The flow after `before` has nothing waiting any more. */
static void leave_ring(struct fair_line *line, struct fair_flow *before)
{
    struct fair_flow *flow = before->next;
    flow->credit = flow->credit > 0 ? 0 : flow->credit; /* only debts are kept */
    before->next = flow->next;
    if (line->tail == flow) {
        line->tail = before == flow ? NULL : before;
    }
    line->flows--;
}

static struct fair_flow *flow_of(const struct fair_line *line, const struct request *request)
{
    return &request->client->flows[line->id];
}

void fair_push(struct fair_line *line, struct request *request)
{
    struct fair_flow *flow = flow_of(line, request);
    request->next = NULL;
    if (flow->first == NULL) {
        flow->first = request;
        enter_ring(line, flow);
    } else {
        flow->last->next = request;
    }
    flow->last = request;
    flow->cost += request->cost;
    line->count++;
    line->cost += request->cost;
}

void fair_push_by_ticket(struct fair_line *line, struct request *request)
{
    struct fair_flow *flow = flow_of(line, request);
    struct request **link = &flow->first;
    while (*link != NULL && (*link)->ticket <= request->ticket) {
        link = &(*link)->next;
    }
    if (*link == NULL) {
        fair_push(line, request);
        return;
    }
    request->next = *link;
    *link = request;
    flow->cost += request->cost;
    line->count++;
    line->cost += request->cost;
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
    return (struct fair_cursor){.line = line,
                                .flow_before = line->tail,
                                .flows_left = line->flows,
                                .current = line->tail->next->first};
}

/* The current flow has no request after the current place: on to the next flow. */
static void enter_next_flow(struct fair_cursor *cursor)
{
    cursor->flows_left--;
    cursor->previous = NULL;
    cursor->current = cursor->flows_left > 0 ? cursor->flow_before->next->first : NULL;
}

void fair_step(struct fair_cursor *cursor)
{
    cursor->previous = cursor->current;
    cursor->current = cursor->current->next;
    if (cursor->current == NULL) {
        cursor->flow_before = cursor->flow_before->next;
        enter_next_flow(cursor);
    }
}

struct request *fair_drop(struct fair_cursor *cursor)
{
    struct fair_line *line = cursor->line;
    struct fair_flow *flow = cursor->flow_before->next;
    struct request *request = cursor->current;
    if (cursor->previous == NULL) {
        flow->first = request->next;
    } else {
        cursor->previous->next = request->next;
    }
    if (flow->last == request) {
        flow->last = cursor->previous;
    }
    flow->cost -= request->cost;
    line->count--;
    line->cost -= request->cost;
    cursor->current = request->next;
    request->next = NULL;
    if (flow->first == NULL) {
        leave_ring(line, cursor->flow_before);
        enter_next_flow(cursor);
    } else if (cursor->current == NULL) {
        cursor->flow_before = flow;
        enter_next_flow(cursor);
    }
    return request;
}

struct request *fair_take(struct fair_cursor *cursor)
{
    struct fair_line *line = cursor->line;
    struct fair_flow *flow = cursor->flow_before->next;
    int64_t floor = -DEBT_TURNS * line->quantum;
    int64_t cost =
        cursor->current->cost > INT64_MAX ? INT64_MAX : (int64_t)cursor->current->cost;
    if (line->flows > 1) {
        flow->credit = flow->credit - floor > cost ? flow->credit - cost : floor;
    }
    return fair_drop(cursor);
}

uint64_t fair_expire(struct fair_line *line, uint64_t now_ns, struct request **expired)
{
    uint64_t earliest = 0;
    struct fair_cursor cursor = fair_begin(line);
    while (cursor.current != NULL) {
        const struct request *request = cursor.current;
        uint64_t deadline_ns = request->deadline_ns;
        if (request_verdict(request, now_ns) != STATUS_OK) {
            struct request *dropped = fair_drop(&cursor);
            dropped->next = *expired;
            *expired = dropped;
            continue;
        }
        if (deadline_ns != 0 && (earliest == 0 || deadline_ns < earliest)) {
            earliest = deadline_ns;
        }
        fair_step(&cursor);
    }
    return earliest;
}
