/* How much memory a tensor's request needs, when that is charged, and the claim and the cost with
 * which it is admitted (admission.h). What is decided here from a plan is what is paid: the block
 * for input and output, the text of the answer, clients' shared memory in use. */
#ifndef TALLY_SERVER_INFER_MEMORY_H
#define TALLY_SERVER_INFER_MEMORY_H

#include "proto/elements.h"
#include "server/sched/request.h"

enum {
    INFER_FORGET_BYTES = 32 << 20 /* least length of a text for infer_text_forget() */
};

/* Compute the places of input and output in the block, and the size of the block. The request is
 * decoded and planned. Thread: the owner.
 * err   TOO_LARGE: the memory budget can never hold the request */
MUST_CHECK enum status infer_measure(struct request *request, struct error *err);

/* Returns the most memory that the text of the answer takes while it is printed; 0 if the answer is
 * binary, because the head of a binary answer is short. */
static inline uint64_t infer_text_bytes(const struct request *request)
{
    const bool text = request->scan.call.answer_format == CODEC_FORMAT_JSON;
    return text ? request->arrival.codec->head_max(&request->scan.call) : 0;
}

/* Returns the bytes of sums and elements of a part, or of offsets and gathered segments, that are
 * moved before the scan, and again after it; 0: the request has none. */
static inline uint64_t infer_part_bytes(const struct request *request)
{
    const struct codec_request *codec = &request->arrival.codec_request;
    return codec->carry_bytes + codec->offsets_bytes + request->memory.part_bytes +
           request->memory.gathered_bytes;
}

/* Returns the number of elements of the input buffer. */
uint64_t infer_input_count(const struct request *request);

/* Returns the bytes of elements that are changed before the scan (proto/elements.h); 0: none are. */
static inline uint64_t infer_elements_bytes(const struct request *request)
{
    const struct scan_call *call = &request->scan.call;
    return elements_change(&call->desc) ? elements_wide_bytes(&call->desc, call->input_bytes)
                                        : 0;
}

/* Returns the bytes of sums among which NaN is written after the scan; 0: there are none. */
static inline uint64_t infer_marks_bytes(const struct request *request)
{
    const bool asked =
        request->scan.call.desc.nan == SCAN_NAN_SKIP && !request->scan.call.totals;
    return asked ? request->memory.out_bytes : 0;
}

/* Charge the request with so much more of the memory budget, and count it for its client
 * (--per-client-memory). It is given back with the request. Thread: the owner.
 * err   OUT_OF_MEMORY; THROTTLED: with what its client's others count for, that is too much;
 *       TOO_LARGE: alone */
MUST_CHECK enum status infer_charge(struct request *request, uint64_t bytes, struct error *err);

/* Give so much of that back now. Thread: the owner. */
void infer_discharge(struct request *request, uint64_t bytes);

/* Have memory for `want` bytes of a text and a NUL; the first `used` stay. What is charged is twice
 * what came, but the place is taken at once where it is known that there will be `whole` bytes, not
 * 0: pages that nobody wrote to cost nothing. Thread: the owner. */
MUST_CHECK enum status infer_text_reserve(struct request *request, struct text *text,
                                          size_t used, size_t want, size_t whole,
                                          struct error *err);

/* Free a text that was reserved so, and give back what it was charged with. Thread: the owner. */
void infer_text_free(struct request *request, struct text *text);

/* Give back, in steps, the pages and the charge of a text of numbers inside the head that nobody
 * reads again, before an answer of about the same length is printed. Only for texts of
 * INFER_FORGET_BYTES or more: new pages for a shorter text cost more than its memory is worth.
 * Thread: the owner.
 * err   CLIENT_GONE: the work was given up */
MUST_CHECK enum status infer_text_forget(struct request *request, struct json_cut cut,
                                         struct error *err);

/* Have the block, and room in it for `bytes` bytes of payload, at most call.payload_max, within
 * the memory budget: twice what came, as long as that is not all. Thread: the owner. */
MUST_CHECK enum status infer_grow(struct request *request, uint64_t bytes, struct error *err);

/* Have everything that the request still needs: the rest of its block, the text of its answer.
 * Thread: the owner.
 * err   OUT_OF_MEMORY, TOO_LARGE */
MUST_CHECK enum status infer_hold_rest(struct request *request, struct error *err);

/* What the request needs in all; a guess as long as it is not decoded. `more`: bytes of the
 * body that are about to be landed. */
uint64_t infer_needed_bytes(const struct request *request, uint64_t more);

/* The claim that a request needs before `more` bytes of its body are landed; 0 for a small one.
 * Thread: the owner. */
uint64_t infer_claim(const struct request *request, uint64_t more);

/* Returns the estimated nanoseconds from a request's header to its answer: bytes received and sent,
 * text converted, elements scanned (scan_plan_effort()). A guess until the request is decoded;
 * `more`: as above. Thread: the owner. */
uint64_t infer_cost_ns(const struct request *request, uint64_t more);

/* Replace the claim and the cost of an admitted request by what is known now. Thread: the owner. */
void infer_settle_claim(struct request *request);

/* The same for any request; a small one has no claim. */
static inline void infer_settle(struct request *request)
{
    if (request->admission.claim > 0) {
        infer_settle_claim(request);
    }
}

/* Whether it may take what it needs. Thread: the owner. */
bool infer_is_covered(const struct request *request);

/* Admit the request for its present need. Returns false if the request now waits (admission owns
 * it). Thread: loop. */
MUST_CHECK bool infer_may_go_on(struct request *request, uint64_t more);

/* The header is read, and the head decoded if it needs nothing of the body: could the request
 * begin, and be through before its deadline? Sets request->reply.retry_after_s. Thread: loop.
 * err   TOO_LARGE, QUEUE_FULL, THROTTLED */
MUST_CHECK enum status infer_check(struct request *request, struct error *err);

#endif
