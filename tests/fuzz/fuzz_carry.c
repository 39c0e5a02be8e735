/* libFuzzer target: carries in front of raw and NPY requests and as base64, and offsets in
 * front of requests.
 *
 *     byte 0: flags   1-2: length of the carry, little-endian   query up to a newline   body
 *
 * Flags: 1 the carry's CRC-32 is corrected, so that the code behind the check is reached; 2
 * NPY; 4 totals; 8 the answer is JSON; 16 offsets instead of a carry. */
#include "proto/base64.h"
#include "proto/offsets.h"
#include "tests/fuzz/fuzz_input.h"

#include <zlib.h>

enum {
    CARRY_MENDED = 1,
    CARRY_NPY = 2,
    CARRY_TOTALS = 4,
    CARRY_TO_JSON = 8,
    CARRY_OFFSETS = 16,
    CARRY_PREFIX = 3,
    CARRY_MOST = 1 << 20 /* largest number of decoded bytes */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Encoded bytes must decode to themselves; other bytes must be refused, or decode to no more
 * bytes than the buffer holds. */
static void check_base64(const struct byte_view bytes)
{
    struct error err = ERROR_INIT;
    size_t count = 0;
    char *text = malloc(base64_size(bytes.count) + 1);
    unsigned char *back = malloc(base64_size(bytes.count) / 4 * 3 + 3);
    unsigned char *other = malloc(bytes.count / 4 * 3 + 3);
    REQUIRE(text != NULL && back != NULL && other != NULL);
    base64_encode(bytes.bytes, bytes.count, text);
    const struct json_cut written = {text, base64_size(bytes.count)};
    REQUIRE(base64_decode("carry", written, NULL, back, &count, &err) == STATUS_OK);
    REQUIRE(count == bytes.count && (count == 0 || memcmp(back, bytes.bytes, count) == 0));
    const struct json_cut anything = {bytes.bytes, bytes.count};
    if (base64_decode("carry", anything, NULL, other, &count, &err) == STATUS_OK) {
        REQUIRE(count <= bytes.count / 4 * 3 + 3);
    }
    free(text);
    free(back);
    free(other);
}

/* An accepted carry is canonical: encoding it again gives the same bytes. */
static void check_carry(const unsigned char *carry, size_t count)
{
    struct carry_head head;
    struct error err = ERROR_INIT;
    if (count < CARRY_HEADER_BYTES || carry_read_head(carry, count, &head, &err) != STATUS_OK) {
        return;
    }
    const uint64_t room = carry_room(head.dtype, head.lines);
    REQUIRE(room != UINT64_MAX && count <= room);
    unsigned char *again = room <= CARRY_MOST ? calloc(1, (size_t)room) : NULL;
    unsigned char *sums = again != NULL ? again + carry_sums_at(head.dtype, head.lines) : NULL;
    if (again != NULL && carry_decode(&head, carry, count, NULL, sums, &err) == STATUS_OK) {
        uint64_t made = 0;
        REQUIRE(carry_encode(&head, again, NULL, &made, &err) == STATUS_OK);
        REQUIRE(made == count);
        memcpy(again + 12, carry + 12, 4); /* the CRC-32 may have been wrong */
        REQUIRE(memcmp(again, carry, count) == 0);
    }
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input;
    struct run run;
    if (size < CARRY_PREFIX ||
        !fuzz_split(data + CARRY_PREFIX - 1, size - CARRY_PREFIX + 1, true, &input)) {
        return 0;
    }
    const unsigned flags = data[0];
    const uint64_t front = (uint64_t)data[1] | (uint64_t)data[2] << 8;
    const bool offsets = (flags & CARRY_OFFSETS) != 0;
    const struct run_ask ask = {
        .answer_format = (flags & CARRY_TO_JSON) != 0 ? CODEC_FORMAT_JSON : CODEC_FORMAT_RAW,
        .carry_bytes = offsets ? 0 : front,
        .totals = (flags & CARRY_TOTALS) != 0,
        .offsets_bytes = offsets ? front : 0};
    const size_t carry =
        ask.carry_bytes < input.body.count ? (size_t)ask.carry_bytes : input.body.count;
    unsigned char *body = run_copy(input.body.bytes, input.body.count);
    REQUIRE(body != NULL);
    if ((flags & CARRY_MENDED) != 0 && carry >= CARRY_HEADER_BYTES) {
        const uint32_t sum = (uint32_t)crc32(0, body + 16, (uInt)(carry - 16));
        for (int i = 0; i < 4; i++) {
            body[12 + i] = (unsigned char)(sum >> 8 * i);
        }
    }
    check_base64((struct byte_view){body, carry});
    check_carry(body, carry);
    run_asked(codec_cumsum((flags & CARRY_NPY) != 0 ? CODEC_FORMAT_NPY : CODEC_FORMAT_RAW),
              input.query, ask, (struct byte_view){body, input.body.count}, &run);
    fuzz_check(&run);
    REQUIRE(run.status != STATUS_OK || ask.carry_bytes == 0 ||
            run.call.carry.bytes == ask.carry_bytes);
    REQUIRE(run.status != STATUS_OK || ask.offsets_bytes == 0 ||
            run.call.desc.segments + 1 == ask.offsets_bytes / OFFSET_BYTES);
    run_deinit(&run);
    free(body);
    return 0;
}
