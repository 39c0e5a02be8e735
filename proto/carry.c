/* Sizes of carries, checks of a received carry, and conversion between both forms; see
 * carry.h. */
#include "proto/carry.h"

#include "proto/little_endian.h"
#include "proto/macros.h"

#include <inttypes.h>
#include <isa-l/crc.h>
#include <string.h>

/* Byte offsets and flags of the header (docs/carry.md). */
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
    FLAG_REVERSE = 2,
    FLAG_NAN_ZERO = 4, /* NaN counts as 0 */
    FLAG_NAN_SKIP = 8, /* NaN counts as 0, and its sum is NaN */
    FLAGS_MOST = FLAG_EXCLUSIVE | FLAG_REVERSE | FLAG_NAN_SKIP
};

/* Byte offsets and flags of the descriptor of a line of floats (docs/carry.md). */
enum {
    LINE_AT_FLAGS = 0,
    LINE_AT_ZERO = 1,
    LINE_AT_LOW = 2,   /* index of the lowest stored word */
    LINE_AT_COUNT = 3, /* number of stored words */
    LINE_BYTES = 4,
    LINE_NAN = EXACT_SUM_NAN,
    LINE_PLUS = EXACT_SUM_PLUS,
    LINE_MINUS = EXACT_SUM_MINUS,
    LINE_ZEROS = 8, /* every element so far is -0.0, or the line has no element yet */
    WORD_BYTES = 8,
    WORD_BITS = 64,
    LINES_AT_ONCE = 16 << 10 /* between two calls of parallel_step() */
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

uint64_t carry_sums_at(enum dtype dtype, uint64_t lines)
{
    if (!dtype_is_float(dtype)) {
        return CARRY_HEADER_BYTES;
    }
    if (lines > INT64_MAX / LINE_BYTES / 2) {
        return UINT64_MAX;
    }
    return CARRY_HEADER_BYTES + (lines * LINE_BYTES + WORD_BYTES - 1) / WORD_BYTES * WORD_BYTES;
}

uint64_t carry_room(enum dtype dtype, uint64_t lines)
{
    const uint64_t before = carry_sums_at(dtype, lines);
    uint64_t sums = 0;
    const bool fits = before != UINT64_MAX &&
                      !__builtin_mul_overflow(lines, carry_sum_bytes(dtype), &sums) &&
                      sums <= (uint64_t)INT64_MAX - before;
    return fits ? before + sums : UINT64_MAX;
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

uint64_t carry_answer_most(const struct scan_desc *desc, bool totals)
{
    uint64_t lines = 0;
    uint64_t elements = 0;
    if (!totals && desc->part != SCAN_PART_FIRST && desc->part != SCAN_PART_NEXT) {
        return 0;
    }
    return carry_geometry(desc, &lines, &elements) ? carry_room(desc->dtype, lines)
                                                   : UINT64_MAX;
}

uint64_t carry_answer_usual(const struct scan_desc *desc, bool totals)
{
    enum {
        USUAL_WORDS = 3 /* enough for most float64 sums */
    };
    const uint64_t most = carry_answer_most(desc, totals);
    uint64_t lines = 0;
    uint64_t elements = 0;
    if (most == 0 || most == UINT64_MAX || !dtype_is_float(desc->dtype) ||
        !carry_geometry(desc, &lines, &elements)) {
        return most;
    }
    const uint64_t usual = carry_sums_at(desc->dtype, lines) + lines * USUAL_WORDS * WORD_BYTES;
    return smaller_of(usual, most);
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
        return REFUSE(
            err,
            "the carry is of version %" PRIu64 ", this server knows version %d: sum "
            "all parts of the tensor anew, from the first on, by servers of one version",
            version, CARRY_VERSION);
    }
    const bool known_flags =
        flags <= FLAGS_MOST &&
        (flags < FLAG_NAN_ZERO ||
         (type <= DTYPE_COUNT && type > 0 && dtype_is_float((enum dtype)(type - 1))));
    if (type < 1 || type > DTYPE_COUNT || !known_flags || bytes[AT_ZERO] != 0 ||
        memcmp(bytes + AT_ZEROS, zero, AT_LINES - AT_ZEROS) != 0 ||
        memcmp(bytes + AT_REST, zero, CARRY_HEADER_BYTES - AT_REST) != 0) {
        return REFUSE(err,
                      "the carry's header holds a type or flags that do not exist: send it "
                      "unchanged");
    }
    const struct carry_head found = {
        .dtype = (enum dtype)(type - 1),
        .exclusive = (flags & FLAG_EXCLUSIVE) != 0,
        .reverse = (flags & FLAG_REVERSE) != 0,
        .nan = (flags & FLAG_NAN_ZERO) != 0   ? SCAN_NAN_ZERO
               : (flags & FLAG_NAN_SKIP) != 0 ? SCAN_NAN_SKIP
                                              : SCAN_NAN_PROPAGATE,
        .lines = little_endian_load(bytes + AT_LINES, 8),
        .position = little_endian_load(bytes + CARRY_AT_POSITION, 8),
    };
    const bool floats = dtype_is_float(found.dtype);
    const uint64_t least = carry_sums_at(found.dtype, found.lines);
    uint64_t sums = 0; /* bytes of the sums of integers */
    if (found.position > INT64_MAX || carry_room(found.dtype, found.lines) == UINT64_MAX) {
        return REFUSE(err,
                      "the carry's header says %" PRIu64 " lines at position %" PRIu64
                      ", which is beyond 2^63 elements or bytes: send it unchanged",
                      found.lines, found.position);
    }
    sums = floats ? 0 : found.lines * dtype_info(found.dtype)->bytes;
    const uint64_t most = floats ? carry_room(found.dtype, found.lines) : least + sums;
    if (count < least + sums || count > most) {
        return REFUSE(err,
                      "the carry has %" PRIu64 " bytes, but its header says %" PRIu64
                      " lines, which take %" PRIu64 " to %" PRIu64
                      ": send all of it, and nothing else",
                      count, found.lines, least + sums, most);
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
                      "the carry was made with %s %s, the part has %s: give all parts the "
                      "same value",
                      turned ? "reverse" : "exclusive", made ? "true" : "false",
                      made ? "false" : "true");
    }
    if (found->nan != part->nan) {
        static const char *const names[] = {[SCAN_NAN_PROPAGATE] = "propagate",
                                            [SCAN_NAN_ZERO] = "zero",
                                            [SCAN_NAN_SKIP] = "skip"};
        return REFUSE(err,
                      "the carry was made with nan=%s, the part has nan=%s: give all parts "
                      "the same value",
                      names[found->nan], names[part->nan]);
    }
    if (!carry_geometry(part, &lines, &elements)) {
        return STATUS_OK; /* scan_plan_make() reports the fault */
    }
    if (found->lines != lines) {
        return REFUSE(err,
                      "the carry is of %" PRIu64 " lines, the part has %" PRIu64
                      ": only the axis may differ from part to part",
                      found->lines, lines);
    }
    if (found->position > (uint64_t)INT64_MAX - elements) {
        return REFUSE(err,
                      "the carry's position is %" PRIu64 ", and the %" PRIu64
                      " elements of this part would end beyond 2^63, the limit of a tensor",
                      found->position, elements);
    }
    return STATUS_OK;
}

