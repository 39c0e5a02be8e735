/* Runs one request through a codec as the server does, with the oracle in place of the device.
 * Every buffer is a separate allocation of exactly the promised size, so that a sanitizer
 * detects an access to one byte more. */
#ifndef TALLY_TESTS_UNIT_CODEC_RUN_H
#define TALLY_TESTS_UNIT_CODEC_RUN_H

#include "kernels/plan.h"
#include "proto/codec.h"
#include "tests/lib/oracle_call.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RUN_QUERY_MAX = 512,
    RUN_BUFFER_MAX = 1 << 22 /* larger tensors are described, not computed */
};

struct run {
    enum status status; /* status of the first failing call */
    struct error err;
    struct scan_call call;
    struct scan_plan plan;
    bool computed;
    struct answer answer;
    char *body; /* answer: head and payload; NULL on failure */
    size_t bytes;
    char query[RUN_QUERY_MAX]; /* text that the parameters point into */
};

__attribute__((unused)) static void run_deinit(struct run *run)
{
    free(run->body);
    run->body = NULL;
}

/* Split "a=1&b=2", without percent escapes. */
static void run_split_query(struct run *run, const char *query, struct codec_request *request)
{
    (void)snprintf(run->query, sizeof run->query, "%s", query);
    char *save = NULL;
    for (char *p = strtok_r(run->query, "&", &save); p != NULL;
         p = strtok_r(NULL, "&", &save)) {
        char *value = strchr(p, '=');
        if (value != NULL) {
            *value++ = '\0';
        }
        if (request->param_count < LIMIT_QUERY_PARAMS) {
            request->params[request->param_count++] =
                (struct codec_param){p, value != NULL ? value : ""};
        }
    }
}

/* Copy to an allocation of exactly this size. Returns NULL if there is no memory. */
static void *run_copy(const void *bytes, size_t count)
{
    char *copy = malloc(count > 0 ? count : 1);
    if (copy != NULL && count > 0) {
        memcpy(copy, bytes, count);
    }
    return copy;
}

static enum status run_no_memory(struct run *run)
{
    return error_set(&run->err, STATUS_OUT_OF_MEMORY, "the test has no memory");
}

/* Offer more and more of the body, until the codec has its complete head. *head_bytes: bytes of
 * the head. */
static enum status run_head(const struct codec *codec, const struct codec_request *request,
                            struct byte_view body, size_t *head_bytes, struct run *run)
{
    size_t have = 0;
    for (;;) {
        uint64_t need = 0;
        char *head = run_copy(body.bytes, have);
        if (head == NULL) {
            return run_no_memory(run);
        }
        const struct byte_view first = {have > 0 ? head : NULL, have}; /* as in the server */
        enum status status = codec->head_need(request, first, &need, &run->err);
        free(head);
        if (status != STATUS_OK) {
            return status;
        }
        need = need > body.count ? body.count : need;
        if (need <= have) {
            *head_bytes = have;
            return STATUS_OK;
        }
        have = need;
    }
}

/* Create the carry that the server would answer, with the members that a codec reads. */
static enum status run_carry_out(struct run *run)
{
    const uint64_t bytes = carry_answer_most(&run->call.desc, run->call.totals);
    if (bytes == 0) {
        return STATUS_OK;
    }
    run->answer.head = bytes <= RUN_BUFFER_MAX ? calloc(1, bytes + CARRY_ROOM) : NULL;
    run->answer.head_bytes = run->answer.head != NULL ? bytes : 0;
    run->call.carry.answer_bytes = run->answer.head_bytes;
    return run->answer.head != NULL ? STATUS_OK : run_no_memory(run);
}

