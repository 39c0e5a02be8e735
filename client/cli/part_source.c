/* Detection of the tensor, division into boxes, reading of boxes; see part_source.h. */
#include "client/cli/part_source.h"

#include "client/cli/terminal.h"
#include "proto/attribute_words.h"
#include "proto/little_endian.h"
#include "proto/npy_header.h"
#include "proto/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    HINT_TEXT = 256,
    NPY_HEAD_BYTES = LIMIT_NPY_HEADER + 12
};

/* ---- the tensor of the input ---- */

/* Compare the type and shape to the length of the input, and compute an open size from the
 * length of a file. `hint`: a guess at the content of a file, for the refusal; "": none.
 * Returns EXIT_DONE, or EXIT_USAGE after complaining. */
static int check_length(const struct source *source, struct tensor *tensor, const char *hint)
{
    uint64_t known = 1; /* product of all sizes but the open one: first elements, then bytes */
    bool fits = true;
    int open = -1;
    for (int i = 0; i < tensor->shape.count; i++) {
        int64_t size = tensor->shape.numbers[i];
        if (size < 0) {
            open = i;
        } else {
            fits = fits && !__builtin_mul_overflow(known, (uint64_t)size, &known);
        }
    }
    fits = fits && known <= INT64_MAX &&
           !__builtin_mul_overflow(known, tally_dtype_bytes(tensor->dtype), &known) &&
           known <= INT64_MAX;
    if (source->stream) {
        return fits && open <= 0
                   ? EXIT_DONE
                   : complain(EXIT_USAGE, "of a stream only the first size can be open, and "
                                          "the others must be less than 2^63 bytes");
    }
    if (!fits || (open >= 0 && known == 0)) {
        return complain(EXIT_USAGE,
                        fits ? "%s: a size of -1 beside one of 0 can be any"
                             : "%s: its type and shape make more than 2^63 bytes",
                        source->name);
    }
    uint64_t data =
        source->bytes > tensor->data_offset ? source->bytes - tensor->data_offset : 0;
    if (open >= 0 && data % known == 0) {
        tensor->shape.numbers[open] = (int64_t)(data / known);
        return EXIT_DONE;
    }
    if (open < 0 && data == known) {
        return EXIT_DONE;
    }
    if (tensor->data_offset > 0) {
        return complain(EXIT_USAGE,
                        "%s has %" PRIu64 " bytes behind its header, whose type and shape make "
                        "%" PRIu64 ": it was not written whole, or damaged; save it again",
                        source->name, data, known);
    }
    char shape[SHAPE_TEXT] = "";
    text_append_list(shape, sizeof shape, tensor->shape.numbers, tensor->shape.count);
    return complain(EXIT_USAGE,
                    "%s has %" PRIu64 " bytes, and %s of shape %s makes %" PRIu64 "%s%s%s",
                    source->name, data, tally_dtype_name(tensor->dtype), shape, known,
                    open >= 0 ? " or a multiple of it" : "", hint[0] != '\0' ? ": it" : "",
                    hint[0] != '\0' ? hint : ": give another --dtype or --shape");
}

int tensor_of_raw(const struct settings *settings, struct source *source, struct tensor *tensor)
{
    char hint[HINT_TEXT] = "";
    *tensor = (struct tensor){.shape = settings->shape};
    tensor->dtype = (enum tally_dtype)(settings->dtype - 1);
    if (settings_have_strides(settings)) {
        return source->stream ? source_load(source) : EXIT_DONE;
    }
    if (!source->stream) {
        format_hint(source, FORMAT_RAW, hint, sizeof hint);
    }
    return check_length(source, tensor, hint);
}

