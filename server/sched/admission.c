/* One line of waiting requests, the sums over requests that have begun, and the factor by which
 * requests are slower than estimated; the rules are in admission.h. Every change ends in
 * admit_and_unlock(), which collects the admitted requests under the lock and posts them after
 * the unlock. */
#include "server/sched/admission.h"

#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/thread.h"
#include "server/memory/memory.h"
#include "server/sched/client.h"
#include "server/sched/completion.h"
#include "server/sched/request.h"

#include <assert.h>
#include <stdlib.h>

enum {
    CLASS = LINE_CLASSES - 1, /* the only class of the admission line */
    OVERTAKING_PART = 8,      /* overtaking requests may hold 1/8 of the budget */
    /* maximum number of requests of a client that lack memory and are overtaken by its later
     * requests */
    MOST_OVERTAKEN = 16
};

#define UNBOUNDED UINT64_MAX

/* Weight of the older measurements when a new one arrives. */
#define OLDER_WEIGHT 0.8
/* Safety factor of the time estimate: a request that misses its deadline has wasted all its
 * cost. */
#define CAUTION 1.2

struct admission {
    struct memory *memory; /* borrowed */
    uint64_t budget;       /* constant: bytes that may be promised (memory_budget_large()) */
    uint64_t kept; /* constant: bytes of the memory budget that are kept for small requests */
    size_t max_waiting;
    struct line line; /* its lock guards the fields below, too */
    /* time of the last finish, or of the later time at which a request got the only place */
    uint64_t since_ns;
    unsigned measured;      /* number of measured finishes, counted up to ADMISSION_PLACES */
    double took_ns;         /* weighted sum of the times of measured finishes */
    double took_cost_ns;    /* weighted sum of the costs of measured finishes */
    double slowness;        /* time of a request divided by its cost; 0: not known */
    bool memory_is_lacking; /* a request lacked memory in the last walk through the line */
    bool place_is_lacking;  /* a request lacked a place in the last walk through the line */
    /* Sums over requests; count_request() alone changes them. */
    size_t active; /* requests that are ACTIVE */
    /* requests that have begun, are not in the line and have not overtaken a request */
    size_t working;
    size_t begun_waiting;      /* requests that have begun and wait for more memory */
    uint64_t waiting_bytes;    /* bytes of the budget that requests in the line hold */
    uint64_t claimed_bytes;    /* claims of all requests */
    uint64_t overtaking_bytes; /* claims of requests that have overtaken others */
    size_t places;             /* requests that have a place */
    size_t placed_clients;     /* clients of requests that have a place */
    uint64_t placed_bytes;     /* claims of requests that have a place */
    uint64_t placed_cost_ns;   /* costs of requests that have a place */
};

enum status admission_create(struct memory *memory, size_t max_waiting, struct admission **out,
                             struct error *err)
{
    struct admission *admission = calloc(1, sizeof *admission);
    if (admission == NULL) {
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the admission of requests");
    }
    admission->memory = memory;
    admission->budget = memory_budget_large(memory);
    admission->kept = memory_budget(memory) - admission->budget;
    admission->max_waiting = max_waiting;
    line_init(&admission->line, LINE_ADMISSION);
    *out = admission;
    return STATUS_OK;
}

void admission_destroy(struct admission *admission)
{
    if (admission != NULL) {
        assert(line_count(&admission->line, LINE_ALL) == 0);
        line_deinit(&admission->line);
        free(admission);
    }
}

/* ---- places and memory; thread: a holder of the lock ---- */

static bool has_begun(const struct request *request)
{
    return request->admission.state != ADMISSION_NONE;
}

/* Returns the bytes of the budget that are charged or promised to the request. */
static uint64_t held_bytes(const struct request *request)
{
    return request->memory.reserved_bytes + request->admission.promised_bytes;
}

/* Add the request to the sums (sign: 1), or subtract it (sign: -1). Before a request changes,
 * subtract it; after the change, add it again. */
static void count_request(struct admission *admission, const struct request *request, int sign)
{
    const struct admission_hold *hold = &request->admission;
    struct client *client = request->arrival.client;
    const uint64_t one = (uint64_t)sign;
    const bool begun = has_begun(request);
    admission->active += hold->state == ADMISSION_ACTIVE ? one : 0;
    admission->working += begun && !hold->waits && !hold->overtook ? one : 0;
    admission->begun_waiting += begun && hold->waits ? one : 0;
    admission->waiting_bytes += hold->waits ? one * held_bytes(request) : 0;
    admission->claimed_bytes += one * hold->claim;
    client->claimed_bytes += one * hold->claim;
    admission->overtaking_bytes += hold->overtook ? one * hold->claim : 0;
    if (hold->has_place) {
        admission->since_ns = admission->places == 0 ? clock_now_ns() : admission->since_ns;
        admission->placed_clients += client->places == (sign > 0 ? 0 : 1) ? one : 0;
        client->places += one;
        client->placed_cost_ns += one * hold->cost_ns;
        admission->places += one;
        admission->placed_bytes += one * hold->claim;
        admission->placed_cost_ns += one * hold->cost_ns;
    }
}

