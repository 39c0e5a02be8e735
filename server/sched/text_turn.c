/* How much text an HTTP thread converts in a turn, and the line of those that wait for one. */
#include "server/sched/text_turn.h"

#include <assert.h>

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

static struct text_line *line_at(struct text_turn *turn, size_t place)
{
    return &turn->lines[(turn->first + place) % TEXT_TURN_LINES];
}

void text_turn_wait(struct text_turn *turn, struct request *request, uint64_t bytes)
{
    size_t place = 0;
    while (place < turn->count && line_at(turn, place)->client != request->arrival.client) {
        place++;
    }
    struct text_line *line = line_at(turn, place);
    if (place == turn->count) { /* a line that it did not have, and that has its turn last */
        assert(turn->count < TEXT_TURN_LINES);
        *line = (struct text_line){.client = request->arrival.client};
        turn->count++;
    }
    request->line.cost = bytes;
    request_set_owner(request, OWNER_TURN);
    request_append(&line->requests, request);
    line->bytes += bytes;
    turn->waiting_bytes += bytes;
}

void text_turn_begin(struct text_turn *turn)
{
    turn->done_bytes = 0;
}

struct request *text_turn_next(struct text_turn *turn)
{
    struct text_line line = *line_at(turn, 0);
    if (turn->count == 0 || !has_room(turn, line.requests.first->line.cost)) {
        return NULL;
    }
    struct request *request = line.requests.first;
    line.requests.first = request->line.next;
    request->line.next = NULL;
    line.bytes -= request->line.cost;
    turn->waiting_bytes -= request->line.cost;
    turn->first = (turn->first + 1) % TEXT_TURN_LINES;
    turn->count--;
    if (line.requests.first != NULL) {
        *line_at(turn, turn->count++) = line;
    }
    return request;
}

bool text_turn_has_enough(const struct text_turn *turn, const struct client *client)
{
    for (size_t i = 0; turn->waiting_bytes > TEXT_TURN_BYTES && i < turn->count; i++) {
        const struct text_line *line = &turn->lines[(turn->first + i) % TEXT_TURN_LINES];
        if (line->client == client) {
            return line->bytes > TEXT_TURN_BYTES;
        }
    }
    return false;
}

bool text_turn_waits(const struct text_turn *turn)
{
    return turn->waiting_bytes > 0;
}
