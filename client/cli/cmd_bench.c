/* `tally bench`: load with a tensor of the caller's choice from several connections, one thread
 * each, and what it measured.
 *
 * Closed loop: a connection sends its next request when the last is answered. Open loop
 * (--rate): request i has an intended start time, given beforehand. A thread takes the next
 * one, waits for its time if that is ahead, and counts the latency from the intended time, not
 * from when it got round to it. So the delay that a stalled server causes to requests that
 * could not even be sent is measured (no coordinated omission). With the duration the schedule
 * ends: requests whose time came and that no thread had taken by then are told, not sent.
 *
 * Failure: requests that fail and answers that differ from the first are counted; with any of
 * them the status is EXIT_SERVER. Thread: the main one starts the others and waits for them;
 * they share the schedule and the result. */
#include "client/cli/commands.h"
#include "client/cli/histogram.h"
#include "client/cli/terminal.h"
#include "proto/dtype.h"
#include "proto/macros.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    BENCH_STATUSES = TALLY_LOCAL_IO + 1,
    LATE_NS = 1000000
};

#define ROUNDING 1e-6 /* of starts that were added up, in starts */

static const double PERCENTS[] = {50, 90, 95, 99, 99.9, 99.99};
static const unsigned short SEED[3] = {0x330E, 0xABCD, 0x1234}; /* of every run the same */

struct bench_result {
    struct histogram latency;          /* ns, of answered requests */
    uint64_t failures[BENCH_STATUSES]; /* by tally_status */
    uint64_t failed;
    uint64_t wrong;   /* answers that differ from the first */
    uint64_t late;    /* open loop: started over 1 ms after their time */
    uint64_t planned; /* open loop: requests whose time came */
    uint64_t unsent;  /* of them: not sent when the schedule ended */
    double behind_s;  /* how long the first of these had waited then */
    double seconds;   /* until the last answer */
    char first_error[256];
};

struct bench {
    const struct settings *settings; /* borrowed */
    struct tally *client;            /* borrowed */
    struct tally_scan scan;
    struct number_list shape;
    uint64_t input_bytes;
    uint64_t output_bytes;
    unsigned char *input; /* owned */
    void *expected;       /* owned: the right answer */
    /* of the run that goes on: */
    double seconds;
    double rate; /* requests per second; 0: closed loop */
    int64_t start_ns;
    pthread_mutex_t lock;
    double next_s;              /* the next intended start, after start_ns; shared: lock */
    unsigned short random[3];   /* of erand48(); shared: lock */
    struct bench_result result; /* shared: lock */
};

struct bench_thread {
    struct bench *bench; /* borrowed */
    pthread_t thread;
    void *output; /* owned */
};

/* ---- the tensor ---- */

/* Small numbers: exact in every type (float16 too), booleans of a bool, and not all the same. */
static void fill_input(struct bench *bench)
{
    enum tally_dtype dtype = bench->scan.dtype;
    size_t element = tally_dtype_bytes(dtype);
    uint64_t count = bench->input_bytes / element;
    uint64_t values = dtype == TALLY_BOOL ? 2 : 4;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t number = dtype_bits((enum dtype)dtype, (int)((i * 7 + i / 5) % values));
        memcpy(bench->input + i * element, &number, element);
    }
}

static int cancel_interrupted(void *user, int64_t sent, int64_t send_total, int64_t received,
                              int64_t receive_total)
{
    (void)user;
    (void)sent;
    (void)send_total;
    (void)received;
    (void)receive_total;
    return interrupted();
}

