/* Texts that an HTTP thread parses and prints itself. To a codec thread and back takes as long as
 * some thousand numbers, so what is not long stays; but not more of it in one turn of the loop
 * than leaves others' requests a short wait. The rest of the turn's texts wait for the next
 * turns as long as that is a matter of milliseconds, one of each client after the other, first in,
 * first out of each: who sends many makes others wait for one of them, not for all. What comes
 * beyond that goes to the codec pool, whose lines are shared fairly between clients.
 *
 * Thread: the loop. */
#ifndef TALLY_SERVER_TEXT_TURN_H
#define TALLY_SERVER_TEXT_TURN_H

#include "server/sched/request.h"

enum {
    TEXT_TURN_SHORT_BYTES = 16 << 10,  /* of a text that never waits */
    TEXT_TURN_BYTES = 128 << 10,       /* in a turn, if it is more than one: some 0.1 ms */
    TEXT_TURN_WAITING_BYTES = 4 << 20, /* of those that wait */
    /* No more clients wait, as no short text does. */
    TEXT_TURN_LINES = TEXT_TURN_WAITING_BYTES / TEXT_TURN_SHORT_BYTES
};

/* What waits of a client. */
struct text_line {
    const struct client *client;  /* borrowed from them */
    struct request_list requests; /* owned, oldest first */
    uint64_t bytes;               /* of their texts */
};

/* Zeroed: nothing was done, nothing waits. */
struct text_turn {
    uint64_t done_bytes;                     /* in this turn */
    uint64_t waiting_bytes;                  /* of those that wait */
    struct text_line lines[TEXT_TURN_LINES]; /* a ring */
    size_t first;                            /* the line whose turn it is */
    size_t count; /* from that one on, in each of which something waits */
};

enum text_place {
    TEXT_NOW,      /* here, and it is counted */
    TEXT_LATER,    /* here: text_turn_wait() is due */
    TEXT_ELSEWHERE /* in the codec pool */
};

/* most   --inline-json-bytes: of a text that is not for the codec pool */
enum text_place text_turn_place(struct text_turn *turn, uint64_t bytes, uint64_t most);

/* The request, which is away (request.h), waits for a turn with room for so many bytes. Ownership
 * goes to the line. */
void text_turn_wait(struct text_turn *turn, struct request *request, uint64_t bytes);

/* A turn begins. */
void text_turn_begin(struct text_turn *turn);

/* The one that waits whose client is next, if there is room for it in this turn: then its
 * text_turn_place() is TEXT_NOW. NULL: none. */
struct request *text_turn_next(struct text_turn *turn);

/* Whether more than a turn's worth of the client's waits: then it is early to read others. */
bool text_turn_has_enough(const struct text_turn *turn, const struct client *client);

/* Whether any waits. */
bool text_turn_waits(const struct text_turn *turn);

#endif