int tensor_of_npy(struct source *source, struct tensor *tensor)
{
    struct error err = ERROR_INIT;
    struct npy_header head;
    uint64_t need = NPY_PREFIX_BYTES + 2;
    char start[NPY_HEAD_BYTES];
    enum status parsed = STATUS_OK;
    size_t have = 0;
    bool cut = false;
    while (parsed == STATUS_OK && have < need && !cut) {
        STEP(source_start(source, start, need, &have));
        cut = have < need;
        parsed = npy_header_need((struct byte_view){start, have}, &need, &err);
    }
    if (parsed == STATUS_OK) {
        parsed = npy_header_parse((struct byte_view){start, have}, &head, &err);
    }
    if (parsed != STATUS_OK) {
        char hint[HINT_TEXT];
        format_hint(source, FORMAT_NPY, hint, sizeof hint);
        return hint[0] != '\0'
                   ? complain(EXIT_USAGE, "%s is not an NPY file; it%s", source->name, hint)
                   : complain(EXIT_USAGE, "%s cannot be read as an NPY file: %s", source->name,
                              have == 0 ? "it is empty" : err.detail);
    }
    if (head.rank == 0) {
        return complain(EXIT_USAGE,
                        "%s is a single number: there is no axis to sum along; save it as an "
                        "array, x.reshape(1)",
                        source->name);
    }
    *tensor = (struct tensor){.dtype = (enum tally_dtype)head.dtype,
                              .byte_swap = head.byte_swap,
                              .fortran_order = head.fortran_order && head.rank > 1,
                              .shape.count = head.rank,
                              .data_offset = need};
    for (int i = 0; i < head.rank; i++) {
        tensor->shape.numbers[i] = head.sizes[tensor->fortran_order ? head.rank - 1 - i : i];
    }
    return check_length(source, tensor, "");
}

/* Set the shape of the tensor: --shape, which is allowed for a flat array, else the sizes of
 * the nested arrays. Returns EXIT_DONE, or EXIT_USAGE after complaining. */
static int shape_of_json(const struct settings *settings, const struct source *source,
                         const struct json_array *array, struct tensor *tensor)
{
    struct number_list *shape = &tensor->shape;
    uint64_t elements = 1;
    bool fits = true;
    *shape = settings->shape;
    if (shape->count == 0) {
        shape->count = array->rank;
        memcpy(shape->numbers, array->sizes, (size_t)array->rank * sizeof *array->sizes);
    }
    /* Nested arrays show no dimension behind a size of 0; --shape may have such dimensions. */
    const bool whole = shape->count == array->rank ||
                       (shape->count > array->rank && array->sizes[array->rank - 1] == 0);
    const bool same = whole && memcmp(shape->numbers, array->sizes,
                                      (size_t)array->rank * sizeof *array->sizes) == 0;
    if (array->rank > 1 && (!same || settings_have_strides(settings))) {
        return complain(
            EXIT_USAGE, "%s is a nested array, and %s: give a flat array, or leave it out",
            source->name,
            same ? "strides lay out a flat one" : "--shape is another than its own");
    }
    for (int i = 0; i < shape->count; i++) {
        const int64_t size = shape->numbers[i];
        fits =
            fits && size >= 0 && !__builtin_mul_overflow(elements, (uint64_t)size, &elements);
    }
    if (settings->strides.count == 0 && (!fits || elements != array->elements)) {
        return complain(EXIT_USAGE,
                        "%s has %" PRIu64
                        " numbers, expected the product of the sizes of --shape",
                        source->name, array->elements);
    }
    return EXIT_DONE;
}

int tensor_of_json(const struct settings *settings, struct source *source,
                   struct tensor *tensor, bool *flat)
{
    struct error err = ERROR_INIT;
    struct json_array array;
    STEP(format_measure_array(source, strspn(source->memory, " \t\r\n"), &array));
    const enum dtype dtype =
        settings->dtype > 0 ? (enum dtype)(settings->dtype - 1) : json_tensor_infer(&array);
    enum status status = json_tensor_require_regular(&array, "", &err);
    const struct json_read read = {
        .dtype = dtype, .field = "", .rank = array.rank, .sizes = array.sizes};
    const size_t bytes = (size_t)array.elements * dtype_info(dtype)->bytes;
    *tensor = (struct tensor){.dtype = (enum tally_dtype)dtype};
    *flat = array.rank == 1;
    if (status == STATUS_OK) {
        STEP(shape_of_json(settings, source, &array, tensor));
    }
    char *elements = malloc(bytes + 1);
    if (elements == NULL) {
        return complain_no_memory();
    }
    if (status == STATUS_OK) {
        status = json_tensor_read(&read, array.cut, array.elements, elements, &err);
    }
    if (status != STATUS_OK) {
        free(elements);
        return complain(EXIT_USAGE, "%s: %s%s%s", source->name, array.ragged ? "" : err.field,
                        array.ragged ? "" : ": ", err.detail);
    }
    free(source->memory);
    source->memory = elements;
    source->bytes = bytes;
    return EXIT_DONE;
}

