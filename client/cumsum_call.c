/* tally_cumsum(), tally_totals() and what they need: names of types, the check of a scan, its
 * request.
 *
 *   scan_read -> bytes of both buffers -> do they fit and not overlap -> query -> call_run
 *
 * The answer to a part begins with its carry, which is kept for the next one (tally_parts.c).
 * Geometry is checked here only as far as the buffers' bounds depend on it; the server checks
 * the rest, but for attributes that do not go together: these are refused here, in the words of the
 * server (proto/attribute_words.h). The status and the sentence of a refusal name the field. */
#include "client/cumsum_call.h"

#include "client/carry.h"
#include "client/media_type.h"
#include "proto/attribute_words.h"
#include "proto/carry.h"
#include "proto/dtype.h"
#include "proto/limits.h"
#include "proto/text.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
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

static const char *const NAN_NAMES[] = {
    [TALLY_NAN_PROPAGATE] = "propagate", [TALLY_NAN_ZERO] = "zero", [TALLY_NAN_SKIP] = "skip"};

/* Elements that the output has more than the input along the axis. */
static uint64_t extra_sums(const struct tally_scan *scan)
{
    return scan->include_initial == 0 ? 0 : scan->offsets == NULL ? 1 : scan->offset_count - 1;
}

/* The sizes of the output. The scan is valid. */
static void output_sizes(const struct tally_scan *scan, int64_t sizes[TALLY_MAX_RANK])
{
    memcpy(sizes, scan->sizes, (size_t)scan->rank * sizeof *sizes);
    sizes[scan_axis(scan)] += (int64_t)extra_sums(scan);
}

/* One of the two tensors of a scan. */
struct layout {
    const char *what;
    const int64_t *sizes;
    const int64_t *strides; /* NULL: packed */
    int32_t rank;
    enum tally_dtype dtype;
};

/* Bytes from the first to the last element of a layout. */
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

/* Blame a field for what the error says. */
static enum tally_status blame_field(struct tally_error *err, const char *field)
{
    if (err != NULL) {
        (void)snprintf(err->field, sizeof err->field, "%s", field);
    }
    return TALLY_INVALID_ARGUMENT;
}

enum tally_status scan_refuse_offsets(const struct tally_scan *scan, struct tally_error *err)
{
    if (scan->offsets == NULL) {
        return TALLY_OK;
    }
    (void)client_error_set(err, TALLY_INVALID_ARGUMENT, WORDS_OFFSETS_PART);
    return blame_field(err, "offsets");
}

/* The offsets are there if they are counted. */
static enum tally_status check_offset_count(const struct tally_scan *scan,
                                            struct tally_error *err)
{
    if ((scan->offsets == NULL) == (scan->offset_count == 0)) {
        return TALLY_OK;
    }
    if (scan->offsets != NULL) {
        (void)client_error_set(err, TALLY_INVALID_ARGUMENT, WORDS_OFFSETS_NONE, "offsets");
    } else {
        (void)client_error_set(err, TALLY_INVALID_ARGUMENT,
                               "offsets is NULL, but offset_count is %" PRIu64 ", expected 0",
                               scan->offset_count);
    }
    return blame_field(err, "offsets");
}

/* The offsets cut the axis into segments. The rest of the scan is valid. */
static enum tally_status check_offsets(const struct tally_scan *scan, struct tally_error *err)
{
    static const char field[] = "offsets";
    assert(scan->sizes != NULL); /* scan_read() refuses such a scan */
    const int64_t size = scan->sizes[scan_axis(scan)];
    int64_t before = 0;
    for (uint64_t i = 0; i < scan->offset_count; i++) {
        const int64_t offset = scan->offsets[i];
        if (i == 0 && offset != 0) {
            (void)client_error_set(err, TALLY_INVALID_ARGUMENT, WORDS_OFFSETS_FIRST, field,
                                   offset);
            return blame_field(err, field);
        }
        if (offset < before) {
            (void)client_error_set(err, TALLY_INVALID_ARGUMENT, WORDS_OFFSETS_DECREASE, field,
                                   i, offset, before);
            return blame_field(err, field);
        }
        if (offset > size) {
            (void)client_error_set(err, TALLY_INVALID_ARGUMENT, WORDS_OFFSETS_BEYOND, field, i,
                                   offset, size);
            return blame_field(err, field);
        }
        before = offset;
    }
    if (scan->offsets != NULL && before != size) {
        (void)client_error_set(err, TALLY_INVALID_ARGUMENT, WORDS_OFFSETS_LAST, field,
                               scan->offset_count - 1, before, size);
        return blame_field(err, field);
    }
    return TALLY_OK;
}

