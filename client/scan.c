/* Names of element types, and checks of a scan. The client checks what determines the sizes of
 * the buffers; the server checks the rest. Attributes that cannot be combined are refused with
 * the sentences of the server (proto/attribute_words.h). */
#include "client/scan.h"

#include "proto/attribute_words.h"
#include "proto/dtype.h"
#include "proto/limits.h"
#include "proto/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

_Static_assert((int)TALLY_FLOAT16 == (int)DTYPE_F16 && (int)TALLY_BFLOAT16 == (int)DTYPE_BF16 &&
                   (int)TALLY_FLOAT32 == (int)DTYPE_F32 && (int)TALLY_FLOAT64 == (int)DTYPE_F64,
               "the library's floating types are the protocol's");
_Static_assert((int)TALLY_INT8 == (int)DTYPE_I8 && (int)TALLY_INT64 == (int)DTYPE_I64 &&
                   (int)TALLY_UINT8 == (int)DTYPE_U8 && (int)TALLY_UINT64 == (int)DTYPE_U64,
               "the library's integer types are the protocol's");
_Static_assert((int)TALLY_BOOL == (int)DTYPE_BOOL, "the library's bool is the protocol's");
_Static_assert((int)TALLY_MAX_RANK == (int)LIMIT_RANK, "the library's rank is the protocol's");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "buffers are sent as they are");

const char *tally_dtype_name(enum tally_dtype dtype)
{
    return (unsigned)dtype <= DTYPE_BOOL ? dtype_info((enum dtype)dtype)->name : NULL;
}

size_t tally_dtype_bytes(enum tally_dtype dtype)
{
    return (unsigned)dtype <= DTYPE_BOOL ? dtype_info((enum dtype)dtype)->bytes : 0;
}

int tally_dtype_find(const char *name, enum tally_dtype *dtype)
{
    enum dtype found = DTYPE_COUNT;
    if (name == NULL || !dtype_find(DTYPE_FAMILY_NAME, name, strlen(name), &found)) {
        return -1;
    }
    *dtype = (enum tally_dtype)found;
    return 0;
}

/* ---- the descriptor ---- */

const char *const SCAN_NAN_NAMES[] = {
    [TALLY_NAN_PROPAGATE] = "propagate", [TALLY_NAN_ZERO] = "zero", [TALLY_NAN_SKIP] = "skip"};

/* Return the size of the axis in the output minus its size in the input. */
static uint64_t extra_sums(const struct tally_scan *scan)
{
    return scan->include_initial == 0 ? 0 : scan->offsets == NULL ? 1 : scan->offset_count - 1;
}

void scan_output_sizes(const struct tally_scan *scan, int64_t sizes[TALLY_MAX_RANK])
{
    memcpy(sizes, scan->sizes, (size_t)scan->rank * sizeof *sizes);
    sizes[scan_axis(scan)] += (int64_t)extra_sums(scan);
}

/* Type and layout of the input or the output of a scan. */
struct layout {
    const char *what; /* "input " or "output ", for messages */
    const int64_t *sizes;
    const int64_t *strides; /* NULL: contiguous */
    int32_t rank;
    enum tally_dtype dtype;
};

/* Compute the bytes from the first to the last element of a layout. */
static enum tally_status layout_bytes(const struct layout *layout, uint64_t *bytes,
                                      struct tally_error *err)
{
    uint64_t elements = 1;
    bool empty = false;
    bool overflow = false;
    const int64_t *strides = layout->strides;
    for (int i = 0; i < layout->rank; i++) {
        uint64_t size = (uint64_t)layout->sizes[i];
        uint64_t reach = 0;
        if (strides != NULL && strides[i] < 0) {
            return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                    "%sstrides[%d] is %" PRId64 "; strides are in elements and "
                                    "not negative",
                                    layout->what, i, strides[i]);
        }
        empty = empty || size == 0;
        if (size == 0) {
            continue;
        }
        if (strides == NULL) {
            overflow |= __builtin_mul_overflow(elements, size, &elements);
        } else {
            overflow |= __builtin_mul_overflow(size - 1, (uint64_t)strides[i], &reach) ||
                        __builtin_add_overflow(elements, reach, &elements);
        }
    }
    uint64_t total = 0;
    overflow |= __builtin_mul_overflow(elements, tally_dtype_bytes(layout->dtype), &total);
    overflow |= total > INT64_MAX;
    if (overflow && !empty) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                "the %sbuffer would be larger than 2^63 bytes", layout->what);
    }
    *bytes = empty ? 0 : total;
    return TALLY_OK;
}

