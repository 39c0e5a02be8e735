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

void text_turn_wait(struct text_turn *turn, struct request *request, uint64_t bytes)
{
    request->cost = bytes;
    request_append(&turn->waiting, request);
    turn->waiting_bytes += bytes;
}

void text_turn_begin(struct text_turn *turn)
{
    turn->done_bytes = 0;
}

struct request *text_turn_next(struct text_turn *turn)
{
    struct request *request = turn->waiting.first;
    if (request == NULL || !has_room(turn, request->cost)) {
        return NULL;
    }
    turn->waiting.first = request->next;
    request->next = NULL;
    turn->waiting_bytes -= request->cost;
    return request;
}

bool text_turn_waits(const struct text_turn *turn)
{
    return turn->waiting.first != NULL;
}
