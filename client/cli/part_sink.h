/* The sink of the sums of parts. Parts of a raw or NPY file are written at their offsets; text,
 * and all output to a stream, is written from first to last.
 *
 * Possible failures: EXIT_LOCAL if the output cannot be written, EXIT_USAGE if the output
 * cannot have the format; after a complaint. Thread: one at a time. */
#ifndef TALLY_CLI_PART_SINK_H
#define TALLY_CLI_PART_SINK_H

#include "client/cli/part_source.h"
#include "client/cli/text_writer.h"

struct part_sink {
    struct destination destination;
    enum format format;
    const struct tensor *tensor;      /* borrowed: type and shape of the sums */
    const struct cutting *cutting;    /* borrowed: division of the sums into boxes */
    const struct text_reader *reader; /* borrowed: the input if it is text; NULL: not text */
    struct text_writer writer;        /* used for JSON, text and CSV */
    bool begun;                       /* the bytes before the sums are written */
    uint64_t head_bytes;              /* bytes of the NPY header; 0: not NPY */
};

/* Return whether parts must be written from first to last: text, or output that is not a
 * file. */
bool part_sink_in_order(enum format format, const char *name);

/* Open the destination. Nothing is written yet. */
int part_sink_open(struct part_sink *sink, const struct settings *settings, enum format format,
                   const struct tensor *tensor);

/* Write the bytes before the sums, if the destination is a file. A stream gets these bytes
 * together with the first sums: if the server refuses the request, the stream stays empty. */
int part_sink_begin(struct part_sink *sink);

/* Write the sums of a box, of type `dtype`. `lines`: the lines of the input in which the sums
 * replace numbers; NULL: only the sums are written. */
int part_sink_write(struct part_sink *sink, const struct box *box, enum tally_dtype dtype,
                    const char *sums, const char *lines);

/* End the JSON of a stream whose input cannot be read to its end: the sums so far become a
 * complete array. Does nothing for other results. */
void part_sink_cut(struct part_sink *sink);

/* Finish the result after all parts. `outermost`: the outermost size, used if it was open. */
int part_sink_finish(struct part_sink *sink, uint64_t outermost);
void part_sink_close(struct part_sink *sink);

#endif
