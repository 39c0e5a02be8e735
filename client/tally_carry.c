/* The check of carries, and their addition: tally_carry_add().
 *
 *   header copied -> lines added -> CRC-32 computed
 *
 * Integers are added modulo 2^n. Exact sums of floats are added word by word, in two's
 * complement, and reduced to the shortest form, so that equal sums have equal bytes. The size
 * of the result is known only after the addition. So floats are added twice: first to measure
 * the result, then to write it.
 *
 * Possible failures: TALLY_INVALID_ARGUMENT for bytes that are not a carry, or for carries of
 * different scans; TALLY_OUT_OF_MEMORY. The carries are then unchanged. Thread: any. */
#include "client/carry.h"

#include "client/scan.h"
#include "proto/carry.h"
#include "proto/dtype.h"
#include "proto/little_endian.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    AT_VERSION = 8,
    AT_CRC = 12,
    AT_TYPE = 16, /* first byte that the CRC-32 covers */
    AT_FLAGS = 18,
    AT_LINES = 24,
    FLAG_EXCLUSIVE = 1,
    FLAG_REVERSE = 2,
    FLAG_NAN_ZERO = 4, /* floats only; not together with FLAG_NAN_SKIP */
    FLAG_NAN_SKIP = 8,
    LINE_BYTES = 4, /* bytes of a line's descriptor */
    WORD_BYTES = 8,
    INFINITE = EXACT_SUM_PLUS | EXACT_SUM_MINUS,
    NEGATIVE_ZERO = 8
};

/* The exact sum of a line of floats: its descriptor, and its words in the carry. */
struct line {
    unsigned flags;
    unsigned low;               /* index of the first stored word; lower words are 0 */
    unsigned count;             /* number of stored words */
    const unsigned char *words; /* borrowed, [count]; NULL in a result */
};

static enum dtype type_of(const unsigned char *carry)
{
    return (enum dtype)(carry[AT_TYPE] - 1);
}

static uint64_t lines_of(const unsigned char *carry)
{
    return little_endian_load(carry + AT_LINES, sizeof(uint64_t));
}

static uint64_t position_of(const unsigned char *carry)
{
    return little_endian_load(carry + CARRY_AT_POSITION, sizeof(uint64_t));
}

/* Return the offset of the first line's words: behind the header, and the descriptors padded to
 * a multiple of WORD_BYTES. `lines` is below 2^60. */
static uint64_t words_begin(uint64_t lines)
{
    return CARRY_HEADER_BYTES + (lines * LINE_BYTES + WORD_BYTES - 1) / WORD_BYTES * WORD_BYTES;
}

uint64_t carry_bytes_most(enum tally_dtype dtype, uint64_t lines)
{
    const bool is_float = dtype_is_float((enum dtype)dtype);
    const uint64_t line = is_float
                              ? LINE_BYTES + WORD_BYTES * exact_sum_words((enum dtype)dtype)
                              : tally_dtype_bytes(dtype);
    uint64_t most = 0;
    return __builtin_mul_overflow(lines, line, &most) ||
                   __builtin_add_overflow(most, CARRY_HEADER_BYTES + WORD_BYTES, &most)
               ? UINT64_MAX
               : most;
}

