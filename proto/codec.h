/* A codec reads the requests and writes the answers of one dialect. Pure functions: no I/O, no
 * threads, no logging; a codec never reads outside the bytes it is given, never allocates more
 * than those bytes and proto/limits.h imply, and never recurses on input.
 *
 * A body consists of a head, which the server keeps in ordinary memory, and a payload, which the
 * server reads into an aligned slab that devices can access:
 *
 *     json      [ head ................................ ]
 *     raw                                     [ payload ]
 *     npy       [ magic, version, header ]    [ payload ]
 *     part      [ carry ] before the bytes of raw and NPY     (Tally-Carry-Length: N)
 *     segments  [ offsets ] before the bytes of raw and NPY   (Tally-Offsets-Length: N)
 *     framed    [ N bytes of JSON        ]    [ payload ] (Inference-Header-Content-Length: N)
 *
 * The server makes these calls for a request, in this order:
 *
 *   1. head_need()  each time the head has as many bytes as the last call asked for (at first
 *                   none). Computes the bytes that the head needs; the head is complete when
 *                   this equals its length. UINT64_MAX: all bytes up to the end of the body.
 *   2. codec_decode()   when the head is complete: fills *call, which codec_release() must
 *                   release later. Decoding precedes reading the payload, so that an invalid
 *                   request is refused early.
 *   3. complete()   when the payload is complete: checks its length, converts text numbers to
 *                   `input`, swaps bytes, moves the input buffer to the start of `input`, reads
 *                   a pending axis, reads and checks offsets.
 *   4. encode()     when the output buffer is computed: describes the answer.
 *   5. codec_release()
 *
 * Between steps 2 and 3 the server copies the window call->axis_shm to call->axis_bytes, and
 * after step 3 the window call->input_shm to the input buffer. plan_field() renames the field of
 * an error of scan_plan_make().
 *
 * /v1/cumsum answers a request of any format in any format. A JSON answer is nested only if the
 * data of the request are nested JSON; otherwise it is flat, with the shape in a field. With
 * output_strides the answer is the output buffer: flat numbers in JSON, its bytes in raw, an
 * array of one dimension in NPY.
 *
 * Thread: any, one at a time per call (steps 2-4 of large texts run outside the loop). */
#ifndef TALLY_PROTO_CODEC_H
#define TALLY_PROTO_CODEC_H

#include "proto/json/writer.h"
#include "proto/scan_call.h"
#include "proto/status.h"

struct codec_param {
    const char *name;  /* decoded, NUL-terminated, borrowed */
    const char *value; /* decoded, NUL-terminated, "" if there was no '=' */
};

/* The properties of the HTTP request that a codec may use. */
struct codec_request {
    int param_count;
    struct codec_param params[LIMIT_QUERY_PARAMS]; /* query string, in order */
    int64_t body_bytes;                            /* length of the whole body, -1 if unknown */
    int64_t head_bytes;              /* Inference-Header-Content-Length, -1 if absent */
    uint64_t carry_bytes;            /* Tally-Carry-Length, 0 if absent */
    uint64_t offsets_bytes;          /* Tally-Offsets-Length, 0 if absent */
    struct carry_crc *carry_crc;     /* state kept between calls of head_need(); zeroed before
                                    the first */
    bool totals;                     /* POST /v1/cumsum/totals */
    bool form;                       /* Content-Type is curl's default, which is read as JSON */
    enum codec_format answer_format; /* /v1/cumsum: the format that the client accepts */
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
    CARRY_ROOM = 2048 /* bytes behind a carry, for an NPY header */
};

/* The answer: `head`, then `payload_bytes` bytes of the output buffer. */
struct answer {
    const char *content_type; /* static */
    int header_count;
    struct answer_header {
        const char *name; /* static */
        char value[1600]; /* large enough for a shape of rank 64 with 64-bit sizes */
    } headers[ANSWER_HEADERS];
    char *room; /* borrowed buffer in which encode() may build the head; NULL: none */
    size_t room_bytes;
    char *carry; /* borrowed; in a part, the carry to which `head` points before encode();
                  * NULL: none */
    char *head;  /* in `room` or `carry`, or owned (malloc); NULL: none. JSON text or NPY
                   header */
    size_t head_bytes;
    uint64_t payload_bytes; /* leading bytes of the output buffer to send after the head */
};

/* Free the head and set it to NULL. */
void answer_deinit(struct answer *answer);

/* Begin and end the text of the head. The text is written to `room` if that buffer can hold
 * the maximum size (codec->head_max) and a NUL. Returns false if there is no memory; the
 * answer then has no head. */
void answer_begin_text(const struct answer *answer, struct json_writer *w, uint64_t most);
MUST_CHECK bool answer_end_text(struct answer *answer, struct json_writer *w);

struct codec {
    const char *name;

    enum status (*head_need)(const struct codec_request *request, struct byte_view head,
                             uint64_t *need, struct error *err);

    size_t record_bytes; /* size of the record call->dialect, which begins with a struct
                            framed; 0: no record */

    /* Implementation of codec_decode(). All of *call but its record is zero on entry. */
    enum status (*decode)(const struct codec_request *request, struct byte_view head,
                          struct scan_call *call, struct error *err);

    /* Step 3. `input` has room for max(call->input_bytes, call->payload_max) bytes (source
     * SHM: for payload_max), is 64-byte aligned, and holds the payload received. The caller
     * drops bytes beyond payload_max, but payload_bytes counts them. */
    enum status (*complete)(struct scan_call *call, void *input, uint64_t payload_bytes,
                            struct error *err);

    /* Step 4. `output` holds output_bytes bytes of the output buffer, which is contiguous if
     * call->packs_output. The caller zeroes *answer; for a part, answer->head is the carry of
     * the answer, with CARRY_ROOM bytes behind it. */
    enum status (*encode)(const struct scan_call *call, const void *output,
                          uint64_t output_bytes, struct answer *answer, struct error *err);

    /* Maximum number of bytes that encode() allocates for answer->head while it works, besides
     * the carry that is already there; the final size is answer->head_bytes. Used for JSON
     * answers only (call->answer_format): other heads are short. UINT64_MAX: the number
     * exceeds 64 bits. */
    uint64_t (*head_max)(const struct scan_call *call);

    /* Return this dialect's name for a field that scan_plan_make() blames: "shape", "axis",
     * "strides" or "output_strides"; and, if tensors may lie in shared memory, "input_shm",
     * "axis_shm" or "output_shm", the fields with the parameters of that memory. NULL: names
     * are unchanged. The text lives as long as the call. */
    const char *(*plan_field)(const struct scan_call *call, const char *field);
};

/* Steps 2 and 5. The head must keep its address until the release, because *call borrows from
 * it.
 * err   OUT_OF_MEMORY, and refusals of the dialect; *call is then all zero */
MUST_CHECK enum status codec_decode(const struct codec *codec,
                                    const struct codec_request *request, struct byte_view head,
                                    struct scan_call *call, struct error *err);
void codec_release(struct scan_call *call);

/* Free the codec's copy of the received carry, before codec_release(). */
void codec_release_carry(struct scan_call *call);

/* The codec of POST /v1/cumsum for a request format. */
const struct codec *codec_cumsum(enum codec_format format);
/* POST /v1/directml/cumulative_summation, /v1/openvino/cumsum-3, /v2/models/{model}/infer. */
extern const struct codec codec_directml;
extern const struct codec codec_openvino;
extern const struct codec codec_kserve;

#endif
