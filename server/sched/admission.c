/* One line of those who wait, a count of those who are active, and the speed at which they
 * finish; see admission.h. Who is admitted is collected under the lock and posted after it. */
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
    QUANTUM = 64 << 20, /* estimated nanoseconds that a client gets in a turn */
    STUCK_MS = 1000,    /* everybody who is active has waited for memory for this long */

    OVERTAKEN_PART = 8,  /* of the budget: an eighth, which requests that overtake may hold */
    MOST_OVERTAKEN = 16, /* lacking requests of a client that its other requests overtake */
    BEATS_PER_S = 4,     /* heartbeats (HEARTBEAT_MS) */

    /* Bytes of a body in a heartbeat. Fewer are slow: */
    SLOW_BYTES = 256 << 10,  /* always; */
    WANTED_BYTES = 4 << 20,  /* where a client waits that has no place; */
    CROWDED_BYTES = 16 << 20 /* and if this one has more than its part of them. */
};

#define UNBOUNDED UINT64_MAX

/* What older measurements of the speed weigh when a new one comes. */
#define SPEED_KEPT 0.8
/* What is reckoned to take so long may take this many times as long: whoever is begun and comes
 * late has cost as much as one that is in time. */
#define CAUTION 1.2

/* How long large requests took in a crowd, by what they cost. */
struct speed {
    uint64_t last_finish_ns;
    unsigned finishes;  /* up to ADMISSION_PLACES */
    double ns;          /* that they took, ... */
    double cost;        /* ... and what they cost, the latest weighing most */
    double ns_per_cost; /* 0: not known */
};

struct admission {
    struct memory *memory; /* borrowed */
    size_t max_waiting;
    pthread_mutex_t lock; /* guards everything below */
    struct fair_line line;
    size_t begun_waiting;  /* of those in the line: they have begun and want more */
    uint64_t held_waiting; /* bytes of the memory budget that those in the line have */
    size_t aside;          /* that have a promise, but no place */
    size_t active;
    uint64_t active_bytes;     /* of their claims */
    uint64_t active_cost;      /* and all that they cost */
    size_t active_clients;     /* whose they are */
    uint64_t claimed_bytes;    /* of the claims of all who have one */
    uint64_t shortage;         /* number of the latest shortage of memory in the line */
    size_t lacking;            /* requests in the line that lacked memory at the last look */
    uint64_t overtaking_bytes; /* claims of requests that began in this shortage */
    size_t overtaking;         /* such requests that are ACTIVE or ASIDE */
    uint64_t stuck_since_ns;
    uint64_t busy_since_ns;
    bool is_shared; /* requests of several clients are active or wait */
    uint64_t shared_since_ns;
    struct speed shared; /* of such requests, ... */
    struct speed alone;  /* ... and of those of one client, whichever it was last */
};

enum status admission_create(struct memory *memory, size_t max_waiting, struct admission **out,
                             struct error *err)
{
    struct admission *admission = calloc(1, sizeof *admission);
    if (admission == NULL || pthread_mutex_init(&admission->lock, NULL) != 0) {
        free(admission);
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the admission of requests");
    }
    admission->memory = memory;
    admission->max_waiting = max_waiting;
    admission->shortage = 1;
    fair_init(&admission->line, FAIR_ADMISSION, QUANTUM);
    *out = admission;
    return STATUS_OK;
}

void admission_destroy(struct admission *admission)
{
    if (admission != NULL) {
        assert(admission->line.count == 0);
        MUST(pthread_mutex_destroy(&admission->lock));
        free(admission);
    }
}

/* ---- places and memory ---- */

static bool is_active(const struct request *request)
{
    return request->admission.state == ADMISSION_ACTIVE;
}

/* Was the request admitted, and goes on without a place, but with its promise? */
static bool is_aside(const struct request *request)
{
    return request->admission.state == ADMISSION_ASIDE;
}

/* Was the request admitted, and goes on without both? */
static bool is_slow(const struct request *request)
{
    return request->admission.state == ADMISSION_SLOW;
}

/* Has the request begun? It may be in the line all the same, for more memory. */
static bool has_begun(const struct request *request)
{
    return is_active(request) || is_aside(request) || is_slow(request);
}