static enum status run_compute(const struct codec *codec, void *input, struct run *run)
{
    uint64_t bytes = oracle_call_cells(&run->call) * dtype_info(run->plan.dtype)->bytes;
    if (run->call.output_bytes > bytes) {
        bytes = run->call.output_bytes;
    }
    if (bytes > RUN_BUFFER_MAX || run->call.input_bytes > RUN_BUFFER_MAX) {
        return STATUS_OK;
    }
    char *output = calloc(1, bytes > 0 ? bytes : 1);
    if (output == NULL) {
        return run_no_memory(run);
    }
    enum status status = oracle_call(&run->call, run->plan.elements, input, output, &run->err);
    if (status == STATUS_OK) {
        status = run_carry_out(run);
    }
    if (status == STATUS_OK) {
        status = codec->encode(&run->call, output, bytes, &run->answer, &run->err);
    }
    if (status == STATUS_OK) {
        /* The service reserves head_max() bytes for the head of a JSON answer. */
        assert(run->call.answer_format != CODEC_FORMAT_JSON ||
               run->answer.head_bytes <= codec->head_max(&run->call));
        run->bytes = run->answer.head_bytes + run->answer.payload_bytes;
        run->body = malloc(run->bytes + 1);
        status = run->body == NULL ? run_no_memory(run) : STATUS_OK;
    }
    if (run->body != NULL) {
        if (run->answer.head_bytes > 0) {
            memcpy(run->body, run->answer.head, run->answer.head_bytes);
        }
        memcpy(run->body + run->answer.head_bytes, output, run->answer.payload_bytes);
        run->body[run->bytes] = '\0';
        run->computed = true;
    }
    answer_deinit(&run->answer);
    free(output);
    return status;
}

/* Run the steps from complete() on; the head is decoded already. */
static enum status run_payload(const struct codec *codec, struct byte_view payload,
                               struct run *run)
{
    struct scan_call *call = &run->call;
    struct scan_desc room_for_output;
    const struct scan_desc *shown = scan_output_desc(&call->desc, &room_for_output);
    enum status status = scan_plan_make(shown, &run->plan, &run->err);
    if (status == STATUS_OK) {
        const struct scan_desc computed = oracle_call_desc(call);
        status = scan_plan_make(&computed, &run->plan, &run->err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    const uint64_t room = oracle_call_room(call);
    if (room > RUN_BUFFER_MAX * 8) {
        return STATUS_OK;
    }
    char *input = aligned_alloc(64, (room + 64) / 64 * 64);
    if (input == NULL) {
        return run_no_memory(run);
    }
    size_t kept = payload.count < call->payload_max ? payload.count : call->payload_max;
    if (kept > 0) {
        memcpy(input, payload.bytes, kept);
    }
    status = codec->complete(call, input, payload.count, &run->err);
    if (status == STATUS_OK) {
        status = run_compute(codec, input, run);
    }
    free(input);
    return status;
}

/* Properties of a request besides its query and its body. */
struct run_ask {
    enum codec_format answer_format;
    uint64_t carry_bytes;
    bool totals;
    bool form; /* labelled with curl's default Content-Type */
    uint64_t offsets_bytes;
};

/* Run a request from decode to encode. The result is the answer's body or the error; call
 * run_deinit() on it. */
__attribute__((unused)) static void run_asked(const struct codec *codec, const char *query,
                                              struct run_ask ask, struct byte_view body,
                                              struct run *run)
{
    struct carry_crc crc = {.done = 0};
    struct codec_request request = {.body_bytes = (int64_t)body.count,
                                    .head_bytes = -1,
                                    .carry_bytes = ask.carry_bytes,
                                    .offsets_bytes = ask.offsets_bytes,
                                    .carry_crc = &crc,
                                    .totals = ask.totals,
                                    .form = ask.form,
                                    .answer_format = ask.answer_format};
    size_t head_bytes = 0;
    *run = (struct run){.err = ERROR_INIT};
    run_split_query(run, query, &request);
    run->status = run_head(codec, &request, body, &head_bytes, run);
    if (run->status != STATUS_OK) {
        return;
    }
    char *head = run_copy(body.bytes, head_bytes);
    if (head == NULL) {
        run->status = run_no_memory(run);
        return;
    }
    const struct byte_view view = {head, head_bytes};
    run->status = codec_decode(codec, &request, view, &run->call, &run->err);
    if (run->status == STATUS_OK) {
        const struct byte_view payload = {(const char *)body.bytes + head_bytes,
                                          body.count - head_bytes};
        run->status = run_payload(codec, payload, run);
        codec_release(&run->call);
    }
    free(head);
}

__attribute__((unused)) static void run_request(const struct codec *codec, const char *query,
                                                enum codec_format answer_format,
                                                struct byte_view body, struct run *run)
{
    run_asked(codec, query, (struct run_ask){.answer_format = answer_format}, body, run);
}

#endif
