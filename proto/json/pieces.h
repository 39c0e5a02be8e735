/* Long JSON arrays, converted in pieces side by side. The results, the errors included, are
 * those of one pass from the front. Private to proto/json_*.c. */
#ifndef TALLY_PROTO_JSON_PIECES_H
#define TALLY_PROTO_JSON_PIECES_H

#include "proto/json/tensor.h"

enum {
    JSON_ROUND_PIECES = 64 /* that are worked on side by side, then the next ones */
};

/* True if read->parallel, or print->parallel, has a use for the array. */
bool json_read_has_pieces(const struct json_read *read, struct json_cut cut);
bool json_print_has_pieces(const struct json_print *print);

/* As json_tensor_read(); err also CLIENT_GONE: given up. */
MUST_CHECK enum status json_tensor_read_pieces(const struct json_read *read,
                                               struct json_cut cut, uint64_t elements,
                                               void *out, struct error *err);

/* Append the elements, of which there are some, to the value that was begun. A writer whose
 * work was given up has failed. */
void json_tensor_write_pieces(const struct json_print *print, struct json_writer *w);

#endif
