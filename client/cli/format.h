/* Formats of files: their names, and what an input's bytes look like.
 *
 * The input is looked at before any byte of it is sent: then a complaint is about the user's
 * file, not about the request that `tally` makes of it. Thread: the main one. */
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

/* Of what goes as one request, and of the answer: numbers go and come as raw bytes. */
static inline const char *format_content_type(enum format format)
{
    return format == FORMAT_JSON ? "application/json" : "application/octet-stream";
}

/* Lines of numbers; and what is no text at all. */
static inline bool format_is_text(enum format format)
{
    return format == FORMAT_TEXT || format == FORMAT_CSV;
}

static inline bool format_is_binary(enum format format)
{
    return format == FORMAT_NPY || format == FORMAT_RAW;
}

/* By its name ("npy"), or by the ending of a file's name; NULL is FORMAT_NONE. */
enum format format_named(const char *name);
enum format format_of_file(const char *name);

/* By the input's first bytes; `described`: its type and shape were given. */
enum format format_of_content(struct source *source, bool described);

/* " looks like JSON: give --format json", or "" if it looks like what `format` is or like
 * nothing that is known. */
void format_hint(struct source *source, enum format format, char *text, size_t size);

/* Complains about what cannot be JSON, by its first bytes: all of it may be endless. EXIT_DONE,
 * or the status after complaining. */
int format_check_start(struct source *source);

/* Complains about JSON that is neither a whole request nor one array. EXIT_DONE, or the status
 * after complaining. The source is loaded. */
int format_check_array(const struct source *source);

#endif
