/* Offsets are read by the readers of tensors: tensor_of_npy() and text_reader_read(). */
#include "client/cli/offsets.h"

#include "client/cli/part_source.h"
#include "client/cli/terminal.h"
#include "proto/little_endian.h"

#include <stdlib.h>
#include <string.h>

enum {
    FIRST_LINES = 1024 /* first room for the offsets of text; doubled when full */
};

static int load_npy(struct source *source, int64_t **offsets, uint64_t *count)
{
    struct tensor tensor;
    STEP(source_load(source));
    STEP(tensor_of_npy(source, &tensor));
    if (tensor.dtype != TALLY_INT64 || tensor.shape.count != 1) {
        return complain(EXIT_USAGE,
                        "%s has %s in %d dimension%s, expected int64 in one: the index of the "
                        "first element of each segment, and then the size of the axis",
                        source->name, tally_dtype_name(tensor.dtype), tensor.shape.count,
                        tensor.shape.count == 1 ? "" : "s");
    }
    const size_t bytes = (size_t)tensor.shape.numbers[0] * sizeof **offsets;
    int64_t *list = malloc(bytes + 1);
    if (list == NULL) {
        return complain_no_memory();
    }
    memcpy(list, source->memory + tensor.data_offset, bytes);
    if (tensor.byte_swap) {
        little_endian_swap((char *)list, bytes, sizeof *list);
    }
    *offsets = list;
    *count = (uint64_t)tensor.shape.numbers[0];
    return EXIT_DONE;
}

/* Read all lines to *list, which the caller frees also after a failure. */
static int read_lines(struct text_reader *reader, int64_t **list, uint64_t *count)
{
    struct text_batch batch = {.count = 0};
    uint64_t room = 0;
    do {
        *count += batch.count;
        if (*count == room) {
            room = larger_of(FIRST_LINES, 2 * room);
            int64_t *larger = realloc(*list, (size_t)room * sizeof **list);
            if (larger == NULL) {
                return complain_no_memory();
            }
            *list = larger;
        }
        batch = (struct text_batch){.numbers = (char *)(*list + *count), .most = room - *count};
        STEP(text_reader_read(reader, &batch, -1));
    } while (batch.count > 0);
    return EXIT_DONE;
}

static int load_text(struct source *source, int64_t **offsets, uint64_t *count)
{
    const struct settings settings = {.dtype = 1 + TALLY_INT64};
    struct text_reader reader;
    int64_t *list = NULL;
    uint64_t lines = 0;
    source_as_stream(source);
    int status = text_reader_open(&reader, &settings, false, source);
    if (status == EXIT_DONE && reader.columns > 1) {
        status = complain(EXIT_USAGE,
                          "%s has several numbers on a line, expected one offset on each",
                          source->name);
    }
    if (status == EXIT_DONE) {
        status = read_lines(&reader, &list, &lines);
    }
    text_reader_close(&reader);
    if (status != EXIT_DONE) {
        free(list);
        return status;
    }
    *offsets = list;
    *count = lines;
    return EXIT_DONE;
}

int offsets_load(const char *name, int64_t **offsets, uint64_t *count)
{
    struct source source;
    enum format format = FORMAT_NONE;
    int status = source_open(name, &source);
    if (status == EXIT_DONE) {
        status = format_of_content(&source, true, &format); /* NPY, or anything else */
    }
    if (status == EXIT_DONE) {
        status = format == FORMAT_NPY ? load_npy(&source, offsets, count)
                                      : load_text(&source, offsets, count);
    }
    source_close(&source);
    return status;
}
