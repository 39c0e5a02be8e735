/* Writer of sums as text. JSON is an array that is nested like the tensor. In text and CSV a
 * line has the sums along the last dimension; if the tensor has one dimension, a line has one
 * sum.
 *
 * With --columns the lines of the input are written again, and sums replace the numbers that
 * were summed. Numbers have the digits that the service prints (proto/json/number_text.h). NaN
 * and infinities are in quotes in JSON only.
 *
 * Possible failures: EXIT_LOCAL if the output cannot be written, EXIT_INTERRUPTED. Thread: one
 * at a time. */
#ifndef TALLY_CLI_TEXT_WRITER_H
#define TALLY_CLI_TEXT_WRITER_H

#include "client/cli/destination.h"
#include "client/cli/fields.h"
#include "client/cli/format.h"
#include "client/cli/options.h"

struct text_writer {
    struct destination *destination; /* borrowed */
    bool json;
    struct dialect dialect;     /* dialect of the result */
    const struct dialect *from; /* borrowed: dialect of input lines that are written again */
    const bool *chosen;         /* borrowed: whether a sum replaces a field of these lines */
    struct number_list nest;    /* JSON: sizes of the dimensions before the first size 0 */
    bool open;                  /* JSON: the first size is open, -1 */
    uint64_t row_length;        /* sums in a line of text */
    uint64_t printed;           /* sums printed so far */
    uint64_t written;           /* bytes written so far */
    char *text;                 /* owned: bytes that are not yet written */
    size_t used;                /* bytes in `text` */
};

/* Return the dialect of a result. `input`: dialect of input with the same format, else NULL. */
struct dialect dialect_of_result(const struct settings *settings, enum format format,
                                 const struct dialect *input);

/* Open a writer. `shape`: sizes of the tensor of sums; the first may be -1, open. The
 * destination is borrowed. */
int text_writer_open(struct text_writer *writer, enum format format,
                     const struct number_list *shape, const struct dialect *dialect,
                     struct destination *destination);
void text_writer_close(struct text_writer *writer);

/* Write the header line of the input, a NUL-terminated text. */
int text_writer_header(struct text_writer *writer, const char *header);

/* Write the next `count` sums. */
int text_writer_add(struct text_writer *writer, enum tally_dtype dtype, const char *sums,
                    uint64_t count);

/* Write the next `rows` lines of the input, each ended by a NUL; sums replace the chosen
 * fields. */
int text_writer_replace(struct text_writer *writer, const char *lines, enum tally_dtype dtype,
                        const char *sums, uint64_t rows);

/* Write the end of the text: the last brackets of JSON. */
int text_writer_finish(struct text_writer *writer);

#endif
