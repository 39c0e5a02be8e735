/* JSON answers, and numbers that become text, are kept in memory until they are complete. Other
 * numbers arrive as raw bytes: the head of the answer has their type and shape, so their number is
 * known, and they are written at once, in an NPY file behind its header. A further attempt starts
 * over; answers to a pipe are not repeated. */
#include "client/cli/exchange.h"

#include "client/cli/destination.h"
#include "client/cli/terminal.h"
#include "client/cli/text_writer.h"
#include "client/json_text.h"
#include "client/media_type.h"
#include "proto/npy_header.h"
#include "proto/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct exchange {
    const struct expectation *expected;
    struct destination destination;
    uint64_t received; /* bytes of the answer received so far */
    uint64_t most;     /* largest number of bytes of the answer */
    char *bytes;       /* owned: of an answer that is kept: JSON, or numbers that become text */
    size_t room;
    char head[NPY_HEADER_MAX]; /* of an NPY file */
    size_t head_bytes;
    enum tally_dtype dtype;   /* of numbers, as the answer has it */
    struct number_list shape; /* likewise */
    int status;               /* after complaining about the answer */
};

static int complain_too_long(uint64_t most)
{
    return complain(EXIT_SERVER,
                    "the answer is longer than %" PRIu64
                    " bytes, the most that this request can have as its answer; is this a "
                    "Tally server?",
                    most);
}

/* Check type and shape of the answer, and compute its length. */
static int check_tensor(struct exchange *exchange, const char *dtype, const char *shape)
{
    const struct expectation *expected = exchange->expected;
    char wanted[SHAPE_TEXT] = "";
    struct number_list sizes = {.count = 0};
    struct tally_scan scan = {.struct_size = sizeof scan};
    text_append_list(wanted, sizeof wanted, expected->shape.numbers, expected->shape.count);
    bool other = (expected->dtype != NULL && strcmp(dtype, expected->dtype) != 0) ||
                 (expected->shape.count > 0 && strcmp(shape, wanted) != 0);
    bool told =
        tally_dtype_find(dtype, &scan.dtype) == 0 && number_list_parse(shape, false, &sizes);
    scan.rank = sizes.count;
    scan.sizes = sizes.numbers;
    if (expected->strides.count == sizes.count) {
        scan.output_strides = expected->strides.numbers;
    }
    if (other || !told || tally_scan_bytes(&scan, NULL, &exchange->most, NULL) != TALLY_OK) {
        return complain(EXIT_SERVER,
                        "the answer is a tensor of type \"%.20s\" and shape \"%.60s\", "
                        "expected %s and %.60s",
                        dtype, shape, expected->dtype != NULL ? expected->dtype : "a type",
                        wanted[0] != '\0' ? wanted : "a shape");
    }
    if (expected->shape.count == 0 && exchange->most > expected->most) {
        return complain_too_long(expected->most);
    }
    exchange->dtype = scan.dtype;
    exchange->shape = sizes;
    if (expected->format != FORMAT_NPY) {
        return EXIT_DONE;
    }
    if (scan.dtype == TALLY_BFLOAT16) {
        return complain(EXIT_USAGE, "NPY files have no bfloat16; use --output-format raw");
    }
    if (scan.output_strides != NULL) { /* elements and gaps become a flat array */
        sizes.count = 1;
        sizes.numbers[0] = (int64_t)(exchange->most / tally_dtype_bytes(scan.dtype));
    }
    exchange->head_bytes = npy_header_print((enum dtype)scan.dtype, false, sizes.numbers,
                                            sizes.count, 0, exchange->head);
    return EXIT_DONE;
}

static int begin_answer(struct exchange *exchange, const struct tally_answer *answer)
{
    const char *wanted = format_content_type(exchange->expected->format);
    exchange->received = 0;
    exchange->most = exchange->expected->most;
    if (exchange->destination.temporary != NULL) {
        STEP(destination_clear(&exchange->destination));
    }
    if (!media_type_is(answer->content_type, wanted)) {
        return complain(
            EXIT_SERVER,
            "the answer's Content-Type is \"%s\", expected %s; is this a Tally server?",
            answer->content_type, wanted);
    }
    if (exchange->expected->format != FORMAT_JSON) {
        return check_tensor(exchange, answer->dtype, answer->shape);
    }
    return answer->content_length > (int64_t)exchange->most ? complain_too_long(exchange->most)
                                                            : EXIT_DONE;
}

static int store_bytes(struct exchange *exchange, const void *bytes, size_t count)
{
    const size_t have = (size_t)exchange->received;
    if (have + count > exchange->room) {
        size_t room = smaller_of((have + count) * 2, exchange->most);
        char *larger = realloc(exchange->bytes, room);
        if (larger == NULL) {
            return complain_no_memory();
        }
        exchange->bytes = larger;
        exchange->room = room;
    }
    memcpy(exchange->bytes + have, bytes, count);
    return EXIT_DONE;
}