static bool has_place(const struct admission *admission, uint64_t claim)
{
    uint64_t part = memory_budget_large(admission->memory) / ADMISSION_SHORT_PART;
    uint64_t are_short = part < ADMISSION_SHORT_BYTES ? part : ADMISSION_SHORT_BYTES;
    return admission->active < ADMISSION_PLACES || admission->active_bytes + claim <= are_short;
}

/* Would the request's client have more than its part of the budget, of which all clients in the
 * line have the same? */
static bool over_its_part(const struct admission *admission, const struct request *request)
{
    uint64_t part = memory_budget_large(admission->memory) / admission->line.flows;
    uint64_t more = request->admission.wanted - request->admission.claim;
    return admission->line.flows > 1 && request->client->claimed_bytes > 0 &&
           request->client->claimed_bytes + more > part;
}

/* How much of `more` bytes for a claim may be lacking because small requests hold it. They may
 * hold the part of the budget that is kept for them, and the claim then has the rest. Else a
 * claim of the whole budget, as packed bodies have, would wait until no small request holds a
 * byte. */
static uint64_t small_part(const struct admission *admission, uint64_t more)
{
    const uint64_t most = memory_budget_large(admission->memory);
    const uint64_t claimed = admission->claimed_bytes;
    bool within = claimed <= most && more <= most - claimed;
    return within ? memory_budget(admission->memory) - most : 0;
}

/* What the request has of the memory budget, taken or promised. */
static uint64_t held_bytes(const struct request *request)
{
    return request->reserved_bytes + request->admission.promised_bytes;
}

/* Bytes of the budget that the request lacks for the claim that it waits for. Memory that the request
 * reserved while it still looked small counts in its claim; otherwise a claim of the whole budget
 * would wait for the request's own memory. */
static uint64_t missing_bytes(const struct request *request)
{
    const struct admission_hold *hold = &request->admission;
    const uint64_t held = larger_of(hold->claim, held_bytes(request));
    return hold->wanted - smaller_of(held, hold->wanted);
}

/* Add to the request's claim, modulo 2^64. */
static void change_claim(struct admission *admission, struct request *request, uint64_t more)
{
    struct admission_hold *hold = &request->admission;
    hold->claim += more;
    admission->claimed_bytes += more;
    request->client->claimed_bytes += more;
    admission->active_bytes += is_active(request) ? more : 0;
    admission->overtaking_bytes += hold->overtook == admission->shortage ? more : 0;
}

/* Count a request that has left the line. */
static void account_left(struct admission *admission, struct request *request, bool had_begun)
{
    admission->begun_waiting -= had_begun;
    admission->held_waiting -= request->admission.held_bytes;
    request->admission.held_bytes = 0;
}

/* From now on the request costs so much. */
static void set_cost(struct admission *admission, struct request *request, uint64_t cost)
{
    struct admission_hold *hold = &request->admission;
    if (is_active(request)) {
        admission->active_cost += cost - hold->cost;
        request->client->active_cost += cost - hold->cost;
    }
    hold->cost = cost;
}

/* Take the memory, and a place if it has none and needs one. False: not now. */
static bool grant_memory(struct admission *admission, struct request *request, uint64_t now_ns)
{
    struct admission_hold *hold = &request->admission;
    bool begins = !has_begun(request);
    uint64_t missing = missing_bytes(request);
    uint64_t lack = small_part(admission, missing);
    if (begins && admission->active == 0) {
        /* What the others in the line have, who took it while they seemed small. */
        lack += admission->held_waiting - hold->held_bytes;
    }
    uint64_t promised = 0;
    if ((begins && !has_place(admission, hold->wanted)) ||
        !memory_promise(admission->memory, missing, lack, &promised)) {
        return false;
    }
    hold->promised_bytes += promised;
    if (begins) {
        admission->busy_since_ns = admission->active == 0 ? now_ns : admission->busy_since_ns;
        admission->active++;
        admission->active_clients += request->client->active == 0;
        request->client->active++;
        hold->state = ADMISSION_ACTIVE; /* its claim and its cost were 0 */
    }
    change_claim(admission, request, hold->wanted - hold->claim);
    set_cost(admission, request, hold->wanted_cost);
    return true;
}

