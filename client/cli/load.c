#include "client/cli/load.h"

#include "client/cli/terminal.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Intended start times, handed out in order. */
struct schedule {
    pthread_mutex_t lock;
    double next_s;    /* after start_ns; shared: lock */
    uint64_t planned; /* shared: lock */
    uint64_t random;  /* shared: lock */
    int64_t start_ns;
};

struct worker {
    const struct load_plan *plan;
    struct schedule *schedule;
    pthread_t thread;
    bool started;
    void *output; /* owned */
    struct load_result result;
};

static double uniform(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return ((double)(*state >> 11) + 1) / 9007199254740993.0; /* (0, 1) */
}

/* The next intended start; false when the measurement is over. */
static bool take_slot(struct schedule *schedule, const struct load_plan *plan, int64_t *at_ns)
{
    (void)pthread_mutex_lock(&schedule->lock);
    double at_s = schedule->next_s;
    bool taken = at_s < plan->seconds;
    if (taken) {
        double gap = 1 / plan->rate;
        schedule->next_s += plan->poisson ? -log(uniform(&schedule->random)) * gap : gap;
        schedule->planned++;
    }
    (void)pthread_mutex_unlock(&schedule->lock);
    *at_ns = schedule->start_ns + (int64_t)(at_s * 1e9);
    return taken;
}

static void sleep_until(int64_t at_ns)
{
    struct timespec at = {.tv_sec = (time_t)(at_ns / 1000000000),
                          .tv_nsec = (long)(at_ns % 1000000000)};
    while (!interrupted() && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0) {
    }
}

static void send_one(struct worker *worker, int64_t from_ns)
{
    const struct load_plan *plan = worker->plan;
    struct load_result *result = &worker->result;
    struct tally_error err;
    enum tally_status status =
        tally_cumsum(plan->client, plan->scan, plan->input, worker->output, &err);
    if (status == TALLY_OK) {
        histogram_add(&result->latency, now_ns() - from_ns);
        if (memcmp(worker->output, plan->expected, plan->output_bytes) != 0) {
            result->wrong++;
        }
        return;
    }
    if (result->failed == 0) {
        (void)snprintf(result->first_error, sizeof result->first_error, "%.255s", err.message);
    }
    result->failed++;
    result->failures[status]++;
}

static void *worker_main(void *user)
{
    struct worker *worker = user;
    const struct load_plan *plan = worker->plan;
    int64_t end_ns = worker->schedule->start_ns + (int64_t)(plan->seconds * 1e9);
    int64_t from_ns = 0;
    if (plan->rate <= 0) {
        while (!interrupted() && (from_ns = now_ns()) < end_ns) {
            send_one(worker, from_ns);
        }
        return NULL;
    }
    while (!interrupted() && take_slot(worker->schedule, plan, &from_ns)) {
        if (now_ns() < from_ns) {
            sleep_until(from_ns);
        }
        if (now_ns() - from_ns > 1000000) {
            worker->result.late++;
        }
        send_one(worker, from_ns);
    }
    return NULL;
}

static void merge(struct load_result *into, const struct load_result *from)
{
    histogram_merge(&into->latency, &from->latency);
    if (into->failed == 0 && from->failed > 0) {
        memcpy(into->first_error, from->first_error, sizeof into->first_error);
    }
    into->failed += from->failed;
    into->wrong += from->wrong;
    into->late += from->late;
    for (int i = 0; i < LOAD_STATUSES; i++) {
        into->failures[i] += from->failures[i];
    }
}

static bool start_worker(struct worker *worker, const struct load_plan *plan,
                         struct schedule *schedule)
{
    worker->plan = plan;
    worker->schedule = schedule;
    worker->output = malloc(plan->output_bytes + 1);
    worker->started = worker->output != NULL &&
                      pthread_create(&worker->thread, NULL, worker_main, worker) == 0;
    return worker->started;
}

enum tally_status load_run(const struct load_plan *plan, struct load_result *result)
{
    struct schedule schedule = {.random = 0x9E3779B97F4A7C15U};
    bool complete = true;
    memset(result, 0, sizeof *result);
    struct worker *workers = calloc((size_t)plan->connections, sizeof *workers);
    if (workers == NULL) {
        return TALLY_OUT_OF_MEMORY;
    }
    (void)pthread_mutex_init(&schedule.lock, NULL);
    schedule.start_ns = now_ns();
    for (int i = 0; i < plan->connections && complete; i++) {
        complete = start_worker(&workers[i], plan, &schedule);
    }
    for (int i = 0; i < plan->connections; i++) {
        if (workers[i].started) {
            (void)pthread_join(workers[i].thread, NULL);
            merge(result, &workers[i].result);
        }
        free(workers[i].output);
    }
    result->planned = schedule.planned;
    result->seconds = (double)(now_ns() - schedule.start_ns) / 1e9;
    (void)pthread_mutex_destroy(&schedule.lock);
    free(workers);
    if (interrupted()) {
        return TALLY_CANCELLED;
    }
    return complete ? TALLY_OK : TALLY_OUT_OF_MEMORY;
}
