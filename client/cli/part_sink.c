/* If the outermost size of an NPY file is open, its header is written twice: first with room
 * for any size, and at the end with the size. */
#include "client/cli/part_sink.h"

#include "client/cli/terminal.h"
#include "proto/npy_header.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Write the header of an NPY file. The second call pads the header to the length of the
 * first. */
static int write_head(struct part_sink *sink, int64_t outermost)
{
    char text[NPY_HEADER_MAX];
    const struct number_list *shape = &sink->tensor->shape;
    int64_t sizes[TALLY_MAX_RANK];
    for (int i = 0; i < shape->count; i++) {
        sizes[sink->tensor->fortran_order ? shape->count - 1 - i : i] =
            i == 0 ? outermost : shape->numbers[i];
    }
    sink->head_bytes =
        npy_header_print((enum dtype)sink->tensor->dtype, sink->tensor->fortran_order, sizes,
                         shape->count, sink->head_bytes, text);
    return destination_write(&sink->destination, 0, text, sink->head_bytes);
}

bool part_sink_in_order(enum format format, const char *name)
{
    struct stat about;
    return !format_is_binary(format) || name == NULL ||
           (stat(name, &about) == 0 && !S_ISREG(about.st_mode));
}

int part_sink_open(struct part_sink *sink, const struct settings *settings, enum format format,
                   const struct tensor *tensor)
{
    const struct number_list *shape = &tensor->shape;
    bool open = shape->numbers[0] < 0;
    sink->format = format;
    sink->tensor = tensor;
    if (open && format == FORMAT_NPY && part_sink_in_order(format, settings->output)) {
        return complain(EXIT_USAGE,
                        "NPY says its size before its numbers, and the size is not known: use "
                        "--output-format raw, json or text, or -o FILE.npy");
    }
    if (format == FORMAT_NPY && tensor->dtype == TALLY_BFLOAT16) {
        return complain(EXIT_USAGE, "NPY files have no bfloat16; use --output-format raw");
    }
    if (!format_is_binary(format)) {
        const bool same = sink->reader != NULL && (format == FORMAT_CSV) == sink->reader->csv;
        const struct dialect dialect =
            dialect_of_result(settings, format, same ? &sink->reader->dialect : NULL);
        STEP(text_writer_open(&sink->writer, format, shape, &dialect, &sink->destination));
        if (sink->reader != NULL) {
            sink->writer.from = &sink->reader->dialect;
            sink->writer.chosen = sink->reader->chosen;
        }
    }
    return destination_open(settings->output, format_is_binary(format), &sink->destination);
}

/* Write the bytes before the sums, unless they are written. */
static int write_beginning(struct part_sink *sink)
{
    int64_t outermost = sink->tensor->shape.numbers[0];
    if (sink->begun) {
        return EXIT_DONE;
    }
    sink->begun = true;
    if (sink->format == FORMAT_NPY) {
        return write_head(sink, outermost < 0 ? INT64_MAX : outermost);
    }
    return format_is_text(sink->format) && sink->reader != NULL && sink->reader->header != NULL
               ? text_writer_header(&sink->writer, sink->reader->header)
               : EXIT_DONE;
}

int part_sink_begin(struct part_sink *sink)
{
    return sink->destination.temporary != NULL ? write_beginning(sink) : EXIT_DONE;
}

int part_sink_write(struct part_sink *sink, const struct box *box, enum tally_dtype dtype,
                    const char *sums, const char *lines)
{
    const uint64_t bytes = box_bytes(sink->cutting, box);
    const uint64_t count = bytes / sink->cutting->element_bytes;
    STEP(write_beginning(sink));
    if (lines != NULL) {
        return text_writer_replace(&sink->writer, lines, dtype, sums,
                                   count / sink->reader->columns);
    }
    if (!format_is_binary(sink->format)) {
        return text_writer_add(&sink->writer, dtype, sums, count);
    }
    return destination_write(&sink->destination,
                             sink->head_bytes + box_offset(sink->cutting, box), sums, bytes);
}

int part_sink_finish(struct part_sink *sink, uint64_t outermost)
{
    STEP(write_beginning(sink)); /* if no part was written */
    if (sink->format == FORMAT_NPY && sink->tensor->shape.numbers[0] < 0) {
        STEP(write_head(sink, (int64_t)outermost));
    } else if (!format_is_binary(sink->format)) {
        STEP(text_writer_finish(&sink->writer));
    }
    return destination_finish(&sink->destination);
}

void part_sink_cut(struct part_sink *sink)
{
    const bool stream = sink->destination.temporary == NULL;
    if (stream && sink->format == FORMAT_JSON && sink->writer.open &&
        sink->writer.printed > 0) {
        (void)text_writer_finish(&sink->writer);
    }
}

void part_sink_close(struct part_sink *sink)
{
    destination_close(&sink->destination);
    text_writer_close(&sink->writer);
}