/* Are all requests that are active or wait this client's? */
static bool is_alone(const struct admission *admission, const struct client *client)
{
    const size_t waiting =
        admission->line.flows - (client->flows[FAIR_ADMISSION].first != NULL);
    const size_t active = admission->active_clients - (client->active > 0);
    return waiting + active == 0;
}

/* Who is active or waits has changed. Thread: a holder of the lock. */
static void note_clients(struct admission *admission, uint64_t now_ns)
{
    const struct fair_flow *flow = admission->line.tail;
    const bool was_shared = admission->is_shared;
    admission->is_shared = admission->active_clients > 1 ||
                           (flow != NULL && !is_alone(admission, flow->first->client));
    if (admission->is_shared && !was_shared) {
        admission->shared_since_ns = now_ns;
    }
}

/* Nanoseconds until requests of a client that cost so much are through, were the first of them
 * to begin now. The last of them shares the loops with all that are active then, as bodies come
 * side by side, and with those that take the places that become free. So all requests of the
 * client count, and of every other client as much as it gets itself by then, as clients have
 * turns. Of the others only what they cost together is known. A crowd of one client's requests
 * shows how fast that client sends and reads: it counts for no other one beside it. */
static uint64_t time_for(const struct admission *admission, const struct client *client,
                         uint64_t cost)
{
    const double own = (double)client->active_cost + (double)cost;
    const double others = (double)(admission->active_cost - client->active_cost);
    const size_t clients = admission->active_clients - (client->active > 0);
    const double shared = others < own * (double)clients ? others : own * (double)clients;
    const struct speed *speed =
        is_alone(admission, client) ? &admission->alone : &admission->shared;
    return (uint64_t)((own + shared) * speed->ns_per_cost * CAUTION);
}

/* Does the request's deadline come before it could be through, were it to begin now? */
static bool is_hopeless(const struct admission *admission, const struct request *request,
                        uint64_t now_ns)
{
    const struct admission_hold *hold = &request->admission;
    return request->deadline_ns != 0 &&
           now_ns + time_for(admission, request->client, hold->wanted_cost) >
               request->deadline_ns;
}

/* ---- overtaking ---- */

/* The most bytes that all requests which overtake this one may hold together: the part of the budget
 * that the request does not claim, so that it begins when the requests before it have given back
 * enough. While the request would lack memory without them, too, overtaking requests may hold a fixed
 * part of the budget if that is more. If the request lacks only memory that other requests in the
 * line hold, the result is 0, because such a request begins when no request is active. */
static uint64_t overtaking_room(const struct admission *admission,
                                const struct request *request)
{
    const struct admission_hold *hold = &request->admission;
    const uint64_t most = memory_budget_large(admission->memory);
    const uint64_t missing = missing_bytes(request);
    const uint64_t may_hold = most + small_part(admission, missing) - missing;
    const uint64_t committed = memory_committed(admission->memory);
    const uint64_t others = committed - smaller_of(admission->overtaking_bytes, committed);
    const uint64_t in_line = admission->held_waiting - hold->held_bytes;
    const uint64_t left = most - hold->wanted;
    if (others > may_hold && others - smaller_of(in_line, others) <= may_hold) {
        return 0;
    }
    return larger_of(left, others > may_hold ? most / OVERTAKEN_PART : 0);
}

/* Returns true if the request may begin before the requests that lack memory and stand before it in
 * the line; room: the least overtaking_room() of these. */
static bool may_overtake(const struct admission *admission, const struct request *request,
                         uint64_t room)
{
    return room == UNBOUNDED ||
           (admission->overtaking_bytes <= room &&
            request->admission.wanted <= room - admission->overtaking_bytes);
}

/* The request has begun before requests that lack memory: count its claim from now on. */
static void count_overtaking(struct admission *admission, struct request *request)
{
    request->admission.overtook = admission->shortage;
    admission->overtaking_bytes += request->admission.claim;
    admission->overtaking++;
}

/* No request in the line lacks memory: the requests that are counted overtake none any more. */
static void end_shortage(struct admission *admission)
{
    admission->shortage++;
    admission->overtaking_bytes = 0;
    admission->overtaking = 0;
}

/* Requests that leave the line, to be handed on outside the lock. */
struct leaving {
    struct request_list admitted; /* oldest first */
    struct request *hopeless;     /* in no order */
};