static void set_waiting(struct admission *admission, struct request *request, bool waits)
{
    count_request(admission, request, -1);
    request->admission.waits = waits;
    count_request(admission, request, 1);
}

/* Returns true if the client has no place and fewer than ADMISSION_PLACES clients have a place.
 * Such a client gets a place even if other clients use all ADMISSION_PLACES places. */
static bool is_owed_place(const struct admission *admission, const struct client *client)
{
    return client->places == 0 && admission->placed_clients < ADMISSION_PLACES;
}

/* Returns true if there is a place for a request of the client. After one request in this walk
 * through the line has lacked a place, only clients that are owed a place get one. */
static bool has_room(const struct admission *admission, const struct client *client,
                     uint64_t claim)
{
    const uint64_t part = admission->budget / ADMISSION_SHORT_PART;
    const uint64_t together = admission->placed_bytes + claim;
    const bool is_free = admission->places < ADMISSION_PLACES ||
                         together <= smaller_of(part, ADMISSION_SHORT_BYTES);
    return is_owed_place(admission, client) || (is_free && !admission->place_is_lacking);
}

/* Returns true if the client's claims and `more` bytes together exceed its part of the budget.
 * This client and all clients in the line have equal parts. A client without claims never
 * exceeds its part. */
static bool exceeds_part(const struct admission *admission, const struct client *client,
                         uint64_t more)
{
    const bool waits = client->flows[LINE_ADMISSION][CLASS].count > 0;
    const size_t clients = admission->line.classes[CLASS].ring.count + !waits;
    const uint64_t part = admission->budget / clients;
    return clients > 1 && client->claimed_bytes > 0 && client->claimed_bytes + more > part;
}

/* Returns the bytes of the budget that the request still lacks for the claim that it waits for.
 * Memory that the request reserved while it still looked small is part of the claim. Otherwise
 * a claim of the whole budget would wait for the request's own memory. */
static uint64_t missing_bytes(const struct request *request)
{
    const struct admission_hold *hold = &request->admission;
    return hold->wanted - smaller_of(larger_of(hold->claim, held_bytes(request)), hold->wanted);
}

/* Returns the number of bytes of its claim without which the request may begin or continue:
 * - The bytes of the budget that are kept for small requests. Otherwise a claim of the whole
 *   budget would wait until no small request holds a byte.
 * - If all requests that hold memory wait, also the bytes that the other requests in the line
 *   hold, because none of these requests would ever release memory. */
static uint64_t may_lack(const struct admission *admission, const struct request *request)
{
    const uint64_t most = admission->budget;
    const uint64_t claimed = admission->claimed_bytes;
    if (request->admission.waits && admission->working == 0) {
        return admission->kept + admission->waiting_bytes - held_bytes(request);
    }
    return claimed <= most && missing_bytes(request) <= most - claimed ? admission->kept : 0;
}

/* Promise the wanted memory to the request. If the request has not begun, begin it. Returns
 * false if there is not enough memory. room: the bytes that this request may take if it
 * overtakes requests that lack memory; UNBOUNDED: the request overtakes none. */
static bool grant_memory(struct admission *admission, struct request *request, uint64_t room,
                         uint64_t now_ns)
{
    struct admission_hold *hold = &request->admission;
    const uint64_t overtaking = smaller_of(admission->overtaking_bytes, room);
    uint64_t promised = 0;
    if (hold->wanted > room - overtaking ||
        !memory_promise(admission->memory, missing_bytes(request), may_lack(admission, request),
                        &promised)) {
        return false;
    }
    count_request(admission, request, -1);
    if (!has_begun(request)) {
        hold->state = ADMISSION_ACTIVE;
        hold->has_place = true;
        hold->overtook = room != UNBOUNDED;
        hold->begun_ns = now_ns;
    }
    hold->promised_bytes += promised;
    hold->claim = hold->wanted;
    hold->cost_ns = hold->wanted_cost_ns;
    hold->waits = false;
    count_request(admission, request, 1);
    return true;
}

/* Change the place, cost and state of the request, and give back the promised memory that is
 * not charged and exceeds `claim`. */
