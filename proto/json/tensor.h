/* JSON arrays of numbers, straight from text to tensor memory and back: no node per number.
 *
 * Reading takes two passes. json_tensor_measure() finds the end of the array, its shape and
 * what its numbers look like without converting any; json_tensor_read() converts. Measuring
 * counts brackets and commas, reading checks every byte between them: what both accept is valid
 * JSON, but for the words below.
 *
 * An element is a JSON number. Elements of float types are also the words NaN, Inf and Infinity, in
 * any case, in quotes or bare, the last two with a sign ('+' in quotes only), and null, which is
 * NaN. Elements of int64 and uint64 are also numbers in quotes. All dialects read the same forms.
 *
 * A long text is read in parts: json_tensor_cut() cuts it at element boundaries, and the parts may
 * be read in parallel to one output. Thread: any. */
#ifndef TALLY_PROTO_JSON_TENSOR_H
#define TALLY_PROTO_JSON_TENSOR_H

#include "proto/json/cells.h"
#include "proto/json/writer.h"
#include "proto/parallel.h"
#include "proto/scan_call.h"
#include "proto/status.h"

/* What one pass over an array finds. Of a ragged one `where` is the first offender; it differs
 * in depth if `found` and `expected` are equal, else in length. */
struct json_array {
    struct json_cut cut;       /* the text, brackets included; borrowed */
    int rank;                  /* nesting: 1 for a flat array */
    int64_t sizes[LIMIT_RANK]; /* elements per level; of the first of each level if ragged */
    uint64_t elements;         /* numbers in it, at any depth */
    bool integers;             /* every element is written as an integer: no point, no letter,
                                * no string */
    bool ragged;               /* siblings differ in length or depth */
    char where[112];           /* its path below the array: "[1][2]" */
    uint64_t found;            /* its elements */
    uint64_t expected;         /* and those of its elder siblings */
};

/* Measure the array whose '[' is text[0]; it must end before text[bytes]. One pass of about
 * 0.1 ns per byte, no memory. Raggedness is no error yet, and an object or another odd thing is
 * left for reading to find.
 * err   INVALID_JSON: no end; INVALID_SHAPE: nested deeper than LIMIT_RANK;
 *       CLIENT_GONE: given up by `parallel` */
MUST_CHECK enum status json_tensor_measure(const char *text, size_t bytes,
                                           const struct parallel *parallel,
                                           struct json_array *array, struct error *err);

/* INVALID_SHAPE, naming the place under `field`, if the array is ragged. */
MUST_CHECK enum status json_tensor_require_regular(const struct json_array *array,
                                                   const char *field, struct error *err);

/* LENGTH_MISMATCH unless the array has least..most elements (UINT64_MAX: any more). `shape`: of
 * which it should be, for the message; NULL: of none. */
MUST_CHECK enum status json_tensor_require_count(const struct json_array *array,
                                                 const char *field, uint64_t least,
                                                 uint64_t most, const char *shape,
                                                 struct error *err);

/* The type of an array that names none, by NumPy's rule: int64 if every number is written as an
 * integer, bool if the first element is true or false, else (or without any number) float64. The
 * size of the numbers does not matter: what int64 cannot hold is an error of reading. */
enum dtype json_tensor_infer(const struct json_array *array);

/* What is to be read, and how. */
struct json_read {
    enum dtype dtype;
    unsigned types;       /* bit i: the array could be of type i instead, for errors; 0: any */
    const char *field;    /* path of the array, for errors: "data" */
    int rank;             /* 0 or 1: flat; else errors name an element's place in this shape */
    const int64_t *sizes; /* of rank > 1. Borrowed */
    const struct parallel *parallel; /* for long texts; NULL: none. Borrowed */
};

/* A stretch of an array's text: from a '[' or an element up to a ',' or the last ']', which
 * belongs to it. */
struct json_part {
    const char *text;
    size_t bytes;
    uint64_t first;    /* number of its first element */
    uint64_t elements; /* in it */
};

/* What of an array's text is still to be cut into parts. Begins with the first two members. */
struct json_rest {
    struct json_cut cut;
    uint64_t elements; /* numbers in it, json_array.elements */
    size_t at;         /* the text before this place is in parts */
    uint64_t first;    /* and so many numbers */
};

enum {
    JSON_UNCUT = -1
};

/* Cut the next parts off, of `bytes` to twice that, at most `room` of them. Returns how many
 * there are, 0 at the end of the text. JSON_UNCUT: it cannot be cut, because an array in it is
 * empty, a comma stands in a string, or no comma for long; parts cut off before may be wrong,
 * which reading them shows or does not: the whole is to be read again. */
int json_tensor_cut(struct json_rest *rest, size_t bytes, struct json_part *parts, int room);

/* Convert one part; element i of the whole array goes to out + i * its size, nothing else is
 * touched. The parts of one array may be read in any order, by any threads.
 * err   INVALID_DATA; field names the element. CLIENT_GONE: read->parallel gave up */
MUST_CHECK enum status json_tensor_read_part(const struct json_read *read,
                                             const struct json_part *part, void *out,
                                             struct error *err);

/* Convert a whole array of `elements` numbers (json_array.elements), in pieces if it is long
 * and read->parallel is there.
 * err   INVALID_DATA: the first error of the text; CLIENT_GONE: read->parallel gave up */
MUST_CHECK enum status json_tensor_read(const struct json_read *read, struct json_cut cut,
                                        uint64_t elements, void *out, struct error *err);

/* What is to be printed: elements in C order. */
struct json_print {
    enum dtype dtype;
    const void *data;                /* the first element of the whole, any alignment */
    uint64_t elements;               /* of the whole */
    int rank;                        /* 0 or 1: one flat array; else nested */
    const int64_t *sizes;            /* of rank > 1; their product is `elements`. Borrowed */
    const struct parallel *parallel; /* for long arrays; NULL: none. Borrowed */
    const struct json_cells
        *cells; /* flat: the elements are those sums, and `elements` says how
                                      * many cells are printed; NULL: no zeros. Borrowed */
};

/* Most bytes that json_tensor_write() asks a writer for, and `around` bytes of other text;
 * UINT64_MAX if that overflows. */
uint64_t json_tensor_write_max(const struct json_print *print, uint64_t around);

/* Append the whole array as a value, empty ones too; in pieces if it is long and
 * print->parallel is there. */
void json_tensor_write(const struct json_print *print, struct json_writer *w);

#endif
