/* Packs an answer (gzip, deflate): a piece at a time, so that the work can be given up, and
 * into memory that grows with what comes out, each byte of it reserved from the budget before
 * it is used: a gzip stream of zeros takes a thousandth of them. */
#ifndef TALLY_SERVER_PACKED_ANSWER_H
#define TALLY_SERVER_PACKED_ANSWER_H

#include "proto/codec.h"
#include "proto/parallel.h"
#include "server/sched/request.h"

struct request;

struct packed_answer {
    char *bytes; /* owned by the caller: free(); what it holds is reserved for the request */
    size_t count;
};

/* Pack `first`, then `second`. Thread: the request's owner.
 * err   OUT_OF_MEMORY: there is none for it now; CLIENT_GONE: given up by `parallel`. Nothing
 *       is left reserved then */
MUST_CHECK enum status packed_answer_make(struct request *request, enum coding coding,
                                          const struct byte_view views[2],
                                          const struct parallel *parallel,
                                          struct packed_answer *out, struct error *err);

#endif