int tensor_of_text(const struct settings *settings, bool csv, struct part_source *parts)
{
    struct text_reader *text = &parts->text;
    char hint[HINT_TEXT] = "";
    if (!parts->bytes->stream) {
        format_hint(parts->bytes, FORMAT_CSV, hint, sizeof hint);
    }
    source_as_stream(parts->bytes);
    int status = text_reader_open(text, settings, csv, parts->bytes);
    if (status == EXIT_USAGE && hint[0] != '\0') {
        (void)fprintf(stderr, "  it%s\n", hint);
    }
    parts->is_text = true;
    parts->tensor = (struct tensor){.dtype = text->dtype,
                                    .shape = {.count = text->columns == 1 ? 1 : 2,
                                              .numbers = {-1, (int64_t)text->columns}}};
    return status;
}

/* ---- cutting ---- */

struct cutting cutting_of(const struct tensor *tensor, const struct cutting_terms *terms)
{
    struct cutting cutting = {.outer = 1,
                              .length = 1,
                              .inner = 1,
                              .reverse = terms->reverse,
                              .extra = terms->extra,
                              .element_bytes = tally_dtype_bytes(tensor->dtype)};
    const struct number_list *shape = &tensor->shape;
    for (int i = 0; i < shape->count; i++) {
        uint64_t *size = i < terms->axis    ? &cutting.outer
                         : i == terms->axis ? &cutting.length
                                            : &cutting.inner;
        *size = shape->numbers[i] < 0 || *size == OPEN_SIZE
                    ? OPEN_SIZE
                    : *size * (uint64_t)shape->numbers[i];
    }
    const bool open = cutting.length == OPEN_SIZE;
    const size_t widest = larger_of(cutting.element_bytes, terms->sum_bytes);
    const uint64_t line = larger_of(cutting.inner, 1);
    const uint64_t length = larger_of(open ? OPEN_SIZE : cutting.length + terms->extra, 1);
    uint64_t room = larger_of(terms->part_bytes / widest, 1); /* elements of a part */
    if (terms->whole_lines) {
        room = larger_of(room, length * line);
    }
    if (!open && length <= room / line) { /* a box has whole lines */
        cutting.length_step = larger_of(cutting.length, 1);
        cutting.outer_step = larger_of(smaller_of(room / line / length, cutting.outer), 1);
    } else { /* a box has a range of the axis */
        cutting.length_step = larger_of(room / line, 1);
        cutting.outer_step = 1;
    }
    cutting.chained = open || cutting.length > cutting.length_step;
    return cutting;
}

struct cutting cutting_of_flat(uint64_t elements, size_t element_bytes)
{
    return (struct cutting){.outer = 1,
                            .length = elements,
                            .inner = 1,
                            .outer_step = 1,
                            .length_step = larger_of(elements, 1),
                            .extra =
                                1, /* an empty tensor may have sums: the box is not skipped */
                            .element_bytes = element_bytes};
}

struct cutting cutting_of_sums(const struct cutting *cutting, size_t sum_bytes)
{
    struct cutting sums = *cutting;
    sums.element_bytes = sum_bytes;
    sums.length += sums.length != OPEN_SIZE ? sums.extra : 0;
    return sums;
}

struct box box_of_sums(const struct cutting *cutting, const struct box *box)
{
    struct box sums = *box;
    if (box->first) {
        sums.count += cutting->extra;
    } else if (!cutting->reverse) {
        sums.at += cutting->extra;
    }
    return sums;
}

uint64_t cutting_room(const struct cutting *cutting, size_t sum_bytes)
{
    const uint64_t lines = cutting->outer_step * cutting->inner;
    const uint64_t elements = lines * cutting->length_step;
    return larger_of(elements * cutting->element_bytes,
                     (elements + cutting->extra * lines) * sum_bytes);
}

