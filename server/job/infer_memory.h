/* The memory of a tensor request: its size, the time when it is charged, and the claim and the cost
 * with which the request is admitted (admission.h). The sizes computed from the plan are exactly
 * those that are charged: the block for input and output, the text of the answer, shared memory in
 * use. */
#ifndef TALLY_SERVER_INFER_MEMORY_H
#define TALLY_SERVER_INFER_MEMORY_H

#include "proto/elements.h"
#include "server/sched/request.h"

enum {
    INFER_FORGET_BYTES = 32 << 20 /* least length of a text for infer_text_forget() */
};

/* Compute the offsets of input and output in the block, and the size of the block; update the claim
 * (infer_update_claim()). The request is decoded and planned. Thread: the owner.
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

/* Returns the bytes of elements that are converted before the scan (proto/elements.h); 0: none
 * are. */
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

/* Charge the request with `bytes` more of the memory budget, and count them for its client
 * (--per-client-memory). The end of the request releases them. Thread: the owner.
 * err   OUT_OF_MEMORY; THROTTLED: the client's requests together exceed its limit; TOO_LARGE: this
 *       request alone exceeds it, or the budget */
MUST_CHECK enum status infer_charge(struct request *request, uint64_t bytes, struct error *err);

/* Release `bytes` of the charge. Thread: the owner. */
void infer_discharge(struct request *request, uint64_t bytes);

/* Ensure memory for `want` bytes of a text and a NUL, and keep its first `used` bytes. The charge
 * grows by doubling. whole: final length of the text, 0: not known. If it is known, its memory is
 * allocated at once; untouched pages take no memory of the system. Thread: the owner. */
MUST_CHECK enum status infer_text_reserve(struct request *request, struct text *text,
                                          size_t used, size_t want, size_t whole,
                                          struct error *err);

/* Free a text of infer_text_reserve(), and release its charge. Thread: the owner. */
void infer_text_free(struct request *request, struct text *text);

/* Release, in steps, the pages and the charge of a parsed text of numbers inside the head, before
 * an answer of about the same length is printed. Only for texts of INFER_FORGET_BYTES or more: for
 * a shorter text the page faults of the answer cost more than the memory is worth. Thread: the
 * owner.
 * err   CLIENT_GONE: the work was given up */
MUST_CHECK enum status infer_text_forget(struct request *request, struct json_cut cut,
                                         struct error *err);

/* Ensure that the block exists and has reserved room for `bytes` bytes of payload, at most
 * call.payload_max. The reservation grows by doubling. Thread: the owner. */
MUST_CHECK enum status infer_grow(struct request *request, uint64_t bytes, struct error *err);

/* Reserve everything that the request still needs: the rest of its block, the text of its answer.
 * Thread: the owner.
 * err   OUT_OF_MEMORY, TOO_LARGE */
MUST_CHECK enum status infer_reserve_rest(struct request *request, struct error *err);

/* Returns the bytes that the request needs in all; a guess until the request is decoded. `more`:
 * bytes of the body that will be stored next. */
uint64_t infer_needed_bytes(const struct request *request, uint64_t more);

/* Returns the claim that a request needs before `more` bytes of its body are stored; 0 for a small
 * request. Thread: the owner. */
uint64_t infer_claim(const struct request *request, uint64_t more);

/* Returns the estimated nanoseconds from a request's header to its answer: bytes received and sent,
 * text converted, elements scanned (scan_plan_effort()). A guess until the request is decoded;
 * `more`: as above. Thread: the owner. */
uint64_t infer_cost_ns(const struct request *request, uint64_t more);

/* Lower the claim of an admitted request, and correct its cost; do nothing for a small request.
 * Thread: the owner. */
void infer_update_claim(struct request *request);

/* Returns true if the claim covers the need of the request. Thread: the owner. */
bool infer_is_covered(const struct request *request);

/* Admit the request for its current need; a claim that exceeds the need of a planned request is
 * lowered. Returns false if the request now waits (admission owns it). Thread: loop. */
MUST_CHECK bool infer_admit(struct request *request, uint64_t more);

/* Check after the header is read, and the head is decoded if it needs no byte of the body, that the
 * request can begin and meet its deadline. Sets request->reply.retry_after_s. Thread: loop.
 * err   TOO_LARGE, QUEUE_FULL, THROTTLED, DEADLINE_PASSED */
MUST_CHECK enum status infer_check(struct request *request, struct error *err);

#endif
