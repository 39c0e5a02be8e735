/* Sizes, checks, and the header of a carry; see carry.h. */
#include "proto/carry.h"

#include "proto/little_endian.h"

#include <inttypes.h>
#include <isa-l/crc.h>
#include <string.h>
#include <zlib.h>

/* Where the header has what; docs/carry.md. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 8,
    AT_CRC = 12,
    AT_TYPE = 16,
    AT_ZERO = 17,
    AT_FLAGS = 18,
    AT_ZEROS = 19,
    AT_LINES = 24,
    AT_REST = 40,
    FLAG_EXCLUSIVE = 1,
    FLAG_REVERSE = 2
};

enum status carry_part(const char *field, const char *text, enum scan_part *part,
                       struct error *err)
{
    static const char *const names[] = {"first", "next", "last"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *part = (enum scan_part)(SCAN_PART_FIRST + i);
            return STATUS_OK;
        }
    }
    return error_set_field(
        err, STATUS_INVALID_FIELD, field,
        "%s is '%.40s', expected first, next or last; leave it out where the "
        "whole tensor is in one request",
        field, text);
}

enum dtype carry_sum_dtype(enum dtype dtype)
{
    return dtype_is_float(dtype) ? DTYPE_F64 : dtype;
}

uint64_t carry_held(enum dtype dtype, uint64_t position)
{
    return dtype_is_float(dtype) ? position % SCAN_BLOCK : 0;
}

bool carry_size(const struct carry_head *head, uint64_t *bytes)
{
    uint64_t sums =
        (dtype_is_float(head->dtype) ? 2 : 1) * dtype_info(carry_sum_dtype(head->dtype))->bytes;
    uint64_t held = carry_held(head->dtype, head->position) * dtype_info(head->dtype)->bytes;
    uint64_t made = 0;
    if (__builtin_mul_overflow(head->lines, sums + held, &made) ||
        made > (uint64_t)INT64_MAX - CARRY_HEADER_BYTES) {
        return false;
    }
    *bytes = made + CARRY_HEADER_BYTES;
    return true;
}

bool carry_geometry(const struct scan_desc *desc, uint64_t *lines, uint64_t *elements)
{
    const int64_t axis = desc->axis < 0 ? desc->axis + desc->rank : desc->axis;
    uint64_t product = 1;
    bool none = false;
    bool fits = true;
    if (desc->rank < 1 || desc->rank > LIMIT_RANK || axis < 0 || axis >= desc->rank) {
        return false;
    }
    for (int d = 0; d < desc->rank; d++) {
        if (desc->sizes[d] < 0) {
            return false;
        }
        if (d != axis) {
            none = none || desc->sizes[d] == 0;
            fits &= !__builtin_mul_overflow(product, (uint64_t)desc->sizes[d], &product);
        }
    }
    *lines = none ? 0 : product;
    *elements = (uint64_t)desc->sizes[axis];
    return none || fits;
}

uint64_t carry_answer_size(const struct scan_desc *part, uint64_t held)
{
    struct carry_head head = {.dtype = part->dtype};
    uint64_t bytes = 0;
    if (part->part != SCAN_PART_FIRST && part->part != SCAN_PART_NEXT) {
        return 0;
    }
    bool fits = carry_geometry(part, &head.lines, &head.position);
    head.position += held; /* elements that are held count like the part's own */
    return fits && carry_size(&head, &bytes) ? bytes : UINT64_MAX;
}

/* ---- the header ---- */

#define REFUSE(err, ...) error_set_field((err), STATUS_INVALID_DATA, "carry", __VA_ARGS__)

enum status carry_read_head(const unsigned char *bytes, uint64_t count, struct carry_head *head,
                            struct error *err)
{
    static const unsigned char zero[CARRY_HEADER_BYTES];
    const uint64_t version = little_endian_load(bytes + AT_VERSION, 4);
    const unsigned type = bytes[AT_TYPE];
    const unsigned flags = bytes[AT_FLAGS];
    if (memcmp(bytes + AT_MAGIC, CARRY_MAGIC, CARRY_MAGIC_BYTES) != 0) {
        return REFUSE(err, "the carry does not begin with " CARRY_MAGIC
                           ": send the bytes that the answer to the part before this one gave, "
                           "unchanged");
    }
    if (version != CARRY_VERSION) {
        return REFUSE(err,
                      "the carry is of version %" PRIu64 ", this server knows version %d: sum "
                      "all parts of a tensor by servers of one version",
                      version, CARRY_VERSION);
    }
    if (type < 1 || type > DTYPE_COUNT || flags > (FLAG_EXCLUSIVE | FLAG_REVERSE) ||
        bytes[AT_ZERO] != 0 || memcmp(bytes + AT_ZEROS, zero, AT_LINES - AT_ZEROS) != 0 ||
        memcmp(bytes + AT_REST, zero, CARRY_HEADER_BYTES - AT_REST) != 0) {
        return REFUSE(err,
                      "the carry's header holds a type or flags that do not exist: send it "
                      "unchanged");
    }
    const struct carry_head found = {
        .dtype = (enum dtype)(type - 1),
        .exclusive = (flags & FLAG_EXCLUSIVE) != 0,
        .reverse = (flags & FLAG_REVERSE) != 0,
        .lines = little_endian_load(bytes + AT_LINES, 8),
        .position = little_endian_load(bytes + CARRY_AT_POSITION, 8),
    };
    uint64_t expected = 0;
    if (found.position > INT64_MAX || !carry_size(&found, &expected)) {
        return REFUSE(err,
                      "the carry's header says %" PRIu64 " lines at position %" PRIu64
                      ", which is beyond 2^63 elements or bytes: send it unchanged",
                      found.lines, found.position);
    }
    if (expected != count) {
        return REFUSE(err,
                      "the carry has %" PRIu64 " bytes, but its header says %" PRIu64
                      " lines at position %" PRIu64 ", which take %" PRIu64
                      ": send all of it, and nothing else",
                      count, found.lines, found.position, expected);
    }
    *head = found;
    return STATUS_OK;
}

