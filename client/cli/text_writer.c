/* Text is collected in a buffer. The buffer is written when it is full and at the end of each
 * call, so the reader of a stream gets complete lines. */
#include "client/cli/text_writer.h"

#include "client/cli/terminal.h"
#include "proto/json/number_text.h"

#include <stdlib.h>
#include <string.h>

enum {
    TEXT_BYTES = 1 << 18,
    BRACKETS_MOST = 2 * TALLY_MAX_RANK
};

static int flush_text(struct text_writer *writer)
{
    if (interrupted()) { /* an empty tensor may have any number of brackets */
        return complain(EXIT_INTERRUPTED, "interrupted");
    }
    STEP(destination_write(writer->destination, writer->written, writer->text, writer->used));
    writer->written += writer->used;
    writer->used = 0;
    return EXIT_DONE;
}

static int put_bytes(struct text_writer *writer, const char *bytes, size_t count)
{
    while (count > 0) {
        const size_t some = smaller_of(count, TEXT_BYTES - writer->used);
        memcpy(writer->text + writer->used, bytes, some);
        writer->used += some;
        bytes += some;
        count -= some;
        STEP(writer->used == TEXT_BYTES ? flush_text(writer) : EXIT_DONE);
    }
    return EXIT_DONE;
}

static int put_byte(struct text_writer *writer, char byte)
{
    return put_bytes(writer, &byte, 1);
}

/* Ensure that the buffer has room for a number and its brackets. */
static int reserve_number(struct text_writer *writer)
{
    return writer->used > TEXT_BYTES - NUMBER_ROOM - BRACKETS_MOST ? flush_text(writer)
                                                                   : EXIT_DONE;
}

/* Append a number; reserve_number() was called. */
static void print_number(struct text_writer *writer, enum tally_dtype dtype, const char *from)
{
    char *at = writer->text + writer->used;
    char *end = number_print((enum dtype)dtype, from, at);
    if (!writer->json && *at == '"') {
        memmove(at, at + 1, (size_t)(end - at));
        end -= 2;
    }
    if (!writer->json && writer->dialect.decimal != '.') {
        char *point = memchr(at, '.', (size_t)(end - at));
        if (point != NULL) {
            *point = writer->dialect.decimal;
        }
    }
    writer->used += (size_t)(end - at);
}

/* ---- JSON ---- */

/* Return the number of arrays that begin at element `index`; the same number of arrays ends
 * before that element. The array of an open size ends in text_writer_finish(). */
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

static void put_brackets(struct text_writer *writer, char bracket)
{
    const int count = count_brackets(&writer->nest, writer->printed);
    memset(writer->text + writer->used, bracket, (size_t)count);
    writer->used += (size_t)count;
}

/* Print the next `count` sums; sums NULL: empty arrays of a tensor without elements. */
static int add_json(struct text_writer *writer, enum tally_dtype dtype, const char *sums,
                    uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        STEP(reserve_number(writer));
        if (writer->printed > 0) {
            writer->text[writer->used++] = ',';
        }
        put_brackets(writer, '[');
        if (sums == NULL) {
            (void)stpcpy(writer->text + writer->used, "[]");
            writer->used += 2;
        } else {
            print_number(writer, dtype, sums + i * tally_dtype_bytes(dtype));
        }
        writer->printed++;
        put_brackets(writer, ']');
    }
    return flush_text(writer);
}

/* ---- text and CSV ---- */

/* Write a field of the input unchanged; in quotes if the field has the delimiter of the
 * result. */
static int put_field(struct text_writer *writer, const struct field *field)
{
    const char delimiter = writer->dialect.delimiter;
    const bool plain = field->quoted || memchr(field->at, delimiter, field->count) == NULL;
    STEP(plain ? EXIT_DONE : put_byte(writer, '"'));
    STEP(put_bytes(writer, field->at, field->count));
    return plain ? EXIT_DONE : put_byte(writer, '"');
}

/* Write a line of the input, in which the next sums replace the chosen fields. sums NULL: no
 * field is replaced. The other fields keep their blanks if the result has the delimiter of the
 * input. */