/* Let those go on who have begun and wait for more memory: what they need is what the others
 * wait for in the end. Thread: a holder of the lock.
 * returns the least overtaking_room() of the requests that still lack memory; 0 if all holders of
 * memory but overtaking requests wait for more, so that break_deadlock() sees the deadlock. A SLOW
 * request has no promise and does not count. */
static uint64_t go_on(struct admission *admission, uint64_t now_ns, struct leaving *leaving)
{
    size_t left = admission->begun_waiting; /* mostly none */
    size_t stuck = 0;
    uint64_t room = UNBOUNDED;
    if (left == 0) {
        return room;
    }
    struct fair_cursor cursor = fair_begin(&admission->line);
    while (left > 0 && cursor.current != NULL) {
        struct request *request = cursor.current;
        const bool begun = has_begun(request);
        left -= begun;
        if (begun && grant_memory(admission, request, now_ns)) {
            account_left(admission, request, true);
            request_append(&leaving->admitted, fair_take(&cursor));
            continue;
        }
        if (begun && !is_slow(request)) {
            room = smaller_of(room, overtaking_room(admission, request));
            stuck++;
        }
        fair_step(&cursor);
    }
    const size_t holders = admission->active + admission->aside;
    return stuck > 0 && stuck + admission->overtaking >= holders ? 0 : room;
}

/* Admit as many as can begin and have not got their client's part; `first`: where nobody is
 * active the first that can, whatever its client has. room: the result of go_on(). Thread: a holder of the lock. */
static void begin_waiting(struct admission *admission, uint64_t now_ns, bool first,
                          uint64_t room, struct leaving *leaving)
{
    struct fair_cursor cursor = fair_begin(&admission->line);
    uint64_t left = room;
    size_t lacking = 0;
    size_t of_client = 0; /* of these, the current client's */
    while (cursor.current != NULL) {
        struct request *request = cursor.current;
        const bool any = first && admission->active == 0;
        of_client = cursor.previous == NULL ? 0 : of_client;
        if (!has_begun(request) && is_hopeless(admission, request, now_ns)) {
            account_left(admission, request, false);
            fair_drop(&cursor, &leaving->hopeless);
        } else if (has_begun(request)) {
            fair_step(&cursor);
        } else if (!any && over_its_part(admission, request)) {
            fair_skip(&cursor); /* nor do those of its client overtake it */
        } else if (!has_place(admission, request->admission.wanted)) {
            break; /* the next free place is for this request */
        } else if (may_overtake(admission, request, left) &&
                   grant_memory(admission, request, now_ns)) {
            account_left(admission, request, false);
            if (left != UNBOUNDED) {
                count_overtaking(admission, request);
            }
            request_append(&leaving->admitted, fair_take(&cursor));
            cursor = fair_begin(&admission->line); /* turns have passed */
            left = room;
            lacking = 0;
        } else {
            left = smaller_of(left, overtaking_room(admission, request));
            lacking++;
            of_client++;
            (of_client < MOST_OVERTAKEN ? fair_step : fair_skip)(&cursor);
        }
    }
    admission->lacking = lacking + (room != UNBOUNDED);
    if (cursor.current == NULL && left == UNBOUNDED) {
        end_shortage(admission);
    }
}

/* Let all go on and begin who can, and give the lock up. Who has its part waits while others do,
 * but not while nobody is served: all clients that wait may have theirs, in requests of which
 * nothing comes. Thread: a holder of the lock. */
static void admit_and_unlock(struct admission *admission, uint64_t now_ns)
{
    struct leaving leaving = {0};
    const uint64_t room = go_on(admission, now_ns, &leaving);
    begin_waiting(admission, now_ns, false, room, &leaving);
    if (admission->active == 0) {
        begin_waiting(admission, now_ns, true, room, &leaving);
    }
    note_clients(admission, now_ns);
    MUST(pthread_mutex_unlock(&admission->lock));
    completion_post_home(leaving.admitted.first);
    completion_fail(leaving.hopeless, STATUS_DEADLINE_PASSED,
                    "the request waited for other large ones until its deadline could not "
                    "be kept any more: try again, or allow more time");
}