/* The type of the sums must be one that the elements can be widened to. */
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
        (void)client_error_set(err, TALLY_INVALID_ARGUMENT, WORDS_OUTPUT_DTYPE_UNKNOWN, field,
                               name != NULL ? name : number, names);
        return blame_field(err, field);
    }
    if (dtype_widens(from, (enum dtype)scan->output_dtype)) {
        return TALLY_OK;
    }
    dtype_list_wider(from, names, sizeof names);
    (void)client_error_set(err, TALLY_INVALID_ARGUMENT, WORDS_OUTPUT_DTYPE_NARROW, field,
                           tally_dtype_name(scan->output_dtype), tally_dtype_name(scan->dtype),
                           names);
    return blame_field(err, field);
}

/* The types, and which attributes go together. */
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
    if ((unsigned)scan->nan >= ARRAY_COUNT(NAN_NAMES)) {
        char number[16];
        (void)snprintf(number, sizeof number, "%d", (int)scan->nan);
        (void)client_error_set(err, TALLY_INVALID_ARGUMENT, WORDS_NAN, "nan", number);
        return blame_field(err, "nan");
    }
    if (scan->include_initial != 0 && scan->exclusive != 0) {
        (void)client_error_set(err, TALLY_INVALID_ARGUMENT, WORDS_INCLUDE_INITIAL_EXCLUSIVE);
        return blame_field(err, "include_initial");
    }
    return TALLY_OK;
}

