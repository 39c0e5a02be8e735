/* Deficit round robin; see ring.h. */
#include "server/sched/ring.h"

#include "proto/macros.h"

void ring_init(struct ring *ring, int64_t quantum_ns)
{
    TAILQ_INIT(&ring->flows);
    ring->count = 0;
    ring->quantum_ns = quantum_ns;
    ring->given_ns = 0;
}

void ring_enter(struct ring *ring, struct ring_flow *flow)
{
    const int64_t given_ns = ring->given_ns - flow->left_ns;
    if (flow->credit_ns < 0) {
        flow->credit_ns = flow->credit_ns + given_ns < 0 ? flow->credit_ns + given_ns : 0;
    }
    if (flow->credit_ns == 0) {
        flow->credit_ns = ring->quantum_ns;
        TAILQ_INSERT_TAIL(&ring->flows, flow, link);
    } else {
        /* The flow continues its last turn, or ring_turn() ends that turn with a quantum. */
        TAILQ_INSERT_HEAD(&ring->flows, flow, link);
    }
    ring->count++;
    flow->entered = true;
}

void ring_leave(struct ring *ring, struct ring_flow *flow)
{
    TAILQ_REMOVE(&ring->flows, flow, link);
    ring->count--;
    flow->entered = false;
    flow->left_ns = ring->given_ns;
}

/* If no flow has credit, give all flows the credit of the rounds that pass before one of them gets
 * some. Otherwise long work of all flows would cost thousands of rounds. */
static void pass_rounds(struct ring *ring)
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

struct ring_flow *ring_turn(struct ring *ring)
{
    struct ring_flow *flow = TAILQ_FIRST(&ring->flows);
    if (flow == NULL || flow->credit_ns > 0) {
        return flow;
    }
    pass_rounds(ring);
    while (flow->credit_ns <= 0) { /* one round at most */
        flow->credit_ns += ring->quantum_ns;
        ring->given_ns += ring->quantum_ns / (int64_t)ring->count;
        TAILQ_REMOVE(&ring->flows, flow, link);
        TAILQ_INSERT_TAIL(&ring->flows, flow, link);
        flow = TAILQ_FIRST(&ring->flows);
    }
    return flow;
}

struct ring_flow *ring_next(const struct ring *ring, const struct ring_flow *flow)
{
    struct ring_flow *next = TAILQ_NEXT(flow, link);
    return next != NULL ? next : TAILQ_FIRST(&ring->flows);
}

void ring_pay(const struct ring *ring, struct ring_flow *flow, uint64_t cost_ns,
              int64_t most_debt_ns)
{
    const int64_t least = ring->count > flow->entered ? -most_debt_ns : -1;
    const int64_t price = (int64_t)smaller_of(cost_ns, INT64_MAX / 2);
    const int64_t left = flow->credit_ns - price;
    if (flow->credit_ns > least) {
        flow->credit_ns = left > least ? left : least;
    }
}