/* Requests in the line that wait for the work of others. Requests that lack memory are not counted:
 * how long they wait says nothing of the speed of the service. Thread: a holder of the lock. */
static size_t count_behind_work(const struct admission *admission)
{
    const size_t waiting = fair_count(&admission->line);
    return waiting - smaller_of(admission->lacking, waiting);
}

/* ---- before the body ---- */

enum status admission_check(struct admission *admission, const struct request *request,
                            uint64_t claim, uint64_t cost, uint64_t *wait_ns, struct error *err)
{
    uint64_t most = memory_budget_large(admission->memory);
    if (claim > most) {
        return memory_never_fits(admission->memory, claim, err);
    }
    MUST(pthread_mutex_lock(&admission->lock));
    size_t waiting = admission->line.count;
    bool crowd = count_behind_work(admission) > 0 || admission->active >= ADMISSION_PLACES;
    uint64_t ahead = fair_ahead(&admission->line, request->client, request->high, cost);
    *wait_ns = crowd ? time_for(admission, request->client, ahead + cost) : 0;
    const bool is_full =
        waiting >= admission->max_waiting &&
        !fair_within_part(&admission->line, 1, request->client, admission->max_waiting);
    MUST(pthread_mutex_unlock(&admission->lock));
    if (is_full) {
        return error_set(err, STATUS_QUEUE_FULL,
                         "%zu large requests wait already, the server's --queue-depth: try "
                         "again after Retry-After seconds",
                         waiting);
    }
    return request_check_wait(request, *wait_ns, err);
}

bool admission_enter(struct admission *admission, struct request *request, uint64_t claim,
                     uint64_t cost)
{
    struct admission_hold *hold = &request->admission;
    uint64_t most = memory_budget_large(admission->memory);
    claim = claim < most ? claim : most;
    if (claim <= hold->claim) {
        return true;
    }
    MUST(pthread_mutex_lock(&admission->lock));
    hold->wanted = claim;
    hold->wanted_cost = cost;
    const uint64_t now_ns = clock_now_ns();
    bool in_turn = admission->line.count == 0 || is_active(request);
    bool granted = in_turn && grant_memory(admission, request, now_ns);
    const bool had_place = has_begun(request) || has_place(admission, claim);
    admission->lacking += in_turn && !granted && had_place;
    if (!granted) {
        /* For the rest it had its turn, or needed none. */
        request->cost = cost - smaller_of(cost, hold->cost);
        hold->held_bytes = held_bytes(request);
        admission->held_waiting += hold->held_bytes;
        admission->begun_waiting += has_begun(request);
        request_set_owner(request, OWNER_ADMISSION);
        fair_push(&admission->line, request, true);
    }
    /* The request may begin although the first request in the line has no room. */
    bool may_begin = !granted && (request->high || admission->lacking > 0);
    note_clients(admission, now_ns);
    MUST(pthread_mutex_unlock(&admission->lock));
    if (may_begin) {
        admission_wake(admission); /* it may be another's already */
    }
    return granted;
}

/* ---- giving back ---- */

/* Cut the claim down. Thread: a holder of the lock. */
static void lower_claim(struct admission *admission, struct request *request, uint64_t claim)
{
    struct admission_hold *hold = &request->admission;
    uint64_t less = hold->claim > claim ? hold->claim - claim : 0;
    less = less < hold->promised_bytes ? less : hold->promised_bytes;
    memory_unpromise(admission->memory, less);
    hold->promised_bytes -= less;
    change_claim(admission, request, -less);
}

/* Go on in another state, without a place. Thread: a holder of the lock. */
static void leave_place(struct admission *admission, struct request *request,
                        enum admission_state state)
{
    struct admission_hold *hold = &request->admission;
    const bool holds = is_active(request) || is_aside(request);
    if (holds && state != ADMISSION_ASIDE) {
        admission->overtaking -= hold->overtook == admission->shortage;
    }
    if (is_active(request)) {
        admission->active--;
        admission->active_bytes -= hold->claim;
        admission->active_cost -= hold->cost;
        request->client->active_cost -= hold->cost;
        request->client->active--;
        admission->active_clients -= request->client->active == 0;
    }
    if (is_aside(request)) {
        admission->aside--;
        request->client->aside--;
    }
    if (state == ADMISSION_ASIDE) {
        admission->aside++;
        request->client->aside++;
    }
    hold->state = state;
}

