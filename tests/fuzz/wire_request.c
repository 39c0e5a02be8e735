#include "tests/fuzz/wire_request.h"

#include "tests/fuzz/wire_server.h"
#include "tests/fuzz/wire_tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    MOST_ELEMENTS = 16384, /* elements of binary tensors: enough for many slices */
    MOST_NUMBERS = 1500,   /* elements of JSON tensors */
    BROADCAST = 1100000,   /* number of sums of a single broadcast element */
    EDITS_FROM = 192
};

/* ---- dialects ---- */

/* A request without its framing. */
struct draft {
    struct wire_tensor tensor;
    uint8_t flags; /* parameter 5 */
    char path[256];
    const char *method;
    struct wire_text fields; /* header fields other than those of the framing */
    struct wire_text body;
    struct wire_request *request;
};

static void framed_head(struct draft *draft)
{
    wire_text_print(&draft->fields,
                    "Inference-Header-Content-Length: %zu\r\n"
                    "Content-Type: application/octet-stream\r\n",
                    draft->body.count);
}

static void add_payload(struct draft *draft)
{
    const struct wire_tensor *tensor = &draft->tensor;
    wire_text_add(&draft->body, tensor->bytes,
                  tensor->elements * dtype_info(tensor->dtype)->bytes);
}

static const char *const media[] = {"application/json", "application/octet-stream",
                                    "application/x-npy"};

/* Choose the format of an answer of /v1/cumsum: the request's (0) or another one. */
static void choose_answer(struct draft *draft, int own)
{
    static const enum wire_form forms[] = {WIRE_NUMBERS, WIRE_WHOLE, WIRE_TAIL};
    int chosen = draft->flags / 32 % 4;
    int format = chosen == 0 ? own : chosen - 1;
    if (format == 2 && dtype_info(draft->tensor.dtype)->npy == NULL) {
        format = own == 2 ? 1 : own;
    }
    draft->request->form = forms[format];
    if (format != own) {
        wire_text_print(&draft->fields, "Accept: %s\r\n", media[format]);
    }
    wire_text_print(&draft->fields, "Content-Type: %s\r\n", media[own]);
}

static void cumsum_query(struct draft *draft, bool described)
{
    const struct wire_tensor *tensor = &draft->tensor;
    struct wire_text text = {.bytes = NULL};
    wire_text_print(&text, "/v1/cumsum?axis=%lld&exclusive=%d&reverse=%s",
                    (long long)wire_tensor_shown_axis(tensor), tensor->exclusive,
                    tensor->reverse ? "true" : "false");
    if (described) {
        wire_text_print(&text, "&dtype=%s&shape=", dtype_info(tensor->dtype)->name);
        wire_tensor_print_sizes(&text, tensor);
    }
    (void)snprintf(draft->path, sizeof draft->path, "%.*s", (int)text.count, text.bytes);
    wire_text_free(&text);
}

static void draft_json(struct draft *draft)
{
    const struct wire_tensor *tensor = &draft->tensor;
    (void)snprintf(draft->path, sizeof draft->path, "/v1/cumsum");
    wire_text_print(&draft->body, "{\"dtype\":\"%s\",", dtype_info(tensor->dtype)->name);
    wire_tensor_print_flags(&draft->body, tensor);
    wire_text_print(&draft->body, ",\"shape\":[");
    wire_tensor_print_sizes(&draft->body, tensor);
    wire_text_print(&draft->body, "],\"data\":");
    wire_tensor_print_numbers(&draft->body, tensor);
    wire_text_print(&draft->body, "}");
    choose_answer(draft, 0);
}

static void draft_raw(struct draft *draft)
{
    cumsum_query(draft, true);
    add_payload(draft);
    choose_answer(draft, 1);
}

