/* `tally cumsum` sums a tensor from a file or a pipe, and writes the sums to a file or a pipe.
 *
 *   source opened -> formats chosen -> offsets loaded -> summed part by part (cumsum_parts.c)
 *
 * A JSON object is a whole request of the HTTP API. Its answer is written unchanged.
 *
 * Possible failures: wrong input is EXIT_USAGE, and is not sent. A failed call does not change
 * an output file. Thread: the main one. */
#include "client/cli/commands.h"
#include "client/cli/destination.h"
#include "client/cli/exchange.h"
#include "client/cli/offsets.h"
#include "client/cli/terminal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ANSWER_MOST =
        256 << 20 /* limit for the answer to a whole request, which is kept in memory; bytes */
};

/* Complain that raw input needs --dtype and --shape. */
static int ask_for_description(const struct settings *settings, const struct source *source)
{
    return complain(EXIT_USAGE,
                    "%s is raw, numbers alone, and its %s not given: give both, like "
                    "--dtype float32 --shape 3,4",
                    source->name,
                    settings->dtype > 0         ? "shape is"
                    : settings->shape.count > 0 ? "type is"
                                                : "type and shape are");
}

static int choose_output(const struct settings *settings, enum format input,
                         enum format *output)
{
    *output = (enum format)settings->output_format;
    if (*output != FORMAT_NONE) {
        return EXIT_DONE;
    }
    *output = format_of_file(settings->output);
    if (*output != FORMAT_NONE) {
        return EXIT_DONE;
    }
    const char *slash = settings->output == NULL ? NULL : strrchr(settings->output, '/');
    const char *name = slash == NULL ? settings->output : slash + 1;
    const char *ending = name == NULL ? NULL : strrchr(name, '.');
    if (ending != NULL && ending != name && isalpha((unsigned char)ending[1]) != 0) {
        return complain(EXIT_USAGE,
                        "%s: a result has no format %s; the formats are .npy, .bin and .raw "
                        "(raw), .json, .txt and .csv, or give one by --output-format",
                        settings->output, ending);
    }
    *output = input;
    return EXIT_DONE;
}

static int choose_formats(const struct settings *settings, struct source *source,
                          enum format *input, enum format *output)
{
    bool described = settings->dtype > 0 && settings->shape.count > 0;
    bool shaped = settings->shape.count > 0 || settings_have_strides(settings);
    *input = (enum format)settings->format;
    if (*input == FORMAT_NONE) {
        *input = format_of_file(settings->argument);
    }
    if (*input == FORMAT_NONE) {
        STEP(format_of_content(source, described, input));
    }
    if (*input == FORMAT_RAW && !described) {
        return ask_for_description(settings, source);
    }
    if (*input == FORMAT_NPY && (settings->dtype > 0 || shaped)) {
        return complain(EXIT_USAGE,
                        "%s is an NPY file, which says its type and shape itself: leave out "
                        "--dtype, --shape and strides, or save the array with others",
                        source->name);
    }
    if (format_is_text(*input) && shaped) {
        return complain(EXIT_USAGE,
                        "%s is text, whose shape is that of its lines: leave out --shape and "
                        "strides",
                        source->name);
    }
    if ((settings->header || settings->columns != NULL) && !format_is_text(*input)) {
        return complain(EXIT_USAGE, "--%s is for text and CSV, and %s is neither: leave it out",
                        settings->header ? "header" : "columns", source->name);
    }
    STEP(choose_output(settings, *input, output));
    if ((settings->delimiter != NULL || settings->decimal > 0) && !format_is_text(*input) &&
        !format_is_text(*output)) {
        return complain(EXIT_USAGE,
                        "--%s is for text and CSV, and neither %s nor the result is that: "
                        "leave it out",
                        settings->delimiter != NULL ? "delimiter" : "decimal", source->name);
    }
    if (settings->delimiter != NULL && settings->delimiter[0] == ',' &&
        settings_decimal(settings) == ',') {
        return complain(EXIT_USAGE,
                        "--delimiter and --decimal are both '%s': numbers could not be told "
                        "from their fields",
                        settings->delimiter);
    }
    if (settings->delimiter != NULL &&
        (settings->delimiter[0] == '\0' || settings->delimiter[1] != '\0' ||
         isalnum((unsigned char)settings->delimiter[0]) != 0 ||
         strchr("\r\n\"+-.", settings->delimiter[0]) != NULL)) {
        return complain(EXIT_USAGE,
                        "--delimiter %s: expected one character that is not part of a number "
                        "(a tab is $'\\t')",
                        settings->delimiter);
    }
    return EXIT_DONE;
}

