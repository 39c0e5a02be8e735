/* Both ways a round of pieces at a time: however long the text, a piece is short, and so is
 * what is done between rounds.
 *
 * Reading: the text is cut at commas. Where a part cannot be read, the whole is read once more
 * from the front, so that the error is the first one of the text, in the same words as ever.
 *
 * Printing: how long a piece gets is known only when it is there. So the pieces of a round are
 * printed each where it cannot meet the next, and then moved together. */
#include "proto/json/pieces.h"

#include <stdatomic.h>
#include <string.h>

enum {
    BYTES_PER_ELEMENT = 16 /* of text, about */
};

/* --- reading --- */

struct reading {
    struct json_read read; /* a part is a step, it has none of its own */
    const struct json_part *parts;
    void *out;
    atomic_bool failed; /* some part cannot be read: the others need not be */
};

static void read_piece(void *context, int index)
{
    struct reading *reading = context;
    struct error ignored = ERROR_INIT;
    if (!atomic_load(&reading->failed) &&
        json_tensor_read_part(&reading->read, &reading->parts[index], reading->out, &ignored) !=
            STATUS_OK) {
        atomic_store(&reading->failed, true);
    }
}

bool json_read_has_pieces(const struct json_read *read, struct json_cut cut)
{
    return read->parallel != NULL && cut.bytes / 2 >= read->parallel->grain;
}

enum status json_tensor_read_pieces(const struct json_read *read, struct json_cut cut,
                                    uint64_t elements, void *out, struct error *err)
{
    struct json_part parts[JSON_ROUND_PIECES];
    const struct parallel *parallel = read->parallel;
    struct json_rest rest = {.cut = cut, .elements = elements};
    struct reading reading = {.read = *read, .parts = parts, .out = out};
    reading.read.parallel = NULL;
    atomic_init(&reading.failed, false);
    int count = 0;
    do {
        count = json_tensor_cut(&rest, parallel->grain, parts, JSON_ROUND_PIECES);
        if (count > 0 && !parallel->run(parallel, count, read_piece, &reading)) {
            return parallel_given_up(err);
        }
    } while (count > 0 && !atomic_load(&reading.failed));
    const struct json_part whole = {cut.text, cut.bytes, 0, elements};
    return count == 0 && !atomic_load(&reading.failed)
               ? STATUS_OK
               : json_tensor_read_part(read, &whole, out, err);
}

/* --- printing --- */

struct round {
    const struct json_print *print;
    uint64_t first; /* element the round begins with */
    uint64_t piece; /* elements of every piece but perhaps the last */
    char *room;
    size_t piece_room; /* bytes for each */
    size_t bytes[JSON_ROUND_PIECES];
};

static void print_piece(void *context, int index)
{
    struct round *round = context;
    uint64_t first = round->first + (uint64_t)index * round->piece;
    uint64_t count = smaller_of(round->piece, round->print->elements - first);
    char *to = round->room + (size_t)index * round->piece_room;
    round->bytes[index] = (size_t)(json_tensor_print(round->print, first, count, to) - to);
}

/* Move the texts of a round together; returns their length. */
static size_t close_up(const struct round *round, int count)
{
    size_t bytes = round->bytes[0];
    for (int i = 1; i < count; i++) {
        memmove(round->room + bytes, round->room + (size_t)i * round->piece_room,
                round->bytes[i]);
        bytes += round->bytes[i];
    }
    return bytes;
}

static uint64_t piece_elements(const struct json_print *print)
{
    return print->parallel->grain / BYTES_PER_ELEMENT + 1;
}

bool json_print_has_pieces(const struct json_print *print)
{
    return print->parallel != NULL && print->elements / 2 >= piece_elements(print);
}

void json_tensor_write_pieces(const struct json_print *print, struct json_writer *w)
{
    const struct parallel *parallel = print->parallel;
    struct round round = {.print = print, .piece = piece_elements(print)};
    uint64_t piece_room = json_tensor_print_max(print, round.piece);
    if (piece_room > SIZE_MAX / JSON_ROUND_PIECES) {
        w->failed = true;
        return;
    }
    round.piece_room = (size_t)piece_room;
    while (round.first < print->elements && json_writer_ok(w)) {
        uint64_t left = print->elements - round.first;
        int count = (int)smaller_of((left - 1) / round.piece + 1, JSON_ROUND_PIECES);
        uint64_t before_last = (uint64_t)(count - 1);
        uint64_t last = smaller_of(left - before_last * round.piece, round.piece);
        round.room = json_writer_space(
            w, (size_t)(before_last * round.piece_room + json_tensor_print_max(print, last)));
        if (round.room == NULL || !parallel->run(parallel, count, print_piece, &round)) {
            w->failed = true;
            return;
        }
        json_writer_advance(w, close_up(&round, count));
        round.first += smaller_of(left, (uint64_t)count * round.piece);
    }
}
