/* Private to queue.c and batcher.c: what a queue is made of. */
#ifndef TALLY_SERVER_QUEUE_LANES_H
#define TALLY_SERVER_QUEUE_LANES_H

#include "server/queue.h"
#include "server/request.h"

#include <pthread.h>
#include <stdatomic.h>

enum lane_kind {
    LANE_SMALL,
    LANE_LARGE,
    LANE_COUNT
};

struct queue_lane {
    struct request *first; /* owned while they wait, oldest first, linked by next */
    struct request *last;  /* valid if first is not NULL */
    size_t count;
};

struct queue {
    atomic_uint unannounced; /* pushes that nobody was woken for yet */
    atomic_uint changes;     /* pushes and the end: what takers that wait awake look at */
    pthread_mutex_t lock;    /* guards everything below but options */
    pthread_cond_t arrived;  /* monotonic clock */
    struct queue_options options;
    struct queue_lane lanes[LANE_COUNT];
    enum lane_kind turn; /* lane that is served next if anything waits in it */
    uint64_t bytes;
    bool usable;
    bool closed;
};

enum lane_kind queue_lane_of(const struct request *request);

/* Take the request that *link points at out of its lane; previous: the one before it or NULL.
 * Thread: a holder of the lock. */
struct request *queue_unlink(struct queue *queue, struct queue_lane *lane,
                             struct request **link, struct request *previous);

/* STATUS_OK, or why the request needs no computing any more. */
enum status queue_verdict(const struct request *request, uint64_t now_ns);

/* End a chain of requests that queue_verdict() condemned. Thread: not a holder of the lock. */
void queue_end_chain(struct request *first, uint64_t now_ns);

#endif
