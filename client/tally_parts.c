/* A tensor summed in parts along its axis: tally_parts_open(), _next(), _close().
 *
 *   open -> next: [ carry ][ elements ] sent, [ carry ][ sums ] received -> ... -> close
 *
 * The carry of the last successful part is sent in front of the next part. The carry of an
 * answer is received to a second buffer. The buffers are exchanged after the whole answer is
 * verified, so a failed part can be sent again, by a retry or by the caller.
 *
 * Possible failures: those of tally_cumsum(); the carry does not change then. Thread: one at a
 * time for each struct tally_parts. */
#include "client/cumsum_call.h"

#include "proto/carry.h"
#include "proto/text.h"

#include <stdlib.h>
#include <string.h>

struct tally_parts {
    struct tally *client; /* borrowed */
    struct tally_scan scan;
    int64_t sizes[TALLY_MAX_RANK];
    int64_t strides[TALLY_MAX_RANK];
    unsigned char
        initial[sizeof(uint64_t)]; /* copy of the initial value; scan.initial points here */
    int64_t *along;                /* points to the size of the axis in `sizes` */
    int64_t
        position; /* elements of each line summed so far; the initial value is not counted */
    struct front carry; /* carry of these elements; no bytes before the first part */
    struct front next;  /* carry of the answer in progress */
    struct cumsum_call call;
};

struct tally_parts *tally_parts_open(struct tally *client, const struct tally_scan *given,
                                     struct tally_error *err)
{
    struct tally_scan full;
    const struct tally_scan *scan = &full;
    if (client_require(client, err) != TALLY_OK || scan_read(given, &full, err) != TALLY_OK ||
        scan_refuse_offsets(scan, err) != TALLY_OK ||
        tally_scan_bytes(scan, NULL, NULL, err) != TALLY_OK) {
        return NULL;
    }
    if (scan->output_strides != NULL) {
        (void)client_error_set(err, TALLY_INVALID_ARGUMENT,
                               "output_strides are for whole tensors, not for parts");
        return NULL;
    }
    struct tally_parts *parts = calloc(1, sizeof *parts);
    if (parts == NULL) {
        (void)client_error_no_memory(err);
        return NULL;
    }
    size_t list_bytes = (size_t)scan->rank * sizeof(int64_t);
    parts->client = client;
    parts->scan = *scan;
    memcpy(parts->sizes, scan->sizes, list_bytes);
    parts->scan.sizes = parts->sizes;
    if (scan->strides != NULL) {
        memcpy(parts->strides, scan->strides, list_bytes);
        parts->scan.strides = parts->strides;
    }
    if (scan->initial != NULL) {
        memcpy(parts->initial, scan->initial, tally_dtype_bytes(scan_output_dtype(scan)));
        parts->scan.initial = parts->initial;
    }
    parts->along = &parts->sizes[scan_axis(scan)];
    return parts;
}

void tally_parts_close(struct tally_parts *parts)
{
    if (parts == NULL) {
        return;
    }
    free(parts->carry.bytes);
    free(parts->next.bytes);
    free(parts);
}

enum tally_status tally_parts_next(struct tally_parts *parts, int64_t count, const void *input,
                                   void *output, struct tally_error *err)
{
    int64_t end = 0;
    client_error_reset(err);
    if (parts == NULL || __builtin_add_overflow(parts->position, count, &end)) {
        return client_error_set(
            err, TALLY_INVALID_ARGUMENT,
            "parts is NULL, or the axis would have more than 2^63 elements");
    }
    struct cumsum_call *call = &parts->call;
    struct tally_scan scan = parts->scan;
    const bool first = parts->carry.bytes == NULL;
    if (!first) { /* the carry includes the initial value; the extra sum was in part 1 */
        scan.initial = NULL;
        scan.include_initial = 0;
    }
    *parts->along = count;
    CLIENT_TRY(cumsum_call_init(call, &scan, false, input, output, err));
    text_append(call->path, PATH_TEXT, "&part=%s", first ? "first" : "next");
    call->spec.front = &parts->next;
    if (!first) {
        call->spec.head = (const char *)parts->carry.bytes;
        call->spec.head_bytes = (size_t)parts->carry.count;
        call->spec.head_header = "Tally-Carry-Length";
    }
    enum tally_status status = call_run(parts->client, &call->spec, err);
    if (status == TALLY_OK) {
        struct front done = parts->carry;
        parts->carry = parts->next;
        parts->next = done;
        parts->position = end;
    }
    return status;
}

const void *tally_parts_carry(const struct tally_parts *parts, uint64_t *bytes)
{
    const struct front none = {NULL, 0};
    const struct front *carry = parts != NULL ? &parts->carry : &none;
    if (bytes != NULL) {
        *bytes = carry->count;
    }
    return carry->bytes;
}

int64_t tally_parts_position(const struct tally_parts *parts)
{
    return parts != NULL ? parts->position : 0;
}

enum tally_status tally_parts_restore(struct tally_parts *parts, const void *carry,
                                      uint64_t bytes, struct tally_error *err)
{
    int64_t position = -1;
    client_error_reset(err);
    if (parts == NULL || carry == NULL) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT, "parts or carry is NULL");
    }
    if (bytes >= CARRY_HEADER_BYTES && memcmp(carry, CARRY_MAGIC, CARRY_MAGIC_BYTES) == 0) {
        memcpy(&position, (const char *)carry + CARRY_AT_POSITION, sizeof position);
    }
    if (position < 0) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                "these bytes are not a carry of tally_parts_carry()");
    }
    if (parts->scan.initial != NULL &&
        position-- == 0) { /* the position in a carry counts the initial value as an element */
        return client_error_set(
            err, TALLY_INVALID_ARGUMENT,
            "the carry is of a tensor without an initial value, and the scan "
            "has one: give the carry of an equal scan, or leave initial out");
    }
    unsigned char *copy = malloc((size_t)bytes);
    if (copy == NULL) {
        return client_error_no_memory(err);
    }
    memcpy(copy, carry, (size_t)bytes);
    free(parts->carry.bytes);
    parts->carry.bytes = copy;
    parts->carry.count = bytes;
    parts->position = position;
    return TALLY_OK;
}