static void draft_npy(struct draft *draft)
{
    struct wire_tensor *tensor = &draft->tensor;
    struct wire_text text = {.bytes = NULL};
    cumsum_query(draft, false);
    wire_text_print(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                    dtype_info(tensor->dtype)->npy);
    wire_tensor_print_sizes(&text, tensor);
    wire_text_print(&text, ",), }");
    while ((text.count + 11) % 64 != 0) {
        wire_text_add(&text, " ", 1);
    }
    wire_text_add(&text, "\n", 1);
    const unsigned char magic[] = {0x93,
                                   'N',
                                   'U',
                                   'M',
                                   'P',
                                   'Y',
                                   1,
                                   0,
                                   (unsigned char)text.count,
                                   (unsigned char)(text.count >> 8)};
    wire_text_add(&draft->body, magic, sizeof magic);
    wire_text_add(&draft->body, text.bytes, text.count);
    wire_text_free(&text);
    add_payload(draft);
    choose_answer(draft, 2);
}

static void draft_directml(struct draft *draft)
{
    const struct wire_tensor *tensor = &draft->tensor;
    bool binary = (draft->flags & 32) != 0;
    struct wire_text *body = &draft->body;
    (void)snprintf(draft->path, sizeof draft->path, "/v1/directml/cumulative_summation");
    for (int i = 0; i < 2; i++) {
        wire_text_print(body, i == 0 ? "{\"desc\":{\"InputTensor\"" : ",\"OutputTensor\"");
        wire_text_print(body, ":{\"DataType\":\"%s\",\"Sizes\":[",
                        dtype_info(tensor->dtype)->directml);
        for (int pad = tensor->rank; pad < WIRE_RANK; pad++) {
            wire_text_print(body, "1,");
        }
        wire_tensor_print_sizes(body, tensor);
        wire_text_print(body, "]}");
    }
    wire_text_print(body, ",\"Axis\":%d,\"AxisDirection\":\"%s\",\"HasExclusiveSum\":%s}",
                    tensor->axis + WIRE_RANK - tensor->rank,
                    tensor->reverse ? "DECREASING" : "INCREASING",
                    tensor->exclusive ? "true" : "false");
    if (binary) {
        wire_text_print(body, "}");
        framed_head(draft);
        add_payload(draft);
    } else {
        wire_text_print(body, ",\"data\":");
        wire_tensor_print_numbers(body, tensor);
        wire_text_print(body, "}");
        wire_text_print(&draft->fields, "Content-Type: application/json\r\n");
    }
    draft->request->form = binary ? WIRE_TAIL : WIRE_NUMBERS;
}

static void draft_openvino(struct draft *draft)
{
    const struct wire_tensor *tensor = &draft->tensor;
    const struct dtype_info *info = dtype_info(tensor->dtype);
    bool binary = (draft->flags & 32) != 0;
    struct wire_text *body = &draft->body;
    (void)snprintf(draft->path, sizeof draft->path, "/v1/openvino/cumsum-3");
    wire_text_print(body, "{\"attributes\":{\"exclusive\":%s,\"reverse\":%d},\"inputs\":[",
                    tensor->exclusive ? "true" : "false", tensor->reverse);
    wire_text_print(body, "{\"precision\":\"%s\",\"shape\":[", info->openvino_ir);
    wire_tensor_print_sizes(body, tensor);
    if (binary) {
        wire_text_print(body, "],\"binary_data_size\":%zu}", tensor->elements * info->bytes);
    } else {
        wire_text_print(body, "],\"data\":");
        wire_tensor_print_numbers(body, tensor);
        wire_text_print(body, "}");
    }
    wire_text_print(body, ",{\"precision\":\"I64\",\"shape\":[],\"data\":%lld}]}",
                    (long long)wire_tensor_shown_axis(tensor));
    if (binary) {
        framed_head(draft);
        add_payload(draft);
    } else {
        wire_text_print(&draft->fields, "Content-Type: application/json\r\n");
    }
    draft->request->form = binary ? WIRE_TAIL : WIRE_NUMBERS;
}

