/* Formats of files: recognition by the name or the first bytes of a file, and the loading of
 * JSON. Possible failures: input that does not have its format is EXIT_USAGE, after a
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

/* Return the format of the ending of a file name; FORMAT_NONE for other endings and for
 * NULL. */
enum format format_of_file(const char *name);

/* Guess the format from the first bytes of the input. `described`: --dtype and --shape were
 * given, so that the input is NPY or raw. Waits until a stream has sent a digit or a bracket.
 * Returns EXIT_DONE, or an exit status after complaining. */
int format_of_content(struct source *source, bool described, enum format *format);

/* Write a guess at the content and advice, such as " looks like JSON: give --format json", to
 * `text`; "" if the input may have the format `format`, or if its content is unknown. */
void format_hint(struct source *source, enum format format, char *text, size_t size);

/* Load JSON to the memory of the source. Stores the index of its first character, '[' or '{',
 * in *first. Input whose first bytes cannot be JSON is refused before the rest is read, because
 * the input may be endless. Returns EXIT_DONE or an exit status. */
int format_load_json(struct source *source, size_t *first);

/* Measure the JSON array at index `first` of a loaded source. Text behind the array is refused.
 * Returns EXIT_DONE or an exit status. */
int format_measure_array(const struct source *source, size_t first, struct json_array *array);

#endif
