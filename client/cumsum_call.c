/* tally_cumsum(), tally_totals() and what they need: names of types, the check of a scan, its
 * request.
 *
 *   check_scan -> bytes of both buffers -> do they fit and not overlap -> query -> call_run
 *
 * The answer to a part begins with its carry, which is kept for the next one (tally_parts.c).
 * Geometry is checked here only as far as the buffers' bounds depend on it; the server checks
 * the rest. The status and the sentence of a refusal name the field. */
#include "client/cumsum_call.h"

#include "client/carry.h"
#include "client/media_type.h"
#include "proto/carry.h"
#include "proto/dtype.h"
#include "proto/limits.h"
#include "proto/text.h"

#include <inttypes.h>
#include <string.h>

_Static_assert((int)TALLY_FLOAT16 == (int)DTYPE_F16 && (int)TALLY_BFLOAT16 == (int)DTYPE_BF16 &&
                   (int)TALLY_FLOAT32 == (int)DTYPE_F32 && (int)TALLY_FLOAT64 == (int)DTYPE_F64,
               "the library's floating types are the protocol's");
_Static_assert((int)TALLY_INT8 == (int)DTYPE_I8 && (int)TALLY_INT64 == (int)DTYPE_I64 &&
                   (int)TALLY_UINT8 == (int)DTYPE_U8 && (int)TALLY_UINT64 == (int)DTYPE_U64,
               "the library's integer types are the protocol's");
_Static_assert((int)TALLY_MAX_RANK == (int)LIMIT_RANK, "the library's rank is the protocol's");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "buffers are sent as they are");

const char *tally_dtype_name(enum tally_dtype dtype)
{
    return (unsigned)dtype < DTYPE_COUNT ? dtype_info((enum dtype)dtype)->name : NULL;
}

size_t tally_dtype_bytes(enum tally_dtype dtype)
{
    return (unsigned)dtype < DTYPE_COUNT ? dtype_info((enum dtype)dtype)->bytes : 0;
}

int tally_dtype_find(const char *name, enum tally_dtype *dtype)
{
    enum dtype found = DTYPE_COUNT;
    if (name == NULL || !dtype_find(DTYPE_FAMILY_NAME, name, strlen(name), &found) ||
        found == DTYPE_BOOL) {
        return -1;
    }
    *dtype = (enum tally_dtype)found;
    return 0;
}

/* ---- the descriptor ---- */

/* Bytes from the first to the last element of a layout; strides NULL: packed. */
static enum tally_status layout_bytes(const struct tally_scan *scan, const int64_t *strides,
                                      const char *what, uint64_t *bytes,
                                      struct tally_error *err)
{
    uint64_t elements = 1;
    bool empty = false;
    bool overflow = false;
    for (int i = 0; i < scan->rank; i++) {
        uint64_t size = (uint64_t)scan->sizes[i];
        uint64_t reach = 0;
        if (strides != NULL && strides[i] < 0) {
            return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                    "%sstrides[%d] is %" PRId64 "; strides are in elements and "
                                    "not negative",
                                    what, i, strides[i]);
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
    overflow |= __builtin_mul_overflow(elements, tally_dtype_bytes(scan->dtype), &total);
    overflow |= total > INT64_MAX;
    if (overflow && !empty) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                "the %sbuffer would be larger than 2^63 bytes", what);
    }
    *bytes = empty ? 0 : total;
    return TALLY_OK;
}

static enum tally_status check_scan(const struct tally_scan *scan, struct tally_error *err)
{
    if (scan == NULL || scan->struct_size != sizeof *scan) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                "scan is NULL or its struct_size is not %zu (set it to "
                                "sizeof(struct tally_scan))",
                                sizeof *scan);
    }
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
    if (tally_dtype_name(scan->dtype) == NULL) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT, "there is no element type %d",
                                (int)scan->dtype);
    }
    return TALLY_OK;
}

enum tally_status tally_scan_bytes(const struct tally_scan *scan, uint64_t *input_bytes,
                                   uint64_t *output_bytes, struct tally_error *err)
{
    uint64_t input = 0;
    uint64_t output = 0;
    client_error_reset(err);
    CLIENT_TRY(check_scan(scan, err));
    CLIENT_TRY(layout_bytes(scan, scan->strides, "input ", &input, err));
    CLIENT_TRY(layout_bytes(scan, scan->output_strides, "output ", &output, err));
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

/* Write the shape, and the path with its query. */
static void write_path(struct cumsum_call *cumsum, const struct tally_scan *scan, bool totals)
{
    char *path = cumsum->path;
    cumsum->shape[0] = '\0';
    text_append_list(cumsum->shape, SHAPE_TEXT, scan->sizes, scan->rank);
    path[0] = '\0';
    text_append(path, PATH_TEXT, "/v1/cumsum%s?dtype=%s&shape=%s&axis=%" PRId64,
                totals ? "/totals" : "", tally_dtype_name(scan->dtype), cumsum->shape,
                scan->axis);
    if (scan->exclusive != 0) {
        text_append(path, PATH_TEXT, "&exclusive=true");
    }
    if (scan->reverse != 0) {
        text_append(path, PATH_TEXT, "&reverse=true");
    }
    if (scan->strides != NULL) {
        text_append(path, PATH_TEXT, "&strides=");
        text_append_list(path, PATH_TEXT, scan->strides, scan->rank);
    }
    if (scan->output_strides != NULL) {
        text_append(path, PATH_TEXT, "&output_strides=");
        text_append_list(path, PATH_TEXT, scan->output_strides, scan->rank);
    }
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

enum tally_status cumsum_call_init(struct cumsum_call *cumsum, const struct tally_scan *scan,
                                   bool totals, const void *input, void *output,
                                   struct tally_error *err)
{
    uint64_t input_bytes = 0;
    bool in_place = false;
    CLIENT_TRY(tally_scan_bytes(scan, &input_bytes, &cumsum->output_bytes, err));
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
    cumsum->dtype = tally_dtype_name(scan->dtype);
    cumsum->output = output;
    cumsum->lines = scan_lines(scan);
    cumsum->carry_most = carry_bytes_most(scan->dtype, cumsum->lines);
    write_path(cumsum, scan, totals);
    cumsum->spec = (struct call_spec){
        .method = "POST",
        .path = cumsum->path,
        .content_type = "application/octet-stream",
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
    const uint64_t elements = (uint64_t)scan->sizes[scan_axis(scan)];
    if (status == TALLY_OK && !carry_is_behind(&found, scan, cumsum.lines, elements)) {
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
