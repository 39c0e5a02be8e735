/* Which trace a request belongs to: the fields traceparent and tracestate of W3C Trace Context, as
 * they come and as they are answered.
 *
 *     trace_context_read(text, random, &context)       the caller's trace, and a span of ours in it
 *     trace_context_begin(&context, random)            or a trace of our own
 *     trace_context_text(&context, text)               for the answer
 *
 * What can be wrong is no error of the request: "If the vendor failed to parse traceparent, it
 * creates a new traceparent and deletes the tracestate." (Trace Context, 4.3) Pure. Thread: any. */
#ifndef TALLY_SERVER_TRACE_CONTEXT_H
#define TALLY_SERVER_TRACE_CONTEXT_H

#include "proto/macros.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* "propagate at least 512 characters of a combined header" (3.3.1.5) */
    TRACE_STATE_MAX = 512,
    TRACE_PARENT_CHARS = 55,
    TRACE_SAMPLED = 1, /* of flags; "the caller may have recorded trace data" */
    TRACE_RANDOM = 2   /* the right half of the trace's id, at least, was drawn at random */
};

struct trace_context {
    uint64_t trace[2]; /* both 0: the request is in no trace */
    uint64_t parent;   /* span of the caller; 0: the trace begins here */
    uint64_t span;     /* of this request; the seven after it are for its stages */
    uint8_t flags;     /* TRACE_ */
    char state[TRACE_STATE_MAX + 1]; /* the caller's tracestate, its fields joined; "": none */
};

static inline bool trace_context_is_set(const struct trace_context *context)
{
    return (context->trace[0] | context->trace[1]) != 0;
}

/* Go on with the trace that a traceparent says, in a span of this random number.
 * out   *context   untouched if the text is not valid: that is false */
MUST_CHECK bool trace_context_read(const char *traceparent, uint64_t random,
                                   struct trace_context *context);

/* A trace of our own, not sampled yet. */
void trace_context_begin(struct trace_context *context, const uint64_t random[3]);

/* What the fields tracestate say, joined in their order, if all of it is valid; else "". */
void trace_context_read_state(const char *const *fields, size_t count,
                              struct trace_context *context);

/* Append 16 hexadecimal digits and a NUL, returning the end. */
static inline char *trace_hex(uint64_t value, char *out)
{
    for (int i = 0; i < 16; i++) {
        out[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
    }
    out[16] = '\0';
    return out + 16;
}

/* A traceparent, NUL-terminated, for who is told of our span. */
void trace_context_text(const struct trace_context *context, char text[TRACE_PARENT_CHARS + 1]);

#endif