static void draft_v2(struct draft *draft)
{
    const struct wire_tensor *tensor = &draft->tensor;
    const struct dtype_info *info = dtype_info(tensor->dtype);
    bool binary = (draft->flags & 32) != 0;
    bool binary_output = (draft->flags & 64) != 0;
    bool version = (draft->flags & 128) != 0;
    struct wire_text *body = &draft->body;
    (void)snprintf(draft->path, sizeof draft->path, "/v2/models/cumsum%s/infer",
                   version ? "/versions/1" : "");
    wire_text_print(body, "{\"id\":\"7\",\"parameters\":{\"binary_data_output\":%s,",
                    binary_output ? "true" : "false");
    wire_tensor_print_flags(body, tensor);
    wire_text_print(body, "},\"inputs\":[{\"name\":\"x\",\"datatype\":\"%s\",\"shape\":[",
                    info->kserve);
    wire_tensor_print_sizes(body, tensor);
    if (binary) {
        wire_text_print(body, "],\"parameters\":{\"binary_data_size\":%zu}}]}",
                        tensor->elements * info->bytes);
        framed_head(draft);
        add_payload(draft);
    } else {
        wire_text_print(body, "],\"data\":");
        wire_tensor_print_numbers(body, tensor);
        wire_text_print(body, "}]}");
        wire_text_print(&draft->fields, "Content-Type: application/json\r\n");
    }
    draft->request->form = binary_output ? WIRE_TAIL : WIRE_NUMBERS;
}

/* Input and output are in regions, which may be registered or not. */
static void draft_shm_infer(struct draft *draft)
{
    const struct wire_tensor *tensor = &draft->tensor;
    const struct dtype_info *info = dtype_info(tensor->dtype);
    struct wire_text *body = &draft->body;
    size_t bytes = tensor->elements * info->bytes;
    unsigned half = WIRE_SHM_BYTES / 2;
    (void)snprintf(draft->path, sizeof draft->path, "/v2/models/cumsum/infer");
    wire_text_print(body, "{\"parameters\":{");
    wire_tensor_print_flags(body, tensor);
    wire_text_print(body, "},\"inputs\":[{\"name\":\"x\",\"datatype\":\"%s\",\"shape\":[",
                    info->kserve);
    wire_tensor_print_sizes(body, tensor);
    wire_text_print(body,
                    "],\"parameters\":{\"shared_memory_region\":\"r%d\","
                    "\"shared_memory_offset\":%u,\"shared_memory_byte_size\":%zu}}],"
                    "\"outputs\":[{\"name\":\"y\",\"parameters\":{",
                    (draft->flags & 32) != 0, (draft->flags & 64) != 0 ? half : 0, bytes);
    if ((draft->flags & 128) != 0) {
        wire_text_print(body,
                        "\"shared_memory_region\":\"r0\",\"shared_memory_offset\":%u,"
                        "\"shared_memory_byte_size\":%zu}}]}",
                        (draft->flags & 64) != 0 ? 0 : half, bytes);
    } else {
        wire_text_print(body, "\"binary_data\":true}}]}");
    }
    wire_text_print(&draft->fields, "Content-Type: application/json\r\n");
    draft->request->must_work = false;
}

/* Register, unregister or query all regions, or region r0 or r1. */
static void draft_shm_page(struct draft *draft)
{
    static const char *const verbs[] = {"register", "register", "unregister", "status"};
    unsigned verb = draft->flags / 2 % 4;
    bool all = (draft->flags & 16) != 0 && verb >= 2;
    (void)snprintf(draft->path, sizeof draft->path, "/v2/systemsharedmemory/%s%s",
                   all                        ? ""
                   : (draft->flags & 32) != 0 ? "region/r1/"
                                              : "region/r0/",
                   verbs[verb]);
    draft->method = verb == 3 ? "GET" : "POST";
    if (verb < 2) {
        wire_text_print(&draft->body, "{\"key\":\"%s\",\"offset\":%d,\"byte_size\":%d}",
                        wire_shm_key(), (draft->flags & 64) != 0 ? 4096 : 0,
                        (draft->flags & 128) != 0 ? WIRE_SHM_BYTES - 4096 : WIRE_SHM_BYTES);
    }
    draft->request->must_work = false;
}