enum tally_status scan_read(const struct tally_scan *scan, struct tally_scan *full,
                            struct tally_error *err)
{
    /* The structure as it was before it had attributes. */
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

/* Check the offsets of a scan that scan_read() has read, and count the bytes of its two buffers. */
static enum tally_status scan_buffers(const struct tally_scan *scan, uint64_t *input_bytes,
                                      uint64_t *output_bytes, struct tally_error *err)
{
    int64_t sizes[TALLY_MAX_RANK];
    *input_bytes = 0;
    *output_bytes = 0;
    CLIENT_TRY(check_offsets(scan, err));
    output_sizes(scan, sizes);
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

/* Elements of all dimensions but the axis multiplied; UINT64_MAX: more. The scan is valid. */
static uint64_t scan_lines(const struct tally_scan *scan)
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

/* ---- the request ---- */

/* The value of a float of any type. */
static double float_value(enum tally_dtype dtype, const void *at)
{
    uint32_t bits = 0;
    float single = 0;
    double value = 0;
    switch (tally_dtype_bytes(dtype)) {
    case sizeof value:
        memcpy(&value, at, sizeof value);
        return value;
    case sizeof single:
        memcpy(&single, at, sizeof single);
        return (double)single;
    default:
        memcpy(&bits, at, sizeof(uint16_t));
    }
    if (dtype == TALLY_FLOAT16) {
        const uint32_t exponent = bits >> 10 & 0x1F;
        const uint32_t fraction = bits & 0x3FF;
        if (exponent == 0) { /* subnormal, or zero */
            value = fraction * 0x1p-24;
            return (bits >> 15) != 0 ? -value : value;
        }
        bits = (bits >> 15) << 31 | (exponent == 0x1F ? 0xFFU : exponent + 112) << 23 |
               fraction << 13;
    } else {
        bits <<= 16;
    }
    memcpy(&single, &bits, sizeof single);
    return (double)single;
}

/* Append the text of a float: 17 digits, which read back to the same value, with a point in any
 * locale, and without '+', which is a blank in a query. */
static void append_float(char *path, double value)
{
    char text[64];
    if (isnan(value) || isinf(value)) {
        text_append(path, PATH_TEXT, "%s",
                    isnan(value) ? "NaN"
                    : value > 0  ? "Infinity"
                                 : "-Infinity");
        return;
    }
    (void)snprintf(text, sizeof text, "%.16e", value);
    const char *at = text;
    const char *whole = at + (*at == '-') + 1; /* past the one digit before the point */
    text_append(path, PATH_TEXT, "%.*s.", (int)(whole - at), at);
    for (at = whole; *at < '0' || *at > '9';) { /* the locale's point */
        at++;
    }
    for (; *at != '\0'; at++) {
        if (*at != '+') {
            text_append(path, PATH_TEXT, "%c", *at);
        }
    }
}

static void append_number(char *path, enum tally_dtype dtype, const void *at)
{
    const struct dtype_info *info = dtype_info((enum dtype)dtype);
    if (info->kind == DTYPE_KIND_FLOAT) {
        append_float(path, float_value(dtype, at));
        return;
    }
    const unsigned spare = 64 - 8 * (unsigned)info->bytes;
    uint64_t bits = 0;
    memcpy(&bits, at, info->bytes);
    if (info->kind == DTYPE_KIND_SIGNED) {
        text_append(path, PATH_TEXT, "%" PRId64, (int64_t)(bits << spare) >> spare);
    } else {
        text_append(path, PATH_TEXT, "%" PRIu64, bits);
    }
}

/* Write the path with its query. */
static void write_path(struct cumsum_call *cumsum, const struct tally_scan *scan, bool totals)
{
    char *path = cumsum->path;
    path[0] = '\0';
    text_append(path, PATH_TEXT, "/v1/cumsum%s?dtype=%s&shape=", totals ? "/totals" : "",
                tally_dtype_name(scan->dtype));
    text_append_list(path, PATH_TEXT, scan->sizes, scan->rank);
    text_append(path, PATH_TEXT, "&axis=%" PRId64 "%s%s", scan->axis,
                scan->exclusive != 0 ? "&exclusive=true" : "",
                scan->reverse != 0 ? "&reverse=true" : "");
    if (scan->strides != NULL) {
        text_append(path, PATH_TEXT, "&strides=");
        text_append_list(path, PATH_TEXT, scan->strides, scan->rank);
    }
    if (scan->output_strides != NULL) {
        text_append(path, PATH_TEXT, "&output_strides=");
        text_append_list(path, PATH_TEXT, scan->output_strides, scan->rank);
    }
    if (scan->has_output_dtype != 0) {
        text_append(path, PATH_TEXT, "&output_dtype=%s", tally_dtype_name(scan->output_dtype));
    }
    if (scan->nan != TALLY_NAN_PROPAGATE) {
        text_append(path, PATH_TEXT, "&nan=%s", NAN_NAMES[scan->nan]);
    }
    if (scan->initial != NULL) {
        text_append(path, PATH_TEXT, "&initial=");
        append_number(path, scan_output_dtype(scan), scan->initial);
    }
    if (scan->include_initial != 0) {
        text_append(path, PATH_TEXT, "&include_initial=true");
    }
}

/* Write the shape that the answer must have. */
static void write_shape(struct cumsum_call *cumsum, const struct tally_scan *scan)
{
    int64_t sizes[TALLY_MAX_RANK];
    output_sizes(scan, sizes);
    cumsum->shape[0] = '\0';
    text_append_list(cumsum->shape, SHAPE_TEXT, sizes, scan->rank);
}

/* ---- the answer ---- */

/* Room for the carry before the tensor. An answer that announces more than it may have is none of
 * this service. */
static enum tally_status begin_carry(const struct cumsum_call *cumsum,
                                     const struct tally_answer *answer, uint64_t *due,
                                     struct tally_error *err)
{
    if (answer->carry_length < CARRY_HEADER_BYTES ||
        (uint64_t)answer->carry_length > cumsum->carry_most) {
        return client_error_set(err, TALLY_BAD_ANSWER,
                                "the answer has no carry that is one "
                                "(Tally-Carry-Length %" PRId64 "): the server is too old, or "
                                "something before it drops the header",
                                answer->carry_length);
    }
    return front_expect(cumsum->spec.front, (uint64_t)answer->carry_length, due, err);
}

static enum tally_status cumsum_begin(void *context, const struct tally_answer *answer,
                                      uint64_t *due, struct tally_error *err)
{
    const struct cumsum_call *cumsum = context;
    if (!media_type_is(answer->content_type, "application/octet-stream")) {
        return client_error_set(err, TALLY_BAD_ANSWER,
                                "the answer's Content-Type is \"%s\", expected "
                                "application/octet-stream; is this the URL of a Tally server?",
                                answer->content_type);
    }
    if (strcmp(answer->dtype, cumsum->dtype) != 0 ||
        strcmp(answer->shape, cumsum->shape) != 0) {
        return client_error_set(err, TALLY_BAD_ANSWER,
                                "the answer is a tensor of type \"%s\" and shape \"%.200s\", "
                                "expected %s and %.200s",
                                answer->dtype, answer->shape, cumsum->dtype, cumsum->shape);
    }
    *due = cumsum->output_bytes;
    if (cumsum->spec.front != NULL) {
        return begin_carry(cumsum, answer, due, err);
    }
    return answer->carry_length <= 0
               ? TALLY_OK
               : client_error_set(err, TALLY_BAD_ANSWER,
                                  "the answer begins with a carry of %" PRId64
                                  " bytes, which was not asked for",
                                  answer->carry_length);
}

static enum tally_status cumsum_write(void *context, uint64_t offset, const void *bytes,
                                      size_t count, struct tally_error *err)
{
    const struct cumsum_call *cumsum = context;
    (void)err;
    memcpy(cumsum->output + offset, bytes, count);
    return TALLY_OK;
}

/* ---- the call ---- */

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

enum tally_status cumsum_call_init(struct cumsum_call *cumsum, const struct tally_scan *given,
                                   bool totals, const void *input, void *output,
                                   struct tally_error *err)
{
    struct tally_scan full;
    const struct tally_scan *scan = &full;
    uint64_t input_bytes = 0;
    bool in_place = false;
    client_error_reset(err);
    CLIENT_TRY(scan_read(given, &full, err));
    if (totals) {
        CLIENT_TRY(scan_refuse_offsets(scan, err));
    }
    CLIENT_TRY(scan_buffers(scan, &input_bytes, &cumsum->output_bytes, err));
    if (totals && scan->include_initial != 0) {
        (void)client_error_set(err, TALLY_INVALID_ARGUMENT, WORDS_INCLUDE_INITIAL_TOTALS);
        return blame_field(err, "include_initial");
    }
    if (totals) {
        cumsum->output_bytes = 0;
    }
    if (scan->input_bytes != 0 && scan->input_bytes < input_bytes) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                "the input buffer has %" PRIu64
                                " bytes, the scan reads %" PRIu64,
                                scan->input_bytes, input_bytes);
    }
    if (!totals && scan->output_bytes != 0 && scan->output_bytes < cumsum->output_bytes) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                "the output buffer has %" PRIu64
                                " bytes, the scan writes %" PRIu64,
                                scan->output_bytes, cumsum->output_bytes);
    }
    if ((input == NULL && input_bytes > 0) || (output == NULL && cumsum->output_bytes > 0)) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT, "the %s buffer is NULL",
                                input == NULL ? "input" : "output");
    }
    if (!ranges_allowed(input, input_bytes, output, cumsum->output_bytes, &in_place)) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                "input and output overlap; they must be the same buffer or "
                                "disjoint");
    }
    const size_t offset_bytes = (size_t)scan->offset_count * sizeof *scan->offsets;
    bool overwritten = false; /* a further attempt would send sums as offsets */
    (void)ranges_allowed(scan->offsets, offset_bytes, output, cumsum->output_bytes,
                         &overwritten);
    if (overwritten) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                "offsets and output overlap; they must be disjoint");
    }
    cumsum->dtype = tally_dtype_name(scan_output_dtype(scan));
    cumsum->output = output;
    cumsum->lines = scan_lines(scan);
    cumsum->carry_most = carry_bytes_most(scan_output_dtype(scan), cumsum->lines);
    write_shape(cumsum, scan);
    write_path(cumsum, scan, totals);
    cumsum->spec = (struct call_spec){
        .method = "POST",
        .path = cumsum->path,
        .content_type = "application/octet-stream",
        .head = (const char *)scan->offsets,
        .head_bytes = offset_bytes,
        .head_header = scan->offsets != NULL ? "Tally-Offsets-Length" : NULL,
        .body = input,
        .body_bytes = input_bytes,
        .progress = scan->progress,
        .user = scan->progress_user,
        .deadline_ms = scan->deadline_ms,
        .once = in_place,
        .in_order = true,
        .begin = cumsum_begin,
        .write = cumsum_write,
        .context = cumsum,
    };
    return TALLY_OK;
}

