/* The memory of a tensor request: its size, the time when it is charged, and the claim and the
 * cost that the request states for admission (admission.h). The charged sizes are exactly the
 * sizes computed from the plan: the block for input and output, the text of the answer, and
 * shared memory in use. */
#ifndef TALLY_SERVER_INFER_MEMORY_H
#define TALLY_SERVER_INFER_MEMORY_H

#include "proto/elements.h"
#include "server/sched/request.h"

enum {
    /* infer_text_forget() is used for texts of at least this length */
    INFER_FORGET_BYTES = 32 << 20
};

/* Compute the offsets of input and output in the block, and the size of the block; update the
 * claim (infer_update_claim()). Requires a decoded and planned request. Thread: the owner.
 * err   TOO_LARGE: the memory budget can never hold the request */
MUST_CHECK enum status infer_measure(struct request *request, struct error *err);

/* Returns the maximum memory that the text of the answer takes while it is printed. For a
 * binary answer the result is 0, because the head of a binary answer is short. */
static inline uint64_t infer_text_bytes(const struct request *request)
{
    const bool text = request->scan.call.answer_format == CODEC_FORMAT_JSON;
    return text ? request->arrival.codec->head_max(&request->scan.call) : 0;
}

/* Returns the bytes that are moved before the scan and again after it: the sums and elements of
 * a part, or the offsets and gathered segments; 0: the request has none of these. */
static inline uint64_t infer_part_bytes(const struct request *request)
{
    const struct codec_request *codec = &request->arrival.codec_request;
    return codec->carry_bytes + codec->offsets_bytes + request->memory.part_bytes +
           request->memory.gathered_bytes;
}

/* Returns the number of elements of the input buffer. */
uint64_t infer_input_count(const struct request *request);

/* Returns the bytes of the elements that are converted before the scan (proto/elements.h); 0:
 * no conversion. */
static inline uint64_t infer_elements_bytes(const struct request *request)
{
    const struct scan_call *call = &request->scan.call;
    return elements_change(&call->desc) ? elements_wide_bytes(&call->desc, call->input_bytes)
                                        : 0;
}

/* Returns the bytes of the sums into which NaN is written after the scan; 0: no NaN is
 * written. */
static inline uint64_t infer_marks_bytes(const struct request *request)
{
    const bool asked =
        request->scan.call.desc.nan == SCAN_NAN_SKIP && !request->scan.call.totals;
    return asked ? request->memory.out_bytes : 0;
}

/* Charge the request with `bytes` more of the memory budget, and count them for its client
 * (--per-client-memory). The end of the request releases them. Thread: the owner.
 * err   OUT_OF_MEMORY; THROTTLED: the client's requests together exceed its limit; TOO_LARGE:
 *       this request alone exceeds that limit or the budget */
MUST_CHECK enum status infer_charge(struct request *request, uint64_t bytes, struct error *err);

/* Release `bytes` of the charge. Thread: the owner. */
void infer_discharge(struct request *request, uint64_t bytes);

/* Ensure memory for `want` bytes of a text and a NUL, and keep its first `used` bytes. The
 * charge grows by doubling. whole: final length of the text, 0: not known. If the final length
 * is known, its memory is allocated at once; untouched pages take no memory of the system.
 * Thread: the owner. */
MUST_CHECK enum status infer_text_reserve(struct request *request, struct text *text,
                                          size_t used, size_t want, size_t whole,
                                          struct error *err);

/* Free a text of infer_text_reserve(), and release its charge. Thread: the owner. */
void infer_text_free(struct request *request, struct text *text);

/* Release, in steps, the pages and the charge of a parsed text of numbers inside the head,
 * before an answer of about the same length is printed. Only for texts of INFER_FORGET_BYTES or
 * more; for a shorter text, page faults during the answer would cost more than the memory is
 * worth. Thread: the owner.
 * err   CLIENT_GONE: the work was given up */
MUST_CHECK enum status infer_text_forget(struct request *request, struct json_cut cut,
                                         struct error *err);

/* Ensure that the block exists and has reserved room for `bytes` bytes of payload, at most
 * call.payload_max. The reservation grows by doubling. Thread: the owner. */
MUST_CHECK enum status infer_grow(struct request *request, uint64_t bytes, struct error *err);

/* Reserve all memory that the request still needs: the rest of the block and the text of the
 * answer.
 * Thread: the owner.
 * err   OUT_OF_MEMORY, TOO_LARGE */
MUST_CHECK enum status infer_reserve_rest(struct request *request, struct error *err);

/* Returns the total bytes that the request needs; an estimate until the request is decoded.
 * `more`: number of body bytes that will be stored next. */
uint64_t infer_needed_bytes(const struct request *request, uint64_t more);

/* Returns the claim that a request needs before `more` bytes of its body are stored; 0 for a
 * small request. Thread: the owner. */
uint64_t infer_claim(const struct request *request, uint64_t more);

/* Returns the estimated nanoseconds from a request's header to its answer: bytes received and
 * sent, text converted, elements scanned (scan_plan_effort()). An estimate until the request is
 * decoded. `more`: as for infer_needed_bytes(). Thread: the owner. */
uint64_t infer_cost_ns(const struct request *request, uint64_t more);

/* Lower the claim of an admitted request, and correct its cost; do nothing for a small request.
 * Thread: the owner. */
void infer_update_claim(struct request *request);

/* Returns true if the claim covers the need of the request. Thread: the owner. */
bool infer_is_covered(const struct request *request);

/* Admit the request for its current need. If the claim of a planned request exceeds its need,
 * the claim is lowered. Returns false if the request now waits (admission owns it). Thread:
 * loop. */
MUST_CHECK bool infer_admit(struct request *request, uint64_t more);

/* Check that the request can begin and meet its deadline. Call this after the header is read
 * and, if the head needs no byte of the body, after the head is decoded. Sets
 * request->reply.retry_after_s. Thread: loop.
 * err   TOO_LARGE, QUEUE_FULL, THROTTLED, DEADLINE_PASSED */
MUST_CHECK enum status infer_check(struct request *request, struct error *err);

#endif
