/* Who goes first: the order of all work that waits for a thread, a device, or memory.
 *
 * A line has classes by the estimated time of the work (LINE_CLASS_NS). Classes in which work
 * waits are served in turn, so that short work never waits for all of the long work, and long
 * work keeps its share of the time.
 *
 * In a class, clients take turns: deficit round robin, by estimated nanoseconds. A client gets
 * a quantum a turn and pays what its work costs, so each of n clients gets 1/n of the time,
 * whatever the size and number of its requests. A client whose work took longer than estimated
 * pays the difference with its next turns (line_charge()).
 *
 * Among the requests of a client, those of high priority are served first, each priority in
 * order of arrival. A client's requests of high priority also go before other clients' turns,
 * as long as the client has credit. Both are bounded: of LINE_HIGH_IN_ROW + 1 requests of a client
 * one is of normal priority, and of as many requests of a class one is of the client whose turn it
 * is.
 *
 * A request that waits is owned by the line. Whoever uses a line holds its lock, except where
 * a function says otherwise. */
#ifndef TALLY_SERVER_LINE_H
#define TALLY_SERVER_LINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct client;
struct request;

enum {
    LINE_HIGH_IN_ROW = 4 /* requests of high priority served before one that they overtook */
};

/* All lines; a client has a flow in each class of each. */
enum line_id {
    LINE_DEVICES,   /* scans that wait for a device (queue.h) */
    LINE_WORK,      /* steps that wait for a thread of the work pool (work.h) */
    LINE_ADMISSION, /* large requests that wait for a place or memory (admission.h): one class */
    LINE_COUNT
};

enum {
    LINE_CLASSES = 4,
    LINE_ALL = (1 << LINE_CLASSES) - 1 /* the set of all classes, bit 1 << class */
};

/* Most nanoseconds of work in each class: some 0.25 ms, 4 ms, 134 ms, any. */
static const uint64_t LINE_CLASS_NS[LINE_CLASSES] = {1 << 18, 1 << 22, 1 << 27, UINT64_MAX};

/* Requests one after the other, linked by next. */
struct request_list {
    struct request *first; /* NULL: the list is empty */
    struct request *last;  /* valid if first is not NULL */
};

/* The requests of one client in one class. */
struct line_flow {
    struct request_list waiting[2]; /* owned, oldest first; [1]: high priority */
    uint64_t latest_ticket[2];      /* of each list: no ticket in it is later */
    uint64_t cost_ns[2];            /* of each list */
    size_t count;                   /* of both */
    unsigned high_in_row;   /* of high priority, served while normal ones waited, since one */
    struct line_flow *next; /* in the ring while count > 0 */
    int64_t credit_ns;
};

/* The clients' flows of one class. */
struct line_class {
    struct line_flow *tail; /* of the ring: its next has the turn; NULL: nothing waits */
    size_t flows;           /* in the ring */
    atomic_size_t count;    /* requests */
    uint64_t cost_ns;       /* of all of them */
    size_t high_count;      /* of high priority */
    unsigned high_in_row;   /* of high priority, served before the turn's client, since one */
    int64_t quantum_ns;     /* a turn */
};

struct line {
    pthread_mutex_t lock;
    enum line_id id;
    unsigned turn; /* the class that is served next if anything waits in it */
    struct line_class classes[LINE_CLASSES];
    uint64_t begun_ns[LINE_CLASSES]; /* estimated time of the work that takers have begun */
    /* Measured and estimated time of recent work: for line_wait_ns(). */
    uint64_t measured_ns;
    uint64_t estimated_ns;
};

void line_init(struct line *line, enum line_id id);
void line_deinit(struct line *line); /* nothing waits */

/* Returns the class of work of this cost. */
unsigned line_class_of(const struct line *line, uint64_t cost_ns);

/* Put a request behind the others of its client and priority. by_ticket: but before those with
 * a later ticket, so that work which returns to the line keeps its place. request->arrival.client, ->cost_ns
 * and ->high are set, and stay as they are until the request leaves. */
void line_push(struct line *line, struct request *request, bool by_ticket);

/* Returns how many requests wait in these classes. Thread: any, without the lock. */
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

/* Returns the class of these in which work waits and whose turn it is, or LINE_CLASSES. */
unsigned line_turn(const struct line *line, unsigned classes);

/* A walk through the requests of a class in the order in which they would be served now. */
struct line_cursor {
    struct line *line;
    struct line_class *class;
    struct line_flow *flow_before; /* in the ring before the flow of `current` */
    size_t flows_left;             /* of the ring, the current one included */
    bool high;                     /* the list of `current` in its flow */
    bool second;                   /* the other list of the flow is done */
    struct request *previous;      /* in the same list, or NULL */
    struct request *current;       /* NULL: the walk is over */
};

/* Begin with the request that is served next. Gives credit as turns pass; until a request is
 * taken, each walk begins with the same one. */
struct line_cursor line_begin(struct line *line, unsigned class);
void line_step(struct line_cursor *cursor);
void line_skip(struct line_cursor *cursor); /* to the next client's */

/* Take the current request out of the line and go to the next one. The request is served: its
 * client pays for it, and the class has had its turn. */
struct request *line_take(struct line_cursor *cursor);
/* The same for a request that is not served. The request is put in front of the chain. */
void line_drop(struct line_cursor *cursor, struct request **chain);
/* Drop all requests of the line to the chain. */
void line_drop_all(struct line *line, struct request **chain);

/* Drop requests that request_verdict() ends to the chain, in no order. Returns the earliest deadline
 * of the others, 0 if none has one. */
uint64_t line_expire(struct line *line, uint64_t now_ns, struct request **expired);

/* The work of a request that was taken cost so much more than estimated: its client pays with its
 * next turns, if others wait now. */
void line_charge(struct line *line, const struct request *request, uint64_t more_ns);

/* Work of this estimated time took a thread, or a device, `took_ns`. */
void line_measured(struct line *line, uint64_t cost_ns, uint64_t took_ns);

/* Returns the estimated time of the work that is served before one more request of this client,
 * priority and cost: what the client has waiting in the class, and of each other client as much
 * as this one gets until then. */
uint64_t line_ahead_ns(const struct line *line, const struct client *client, bool high,
                       uint64_t cost_ns);

/* Returns the estimated time until work of this client, priority and cost would be begun by one of
 * `takers`, corrected by how long recent work took. 0 if nothing is in front of it. */
uint64_t line_wait_ns(const struct line *line, const struct client *client, bool high,
                      uint64_t cost_ns, size_t takers);

/* Whether fewer of the client's requests wait than its part of `most`. All clients that wait, and
 * this one, have equal parts, of at least one request. */
bool line_within_part(const struct line *line, const struct client *client, size_t most);

/* End the requests of a chain that line_expire() dropped. Thread: any, without the lock. */
void line_end_expired(const struct line *line, struct request *first, uint64_t now_ns);

/* Expire and end requests. Returns the earliest deadline of the others, 0 if none has one. Takes
 * the lock. Thread: any. */
uint64_t line_sweep(struct line *line, uint64_t now_ns);

#endif
