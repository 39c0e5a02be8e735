/* The carry of a tensor that is summed in parts along its axis: what its lines sum up to so far,
 * as it travels with the requests. docs/carry.md has the layout, byte by byte.
 *
 *     [ header, 64 bytes ][ S: lines sums ][ B: lines sums ][ held elements: planes of lines ]
 *                         [ one plane of sums             ]            integers
 *
 * A carry comes from a client, and nothing in it is believed: its header is checked against its
 * length, then against the request, and a CRC-32 over all of it finds what was damaged. A carry
 * that was forged with care passes: it can only spoil the sums of who sends it, for its length
 * follows from lines and position. Possible failures: INVALID_DATA, whose field is "carry" and
 * whose sentence says what does not fit and how to mend it. Thread: any. */
#ifndef TALLY_PROTO_CARRY_H
#define TALLY_PROTO_CARRY_H

#include "proto/parallel.h"
#include "proto/scan_desc.h"
#include "proto/status.h"

#include <stddef.h>

#define CARRY_MAGIC "TALLYSUM" /* its first bytes */

enum {
    CARRY_MAGIC_BYTES = sizeof CARRY_MAGIC - 1,
    CARRY_AT_POSITION = 32, /* in the header, little-endian int64 */
    CARRY_HEADER_BYTES = 64,
    CARRY_VERSION = 1
};

/* What a header says, and what a request expects of it. */
struct carry_head {
    enum dtype dtype;
    bool exclusive;
    bool reverse;
    uint64_t lines;
    uint64_t position; /* elements of each line that were summed */
};

/* "first", "next" or "last".
 * err   INVALID_FIELD: `field` is to blame */
MUST_CHECK enum status carry_part(const char *field, const char *text, enum scan_part *part,
                                  struct error *err);

/* The type of one sum in S, B or an integer's plane. */
enum dtype carry_sum_dtype(enum dtype dtype);

/* Elements of each line that a carry holds besides the sums. */
uint64_t carry_held(enum dtype dtype, uint64_t position);

/* Bytes of a carry. False: more than INT64_MAX. */
bool carry_size(const struct carry_head *head, uint64_t *bytes);

/* Lines of the tensor and elements along its axis. False for a geometry that scan_plan_make()
 * refuses, or with more lines than 64 bits count. */
bool carry_geometry(const struct scan_desc *desc, uint64_t *lines, uint64_t *elements);

/* Bytes of the carry in the answer to a part, of whose lines `held` elements came with the carry
 * before it. UINT64_MAX: too many. 0: there is none. */
uint64_t carry_answer_size(const struct scan_desc *part, uint64_t held);

/* The elements of each line in a carry of `bytes` bytes that goes before the part.
 * err   INVALID_DATA: no carry that does has so many */
MUST_CHECK enum status carry_guess_held(const struct scan_desc *part, uint64_t bytes,
                                        uint64_t *held, struct error *err);

/* Read the header of a carry of `count` bytes, of which at least the first CARRY_HEADER_BYTES
 * are there, and check it by itself. err INVALID_DATA */
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

/* Add the CRC-32 of the bytes behind those: `behind` began where `crc` ends. */
void carry_crc_join(struct carry_crc *crc, const struct carry_crc *behind);

/* The carry is there with all its bytes, the first crc->done of which are in the sum already.
 * err   INVALID_DATA: it was damaged; CLIENT_GONE: given up by `parallel` */
MUST_CHECK enum status carry_check_crc(struct carry_crc *crc, const unsigned char *bytes,
                                       uint64_t count, const struct parallel *parallel,
                                       struct error *err);

/* Write the header; and, when all other bytes are there and summed up, the sum. */
void carry_write_head(const struct carry_head *head, unsigned char *bytes);
void carry_write_crc(const struct carry_crc *crc, unsigned char *bytes);

#endif