static void draft_page(struct draft *draft)
{
    static const struct {
        const char *method;
        const char *path;
        const char *body;
    } pages[] = {
        {"GET", "/livez", ""},
        {"GET", "/readyz", ""},
        {"GET", "/metrics", ""},
        {"GET", "/v1/devices", ""},
        {"GET", "/openapi.json", ""},
        {"GET", "/version", ""},
        {"GET", "/", ""},
        {"GET", "/v2", ""},
        {"GET", "/v2/health/ready", ""},
        {"GET", "/v2/models/stats", ""},
        {"GET", "/v2/models/cumsum", ""},
        {"GET", "/v2/models/cumsum_int8/config", ""},
        {"GET", "/v2/models/cumsum/versions/1/stats", ""},
        {"GET", "/v2/models/none/ready", ""},
        {"POST", "/v2/repository/index", "{\"ready\":true}"},
        {"POST", "/v2/trace/setting", "{\"trace_level\":[\"OFF\"]}"},
        {"POST", "/v2/logging", "{}"},
        {"GET", "/v2/cudasharedmemory/status", ""},
        {"POST", "/v2/cudasharedmemory/unregister", ""},
        {"POST", "/v2/cudasharedmemory/region/r/register", "{}"},
        {"POST", "/v2/repository/models/cumsum/load", "{}"},
        {"GET", "/nowhere", ""},
        {"DELETE", "/v1/cumsum", ""},
        {"GET", "/v1/cumsum?axis=%zz", ""},
        {"POST", "/livez", "x"},
    };
    size_t at = draft->flags % (sizeof pages / sizeof pages[0]);
    bool head = draft->tensor.rank > 2 && strcmp(pages[at].method, "GET") == 0;
    (void)snprintf(draft->path, sizeof draft->path, "%s", pages[at].path);
    draft->method = head ? "HEAD" : pages[at].method;
    draft->request->head = head;
    draft->request->must_work = false;
    wire_text_add(&draft->body, pages[at].body, strlen(pages[at].body));
}

/* One element and many sums, sometimes more than a million; such an answer is sent in
 * blocks. */
static void draft_broadcast(struct draft *draft)
{
    size_t count = draft->flags % 8 == 0 ? BROADCAST : BROADCAST / 256;
    (void)snprintf(draft->path, sizeof draft->path,
                   "/v1/cumsum?dtype=uint8&shape=%zu&strides=0", count);
    wire_text_add(&draft->body, draft->tensor.bytes, 1);
    wire_text_print(&draft->fields, "Content-Type: application/octet-stream\r\n");
    draft->request->form = WIRE_WHOLE;
    draft->request->dtype = DTYPE_U8;
    draft->request->sums_bytes = count;
    draft->request->sums = malloc(count);
    WIRE_REQUIRE(draft->request->sums != NULL);
    for (size_t i = 0; i < count; i++) {
        draft->request->sums[i] = (unsigned char)((i + 1) * draft->tensor.bytes[0]);
    }
}

/* A body over the limit: slightly, or so far that the answer does not wait for its end. */
static void draft_too_long(struct draft *draft)
{
    static const char zeros[4096];
    int pieces = (draft->flags & 32) != 0 ? 300 : 50;
    (void)snprintf(draft->path, sizeof draft->path, "/v1/cumsum?dtype=uint8&shape=%zu",
                   pieces * sizeof zeros);
    for (int i = 0; i < pieces; i++) {
        wire_text_add(&draft->body, zeros, sizeof zeros);
    }
    wire_text_print(&draft->fields, "Content-Type: application/octet-stream\r\n");
    draft->request->must_work = false;
    draft->request->closes = true;
}

enum {
    KIND_TEXT = 1,       /* the numbers are JSON text, or may be */
    KIND_DIRECTML = 2,   /* supports only DirectML's types, and no empty tensors */
    KIND_NPY = 4,        /* supports only NPY's types */
    KIND_TENSORLESS = 8, /* the sums of the generated tensor are not its answer */
    KIND_NOT_EMPTY = 16
};