/* Return the CRC-32 of zlib, computed four bits at a time. */
static uint32_t crc_of(const unsigned char *bytes, uint64_t count)
{
    static const uint32_t table[16] = {0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC,
                                       0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
                                       0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
                                       0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};
    uint32_t crc = UINT32_MAX;
    for (uint64_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

/* ---- the check ---- */

static uint64_t word_at(const struct line *line, unsigned i)
{
    return little_endian_load(line->words + (size_t)WORD_BYTES * i, WORD_BYTES);
}

/* Return the word that extends `word` by its sign: all bits 0 or all bits 1. */
static uint64_t sign_of(uint64_t word)
{
    return word >> 63 != 0 ? UINT64_MAX : 0;
}

/* Return line `i` of a carry. `words`: first word of the line. */
static struct line line_at(const unsigned char *carry, uint64_t i, const unsigned char *words)
{
    const unsigned char *descriptor = carry + CARRY_HEADER_BYTES + i * LINE_BYTES;
    return (struct line){descriptor[0], descriptor[2], descriptor[3], words};
}

/* Return whether a line is in the shortest form, the only form that docs/carry.md allows.
 * `most`: largest number of words for the type. */
static bool line_is_shortest(const struct line *line, bool exclusive, size_t most)
{
    const bool one_flag = line->flags == 0 || line->flags == EXACT_SUM_NAN ||
                          line->flags == EXACT_SUM_PLUS || line->flags == EXACT_SUM_MINUS ||
                          (line->flags == NEGATIVE_ZERO && !exclusive);
    if (!one_flag || line->low + line->count > most) {
        return false;
    }
    if (line->count == 0 || line->flags != 0) {
        return line->count == 0 && line->low == 0;
    }
    const uint64_t top = word_at(line, line->count - 1);
    return word_at(line, 0) != 0 &&
           (line->count == 1 || top != sign_of(word_at(line, line->count - 2)));
}

static bool floats_are_whole(const unsigned char *carry, uint64_t count)
{
    const uint64_t lines = lines_of(carry);
    const bool exclusive = (carry[AT_FLAGS] & FLAG_EXCLUSIVE) != 0;
    const size_t most = exact_sum_words(type_of(carry));
    if (lines > count / LINE_BYTES || words_begin(lines) > count) {
        return false;
    }
    uint64_t at = words_begin(lines);
    for (uint64_t i = CARRY_HEADER_BYTES + lines * LINE_BYTES; i < at; i++) {
        if (carry[i] != 0) {
            return false;
        }
    }
    for (uint64_t i = 0; i < lines; i++) {
        const struct line line = line_at(carry, i, carry + at);
        const uint64_t bytes = (uint64_t)WORD_BYTES * line.count;
        if (bytes > count - at || carry[CARRY_HEADER_BYTES + i * LINE_BYTES + 1] != 0 ||
            !line_is_shortest(&line, exclusive, most)) {
            return false;
        }
        at += bytes;
    }
    return at == count;
}

static bool integers_are_whole(const unsigned char *carry, uint64_t count)
{
    const size_t element = dtype_info(type_of(carry))->bytes;
    const uint64_t payload = count - CARRY_HEADER_BYTES;
    return payload % element == 0 && payload / element == lines_of(carry);
}

static bool flags_exist(const unsigned char *carry)
{
    const unsigned of_nan = carry[AT_FLAGS] & ~(unsigned)(FLAG_EXCLUSIVE | FLAG_REVERSE);
    return of_nan == 0 || (dtype_is_float(type_of(carry)) &&
                           (of_nan == FLAG_NAN_ZERO || of_nan == FLAG_NAN_SKIP));
}

static bool header_is_right(const unsigned char *carry)
{
    static const unsigned char zero[CARRY_HEADER_BYTES];
    return carry[AT_TYPE] >= 1 && carry[AT_TYPE] <= DTYPE_COUNT && carry[AT_TYPE + 1] == 0 &&
           flags_exist(carry) &&
           memcmp(carry + AT_FLAGS + 1, zero, AT_LINES - AT_FLAGS - 1) == 0 &&
           position_of(carry) <= INT64_MAX &&
           memcmp(carry + CARRY_AT_POSITION + 8, zero,
                  CARRY_HEADER_BYTES - CARRY_AT_POSITION - 8) == 0;
}

enum tally_status carry_check(const struct tally_carry *carry, enum tally_status status,
                              struct tally_error *err)
{
    const unsigned char *bytes = carry->bytes;
    const uint64_t count = carry->count;
    if (bytes == NULL || count < CARRY_HEADER_BYTES ||
        memcmp(bytes, CARRY_MAGIC, CARRY_MAGIC_BYTES) != 0) {
        return client_error_set(err, status,
                                "these %" PRIu64 " bytes are not a carry: the header of a "
                                "carry is missing",
                                count);
    }
    const uint32_t version = (uint32_t)little_endian_load(bytes + AT_VERSION, 4);
    if (version != CARRY_VERSION) {
        return client_error_set(err, status, "the carry is of version %" PRIu32 ", expected %d",
                                version, CARRY_VERSION);
    }
    if (little_endian_load(bytes + AT_CRC, 4) != crc_of(bytes + AT_TYPE, count - AT_TYPE)) {
        return client_error_set(err, status,
                                "the carry was damaged: its CRC-32 is not that of its bytes");
    }
    if (!header_is_right(bytes) ||
        !(dtype_is_float(type_of(bytes)) ? floats_are_whole : integers_are_whole)(bytes,
                                                                                  count)) {
        return client_error_set(err, status,
                                "the carry does not have the form of docs/carry.md: give it "
                                "as the server answered it");
    }
    return TALLY_OK;
}

bool carry_is_behind(const struct tally_carry *carry, const struct tally_scan *scan,
                     uint64_t lines)
{
    static const unsigned of_nan[] = {[TALLY_NAN_PROPAGATE] = 0,
                                      [TALLY_NAN_ZERO] = FLAG_NAN_ZERO,
                                      [TALLY_NAN_SKIP] = FLAG_NAN_SKIP};
    const unsigned char *bytes = carry->bytes;
    const enum dtype dtype = (enum dtype)scan_output_dtype(scan);
    const uint64_t elements =
        (uint64_t)scan->sizes[scan_axis(scan)] + (scan->initial != NULL ? 1 : 0);
    const unsigned flags = (scan->exclusive != 0 ? FLAG_EXCLUSIVE : 0) |
                           (scan->reverse != 0 ? FLAG_REVERSE : 0) |
                           (dtype_is_float(dtype) ? of_nan[scan->nan] : 0);
    return type_of(bytes) == dtype && bytes[AT_FLAGS] == flags && lines_of(bytes) == lines &&
           position_of(bytes) == elements;
}

/* ---- the sum ---- */

/* Return word i of a line's sum. Words below the stored ones are 0; words above extend the
 * sign. */
static uint64_t sum_word(const struct line *line, unsigned i)
{
    const unsigned end = line->low + line->count;
    if (line->count == 0 || i < line->low) {
        return 0;
    }
    return i < end ? word_at(line, i - line->low) : sign_of(word_at(line, line->count - 1));
}

/* Add two finite sums. Stores the words of the result in its shortest form, and the index of
 * the first of them in *low. Returns their number. */
static unsigned add_words(const struct line *a, const struct line *b, unsigned *low,
                          uint64_t words[EXACT_SUM_WORDS_MAX + 1])
{
    const unsigned end_a = a->low + a->count;
    const unsigned end_b = b->low + b->count;
    unsigned end = (end_a > end_b ? end_a : end_b) + 1;
    unsigned begin = 0;
    bool carry = false;
    for (unsigned i = 0; i < end; i++) {
        const uint64_t word = sum_word(a, i);
        const uint64_t sum = word + sum_word(b, i);
        words[i] = sum + carry;
        carry = sum < word || words[i] < sum;
    }
    while (end > 1 && words[end - 1] == sign_of(words[end - 2])) {
        end--;
    }
    while (begin < end && words[begin] == 0) {
        begin++;
    }
    *low = begin < end ? begin : 0;
    for (unsigned i = begin; i < end; i++) {
        words[i - begin] = words[i];
    }
    return end - begin;
}

/* Add two lines. The words of *sum are stored in `words`. */
static void add_lines(const struct line *a, const struct line *b, struct line *sum,
                      uint64_t words[EXACT_SUM_WORDS_MAX + 1])
{
    const unsigned special = (a->flags | b->flags) & (EXACT_SUM_NAN | INFINITE);
    *sum = (struct line){.flags = a->flags & b->flags & NEGATIVE_ZERO};
    if (special != 0) { /* infinities of both signs add up to NaN */
        const bool nan = (special & EXACT_SUM_NAN) != 0 || special == INFINITE;
        sum->flags = nan ? EXACT_SUM_NAN : special;
        return;
    }
    sum->count = add_words(a, b, &sum->low, words);
}

/* Add the lines of two carries of floats, and write the result after the header at `to`; if
 * `to` is NULL, only compute the size. Returns the bytes of the result with its header; 0 if a
 * line has more words than its type allows. */
static uint64_t add_floats(const unsigned char *a, const unsigned char *b, unsigned char *to)
{
    const uint64_t lines = lines_of(a);
    const size_t most = exact_sum_words(type_of(a));
    uint64_t at = words_begin(lines);
    const unsigned char *words_a = a + at;
    const unsigned char *words_b = b + at;
    if (to != NULL) {
        memset(to + CARRY_HEADER_BYTES, 0, at - CARRY_HEADER_BYTES);
    }
    for (uint64_t i = 0; i < lines; i++) {
        const struct line line_a = line_at(a, i, words_a);
        const struct line line_b = line_at(b, i, words_b);
        uint64_t words[EXACT_SUM_WORDS_MAX + 1];
        struct line sum;
        add_lines(&line_a, &line_b, &sum, words);
        if (sum.low + sum.count > most) {
            return 0;
        }
        if (to != NULL) {
            unsigned char *descriptor = to + CARRY_HEADER_BYTES + i * LINE_BYTES;
            descriptor[0] = (unsigned char)sum.flags;
            descriptor[2] = (unsigned char)sum.low;
            descriptor[3] = (unsigned char)sum.count;
            for (unsigned w = 0; w < sum.count; w++) {
                little_endian_store(to + at + (size_t)WORD_BYTES * w, WORD_BYTES, words[w]);
            }
        }
        at += (uint64_t)WORD_BYTES * sum.count;
        words_a += (size_t)WORD_BYTES * line_a.count;
        words_b += (size_t)WORD_BYTES * line_b.count;
    }
    return at;
}

static void add_integers(const unsigned char *a, const unsigned char *b, unsigned char *to,
                         uint64_t count)
{
    const size_t element = dtype_info(type_of(a))->bytes;
    for (uint64_t at = CARRY_HEADER_BYTES; at < count; at += element) {
        const uint64_t sum =
            little_endian_load(a + at, element) + little_endian_load(b + at, element);
        little_endian_store(to + at, element, sum);
    }
}

enum tally_status tally_carry_add(struct tally_carry *sum, const struct tally_carry *more,
                                  struct tally_error *err)
{
    client_error_reset(err);
    if (sum == NULL || more == NULL) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT, "sum or more is NULL");
    }
    CLIENT_TRY(carry_check(more, TALLY_INVALID_ARGUMENT, err));
    const unsigned char *b = more->bytes;
    const unsigned char *a = sum->bytes;
    uint64_t count = more->count;
    uint64_t position = position_of(b);
    bool is_float = false;
    if (a != NULL) {
        CLIENT_TRY(carry_check(sum, TALLY_INVALID_ARGUMENT, err));
        position += position_of(a);
        is_float = dtype_is_float(type_of(a));
        if (memcmp(a + AT_TYPE, b + AT_TYPE, CARRY_AT_POSITION - AT_TYPE) != 0) {
            return client_error_set(err, TALLY_INVALID_ARGUMENT,
                                    "the carries differ in type, exclusive, reverse, nan or "
                                    "number of lines");
        }
        count = is_float ? add_floats(a, b, NULL) : count;
    }
    if (position > INT64_MAX || count == 0) {
        return client_error_set(
            err, TALLY_INVALID_ARGUMENT,
            "together the carries have more than 2^63 - 1 elements, or sums "
            "that no such elements have");
    }
    unsigned char *made = malloc((size_t)count);
    if (made == NULL) {
        return client_error_no_memory(err);
    }
    memcpy(made, b, a != NULL ? CARRY_HEADER_BYTES : (size_t)count);
    little_endian_store(made + CARRY_AT_POSITION, sizeof position, position);
    if (is_float) {
        (void)add_floats(a, b, made);
    } else if (a != NULL) {
        add_integers(a, b, made, count);
    }
    little_endian_store(made + AT_CRC, 4, crc_of(made + AT_TYPE, count - AT_TYPE));
    free(sum->bytes);
    *sum = (struct tally_carry){made, count};
    return TALLY_OK;
}

void tally_carry_free(struct tally_carry *carry)
{
    if (carry != NULL) {
        free(carry->bytes);
        *carry = (struct tally_carry){NULL, 0};
    }
}
