/* The answer is kept in memory until it is complete: an incomplete answer must not be
 * written. */
#include "client/cli/exchange.h"

#include "client/cli/destination.h"
#include "client/cli/terminal.h"
#include "proto/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct exchange {
    FILE *memory;  /* owned: stream to `bytes` */
    char *bytes;   /* owned: the answer and a NUL, valid after fflush(memory) */
    size_t count;  /* bytes of the answer received so far */
    uint64_t most; /* limit for the bytes of the answer */
    int status;    /* exit status after complaining about the answer */
};

/* Check the type of the answer, and discard the bytes of an earlier attempt. */
static int begin_answer(void *user, const struct tally_answer *answer)
{
    static const char json[] = "application/json";
    struct exchange *exchange = user;
    exchange->count = 0;
    rewind(exchange->memory);
    if (strncasecmp(answer->content_type, json, strlen(json)) != 0) {
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
    if (fwrite(bytes, 1, count, exchange->memory) != count) {
        exchange->status = complain_no_memory();
    }
    exchange->count += count;
    return exchange->status;
}

static int give_up(void *user, int64_t sent, int64_t send_total, int64_t received,
                   int64_t receive_total)
{
    (void)user, (void)sent, (void)send_total, (void)received, (void)receive_total;
    return interrupted();
}

/* Return whether the answer is one complete object, judged by its brackets and quotes. The end
 * of an answer without Content-Length may be the end of a broken connection. Control characters
 * other than blanks are refused, because a terminal may execute them. */
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
    size_t unused = 0; /* count of the stream, which a rewind does not reset */
    struct destination destination;
    struct tally_error err;
    request.struct_size = sizeof request;
    request.accept = "application/json";
    request.check_answer = begin_answer;
    request.write_answer = keep_bytes;
    request.progress = give_up;
    request.user = &exchange;
    exchange.memory = open_memstream(&exchange.bytes, &unused);
    if (exchange.memory == NULL) {
        return complain_no_memory();
    }
    int status = destination_open(output, false, &destination);
    if (status == EXIT_DONE) {
        const bool answered =
            tally_exchange(client, &request, &err) == TALLY_OK && fflush(exchange.memory) == 0;
        status = answered                       ? finish_answer(&exchange, &destination)
                 : exchange.status != EXIT_DONE ? exchange.status
                                                : complain_error(&err);
    }
    destination_close(&destination);
    (void)fclose(exchange.memory);
    free(exchange.bytes);
    return status;
}
