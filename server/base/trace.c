/* Requests gather in one buffer while the sender thread sends the other, as lines of the log do.
 *
 *   tracer_add() --copy--> filling --swap--> sending --trace_json--> http_post --> collector
 *
 * What can go wrong: the collector is not there (the batch is dropped at once), takes its time (the
 * batch is dropped after SEND_NS, and what no longer fits meanwhile), or says no (the batch is
 * dropped). At the end of the process it has CLOSE_NS; a sender that is then stuck in the resolver
 * is left behind, with the tracer, and touches nothing else any more. */
#include "server/base/trace.h"

#include "server/base/clock.h"
#include "server/base/http_post.h"
#include "server/base/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    BUFFER_TRACES = 1024,
    WAKE_TRACES = BUFFER_TRACES / 2 /* the sender waits no longer for more */
};

#define GATHER_NS (NS_PER_S)        /* from the first request of a batch to its being sent */
#define IDLE_NS   (3600 * NS_PER_S) /* nothing to do without requests */
#define SEND_NS   (10 * NS_PER_S)
#define CLOSE_NS  (NS_PER_S)

struct tracer {
    struct log *log;         /* borrowed */
    struct metrics *metrics; /* borrowed */
    struct trace_sender identity;
    uint64_t interval_ns; /* between traces that begin here, 0: none does */
    atomic_uint_fast64_t next_begin_ns;
    pthread_t sender;
    struct http_post *post;       /* owned; the sender's, as the next two */
    struct trace_record *sending; /* owned */
    bool failing;                 /* the last batch was not taken, and the log has it */
    _Atomic uint64_t deadline_ns; /* of the batch that is being sent */
    pthread_mutex_t lock;         /* guards all below; inside it only the log's is taken */
    pthread_cond_t changed;       /* monotonic clock */
    struct trace_record *filling; /* owned */
    atomic_size_t filled;         /* read without the lock where an old value will do */
    uint64_t closing_ns;          /* until when it may still send; 0: it is not closing */
    bool finished;                /* the sender has left */
    bool abandoned; /* the sender is alone with the tracer: log and metrics may be gone */
};

/* ---- the sender ---- */

/* NULL: the collector has it; else why not. */
static const char *send_batch(struct tracer *tracer, size_t count)
{
    struct json_writer w;
    json_writer_init(&w);
    trace_json_write(&w, &tracer->identity, tracer->sending, count);
    const char *failure =
        json_writer_ok(&w) ? http_post_send(tracer->post, w.text, w.bytes, &tracer->deadline_ns)
                           : "no memory for a batch";
    json_writer_deinit(&w);
    return failure;
}

static void report_batch(struct tracer *tracer, size_t count, const char *failure)
{
    metrics_add(tracer->metrics,
                failure == NULL ? METRICS_COUNTER_TRACES_SENT : METRICS_COUNTER_TRACES_DROPPED,
                count);
    if (failure != NULL && !tracer->failing) {
        log_message(
            tracer->log, LOG_WARN,
            "traces are dropped, the collector at --otlp-endpoint does not take them: %s",
            failure);
    } else if (failure == NULL && tracer->failing) {
        log_message(tracer->log, LOG_INFO, "traces are sent again");
    }
    tracer->failing = failure != NULL;
}

static void tracer_free(struct tracer *tracer)
{
    http_post_destroy(tracer->post);
    MUST(pthread_cond_destroy(&tracer->changed));
    MUST(pthread_mutex_destroy(&tracer->lock));
    free(tracer->filling);
    free(tracer->sending);
    free(tracer);
}

