/* Deficit round robin: flows take turns, and each gets the same amount of time.
 *
 * A flow is in the ring while it has work that is ready. The first flow with credit has the turn. A
 * flow without credit loses the turn and gets a quantum, so after some rounds it has credit again.
 * Each flow pays the time of its work: before the work by an estimate, or after it by the measured
 * time. Work that costs more than the credit leaves a debt. A flow outside of the ring gets the same
 * quanta until its debt is paid, but no more credit. A flow that is alone pays no more than its turn: a
 * flow that enters then has the next turn.
 *
 * line.c uses rings for the clients of a line, server/http/http_daemons.c for the connections of a
 * loop. The functions allocate nothing and cannot fail. The owner of the ring protects it. */
#ifndef TALLY_SERVER_RING_H
#define TALLY_SERVER_RING_H

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
    TAILQ_HEAD(ring_flows, ring_flow) flows; /* borrowed; the first one had the last turn */
    size_t count;                            /* number of flows */
    int64_t quantum_ns;                      /* credit that a flow gets a round */
    int64_t given_ns;                        /* credit that each flow got so far, mean */
};

void ring_init(struct ring *ring, int64_t quantum_ns);

/* Add a flow that is not in the ring: with the rest of its debt or credit, or with a quantum. */
void ring_enter(struct ring *ring, struct ring_flow *flow);
void ring_leave(struct ring *ring, struct ring_flow *flow);

/* Pass the turn to the first flow with credit and return that flow; NULL: the ring is empty. The
 * same flow keeps the turn until it has paid its credit or left the ring. */
struct ring_flow *ring_turn(struct ring *ring);

/* Returns the flow after this one; after the last one the first one. */
struct ring_flow *ring_next(const struct ring *ring, const struct ring_flow *flow);

/* Subtract a cost from the credit of a flow, in the ring or not. The debt grows to most_debt_ns at
 * most; if no other flow is in the ring, to 1 ns, so that the flow loses its turn. */
void ring_pay(const struct ring *ring, struct ring_flow *flow, uint64_t cost_ns,
              int64_t most_debt_ns);

#endif
