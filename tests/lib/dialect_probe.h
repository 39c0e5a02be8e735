/* Runs one request through a codec as the server does, with the oracle in place of a device:
 * head_need, decode, plan, complete, scan, encode. For unit tests of the dialects. One
 * thread. */
#ifndef TALLY_TESTS_LIB_DIALECT_PROBE_H
#define TALLY_TESTS_LIB_DIALECT_PROBE_H

#include "proto/codec.h"

#include <stdbool.h>

struct probe {
    /* input: parts of the request besides the body; set before probe_run() */
    int64_t head_bytes;   /* Inference-Header-Content-Length, -1: none */
    bool chunked;         /* the length of the body is not announced */
    const char *model;    /* v2 */
    const char *query[8]; /* name, value, name, value ..., NULL */
    const void *shm;      /* content of every shared memory region */
    /* result */
    enum status status;
    struct error error;    /* with the field name that the client sees */
    struct scan_call call; /* after complete(); its dialect record is released */
    char *text;            /* JSON of the answer, NUL-terminated; owned */
    unsigned char *bytes;  /* payload of the answer; owned */
    size_t byte_count;
    char content_type[64];
    char header[64];        /* Inference-Header-Content-Length of the answer, "" if none */
    unsigned char *shm_out; /* bytes written to shared memory; owned; NULL: none */
};

void probe_init(struct probe *probe);
void probe_deinit(struct probe *probe);

/* Run one body. The result of an earlier run is discarded. */
enum status probe_run(struct probe *probe, const struct codec *codec, const void *body,
                      size_t bytes);

/* probe_run() with the body `json` followed by `payload`; head_bytes is set to the length of
 * the JSON. */
enum status probe_framed(struct probe *probe, const struct codec *codec, const char *json,
                         const void *payload, size_t payload_bytes);

/* probe_run() with a body that is all JSON, without the header. */
enum status probe_json(struct probe *probe, const struct codec *codec, const char *json);

#endif
