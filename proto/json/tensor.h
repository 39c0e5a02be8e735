/* JSON arrays of numbers: direct conversion between text and tensor memory, without a node per
 * number.
 *
 * Reading has two passes. json_tensor_measure() finds the end of the array, its shape and
 * whether all numbers are integers, without conversion; json_tensor_read() converts. Measuring
 * counts brackets and commas, reading checks every byte between them: text that both accept is
 * valid JSON, except for the words below.
 *
 * An element is a JSON number. For float types an element may also be one of the words NaN,
 * Inf and Infinity, in any case, quoted or not, the last two with an optional sign ('+' only
 * in quotes), or null, which is NaN. For int64 and uint64 an element may also be a number in
 * quotes. All dialects accept the same forms.
 *
 * A long text is read in parts: json_tensor_cut() cuts it at element boundaries, and several
 * threads may read the parts to one output. Thread: any. */
#ifndef TALLY_PROTO_JSON_TENSOR_H
#define TALLY_PROTO_JSON_TENSOR_H

#include "proto/json/cells.h"
#include "proto/json/writer.h"
#include "proto/parallel.h"
#include "proto/scan_call.h"
#include "proto/status.h"

/* Result of measuring an array. If the array is ragged, `where` is the first array or element
 * whose size is wrong; `found` and `expected` are equal if its depth is wrong. */
struct json_array {
    struct json_cut cut;       /* the text, brackets included; borrowed */
    int rank;                  /* nesting depth: 1 for a flat array */
    int64_t sizes[LIMIT_RANK]; /* elements per level; if ragged, those of the first array of
                                  each level */
    uint64_t elements;         /* numbers in the array, at any depth */
    bool integers;             /* every element is an integer without a point, a letter or
                                  quotes */
    bool ragged;               /* arrays of one level differ in length or depth */
    char where[112];           /* path of the place below the array: "[1][2]" */
    uint64_t found;            /* number of elements there */
    uint64_t expected;         /* number of elements in the first array at that depth */
};

/* Measure the array whose '[' is text[0]; it must end before text[bytes]. One pass of about
 * 0.1 ns per byte, without memory. A ragged array is not an error here; reading refuses
 * objects and other invalid text.
 * err   INVALID_JSON: no end; INVALID_SHAPE: nested deeper than LIMIT_RANK; CLIENT_GONE:
 *       `parallel` gave up */
MUST_CHECK enum status json_tensor_measure(const char *text, size_t bytes,
                                           const struct parallel *parallel,
                                           struct json_array *array, struct error *err);

/* Return INVALID_SHAPE, with the path below `field`, if the array is ragged. */
MUST_CHECK enum status json_tensor_require_regular(const struct json_array *array,
                                                   const char *field, struct error *err);

/* Return LENGTH_MISMATCH unless the array has least..most elements (UINT64_MAX: no upper
 * limit). `shape`: the shape to name in the message; NULL: none. */
MUST_CHECK enum status json_tensor_require_count(const struct json_array *array,
                                                 const char *field, uint64_t least,
                                                 uint64_t most, const char *shape,
                                                 struct error *err);

/* Return the type of an array whose type is not given, by NumPy's rule: int64 if every number
 * is written as an integer; bool if the first element is true or false; otherwise, or if the
 * array is empty, float64. The magnitude of the numbers does not matter: reading refuses a
 * number that int64 cannot hold. */
enum dtype json_tensor_infer(const struct json_array *array);

/* Options of reading. */
struct json_read {
    enum dtype dtype;
    unsigned types;       /* types that an error may suggest instead (bit i: type i); 0: all */
    const char *field;    /* path of the array for errors: "data" */
    int rank;             /* 0 or 1: flat; else errors name an element by its indices in this
                             shape */
    const int64_t *sizes; /* valid if rank > 1. Borrowed */
    const struct parallel *parallel; /* for long texts; NULL: none. Borrowed */
};

/* A range of an array's text: from a '[' or an element to a ',' or the last ']', inclusive. */
struct json_part {
    const char *text;
    size_t bytes;
    uint64_t first;    /* index of its first element */
    uint64_t elements; /* number of elements in the range */
};

/* The text of an array that is not cut into parts yet. The caller sets the first two
 * members. */
struct json_rest {
    struct json_cut cut;
    uint64_t elements; /* numbers in the array, json_array.elements */
    size_t at;         /* offset of the text that is not cut yet */
    uint64_t first;    /* numbers before this offset */
};

enum {
    JSON_UNCUT = -1
};

/* Cut the next parts, each of `bytes` to twice that, at most `room` of them. Returns their
 * number, 0 at the end of the text. JSON_UNCUT: the text cannot be cut, because an array in it
 * is empty, a string contains a comma, or a range has no comma. Parts returned before may then
 * be wrong, with or without an error of reading; the caller must read the whole text again. */
int json_tensor_cut(struct json_rest *rest, size_t bytes, struct json_part *parts, int room);

/* Convert one part. Element i of the whole array is stored at out + i * its size; no other
 * bytes are written. The parts of one array may be read in any order, by any threads.
 * err   INVALID_DATA; field names the element. CLIENT_GONE: read->parallel gave up */
MUST_CHECK enum status json_tensor_read_part(const struct json_read *read,
                                             const struct json_part *part, void *out,
                                             struct error *err);

/* Convert a whole array of `elements` numbers (json_array.elements), in pieces if it is long
 * and read->parallel is set.
 * err   INVALID_DATA: the first error of the text; CLIENT_GONE: read->parallel gave up */
MUST_CHECK enum status json_tensor_read(const struct json_read *read, struct json_cut cut,
                                        uint64_t elements, void *out, struct error *err);

/* An array to print: elements in C order. */
struct json_print {
    enum dtype dtype;
    const void *data;                /* first element of the whole array, any alignment */
    uint64_t elements;               /* number of elements of the whole array */
    int rank;                        /* 0 or 1: flat array; otherwise nested */
    const int64_t *sizes;            /* valid if rank > 1; their product is `elements`.
                                        Borrowed */
    const struct parallel *parallel; /* for long arrays; NULL: none. Borrowed */
    const struct json_cells
        *cells; /* flat array: the data are the sums of these cells, and `elements` is the
                   number of cells to print; NULL: no gaps. Borrowed */
};

/* Return an upper bound of the bytes that json_tensor_write() needs in a writer, plus `around`
 * bytes of other text; UINT64_MAX if it overflows. */
uint64_t json_tensor_write_max(const struct json_print *print, uint64_t around);

/* Append the whole array as a value, also if it is empty; in pieces if it is long and
 * print->parallel is set. */
void json_tensor_write(const struct json_print *print, struct json_writer *w);

#endif
