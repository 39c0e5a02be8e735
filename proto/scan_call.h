/* One request of any dialect after decoding: the operator's description, where its numbers are,
 * and what the answer must look like. Filled by a codec (proto/codec.h); read by the server,
 * which knows no dialect. Owner: the request it is embedded in; everything borrowed points into
 * the request's own head bytes and lives as long. */
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

/* Where the input buffer's elements come from. */
enum call_source {
    CALL_SOURCE_PAYLOAD, /* binary bytes after the head, landed in the slab by the server */
    CALL_SOURCE_TEXT,    /* JSON numbers in the head; codec->complete() writes them */
    CALL_SOURCE_SHM      /* a client's shared memory region; the server copies them in */
};

/* A window of a registered shared memory region. */
struct shm_window {
    char region[256]; /* registered name, "" for none */
    uint64_t offset;  /* bytes from the start of the region */
    uint64_t bytes;   /* bytes of the window */
};

/* A bulk array cut out of a JSON text, with its brackets; borrowed. */
struct json_cut {
    const char *text;
    size_t bytes;
};

struct scan_call {
    struct scan_desc desc;
    bool totals; /* the answer is the carry behind the tensor, and nothing else */
    struct call_carry {
        uint64_t bytes;             /* of the carry that came in front; 0: none did */
        const unsigned char *start; /* after complete(): the carry, checked */
        uint64_t position;          /* and its place along the axis */
        uint64_t answer_bytes;      /* of the carry to answer; 0: there is none, or none yet */
        void *owned;                /* memory of it, freed by codec_release(),
                                     * codec_release_carry(); or NULL */
    } carry;
    struct call_offsets {
        const void *head;     /* the offsets, in the head of the request; NULL: elsewhere */
        struct json_cut text; /* their JSON text; text NULL: elsewhere */
        void *owned;          /* memory of them, freed by codec_release(); or NULL */
    } offsets;                /* valid if desc.has_offsets */
    enum call_source source;
    bool axis_pending;       /* desc.axis lies in the payload: valid after complete() */
    uint64_t input_bytes;    /* bytes of the input buffer, as complete() leaves it */
    uint64_t payload_max;    /* most bytes that may follow the head; complete() judges what
                                really came. For text and shm 0, or the size of a pending axis */
    uint64_t payload_offset; /* where the input buffer starts inside the payload */
    uint64_t output_bytes;   /* least size of the output buffer, its tail zero; 0: as planned */
    bool byte_swap;          /* payload is big-endian; complete() turns it round */
    /* The output buffer is packed, and encode() lays it out in its text by desc.output_strides, with
     * zeros between. */
    bool packs_output;
    enum codec_format answer_format; /* JSON: the answer's numbers are text; the server reserves
                                      * memory for it. Other dialects' binary answers are RAW */
    bool nested;                     /* data came as nested JSON and is answered so */
    struct json_cut data;            /* source TEXT: the numbers */
    struct shm_window input_shm;     /* source SHM: the server copies it in after complete() */
    struct shm_window axis_shm; /* region "" unless a pending axis lies in shared memory: ... */
    uint8_t axis_bytes[8];      /* ... the server copies axis_shm here before complete() */
    struct shm_window output_shm;    /* region "" unless the result goes to shared memory */
    uint64_t timeout_us;             /* deadline counted from arrival, 0 for none */
    uint64_t priority;               /* 1: high, above: normal, 0: says nothing */
    char id[LIMIT_REQUEST_ID + 1];   /* request id to echo in the body, "" for none */
    const struct parallel *parallel; /* for complete() and encode(), from the server; or NULL */
    void *dialect;                   /* struct framed or NULL; owned: codec_release() */
};

#endif
