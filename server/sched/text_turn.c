/* How much text an HTTP thread converts in a turn, and the line of those that wait for one. */
#include "server/sched/text_turn.h"

static bool has_room(const struct text_turn *turn, uint64_t bytes)
{
    return bytes <= TEXT_TURN_SHORT_BYTES || turn->done_bytes == 0 ||
           turn->done_bytes + bytes <= TEXT_TURN_BYTES;
}

enum text_place text_turn_place(struct text_turn *turn, uint64_t bytes, uint64_t most)
{
    if (bytes > most) {
        return TEXT_ELSEWHERE;
    }
    if (has_room(turn, bytes)) {
        turn->done_bytes += bytes;
        return TEXT_NOW;
    }
    return turn->waiting_bytes + bytes <= TEXT_TURN_WAITING_BYTES ? TEXT_LATER : TEXT_ELSEWHERE;
}

/* The client's line, perhaps one that it did not have; if others have all, the last one. */
static struct text_line *line_of(struct text_turn *turn, const struct client *client)
{
    struct text_line *unused = NULL;
    for (size_t i = 0; i < TEXT_TURN_LINES; i++) {
        struct text_line *line = &turn->lines[i];
        const bool empty = line->requests.first == NULL;
        if (!empty && line->client == client) {
            return line;
        }
        unused = empty && unused == NULL ? line : unused;
    }
    if (unused == NULL) {
        return &turn->lines[TEXT_TURN_LINES - 1];
    }
    unused->client = client;
    return unused;
}

void text_turn_wait(struct text_turn *turn, struct request *request, uint64_t bytes)
{
    request->cost = bytes;
    request_append(&line_of(turn, request->client)->requests, request);
    turn->waiting_bytes += bytes;
}

void text_turn_begin(struct text_turn *turn)
{
    turn->done_bytes = 0;
}

struct request *text_turn_next(struct text_turn *turn)
{
    for (size_t i = 0; i < TEXT_TURN_LINES; i++) {
        const size_t at = (turn->next + i) % TEXT_TURN_LINES;
        struct request_list *list = &turn->lines[at].requests;
        struct request *request = list->first;
        if (request == NULL) {
            continue;
        }
        if (!has_room(turn, request->cost)) {
            return NULL;
        }
        list->first = request->next;
        request->next = NULL;
        turn->waiting_bytes -= request->cost;
        turn->next = at + 1;
        return request;
    }
    return NULL;
}

bool text_turn_waits(const struct text_turn *turn)
{
    return turn->waiting_bytes > 0;
}