static int put_line(struct text_writer *writer, const char *line, enum tally_dtype dtype,
                    const char **sums)
{
    const char delimiter = writer->dialect.delimiter;
    const bool same = delimiter == writer->from->delimiter && delimiter != ' ';
    struct field_cursor cursor = {line, line + strlen(line), false};
    struct field field;
    const char *start = line;
    for (uint64_t i = 0; field_next(writer->from, &cursor, &field); i++, start = cursor.at) {
        STEP(i > 0 ? put_byte(writer, delimiter) : EXIT_DONE);
        if (sums == NULL || !writer->chosen[i]) {
            STEP(same ? put_bytes(writer, start, (size_t)(cursor.at - cursor.due - start))
                      : put_field(writer, &field));
            continue;
        }
        STEP(reserve_number(writer));
        print_number(writer, dtype, *sums);
        *sums += tally_dtype_bytes(dtype);
    }
    return put_byte(writer, '\n');
}

static int add_rows(struct text_writer *writer, enum tally_dtype dtype, const char *sums,
                    uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        STEP(reserve_number(writer));
        print_number(writer, dtype, sums + i * tally_dtype_bytes(dtype));
        const bool last = ++writer->printed % writer->row_length == 0;
        writer->text[writer->used++] = (char)(last ? '\n' : writer->dialect.delimiter);
    }
    return flush_text(writer);
}

/* ---- a writer's life ---- */

struct dialect dialect_of_result(const struct settings *settings, enum format format,
                                 const struct dialect *input)
{
    struct dialect dialect = {' ', settings_decimal(settings)};
    if (settings->delimiter != NULL) {
        dialect.delimiter = settings->delimiter[0];
    } else if (input != NULL && input->delimiter != '\0') {
        dialect.delimiter = input->delimiter;
    } else if (format == FORMAT_CSV) {
        dialect.delimiter = (char)(dialect.decimal == ',' ? ';' : ',');
    }
    return dialect;
}

int text_writer_open(struct text_writer *writer, enum format format,
                     const struct number_list *shape, const struct dialect *dialect,
                     struct destination *destination)
{
    *writer = (struct text_writer){.destination = destination,
                                   .json = format == FORMAT_JSON,
                                   .dialect = *dialect,
                                   .nest = *shape,
                                   .open = shape->numbers[0] < 0,
                                   .text = malloc(TEXT_BYTES)};
    for (int i = shape->count - 1; i >= 0; i--) {
        writer->nest.count = shape->numbers[i] == 0 ? i : writer->nest.count;
    }
    writer->row_length = shape->count == 1 ? 1 : (uint64_t)shape->numbers[shape->count - 1];
    return writer->text != NULL ? EXIT_DONE : complain_no_memory();
}

void text_writer_close(struct text_writer *writer)
{
    free(writer->text);
}

int text_writer_header(struct text_writer *writer, const char *header)
{
    return put_line(writer, header, TALLY_INT64, NULL);
}

int text_writer_add(struct text_writer *writer, enum tally_dtype dtype, const char *sums,
                    uint64_t count)
{
    return writer->json ? add_json(writer, dtype, sums, count)
                        : add_rows(writer, dtype, sums, count);
}

int text_writer_replace(struct text_writer *writer, const char *lines, enum tally_dtype dtype,
                        const char *sums, uint64_t rows)
{
    for (uint64_t i = 0; i < rows; i++) {
        STEP(put_line(writer, lines, dtype, &sums));
        lines += strlen(lines) + 1;
    }
    return flush_text(writer);
}

int text_writer_finish(struct text_writer *writer)
{
    if (writer->json && writer->open) {
        const char *end = writer->printed == 0 ? "[]\n" : "]\n";
        STEP(put_bytes(writer, end, strlen(end)));
    } else if (writer->json) {
        uint64_t count = 1;
        for (int i = 0; i < writer->nest.count; i++) {
            count *= (uint64_t)writer->nest.numbers[i];
        }
        STEP(writer->printed == 0 ? add_json(writer, TALLY_INT64, NULL, count) : EXIT_DONE);
        STEP(put_byte(writer, '\n'));
    }
    return flush_text(writer);
}
