/* How much memory a tensor's request needs, when that is charged, and the claim and the cost with
 * which it is admitted (admission.h). What is decided here from a plan is what is paid: the block
 * for input and output, the text of the answer, clients' shared memory in use. */
#ifndef TALLY_SERVER_INFER_MEMORY_H
#define TALLY_SERVER_INFER_MEMORY_H

#include "server/sched/request.h"

/* Where input and output lie in the block, and how large it must be. The request is planned.
 * Thread: the owner.
 * err   TOO_LARGE */
MUST_CHECK enum status infer_measure(struct request *request, struct error *err);

/* Memory for the text of the answer: what it takes at most while it is printed. 0 where the
 * answer is binary: its head is short. */
uint64_t infer_text_bytes(const struct request *request);

/* Bytes of sums and elements of a part, or of offsets and gathered segments, that are moved before the
 * scan, and again after it; 0: it has none. */
uint64_t infer_part_bytes(const struct request *request);

/* Elements of the input buffer. */
uint64_t infer_input_count(const struct request *request);

/* Bytes of elements that are changed before the scan (proto/elements.h), and of sums in which NaN is
 * put back to its places after it; 0: none are. */
uint64_t infer_elements_bytes(const struct request *request);
uint64_t infer_marks_bytes(const struct request *request);

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

/* Give back, in steps, the pages and the charge of a very long text of numbers inside the head that
 * nobody reads again, before an answer of about the same length is printed. A shorter text stays.
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

/* Tell admission.c what has become known of both. Thread: the owner. */
void infer_settle(struct request *request);

/* Whether it may take what it needs. Thread: the owner. */
bool infer_is_covered(const struct request *request);

/* Admit the request for its present need. Returns false if the request now waits (admission owns
 * it). Thread: loop. */
MUST_CHECK bool infer_may_go_on(struct request *request, uint64_t more);

/* The header is read, and the head decoded if it needs nothing of the body: could the request
 * begin, and be through before its deadline? Sets request->retry_after_s. Thread: loop.
 * err   TOO_LARGE, QUEUE_FULL, THROTTLED */
MUST_CHECK enum status infer_check(struct request *request, struct error *err);

#endif