uint64_t cutting_bytes(const struct cutting *cutting)
{
    bool open = cutting->outer == OPEN_SIZE || cutting->length == OPEN_SIZE;
    return open ? OPEN_SIZE
                : cutting->outer * cutting->length * cutting->inner * cutting->element_bytes;
}

uint64_t box_bytes(const struct cutting *cutting, const struct box *box)
{
    return box->outers * box->count * cutting->inner * cutting->element_bytes;
}

uint64_t box_offset(const struct cutting *cutting, const struct box *box)
{
    const uint64_t lines = cutting->length == OPEN_SIZE ? 0 : box->outer * cutting->length;
    return (lines + box->at) * cutting->inner * cutting->element_bytes;
}

/* ---- reading boxes ---- */

/* Check that every boolean of a box is 0 or 1. The service refuses other bytes, too, but its
 * message would have the index in the part instead of the index in the input. Returns
 * EXIT_DONE, or EXIT_USAGE after complaining. */
static int check_booleans(const struct part_source *parts, const struct box *box,
                          const char *bytes)
{
    const uint64_t count =
        parts->tensor.dtype == TALLY_BOOL ? box_bytes(&parts->cutting, box) : 0;
    for (uint64_t i = 0; i < count; i++) {
        if ((unsigned char)bytes[i] > 1) {
            return complain(EXIT_USAGE, "%s: " WORDS_BOOL, parts->bytes->name,
                            box_offset(&parts->cutting, box) + i, (unsigned char)bytes[i]);
        }
    }
    return EXIT_DONE;
}

int part_source_read(const struct part_source *parts, const struct box *box, char *to)
{
    const uint64_t bytes = box_bytes(&parts->cutting, box);
    STEP(source_read(parts->bytes, parts->tensor.data_offset + box_offset(&parts->cutting, box),
                     to, bytes));
    if (parts->tensor.byte_swap) {
        little_endian_swap(to, bytes, parts->cutting.element_bytes);
    }
    STEP(parts->bytes->memory == NULL ? source_check_unchanged(parts->bytes) : EXIT_DONE);
    return check_booleans(parts, box, to);
}

/* Refuse a stream with bytes behind the tensor. Returns EXIT_DONE or an exit status. */
static int check_end(const struct part_source *parts)
{
    struct source *bytes = parts->bytes;
    int status = source_peek(bytes, 1);
    return status != EXIT_DONE || bytes->bytes == 0
               ? status
               : complain(EXIT_USAGE, "%s has more bytes than its type and shape make",
                          bytes->name);
}

/* Refuse text with more rows than the last offset. `to` has room for a row. Returns EXIT_DONE
 * or an exit status. */
static int check_end_of_text(struct part_source *parts, char *to)
{
    struct text_batch batch = {.most = 1};
    batch.numbers = to;
    STEP(text_reader_read(&parts->text, &batch, -1));
    return batch.count == 0
               ? EXIT_DONE
               : complain(EXIT_USAGE,
                          "the last offset is %" PRIu64 ", expected the number of rows: %s has "
                          "more",
                          parts->cutting.length, parts->bytes->name);
}

/* Convert int64 numbers to float64 in place. */
static void widen_numbers(char *numbers, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        int64_t integer = 0;
        memcpy(&integer, numbers + i * sizeof integer, sizeof integer);
        const double wider = (double)integer;
        memcpy(numbers + i * sizeof wider, &wider, sizeof wider);
    }
}

/* Read the next rows of text to the batch. With offsets, whose last one is the number of rows,
 * all rows are read to one batch and must have one type: if a row needs float64, the integers
 * before it are converted. Returns EXIT_DONE or an exit status. */
static int read_rows(struct part_source *parts, struct text_batch *batch)
{
    const uint64_t columns = parts->text.columns;
    const size_t row_bytes = columns * parts->cutting.element_bytes;
    if (cutting_bytes(&parts->cutting) == OPEN_SIZE) {
        return text_reader_read(&parts->text, batch, parts->gather_ms);
    }
    batch->most = parts->cutting.length;
    struct text_batch next = *batch;
    do {
        next.numbers = batch->numbers + batch->count * row_bytes;
        next.most = batch->most - batch->count;
        STEP(text_reader_read(&parts->text, &next, -1));
        if (next.count > 0 && next.dtype != batch->dtype) {
            widen_numbers(batch->numbers, batch->count * columns);
            batch->dtype = next.dtype;
        }
        batch->count += next.count;
    } while (next.count > 0 && batch->count < batch->most);
    return batch->count == batch->most
               ? EXIT_DONE
               : complain(EXIT_USAGE,
                          "the last offset is %" PRIu64 ", expected the number of rows: %s has "
                          "%" PRIu64,
                          batch->most, parts->bytes->name, batch->count);
}

