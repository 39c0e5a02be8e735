/* Private to queue.c and batcher.c: what a queue is made of. */
#ifndef TALLY_SERVER_QUEUE_LANES_H
#define TALLY_SERVER_QUEUE_LANES_H

#include "server/sched/batcher.h"
#include "server/sched/fair.h"
#include "server/sched/queue.h"
#include "server/sched/request.h"

#include <pthread.h>
#include <stdatomic.h>

enum lane_kind {
    LANE_SMALL,
    LANE_LARGE,
    LANE_COUNT
};

struct queue {
    atomic_uint unannounced[LANE_COUNT]; /* pushes that nobody was woken for yet */
    atomic_uint changes[LANE_COUNT]; /* pushes and the end: takers that wait awake look here */
    atomic_size_t waiting;           /* requests; written by holders of the lock */
    atomic_bool usable;              /* likewise */
    pthread_mutex_t lock;            /* guards everything below but options */
    pthread_cond_t arrived[BATCHER_TAKERS]; /* monotonic clock; by what the takers take */
    struct queue_options options;
    struct fair_line lanes[LANE_COUNT];
    enum lane_kind turn; /* lane that is served next if anything waits in it */
    bool closed;
};

/* Take the request at the cursor out of its lane: served, or dropped unserved.
 * Thread: a holder of the lock. */
struct request *queue_take(struct queue *queue, struct fair_cursor *cursor);
struct request *queue_drop(struct queue *queue, struct fair_cursor *cursor);

#endif
