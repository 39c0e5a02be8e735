/* The answer is kept in memory until it is complete, since a part of it is no result. */
#include "client/cli/exchange.h"

#include "client/cli/destination.h"
#include "client/cli/terminal.h"
#include "proto/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct exchange {
    char *bytes; /* owned: the answer, with a zero behind it */
    size_t count;
    size_t room;
    uint64_t most; /* largest number of bytes of the answer */
    int status;    /* exit status after complaining about the answer */
};

static int check_answer(void *user, const struct tally_answer *answer)
{
    static const char json[] = "application/json";
    struct exchange *exchange = user;
    const size_t length = strcspn(answer->content_type, "; \t");
    exchange->count = 0; /* of an earlier attempt */
    if (length != strlen(json) || strncasecmp(answer->content_type, json, length) != 0) {
        exchange->status = complain(
            EXIT_SERVER,
            "the answer's Content-Type is \"%s\", expected %s; is this a Tally server?",
            answer->content_type, json);
    }
    return exchange->status;
}

static int keep_bytes(void *user, uint64_t offset, const void *bytes, size_t count)
{
    struct exchange *exchange = user;
    if (count > exchange->most - offset) {
        exchange->status = complain(
            EXIT_SERVER, "the answer is longer than %" PRIu64 " bytes; is this a Tally server?",
            exchange->most);
        return exchange->status;
    }
    if (offset + count >= exchange->room) {
        const size_t room = 2 * (size_t)(offset + count) + 1;
        char *larger = realloc(exchange->bytes, room);
        if (larger == NULL) {
            exchange->status = complain_no_memory();
            return exchange->status;
        }
        exchange->bytes = larger;
        exchange->room = room;
    }
    memcpy(exchange->bytes + offset, bytes, count);
    exchange->count = (size_t)offset + count;
    exchange->bytes[exchange->count] = '\0';
    return EXIT_DONE;
}

static int give_up(void *user, int64_t sent, int64_t send_total, int64_t received,
                   int64_t receive_total)
{
    (void)user, (void)sent, (void)send_total, (void)received, (void)receive_total;
    return interrupted();
}

/* Whether the answer is one object, as far as its brackets and quotes say. A connection that breaks
 * ends an answer without Content-Length like any other. Control characters other than blanks are
 * refused, since a terminal might obey them. */
static bool is_whole_object(const struct exchange *exchange)
{
    const size_t count = text_trimmed(exchange->bytes, exchange->count);
    uint64_t depth = 0;
    bool in_string = false;
    bool escaped = false; /* the character follows a backslash in a string */
    for (size_t i = 0; i < count; i++) {
        const char c = exchange->bytes[i];
        if ((i > 0 && depth == 0) ||
            (text_control(exchange->bytes + i) > 0 && !text_is_space(c))) {
            return false;
        }
        if (in_string) {
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else {
            in_string = c == '"';
            depth += (uint64_t)(c == '{' || c == '[') - (uint64_t)(c == '}' || c == ']');
        }
    }
    return count > 0 && exchange->bytes[0] == '{' && depth == 0;
}

static int finish_answer(const struct exchange *exchange, struct destination *destination)
{
    if (!is_whole_object(exchange)) {
        return complain(EXIT_SERVER,
                        "the answer is not a whole JSON object; is this a Tally server?");
    }
    STEP(destination_write(destination, 0, exchange->bytes, exchange->count));
    if (exchange->bytes[exchange->count - 1] != '\n') {
        STEP(destination_write(destination, exchange->count, "\n", 1));
    }
    return destination_finish(destination);
}

int exchange_json(struct tally *client, struct tally_request request, uint64_t most,
                  const char *output)
{
    struct exchange exchange = {.most = most};
    struct destination destination;
    struct tally_error err;
    request.struct_size = sizeof request;
    request.accept = "application/json";
    request.check_answer = check_answer;
    request.write_answer = keep_bytes;
    request.progress = give_up;
    request.user = &exchange;
    int status = destination_open(output, false, &destination);
    if (status == EXIT_DONE) {
        const bool answered = tally_exchange(client, &request, &err) == TALLY_OK;
        status = answered                       ? finish_answer(&exchange, &destination)
                 : exchange.status != EXIT_DONE ? exchange.status
                                                : complain_error(&err);
    }
    destination_close(&destination);
    free(exchange.bytes);
    return status;
}
