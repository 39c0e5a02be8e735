/* One request of any dialect after decoding: the description of the operator, the locations of
 * its data, and the form of the answer. A codec (proto/codec.h) fills it; the server reads it
 * and needs no knowledge of dialects. Owner: the request that contains it. Borrowed pointers
 * refer to the head of that request and have its lifetime. */
#ifndef TALLY_PROTO_SCAN_CALL_H
#define TALLY_PROTO_SCAN_CALL_H

#include "proto/carry.h"
#include "proto/parallel.h"
#include "proto/scan_desc.h"

#include <stddef.h>

/* The formats of /v1/cumsum. */
enum codec_format {
    CODEC_FORMAT_JSON,
    CODEC_FORMAT_RAW,
    CODEC_FORMAT_NPY
};

/* Location of the input buffer's elements. */
enum call_source {
    CALL_SOURCE_PAYLOAD, /* binary bytes after the head, which the server reads into the slab */
    CALL_SOURCE_TEXT,    /* JSON numbers in the head; codec->complete() writes them */
    CALL_SOURCE_SHM      /* a client's shared memory region; the server copies the elements */
};

/* A window in a registered shared memory region. */
struct shm_window {
    char region[256]; /* registered name, "" for none */
    uint64_t offset;  /* bytes from the start of the region */
    uint64_t bytes;   /* bytes of the window */
};

/* An array cut out of a JSON text, brackets included; borrowed. */
struct json_cut {
    const char *text;
    size_t bytes;
};

struct scan_call {
    struct scan_desc desc;
    bool totals; /* the answer has no sums, only the carry after the tensor */
    struct call_carry {
        uint64_t bytes;             /* bytes of the received carry; 0: none */
        const unsigned char *start; /* the checked carry; valid after complete() */
        uint64_t position;          /* its position along the axis */
        uint64_t answer_bytes;      /* bytes of the carry of the answer; 0: none, or not
                                       known yet */
        void *owned;                /* memory of the received carry or NULL; freed by
                                       codec_release() or codec_release_carry() */
    } carry;
    struct call_offsets {
        const void *head;     /* the offsets in the head of the request; NULL: not in the
                               * head */
        struct json_cut text; /* JSON text of the offsets; text NULL: not in JSON */
        void *owned;          /* memory of the offsets or NULL; freed by codec_release() */
    } offsets;                /* valid if desc.has_offsets */
    enum call_source source;
    bool axis_pending;       /* the payload contains desc.axis, which is valid after
                                complete() */
    uint64_t input_bytes;    /* bytes of the input buffer after complete() */
    uint64_t payload_max;    /* maximum bytes after the head; complete() checks the bytes
                                received. For text and shm: 0, or the size of a pending axis */
    uint64_t payload_offset; /* byte offset of the input buffer in the payload */
    uint64_t output_bytes;   /* minimum size of the output buffer, zeros behind the sums; 0:
                                the plan's size */
    bool byte_swap;          /* the payload is big-endian; complete() swaps its bytes */
    /* The output buffer is contiguous, and encode() applies desc.output_strides to its text,
     * with zeros in the gaps. */
    bool packs_output;
    enum codec_format answer_format; /* JSON: the numbers of the answer are text, for which
                                        the server reserves memory. Binary answers of other
                                        dialects are RAW */
    bool nested;                     /* the data of the request and of its answer are nested
                                      * JSON */
    struct json_cut data;            /* source TEXT: the numbers */
    struct shm_window input_shm;     /* source SHM: the server copies the window after
                                        complete() */
    struct shm_window axis_shm;    /* window of a pending axis; region "" if it is not in shared
                                   memory */
    uint8_t axis_bytes[8];         /* the server copies axis_shm here before complete() */
    struct shm_window output_shm;  /* destination of the result; region "" if it is not
                                        shared memory */
    uint64_t timeout_us;           /* deadline relative to the arrival; 0: none */
    uint64_t priority;             /* 0: not set, 1: high, above 1: normal */
    char id[LIMIT_REQUEST_ID + 1]; /* request id repeated in the body; "" for none */
    const struct parallel *parallel; /* for complete() and encode(), from the server; or NULL */
    void *dialect;                   /* struct framed or NULL; owned: codec_release() */
};

#endif