static void *sender_main(void *argument)
{
    struct tracer *tracer = argument;
    (void)pthread_setname_np(pthread_self(), "tally-traces");
    uint64_t due_ns = 0;
    MUST(pthread_mutex_lock(&tracer->lock));
    while (!tracer->abandoned && (tracer->filled > 0 || tracer->closing_ns == 0)) {
        uint64_t now_ns = clock_now_ns();
        if (tracer->filled == 0) {
            due_ns = 0;
        } else if (due_ns == 0) {
            due_ns = now_ns + GATHER_NS;
        }
        bool due = tracer->filled >= WAKE_TRACES || (due_ns != 0 && now_ns >= due_ns) ||
                   tracer->closing_ns != 0;
        if (!due) {
            struct timespec until = clock_timespec(due_ns != 0 ? due_ns : now_ns + IDLE_NS);
            (void)pthread_cond_timedwait(&tracer->changed, &tracer->lock, &until);
            continue;
        }
        size_t count = tracer->filled;
        struct trace_record *records = tracer->filling;
        tracer->filling = tracer->sending;
        tracer->sending = records;
        tracer->filled = 0;
        due_ns = 0;
        atomic_store(&tracer->deadline_ns,
                     tracer->closing_ns != 0 ? tracer->closing_ns : now_ns + SEND_NS);
        MUST(pthread_mutex_unlock(&tracer->lock));
        const char *failure = send_batch(tracer, count);
        MUST(pthread_mutex_lock(&tracer->lock));
        if (!tracer->abandoned) {
            report_batch(tracer, count, failure);
        }
    }
    tracer->finished = true;
    bool abandoned = tracer->abandoned;
    MUST(pthread_cond_broadcast(&tracer->changed));
    MUST(pthread_mutex_unlock(&tracer->lock));
    if (abandoned) {
        tracer_free(tracer);
    }
    return NULL;
}

/* ---- opening and closing ---- */

static void name_instance(struct trace_sender *identity)
{
    uint64_t random[2];
    if (getrandom(random, sizeof random, GRND_NONBLOCK) < 0) {
        random[0] = clock_ns(CLOCK_REALTIME);
        random[1] = (uint64_t)getpid();
    }
    (void)trace_hex(random[1], trace_hex(random[0], identity->instance));
    if (gethostname(identity->host, sizeof identity->host - 1) != 0) {
        identity->host[0] = '\0';
    }
}

static enum status refuse_endpoint(const char *endpoint, enum status status, struct error *err)
{
    if (status != STATUS_INVALID_FIELD) {
        return error_set(err, status, "no memory for traces");
    }
    if (strncasecmp(endpoint, "https:", strlen("https:")) == 0) {
        return error_set(err, status,
                         "--otlp-endpoint is \"%.200s\", expected http://: traces leave tallyd "
                         "without TLS; run a collector on this machine (http://localhost:4318) "
                         "and let it send them on by https",
                         endpoint);
    }
    return error_set(err, status,
                     "--otlp-endpoint is \"%.200s\", expected a URL like "
                     "http://localhost:4318",
                     endpoint);
}

enum status tracer_open(const struct tracer_options *options, struct tracer **out,
                        struct error *err)
{
    struct http_post *post = NULL;
    enum status status = http_post_create(options->endpoint, "/v1/traces", &post);
    if (status != STATUS_OK) {
        return refuse_endpoint(options->endpoint, status, err);
    }
    struct tracer *tracer = calloc(1, sizeof *tracer);
    if (tracer == NULL) {
        http_post_destroy(post);
        return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for traces");
    }
    tracer->post = post;
    tracer->log = options->log;
    tracer->metrics = options->metrics;
    tracer->interval_ns = options->rate == 0 ? 0 : NS_PER_S / options->rate;
    atomic_init(&tracer->next_begin_ns, 0);
    atomic_init(&tracer->deadline_ns, 0);
    atomic_init(&tracer->filled, 0);
    thread_cond_init(&tracer->changed);
    MUST(pthread_mutex_init(&tracer->lock, NULL));
    name_instance(&tracer->identity);
    tracer->filling = calloc(BUFFER_TRACES, sizeof *tracer->filling);
    tracer->sending = calloc(BUFFER_TRACES, sizeof *tracer->sending);
    if (tracer->filling == NULL || tracer->sending == NULL) {
        status = error_set(err, STATUS_OUT_OF_MEMORY, "no memory for traces");
    } else {
        status = thread_start(&tracer->sender, sender_main, tracer, "traces", err);
    }
    if (status != STATUS_OK) {
        tracer_free(tracer);
        return status;
    }
    *out = tracer;
    return STATUS_OK;
}

