/* `tally bench`: load with a tensor of the caller's choice, and what it measured. */
#include "client/cli/commands.h"
#include "client/cli/load.h"
#include "client/cli/terminal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double PERCENTS[] = {50, 90, 95, 99, 99.9, 99.99};

struct bench {
    const struct settings *settings; /* borrowed */
    struct tally *client;            /* borrowed */
    struct tally_scan scan;
    struct number_list shape;
    uint64_t input_bytes;
    uint64_t output_bytes;
    unsigned char *input;       /* owned */
    void *expected;             /* owned */
    struct load_result *result; /* owned */
};

/* Small numbers: exact in every type (float16 too), and not all the same. */
static void fill_input(struct bench *bench)
{
    static const uint16_t half[] = {0x0000, 0x3C00, 0x4000, 0x4200}; /* 0 1 2 3 */
    static const uint16_t brain[] = {0x0000, 0x3F80, 0x4000, 0x4040};
    size_t element = tally_dtype_bytes(bench->scan.dtype);
    uint64_t count = bench->input_bytes / element;
    for (uint64_t i = 0; i < count; i++) {
        unsigned number = (unsigned)((i * 7 + i / 5) % 4);
        unsigned char *at = bench->input + i * element;
        float single = (float)number;
        double twice = (double)number;
        switch (bench->scan.dtype) {
        case TALLY_FLOAT16:
            memcpy(at, &half[number], 2);
            break;
        case TALLY_BFLOAT16:
            memcpy(at, &brain[number], 2);
            break;
        case TALLY_FLOAT32:
            memcpy(at, &single, 4);
            break;
        case TALLY_FLOAT64:
            memcpy(at, &twice, 8);
            break;
        case TALLY_INT8:
        case TALLY_INT16:
        case TALLY_INT32:
        case TALLY_INT64:
        case TALLY_UINT8:
        case TALLY_UINT16:
        case TALLY_UINT32:
        case TALLY_UINT64:
            memset(at, 0, element);
            at[0] = (unsigned char)number;
            break;
        }
    }
}

static int describe(struct bench *bench)
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
    };
    if (settings->dtype != NULL) {
        (void)tally_dtype_find(settings->dtype, &bench->scan.dtype);
    }
    if (settings->precision != NULL && strcmp(settings->precision, "native") == 0) {
        bench->scan.precision = TALLY_NATIVE;
    }
    if (tally_scan_bytes(&bench->scan, &bench->input_bytes, &bench->output_bytes, &err) !=
        TALLY_OK) {
        return complain_error(&err);
    }
    bench->input = malloc(bench->input_bytes + 1);
    bench->expected = malloc(bench->output_bytes + 1);
    bench->result = calloc(1, sizeof *bench->result);
    if (bench->input == NULL || bench->expected == NULL || bench->result == NULL) {
        return complain(EXIT_LOCAL, "out of memory for tensors of %" PRIu64 " bytes",
                        bench->input_bytes);
    }
    fill_input(bench);
    return EXIT_DONE;
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
    const struct load_result *result = bench->result;
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
    (void)printf("failed %" PRIu64 ", wrong answers %" PRIu64 "\n", result->failed,
                 result->wrong);
    for (int i = 0; i < LOAD_STATUSES; i++) {
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
    const struct load_result *result = bench->result;
    const struct histogram *latency = &result->latency;
    (void)printf("{\"mode\":\"%s\",\"connections\":%" PRId64 ",\"answers\":%" PRIu64
                 ",\"seconds\":%.6f,\"per_second\":%.3f,\"bytes_per_request\":%" PRIu64
                 ",\"failed\":%" PRIu64 ",\"wrong\":%" PRIu64 ",\"offered_per_second\":%.3f"
                 ",\"planned\":%" PRIu64 ",\"late\":%" PRIu64,
                 bench->settings->rate > 0 ? "open" : "closed", bench->settings->connections,
                 latency->count, result->seconds, (double)latency->count / result->seconds,
                 bench->input_bytes + bench->output_bytes, result->failed, result->wrong,
                 bench->settings->rate, result->planned, result->late);
    (void)printf(",\"latency_us\":{\"mean\":%.3f",
                 latency->count > 0 ? latency->sum / (double)latency->count / 1e3 : 0);
    for (size_t i = 0; i < ARRAY_COUNT(PERCENTS); i++) {
        (void)printf(",\"p%g\":%.3f", PERCENTS[i],
                     (double)histogram_percentile(latency, PERCENTS[i]) / 1e3);
    }
    (void)printf(",\"max\":%.3f}}\n", (double)latency->max / 1e3);
}

/* ---- the run ---- */

static int measure(struct bench *bench)
{
    const struct settings *settings = bench->settings;
    struct tally_error err;
    struct load_plan plan = {.client = bench->client,
                             .scan = &bench->scan,
                             .input = bench->input,
                             .expected = bench->expected,
                             .output_bytes = bench->output_bytes,
                             .connections = (int)settings->connections,
                             .seconds = settings->warmup_s,
                             .rate = 0};
    if (tally_cumsum(bench->client, &bench->scan, bench->input, bench->expected, &err) !=
        TALLY_OK) {
        return complain_error(&err);
    }
    enum tally_status status =
        settings->warmup_s > 0 ? load_run(&plan, bench->result) : TALLY_OK;
    plan.seconds = settings->duration_s;
    plan.rate = settings->rate;
    plan.poisson = settings->poisson;
    if (!settings->quiet && !settings->json && isatty(STDERR_FILENO) == 1) {
        (void)fprintf(stderr, "measuring for %g s ...\n", settings->duration_s);
    }
    if (status == TALLY_OK) {
        status = load_run(&plan, bench->result);
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
    return bench->result->failed > 0 || bench->result->wrong > 0 ? EXIT_SERVER : EXIT_DONE;
}

int command_bench(const struct settings *given)
{
    int status = EXIT_DONE;
    struct settings settings = *given;
    struct bench bench = {.settings = &settings};
    settings.retries = 0;
    if (settings.poisson && settings.rate <= 0) {
        return complain(EXIT_USAGE, "--poisson needs --rate");
    }
    bench.client = client_of(&settings, settings.argument, &status);
    if (bench.client != NULL) {
        status = describe(&bench);
    }
    if (status == EXIT_DONE) {
        status = measure(&bench);
    }
    tally_close(bench.client);
    free(bench.input);
    free(bench.expected);
    free(bench.result);
    return status;
}
