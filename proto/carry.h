/* The carry of a tensor that is summed in parts along its axis: the exact sum of each line so
 * far, in the form in which requests and answers transfer it. docs/carry.md defines the layout.
 *
 *     floats    [ header, 64 bytes ][ a descriptor a line ][ words of all lines ]
 *     integers  [ header, 64 bytes ][ a sum a line        ]
 *
 * Equal sums have equal bytes. Kernels need each sum in memory of a fixed size
 * (carry_sum_bytes()); carry_decode() and carry_encode() convert between the two forms.
 *
 * A client may send any bytes as a carry. The header is checked against the request, the CRC-32
 * over the whole carry detects damage, and no line may have more bits than the sum of
 * `position` elements can have. A carefully forged carry passes the checks, but only falsifies
 * the sums of its sender.
 *
 * Failures: INVALID_DATA with the field "carry" and a sentence that states the mismatch and the
 * remedy; CLIENT_GONE if `parallel` gives up. Functions keep no pointer that they are given;
 * the caller owns all memory. Thread: any. */
#ifndef TALLY_PROTO_CARRY_H
#define TALLY_PROTO_CARRY_H

#include "proto/exact_sum.h"
#include "proto/parallel.h"
#include "proto/scan_desc.h"
#include "proto/status.h"

#include <stddef.h>

#define CARRY_MAGIC "TALLYSUM" /* first bytes of a carry */

enum {
    CARRY_MAGIC_BYTES = sizeof CARRY_MAGIC - 1,
    CARRY_AT_POSITION = 32, /* byte offset in the header; little-endian uint64 */
    CARRY_HEADER_BYTES = 64,
    CARRY_VERSION = 2
};

/* The decoded header of a carry. */
struct carry_head {
    enum dtype dtype;
    bool exclusive;
    bool reverse;
    enum scan_nan nan;
    uint64_t lines;
    uint64_t position; /* elements of each line in the sums, the initial value among them */
};

/* Convert "first", "next" or "last" to *part.
 * err   INVALID_FIELD, with `field` as its field: the text is none of these */
MUST_CHECK enum status carry_part(const char *field, const char *text, enum scan_part *part,
                                  struct error *err);

/* carry_sums_at(): bytes from the start of a carry to the words (floats) or sums (integers) of
 * its lines. carry_room(): bytes of the memory that carry_encode() needs; no carry is longer.
 * Both return UINT64_MAX if the value would exceed INT64_MAX. */
uint64_t carry_sums_at(enum dtype dtype, uint64_t lines);
uint64_t carry_room(enum dtype dtype, uint64_t lines);

/* Compute the number of lines of the tensor and of elements along its axis. Returns false for a
 * geometry that scan_plan_make() refuses, or if the number of lines exceeds 64 bits. */
bool carry_geometry(const struct scan_desc *desc, uint64_t *lines, uint64_t *elements);

/* Return an upper bound, in bytes, of the carry in the answer to a part, or to a request for
 * totals. 0: the answer has no carry. UINT64_MAX: the bound exceeds INT64_MAX. */
uint64_t carry_answer_most(const struct scan_desc *desc, bool totals);

/* Return the size in bytes of the carry that carry_answer_most() bounds, for ordinary data:
 * three words a line, or fewer if the type has fewer. */
uint64_t carry_answer_usual(const struct scan_desc *desc, bool totals);

/* Check that a carry of `bytes` bytes can precede the part.
 * err   INVALID_DATA: no carry for the part's type and number of lines has this size */
MUST_CHECK enum status carry_check_size(const struct scan_desc *part, uint64_t bytes,
                                        struct error *err);

/* Decode the header of a carry of `count` bytes into *head. Only the first CARRY_HEADER_BYTES
 * bytes at `bytes` are read. The function checks the header without a request, and `count`
 * against the bounds that follow from the header.
 * err   INVALID_DATA */
MUST_CHECK enum status carry_read_head(const unsigned char *bytes, uint64_t count,
                                       struct carry_head *head, struct error *err);

/* Check that a carry with this header can precede the part: equal type, flags and number of
 * lines, and a position that leaves room for the elements of the part. A geometry that
 * scan_plan_make() refuses passes; scan_plan_make() reports the fault.
 * err   INVALID_DATA */
MUST_CHECK enum status carry_check_head(const struct carry_head *found,
                                        const struct scan_desc *part, struct error *err);

/* The CRC-32 of a carry that arrives in pieces. All zero: no bytes yet. carry_crc_add() extends
 * the checksum to the bytes before `end`; `bytes` is the start of the carry. */
struct carry_crc {
    uint64_t done;  /* bytes of the carry processed so far */
    uint32_t value; /* CRC-32 of these bytes, without the first 16 */
};
void carry_crc_add(struct carry_crc *crc, const unsigned char *bytes, uint64_t end);

/* Compare the CRC-32 of a complete carry with the value in its header. The first crc->done
 * bytes were already added to *crc.
 * err   INVALID_DATA: the carry is damaged; CLIENT_GONE: `parallel` gave up */
MUST_CHECK enum status carry_check_crc(struct carry_crc *crc, const unsigned char *bytes,
                                       uint64_t count, const struct parallel *parallel,
                                       struct error *err);

/* Decode a carry whose header and CRC-32 were checked: write the sum of each line, in the form
 * that kernels use, to head->lines * carry_sum_bytes() bytes at `sums`. `sums` is aligned to 8
 * and does not overlap the carry; its content is undefined after a failure.
 * err   INVALID_DATA; CLIENT_GONE: `parallel` gave up */
MUST_CHECK enum status carry_decode(const struct carry_head *head, const unsigned char *bytes,
                                    uint64_t count, const struct parallel *parallel, void *sums,
                                    struct error *err);

/* Write the first sum of each line to `sums`, in the form of carry_decode(). initial: the bits
 * of one element that every line has so far; NULL: the lines have no element.
 * err   CLIENT_GONE: `parallel` gave up */
MUST_CHECK enum status carry_begin(const struct carry_head *head, const uint64_t *initial,
                                   const struct parallel *parallel, void *sums,
                                   struct error *err);

/* Encode a carry in place. `bytes` has carry_room() bytes, is aligned to 8, and contains the
 * sums of the lines from offset carry_sums_at() on. *count: bytes of the carry, header
 * included. The content of `bytes` is undefined after a failure.
 * err   CLIENT_GONE: `parallel` gave up */
MUST_CHECK enum status carry_encode(const struct carry_head *head, unsigned char *bytes,
                                    const struct parallel *parallel, uint64_t *count,
                                    struct error *err);

#endif