static int prepare_tensor(struct bench *bench)
{
    const struct settings *settings = bench->settings;
    struct tally_error err;
    bench->shape = settings->shape;
    if (bench->shape.count == 0) {
        bench->shape = (struct number_list){.count = 2, .numbers = {3, 4}};
    }
    bench->scan = (struct tally_scan){
        .struct_size = sizeof bench->scan,
        .dtype = TALLY_FLOAT32,
        .rank = bench->shape.count,
        .sizes = bench->shape.numbers,
        .axis = settings->axis_given ? settings->axis : -1,
        .exclusive = settings->exclusive,
        .reverse = settings->reverse,
        .progress = cancel_interrupted,
    };
    if (settings->dtype != NULL) {
        (void)tally_dtype_find(settings->dtype, &bench->scan.dtype);
    }
    if (tally_scan_bytes(&bench->scan, &bench->input_bytes, &bench->output_bytes, &err) !=
        TALLY_OK) {
        return complain_error(&err);
    }
    bench->input = malloc(bench->input_bytes + 1);
    bench->expected = malloc(bench->output_bytes + 1);
    if (bench->input == NULL || bench->expected == NULL) {
        return complain(EXIT_LOCAL, "out of memory for tensors of %" PRIu64 " bytes",
                        bench->input_bytes);
    }
    fill_input(bench);
    return EXIT_DONE;
}

/* ---- the load ---- */

static double elapsed_s(const struct bench *bench)
{
    return (double)(now_ns() - bench->start_ns) / 1e9;
}

/* The next start: in the closed loop now, else the next intended one; false when the run is
 * over. */
static bool next_start(struct bench *bench, int64_t *at_ns)
{
    MUST(pthread_mutex_lock(&bench->lock));
    double now_s = elapsed_s(bench);
    double at_s = bench->rate > 0 ? bench->next_s : now_s;
    bool taken = at_s < bench->seconds && now_s < bench->seconds;
    if (taken && bench->rate > 0) {
        double gap = 1 / bench->rate;
        if (bench->settings->poisson) {
            gap *= -log(1 - erand48(bench->random)); /* NOLINT(concurrency-mt-unsafe): locked */
        }
        bench->next_s += gap;
        bench->result.planned++;
    }
    MUST(pthread_mutex_unlock(&bench->lock));
    *at_ns = bench->start_ns + (int64_t)(at_s * 1e9);
    return taken;
}

/* `from_ns`: now, or in the open loop when it should have begun. */
static void send_request(struct bench_thread *thread, int64_t from_ns)
{
    struct bench *bench = thread->bench;
    struct bench_result *result = &bench->result;
    struct tally_error err;
    bool late = bench->rate > 0 && now_ns() - from_ns > LATE_NS;
    enum tally_status status =
        tally_cumsum(bench->client, &bench->scan, bench->input, thread->output, &err);
    int64_t latency_ns = now_ns() - from_ns;
    bool wrong =
        status == TALLY_OK && memcmp(thread->output, bench->expected, bench->output_bytes) != 0;
    MUST(pthread_mutex_lock(&bench->lock));
    result->late += late;
    result->wrong += wrong;
    if (status == TALLY_OK) {
        histogram_add(&result->latency, latency_ns);
    } else {
        if (result->failed == 0) {
            (void)snprintf(result->first_error, sizeof result->first_error, "%.255s",
                           err.message);
        }
        result->failed++;
        result->failures[status]++;
    }
    MUST(pthread_mutex_unlock(&bench->lock));
}

