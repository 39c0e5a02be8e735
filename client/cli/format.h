/* Formats of files: their names, guesses from the first bytes of an input, and the place where a JSON
 * text ends. Possible failures: input that is something else than its format is EXIT_USAGE, after a
 * complaint. Thread: the main one. */
#ifndef TALLY_CLI_FORMAT_H
#define TALLY_CLI_FORMAT_H

#include "client/cli/source.h"
#include "proto/json/tensor.h"

enum format { /* the order is that of the choices of --format */
    FORMAT_NONE,
    FORMAT_NPY,
    FORMAT_RAW,
    FORMAT_JSON,
    FORMAT_TEXT,
    FORMAT_CSV
};

static inline bool format_is_text(enum format format)
{
    return format == FORMAT_TEXT || format == FORMAT_CSV;
}

static inline bool format_is_binary(enum format format)
{
    return format == FORMAT_NPY || format == FORMAT_RAW;
}

/* The format of a file name with this ending; FORMAT_NONE of NULL. */
enum format format_of_file(const char *name);

/* Guess the format from the first bytes of the input; `described`: its type and shape were given.
 * Waits until a stream shows a digit or a bracket. Complains about input of no known format.
 * Returns EXIT_DONE or an exit status. */
int format_of_content(struct source *source, bool described, enum format *format);

/* Write " looks like JSON: give --format json" to `text`, or "" if the input looks like `format`
 * or like nothing that is known. */
void format_hint(struct source *source, enum format format, char *text, size_t size);

/* Load JSON to memory. *first is the index of its first character, '[' or '{'. Input that by its
 * first bytes cannot be JSON is refused before the rest is read, since the input may be endless.
 * Returns EXIT_DONE or an exit status. */
int format_load_json(struct source *source, size_t *first);

/* Measure the JSON array in a loaded source, and refuse text behind the array. Returns EXIT_DONE or an
 * exit status. */
int format_measure_array(const struct source *source, size_t first, struct json_array *array);

#endif