/* Lose the place and what was promised but not taken. Thread: a holder of the lock. */
static void lose_place(struct admission *admission, struct request *request,
                       enum admission_state state)
{
    lower_claim(admission, request, 0);
    leave_place(admission, request, state);
}

void admission_settle(struct admission *admission, struct request *request, uint64_t claim,
                      uint64_t cost)
{
    const struct admission_hold *hold = &request->admission;
    if (hold->claim <= claim && hold->cost == cost) {
        return;
    }
    MUST(pthread_mutex_lock(&admission->lock));
    lower_claim(admission, request, claim);
    set_cost(admission, request, cost);
    admit_and_unlock(admission, clock_now_ns());
}

/* So many clients wait for their first place. Thread: a holder of the lock. */
static size_t clients_without(const struct admission *admission)
{
    size_t without = 0;
    const struct fair_flow *flow = admission->line.tail;
    for (size_t i = 0; i < admission->line.flows; i++, flow = flow->next) {
        without += flow->first->client->active == 0;
    }
    return without;
}

/* Has the client more than its part of the places? All who have or want one have the same part, a
 * place at least. Thread: a holder of the lock. */
static bool crowds(const struct admission *admission, const struct client *client,
                   size_t without)
{
    const size_t clients = admission->active_clients + without;
    const size_t most = clients < ADMISSION_PLACES ? ADMISSION_PLACES / clients : 1;
    return client->active > most;
}

bool admission_pace(struct admission *admission, struct request *request, uint64_t came)
{
    if (came >= CROWDED_BYTES || (came >= SLOW_BYTES && fair_count(&admission->line) == 0)) {
        return false;
    }
    MUST(pthread_mutex_lock(&admission->lock));
    struct client *client = request->client;
    const bool active = is_active(request);
    const size_t without = clients_without(admission);
    const bool crowded = active && without > 0 && crowds(admission, client, without);
    const bool wanted = active && without > 0 && came < WANTED_BYTES;
    const uint64_t turnover = request->admission.claim / ADMISSION_TURNOVER_S / BEATS_PER_S;
    const bool keeps_memory = admission->lacking > 0 && came < turnover;
    const bool all_of_it =
        came < SLOW_BYTES || keeps_memory || crowded || (wanted && client->aside > 0);
    if (all_of_it && (active || is_aside(request))) {
        lose_place(admission, request, ADMISSION_SLOW);
    } else if (wanted) {
        leave_place(admission, request, ADMISSION_ASIDE);
    }
    admit_and_unlock(admission, clock_now_ns());
    return all_of_it || wanted;
}

/* One more is through: how long did what it cost take? Only in a crowd, as alone it shows how fast
 * its client is; it is one also where nobody waits because all are refused by an older measure.
 * Where several clients compete, what was before the second one came counts for the first alone.
 * Thread: a holder of the lock. */
static void measure_speed(struct admission *admission, const struct admission_hold *hold,
                          uint64_t now_ns)
{
    const bool is_shared = admission->is_shared;
    struct speed *speed = is_shared ? &admission->shared : &admission->alone;
    uint64_t since_ns = larger_of(speed->last_finish_ns, admission->busy_since_ns);
    since_ns = is_shared ? larger_of(since_ns, admission->shared_since_ns) : since_ns;
    speed->last_finish_ns = now_ns;
    if (count_behind_work(admission) == 0 && has_place(admission, hold->claim)) {
        return;
    }
    speed->ns = speed->ns * SPEED_KEPT + (double)clock_span_ns(since_ns, now_ns);
    speed->cost = speed->cost * SPEED_KEPT + (double)hold->cost;
    /* The first that finishes has shared its time with those that are about to. */
    speed->finishes += speed->finishes < ADMISSION_PLACES;
    if (speed->finishes == ADMISSION_PLACES) {
        speed->ns_per_cost = speed->ns / speed->cost;
    }
}

