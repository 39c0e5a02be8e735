/* Where the sums of parts go: to their places in a raw or NPY file, or one after the other to a
 * stream or as text.
 *
 * Text is a row of the last dimension a line (of a tensor with one dimension: a number), JSON
 * is an array nested as the tensor. Both, and what goes to a stream, come in order.
 *
 * Possible failures: complained about here, as EXIT_LOCAL. Thread: one at a time, but for
 * part_sink_write() to a file that is not in order, which is for any. */
#ifndef TALLY_CLI_PART_SINK_H
#define TALLY_CLI_PART_SINK_H

#include "client/cli/destination.h"
#include "client/cli/part_source.h"

struct part_sink {
    struct destination destination;
    enum format format;
    const struct tensor *tensor;   /* of sums; borrowed; so is the cutting */
    const struct cutting *cutting; /* of sums; NULL until known */
    const char *header;            /* of CSV, passed on as it is; borrowed, NULL: none */
    size_t header_bytes;           /* with the end of its line */
    char delimiter;                /* between the numbers of a line of text */
    bool begun;                    /* what comes before the sums is written */
    uint64_t head_bytes;           /* of an NPY file */
    uint64_t printed;              /* elements, where they come in order */
    uint64_t written;              /* bytes, likewise */
    uint64_t row_length;           /* elements of a line of text */
    struct number_list nest;       /* sizes of the arrays in JSON, up to the first that is 0 */
    char *text;                    /* owned: elements being printed */
};

/* Whether parts must be written in order. */
bool part_sink_in_order(enum format format, const char *name);

/* Open the destination. Nothing is written yet. */
int part_sink_open(struct part_sink *sink, const struct settings *settings, enum format format,
                   const struct tensor *tensor);
/* Write what comes before the sums; a stream gets it with the first of them, so that a refusal
 * leaves it empty. */
int part_sink_begin(struct part_sink *sink);
int part_sink_write(struct part_sink *sink, const struct box *box, const char *sums);

/* All parts are there. `outermost`: the outermost size, if it was open. */
int part_sink_finish(struct part_sink *sink, uint64_t outermost);
void part_sink_close(struct part_sink *sink);

#endif
