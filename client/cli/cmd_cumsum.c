/* `tally cumsum`: a file or a pipe to the server, its answer to a file or a pipe. */
#include "client/cli/commands.h"
#include "client/cli/destination.h"
#include "client/cli/inspect.h"
#include "client/cli/source.h"
#include "client/cli/terminal.h"
#include "client/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATH_TEXT = 8192,
    HINT_TEXT = 256
};

/* One run of the command. */
struct job {
    const struct settings *settings; /* borrowed */
    struct source source;
    struct destination destination;
    struct progress progress;
    enum format input;
    enum format output;
    bool object; /* JSON input is a whole request */
    char *body;  /* owned: JSON made of data and options, NULL if the source is sent as it is */
    size_t body_bytes;
    char path[PATH_TEXT];
};

/* ---- formats ---- */

static enum format format_named(const char *name)
{
    if (name == NULL) {
        return FORMAT_NONE;
    }
    return strcmp(name, "npy") == 0   ? FORMAT_NPY
           : strcmp(name, "raw") == 0 ? FORMAT_RAW
                                      : FORMAT_JSON;
}

static enum format format_of_file(const char *name)
{
    const char *dot = name == NULL ? NULL : strrchr(name, '.');
    if (dot == NULL) {
        return FORMAT_NONE;
    }
    if (strcmp(dot, ".npy") == 0) {
        return FORMAT_NPY;
    }
    if (strcmp(dot, ".json") == 0) {
        return FORMAT_JSON;
    }
    return strcmp(dot, ".bin") == 0 || strcmp(dot, ".raw") == 0 ? FORMAT_RAW : FORMAT_NONE;
}

static enum format format_of_content(struct source *source, bool described)
{
    char start[8] = "";
    size_t count = source->bytes < sizeof start ? (size_t)source->bytes : sizeof start;
    if (source_read(source, 0, start, count) != 0) {
        return FORMAT_NONE;
    }
    if (npy_is(start, count)) {
        return FORMAT_NPY;
    }
    return described ? FORMAT_RAW : FORMAT_JSON;
}

static int choose_formats(struct job *job)
{
    const struct settings *settings = job->settings;
    bool described = settings->dtype != NULL && settings->shape.count > 0;
    job->input = format_named(settings->format);
    if (job->input == FORMAT_NONE) {
        job->input = format_of_file(settings->argument);
    }
    if (job->input == FORMAT_NONE) {
        job->input = format_of_content(&job->source, described);
    }
    if (job->input == FORMAT_RAW && !described) {
        return complain(EXIT_USAGE,
                        "raw input needs its type and shape: --dtype float32 --shape "
                        "3,4");
    }
    if (job->input == FORMAT_NPY &&
        (settings->dtype != NULL || settings->shape.count > 0 || settings->strides.count > 0 ||
         settings->output_strides.count > 0)) {
        return complain(EXIT_USAGE,
                        "an NPY file says its type and shape itself: leave out --dtype, "
                        "--shape and strides");
    }
    job->output = format_named(settings->output_format);
    if (job->output == FORMAT_NONE) {
        job->output = format_of_file(settings->output);
    }
    if (job->output == FORMAT_NONE) {
        job->output = job->input;
    }
    return EXIT_DONE;
}

/* ---- what the answer must be ---- */

static int expect_raw(struct job *job, struct expectation *expected)
{
    const struct settings *settings = job->settings;
    uint64_t bytes = 0;
    if (tally_dtype_find(settings->dtype, &expected->dtype) != 0) {
        return complain(EXIT_USAGE, "there is no element type %s", settings->dtype);
    }
    expected->known = true;
    expected->shape = settings->shape;
    if (settings->strides.count > 0) {
        return EXIT_DONE; /* the server knows how many bytes that makes */
    }
    if (!shape_bytes(&settings->shape, expected->dtype, &bytes) || bytes != job->source.bytes) {
        char hint[HINT_TEXT];
        inspect_hint(&job->source, FORMAT_RAW, hint, sizeof hint);
        return complain(
            EXIT_USAGE,
            "%s has %" PRIu64 " bytes, but --dtype and --shape make %" PRIu64 "%s%s",
            job->source.name, job->source.bytes, bytes, hint[0] != '\0' ? "; it" : "", hint);
    }
    return EXIT_DONE;
}