void tracer_close(struct tracer *tracer)
{
    if (tracer == NULL) {
        return;
    }
    pthread_t sender = tracer->sender;
    uint64_t now_ns = clock_now_ns();
    struct timespec until = clock_timespec(now_ns + 2 * CLOSE_NS);
    int waited = 0;
    MUST(pthread_mutex_lock(&tracer->lock));
    tracer->closing_ns = now_ns + CLOSE_NS;
    atomic_store(&tracer->deadline_ns, tracer->closing_ns);
    MUST(pthread_cond_broadcast(&tracer->changed));
    while (!tracer->finished && waited == 0) {
        waited = pthread_cond_timedwait(&tracer->changed, &tracer->lock, &until);
    }
    bool finished = tracer->finished;
    tracer->abandoned = !finished;
    MUST(pthread_mutex_unlock(&tracer->lock));
    if (finished) {
        MUST(pthread_join(sender, NULL));
        tracer_free(tracer);
    } else {
        MUST(pthread_detach(sender));
    }
}

/* ---- any thread ---- */

bool tracer_begins(struct tracer *tracer, uint64_t now_ns)
{
    if (tracer == NULL || tracer->interval_ns == 0) {
        return false;
    }
    uint_fast64_t next = atomic_load_explicit(&tracer->next_begin_ns, memory_order_relaxed);
    if (now_ns < next) {
        return false;
    }
    /* As many as are due of the last second; who is second to change it does not begin one. */
    uint64_t from = next + NS_PER_S < now_ns ? now_ns - NS_PER_S : next;
    return atomic_compare_exchange_strong_explicit(&tracer->next_begin_ns, &next,
                                                   from + tracer->interval_ns,
                                                   memory_order_relaxed, memory_order_relaxed);
}

/* Have a text where it stays; NULL stands for "". */
static void keep_text(const char **text, char *place, size_t room)
{
    size_t count = *text == NULL ? 0 : strnlen(*text, room - 1);
    memcpy(place, *text == NULL ? "" : *text, count);
    place[count] = '\0';
    *text = place;
}

static void fill_record(struct trace_record *record, const struct trace_request *request)
{
    struct log_request *line = &record->line;
    record->request = *request;
    record->context = *request->context;
    record->line = *request->line;
    record->request.context = &record->context;
    record->request.line = line;
    keep_text(&line->path, record->path, sizeof record->path);
    keep_text(&line->client, record->client, sizeof record->client);
    keep_text(&line->id, record->id, sizeof record->id);
    keep_text(&line->shape, record->shape, sizeof record->shape);
    keep_text(&line->detail, record->detail, sizeof record->detail);
}

bool tracer_due(struct tracer *tracer)
{
    if (tracer == NULL) {
        return false;
    }
    bool room = atomic_load_explicit(&tracer->filled, memory_order_relaxed) < BUFFER_TRACES;
    if (!room) {
        metrics_add(tracer->metrics, METRICS_COUNTER_TRACES_DROPPED, 1);
    }
    return room;
}

void tracer_add(struct tracer *tracer, const struct trace_request *request)
{
    MUST(pthread_mutex_lock(&tracer->lock));
    bool room = tracer->filled < BUFFER_TRACES;
    if (room) {
        fill_record(&tracer->filling[tracer->filled++], request);
        if (tracer->filled == 1 || tracer->filled == WAKE_TRACES) {
            MUST(pthread_cond_signal(&tracer->changed));
        }
    }
    MUST(pthread_mutex_unlock(&tracer->lock));
    if (!room) {
        metrics_add(tracer->metrics, METRICS_COUNTER_TRACES_DROPPED, 1);
    }
}
