/* Numbers as text: JSON, an array nested as the tensor; text and CSV, a row of the last dimension
 * a line (of a tensor with one dimension: a number a line).
 *
 * Lines that the input had (--columns) are written again, with sums in place of the numbers that
 * were summed. Numbers are printed as the service prints them (proto/json/number_text.h), without
 * quotes around those that are not finite where the format is not JSON.
 *
 * Possible failures: the output cannot be written, EXIT_LOCAL; an interrupt. Thread: one at a
 * time. */
#ifndef TALLY_CLI_TEXT_WRITER_H
#define TALLY_CLI_TEXT_WRITER_H

#include "client/cli/destination.h"
#include "client/cli/fields.h"
#include "client/cli/format.h"
#include "client/cli/options.h"

struct text_writer {
    struct destination *destination; /* borrowed */
    bool json;
    struct dialect dialect;     /* of the result */
    const struct dialect *from; /* of the input lines that are written again; borrowed */
    const bool *chosen;         /* fields of these lines that sums replace; borrowed */
    struct number_list nest;    /* JSON: sizes of the arrays, up to the first that is 0 */
    bool open;                  /* JSON: the first size is open, -1 */
    uint64_t row_length;        /* elements of a line of text */
    uint64_t printed;           /* elements */
    uint64_t written;           /* bytes, those in `text` excluded */
    char *text;                 /* owned: bytes to be written */
    size_t used;                /* bytes in `text` */
};

/* The dialect of a result: the input's if the input has the same format, NULL: it has not. */
struct dialect dialect_of_result(const struct settings *settings, enum format format,
                                 const struct dialect *input);

/* The shape is that of the tensor of sums; its first size may be -1, open. */
int text_writer_open(struct text_writer *writer, enum format format,
                     const struct number_list *shape, const struct dialect *dialect,
                     struct destination *destination);
void text_writer_close(struct text_writer *writer);

/* Write a header of the input, NUL-terminated. */
int text_writer_header(struct text_writer *writer, const char *header);

/* Write the next `count` sums. */
int text_writer_add(struct text_writer *writer, enum tally_dtype dtype, const char *sums,
                    uint64_t count);

/* Write the next `rows` lines, NUL-terminated, with a sum in place of each chosen field. */
int text_writer_replace(struct text_writer *writer, const char *lines, enum tally_dtype dtype,
                        const char *sums, uint64_t rows);

/* Write what ends the text. */
int text_writer_finish(struct text_writer *writer);

#endif
