/* The steps of the server for a request. */
#include "tests/lib/dialect_probe.h"

#include "kernels/plan.h"
#include "tests/lib/oracle_call.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LARGEST = 1 << 24
};

void probe_init(struct probe *probe)
{
    memset(probe, 0, sizeof *probe);
    probe->head_bytes = -1;
}

void probe_deinit(struct probe *probe)
{
    free(probe->text);
    free(probe->bytes);
    free(probe->shm_out);
    probe->text = NULL;
    probe->bytes = NULL;
    probe->shm_out = NULL;
    probe->byte_count = 0;
    probe->content_type[0] = '\0';
    probe->header[0] = '\0';
}

static void take_answer(struct probe *probe, struct answer *answer, const void *output)
{
    probe->text = calloc(1, answer->head_bytes + 1);
    memcpy(probe->text, answer->head, answer->head_bytes);
    probe->byte_count = answer->payload_bytes;
    probe->bytes = malloc(answer->payload_bytes + 1);
    memcpy(probe->bytes, output, answer->payload_bytes);
    snprintf(probe->content_type, sizeof probe->content_type, "%s", answer->content_type);
    for (int i = 0; i < answer->header_count; i++) {
        if (strcmp(answer->headers[i].name, "Inference-Header-Content-Length") == 0) {
            snprintf(probe->header, sizeof probe->header, "%.60s", answer->headers[i].value);
        }
    }
    free(answer->head);
}

/* Run the steps after the payload is complete. `input` holds the payload. */
static enum status finish(struct probe *probe, const struct codec *codec, char *input,
                          size_t payload_bytes)
{
    struct scan_call *call = &probe->call;
    struct scan_plan plan;
    if (call->axis_shm.region[0] != '\0') {
        memcpy(call->axis_bytes, (const char *)probe->shm + call->axis_shm.offset,
               call->axis_shm.bytes);
    }
    enum status status = codec->complete(call, input, payload_bytes, &probe->error);
    if (status == STATUS_OK && call->source == CALL_SOURCE_SHM) {
        memcpy(input, (const char *)probe->shm + call->input_shm.offset, call->input_bytes);
    }
    if (status == STATUS_OK) {
        struct scan_desc room;
        status = scan_plan_make(scan_output_desc(&call->desc, &room), &plan, &probe->error);
        if (status != STATUS_OK && codec->plan_field != NULL) {
            char name[sizeof probe->error.field];
            snprintf(name, sizeof name, "%s", codec->plan_field(call, probe->error.field));
            memcpy(probe->error.field, name, sizeof name);
        }
    }
    if (status == STATUS_OK) {
        const struct scan_desc computed = oracle_call_desc(call);
        status = scan_plan_make(&computed, &plan, &probe->error);
    }
    if (status != STATUS_OK) {
        return status;
    }
    size_t size = dtype_info(call->desc.dtype)->bytes;
    size_t out_bytes = oracle_call_cells(call) * size;
    out_bytes = out_bytes > call->output_bytes ? out_bytes : call->output_bytes;
    if (out_bytes > LARGEST) {
        return error_set(&probe->error, STATUS_TOO_LARGE, "too much for a test");
    }
    char *output = calloc(1, out_bytes + 1);
    struct answer answer = {0};
    status = oracle_call(call, plan.elements, input, output, &probe->error);
    if (status == STATUS_OK) {
        status = codec->encode(call, output, out_bytes, &answer, &probe->error);
    }
    if (status == STATUS_OK) {
        assert(answer.head_bytes <= codec->head_max(call)); /* the service reserves this much
                                                               memory */
        take_answer(probe, &answer, output);
        if (call->output_shm.region[0] != '\0') {
            probe->shm_out = malloc(out_bytes + 1);
            memcpy(probe->shm_out, output, out_bytes);
        }
    }
    free(output);
    return status;
}

static enum status decoded(struct probe *probe, const struct codec *codec, const char *payload,
                           size_t payload_bytes)
{
    const struct scan_call *call = &probe->call;
    const uint64_t room = oracle_call_room(call);
    if (room > LARGEST) {
        return error_set(&probe->error, STATUS_TOO_LARGE, "too much for a test");
    }
    char *input = malloc(room > 0 ? room : 1);
    memset(input, 0xA5, room > 0 ? room : 1);
    memcpy(input, payload, payload_bytes < room ? payload_bytes : room);
    enum status status = finish(probe, codec, input, payload_bytes);
    free(input);
    return status;
}

static void fill_request(const struct probe *probe, size_t bytes, struct codec_request *request)
{
    memset(request, 0, sizeof *request);
    request->body_bytes = probe->chunked ? -1 : (int64_t)bytes;
    request->head_bytes = probe->head_bytes;
    request->model = probe->model;
    for (int i = 0; probe->query[2 * i] != NULL; i++) {
        request->params[i].name = probe->query[2 * i];
        request->params[i].value = probe->query[2 * i + 1];
        request->param_count++;
    }
}

enum status probe_run(struct probe *probe, const struct codec *codec, const void *body,
                      size_t bytes)
{
    struct codec_request request;
    uint64_t need = 0;
    probe_deinit(probe);
    probe->error = (struct error)ERROR_INIT;
    memset(&probe->call, 0, sizeof probe->call);
    fill_request(probe, bytes, &request);
    struct byte_view none = {"", 0};
    probe->status = codec->head_need(&request, none, &need, &probe->error);
    if (probe->status != STATUS_OK) {
        return probe->status;
    }
    size_t head_bytes = need < bytes ? (size_t)need : bytes;
    char *head = malloc(head_bytes + 1);
    memcpy(head, body, head_bytes);
    head[head_bytes] = '\0';
    struct byte_view view = {head, head_bytes};
    probe->status = codec_decode(codec, &request, view, &probe->call, &probe->error);
    if (probe->status == STATUS_OK) {
        probe->status =
            decoded(probe, codec, (const char *)body + head_bytes, bytes - head_bytes);
        codec_release(&probe->call);
    }
    free(head);
    return probe->status;
}

enum status probe_framed(struct probe *probe, const struct codec *codec, const char *json,
                         const void *payload, size_t payload_bytes)
{
    size_t length = strlen(json);
    char *body = malloc(length + payload_bytes + 1);
    memcpy(body, json, length);
    memcpy(body + length, payload, payload_bytes);
    probe->head_bytes = (int64_t)length;
    enum status status = probe_run(probe, codec, body, length + payload_bytes);
    free(body);
    return status;
}

enum status probe_json(struct probe *probe, const struct codec *codec, const char *json)
{
    probe->head_bytes = -1;
    return probe_run(probe, codec, json, strlen(json));
}