/* A head that is not understood here is the server's to judge. */
static int expect_npy(struct job *job, struct expectation *expected)
{
    struct npy_head head;
    int status = EXIT_DONE;
    size_t count = job->source.bytes < NPY_HEAD_MAX ? (size_t)job->source.bytes : NPY_HEAD_MAX;
    char *start = malloc(NPY_HEAD_MAX);
    if (start == NULL || source_read(&job->source, 0, start, count) != 0) {
        status = EXIT_LOCAL;
    } else if (!npy_is(start, count)) {
        char hint[HINT_TEXT];
        inspect_hint(&job->source, FORMAT_NPY, hint, sizeof hint);
        status = complain(EXIT_USAGE, "%s is not an NPY file; %s%s", job->source.name,
                          hint[0] != '\0' ? "it" : "for other contents give --format", hint);
    } else if (npy_parse(start, count, &head) == NPY_OK) {
        expected->known = true;
        expected->dtype = head.dtype;
        expected->shape = head.shape;
    }
    free(start);
    return status;
}

static int expect_json(struct job *job)
{
    char hint[HINT_TEXT];
    inspect_hint(&job->source, FORMAT_JSON, hint, sizeof hint);
    return hint[0] == '\0' ? EXIT_DONE : complain(EXIT_USAGE, "%s%s", job->source.name, hint);
}

static int expect(struct job *job, struct expectation *expected)
{
    *expected = (struct expectation){.format = job->output,
                                     .padded = job->settings->output_strides.count > 0};
    if (job->input == FORMAT_RAW) {
        return expect_raw(job, expected);
    }
    return job->input == FORMAT_NPY ? expect_npy(job, expected) : expect_json(job);
}

/* ---- the request ---- */

static void append_list(char *text, size_t size, const char *key,
                        const struct number_list *list, const char *open, const char *close)
{
    if (list->count == 0) {
        return;
    }
    text_append(text, size, "%s%s", key, open);
    for (int i = 0; i < list->count; i++) {
        text_append(text, size, "%s%" PRId64, i == 0 ? "" : ",", list->numbers[i]);
    }
    text_append(text, size, "%s", close);
}

static void write_query(struct job *job)
{
    const struct settings *settings = job->settings;
    char *path = job->path;
    text_append(path, PATH_TEXT, "/v1/cumsum");
    if (job->input == FORMAT_JSON) {
        return;
    }
    text_append(path, PATH_TEXT, "?axis=%" PRId64, settings->axis);
    if (settings->exclusive) {
        text_append(path, PATH_TEXT, "&exclusive=true");
    }
    if (settings->reverse) {
        text_append(path, PATH_TEXT, "&reverse=true");
    }
    if (settings->precision != NULL) {
        text_append(path, PATH_TEXT, "&precision=%s", settings->precision);
    }
    if (job->input != FORMAT_RAW) {
        return;
    }
    text_append(path, PATH_TEXT, "&dtype=%s", settings->dtype);
    append_list(path, PATH_TEXT, "&shape=", &settings->shape, "", "");
    append_list(path, PATH_TEXT, "&strides=", &settings->strides, "", "");
    append_list(path, PATH_TEXT, "&output_strides=", &settings->output_strides, "", "");
}

/* The options as JSON members after "data". */
static void write_members(const struct settings *settings, char *text, size_t size)
{
    text_append(text, size, ",\"axis\":%" PRId64, settings->axis);
    if (settings->exclusive) {
        text_append(text, size, ",\"exclusive\":true");
    }
    if (settings->reverse) {
        text_append(text, size, ",\"reverse\":true");
    }
    if (settings->precision != NULL) {
        text_append(text, size, ",\"precision\":\"%s\"", settings->precision);
    }
    if (settings->dtype != NULL) {
        text_append(text, size, ",\"dtype\":\"%s\"", settings->dtype);
    }
    append_list(text, size, ",\"shape\":", &settings->shape, "[", "]");
    append_list(text, size, ",\"strides\":", &settings->strides, "[", "]");
    append_list(text, size, ",\"output_strides\":", &settings->output_strides, "[", "]");
    text_append(text, size, "}");
}