enum status carry_check_head(const struct carry_head *found, const struct scan_desc *part,
                             struct error *err)
{
    uint64_t lines = 0;
    uint64_t elements = 0;
    if (found->dtype != part->dtype) {
        return REFUSE(err,
                      "the carry is of type %s, the part of %s: send the carry of this "
                      "tensor's parts, or the part in the type of the first",
                      dtype_info(found->dtype)->name, dtype_info(part->dtype)->name);
    }
    const bool turned = found->reverse != part->reverse;
    if (turned || found->exclusive != part->exclusive) {
        const bool made = turned ? found->reverse : found->exclusive;
        return REFUSE(err,
                      "the carry was made with %s %s, the part has %s: give every part what "
                      "the first had",
                      turned ? "reverse" : "exclusive", made ? "true" : "false",
                      made ? "false" : "true");
    }
    if (!carry_geometry(part, &lines, &elements)) {
        return STATUS_OK; /* scan_plan_make() says what is wrong */
    }
    if (found->lines != lines) {
        return REFUSE(err,
                      "the carry is of %" PRIu64 " lines, the part has %" PRIu64
                      ": only the axis may differ from part to part",
                      found->lines, lines);
    }
    if (found->position > (uint64_t)INT64_MAX - elements) {
        return REFUSE(err,
                      "the carry's position is %" PRIu64 ", and with the %" PRIu64
                      " elements of this part it goes beyond 2^63, where a tensor ends",
                      found->position, elements);
    }
    return STATUS_OK;
}

enum status carry_guess_held(const struct scan_desc *part, uint64_t bytes, uint64_t *held,
                             struct error *err)
{
    struct carry_head head = {.dtype = part->dtype};
    uint64_t elements = 0;
    uint64_t sums = 0;
    if (!carry_geometry(part, &head.lines, &elements)) {
        return STATUS_OK; /* scan_plan_make() says what is wrong */
    }
    const uint64_t plane = head.lines * dtype_info(part->dtype)->bytes;
    const bool possible = carry_size(&head, &sums) && bytes >= sums;
    const uint64_t rest = possible ? bytes - sums : 0;
    const uint64_t count = possible && plane > 0 ? rest / plane : 0;
    if (!possible || count * plane != rest || count >= SCAN_BLOCK ||
        (count > 0 && !dtype_is_float(part->dtype))) {
        return REFUSE(err,
                      "the carry has %" PRIu64 " bytes, which none before this part has, of "
                      "%" PRIu64 " lines of %s: it is not whole, or of another type or number "
                      "of lines; send the carry of the answer to the part before",
                      bytes, head.lines, dtype_info(part->dtype)->name);
    }
    *held = count;
    return STATUS_OK;
}

/* ---- what was damaged ---- */

void carry_crc_add(struct carry_crc *crc, const unsigned char *bytes, uint64_t end)
{
    const uint64_t from = larger_of(crc->done, AT_TYPE);
    if (from < end) {
        crc->value = crc32_gzip_refl(crc->value, bytes + from, end - from);
    }
    crc->done = larger_of(end, crc->done);
}

void carry_crc_join(struct carry_crc *crc, const struct carry_crc *behind)
{
    crc->value =
        (uint32_t)crc32_combine(crc->value, behind->value, (z_off_t)(behind->done - crc->done));
    crc->done = behind->done;
}

enum status carry_check_crc(struct carry_crc *crc, const unsigned char *bytes, uint64_t count,
                            const struct parallel *parallel, struct error *err)
{
    const uint64_t told = little_endian_load(bytes + AT_CRC, 4);
    while (crc->done < count) {
        carry_crc_add(crc, bytes, smaller_of(count, crc->done + PARALLEL_STEP_BYTES));
        if (crc->done < count && !parallel_step(parallel)) {
            return parallel_given_up(err);
        }
    }
    if (told != crc->value) {
        return REFUSE(err,
                      "the carry was damaged: its CRC-32 is %08" PRIx32 ", its header says "
                      "%08" PRIx32 ": send it again, or the part before this one",
                      crc->value, (uint32_t)told);
    }
    return STATUS_OK;
}

void carry_write_head(const struct carry_head *head, unsigned char *bytes)
{
    memset(bytes, 0, CARRY_HEADER_BYTES);
    memcpy(bytes + AT_MAGIC, CARRY_MAGIC, CARRY_MAGIC_BYTES);
    little_endian_store(bytes + AT_VERSION, 4, CARRY_VERSION);
    bytes[AT_TYPE] = (unsigned char)(head->dtype + 1);
    bytes[AT_FLAGS] = (unsigned char)((head->exclusive ? FLAG_EXCLUSIVE : 0) |
                                      (head->reverse ? FLAG_REVERSE : 0));
    little_endian_store(bytes + AT_LINES, 8, head->lines);
    little_endian_store(bytes + CARRY_AT_POSITION, 8, head->position);
}

void carry_write_crc(const struct carry_crc *crc, unsigned char *bytes)
{
    little_endian_store(bytes + AT_CRC, 4, crc->value);
}
