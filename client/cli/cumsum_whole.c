/*   input loaded -> request written -> exchanged (exchange.h)
 *
 * Raw bytes are sent as they are and the options are the query; a JSON array and the options
 * become the members of a request; a JSON object is a request already. */
#include "client/cli/commands.h"

#include "client/cli/exchange.h"
#include "client/cli/terminal.h"
#include "client/json_text.h"
#include "proto/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPTIONS_TEXT = 8192, /* three lists of 64 numbers, and words */
    JSON_SHARE = 32,     /* most bytes of an answer for one of the request: "1,", 25 digits */
    JSON_LEAST = 1 << 30 /* that may be answered whatever the request: strides make gaps */
};

/* One run of the command. */
struct cumsum_job {
    const struct settings *settings; /* borrowed */
    struct source *source;           /* borrowed, loaded */
    struct expectation expected;     /* its format is the result's */
    enum format input;
    char *body; /* owned: JSON made of data and options, NULL if the source is sent as it is */
    size_t body_bytes;
    char path[OPTIONS_TEXT];
};

/* ---- the request ---- */

/* A list of integers that an object has; none where it has none. */
static struct number_list member_list(struct json_text object, const char *key)
{
    struct number_list list = {.count = 0};
    struct json_text rest = {"", 0};
    struct json_text unused = {"", 0};
    struct json_text number = {"", 0};
    if (json_text_member(object, key, &rest)) {
        while (list.count < TALLY_MAX_RANK && json_text_next(&rest, &unused, &number)) {
            list.numbers[list.count++] = json_text_integer(number, 0);
        }
    }
    return list;
}

static void append_word(char *text, bool json, const char *key, const char *word)
{
    if (word != NULL) {
        text_append(text, OPTIONS_TEXT, json ? ",\"%s\":\"%s\"" : "&%s=%s", key, word);
    }
}

static void append_list(char *text, bool json, const char *key, const struct number_list *list)
{
    if (list->count > 0) {
        text_append(text, OPTIONS_TEXT, json ? ",\"%s\":[" : "&%s=", key);
        text_append_list(text, OPTIONS_TEXT, list->numbers, list->count);
        text_append(text, OPTIONS_TEXT, "%s", json ? "]" : "");
    }
}

/* The options of the sum, each with a comma before it as a member of a JSON object, or with '&'
 * as a parameter of a query. The axis is always there and comes first. */
static void append_options(const struct settings *settings, bool json, char *text)
{
    text_append(text, OPTIONS_TEXT, json ? ",\"axis\":%" PRId64 : "&axis=%" PRId64,
                settings->axis);
    if (settings->exclusive) {
        text_append(text, OPTIONS_TEXT, "%s", json ? ",\"exclusive\":true" : "&exclusive=true");
    }
    if (settings->reverse) {
        text_append(text, OPTIONS_TEXT, "%s", json ? ",\"reverse\":true" : "&reverse=true");
    }
    append_word(text, json, "precision", settings->precision);
    append_word(text, json, "dtype", settings->dtype);
    append_list(text, json, "shape", &settings->shape);
    append_list(text, json, "strides", &settings->strides);
    append_list(text, json, "output_strides", &settings->output_strides);
}

/* JSON input: an array becomes "data" of a request, an object is a request already. */
static int wrap_json(struct cumsum_job *job)
{
    char options[OPTIONS_TEXT] = "";
    const char *text = job->source->memory;
    size_t blank = strspn(text, " \t\r\n");
    append_options(job->settings, true, options);
    job->expected.bare = text[blank] != '{';
    if (!job->expected.bare) {
        job->expected.strides =
            member_list((struct json_text){text, job->source->bytes}, "output_strides");
        bool given = job->settings->axis_given || strcmp(options, ",\"axis\":0") != 0;
        return given ? complain(EXIT_USAGE,
                                "%s is a whole request (a JSON object): write the options into "
                                "it",
                                job->source->name)
                     : EXIT_DONE;
    }
    if (job->source->bytes == blank) {
        return complain(EXIT_USAGE, "%s is empty; give numbers such as [[1,2],[3,4]]",
                        job->source->name);
    }
    STEP(format_check_array(job->source));
    size_t size = job->source->bytes + strlen(options) + sizeof "{\"data\":}";
    job->body = malloc(size);
    if (job->body == NULL) {
        return complain_no_memory();
    }
    size_t used = (size_t)snprintf(job->body, size, "{\"data\":");
    memcpy(job->body + used, text, job->source->bytes);
    used += job->source->bytes;
    used += (size_t)snprintf(job->body + used, size - used, "%s}", options);
    job->body_bytes = used;
    return EXIT_DONE;
}

static int write_request(struct cumsum_job *job)
{
    (void)snprintf(job->path, sizeof job->path, "/v1/cumsum");
    if (job->input == FORMAT_JSON) {
        return wrap_json(job);
    }
    size_t query = strlen(job->path);
    append_options(job->settings, false, job->path);
    job->path[query] = '?';
    return EXIT_DONE;
}

/* ---- the call ---- */

static int run_job(struct cumsum_job *job, struct tally *client)
{
    if (job->input == FORMAT_JSON) {
        STEP(format_check_start(job->source));
    }
    STEP(source_load(job->source));
    STEP(write_request(job));
    uint64_t bytes = job->body != NULL ? job->body_bytes : job->source->bytes;
    job->expected.json_most = bytes > JSON_LEAST / JSON_SHARE ? bytes * JSON_SHARE : JSON_LEAST;
    struct tally_error err = {.status = TALLY_OK};
    struct tally_request request = {
        .path = job->path,
        .content_type = format_content_type(job->input),
        .body = job->body != NULL ? job->body : job->source->memory,
        .body_bytes = bytes,
        .deadline_ms = (int64_t)(job->settings->deadline_s * 1000),
    };
    int status = exchange(client, request, &job->expected, job->settings->output,
                          job->settings->quiet, &err);
    if (job->body != NULL && strcmp(err.code, "too_large") == 0) {
        (void)fprintf(stderr, "  %s has %" PRIu64 " bytes, with the options around it %zu\n",
                      job->source->name, job->source->bytes, job->body_bytes);
    }
    return status;
}

int cumsum_whole(const struct settings *settings, struct tally *client, struct source *source,
                 enum format input, enum format output)
{
    struct cumsum_job job = {.settings = settings,
                             .source = source,
                             .input = input,
                             .expected = {.format = output,
                                          .dtype = settings->dtype,
                                          .shape = settings->shape,
                                          .strides = settings->output_strides,
                                          .member = "data"}};
    int status = run_job(&job, client);
    free(job.body);
    return status;
}