static void change_hold(struct admission *admission, struct request *request, uint64_t claim,
                        uint64_t cost_ns, bool has_place, enum admission_state state)
{
    struct admission_hold *hold = &request->admission;
    const uint64_t excess = hold->claim > claim ? hold->claim - claim : 0;
    const uint64_t less = smaller_of(excess, hold->promised_bytes);
    if (less > 0) {
        memory_unpromise(admission->memory, less);
    }
    count_request(admission, request, -1);
    hold->promised_bytes -= less;
    hold->claim -= less;
    hold->cost_ns = cost_ns;
    hold->has_place = has_place;
    hold->state = state;
    count_request(admission, request, 1);
}

/* Returns the maximum number of bytes that requests overtaking this one may hold in total. */
static uint64_t overtaking_room(const struct admission *admission,
                                const struct request *request)
{
    const uint64_t most = admission->budget;
    const uint64_t spared = most - request->admission.wanted;
    const uint64_t committed = memory_committed(admission->memory);
    const uint64_t others = committed - smaller_of(admission->overtaking_bytes, committed);
    if (admission->working == 0) {
        return 0; /* a stream of overtaking requests could starve this one */
    }
    const bool waits_for_others =
        others > most + may_lack(admission, request) - missing_bytes(request);
    return waits_for_others ? larger_of(spared, most / OVERTAKING_PART) : spared;
}

/* ---- time; thread: a holder of the lock ---- */

/* Returns the estimated nanoseconds until all requests of a client are answered, if the first
 * of these requests begins now. cost_ns: the sum of their costs.
 *
 * The estimate counts the full cost of every request that has a place, because bodies arrive at
 * the same time. Clients take turns, so the cost of another client counts only up to the cost
 * of this client. The result is 0 for a client that is owed a place, because slow bodies of
 * other clients may have caused the measured slowness. */
static uint64_t time_for(const struct admission *admission, const struct client *client,
                         uint64_t cost_ns)
{
    if (is_owed_place(admission, client)) {
        return 0;
    }
    const double own = (double)client->placed_cost_ns + (double)cost_ns;
    const double others = (double)(admission->placed_cost_ns - client->placed_cost_ns);
    const double clients = (double)(admission->placed_clients - (client->places > 0));
    const double shared = others < own * clients ? others : own * clients;
    return (uint64_t)((own + shared) * admission->slowness * CAUTION);
}

/* Returns true if the request would miss its deadline even if it began now. */
static bool is_hopeless(const struct admission *admission, const struct request *request,
                        uint64_t now_ns)
{
    const uint64_t cost_ns = request->admission.wanted_cost_ns;
    return request->arrival.deadline_ns != 0 &&
           now_ns + time_for(admission, request->arrival.client, cost_ns) >
               request->arrival.deadline_ns;
}

/* Update the slowness after a request with a place has finished. The request is measured only
 * if no place is free; otherwise its time depends on the speed of the client or on a lack of
 * memory, not on the speed of the service. */
static void measure_slowness(struct admission *admission, const struct request *request,
                             uint64_t now_ns)
{
    const struct admission_hold *hold = &request->admission;
    const double took_ns = (double)clock_span_ns(admission->since_ns, now_ns);
    admission->since_ns = now_ns;
    if (has_room(admission, request->arrival.client, hold->claim)) {
        return;
    }
    admission->took_ns = admission->took_ns * OLDER_WEIGHT + took_ns;
    admission->took_cost_ns = admission->took_cost_ns * OLDER_WEIGHT + (double)hold->cost_ns;
    /* Requests with places run at the same time, so the time between two finishes is right only
     * as a mean over at least ADMISSION_PLACES finishes. */
    admission->measured += admission->measured < ADMISSION_PLACES;
    if (admission->measured == ADMISSION_PLACES) {
        admission->slowness = admission->took_ns / admission->took_cost_ns;
    }
}

/* ---- the walk through the line; thread: a holder of the lock ---- */

/* Requests that leave the line, to be handed over outside the lock. */
struct leaving {
    struct request_list admitted; /* oldest first */
    struct request *hopeless;     /* in no order */
};

/* Admit requests that have begun and wait for more memory; requests that have not begun wait
 * until these finish. Returns the least overtaking_room() of the requests that still lack
 * memory. */