static enum tally_status check_geometry(const struct tally_scan *scan, struct tally_error *err)
{
    if (scan->rank < 1 || scan->rank > TALLY_MAX_RANK || scan->sizes == NULL) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                "rank is %d with%s sizes; expected 1 to %d dimensions",
                                scan->rank, scan->sizes == NULL ? "out" : "", TALLY_MAX_RANK);
    }
    for (int i = 0; i < scan->rank; i++) {
        if (scan->sizes[i] < 0) {
            return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                    "sizes[%d] is negative: %" PRId64, i, scan->sizes[i]);
        }
    }
    if (scan->axis < -scan->rank || scan->axis >= scan->rank) {
        return client_error_set(
            err, TALLY_INVALID_ARGUMENT,
            "axis %" PRId64 " of a tensor with %d dimension%s: expected %d to %d", scan->axis,
            scan->rank, scan->rank == 1 ? "" : "s", -scan->rank, scan->rank - 1);
    }
    const int64_t size = scan->sizes[scan_axis(scan)];
    int64_t sums = 0;
    if (__builtin_add_overflow(size, extra_sums(scan), &sums)) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                "the axis has %" PRId64
                                " elements, and include_initial makes %" PRIu64
                                " more: expected at most 2^63 - 1 together",
                                size, extra_sums(scan));
    }
    return TALLY_OK;
}

enum tally_status scan_refuse_offsets(const struct tally_scan *scan, struct tally_error *err)
{
    if (scan->offsets == NULL) {
        return TALLY_OK;
    }
    return client_error_blame(err, "offsets", WORDS_OFFSETS_PART);
}

/* Check that offsets and offset_count are both given or both absent. */
static enum tally_status check_offset_count(const struct tally_scan *scan,
                                            struct tally_error *err)
{
    if ((scan->offsets == NULL) == (scan->offset_count == 0)) {
        return TALLY_OK;
    }
    return scan->offsets != NULL
               ? client_error_blame(err, "offsets", WORDS_OFFSETS_NONE, "offsets")
               : client_error_blame(err, "offsets",
                                    "offsets is NULL, but offset_count is %" PRIu64
                                    ", expected 0",
                                    scan->offset_count);
}

/* Check the values of the offsets of a scan that is otherwise valid. */
static enum tally_status check_offsets(const struct tally_scan *scan, struct tally_error *err)
{
    static const char field[] = "offsets";
    assert(scan->sizes != NULL); /* scan_read() refuses such a scan */
    const int64_t size = scan->sizes[scan_axis(scan)];
    int64_t before = 0;
    for (uint64_t i = 0; i < scan->offset_count; i++) {
        const int64_t offset = scan->offsets[i];
        if (i == 0 && offset != 0) {
            return client_error_blame(err, field, WORDS_OFFSETS_FIRST, field, offset);
        }
        if (offset < before) {
            return client_error_blame(err, field, WORDS_OFFSETS_DECREASE, field, i, offset,
                                      before);
        }
        if (offset > size) {
            return client_error_blame(err, field, WORDS_OFFSETS_BEYOND, field, i, offset, size);
        }
        before = offset;
    }
    if (scan->offsets != NULL && before != size) {
        return client_error_blame(err, field, WORDS_OFFSETS_LAST, field, scan->offset_count - 1,
                                  before, size);
    }
    return TALLY_OK;
}

/* Check that the output type represents every element exactly. */
static enum tally_status check_output_dtype(const struct tally_scan *scan,
                                            struct tally_error *err)
{
    static const char field[] = "output_dtype";
    const enum dtype from = (enum dtype)scan->dtype;
    char names[200] = "";
    if ((unsigned)scan->output_dtype >= DTYPE_COUNT) {
        const char *name = tally_dtype_name(scan->output_dtype);
        char number[16];
        (void)snprintf(number, sizeof number, "%d", (int)scan->output_dtype);
        for (int i = 0; i < DTYPE_COUNT; i++) {
            text_append(names, sizeof names, "%s%s", i > 0 ? ", " : "",
                        dtype_info((enum dtype)i)->name);
        }
        return client_error_blame(err, field, WORDS_OUTPUT_DTYPE_UNKNOWN, field,
                                  name != NULL ? name : number, names);
    }
    if (dtype_widens(from, (enum dtype)scan->output_dtype)) {
        return TALLY_OK;
    }
    dtype_list_wider(from, names, sizeof names);
    return client_error_blame(err, field, WORDS_OUTPUT_DTYPE_NARROW, field,
                              tally_dtype_name(scan->output_dtype),
                              tally_dtype_name(scan->dtype), names);
}

