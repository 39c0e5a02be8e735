/* Detects the tensor in the input, cuts the tensor into boxes, and reads boxes; see
 * part_source.h. */
#include "client/cli/part_source.h"

#include "client/cli/terminal.h"
#include "proto/attribute_words.h"
#include "proto/little_endian.h"
#include "proto/npy_header.h"
#include "proto/text.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum {
    HINT_TEXT = 256,
    NPY_HEAD_BYTES = LIMIT_NPY_HEADER + 12,
    LEAST_LENGTH =
        64 /* elements along the axis of a part, so that the carry (a sum a line) is small */
};

/* ---- the tensor of the input ---- */

/* Check the type and shape against the length of the input, and compute an open size from the
 * length of a file. `hint` is appended to the refusal of a file; "": no hint. Returns
 * EXIT_DONE, or EXIT_USAGE after complaining. */
static int check_length(const struct source *source, struct tensor *tensor, const char *hint)
{
    uint64_t known = 1; /* product of the sizes that are not open: elements, then bytes */
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
    /* The option table admits known types only. */
    (void)tally_dtype_find(settings->dtype, &tensor->dtype);
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

static uint64_t parts_of(uint64_t size, uint64_t step)
{
    assert(step > 0);
    return size / step + (size % step != 0);
}

struct cutting cutting_of(const struct tensor *tensor, const struct cutting_terms *terms)
{
    const int64_t axis = terms->axis;
    struct cutting cutting = {.outer = 1,
                              .length = 1,
                              .inner = 1,
                              .reverse = terms->reverse,
                              .extra = terms->extra,
                              .element_bytes = tally_dtype_bytes(tensor->dtype)};
    const struct number_list *shape = &tensor->shape;
    for (int i = 0; i < shape->count; i++) {
        uint64_t *size = i < axis    ? &cutting.outer
                         : i == axis ? &cutting.length
                                     : &cutting.inner;
        *size = shape->numbers[i] < 0 ? OPEN_SIZE : *size * (uint64_t)shape->numbers[i];
    }
    const uint64_t extra = terms->extra;
    const bool open = cutting.length == OPEN_SIZE;
    const size_t widest = larger_of(cutting.element_bytes, terms->sum_bytes);
    uint64_t room = larger_of(terms->part_bytes / widest, 1); /* elements of a part */
    uint64_t line = larger_of(cutting.inner, 1);
    uint64_t length = larger_of(open ? OPEN_SIZE : cutting.length + extra, 1); /* of sums */
    if (terms->whole_lines) {
        room = larger_of(room, length * line);
    }
    uint64_t least = smaller_of(length, LEAST_LENGTH);
    cutting.outer_step = 1;
    cutting.inner_step = line;
    if (!open && length <= room / line) { /* whole lines */
        cutting.length_step = larger_of(cutting.length, 1);
        cutting.outer_step = larger_of(smaller_of(room / (length * line), cutting.outer), 1);
    } else if (!terms->in_order && room / line < least) { /* some columns */
        cutting.inner_step = larger_of(room / least, 1);
        cutting.length_step =
            larger_of(smaller_of(room / cutting.inner_step, cutting.length), 1);
    } else { /* a stretch of the axis */
        cutting.length_step = larger_of(room / line, 1);
    }
    cutting.lanes = parts_of(cutting.outer, cutting.outer_step) *
                    parts_of(cutting.inner, cutting.inner_step);
    cutting.steps = parts_of(cutting.length, cutting.length_step);
    if (extra > 0 && cutting.steps == 0) { /* lines without elements have a sum, too */
        cutting.steps = 1;
    }
    return cutting;
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
    const bool first =
        cutting->reverse ? box->at + box->count == cutting->length : box->at == 0;
    if (first) {
        sums.count += cutting->extra;
    } else if (!cutting->reverse) {
        sums.at += cutting->extra;
    }
    return sums;
}

uint64_t cutting_room(const struct cutting *cutting, size_t sum_bytes)
{
    const uint64_t lines = cutting->outer_step * cutting->inner_step;
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

struct box cutting_box(const struct cutting *cutting, uint64_t lane, uint64_t step)
{
    uint64_t blocks = parts_of(cutting->inner, cutting->inner_step);
    struct box box = {.outer = lane / blocks * cutting->outer_step,
                      .at = step * cutting->length_step,
                      .column = lane % blocks * cutting->inner_step};
    box.outers = smaller_of(cutting->outer_step, cutting->outer - box.outer);
    box.count = smaller_of(cutting->length_step, cutting->length - box.at);
    box.columns = smaller_of(cutting->inner_step, cutting->inner - box.column);
    if (cutting->reverse) { /* the last part of the axis is summed first */
        box.at = cutting->length - box.at - box.count;
    }
    return box;
}

uint64_t box_bytes(const struct cutting *cutting, const struct box *box)
{
    return box->outers * box->count * box->columns * cutting->element_bytes;
}

uint64_t box_runs(const struct cutting *cutting, const struct box *box, uint64_t *run_bytes)
{
    bool together =
        box->columns == cutting->inner && (box->outers == 1 || box->count == cutting->length);
    uint64_t runs = together ? 1 : box->outers * box->count;
    *run_bytes = runs == 0 ? 0 : box_bytes(cutting, box) / runs;
    return runs;
}

uint64_t box_run_offset(const struct cutting *cutting, const struct box *box, uint64_t i)
{
    uint64_t outer = box->outer;
    uint64_t at = box->at;
    if (i > 0) {
        outer += i / box->count;
        at += i % box->count;
    }
    uint64_t before = cutting->length == OPEN_SIZE ? at : outer * cutting->length + at;
    return (before * cutting->inner + box->column) * cutting->element_bytes;
}

/* ---- reading boxes ---- */

/* Check that every boolean of a box is 0 or 1: the service refuses other bytes, and would count the
 * elements of the part. Returns EXIT_DONE, or EXIT_USAGE after complaining. */
static int check_booleans(const struct part_source *parts, const struct box *box,
                          const char *bytes)
{
    const struct cutting *cutting = &parts->cutting;
    uint64_t run_bytes = 0;
    const uint64_t runs = box_runs(cutting, box, &run_bytes);
    unsigned char found = 0;
    if (parts->tensor.dtype != TALLY_BOOL) {
        return EXIT_DONE;
    }
    for (uint64_t i = 0; i < runs * run_bytes; i++) {
        found |= (unsigned char)bytes[i];
    }
    for (uint64_t i = 0; found > 1 && i < runs * run_bytes; i++) {
        if ((unsigned char)bytes[i] > 1) {
            const uint64_t at = box_run_offset(cutting, box, i / run_bytes) + i % run_bytes;
            return complain(EXIT_USAGE, "%s: " WORDS_BOOL, parts->bytes->name, at,
                            (unsigned char)bytes[i]);
        }
    }
    return EXIT_DONE;
}

int part_source_read(const struct part_source *parts, const struct box *box, char *to)
{
    uint64_t run_bytes = 0;
    uint64_t runs = box_runs(&parts->cutting, box, &run_bytes);
    for (uint64_t i = 0; i < runs; i++) {
        uint64_t offset = parts->tensor.data_offset + box_run_offset(&parts->cutting, box, i);
        STEP(source_read(parts->bytes, offset, to + i * run_bytes, run_bytes));
    }
    if (parts->tensor.byte_swap) {
        little_endian_swap(to, runs * run_bytes, parts->cutting.element_bytes);
    }
    STEP(source_check_unchanged(parts->bytes));
    return check_booleans(parts, box, to);
}

/* Check that the stream has no bytes after the tensor. Returns EXIT_DONE or an exit status. */
static int check_end(const struct part_source *parts)
{
    struct source *bytes = parts->bytes;
    int status = source_peek(bytes, 1);
    return status != EXIT_DONE || bytes->bytes == 0
               ? status
               : complain(EXIT_USAGE, "%s has more bytes than its type and shape make",
                          bytes->name);
}

/* Check that text has no more rows than the last offset demands. `to` has room for a row. Returns
 * EXIT_DONE or an exit status. */
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

/* Read the next rows of text to the batch. If offsets gave the number of rows, the batch gets all rows.
 * Offsets apply to the whole axis, so all rows must then have one type: the first row that needs
 * float64 makes the integers before the row float64, too. Returns EXIT_DONE or an exit status. */
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

int part_source_read_next(struct part_source *parts, struct box *box, char *to,
                          struct kept_lines *kept, enum tally_dtype *dtype)
{
    const struct cutting *cutting = &parts->cutting;
    struct box *next = &parts->next;
    size_t taken = 0;
    bool chain = cutting->steps > 1;
    /* If `chain`, a box is a stretch of the axis at one outer index, else a range of outer
     * indices. `unit`: bytes of one step along the axis, or of one outer index. */
    uint64_t unit =
        (chain ? cutting->inner : cutting->length * cutting->inner) * cutting->element_bytes;
    uint64_t left = chain ? cutting->length - next->at : cutting->outer - next->outer;
    uint64_t most = smaller_of(chain ? cutting->length_step : cutting->outer_step, left);
    *box = *next;
    box->outers = 0;
    box->columns = cutting->inner;
    if (cutting->extra > 0 && cutting->length == 0 && cutting->inner > 0 &&
        cutting->outer != OPEN_SIZE && left > 0) { /* lines without elements */
        box->outers = most;
        box->count = 0;
        next->outer += most;
        return EXIT_DONE;
    }
    if (most == 0 || unit == 0 || next->outer == cutting->outer) {
        return parts->is_text ? check_end_of_text(parts, to) : check_end(parts);
    }
    struct text_batch batch = {
        .numbers = to, .most = most, .kept = kept, .dtype = parts->tensor.dtype};
    STEP(parts->is_text
             ? read_rows(parts, &batch)
             : source_read_next(parts->bytes, to, most * unit, unit, parts->gather_ms, &taken));
    taken += batch.count * parts->text.columns * cutting->element_bytes;
    *dtype = batch.dtype;
    bool open = cutting_bytes(cutting) == OPEN_SIZE;
    if (taken % unit != 0 || (taken < most * unit && parts->bytes->ended && !open)) {
        return complain(EXIT_USAGE, "%s ended in the middle of %s", parts->bytes->name,
                        open ? "a line" : "the tensor");
    }
    uint64_t units = taken / unit;
    box->outers = chain ? (units > 0) : units;
    box->count = chain ? units : cutting->length;
    if (units == 0 && cutting->extra > 0 && cutting->length == OPEN_SIZE && next->at == 0 &&
        !parts->ended) { /* the stream has no elements, but its lines have a sum */
        box->outers = 1;
        parts->ended = true;
    }
    if (chain) {
        next->at += units;
    } else {
        next->outer += units;
    }
    if (chain && next->at == cutting->length) {
        next->at = 0;
        next->outer++;
    }
    if (parts->tensor.byte_swap) {
        little_endian_swap(to, taken, cutting->element_bytes);
    }
    return check_booleans(parts, box, to);
}