static uint64_t admit_begun(struct admission *admission, uint64_t now_ns,
                            struct leaving *leaving)
{
    uint64_t room = UNBOUNDED;
    struct line_cursor cursor = line_begin(&admission->line, CLASS);
    for (size_t left = admission->begun_waiting; left > 0;) {
        struct request *request = cursor.current;
        left -= has_begun(request);
        if (!has_begun(request)) {
            line_step(&cursor);
        } else if (grant_memory(admission, request, UNBOUNDED, now_ns)) {
            request_append(&leaving->admitted, line_take(&cursor));
        } else {
            room = smaller_of(room, overtaking_room(admission, request));
            line_step(&cursor);
        }
    }
    return room;
}

/* Begin the requests that can begin, in the order of the line. room: the result of
 * admit_begun() */
static void admit_new(struct admission *admission, uint64_t now_ns, uint64_t room,
                      struct leaving *leaving)
{
    struct line_cursor cursor = line_begin(&admission->line, CLASS);
    uint64_t left = room;
    size_t lacking = 0; /* requests of the current client that lack memory */
    admission->place_is_lacking = false;
    while (cursor.current != NULL) {
        struct request *request = cursor.current;
        lacking = cursor.previous == NULL ? 0 : lacking;
        if (has_begun(request)) {
            line_step(&cursor);
        } else if (is_hopeless(admission, request, now_ns)) {
            set_waiting(admission, request, false);
            line_drop(&cursor, &leaving->hopeless);
        } else if (admission->places > 0 && exceeds_part(admission, request->arrival.client,
                                                         request->admission.wanted)) {
            line_skip(&cursor); /* other requests of the same client do not overtake it */
        } else if (!has_room(admission, request->arrival.client, request->admission.wanted)) {
            admission->place_is_lacking = true; /* the next free place is for this request */
            line_skip(&cursor);
        } else if (grant_memory(admission, request, left, now_ns)) {
            request_append(&leaving->admitted, line_take(&cursor));
            cursor = line_begin(&admission->line, CLASS); /* the order has changed */
            left = room;
        } else {
            left = smaller_of(left, overtaking_room(admission, request));
            lacking++;
            (lacking < MOST_OVERTAKEN ? line_step : line_skip)(&cursor);
        }
    }
    admission->memory_is_lacking = left != UNBOUNDED;
}

/* Admit all requests that can continue or begin, and release the lock. */
static void admit_and_unlock(struct admission *admission, uint64_t now_ns)
{
    struct leaving leaving = {0};
    if (line_count(&admission->line, LINE_ALL) == 0) {
        admission->place_is_lacking = false;
        admission->memory_is_lacking = false;
        MUST(pthread_mutex_unlock(&admission->line.lock));
        return;
    }
    const uint64_t room = admit_begun(admission, now_ns, &leaving);
    admit_new(admission, now_ns, room, &leaving);
    MUST(pthread_mutex_unlock(&admission->line.lock));
    completion_post_home(leaving.admitted.first);
    completion_fail(leaving.hopeless, STATUS_DEADLINE_PASSED,
                    "the request waited for other large ones until its deadline could not "
                    "be kept any more: try again, or allow more time");
}

/* ---- before and while the body arrives ---- */

enum status admission_check(struct admission *admission, const struct request *request,
                            uint64_t cost_ns, uint64_t *wait_ns, struct error *err)
{
    MUST(pthread_mutex_lock(&admission->line.lock));
    const struct client *client = request->arrival.client;
    const size_t waiting = line_count(&admission->line, LINE_ALL);
    const bool crowded = admission->place_is_lacking || admission->places >= ADMISSION_PLACES;
    *wait_ns = crowded ? time_for(admission, client,
                                  cost_ns + line_ahead_ns(&admission->line, client,
                                                          request->arrival.high, cost_ns))
                       : 0;
    const bool is_full = waiting >= admission->max_waiting &&
                         !line_within_part(&admission->line, client, admission->max_waiting);
    MUST(pthread_mutex_unlock(&admission->line.lock));
    if (is_full) {
        return error_set(err, STATUS_QUEUE_FULL,
                         "%zu large requests wait already, the server's --queue-depth: try "
                         "again after Retry-After seconds",
                         waiting);
    }
    return request_check_wait(request, *wait_ns, err);
}