enum tally_status tally_totals(struct tally *client, const struct tally_scan *scan,
                               const void *input, struct tally_carry *total,
                               struct tally_error *err)
{
    struct cumsum_call cumsum;
    struct front front = {NULL, 0};
    CLIENT_TRY(client_require(client, err));
    CLIENT_TRY(cumsum_call_init(&cumsum, scan, true, input, NULL, err));
    if (total == NULL) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT, "total is NULL");
    }
    cumsum.spec.front = &front;
    enum tally_status status = call_run(client, &cumsum.spec, err);
    struct tally_carry found = {front.bytes, front.count};
    if (status == TALLY_OK) {
        status = carry_check(&found, TALLY_BAD_ANSWER, err);
    }
    struct tally_scan full;
    if (status == TALLY_OK) {
        status = scan_read(scan, &full, err);
    }
    if (status == TALLY_OK && !carry_is_behind(&found, &full, cumsum.lines)) {
        status = client_error_set(err, TALLY_BAD_ANSWER,
                                  "the answer is a carry, but not the one behind this tensor");
    }
    if (status != TALLY_OK) {
        tally_carry_free(&found);
        return status;
    }
    tally_carry_free(total);
    *total = found;
    return TALLY_OK;
}

enum tally_status tally_cumsum(struct tally *client, const struct tally_scan *scan,
                               const void *input, void *output, struct tally_error *err)
{
    struct cumsum_call cumsum;
    CLIENT_TRY(client_require(client, err));
    CLIENT_TRY(cumsum_call_init(&cumsum, scan, false, input, output, err));
    return call_run(client, &cumsum.spec, err);
}