/* Return whether the result would be written to the input file through standard output. */
static bool is_own_output(const struct source *source, const char *output)
{
    struct stat from;
    struct stat to;
    return output == NULL && fstat(source->fd, &from) == 0 && fstat(STDOUT_FILENO, &to) == 0 &&
           S_ISREG(from.st_mode) && from.st_dev == to.st_dev && from.st_ino == to.st_ino;
}

/* Return whether the command line has an option that describes the sum or the tensor. */
static bool sum_is_described(const struct settings *settings)
{
    return settings->axis_given || settings->exclusive || settings->reverse ||
           settings->dtype > 0 || settings->output_dtype > 0 || settings->nan > 0 ||
           settings->initial != NULL || settings->include_initial ||
           settings->offsets_file != NULL || settings->shape.count > 0 ||
           settings_have_strides(settings);
}

/* Send the JSON object in the memory of the source as a request of the HTTP API, and write the
 * answer. */
static int send_request(const struct settings *settings, struct tally *client,
                        const struct source *source, enum format output)
{
    if (sum_is_described(settings)) {
        return complain(EXIT_USAGE,
                        "%s is a whole request (a JSON object): write the options into it",
                        source->name);
    }
    if (output != FORMAT_JSON) {
        return complain(EXIT_USAGE,
                        "%s is a whole request (a JSON object), which has a JSON object as its "
                        "answer: give the array alone for a result in another format",
                        source->name);
    }
    const struct tally_request request = {
        .path = "/v1/cumsum",
        .content_type = "application/json",
        .body = source->memory,
        .body_bytes = source->bytes,
        .deadline_ms = (int64_t)(settings->deadline_s * 1000),
    };
    return exchange_json(client, request, ANSWER_MOST, settings->output);
}

/* Sum the input. Outputs, freed by the caller also after a failure: *output_path is memory of
 * destination_follow(), *offsets are the numbers of --offsets. */
static int sum_source(const struct settings *settings, struct tally *client,
                      struct source *source, char **output_path, int64_t **offsets)
{
    struct settings followed = *settings; /* with resolved `output`, and offsets */
    enum format input = FORMAT_NONE;
    enum format output = FORMAT_NONE;
    size_t first = 0;
    STEP(source_open(settings->argument, source));
    STEP(destination_follow(settings->output, &followed.output, output_path));
    if (is_own_output(source, followed.output)) {
        return complain(
            EXIT_USAGE,
            "standard output is the input: use -o FILE, which may be the same file");
    }
    STEP(choose_formats(settings, source, &input, &output));
    if (input == FORMAT_JSON) {
        STEP(format_load_json(source, &first));
        if (source->memory[first] == '{') {
            return send_request(&followed, client, source, output);
        }
    }
    if (settings->offsets_file != NULL) {
        if (source->fd == STDIN_FILENO && strcmp(settings->offsets_file, "-") == 0) {
            return complain(EXIT_USAGE,
                            "--offsets -: standard input is the tensor: give the name "
                            "of a file");
        }
        STEP(offsets_load(settings->offsets_file, offsets, &followed.offset_count));
        followed.offsets = *offsets;
    }
    return cumsum_parts(&followed, client, source, input, output);
}

int command_cumsum(const struct settings *settings, struct tally *client)
{
    struct source source;
    char *output_path = NULL;
    int64_t *offsets = NULL;
    catch_interrupts();
    int status = sum_source(settings, client, &source, &output_path, &offsets);
    source_close(&source);
    free(output_path);
    free(offsets);
    return status;
}