/* Read at most `most` units of a stream, and store their number in *units. A unit is the
 * elements of all columns at one index of the axis for chained boxes, else the lines of one
 * outer index. */
static int read_stream(struct part_source *parts, char *to, uint64_t most, uint64_t unit_bytes,
                       struct text_batch *batch, uint64_t *units)
{
    size_t taken = 0;
    if (parts->is_text) {
        batch->most = most;
        STEP(read_rows(parts, batch));
        taken = batch->count * parts->text.columns * parts->cutting.element_bytes;
    } else {
        STEP(source_read_next(parts->bytes, to, most * unit_bytes, unit_bytes, parts->gather_ms,
                              &taken));
    }
    const bool open = cutting_bytes(&parts->cutting) == OPEN_SIZE;
    *units = taken / unit_bytes;
    if (taken % unit_bytes != 0 || (*units < most && parts->bytes->ended && !open)) {
        return complain(EXIT_USAGE, "%s ended in the middle of %s", parts->bytes->name,
                        open ? "a line" : "the tensor");
    }
    if (parts->tensor.byte_swap) {
        little_endian_swap(to, taken, parts->cutting.element_bytes);
    }
    return EXIT_DONE;
}

/* Advance parts->next by a box of `units` units (read_stream()). */
static void advance(struct part_source *parts, uint64_t units)
{
    struct box *next = &parts->next;
    if (!parts->cutting.chained) {
        next->outer += units;
        return;
    }
    next->at += units;
    if (next->at == parts->cutting.length) {
        next->at = 0;
        next->outer++;
    }
}

int part_source_read_next(struct part_source *parts, struct box *box, char *to,
                          struct kept_lines *kept, enum tally_dtype *dtype)
{
    const struct cutting *cutting = &parts->cutting;
    const struct box next = parts->next;
    const bool chained = cutting->chained;
    const uint64_t unit_bytes =
        (chained ? 1 : cutting->length) * cutting->inner * cutting->element_bytes;
    const uint64_t most = chained
                              ? smaller_of(cutting->length_step, cutting->length - next.at)
                              : smaller_of(cutting->outer_step, cutting->outer - next.outer);
    /* With --include-initial, lines without elements have a sum: such boxes are not skipped. */
    const bool empty_lines = unit_bytes == 0 && cutting->extra > 0 && cutting->inner > 0 &&
                             cutting->outer != OPEN_SIZE;
    const bool over = next.outer == cutting->outer || most == 0;
    uint64_t units = 0;
    struct text_batch batch = {.numbers = to, .kept = kept, .dtype = parts->tensor.dtype};
    *box = (struct box){.outer = next.outer, .at = next.at, .first = next.at == 0};
    if (over || (unit_bytes == 0 && !empty_lines)) {
        return !parts->bytes->stream ? EXIT_DONE
               : parts->is_text      ? check_end_of_text(parts, to)
                                     : check_end(parts);
    }
    if (parts->bytes->stream && !empty_lines) {
        STEP(read_stream(parts, to, most, unit_bytes, &batch, &units));
    } else {
        units = most;
    }
    box->outers = chained ? (units > 0) : units;
    box->count = chained ? units : cutting->length;
    if (units == 0 && cutting->extra > 0 && cutting->length == OPEN_SIZE && next.at == 0 &&
        !parts->ended) { /* the stream is empty, but its lines have a sum */
        box->outers = 1;
        parts->ended = true;
    }
    if (chained && cutting->reverse) { /* count from the end of the axis */
        box->at = cutting->length - box->at - box->count;
    }
    *dtype = batch.dtype;
    advance(parts, units);
    return parts->bytes->stream ? check_booleans(parts, box, to)
                                : part_source_read(parts, box, to);
}