static const struct {
    void (*make)(struct draft *draft);
    unsigned flags;
} kinds[] = {
    {draft_raw, 0},
    {draft_json, KIND_TEXT},
    {draft_npy, KIND_NPY},
    {draft_directml, KIND_TEXT | KIND_DIRECTML | KIND_NOT_EMPTY},
    {draft_openvino, KIND_TEXT},
    {draft_v2, KIND_TEXT},
    {draft_raw, 0},
    {draft_shm_page, KIND_TENSORLESS},
    {draft_shm_infer, 0},
    {draft_page, KIND_TENSORLESS},
    {draft_broadcast, KIND_TENSORLESS | KIND_NOT_EMPTY},
    {draft_too_long, KIND_TENSORLESS},
    {draft_json, KIND_TEXT},
    {draft_raw, 0},
    {draft_v2, KIND_TEXT},
    {draft_npy, KIND_NPY},
};

/* ---- framing ---- */

enum {
    FRAMING_CODING = 3, /* 0 Content-Length, 1 chunked, 2 gzip, 3 deflate and chunked */
    FRAMING_EXPECT = 4,
    FRAMING_CLOSE = 8,
    FRAMING_ACCEPT = 48, /* 16 gzip, 32 deflate */
    FRAMING_OLD = 64     /* HTTP/1.0 */
};

static void pack(struct wire_text *body, bool gzip)
{
    z_stream stream = {.next_in = (Bytef *)(void *)body->bytes, .avail_in = (uInt)body->count};
    WIRE_REQUIRE(deflateInit2(&stream, 1, Z_DEFLATED, gzip ? 31 : 15, 8, Z_DEFAULT_STRATEGY) ==
                 Z_OK);
    struct wire_text packed = {.room = deflateBound(&stream, (uLong)body->count) + 64};
    packed.bytes = malloc(packed.room);
    WIRE_REQUIRE(packed.bytes != NULL);
    stream.next_out = (Bytef *)(void *)packed.bytes;
    stream.avail_out = (uInt)packed.room;
    WIRE_REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    packed.count = stream.total_out;
    (void)deflateEnd(&stream);
    wire_text_free(body);
    *body = packed;
}

static void add_chunks(struct wire_text *out, const struct wire_text *body, uint8_t param)
{
    static const size_t sizes[] = {65536, 1000, 97, 7};
    size_t piece = sizes[param % 4];
    piece = body->count > 4000 && piece < 97 ? 97 : piece;
    for (size_t at = 0; at < body->count; at += piece) {
        size_t count = body->count - at < piece ? body->count - at : piece;
        wire_text_print(out, "%zx\r\n", count);
        wire_text_add(out, body->bytes + at, count);
        wire_text_add(out, "\r\n", 2);
    }
    wire_text_add(out, "0\r\n\r\n", 5);
}

static void frame(struct draft *draft, uint8_t framing, uint8_t deadline, struct wire_text *out)
{
    struct wire_request *request = draft->request;
    bool old = (framing & FRAMING_OLD) != 0 && deadline % 4 == 1;
    unsigned coding = draft->body.count == 0 ? 0 : framing & FRAMING_CODING;
    coding = old && coding % 2 == 1 ? coding - 1 : coding;
    if (coding >= 2) {
        pack(&draft->body, coding == 2);
        wire_text_print(&draft->fields, "Content-Encoding: %s\r\n",
                        coding == 2 ? "gzip" : "deflate");
    }
    wire_text_print(out, "%s %s HTTP/1.%d\r\nHost: h\r\nX-Request-Id: %s\r\n", draft->method,
                    draft->path, !old, request->id);
    if (coding % 2 == 1) {
        wire_text_print(out, "Transfer-Encoding: chunked\r\n");
    } else if (strcmp(draft->method, "POST") == 0) {
        wire_text_print(out, "Content-Length: %zu\r\n", draft->body.count);
    }
    if ((framing & FRAMING_EXPECT) != 0 && !old && draft->body.count > 0 &&
        request->must_work) {
        wire_text_print(out, "Expect: 100-continue\r\n");
        request->waits_for_100 = true;
    }
    request->closes = request->closes || (framing & FRAMING_CLOSE) != 0 || old;
    if ((framing & FRAMING_CLOSE) != 0) {
        wire_text_print(out, "Connection: close\r\n");
    }
    if ((framing & FRAMING_ACCEPT) == 16 || (framing & FRAMING_ACCEPT) == 32) {
        wire_text_print(out, "Accept-Encoding: %s\r\n",
                        (framing & 16) != 0 ? "gzip" : "deflate");
    }
    if (deadline >= 200) {
        unsigned ms = deadline < 220 ? 1 : deadline < 240 ? 50 : 100000000;
        request->may_time_out = deadline < 240;
        wire_text_print(out, "X-Request-Timeout-Ms: %u\r\n", ms);
    }
    wire_text_add(out, draft->fields.bytes, draft->fields.count);
    wire_text_add(out, "\r\n", 2);
    if (coding % 2 == 1) {
        add_chunks(out, &draft->body, framing >> 6 | deadline);
    } else {
        wire_text_add(out, draft->body.bytes, draft->body.count);
    }
}

