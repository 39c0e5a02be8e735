/* A line of waiting requests that is shared fairly between clients: each client has a queue of
 * its own in it, first in, first out, and the queues are served in turn by deficit round robin.
 * Everyone gets the same number of cost units, whatever they are (request->line.cost: bytes of
 * tensors, bytes of text), however many requests a client sends.
 *
 *     ring of clients that have something waiting        current
 *       client A: r1 r4 r5   credit 300                  <------
 *       client B: r2         credit -20   (it was given more than its share: it pays off first)
 *
 * A turn: the current client's oldest request goes while the client has credit left; else it
 * gets `quantum` more credit for its next turn and the next client is current. What is taken
 * costs credit, also below zero, to a floor: one large request is not held against its client
 * for ever. Whoever is alone in the line pays nothing.
 *
 * Requests of high priority (request->arrival.high) come before the others of their client, and their
 * client's turn comes early while it has credit. They cost as much as any, so a client that
 * waits with many gets its requests in another order, not more of them. And they are bounded
 * twice by FAIR_AHEAD: after so many that went before others of their client, one of those goes;
 * after so many early turns, the client goes whose turn it is. So nobody waits for ever.
 *
 * Thread: whoever holds the lock of the line's owner. */
#ifndef TALLY_SERVER_FAIR_H
#define TALLY_SERVER_FAIR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct client;
struct request;

enum {
    FAIR_AHEAD = 4 /* requests of high priority for one that they keep waiting */
};

/* Every line there is; a client has a flow in each. */
enum fair_line_id {
    FAIR_DEVICE_SMALL, /* server/sched/queue.h */
    FAIR_DEVICE_LARGE,
    FAIR_TEXT_SMALL, /* server/sched/codec_pool.h */
    FAIR_TEXT_LARGE,
    FAIR_TEXT_HUGE,
    FAIR_ADMISSION, /* server/sched/admission.h */
    FAIR_LINE_COUNT
};

/* One client's queue in one line. */
struct fair_flow {
    struct request *first;     /* owned while they wait, oldest first, linked by next */
    struct request *last;      /* valid if first is not NULL */
    struct request *last_high; /* of high priority, behind which the others are; NULL: none */
    unsigned ahead; /* of high priority that went while others waited, since one of those */
    struct fair_flow *next; /* in the ring, if first is not NULL */
    int64_t credit;
    size_t count;       /* that wait in it */
    uint64_t cost;      /* of all of these */
    uint64_t high_cost; /* of those of high priority */
    uint64_t latest;    /* ticket: none that waits has a later one */
};

struct fair_line {
    enum fair_line_id id;
    int64_t quantum;        /* cost units a turn */
    struct fair_flow *tail; /* of the ring: its next is the current; NULL: nothing waits */
    size_t flows;           /* in the ring */
    atomic_size_t count;    /* requests; fair_count() is for who has no lock */
    uint64_t cost;          /* of all of them */
    size_t high_count;      /* those of high priority */
    unsigned ahead; /* of them, went before the current client's turn, since one that did not */
};

void fair_init(struct fair_line *line, enum fair_line_id id, int64_t quantum);

/* Put a request behind the others of its client and priority; by_ticket: but before those of
 * them with a later ticket, before which it was admitted. request->arrival.client, ->cost and ->high
 * are set, and stay as they are until it leaves. */
void fair_push(struct fair_line *line, struct request *request, bool by_ticket);

/* How many wait. Thread: any, without a lock. */
static inline size_t fair_count(const struct fair_line *line)
{
    return atomic_load_explicit(&line->count, memory_order_relaxed);
}

/* About how much cost goes before one more request of this client, priority and cost: what the
 * client has waiting, and of every other one as much as it gets itself by then. */
uint64_t fair_ahead(const struct fair_line *line, const struct client *client, bool high,
                    uint64_t cost);

/* Do fewer of the client's requests wait in these lines than its part of `most` is? All clients
 * that wait in a line, and this one, have the same part, a request at least. */
bool fair_within_part(const struct fair_line *lines, size_t count, const struct client *client,
                      size_t most);

/* The first of a client's requests of this priority that waits, NULL if none does. */
const struct request *fair_first(const struct fair_flow *flow, bool high);

/* A walk through everything that waits, the current client's first. */
struct fair_cursor {
    struct fair_line *line;
    struct fair_flow *flow_before; /* in the ring, before that of the current request */
    size_t flows_left;             /* of the ring, with the current one */
    struct request *previous;      /* of the same flow, NULL */
    struct request *current;       /* NULL: the walk is over */
};

/* Begin with the request whose turn it is: cursor->current, NULL if nothing waits. Gives credit
 * as turns pass, so the next walk begins with the same request. */
struct fair_cursor fair_begin(struct fair_line *line);
void fair_step(struct fair_cursor *cursor);
void fair_skip(struct fair_cursor *cursor); /* to the next client's */

/* Drop what request_verdict() says is over: to the chain *expired, which is in no order.
 * returns the earliest deadline of the rest, 0 if none */
uint64_t fair_expire(struct fair_line *line, uint64_t now_ns, struct request **expired);

/* Take the current request out of the line and go on to the next one: it is served, and costs
 * credit; or it is not, costs nothing, and goes to the chain *dropped, which is in no order. */
struct request *fair_take(struct fair_cursor *cursor);
void fair_drop(struct fair_cursor *cursor, struct request **dropped);

/* A request of the client that was taken did cost so much more than was assumed: the client pays
 * with its next turns, if others wait now. */
void fair_charge(struct fair_line *line, struct client *client, uint64_t cost);

#endif
