/* The head of an answer, whatever the dialect: in memory that the caller has for it, if it
 * fits, else in its own. Possible failure: no memory, which leaves the answer without a head. */
#include "proto/codec.h"

#include <stdlib.h>

void answer_deinit(struct answer *answer)
{
    if (answer->head != answer->room && answer->head != answer->carry) {
        free(answer->head);
    }
    answer->head = NULL;
    answer->head_bytes = 0;
}

void answer_begin_text(const struct answer *answer, struct json_writer *w, uint64_t most)
{
    if (answer->room != NULL && most < answer->room_bytes) {
        json_writer_init_fixed(w, answer->room, answer->room_bytes);
    } else {
        json_writer_init_sized(w, most);
    }
}

bool answer_end_text(struct answer *answer, struct json_writer *w)
{
    answer_deinit(answer);
    answer->head = json_writer_take(w, &answer->head_bytes);
    json_writer_deinit(w);
    return answer->head != NULL;
}