/* ---- all together ---- */

static void make_id(char id[WIRE_ID_BYTES], unsigned client, unsigned number)
{
    uint64_t hash = (client * UINT64_C(1000003) + number + 1) * UINT64_C(0x9E3779B97F4A7C15);
    (void)snprintf(id, WIRE_ID_BYTES, "w%u-%u-%012llx", client, number,
                   (unsigned long long)(hash >> 16));
}

static void suit(struct wire_tensor *tensor, unsigned kind)
{
    if ((kind & KIND_DIRECTML) != 0) {
        static const enum dtype dtypes[] = {DTYPE_I32, DTYPE_I64, DTYPE_U32, DTYPE_U64};
        tensor->dtype = dtypes[(unsigned)tensor->dtype % 4];
    }
    if ((kind & KIND_NPY) != 0 && dtype_info(tensor->dtype)->npy == NULL) {
        tensor->dtype = DTYPE_F16;
    }
}

size_t wire_request_make(struct wire_reader params, unsigned client, unsigned number,
                         struct wire_text *out, struct wire_request *request, bool *edited)
{
    size_t began = out->count;
    size_t kind = wire_read_byte(&params) % (sizeof kinds / sizeof kinds[0]);
    struct draft draft = {.method = "POST", .request = request};
    *request = (struct wire_request){.must_work = true};
    make_id(request->id, client, number);
    struct wire_reader flags = params;
    for (int i = 0; i < 4; i++) {
        (void)wire_read_byte(&flags);
    }
    draft.flags = wire_read_byte(&flags);
    const unsigned is = kinds[kind].flags;
    wire_tensor_read(&draft.tensor, &params,
                     (is & KIND_TEXT) != 0 ? MOST_NUMBERS : MOST_ELEMENTS,
                     (is & KIND_NOT_EMPTY) == 0);
    suit(&draft.tensor, is);
    wire_tensor_fill(&draft.tensor, (uint64_t)client << 32 | number);
    kinds[kind].make(&draft);
    const struct dtype_info *info = dtype_info(draft.tensor.dtype);
    bool numbers = request->form == WIRE_NUMBERS || (is & KIND_TEXT) != 0;
    if (numbers && info->kind == DTYPE_KIND_FLOAT) {
        request->form = WIRE_ANY;
    }
    if (request->form != WIRE_ANY && (is & KIND_TENSORLESS) == 0) {
        request->dtype = draft.tensor.dtype;
        request->sums = wire_tensor_sums(&draft.tensor);
        request->sums_bytes = draft.tensor.elements * info->bytes;
    }
    uint8_t framing = wire_read_byte(&params);
    uint8_t deadline = wire_read_byte(&params);
    uint8_t share = wire_read_byte(&params);
    uint8_t edits = wire_read_byte(&params);
    frame(&draft, framing, deadline, out);
    *edited = edits >= EDITS_FROM;
    for (int i = EDITS_FROM; i <= edits && i < EDITS_FROM + 8; i++) {
        wire_text_edit(out, began, &params);
    }
    free(draft.tensor.bytes);
    wire_text_free(&draft.fields);
    wire_text_free(&draft.body);
    return share == 0 ? out->count - began : (out->count - began) * share / 256;
}
