/* The order in which work that waits for a thread, a device, or memory is served.
 *
 * A line divides work into classes by estimated time (LINE_CLASS_NS). The classes that have
 * waiting work are served round robin. So short work never waits for all of the long work, and
 * long work keeps its share of the time.
 *
 * In a class, clients take turns: deficit round robin, by estimated nanoseconds. A client gets
 * a quantum of credit in each turn and pays for its work with this credit. So each of n clients
 * gets 1/n of the time, independent of the size and number of its requests. A client whose work
 * took longer than estimated pays the difference from its next quanta (line_charge()).
 *
 * Among the requests of a client, those of high priority are served first, each priority in
 * order of arrival. A client's requests of high priority also overtake other clients' turns, as
 * long as the client has credit. Both rules are bounded: among LINE_HIGH_IN_ROW + 1 consecutive
 * requests of a client, at least one has normal priority. Among equally many consecutive
 * requests of a class, at least one belongs to the client that has the turn.
 *
 * The line owns the requests that wait in it. The caller of a function holds the lock of the
 * line, unless the function's comment says otherwise. */
#ifndef TALLY_SERVER_LINE_H
#define TALLY_SERVER_LINE_H

#include "server/base/clock.h"
#include "server/sched/ring.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct client;
struct request;

enum {
    LINE_HIGH_IN_ROW = 4 /* limit of the requests of high priority that overtake a request */
};

/* All lines; a client has a flow in each class of each line. */
enum line_id {
    LINE_DEVICES,   /* scans that wait for a device (queue.h) */
    LINE_WORK,      /* steps that wait for a thread of the work pool (work.h) */
    LINE_ADMISSION, /* large requests that wait for a place or memory (admission.h) */
    LINE_COUNT
};

enum {
    LINE_CLASSES = 4,
    LINE_ALL = (1 << LINE_CLASSES) - 1 /* the set of all classes, bit 1 << class */
};

/* Maximum nanoseconds of work in each class: about 0.25 ms, 4 ms, 134 ms, unlimited. */
static const uint64_t LINE_CLASS_NS[LINE_CLASSES] = {1 << 18, 1 << 22, 1 << 27, UINT64_MAX};

/* A list of requests, linked by line.next. */
struct request_list {
    struct request *first; /* NULL: the list is empty */
    struct request *last;  /* valid if first is not NULL */
};

/* The requests of one client in one class. */
struct line_flow {
    struct request_list waiting[2]; /* owned, oldest first; [1]: high priority */
    uint64_t latest_ticket[2];      /* upper bound of the tickets in each list */
    uint64_t cost_ns[2];            /* sum of the costs in each list */
    size_t count;                   /* number of requests in both lists */
    unsigned high_in_row;           /* consecutive high requests that overtook normal ones */
    struct ring_flow turns;         /* in the ring of the class while count > 0 */
};

/* The clients' flows of one class. */
struct line_class {
    struct ring ring;    /* the flows in which requests wait */
    atomic_size_t count; /* number of requests */
    uint64_t cost_ns;    /* sum of their costs */
    size_t high_count;   /* number of requests of high priority */
    /* consecutive high requests that overtook the client that has the turn */
    unsigned high_in_row;
};

struct line {
    pthread_mutex_t lock;
    enum line_id id;
    size_t takers; /* number of threads or devices that serve the line; 0: counts as one */
    unsigned turn; /* class that is served next if anything waits in it */
    struct line_class classes[LINE_CLASSES];
    /* estimated time of the work that takers have in progress */
    uint64_t begun_ns[LINE_CLASSES];
    uint64_t measured_ns;  /* measured time of recent work, for line_wait_ns() */
    uint64_t estimated_ns; /* estimated time of the work that measured_ns covers */
};

void line_init(struct line *line, enum line_id id);
void line_deinit(struct line *line); /* requires an empty line */

/* Returns the class of work of this cost. The line of admission.c has one class: the order of
 * its requests depends on memory, too. */
static inline unsigned line_class_of(const struct line *line, uint64_t cost_ns)
{
    unsigned c = line->id == LINE_ADMISSION ? LINE_CLASSES - 1 : 0;
    while (cost_ns > LINE_CLASS_NS[c]) {
        c++;
    }
    return c;
}

