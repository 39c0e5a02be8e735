/* The sink of the sums of parts: bytes at their offsets in a raw or NPY file, or bytes and text one
 * after the other in a stream.
 *
 * Possible failures: the output cannot be written, EXIT_LOCAL, or cannot have the format,
 * EXIT_USAGE, after a complaint. Thread: one at a time; part_sink_write() to a file that is not
 * written in order: any number. */
#ifndef TALLY_CLI_PART_SINK_H
#define TALLY_CLI_PART_SINK_H

#include "client/cli/part_source.h"
#include "client/cli/text_writer.h"

struct part_sink {
    struct destination destination;
    enum format format;
    const struct tensor *tensor;      /* of sums; borrowed, like all pointers here */
    const struct cutting *cutting;    /* of sums */
    const struct text_reader *reader; /* of text, whose header is passed on; NULL: none */
    struct text_writer writer;        /* of JSON, text and CSV */
    bool begun;                       /* the bytes before the sums are written */
    uint64_t head_bytes;              /* of an NPY file */
};

/* Whether parts must be written in order. */
bool part_sink_in_order(enum format format, const char *name);

/* Open the destination. Nothing is written yet. */
int part_sink_open(struct part_sink *sink, const struct settings *settings, enum format format,
                   const struct tensor *tensor);

/* Write the bytes before the sums to a file. A stream gets these bytes with the first sums, so
 * that a refusal leaves the stream empty. */
int part_sink_begin(struct part_sink *sink);

/* Write the sums of a box, which have this type; `lines`: the lines of text that they belong to,
 * NULL: the sums alone are written. */
int part_sink_write(struct part_sink *sink, const struct box *box, enum tally_dtype dtype,
                    const char *sums, const char *lines);

/* End the JSON of a stream whose input cannot be read to its end: the sums so far become a complete
 * array. Does nothing for other results. */
void part_sink_cut(struct part_sink *sink);

/* Finish the result after all parts. `outermost`: the outermost size, if it was open. */
int part_sink_finish(struct part_sink *sink, uint64_t outermost);
void part_sink_close(struct part_sink *sink);

#endif
