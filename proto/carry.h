/* The carry of a tensor that is summed in parts along its axis: the exact sum of each line so far,
 * as it travels with requests. docs/carry.md has the layout, byte by byte.
 *
 *     floats    [ header, 64 bytes ][ a descriptor a line ][ words of all lines ]
 *     integers  [ header, 64 bytes ][ a sum a line        ]
 *
 * Equal sums have equal bytes. Kernels want a sum in a place of fixed size (carry_sum_bytes()):
 * carry_decode() and carry_encode() turn one form into the other.
 *
 * A client may send anything as a carry: its header is checked against the request, a CRC-32 over
 * all of it finds what was damaged, and no line may have more bits than so many elements can sum up
 * to. A carry that was forged with care passes, and spoils the sums of its sender alone. Possible
 * failures: INVALID_DATA, with the field "carry" and a sentence that says what does not fit and how
 * to mend it. Thread: any. */
#ifndef TALLY_PROTO_CARRY_H
#define TALLY_PROTO_CARRY_H

#include "proto/exact_sum.h"
#include "proto/parallel.h"
#include "proto/scan_desc.h"
#include "proto/status.h"

#include <stddef.h>

#define CARRY_MAGIC "TALLYSUM" /* its first bytes */

enum {
    CARRY_MAGIC_BYTES = sizeof CARRY_MAGIC - 1,
    CARRY_AT_POSITION = 32, /* in the header, little-endian int64 */
    CARRY_HEADER_BYTES = 64,
    CARRY_VERSION = 2
};

/* What a header says, and what a request expects of it. */
struct carry_head {
    enum dtype dtype;
    bool exclusive;
    bool reverse;
    enum scan_nan nan;
    uint64_t lines;
    uint64_t
        position; /* elements of each line that were summed, the initial value among them */
};

/* "first", "next" or "last".
 * err   INVALID_FIELD: `field` is to blame */
MUST_CHECK enum status carry_part(const char *field, const char *text, enum scan_part *part,
                                  struct error *err);

/* Bytes from the start of a carry to the words of its lines (floats) or their sums (integers), and
 * of the memory in which carry_encode() makes one. UINT64_MAX: more than INT64_MAX. */
uint64_t carry_sums_at(enum dtype dtype, uint64_t lines);
uint64_t carry_room(enum dtype dtype, uint64_t lines);

/* Lines of the tensor and elements along its axis. False for a geometry that scan_plan_make()
 * refuses, or with more lines than 64 bits count. */
bool carry_geometry(const struct scan_desc *desc, uint64_t *lines, uint64_t *elements);

/* Most bytes of the carry in the answer to a part, or to a request for totals. UINT64_MAX: too
 * many. 0: there is none. */
uint64_t carry_answer_most(const struct scan_desc *desc, bool totals);

/* Bytes of that carry for ordinary data: words of three a line. */
uint64_t carry_answer_usual(const struct scan_desc *desc, bool totals);

/* Could a carry of so many bytes go before the part?
 * err   INVALID_DATA */
MUST_CHECK enum status carry_check_size(const struct scan_desc *part, uint64_t bytes,
                                        struct error *err);

/* Read the header of a carry of `count` bytes, of which at least the first CARRY_HEADER_BYTES
 * are there, and check it by itself, and the length as far as the header tells it.
 * err INVALID_DATA */
MUST_CHECK enum status carry_read_head(const unsigned char *bytes, uint64_t count,
                                       struct carry_head *head, struct error *err);

/* Whether the carry goes before a part that is described so.
 * err   INVALID_DATA */
MUST_CHECK enum status carry_check_head(const struct carry_head *found,
                                        const struct scan_desc *part, struct error *err);

/* The CRC-32 of a carry as its bytes come: those before `done` are in it. */
struct carry_crc {
    uint64_t done;
    uint32_t value;
};
void carry_crc_add(struct carry_crc *crc, const unsigned char *bytes, uint64_t end);

/* The carry is there with all its bytes, the first crc->done of which are in the sum already.
 * err   INVALID_DATA: it was damaged; CLIENT_GONE: given up by `parallel` */
MUST_CHECK enum status carry_check_crc(struct carry_crc *crc, const unsigned char *bytes,
                                       uint64_t count, const struct parallel *parallel,
                                       struct error *err);

/* Turn a carry whose header and CRC-32 were checked into one sum for each line, as kernels have
 * them: head->lines * carry_sum_bytes() bytes at `sums`, aligned to 8, apart from the carry.
 * err   INVALID_DATA; CLIENT_GONE: given up by `parallel` */
MUST_CHECK enum status carry_decode(const struct carry_head *head, const unsigned char *bytes,
                                    uint64_t count, const struct parallel *parallel, void *sums,
                                    struct error *err);

/* The sums of lines that nothing was added to but `initial`, an element's bits; NULL: nothing at
 * all. */
MUST_CHECK enum status carry_begin(const struct carry_head *head, const uint64_t *initial,
                                   const struct parallel *parallel, void *sums,
                                   struct error *err);

/* Make the carry in place: `bytes` has carry_room() bytes, aligned to 8, and the sums of the lines
 * from carry_sums_at() on. *count: bytes of the carry, header and CRC-32 included.
 * err   CLIENT_GONE: given up by `parallel` */
MUST_CHECK enum status carry_encode(const struct carry_head *head, unsigned char *bytes,
                                    const struct parallel *parallel, uint64_t *count,
                                    struct error *err);

#endif
