/* A codec reads the requests and writes the answers of one dialect. Pure functions: no I/O, no
 * threads, no logging; never reads outside the bytes it is given, never allocates more than
 * those bytes and proto/limits.h imply, never recurses on input.
 *
 * A body is a head, kept aside, and a payload, which lands aligned in a device-visible slab:
 *
 *     json      [ head ................................ ]
 *     raw                                     [ payload ]
 *     npy       [ magic, version, header ]    [ payload ]
 *     part      [ carry ] before the same of raw and NPY      (Tally-Carry-Length: N)
 *     segments  [ offsets ] before the same of raw and NPY    (Tally-Offsets-Length: N)
 *     framed    [ N bytes of JSON        ]    [ payload ] (Inference-Header-Content-Length: N)
 *
 * The server drives one request through these calls, in this order:
 *
 *   1. head_need()  each time the head holds as many bytes as were last asked for (first with
 *                   none): how many bytes the head needs; complete when that equals what
 *                   it has. UINT64_MAX: everything up to the end of the body.
 *   2. codec_decode()   the head is complete: fills *call. From here on a release is due.
 *                   Runs before the payload is read, so a bad request is refused early.
 *   3. complete()   the payload is complete: checks its length, writes text numbers to `input`,
 *                   swaps bytes, moves the input buffer to the start of `input`, reads an axis
 *                   that is pending, reads and checks offsets.
 *   4. encode()     the output buffer is computed: describes the answer.
 *   5. codec_release()
 *
 * Between 2 and 3 the server copies call->axis_shm to call->axis_bytes, after 3 call->input_shm
 * to the input buffer. An error of scan_plan_make() has its field renamed by plan_field().
 *
 * /v1/cumsum answers any request format in any other: nested JSON only for nested JSON data,
 * flat JSON with its shape for everything else. With output_strides the answer is the output
 * buffer: flat numbers in JSON, its bytes in raw, an array of one dimension in NPY.
 *
 * Thread: any, one at a time per call (steps 2-4 of large texts run off the loop). */
#ifndef TALLY_PROTO_CODEC_H
#define TALLY_PROTO_CODEC_H

#include "proto/json/writer.h"
#include "proto/scan_call.h"
#include "proto/status.h"

struct codec_param {
    const char *name;  /* decoded, NUL-terminated, borrowed */
    const char *value; /* decoded, NUL-terminated, "" if there was no '=' */
};

/* What a codec may know of the HTTP request. */
struct codec_request {
    int param_count;
    struct codec_param params[LIMIT_QUERY_PARAMS]; /* query string, in order */
    int64_t body_bytes;                            /* length of the whole body, -1 if unknown */
    int64_t head_bytes;          /* Inference-Header-Content-Length, -1 if absent */
    uint64_t carry_bytes;        /* Tally-Carry-Length, 0 if absent */
    uint64_t offsets_bytes;      /* Tally-Offsets-Length, 0 if absent */
    struct carry_crc *carry_crc; /* kept from one head_need() to the next, zeroed at first */
    bool totals;                 /* POST /v1/cumsum/totals */
    enum codec_format answer_format; /* /v1/cumsum: what the client accepts */
    const char *model;               /* v2: model name; NULL elsewhere */
    const struct parallel *parallel; /* for decode(), from the server; or NULL */
};

/* Borrowed bytes. */
struct byte_view {
    const void *bytes;
    size_t count;
};

enum {
    ANSWER_HEADERS = 4,
    CARRY_ROOM = 2048 /* for an NPY header behind a carry */
};

/* What to send: `head`, then `payload_bytes` of the output buffer. */
struct answer {
    const char *content_type; /* static */
    int header_count;
    struct answer_header {
        const char *name; /* static */
        char value[1600]; /* rank 64 shapes of 64-bit sizes fit */
    } headers[ANSWER_HEADERS];
    char *room; /* borrowed: memory that encode() may leave the head in; NULL: none */
    size_t room_bytes;
    char *carry; /* borrowed: what `head` is before encode(), of a part; NULL: none */
    char *head; /* in `room` or `carry`, or owned (malloc); NULL: none. JSON text, NPY header */
    size_t head_bytes;
    uint64_t payload_bytes; /* leading bytes of the output buffer to send after the head */
};

/* Free the head, and have none. */
void answer_deinit(struct answer *answer);

/* Begin and end the text that is to be the head: it is written to `room` if that has as many bytes
 * as it may have (codec->head_max), and a NUL. False without memory: there is no head. */
void answer_begin_text(const struct answer *answer, struct json_writer *w, uint64_t most);
MUST_CHECK bool answer_end_text(struct answer *answer, struct json_writer *w);

struct codec {
    const char *name;

    enum status (*head_need)(const struct codec_request *request, struct byte_view head,
                             uint64_t *need, struct error *err);

    size_t record_bytes; /* of call->dialect, which begins with a struct framed; 0: NULL */

    /* codec_decode() of a *call that is zeroed, but for its record. */
    enum status (*decode)(const struct codec_request *request, struct byte_view head,
                          struct scan_call *call, struct error *err);

    /* input has room for max(call->input_bytes, call->payload_max) bytes (source SHM: for
     * payload_max), 64-byte aligned, and holds the payload_bytes received. What is longer than
     * payload_max was dropped by the caller, who passes its true length all the same. */
    enum status (*complete)(struct scan_call *call, void *input, uint64_t payload_bytes,
                            struct error *err);

    /* output holds output_bytes bytes of the output buffer, which is packed if call->packs_output.
     * *answer is zeroed by the caller; but of a part its head is the carry to answer, with
     * CARRY_ROOM bytes behind it. */
    enum status (*encode)(const struct scan_call *call, const void *output,
                          uint64_t output_bytes, struct answer *answer, struct error *err);

    /* Of an answer in JSON (call->answer_format), others have short heads: most bytes that encode()
     * allocates for answer->head while it works, besides the carry that is there; in
     * answer->head_bytes is what of them is left. UINT64_MAX: more than that can say. */
    uint64_t (*head_max)(const struct scan_call *call);

    /* What this dialect calls the description's field that scan_plan_make() blames: "shape",
     * "axis", "strides" or "output_strides"; and, where tensors may lie in shared memory, what
     * has its parameters: "input_shm", "axis_shm" or "output_shm". NULL: the same. Text that
     * lives as long as the call. */
    const char *(*plan_field)(const struct scan_call *call, const char *field);
};

/* Steps 2 and 5. head must stay where it is until the release: *call borrows from it.
 * err   OUT_OF_MEMORY, and what the dialect refuses; *call is all zero then */
MUST_CHECK enum status codec_decode(const struct codec *codec,
                                    const struct codec_request *request, struct byte_view head,
                                    struct scan_call *call, struct error *err);
void codec_release(struct scan_call *call);

/* Free what the codec has of the carry that came, before that. */
void codec_release_carry(struct scan_call *call);

/* POST /v1/cumsum, by request format. */
const struct codec *codec_cumsum(enum codec_format format);
/* POST /v1/directml/cumulative_summation, /v1/openvino/cumsum-3, /v2/models/{model}/infer. */
extern const struct codec codec_directml;
extern const struct codec codec_openvino;
extern const struct codec codec_kserve;

#endif