void admission_finish(struct admission *admission, struct request *request)
{
    struct admission_hold *hold = &request->admission;
    if (hold->claim == 0) {
        return;
    }
    MUST(pthread_mutex_lock(&admission->lock));
    if (is_active(request) && request->error.status == STATUS_OK) {
        measure_speed(admission, hold, clock_now_ns());
    }
    lose_place(admission, request, ADMISSION_FINISHED);
    admit_and_unlock(admission, clock_now_ns());
}

void admission_leave(struct admission *admission, struct request *request)
{
    struct admission_hold *hold = &request->admission;
    if (hold->state == ADMISSION_NONE) {
        return;
    }
    MUST(pthread_mutex_lock(&admission->lock));
    lose_place(admission, request, ADMISSION_NONE);
    change_claim(admission, request, -hold->claim);
    hold->overtook = 0;
    hold->cost = 0;
    admit_and_unlock(admission, clock_now_ns());
}

void admission_wake(struct admission *admission)
{
    if (fair_count(&admission->line) == 0) {
        return;
    }
    MUST(pthread_mutex_lock(&admission->lock));
    admit_and_unlock(admission, clock_now_ns());
}

/* ---- the tick ---- */

/* All who have a place or a promise wait for more memory than there is, so none will ever give any
 * back, or all who wait do without both: the one that came last ends. Thread: a holder of the lock.
 * returns that one, taken out of the line, or NULL */
static struct request *break_deadlock(struct admission *admission, uint64_t now_ns)
{
    const size_t holders = admission->active + admission->aside;
    const size_t wanted = holders > 0 ? holders : admission->line.count;
    struct fair_cursor last = {.current = NULL};
    struct request *ended = NULL;
    size_t stuck = 0;
    /* Mostly so few want more that there need be no walk through all that wait. */
    const bool may_be = admission->begun_waiting > 0 && admission->begun_waiting >= wanted;
    for (struct fair_cursor c = fair_begin(&admission->line); may_be && c.current != NULL;
         fair_step(&c)) {
        const bool holds = is_active(c.current) || is_aside(c.current);
        const bool is_stuck = holders > 0 ? holds : is_slow(c.current);
        const bool later = last.current == NULL || c.current->ticket > last.current->ticket;
        stuck += is_stuck;
        last = is_stuck && later ? c : last;
    }
    if (stuck == 0 || stuck < wanted) {
        admission->stuck_since_ns = 0;
        return NULL;
    }
    if (admission->stuck_since_ns == 0) {
        admission->stuck_since_ns = now_ns;
    }
    if (clock_span_ns(admission->stuck_since_ns, now_ns) >= STUCK_MS * NS_PER_MS) {
        admission->stuck_since_ns = 0;
        account_left(admission, last.current, true);
        fair_drop(&last, &ended);
    }
    return ended;
}

uint64_t admission_sweep(struct admission *admission, uint64_t now_ns)
{
    struct request *expired = NULL;
    MUST(pthread_mutex_lock(&admission->lock));
    uint64_t earliest = fair_expire(&admission->line, now_ns, &expired);
    for (struct request *request = expired; request != NULL; request = request->next) {
        account_left(admission, request, has_begun(request));
    }
    struct request *stuck = break_deadlock(admission, now_ns);
    admit_and_unlock(admission, now_ns);
    request_end_expired(expired, now_ns, "other large requests");
    completion_fail(stuck, STATUS_OUT_OF_MEMORY,
                    "this request and the others that began with it need more memory than "
                    "the server's --memory-budget: try again, or send less at once");
    return earliest;
}

void admission_close(struct admission *admission)
{
    struct request *chain = NULL;
    if (admission == NULL) {
        return;
    }
    MUST(pthread_mutex_lock(&admission->lock));
    struct fair_cursor cursor = fair_begin(&admission->line);
    while (cursor.current != NULL) {
        account_left(admission, cursor.current, has_begun(cursor.current));
        fair_drop(&cursor, &chain);
    }
    MUST(pthread_mutex_unlock(&admission->lock));
    completion_fail(chain, STATUS_DRAINING, "the service is shutting down");
}

void admission_stats(struct admission *admission, struct admission_stats *out)
{
    MUST(pthread_mutex_lock(&admission->lock));
    *out =
        (struct admission_stats){.waiting = admission->line.count, .active = admission->active};
    MUST(pthread_mutex_unlock(&admission->lock));
}
