/* Lifetime of the resources of a request in any dialect, and construction of the head of its
 * answer: in memory that the caller provides if the head fits there, else in allocated memory.
 * Possible failure: no memory; the answer then has no head. */
#include "proto/framed.h"

#include <stdlib.h>

enum status codec_decode(const struct codec *codec, const struct codec_request *request,
                         struct byte_view head, struct scan_call *call, struct error *err)
{
    *call = (struct scan_call){.dialect = NULL}; /* no temporary copy: struct scan_call has
                                                    several kilobytes */
    if (codec->record_bytes > 0) {
        call->dialect = calloc(1, codec->record_bytes);
        if (call->dialect == NULL) {
            return error_set(err, STATUS_OUT_OF_MEMORY, "no memory for the request");
        }
    }
    enum status status = codec->decode(request, head, call, err);
    if (status != STATUS_OK) {
        codec_release(call);
        *call = (struct scan_call){.dialect = NULL};
    }
    return status;
}

void codec_release(struct scan_call *call)
{
    struct framed *framed = call->dialect;
    if (framed != NULL) {
        json_doc_deinit(&framed->doc);
        free(framed->text);
        free(framed);
    }
    codec_release_carry(call);
    free(call->offsets.owned);
    call->offsets.owned = NULL;
    call->dialect = NULL;
}

void codec_release_carry(struct scan_call *call)
{
    free(call->carry.owned);
    call->carry.owned = NULL;
}

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