/* Write numbers, the first of them behind the header of an NPY file. */
static int write_numbers(struct exchange *exchange, const void *bytes, size_t count)
{
    const struct destination *destination = &exchange->destination;
    if (exchange->received == 0) {
        STEP(destination_write(destination, 0, exchange->head, exchange->head_bytes));
    }
    return destination_write(destination, exchange->head_bytes + exchange->received, bytes,
                             count);
}

static int receive_bytes(struct exchange *exchange, const void *bytes, size_t count)
{
    if (count > exchange->most - exchange->received) {
        return complain_too_long(exchange->most);
    }
    STEP(format_is_binary(exchange->expected->format) ? write_numbers(exchange, bytes, count)
                                                      : store_bytes(exchange, bytes, count));
    exchange->received += count;
    return EXIT_DONE;
}

static int check_answer(void *user, const struct tally_answer *answer)
{
    struct exchange *exchange = user;
    exchange->status = begin_answer(exchange, answer);
    return exchange->status;
}

static int write_answer(void *user, uint64_t offset, const void *bytes, size_t count)
{
    struct exchange *exchange = user;
    (void)offset; /* is exchange->received, which check_answer() resets */
    exchange->status = receive_bytes(exchange, bytes, count);
    return exchange->status;
}

static int show_progress(void *user, int64_t sent, int64_t send_total, int64_t received,
                         int64_t receive_total)
{
    (void)user;
    double both = (double)send_total + (double)(receive_total > 0 ? receive_total : send_total);
    double moved = (double)sent + (double)received;
    progress_show(moved / 2, (moved > both ? moved : both) / 2);
    return interrupted();
}

/* Whether a complete JSON text has control characters other than blanks, which a terminal might
 * obey. */
static bool has_controls(struct json_text text)
{
    bool found = false;
    for (size_t i = 0; i < text.count && !found; i++) {
        found = text_control(text.at + i) > 0 && !text_is_space(text.at[i]);
    }
    return found;
}

/* Write the numbers of the answer as text or CSV. */
static int write_text(struct exchange *exchange)
{
    const struct expectation *expected = exchange->expected;
    struct text_writer writer;
    int status = text_writer_open(&writer, expected->format, &exchange->shape,
                                  &expected->dialect, &exchange->destination);
    if (status == EXIT_DONE) {
        status = text_writer_add(&writer, exchange->dtype, exchange->bytes,
                                 exchange->received / tally_dtype_bytes(exchange->dtype));
    }
    text_writer_close(&writer);
    return status == EXIT_DONE ? destination_finish(&exchange->destination) : status;
}

/* Check the whole answer, and finish the result. */
static int finish_answer(struct exchange *exchange)
{
    const struct expectation *expected = exchange->expected;
    struct destination *destination = &exchange->destination;
    struct json_text data = {"", 0};
    if (expected->format != FORMAT_JSON) {
        if (exchange->received < exchange->most) {
            return complain(EXIT_SERVER, "the answer ended after %" PRIu64 " bytes; try again",
                            exchange->received);
        }
        if (format_is_text(expected->format)) {
            return write_text(exchange);
        }
        STEP(exchange->most == 0 ? write_numbers(exchange, NULL, 0) : EXIT_DONE);
        return destination_finish(destination);
    }
    struct json_text body = {exchange->bytes, (size_t)exchange->received};
    if (!json_text_is_whole(body) || !json_text_member(body, expected->member, &data) ||
        *data.at != '[' || has_controls(body)) {
        return complain(EXIT_SERVER,
                        "the answer is not a whole JSON object with an array \"%s\"; is this a "
                        "Tally server?",
                        expected->member);
    }
    if (expected->bare) {
        body = data;
    }
    STEP(destination_write(destination, 0, body.at, body.count));
    if (body.at[body.count - 1] != '\n') {
        STEP(destination_write(destination, body.count, "\n", 1));
    }
    return destination_finish(destination);
}

int exchange(struct tally *client, struct tally_request request,
             const struct expectation *expected, const char *output, bool quiet,
             struct tally_error *err)
{
    struct exchange exchange = {.expected = expected};
    bool binary = format_is_binary(expected->format);
    request.struct_size = sizeof request;
    request.accept = format_content_type(expected->format);
    request.check_answer = check_answer;
    request.write_answer = write_answer;
    request.progress = show_progress;
    request.user = &exchange;
    int status = destination_open(output, binary, &exchange.destination);
    if (status == EXIT_DONE) {
        request.answer_once = binary && exchange.destination.temporary == NULL;
        progress_begin(quiet);
        bool answered = tally_exchange(client, &request, err) == TALLY_OK;
        progress_end();
        status = answered                       ? finish_answer(&exchange)
                 : exchange.status != EXIT_DONE ? exchange.status
                                                : complain_error(err);
    }
    destination_close(&exchange.destination);
    free(exchange.bytes);
    return status;
}
