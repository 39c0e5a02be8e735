/* tally_exchange(): any request of the service. The caller's callbacks provide the body, check
 * the headers of the answer and receive its bytes. The caller checks the number of bytes.
 *
 * Possible failures: TALLY_INVALID_ARGUMENT for text that cannot be in a request line or a
 * header, TALLY_BAD_ANSWER if check_answer() refuses the answer, TALLY_LOCAL_IO if another
 * callback fails. Thread: the caller's. */
#include "client/call.h"

#include <string.h>

enum {
    HEADER_MOST = 400 /* longest value of a header, in bytes */
};

/* Return whether text can be in a request line or a header: printable ASCII, no character below
 * `lowest`. */
static bool is_clean(const char *text, char lowest)
{
    while (text != NULL && *text >= lowest && *text <= '~') {
        text++;
    }
    return text == NULL || *text == '\0';
}

static enum tally_status user_begin(void *context, const struct tally_answer *answer,
                                    uint64_t *due, struct tally_error *err)
{
    const struct tally_request *request = context;
    *due = UINT64_MAX; /* any length */
    if (request->check_answer == NULL || request->check_answer(request->user, answer) == 0) {
        return TALLY_OK;
    }
    return client_error_set(err, TALLY_BAD_ANSWER,
                            "the answer was refused (Content-Type \"%s\", type \"%s\", shape "
                            "\"%.200s\")",
                            answer->content_type, answer->dtype, answer->shape);
}

static enum tally_status user_write(void *context, uint64_t offset, const void *bytes,
                                    size_t count, struct tally_error *err)
{
    const struct tally_request *request = context;
    if (request->write_answer == NULL ||
        request->write_answer(request->user, offset, bytes, count) == 0) {
        return TALLY_OK;
    }
    return client_error_set(err, TALLY_LOCAL_IO, "writing the answer failed");
}

/* Return the fault of a request; NULL: none. */
static const char *request_trouble(const struct tally_request *request)
{
    if (request == NULL || request->struct_size != sizeof *request) {
        return "request is NULL or its struct_size is not sizeof(struct tally_request)";
    }
    if (request->path == NULL || request->path[0] != '/' || !is_clean(request->path, '!')) {
        return "request.path must start with '/' and be percent-encoded";
    }
    if (!is_clean(request->method, '!') || !is_clean(request->content_type, ' ') ||
        !is_clean(request->accept, ' ')) {
        return "method, content_type and accept must not contain control characters";
    }
    if ((request->content_type != NULL && strlen(request->content_type) > HEADER_MOST) ||
        (request->accept != NULL && strlen(request->accept) > HEADER_MOST)) {
        return "content_type and accept must not be longer than 400 bytes";
    }
    if (request->body == NULL && request->read_body == NULL && request->body_bytes > 0) {
        return "request.body is NULL, but body_bytes is not 0";
    }
    if (request->body_bytes > INT64_MAX) {
        return "request.body_bytes is larger than 2^63";
    }
    return NULL;
}

enum tally_status tally_exchange(struct tally *client, const struct tally_request *request,
                                 struct tally_error *err)
{
    CLIENT_TRY(client_require(client, err));
    const char *trouble = request_trouble(request);
    if (trouble != NULL) {
        return client_error_set(err, TALLY_INVALID_ARGUMENT, "%s", trouble);
    }
    struct tally_request copy = *request; /* spec.context is not const */
    bool get = request->method != NULL &&
               (strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0);
    const char *type = request->content_type;
    struct call_spec spec = {
        .method = request->method == NULL ? "POST" : request->method,
        .path = request->path,
        .content_type = get            ? NULL
                        : type == NULL ? "application/octet-stream"
                                       : type,
        .accept = request->accept,
        .body = request->body,
        .body_bytes = request->body_bytes,
        .read_body = request->read_body,
        .progress = request->progress,
        .user = request->user,
        .deadline_ms = request->deadline_ms,
        .once = request->answer_once != 0,
        .in_order = !get,
        .begin = user_begin,
        .write = user_write,
        .context = &copy,
    };
    return call_run(client, &spec, err);
}