bool admission_enter(struct admission *admission, struct request *request, uint64_t claim,
                     uint64_t cost_ns)
{
    struct admission_hold *hold = &request->admission;
    claim = smaller_of(claim, admission->budget);
    if (claim <= hold->claim) {
        return true;
    }
    MUST(pthread_mutex_lock(&admission->line.lock));
    const uint64_t now_ns = clock_now_ns();
    const bool is_next =
        has_begun(request) || (line_count(&admission->line, LINE_ALL) == 0 &&
                               has_room(admission, request->arrival.client, claim));
    hold->wanted = claim;
    hold->wanted_cost_ns = cost_ns;
    if (is_next && grant_memory(admission, request, UNBOUNDED, now_ns)) {
        MUST(pthread_mutex_unlock(&admission->line.lock));
        return true;
    }
    /* the client has already paid hold->cost_ns */
    request->line.cost_ns = cost_ns - smaller_of(cost_ns, hold->cost_ns);
    request_set_owner(request, OWNER_ADMISSION);
    set_waiting(admission, request, true);
    line_push(&admission->line, request, true);
    admit_and_unlock(admission, now_ns); /* may admit this request, too */
    return false;
}

void admission_update(struct admission *admission, struct request *request, uint64_t claim,
                      uint64_t cost_ns)
{
    const struct admission_hold *hold = &request->admission;
    if (hold->claim <= claim && hold->cost_ns == cost_ns) {
        return;
    }
    MUST(pthread_mutex_lock(&admission->line.lock));
    change_hold(admission, request, claim, cost_ns, hold->has_place, hold->state);
    admit_and_unlock(admission, clock_now_ns());
}

bool admission_pace(struct admission *admission, struct request *request, uint64_t rate)
{
    const struct admission_hold *hold = &request->admission;
    const struct client *client = request->arrival.client;
    const bool is_fast = rate >= ADMISSION_PLACE_RATE;
    bool gives_back = !is_fast && rate < hold->claim / ADMISSION_TURNOVER_S;
    const bool changes = hold->has_place != is_fast || (gives_back && hold->promised_bytes > 0);
    if (!changes && (is_fast || line_count(&admission->line, LINE_ALL) == 0)) {
        return false;
    }
    MUST(pthread_mutex_lock(&admission->line.lock));
    if (!is_fast && admission->memory_is_lacking && client->claimed_bytes > hold->claim) {
        gives_back |= exceeds_part(admission, client, 0);
    }
    change_hold(admission, request, gives_back ? 0 : hold->claim, hold->cost_ns, is_fast,
                hold->state);
    admit_and_unlock(admission, clock_now_ns());
    return gives_back;
}

void admission_finish(struct admission *admission, struct request *request)
{
    const struct admission_hold *hold = &request->admission;
    if (hold->state != ADMISSION_ACTIVE) {
        return;
    }
    MUST(pthread_mutex_lock(&admission->line.lock));
    const uint64_t now_ns = clock_now_ns();
    if (hold->has_place && request->error.status == STATUS_OK) {
        measure_slowness(admission, request, now_ns);
    }
    change_hold(admission, request, 0, hold->cost_ns, false, ADMISSION_FINISHED);
    admit_and_unlock(admission, now_ns);
}

void admission_leave(struct admission *admission, struct request *request)
{
    struct admission_hold *hold = &request->admission;
    const bool small = hold->state == ADMISSION_NONE;
    if (small && line_count(&admission->line, LINE_ALL) == 0) {
        return;
    }
    MUST(pthread_mutex_lock(&admission->line.lock));
    if (!small) {
        change_hold(admission, request, 0, 0, false, ADMISSION_FINISHED);
        count_request(admission, request, -1);
        *hold = (struct admission_hold){.state = ADMISSION_NONE};
    }
    admit_and_unlock(admission, clock_now_ns());
}

uint64_t admission_sweep(struct admission *admission, uint64_t now_ns)
{
    struct request *expired = NULL;
    MUST(pthread_mutex_lock(&admission->line.lock));
    const uint64_t earliest = line_expire(&admission->line, now_ns, &expired);
    for (struct request *request = expired; request != NULL; request = request->line.next) {
        set_waiting(admission, request, false);
    }
    admit_and_unlock(admission, now_ns);
    request_end_expired(expired, now_ns, "other large requests");
    return earliest;
}

void admission_close(struct admission *admission)
{
    struct request *chain = NULL;
    if (admission == NULL) {
        return;
    }
    MUST(pthread_mutex_lock(&admission->line.lock));
    struct line_cursor cursor = line_begin(&admission->line, CLASS);
    while (cursor.current != NULL) {
        set_waiting(admission, cursor.current, false);
        line_drop(&cursor, &chain);
    }
    MUST(pthread_mutex_unlock(&admission->line.lock));
    completion_fail(chain, STATUS_DRAINING, "the service is shutting down");
}

void admission_stats(struct admission *admission, struct admission_stats *out)
{
    MUST(pthread_mutex_lock(&admission->line.lock));
    out->waiting = line_count(&admission->line, LINE_ALL);
    out->active = admission->active;
    MUST(pthread_mutex_unlock(&admission->line.lock));
}
