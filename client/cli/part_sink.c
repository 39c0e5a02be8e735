/* Where the sums of parts go: bytes to their place in a file, or numbers in their order.
 *
 * The head of an NPY file has its size before the outermost size is known: it is padded, and
 * written again at the end. Numbers are printed as JSON's are (proto/json/number_text.h),
 * without quotes around those that are not finite where no JSON is asked for. */
#include "client/cli/part_sink.h"

#include "client/cli/terminal.h"
#include "proto/json/number_text.h"
#include "proto/npy_header.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TEXT_BYTES = 1 << 18,
    BRACKETS_MOST = 2 * TALLY_MAX_RANK
};

/* To what comes in order. */
static int append_text(struct part_sink *sink, const char *bytes, size_t count)
{
    if (interrupted()) { /* brackets around nothing may be any number */
        return complain(EXIT_INTERRUPTED, "interrupted");
    }
    STEP(destination_place(&sink->destination, sink->written, bytes, count));
    sink->written += count;
    return EXIT_DONE;
}

/* ---- the head of an NPY file ---- */

/* At least sink->head_bytes bytes long, which is set by the first call. */
static void print_head(struct part_sink *sink, int64_t outermost, char text[NPY_HEADER_MAX])
{
    const struct number_list *shape = &sink->tensor->shape;
    int64_t sizes[TALLY_MAX_RANK];
    for (int i = 0; i < shape->count; i++) {
        sizes[sink->tensor->fortran_order ? shape->count - 1 - i : i] =
            i == 0 ? outermost : shape->numbers[i];
    }
    sink->head_bytes =
        npy_header_print((enum dtype)sink->tensor->dtype, sink->tensor->fortran_order, sizes,
                         shape->count, sink->head_bytes, text);
}

static int write_head(struct part_sink *sink, int64_t outermost)
{
    char text[NPY_HEADER_MAX];
    print_head(sink, outermost, text);
    return destination_place(&sink->destination, 0, text, sink->head_bytes);
}

/* ---- text ---- */

/* The brackets before an element of a nested array, or behind it: one for each dimension whose
 * first, or last, it is. An open size has no last element: its bracket is closed in the end. */
static int count_brackets(const struct number_list *shape, uint64_t index)
{
    uint64_t block = 1;
    int count = 0;
    for (int i = shape->count - 1; i >= 0; i--) {
        const bool open = shape->numbers[i] < 0;
        block *= open ? 1 : (uint64_t)shape->numbers[i];
        if (open ? index > 0 : index % block != 0) {
            break;
        }
        count++;
    }
    return count;
}

static char *print_number(const struct part_sink *sink, const char *from, char *at)
{
    char *end = number_print((enum dtype)sink->tensor->dtype, from, at);
    if (sink->format != FORMAT_JSON && *at == '"') {
        memmove(at, at + 1, (size_t)(end - at));
        end -= 2;
    }
    return end;
}

/* sums NULL: of a tensor without elements, whose place the empty arrays take. */
static int write_text(struct part_sink *sink, const char *sums, uint64_t count)
{
    const struct number_list *shape = &sink->nest;
    bool json = sink->format == FORMAT_JSON;
    char *at = sink->text;
    for (uint64_t i = 0; i < count; i++) {
        if (json) {
            const bool next = sink->printed > 0;
            *at = ',';
            at += next ? 1 : 0;
            const int opening = count_brackets(shape, sink->printed);
            memset(at, '[', (size_t)opening);
            at += opening;
        }
        at = sums == NULL ? stpcpy(at, "[]")
                          : print_number(sink, sums + i * sink->cutting->element_bytes, at);
        sink->printed++;
        if (json) {
            const int closing = count_brackets(shape, sink->printed);
            memset(at, ']', (size_t)closing);
            at += closing;
        } else {
            *at = (char)(sink->printed % sink->row_length == 0 ? '\n' : sink->delimiter);
            at++;
        }
        if (at - sink->text > TEXT_BYTES - NUMBER_ROOM - BRACKETS_MOST || i + 1 == count) {
            STEP(append_text(sink, sink->text, (size_t)(at - sink->text)));
            at = sink->text;
        }
    }
    return EXIT_DONE;
}

static int finish_json(struct part_sink *sink)
{
    const char *end = "\n";
    if (sink->tensor->shape.numbers[0] < 0) {
        end = sink->printed == 0 ? "[]\n" : "]\n";
    } else if (sink->printed == 0) {
        uint64_t count = 1;
        for (int i = 0; i < sink->nest.count; i++) {
            count *= (uint64_t)sink->nest.numbers[i];
        }
        STEP(write_text(sink, NULL, count));
    }
    return append_text(sink, end, strlen(end));
}

/* ---- a sink's life ---- */

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
    sink->delimiter = ' ';
    if (settings->delimiter != NULL) {
        sink->delimiter = settings->delimiter[0];
    } else if (format == FORMAT_CSV) {
        sink->delimiter = ',';
    }
    sink->nest = *shape;
    for (int i = shape->count - 1; i >= 0; i--) {
        sink->nest.count = shape->numbers[i] == 0 ? i : sink->nest.count;
    }
    sink->row_length = shape->count == 1 ? 1 : (uint64_t)shape->numbers[shape->count - 1];
    if (open && format == FORMAT_NPY && part_sink_in_order(format, settings->output)) {
        return complain(EXIT_USAGE,
                        "NPY says its size before its numbers, and the size is not known: use "
                        "--output-format raw, json or text, or -o FILE.npy");
    }
    if (format == FORMAT_NPY && tensor->dtype == TALLY_BFLOAT16) {
        return complain(EXIT_USAGE, "NPY files have no bfloat16; use --output-format raw");
    }
    sink->text = malloc(TEXT_BYTES);
    if (sink->text == NULL) {
        return complain_no_memory();
    }
    return destination_open(settings->output, format_is_binary(format), &sink->destination);
}

/* Once: what comes before the sums. */
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
    return sink->header != NULL ? append_text(sink, sink->header, sink->header_bytes)
                                : EXIT_DONE;
}

int part_sink_begin(struct part_sink *sink)
{
    return sink->destination.temporary != NULL ? write_beginning(sink) : EXIT_DONE;
}

int part_sink_write(struct part_sink *sink, const struct box *box, const char *sums)
{
    uint64_t run_bytes = 0;
    uint64_t runs = box_runs(sink->cutting, box, &run_bytes);
    STEP(write_beginning(sink));
    if (!format_is_binary(sink->format)) {
        return write_text(sink, sums, runs * run_bytes / sink->cutting->element_bytes);
    }
    for (uint64_t i = 0; i < runs; i++) {
        uint64_t offset = sink->head_bytes + box_run_offset(sink->cutting, box, i);
        STEP(destination_place(&sink->destination, offset, sums + i * run_bytes, run_bytes));
    }
    return EXIT_DONE;
}

int part_sink_finish(struct part_sink *sink, uint64_t outermost)
{
    STEP(write_beginning(sink)); /* of a tensor without elements */
    if (sink->format == FORMAT_NPY && sink->tensor->shape.numbers[0] < 0) {
        STEP(write_head(sink, (int64_t)outermost));
    } else if (sink->format == FORMAT_JSON) {
        STEP(finish_json(sink));
    }
    return destination_finish(&sink->destination);
}

void part_sink_close(struct part_sink *sink)
{
    destination_close(&sink->destination);
    free(sink->text);
}