/* Check the types, and the combination of attributes. */
static enum tally_status check_attributes(const struct tally_scan *scan,
                                          struct tally_error *err)
{
    if (tally_dtype_name(scan->dtype) == NULL) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT, "there is no element type %d",
                                (int)scan->dtype);
    }
    if (scan->has_output_dtype != 0) {
        CLIENT_TRY(check_output_dtype(scan, err));
    }
    if ((unsigned)scan->nan >= ARRAY_COUNT(SCAN_NAN_NAMES)) {
        char number[16];
        (void)snprintf(number, sizeof number, "%d", (int)scan->nan);
        return client_error_blame(err, "nan", WORDS_NAN, "nan", number);
    }
    if (scan->include_initial != 0 && scan->exclusive != 0) {
        return client_error_blame(err, "include_initial", WORDS_INCLUDE_INITIAL_EXCLUSIVE);
    }
    return TALLY_OK;
}

enum tally_status scan_read(const struct tally_scan *scan, struct tally_scan *full,
                            struct tally_error *err)
{
    /* The struct_size of programs that were compiled with a tally.h without this member. */
    const size_t first_size = offsetof(struct tally_scan, has_output_dtype);
    memset(full, 0, sizeof *full);
    if (scan == NULL ||
        (scan->struct_size != sizeof *scan && scan->struct_size != first_size)) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                "scan is NULL or its struct_size is not %zu (set it to "
                                "sizeof(struct tally_scan))",
                                sizeof *scan);
    }
    memcpy(full, scan, scan->struct_size);
    full->struct_size = sizeof *full;
    CLIENT_TRY(check_offset_count(full, err));
    CLIENT_TRY(check_geometry(full, err));
    return check_attributes(full, err);
}

enum tally_status scan_buffers(const struct tally_scan *scan, uint64_t *input_bytes,
                               uint64_t *output_bytes, struct tally_error *err)
{
    int64_t sizes[TALLY_MAX_RANK];
    *input_bytes = 0;
    *output_bytes = 0;
    CLIENT_TRY(check_offsets(scan, err));
    scan_output_sizes(scan, sizes);
    const struct layout input = {"input ", scan->sizes, scan->strides, scan->rank, scan->dtype};
    const struct layout output = {"output ", sizes, scan->output_strides, scan->rank,
                                  scan_output_dtype(scan)};
    CLIENT_TRY(layout_bytes(&input, input_bytes, err));
    return layout_bytes(&output, output_bytes, err);
}

enum tally_status tally_scan_bytes(const struct tally_scan *scan, uint64_t *input_bytes,
                                   uint64_t *output_bytes, struct tally_error *err)
{
    struct tally_scan full;
    uint64_t input = 0;
    uint64_t output = 0;
    client_error_reset(err);
    CLIENT_TRY(scan_read(scan, &full, err));
    CLIENT_TRY(scan_buffers(&full, &input, &output, err));
    if (input_bytes != NULL) {
        *input_bytes = input;
    }
    if (output_bytes != NULL) {
        *output_bytes = output;
    }
    return TALLY_OK;
}

uint64_t scan_lines(const struct tally_scan *scan)
{
    const int64_t axis = scan_axis(scan);
    uint64_t lines = 1;
    bool empty = false;
    bool overflow = false;
    for (int i = 0; i < scan->rank; i++) {
        if (i != axis) {
            empty = empty || scan->sizes[i] == 0;
            overflow |= __builtin_mul_overflow(lines, (uint64_t)scan->sizes[i], &lines);
        }
    }
    return empty ? 0 : overflow ? UINT64_MAX : lines;
}

bool ranges_allowed(const void *input, uint64_t input_bytes, const void *output,
                    uint64_t output_bytes, bool *in_place)
{
    uintptr_t in = (uintptr_t)input;
    uintptr_t out = (uintptr_t)output;
    bool disjoint = (in >= out ? in - out >= output_bytes : out - in >= input_bytes) ||
                    input_bytes == 0 || output_bytes == 0;
    *in_place = !disjoint;
    return disjoint || in == out;
}