enum status carry_check_size(const struct scan_desc *part, uint64_t bytes, struct error *err)
{
    uint64_t lines = 0;
    uint64_t elements = 0;
    if (!carry_geometry(part, &lines, &elements)) {
        return STATUS_OK; /* scan_plan_make() reports the fault */
    }
    if (bytes < carry_sums_at(part->dtype, lines) || bytes > carry_room(part->dtype, lines)) {
        return REFUSE(err,
                      "the carry has %" PRIu64 " bytes, which is no possible size for %" PRIu64
                      " lines of %s: it is incomplete, or has another type or number of lines; "
                      "send the carry in the answer to the previous part",
                      bytes, lines, dtype_info(part->dtype)->name);
    }
    return STATUS_OK;
}

/* ---- the checksum ---- */

void carry_crc_add(struct carry_crc *crc, const unsigned char *bytes, uint64_t end)
{
    const uint64_t from = larger_of(crc->done, AT_TYPE);
    if (from < end) {
        crc->value = crc32_gzip_refl(crc->value, bytes + from, end - from);
    }
    crc->done = larger_of(end, crc->done);
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

/* ---- a line ---- */

/* Return the number of bits of a type's largest finite number, in units of its least positive
 * number. */
static unsigned largest_bits(enum dtype dtype)
{
    const struct dtype_info *info = dtype_info(dtype);
    const unsigned fraction = (unsigned)(8 * info->bytes) - 1 - (unsigned)info->exponent_bits;
    return fraction + 1 + (1U << info->exponent_bits) - 3;
}

/* Return the maximum number of bits of a sum of `position` elements, sign bit included. */
static unsigned most_bits(enum dtype dtype, uint64_t position)
{
    unsigned bits = largest_bits(dtype) + 1;
    for (; position > 0; position >>= 1) {
        bits++;
    }
    return bits;
}

/* Return the number of bits of the integer in words low to low + count - 1, sign bit included;
 * `top` is its top word. */
static unsigned used_bits(unsigned low, unsigned count, uint64_t top)
{
    const uint64_t magnitude = (int64_t)top < 0 ? ~top : top;
    unsigned bits = (low + count) * WORD_BITS;
    bits -= magnitude == 0 ? WORD_BITS - 1 : (unsigned)__builtin_clzll(magnitude) - 1;
    return bits;
}

/* Return true if the word `top` only repeats the sign of the word below. */
static bool repeats_sign(uint64_t top, uint64_t below)
{
    return top == ((int64_t)below < 0 ? UINT64_MAX : 0);
}

/* Check the descriptor of a line and its words; `left` bytes follow `words` in the carry.
 * Returns NULL if both are valid, else the fault as the end of a sentence (static text). */
static const char *line_fault(const struct carry_head *head, const unsigned char *line,
                              const unsigned char *words, uint64_t left)
{
    const unsigned flags = line[LINE_AT_FLAGS];
    const unsigned low = line[LINE_AT_LOW];
    const unsigned count = line[LINE_AT_COUNT];
    const unsigned begin = head->exclusive ? 0 : LINE_ZEROS;
    if (line[LINE_AT_ZERO] != 0 ||
        (flags != 0 && flags != LINE_NAN && flags != LINE_PLUS && flags != LINE_MINUS &&
         (flags != LINE_ZEROS || head->exclusive))) {
        return "has flags that do not exist";
    }
    if ((flags != 0 && count > 0) || (count == 0 && low != 0)) {
        return "has words that its flags leave no room for";
    }
    if (low + count > exact_sum_words(head->dtype) ||
        (head->position == 0 && (flags != begin || count > 0))) {
        return "has a sum that so few elements do not have";
    }
    if (left / WORD_BYTES < count) {
        return "has words behind the end of the carry";
    }
    if (count == 0) {
        return NULL;
    }
    const uint64_t first = little_endian_load(words, WORD_BYTES);
    const uint64_t top =
        little_endian_load(words + (size_t)(count - 1) * WORD_BYTES, WORD_BYTES);
    if (first == 0 ||
        (count > 1 &&
         repeats_sign(
             top, little_endian_load(words + (size_t)(count - 2) * WORD_BYTES, WORD_BYTES)))) {
        return "has words that add nothing to its sum";
    }
    return used_bits(low, count, top) > most_bits(head->dtype, head->position)
               ? "has a sum that so few elements do not have"
               : NULL;
}

static void line_begin(const struct carry_head *head, struct exact_sum *sum)
{
    sum->flags = head->exclusive ? EXACT_SUM_MORE : 0;
    sum->low = 0;
    sum->high = 0;
}

static void line_decode(const struct carry_head *head, const unsigned char *line,
                        const unsigned char *words, struct exact_sum *sum)
{
    const unsigned flags = line[LINE_AT_FLAGS];
    line_begin(head, sum);
    if (head->position == 0) {
        return;
    }
    sum->flags = EXACT_SUM_ANY | (flags == LINE_ZEROS ? 0 : flags | EXACT_SUM_MORE);
    sum->low = line[LINE_AT_LOW];
    sum->high = (uint8_t)(sum->low + line[LINE_AT_COUNT]);
    for (unsigned i = sum->low; i < sum->high; i++, words += WORD_BYTES) {
        sum->words[i] = little_endian_load(words, WORD_BYTES);
    }
}

/* Write the descriptor and the words of a line. `words` may overlap the sum. Returns the bytes
 * of the words. */
static size_t line_encode(const struct carry_head *head, const struct exact_sum *sum,
                          unsigned char *line, unsigned char *words)
{
    const unsigned infinities = sum->flags & (EXACT_SUM_PLUS | EXACT_SUM_MINUS);
    const bool nan =
        (sum->flags & EXACT_SUM_NAN) != 0 || infinities == (EXACT_SUM_PLUS | EXACT_SUM_MINUS);
    const bool zeros = !head->exclusive && (sum->flags & EXACT_SUM_MORE) == 0;
    const unsigned flags = nan               ? LINE_NAN
                           : infinities != 0 ? infinities
                           : zeros           ? LINE_ZEROS
                                             : 0;
    unsigned low = sum->low;
    unsigned high = sum->high;
    while (low < high && sum->words[low] == 0) {
        low++;
    }
    while (high > low + 1 && repeats_sign(sum->words[high - 1], sum->words[high - 2])) {
        high--;
    }
    const bool kept = flags == 0 && low < high;
    const size_t count = kept ? high - low : 0;
    line[LINE_AT_FLAGS] = (unsigned char)flags;
    line[LINE_AT_ZERO] = 0;
    line[LINE_AT_LOW] = (unsigned char)(kept ? low : 0);
    line[LINE_AT_COUNT] = (unsigned char)count;
    memmove(words, sum->words + low, count * WORD_BYTES); /* hosts are little-endian */
    return count * WORD_BYTES;
}

/* ---- all lines ---- */

static bool is_step(uint64_t line, const struct parallel *parallel)
{
    return line % LINES_AT_ONCE != LINES_AT_ONCE - 1 || parallel_step(parallel);
}

static enum status decode_floats(const struct carry_head *head, const unsigned char *bytes,
                                 uint64_t count, const struct parallel *parallel,
                                 unsigned char *sums, struct error *err)
{
    const size_t sum_bytes = carry_sum_bytes(head->dtype);
    uint64_t at = carry_sums_at(head->dtype, head->lines);
    const unsigned char *line = bytes + CARRY_HEADER_BYTES;
    for (uint64_t i = 0; i < head->lines; i++, line += LINE_BYTES) {
        const char *fault = line_fault(head, line, bytes + at, count - at);
        if (fault != NULL) {
            return REFUSE(err,
                          "line %" PRIu64
                          " of the carry %s: send the bytes that the answer to the "
                          "part before this one gave, unchanged",
                          i, fault);
        }
        line_decode(head, line, bytes + at, (struct exact_sum *)(void *)(sums + i * sum_bytes));
        at += (uint64_t)line[LINE_AT_COUNT] * WORD_BYTES;
        if (!is_step(i, parallel)) {
            return parallel_given_up(err);
        }
    }
    const unsigned char *words = bytes + carry_sums_at(head->dtype, head->lines);
    bool zero = true;
    for (; line < words; line++) {
        zero = zero && *line == 0;
    }
    if (at != count || !zero) {
        return REFUSE(err,
                      "the carry has %" PRIu64 " bytes, but its lines take %" PRIu64
                      ": send all of it, and nothing else",
                      count, at);
    }
    return STATUS_OK;
}

enum status carry_decode(const struct carry_head *head, const unsigned char *bytes,
                         uint64_t count, const struct parallel *parallel, void *sums,
                         struct error *err)
{
    const size_t sum_bytes = carry_sum_bytes(head->dtype);
    const size_t element = dtype_info(head->dtype)->bytes;
    unsigned char *to = sums;
    if (dtype_is_float(head->dtype)) {
        return decode_floats(head, bytes, count, parallel, to, err);
    }
    for (uint64_t i = 0; i < head->lines; i++) {
        const uint64_t sum =
            little_endian_load(bytes + CARRY_HEADER_BYTES + i * element, element);
        little_endian_store(to + i * sum_bytes, sum_bytes, sum);
        if (!is_step(i, parallel)) {
            return parallel_given_up(err);
        }
    }
    return STATUS_OK;
}

/* Add the first element of a line of floats. */
static void line_add_first(enum dtype dtype, uint64_t bits, struct exact_sum *sum)
{
    const struct dtype_info *info = dtype_info(dtype);
    const unsigned exponent_bits = (unsigned)info->exponent_bits;
    const unsigned fraction_bits = (unsigned)(8 * info->bytes) - 1 - exponent_bits;
    const uint64_t fraction = bits & ((UINT64_C(1) << fraction_bits) - 1);
    const unsigned exponent = (unsigned)(bits >> fraction_bits) & ((1U << exponent_bits) - 1);
    const bool negative = (bits >> (8 * info->bytes - 1) & 1) != 0;
    const bool finite = exponent < (1U << exponent_bits) - 1;
    const uint64_t number = fraction | (uint64_t)(exponent > 0) << fraction_bits;
    const bool negative_zero = negative && number == 0;
    sum->flags |= EXACT_SUM_ANY | (negative_zero ? 0 : EXACT_SUM_MORE);
    if (!finite) {
        sum->flags |= fraction != 0 ? EXACT_SUM_NAN
                      : negative    ? EXACT_SUM_MINUS
                                    : EXACT_SUM_PLUS;
        return;
    }
    if (number == 0) {
        return;
    }
    const unsigned place = exponent > 0 ? exponent - 1 : 0;
    const unsigned shift = place % WORD_BITS;
    const uint64_t low = number << shift;
    const uint64_t high = shift > 0 ? number >> (WORD_BITS - shift) : 0;
    unsigned at = place / WORD_BITS;
    unsigned end = at + 2; /* at most 53 bits, so the sign has room */
    sum->words[at] = negative ? 0 - low : low;
    sum->words[at + 1] = negative ? ~high + (low == 0) : high;
    at += sum->words[at] == 0;
    end -= end - at == 2 && repeats_sign(sum->words[end - 1], sum->words[at]);
    sum->low = (uint8_t)at; /* as few words as possible, which kernels require */
    sum->high = (uint8_t)end;
}

enum status carry_begin(const struct carry_head *head, const uint64_t *initial,
                        const struct parallel *parallel, void *sums, struct error *err)
{
    const size_t sum_bytes = carry_sum_bytes(head->dtype);
    const bool has_sign = dtype_info(head->dtype)->kind == DTYPE_KIND_SIGNED;
    const unsigned spare = WORD_BITS - 8 * (unsigned)dtype_info(head->dtype)->bytes;
    unsigned char *to = sums;
    for (uint64_t i = 0; i < head->lines; i++, to += sum_bytes) {
        if (dtype_is_float(head->dtype)) {
            struct exact_sum *sum = (struct exact_sum *)(void *)to;
            line_begin(head, sum);
            if (initial != NULL) {
                line_add_first(head->dtype, *initial, sum);
            }
        } else {
            const uint64_t bits = initial != NULL ? *initial << spare : 0;
            little_endian_store(to, sum_bytes,
                                has_sign ? (uint64_t)((int64_t)bits >> spare) : bits >> spare);
        }
        if (!is_step(i, parallel)) {
            return parallel_given_up(err);
        }
    }
    return STATUS_OK;
}

static void write_head(const struct carry_head *head, unsigned char *bytes)
{
    memset(bytes, 0, CARRY_HEADER_BYTES);
    memcpy(bytes + AT_MAGIC, CARRY_MAGIC, CARRY_MAGIC_BYTES);
    little_endian_store(bytes + AT_VERSION, 4, CARRY_VERSION);
    bytes[AT_TYPE] = (unsigned char)(head->dtype + 1);
    bytes[AT_FLAGS] = (unsigned char)((head->exclusive ? FLAG_EXCLUSIVE : 0) |
                                      (head->reverse ? FLAG_REVERSE : 0) |
                                      (head->nan == SCAN_NAN_ZERO   ? FLAG_NAN_ZERO
                                       : head->nan == SCAN_NAN_SKIP ? FLAG_NAN_SKIP
                                                                    : 0));
    little_endian_store(bytes + AT_LINES, 8, head->lines);
    little_endian_store(bytes + CARRY_AT_POSITION, 8, head->position);
}

/* Encoding in place is safe: the words of a line take no more bytes than its struct exact_sum,
 * so the words end before the sum of the next line. */
enum status carry_encode(const struct carry_head *head, unsigned char *bytes,
                         const struct parallel *parallel, uint64_t *count, struct error *err)
{
    const bool floats = dtype_is_float(head->dtype);
    const size_t sum_bytes = carry_sum_bytes(head->dtype);
    const size_t element = dtype_info(head->dtype)->bytes;
    const uint64_t from = carry_sums_at(head->dtype, head->lines);
    struct carry_crc crc = {.done = 0};
    uint64_t at = from;
    write_head(head, bytes);
    if (floats && head->lines > 0) { /* zero the padding behind the last descriptor, if any */
        memset(bytes + from - LINE_BYTES, 0, LINE_BYTES);
    }
    for (uint64_t i = 0; i < head->lines; i++) {
        unsigned char *sum = bytes + from + i * sum_bytes;
        if (floats) {
            at += line_encode(head, (const struct exact_sum *)(void *)sum,
                              bytes + CARRY_HEADER_BYTES + i * LINE_BYTES, bytes + at);
        } else {
            memmove(bytes + at, sum, element);
            at += element;
        }
        if (!is_step(i, parallel)) {
            return parallel_given_up(err);
        }
    }
    while (crc.done < at) {
        carry_crc_add(&crc, bytes, smaller_of(at, crc.done + PARALLEL_STEP_BYTES));
        if (crc.done < at && !parallel_step(parallel)) {
            return parallel_given_up(err);
        }
    }
    little_endian_store(bytes + AT_CRC, 4, crc.value);
    *count = at;
    return STATUS_OK;
}
