/* JSON is kept in memory until it is whole. Numbers go to their place as soon as it is known
 * how many bytes there must be, which follows from type and shape: raw bytes have these in
 * their head, NPY at its beginning. A further attempt starts anew; to a pipe there is none. */
#include "client/cli/exchange.h"

#include "client/cli/destination.h"
#include "client/cli/terminal.h"
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
    uint64_t received; /* bytes of the answer */
    char *bytes;       /* owned: those that are kept */
    size_t count;
    size_t room;
    uint64_t most; /* bytes it may have; UINT64_MAX: of NPY, until its head is there */
    int status;    /* after complaining about the answer */
};

static int complain_too_long(uint64_t most)
{
    return complain(EXIT_SERVER, "the answer is longer than %" PRIu64 " bytes", most);
}

/* Type and shape of the answer are those that were expected, and say how many bytes it has,
 * with what is before its numbers. */
static int check_tensor(struct exchange *exchange, const char *dtype, const char *shape,
                        uint64_t before)
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
    if (expected->format == FORMAT_RAW && expected->strides.count == sizes.count) {
        scan.output_strides = expected->strides.numbers;
    }
    if (other || !told || tally_scan_bytes(&scan, NULL, &exchange->most, NULL) != TALLY_OK) {
        return complain(EXIT_SERVER,
                        "the answer is a tensor of type \"%.20s\" and shape \"%.60s\", "
                        "expected %s and %.60s",
                        dtype, shape, expected->dtype != NULL ? expected->dtype : "a type",
                        wanted[0] != '\0' ? wanted : "a shape");
    }
    exchange->most += before;
    return EXIT_DONE;
}

static int begin_answer(struct exchange *exchange, const struct tally_answer *answer)
{
    const struct expectation *expected = exchange->expected;
    const char *wanted = format_content_type(expected->format);
    exchange->received = 0;
    exchange->count = 0;
    exchange->most = UINT64_MAX;
    if (exchange->destination.temporary != NULL) {
        STEP(destination_clear(&exchange->destination));
    }
    if (!media_type_is(answer->content_type, wanted)) {
        return complain(
            EXIT_SERVER,
            "the answer's Content-Type is \"%s\", expected %s; is this a Tally server?",
            answer->content_type, wanted);
    }
    if (expected->format == FORMAT_RAW) {
        return check_tensor(exchange, answer->dtype, answer->shape, 0);
    }
    if (expected->format == FORMAT_JSON) {
        exchange->most = expected->json_most;
        if (answer->content_length > (int64_t)exchange->most) {
            return complain_too_long(exchange->most);
        }
    }
    return EXIT_DONE;
}

/* Look for the head of an NPY file in what is there. */
static int read_npy_head(struct exchange *exchange)
{
    struct byte_view have = {exchange->bytes, exchange->count};
    struct error err = ERROR_INIT;
    struct npy_header head;
    char shape[SHAPE_TEXT] = "";
    if (npy_header_need(have, &have.count, &err) != STATUS_OK) {
        return complain(EXIT_SERVER, "the answer is not an NPY file");
    }
    if (have.count > exchange->count) {
        return EXIT_DONE; /* more of it is to come */
    }
    if (npy_header_parse(have, &head, &err) != STATUS_OK || head.byte_swap ||
        head.fortran_order) {
        return complain(EXIT_SERVER, "the answer is not an NPY file in C order, little-endian");
    }
    text_append_list(shape, sizeof shape, head.sizes, head.rank);
    return check_tensor(exchange, tally_dtype_name((enum tally_dtype)head.dtype), shape,
                        have.count);
}

static int keep_bytes(struct exchange *exchange, const void *bytes, size_t count)
{
    if (exchange->count + count > exchange->room) {
        size_t room = (exchange->count + count) * 2;
        char *larger = realloc(exchange->bytes, room);
        if (larger == NULL) {
            return complain_no_memory();
        }
        exchange->bytes = larger;
        exchange->room = room;
    }
    memcpy(exchange->bytes + exchange->count, bytes, count);
    exchange->count += count;
    return EXIT_DONE;
}

static int take_bytes(struct exchange *exchange, const void *bytes, size_t count)
{
    bool json = exchange->expected->format == FORMAT_JSON;
    bool headless = exchange->most == UINT64_MAX;
    uint64_t offset = exchange->received;
    exchange->received += count;
    if (json || headless) {
        STEP(keep_bytes(exchange, bytes, count));
    }
    if (headless) {
        STEP(read_npy_head(exchange));
        if (exchange->most == UINT64_MAX) {
            return EXIT_DONE;
        }
        offset = 0;
        bytes = exchange->bytes;
        count = exchange->count;
    }
    if (exchange->received > exchange->most) {
        return complain_too_long(exchange->most);
    }
    return json ? EXIT_DONE : destination_place(&exchange->destination, offset, bytes, count);
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
    (void)offset; /* where the last one ended: check_answer() starts over */
    exchange->status = take_bytes(exchange, bytes, count);
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

/* JSON has no control characters but blanks, and it may go to a terminal. The text is whole:
 * its last byte is a bracket or a blank. */
static bool has_controls(struct json_text text)
{
    bool found = false;
    for (size_t i = 0; i < text.count && !found; i++) {
        found = text_control(text.at + i) > 0 && !text_is_space(text.at[i]);
    }
    return found;
}

/* The answer has come to its end. */
static int finish_answer(struct exchange *exchange)
{
    const struct expectation *expected = exchange->expected;
    struct destination *destination = &exchange->destination;
    struct json_text data = {"", 0};
    if (expected->format != FORMAT_JSON) {
        return exchange->received == exchange->most
                   ? destination_finish(destination)
                   : complain(EXIT_SERVER,
                              "the answer ended after %" PRIu64 " bytes; try again",
                              exchange->received);
    }
    struct json_text body = {exchange->bytes, exchange->count};
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
    STEP(destination_place(destination, 0, body.at, body.count));
    if (body.at[body.count - 1] != '\n') {
        STEP(destination_place(destination, body.count, "\n", 1));
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