/* JSON input: an array becomes "data" of a request, an object is a request already. */
static int wrap_json(struct job *job)
{
    char members[PATH_TEXT] = "";
    if (!source_load(&job->source)) {
        return EXIT_LOCAL;
    }
    const char *text = job->source.memory;
    size_t blank = strspn(text, " \t\r\n");
    write_members(job->settings, members, sizeof members);
    job->object = text[blank] == '{';
    if (job->object) {
        if (job->settings->axis_given || strcmp(members, ",\"axis\":0}") != 0) {
            return complain(EXIT_USAGE,
                            "%s is a whole request (a JSON object): write the options "
                            "into it",
                            job->source.name);
        }
        return EXIT_DONE;
    }
    if (job->source.bytes == blank) {
        return complain(EXIT_USAGE, "%s is empty; give numbers such as [[1,2],[3,4]]",
                        job->source.name);
    }
    int status = inspect_array(&job->source);
    if (status != EXIT_DONE) {
        return status;
    }
    size_t size = job->source.bytes + strlen(members) + 16;
    job->body = malloc(size);
    if (job->body == NULL) {
        return complain(EXIT_LOCAL, "out of memory");
    }
    size_t used = (size_t)snprintf(job->body, size, "{\"data\":");
    memcpy(job->body + used, text, job->source.bytes);
    used += job->source.bytes;
    memcpy(job->body + used, members, strlen(members) + 1);
    job->body_bytes = used + strlen(members);
    return EXIT_DONE;
}

/* ---- the call ---- */

static int on_read(void *user, uint64_t offset, void *to, size_t count)
{
    struct job *job = user;
    return source_read(&job->source, offset, to, count);
}

static int on_check(void *user, const struct tally_answer *answer)
{
    struct job *job = user;
    return destination_check(&job->destination, answer);
}

static int on_write(void *user, uint64_t offset, const void *bytes, size_t count)
{
    struct job *job = user;
    return destination_write(&job->destination, offset, bytes, count);
}

static int on_progress(void *user, int64_t sent, int64_t send_total, int64_t received,
                       int64_t receive_total)
{
    struct job *job = user;
    if (job->body != NULL && send_total > 0) { /* of the source, not of what is around it */
        send_total = (int64_t)job->source.bytes;
        sent = sent < send_total ? sent : send_total;
    }
    return progress_step(&job->progress, sent, send_total, received, receive_total);
}

static int report(struct job *job, const struct tally_error *err)
{
    const struct destination *destination = &job->destination;
    bool ours = err->status == TALLY_LOCAL_IO || err->status == TALLY_BAD_ANSWER;
    if (ours && destination->trouble[0] != '\0') {
        return complain(destination->local ? EXIT_LOCAL : EXIT_SERVER, "%s",
                        destination->trouble);
    }
    if (err->status == TALLY_LOCAL_IO) {
        return EXIT_LOCAL; /* source_read() has complained */
    }
    int status = complain_error(err);
    if (job->body != NULL && strcmp(err->code, "too_large") == 0) {
        (void)fprintf(stderr, "  %s has %" PRIu64 " bytes, with the options around it %zu\n",
                      job->source.name, job->source.bytes, job->body_bytes);
    }
    return status;
}

static int transfer(struct job *job, struct tally *client)
{
    struct tally_error err;
    struct tally_request request = {
        .struct_size = sizeof request,
        .path = job->path,
        .content_type = format_content_type(job->input),
        .accept = format_content_type(job->output),
        .body = job->body,
        .body_bytes = job->body != NULL ? job->body_bytes : job->source.bytes,
        .read_body = job->body != NULL ? NULL : on_read,
        .check_answer = on_check,
        .write_answer = on_write,
        .progress = on_progress,
        .user = job,
        .answer_once = destination_is_stream(&job->destination),
        .deadline_ms = (int64_t)(job->settings->deadline_s * 1000),
    };
    progress_init(&job->progress, job->settings->quiet);
    enum tally_status status = tally_exchange(client, &request, &err);
    progress_end(&job->progress);
    if (status != TALLY_OK) {
        return report(job, &err);
    }
    return destination_commit(&job->destination, job->input != FORMAT_JSON || !job->object);
}

static int run(struct job *job, struct tally *client)
{
    struct expectation expected;
    int status = choose_formats(job);
    if (status == EXIT_DONE) {
        status = expect(job, &expected);
    }
    if (status == EXIT_DONE && job->input == FORMAT_JSON) {
        status = wrap_json(job);
    }
    if (status != EXIT_DONE) {
        return status;
    }
    write_query(job);
    status = destination_open(job->settings->output, &expected, &job->destination);
    if (status == EXIT_DONE) {
        status = transfer(job, client);
    }
    destination_close(&job->destination);
    return status;
}

int command_cumsum(const struct settings *settings)
{
    int status = EXIT_DONE;
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        return complain(EXIT_LOCAL, "out of memory");
    }
    job->settings = settings;
    struct tally *client = client_of(settings, settings->url, &status);
    if (client != NULL) {
        status = source_open(settings->argument, &job->source);
        if (status == EXIT_DONE) {
            status = run(job, client);
        }
        source_close(&job->source);
    }
    tally_close(client);
    free(job->body);
    free(job);
    return status;
}
