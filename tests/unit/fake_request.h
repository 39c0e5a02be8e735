/* Requests for tests without HTTP: planned, with a block, on a completion list. */
#ifndef TALLY_TESTS_FAKE_REQUEST_H
#define TALLY_TESTS_FAKE_REQUEST_H

#include "server/sched/client.h"
#include "server/sched/completion.h"
#include "server/sched/request.h"

#include <poll.h>
#include <stdlib.h>

/* The default client of the requests. */
static struct client fake_client;
static atomic_uint_fast64_t fake_tickets;

/* Create a request for a row of `elements` elements; its block has the required bytes but no
 * slab. */
static inline struct request *fake_request(struct completion *completion, enum dtype dtype,
                                           int64_t elements)
{
    struct request *request = calloc(1, sizeof *request);
    request->completion = completion;
    request->arrival.client = &fake_client;
    request->line.ticket = ++fake_tickets;
    request->scan.device = -1;
    request->arrival.model = -1;
    request->scan.call.desc =
        (struct scan_desc){.dtype = dtype, .rank = 1, .sizes = {elements}};
    if (scan_plan_make(&request->scan.call.desc, &request->scan.plan, &request->error) !=
        STATUS_OK) {
        abort();
    }
    request->scan.planned = true;
    request->memory.block.bytes = (size_t)elements * dtype_info(dtype)->bytes;
    return request;
}

/* Return the oldest posted request, waiting up to timeout_ms; the others stay in *rest. */
static inline struct request *fake_await(struct completion *completion, struct request **rest,
                                         int timeout_ms)
{
    if (*rest == NULL) {
        struct pollfd pollfd = {.fd = completion->fd, .events = POLLIN};
        (void)poll(&pollfd, 1, timeout_ms);
        *rest = completion_take(completion);
    }
    struct request *request = *rest;
    if (request != NULL) {
        *rest = request->line.next;
        request->line.next = NULL;
    }
    return request;
}

#endif
