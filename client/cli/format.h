/* Formats of files: their names, and guesses from the first bytes of an input.
 *
 * The first bytes are checked before any byte is sent: so a complaint is about the user's file,
 * not about the request that `tally` makes of the file. Thread: the main one. */
#ifndef TALLY_CLI_FORMAT_H
#define TALLY_CLI_FORMAT_H

#include "client/cli/source.h"

enum format {
    FORMAT_NONE,
    FORMAT_NPY,
    FORMAT_RAW,
    FORMAT_JSON,
    FORMAT_TEXT,
    FORMAT_CSV
};

/* The content type of a request, and of an answer: numbers are sent as raw bytes. */
static inline const char *format_content_type(enum format format)
{
    return format == FORMAT_JSON ? "application/json" : "application/octet-stream";
}

static inline bool format_is_text(enum format format)
{
    return format == FORMAT_TEXT || format == FORMAT_CSV;
}

static inline bool format_is_binary(enum format format)
{
    return format == FORMAT_NPY || format == FORMAT_RAW;
}

/* The format of this name ("npy"), or of a file name with this ending; FORMAT_NONE of NULL. */
enum format format_named(const char *name);
enum format format_of_file(const char *name);

/* Guess the format from the first bytes of the input; `described`: its type and shape were given.
 * Waits until a stream shows a digit or a bracket. Complains about input of no known format.
 * Returns EXIT_DONE or an exit status. */
int format_of_content(struct source *source, bool described, enum format *format);

/* Write " looks like JSON: give --format json" to `text`, or "" if the input looks like `format`
 * or like nothing that is known. */
void format_hint(struct source *source, enum format format, char *text, size_t size);

/* Complain about input that by its first bytes cannot be JSON: the input may be endless. Returns
 * EXIT_DONE or an exit status. */
int format_check_start(struct source *source);

/* Complain about JSON that is neither a whole request nor one array. The source is loaded. Returns
 * EXIT_DONE or an exit status. */
int format_check_array(const struct source *source);

#endif