static void *bench_thread_main(void *user)
{
    struct bench_thread *thread = user;
    struct bench *bench = thread->bench;
    int64_t from_ns = 0;
    while (!interrupted() && next_start(bench, &from_ns)) {
        struct timespec at = {.tv_sec = (time_t)(from_ns / 1000000000),
                              .tv_nsec = (long)(from_ns % 1000000000)};
        while (!interrupted() && now_ns() < from_ns) {
            (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        }
        send_request(thread, from_ns);
    }
    return NULL;
}

/* What nobody took of the schedule, up to its end or to an interrupt. Of random starts the
 * number is that to be expected: to draw each may take longer than the run. */
static void count_unsent(struct bench *bench)
{
    struct bench_result *result = &bench->result;
    double end_s = fmin(bench->seconds, result->seconds);
    if (bench->rate > 0 && bench->next_s < end_s) {
        result->behind_s = end_s - bench->next_s;
        result->unsent = (uint64_t)ceil(result->behind_s * bench->rate - ROUNDING);
        result->planned += result->unsent;
    }
}

/* Fills bench->result. TALLY_OK, also if requests failed; TALLY_OUT_OF_MEMORY (the threads that
 * there are have run), TALLY_CANCELLED. */
static enum tally_status run_load(struct bench *bench, double seconds, double rate)
{
    size_t connections = (size_t)bench->settings->connections;
    size_t started = 0;
    struct bench_thread *threads = calloc(connections, sizeof *threads);
    if (threads == NULL) {
        return TALLY_OUT_OF_MEMORY;
    }
    memset(&bench->result, 0, sizeof bench->result);
    bench->seconds = seconds;
    bench->rate = rate;
    bench->next_s = 0;
    memcpy(bench->random, SEED, sizeof SEED);
    MUST(pthread_mutex_init(&bench->lock, NULL));
    bench->start_ns = now_ns();
    for (; started < connections; started++) {
        struct bench_thread *thread = &threads[started];
        thread->bench = bench;
        thread->output = malloc(bench->output_bytes + 1);
        if (thread->output == NULL ||
            pthread_create(&thread->thread, NULL, bench_thread_main, thread) != 0) {
            break;
        }
    }
    for (size_t i = 0; i < connections; i++) {
        if (i < started) {
            MUST(pthread_join(threads[i].thread, NULL));
        }
        free(threads[i].output);
    }
    bench->result.seconds = elapsed_s(bench);
    count_unsent(bench);
    MUST(pthread_mutex_destroy(&bench->lock));
    free(threads);
    if (interrupted()) {
        return TALLY_CANCELLED;
    }
    return started == connections ? TALLY_OK : TALLY_OUT_OF_MEMORY;
}

/* ---- the report ---- */

static const char *time_text(double ns, char *text, size_t size)
{
    if (ns < 1e6) {
        (void)snprintf(text, size, "%.1f us", ns / 1e3);
    } else if (ns < 1e9) {
        (void)snprintf(text, size, "%.2f ms", ns / 1e6);
    } else {
        (void)snprintf(text, size, "%.2f s", ns / 1e9);
    }
    return text;
}

static void print_text(const struct bench *bench)
{
    const struct bench_result *result = &bench->result;
    const struct histogram *latency = &result->latency;
    char text[32];
    double per_second = (double)latency->count / result->seconds;
    double bytes = (double)(bench->input_bytes + bench->output_bytes);
    (void)printf("%" PRIu64 " answers in %.2f s: %.1f per second, %s/s in and out\n",
                 latency->count, result->seconds, per_second,
                 bytes_text(per_second * bytes, text, sizeof text));
    if (bench->settings->rate > 0) {
        (void)printf("offered %.1f per second; %" PRIu64 " of %" PRIu64
                     " could not start within 1 ms of their time\n",
                     bench->settings->rate, result->late, result->planned);
    }
    if (result->unsent > 0) {
        (void)printf("unsent %" PRIu64 " of %" PRIu64 ": at the end the sender was %.2f s "
                     "behind; use more connections, or a lower rate\n",
                     result->unsent, result->planned, result->behind_s);
    }
    (void)printf("failed %" PRIu64 ", wrong answers %" PRIu64 "\n", result->failed,
                 result->wrong);
    for (int i = 0; i < BENCH_STATUSES; i++) {
        if (result->failures[i] > 0) {
            (void)printf("  %s: %" PRIu64 "\n", tally_status_name((enum tally_status)i),
                         result->failures[i]);
        }
    }
    if (result->failed > 0) {
        (void)printf("  first: %s\n", result->first_error);
    }
    if (latency->count == 0) {
        return;
    }
    (void)printf("latency%s\n", bench->settings->rate > 0 ? " from the intended start" : "");
    (void)printf("  mean    %s\n",
                 time_text(latency->sum / (double)latency->count, text, sizeof text));
    for (size_t i = 0; i < ARRAY_COUNT(PERCENTS); i++) {
        (void)printf(
            "  %-5g%%  %s\n", PERCENTS[i],
            time_text((double)histogram_percentile(latency, PERCENTS[i]), text, sizeof text));
    }
    (void)printf("  max     %s\n", time_text((double)latency->max, text, sizeof text));
}

static void print_json(const struct bench *bench)
{
    const struct bench_result *result = &bench->result;
    const struct histogram *latency = &result->latency;
    (void)printf("{\"mode\":\"%s\",\"connections\":%" PRId64 ",\"answers\":%" PRIu64
                 ",\"seconds\":%.6f,\"per_second\":%.3f,\"bytes_per_request\":%" PRIu64
                 ",\"failed\":%" PRIu64 ",\"wrong\":%" PRIu64 ",\"offered_per_second\":%.3f"
                 ",\"planned\":%" PRIu64 ",\"late\":%" PRIu64 ",\"unsent\":%" PRIu64
                 ",\"behind_s\":%.6f",
                 bench->settings->rate > 0 ? "open" : "closed", bench->settings->connections,
                 latency->count, result->seconds, (double)latency->count / result->seconds,
                 bench->input_bytes + bench->output_bytes, result->failed, result->wrong,
                 bench->settings->rate, result->planned, result->late, result->unsent,
                 result->behind_s);
    (void)printf(",\"latency_us\":{\"mean\":%.3f",
                 latency->count > 0 ? latency->sum / (double)latency->count / 1e3 : 0);
    for (size_t i = 0; i < ARRAY_COUNT(PERCENTS); i++) {
        (void)printf(",\"p%g\":%.3f", PERCENTS[i],
                     (double)histogram_percentile(latency, PERCENTS[i]) / 1e3);
    }
    (void)printf(",\"max\":%.3f}}\n", (double)latency->max / 1e3);
}

/* ---- the command ---- */

static int measure_and_report(struct bench *bench)
{
    const struct settings *settings = bench->settings;
    struct tally_error err;
    if (tally_cumsum(bench->client, &bench->scan, bench->input, bench->expected, &err) !=
        TALLY_OK) {
        return complain_error(&err);
    }
    enum tally_status status =
        settings->warmup_s > 0 ? run_load(bench, settings->warmup_s, 0) : TALLY_OK;
    if (!settings->quiet && !settings->json && isatty(STDERR_FILENO) == 1) {
        (void)fprintf(stderr, "measuring for %g s ...\n", settings->duration_s);
    }
    if (status == TALLY_OK) {
        status = run_load(bench, settings->duration_s, settings->rate);
    }
    if (status == TALLY_OUT_OF_MEMORY) {
        return complain(EXIT_LOCAL, "out of memory, or of threads: use fewer connections");
    }
    if (settings->json) {
        print_json(bench);
    } else {
        print_text(bench);
    }
    if (status == TALLY_CANCELLED) {
        return EXIT_INTERRUPTED;
    }
    return bench->result.failed > 0 || bench->result.wrong > 0 ? EXIT_SERVER : EXIT_DONE;
}

int command_bench(const struct settings *settings, struct tally *client)
{
    if (settings->poisson && settings->rate <= 0) {
        return complain(EXIT_USAGE, "--poisson needs --rate");
    }
    struct bench *bench = calloc(1, sizeof *bench);
    if (bench == NULL) {
        return complain_no_memory();
    }
    catch_interrupts();
    bench->settings = settings;
    bench->client = client;
    int status = prepare_tensor(bench);
    if (status == EXIT_DONE) {
        status = measure_and_report(bench);
    }
    free(bench->input);
    free(bench->expected);
    free(bench);
    return status;
}
