/* A queue for tests of its consumers: cmocka's *state is the queue, and its requests end on
 * `completion`. */
#ifndef TALLY_TESTS_FAKE_QUEUE_H
#define TALLY_TESTS_FAKE_QUEUE_H

#include "server/sched/dispatch.h"
#include "server/sched/queue.h"
#include "tests/lib/unit.h"
#include "tests/unit/fake_request.h"

static struct completion completion;

/* The taker for tests in which one device serves all classes. */
static const atomic_uint fake_classes = LINE_ALL;
static struct dispatch_device fake_device;
static struct dispatch_worker fake_taker;

static inline int fake_queue_create(size_t max_requests, void **state)
{
    fake_device = (struct dispatch_device){.number = 0};
    fake_taker = (struct dispatch_worker){.classes = &fake_classes, .device = &fake_device};
    if (completion_init(&completion, NULL) != STATUS_OK) {
        return 1;
    }
    return queue_create(max_requests, (struct queue **)state, NULL) != STATUS_OK;
}

static inline int fake_queue_destroy(void **state)
{
    queue_destroy(*state);
    completion_deinit(&completion);
    return 0;
}

/* Create a request and queue it. */
static inline struct request *push(struct queue *queue, enum dtype dtype, int64_t elements)
{
    struct request *request = fake_request(&completion, dtype, elements);
    assert_int_equal(queue_push(queue, request, &request->error), STATUS_OK);
    queue_wake(queue);
    return request;
}

#endif
