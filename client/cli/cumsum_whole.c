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

/* A list of sizes that an object has; none where it has none, or spells one otherwise (2e0). */
static struct number_list member_list(struct json_text object, const char *key)
{
    struct number_list list = {.count = 0};
    struct json_text rest = {"", 0};
    struct json_text unused = {"", 0};
    struct json_text number = {"", 0};
    if (json_text_member(object, key, &rest)) {
        while (list.count < TALLY_MAX_RANK && json_text_next(&rest, &unused, &number)) {
            list.numbers[list.count] = json_text_integer(number, -1);
            if (list.numbers[list.count++] < 0) {
                return (struct number_list){.count = 0};
            }
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

/* JSON input: an array becomes "data" of a request, *body, which is the caller's; an object is a
 * request already. */
static int wrap_json(const struct settings *settings, const struct source *source,
                     struct expectation *expected, char **body, size_t *body_bytes)
{
    char options[OPTIONS_TEXT] = "";
    const char *text = source->memory;
    size_t blank = strspn(text, " \t\r\n");
    append_options(settings, true, options);
    expected->bare = text[blank] != '{';
    if (!expected->bare) {
        const struct json_text request = {text, source->bytes};
        expected->shape = member_list(request, "shape");
        expected->strides = member_list(request, "output_strides");
        bool given = settings->axis_given || strcmp(options, ",\"axis\":0") != 0;
        return given ? complain(EXIT_USAGE,
                                "%s is a whole request (a JSON object): write the options into "
                                "it",
                                source->name)
                     : EXIT_DONE;
    }
    if (source->bytes == blank) {
        return complain(EXIT_USAGE, "%s is empty; give numbers such as [[1,2],[3,4]]",
                        source->name);
    }
    STEP(format_check_array(source));
    size_t size = source->bytes + strlen(options) + sizeof "{\"data\":}";
    *body = malloc(size);
    if (*body == NULL) {
        return complain_no_memory();
    }
    size_t used = (size_t)snprintf(*body, size, "{\"data\":");
    memcpy(*body + used, text, source->bytes);
    used += source->bytes;
    *body_bytes = used + (size_t)snprintf(*body + used, size - used, "%s}", options);
    return EXIT_DONE;
}

/* ---- the call ---- */

int cumsum_whole(const struct settings *settings, struct tally *client, struct source *source,
                 enum format input, enum format output)
{
    char path[OPTIONS_TEXT] = "/v1/cumsum";
    char *wrapped = NULL;
    size_t bytes = 0;
    struct expectation expected = {.format = output,
                                   .dtype = settings->dtype,
                                   .shape = settings->shape,
                                   .strides = settings->output_strides,
                                   .member = "data"};
    if (input == FORMAT_JSON) {
        STEP(format_check_start(source));
        STEP(source_load(source));
        STEP(wrap_json(settings, source, &expected, &wrapped, &bytes));
    } else {
        STEP(source_load(source));
        size_t query = strlen(path);
        append_options(settings, false, path);
        path[query] = '?';
    }
    if (wrapped == NULL) {
        bytes = source->bytes;
    }
    expected.unsaid_most = bytes > JSON_LEAST / JSON_SHARE ? bytes * JSON_SHARE : JSON_LEAST;
    struct tally_error err = {.status = TALLY_OK};
    struct tally_request request = {
        .path = path,
        .content_type = format_content_type(input),
        .body = wrapped != NULL ? wrapped : source->memory,
        .body_bytes = bytes,
        .deadline_ms = (int64_t)(settings->deadline_s * 1000),
    };
    int status = exchange(client, request, &expected, settings->output, settings->quiet, &err);
    if (wrapped != NULL && strcmp(err.code, "too_large") == 0) {
        (void)fprintf(stderr,
                      "  the input has %" PRIu64 " bytes, with the options around it %zu\n",
                      source->bytes, bytes);
    }
    free(wrapped);
    return status;
}