/* Append a request to the requests of its client and priority. by_ticket: insert the request
 * before those with a later ticket, so that work that returns to the line keeps its position.
 * The client, the priority and line.cost_ns of the request must not change while it waits. */
void line_push(struct line *line, struct request *request, bool by_ticket);

/* Returns the number of requests that wait in these classes. Thread: any, without the lock. */
static inline size_t line_count(const struct line *line, unsigned classes)
{
    size_t count = 0;
    for (unsigned c = 0; c < LINE_CLASSES; c++) {
        count += (classes >> c & 1) != 0
                     ? atomic_load_explicit(&line->classes[c].count, memory_order_relaxed)
                     : 0;
    }
    return count;
}

/* A walk through the requests of a class in the order in which they would be served now. */
struct line_cursor {
    struct line *line;
    struct line_class *class;
    struct line_flow *flow;   /* flow of `current` */
    size_t flows_left;        /* number of flows left to visit, the current one included */
    bool high;                /* `current` is in the flow's list of high priority */
    bool second;              /* the walk has finished the other list of the flow */
    struct request *previous; /* request before `current` in its list, or NULL */
    struct request *current;  /* NULL: the walk is over */
};

/* Begin a walk at the request that is served next. Until a request is taken, every walk begins
 * at the same request. */
struct line_cursor line_begin(struct line *line, unsigned class);
void line_step(struct line_cursor *cursor);
void line_skip(struct line_cursor *cursor); /* step to the next client's requests */

/* Remove the current request from the line to be served, and step to the next one. The client
 * pays the cost of the request, and the turn passes to the next class. */
struct request *line_take(struct line_cursor *cursor);
/* Remove the current request, which is not served, and prepend it to the chain; step to the
 * next one. */
void line_drop(struct line_cursor *cursor, struct request **chain);
/* Remove all requests from the line and prepend them to the chain. */
void line_drop_all(struct line *line, struct request **chain);

/* Move cancelled and late requests (request_verdict()) to the chain, in no particular order.
 * Returns the earliest deadline of the remaining requests, 0 if none has one. */
uint64_t line_expire(struct line *line, uint64_t now_ns, struct request **expired);

/* The work of a taken request exceeded its estimate by more_ns: charge this time to the client
 * if other clients wait now. */
void line_charge(struct line *line, const struct request *request, uint64_t more_ns);

/* Record that work of this estimated time took `took_ns` on a thread or a device. */
static inline void line_measured(struct line *line, uint64_t cost_ns, uint64_t took_ns)
{
    line->estimated_ns += cost_ns;
    line->measured_ns += took_ns;
    if (line->measured_ns > NS_PER_S) { /* the weight of older work decays */
        line->estimated_ns /= 2;
        line->measured_ns /= 2;
    }
}

/* Returns the estimated time of the work that would be served before a new request of this
 * client, priority and cost. This is the client's own waiting work in the class, plus the work
 * of each other client, up to the sum of the client's own work and the new request. */
uint64_t line_ahead_ns(const struct line *line, const struct client *client, bool high,
                       uint64_t cost_ns);

/* Returns the estimated time until one of the line's takers begins work of this cost for the
 * request's client and priority; 0 if no work is ahead. The estimate is corrected by the
 * measured time of recent work. Takes the lock. Thread: any. */
uint64_t line_wait_ns(struct line *line, const struct request *request, uint64_t cost_ns);

/* Returns true if the client has fewer waiting requests than its part of `most`. This client
 * and all clients with waiting requests have equal parts, at least one request each. */
bool line_within_part(const struct line *line, const struct client *client, size_t most);

/* End the requests of a chain that line_expire() dropped. Thread: any, without the lock. */
void line_end_expired(const struct line *line, struct request *first, uint64_t now_ns);

/* End the expired requests. Returns the earliest deadline of the remaining requests, 0 if none
 * has one. Takes the lock. Thread: any. */
uint64_t line_sweep(struct line *line, uint64_t now_ns);

#endif
