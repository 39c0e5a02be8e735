/* Deficit round robin: flows take turns, and each gets the same amount of time.
 *
 * A flow is in the ring while it has work that is ready. The first flow with credit has the
 * turn. A flow without credit loses the turn and gets a quantum, so after some rounds it has
 * credit again. Each flow pays for the time of its work: before the work by an estimate, or
 * after the work by the measured time. Work that costs more than the credit leaves a debt. A
 * flow outside the ring gets the same quanta until its debt is paid, but no credit beyond that.
 * The only flow in a ring gets at most 1 ns of debt, so the next flow that enters has the next
 * turn.
 *
 * line.c uses rings for the clients of a line, server/http/http_daemons.c for the connections
 * of a loop. The functions allocate nothing and cannot fail. The owner of the ring protects
 * it. */
#ifndef TALLY_SERVER_RING_H
#define TALLY_SERVER_RING_H

#include "proto/macros.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* Part of the object that takes turns. All zero: not in a ring. */
struct ring_flow {
    TAILQ_ENTRY(ring_flow) link; /* valid while the flow is in the ring */
    int64_t credit_ns;           /* negative: debt */
    int64_t left_ns;             /* given_ns of the ring when the flow left it */
    bool entered;                /* the flow is in the ring */
};

struct ring {
    TAILQ_HEAD(ring_flows, ring_flow) flows; /* borrowed; the first flow had the last turn */
    size_t count;                            /* number of flows */
    int64_t quantum_ns;                      /* credit that a flow gets in each round */
    int64_t given_ns;                        /* mean credit that each flow got so far */
};

static inline void ring_init(struct ring *ring, int64_t quantum_ns)
{
    TAILQ_INIT(&ring->flows);
    ring->count = 0;
    ring->quantum_ns = quantum_ns;
    ring->given_ns = 0;
}

/* Add a flow that is not in the ring. Its credit is the debt or credit that remains since it
 * left, or a quantum. */
static inline void ring_enter(struct ring *ring, struct ring_flow *flow)
{
    const int64_t given_ns = ring->given_ns - flow->left_ns;
    if (flow->credit_ns < 0) {
        flow->credit_ns = flow->credit_ns + given_ns < 0 ? flow->credit_ns + given_ns : 0;
    }
    if (flow->credit_ns == 0) {
        flow->credit_ns = ring->quantum_ns;
        TAILQ_INSERT_TAIL(&ring->flows, flow, link);
    } else {
        /* With credit the flow continues its last turn; with debt ring_turn() gives the flow a
         * quantum, which ends the turn. */
        TAILQ_INSERT_HEAD(&ring->flows, flow, link);
    }
    ring->count++;
    flow->entered = true;
}

static inline void ring_leave(struct ring *ring, struct ring_flow *flow)
{
    TAILQ_REMOVE(&ring->flows, flow, link);
    ring->count--;
    flow->entered = false;
    flow->left_ns = ring->given_ns;
}

/* If no flow has credit, give all flows at once the credit of the rounds until the first flow
 * has credit. Otherwise long work in all flows would cost thousands of rounds. */
static inline void ring_pass_rounds(struct ring *ring)
{
    struct ring_flow *flow = NULL;
    int64_t rounds = INT64_MAX;
    TAILQ_FOREACH(flow, &ring->flows, link)
    {
        const int64_t lacking = flow->credit_ns > 0 ? 0 : -flow->credit_ns / ring->quantum_ns;
        rounds = lacking < rounds ? lacking : rounds;
    }
    if (rounds > 0) {
        TAILQ_FOREACH(flow, &ring->flows, link)
        {
            flow->credit_ns += rounds * ring->quantum_ns;
        }
        ring->given_ns += rounds * ring->quantum_ns;
    }
}

/* Pass the turn to the first flow with credit and return that flow; NULL: the ring is empty. A
 * flow keeps the turn until it has used its credit or left the ring. */
static inline struct ring_flow *ring_turn(struct ring *ring)
{
    struct ring_flow *flow = TAILQ_FIRST(&ring->flows);
    if (flow == NULL || flow->credit_ns > 0) {
        return flow;
    }
    ring_pass_rounds(ring);
    while (flow->credit_ns <= 0) { /* one round at most */
        flow->credit_ns += ring->quantum_ns;
        ring->given_ns += ring->quantum_ns / (int64_t)ring->count;
        TAILQ_REMOVE(&ring->flows, flow, link);
        TAILQ_INSERT_TAIL(&ring->flows, flow, link);
        flow = TAILQ_FIRST(&ring->flows);
    }
    return flow;
}

/* Returns the next flow; after the last flow, the first one. */
static inline struct ring_flow *ring_next(const struct ring *ring, const struct ring_flow *flow)
{
    struct ring_flow *next = TAILQ_NEXT(flow, link);
    return next != NULL ? next : TAILQ_FIRST(&ring->flows);
}

/* Subtract a cost from the credit of a flow, which may be outside the ring. The debt grows to
 * at most most_debt_ns. If no other flow is in the ring, the debt is at most 1 ns, which ends
 * the turn of the flow. */
static inline void ring_pay(const struct ring *ring, struct ring_flow *flow, uint64_t cost_ns,
                            int64_t most_debt_ns)
{
    const int64_t least = ring->count > flow->entered ? -most_debt_ns : -1;
    const int64_t price = (int64_t)smaller_of(cost_ns, INT64_MAX / 2);
    const int64_t left = flow->credit_ns - price;
    if (flow->credit_ns > least) {
        flow->credit_ns = left > least ? left : least;
    }
}

#endif
