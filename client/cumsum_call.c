/* tally_cumsum() and tally_totals(): a scan as one request.
 *
 *   scan checked -> buffers checked: size, overlap -> query string printed -> call_run
 *
 * The answer to a part begins with a carry; tally_parts.c sends the carry with the next
 * part. */
#include "client/cumsum_call.h"

#include "client/carry.h"
#include "proto/attribute_words.h"
#include "proto/carry.h"
#include "proto/dtype.h"
#include "proto/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the request ---- */

/* Convert a float of any type to double. */
static double float_value(enum tally_dtype dtype, const void *at)
{
    uint16_t bits = 0;
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
        memcpy(&bits, at, sizeof bits);
    }
    if (dtype == TALLY_BFLOAT16) { /* the upper half of a float32 */
        const uint32_t wide = (uint32_t)bits << 16;
        memcpy(&single, &wide, sizeof single);
        return (double)single;
    }
    const int exponent = bits >> 10 & 0x1F;
    const int fraction = bits & 0x3FF;
    value = exponent == 0x1F ? (double)(fraction != 0 ? NAN : INFINITY)
            : exponent == 0  ? ldexp(fraction, -24) /* zero, or subnormal */
                             : ldexp(fraction + 0x400, exponent - 25);
    return (bits >> 15) != 0 ? -value : value;
}

/* Append a number with 17 digits, which identify a double. The decimal sign is a point in every
 * locale. A '+' is left out, because it means a blank in a query string. */
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
    const char *whole = at + (*at == '-') + 1; /* behind the only digit before the point */
    text_append(path, PATH_TEXT, "%.*s.", (int)(whole - at), at);
    for (at = whole; *at < '0' || *at > '9';) { /* skip the decimal sign of the locale */
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

/* Print the path and the query string. */
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
        text_append(path, PATH_TEXT, "&nan=%s", SCAN_NAN_NAMES[scan->nan]);
    }
    if (scan->initial != NULL) {
        text_append(path, PATH_TEXT, "&initial=");
        append_number(path, scan_output_dtype(scan), scan->initial);
    }
    if (scan->include_initial != 0) {
        text_append(path, PATH_TEXT, "&include_initial=true");
    }
}

/* Print the shape that the answer must have. */
static void write_shape(struct cumsum_call *cumsum, const struct tally_scan *scan)
{
    int64_t sizes[TALLY_MAX_RANK];
    scan_output_sizes(scan, sizes);
    cumsum->shape[0] = '\0';
    text_append_list(cumsum->shape, SHAPE_TEXT, sizes, scan->rank);
}

/* ---- the answer ---- */

/* Allocate memory for the carry in front of the tensor. A carry that is too long is refused
 * before it is received. */
static enum tally_status begin_carry(const struct cumsum_call *cumsum,
                                     const struct tally_answer *answer, uint64_t *due,
                                     struct tally_error *err)
{
    if (answer->carry_length < CARRY_HEADER_BYTES ||
        (uint64_t)answer->carry_length > cumsum->carry_most) {
        return client_error_set(err, TALLY_BAD_ANSWER,
                                "the answer has no valid carry (Tally-Carry-Length %" PRId64
                                "): the server is too old, or a proxy drops the header",
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
        return client_error_blame(err, "include_initial", WORDS_INCLUDE_INITIAL_TOTALS);
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
    bool overwritten =
        false; /* the answer would overwrite offsets, which a retry sends again */
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
